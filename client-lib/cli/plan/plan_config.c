#include "plan_config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#define CONFIG_BYTES_MAX (16u << 20)
#define COPY_BYTES_MAX   (256u << 20) /* of a file beside the versions: labels, calibration */

static enum pen_status io_failed(const char *path, const char *what, struct pen_error *reterr)
{
    return pen_error_set(reterr, errno == ENOENT ? PEN_ERR_NOT_FOUND : PEN_ERR_IO, "%.800s: cannot %s it: %s.", path,
                         what, strerror(errno));
}

/* ---- the values ---- */

static void number_set(cJSON *object, const char *key, double value)
{
    cJSON *item = cJSON_CreateNumber(value);
    if (cJSON_GetObjectItemCaseSensitive(object, key)) {
        cJSON_ReplaceItemInObjectCaseSensitive(object, key, item);
    } else {
        cJSON_AddItemToObject(object, key, item);
    }
}

/* The object or list of that name, made when it is not there. */
static cJSON *part_of(cJSON *config, const char *key, cJSON *(*make)(void))
{
    cJSON *part = cJSON_GetObjectItemCaseSensitive(config, key);
    if (!part) {
        part = make();
        cJSON_AddItemToObject(config, key, part);
    }
    return part;
}

/* The sizes, each with the dims of the first entry that was there. */
static void warm_up_set(cJSON *config, const uint32_t *sizes, size_t count)
{
    cJSON *old = cJSON_DetachItemFromObjectCaseSensitive(config, "model_warmup");
    cJSON *list = cJSON_AddArrayToObject(config, "model_warmup");
    for (size_t i = 0; i < count; i++) {
        cJSON *entry =
            cJSON_GetArraySize(old) > 0 ? cJSON_Duplicate(cJSON_GetArrayItem(old, 0), true) : cJSON_CreateObject();
        number_set(entry, "batch_size", sizes[i]);
        cJSON_AddItemToArray(list, entry);
    }
    cJSON_Delete(old);
}

static void values_set(cJSON *config, const struct plan_values *values)
{
    cJSON *groups = cJSON_GetObjectItemCaseSensitive(config, "instance_group");
    if (values->slots > 1 || cJSON_GetArraySize(groups) > 0) {
        groups = part_of(config, "instance_group", cJSON_CreateArray);
        if (cJSON_GetArraySize(groups) == 0) {
            cJSON_AddItemToArray(groups, cJSON_CreateObject());
        }
        number_set(cJSON_GetArrayItem(groups, 0), "count", values->slots);
    }
    if (!values->batched) {
        return;
    }
    cJSON *batching = part_of(config, "dynamic_batching", cJSON_CreateObject);
    number_set(config, "max_batch_size", values->batch);
    number_set(batching, "max_queue_delay_microseconds", (double)values->delay_us);
    cJSON_DeleteItemFromObjectCaseSensitive(batching, "preferred_batch_size"); /* it would close batches earlier */
    warm_up_set(config, values->warm, values->warm_count);
}

/* ---- reading and writing ---- */

static enum pen_status text_read(const char *path, size_t bytes_max, char **ret_text, size_t *ret_bytes,
                                 mode_t *ret_mode, struct pen_error *reterr)
{
    struct stat info;
    FILE *in = fopen(path, "rb");
    if (!in) {
        return io_failed(path, "read", reterr);
    }
    bool fits = fstat(fileno(in), &info) == 0 && S_ISREG(info.st_mode) && (uint64_t)info.st_size <= bytes_max;
    char *text = fits ? malloc((size_t)info.st_size + 1) : NULL;
    size_t bytes = text ? fread(text, 1, (size_t)info.st_size, in) : 0;
    fclose(in);
    if (!text) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%.800s: it is no regular file of at most %zu bytes.", path,
                             bytes_max);
    }
    text[bytes] = '\0';
    *ret_text = text;
    *ret_bytes = bytes;
    *ret_mode = info.st_mode & 0777;
    return PEN_OK;
}

/* An empty object where there is no file. */
static enum pen_status config_read(const char *path, cJSON **ret_config, mode_t *ret_mode, struct pen_error *reterr)
{
    char *text = NULL;
    size_t bytes = 0;
    struct pen_error error = {.status = PEN_OK, .text = ""};
    *ret_mode = 0644;
    enum pen_status status = text_read(path, CONFIG_BYTES_MAX, &text, &bytes, ret_mode, &error);
    if (status != PEN_OK && status != PEN_ERR_NOT_FOUND) {
        return pen_error_set(reterr, status, "%s", error.text);
    }
    *ret_config = text ? cJSON_Parse(text) : cJSON_CreateObject();
    free(text);
    if (!cJSON_IsObject(*ret_config)) {
        cJSON_Delete(*ret_config);
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%.800s: it is no JSON object; mend it first.", path);
    }
    return PEN_OK;
}

static bool file_fill(int fd, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t done = write(fd, text, bytes);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        text += done;
        bytes -= (size_t)done;
    }
    return true;
}

/* Whoever reads the file finds the old one or the new one whole, also after a loss of power. */
static enum pen_status file_replace(const char *path, const char *text, size_t bytes, mode_t mode,
                                    struct pen_error *reterr)
{
    char target[PATH_MAX], fresh[PATH_MAX + 16];
    if (!realpath(path, target)) { /* a link stays a link */
        snprintf(target, sizeof target, "%s", path);
    }
    char *slash = strrchr(target, '/');
    int folder_bytes = slash ? (int)(slash - target) : 1;
    const char *folder = slash ? target : ".";
    snprintf(fresh, sizeof fresh, "%.*s/.config.json.XXXXXX", folder_bytes, folder);
    int fd = mkstemp(fresh);
    if (fd < 0) {
        return io_failed(fresh, "make", reterr);
    }
    bool good = file_fill(fd, text, bytes) && fchmod(fd, mode) == 0 && fsync(fd) == 0;
    good = close(fd) == 0 && good && rename(fresh, target) == 0;
    if (!good) {
        enum pen_status status = io_failed(target, "write", reterr);
        unlink(fresh);
        return status;
    }
    snprintf(fresh, sizeof fresh, "%.*s/.", folder_bytes, folder);
    int at = open(fresh, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at >= 0) {
        fsync(at);
        close(at);
    }
    return PEN_OK;
}

static enum pen_status config_write(const char *path, const cJSON *config, mode_t mode, struct pen_error *reterr)
{
    char *text = cJSON_Print(config);
    if (!text) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for config.json.");
    }
    size_t bytes = strlen(text);
    text[bytes] = '\n'; /* in the place of its NUL */
    enum pen_status status = file_replace(path, text, bytes + 1, mode, reterr);
    cJSON_free(text);
    return status;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Where Triton's file is the only one, ours would take its place as a whole. */
static enum pen_status pbtxt_refuse(const char *folder, const struct plan_values *values, struct pen_error *reterr)
{
    char path[PLAN_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/config.pbtxt", folder);
    return exists(path) ? pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                                        "%.700s: a config.json beside it would take its place as a whole; write "
                                        "max_batch_size: %u and max_queue_delay_microseconds: %llu there by hand.",
                                        path, values->batch, (unsigned long long)values->delay_us)
                        : PEN_OK;
}

enum pen_status plan_config_apply(const char *models, const char *name, uint64_t version,
                                  const struct plan_values *values, char ret_path[PLAN_PATH_BYTES],
                                  struct pen_error *reterr)
{
    char path[PLAN_PATH_BYTES - 16];
    cJSON *config = NULL;
    mode_t mode;
    snprintf(path, sizeof path, "%.500s/%.255s", models, name);
    if (!exists(path)) {
        return io_failed(path, "find", reterr);
    }
    snprintf(ret_path, PLAN_PATH_BYTES, "%.500s/%.255s/%llu/config.json", models, name, (unsigned long long)version);
    enum pen_status status = PEN_OK;
    if (!exists(ret_path)) {
        snprintf(ret_path, PLAN_PATH_BYTES, "%s/config.json", path);
        status = exists(ret_path) ? PEN_OK : pbtxt_refuse(path, values, reterr);
    }
    status = status == PEN_OK ? config_read(ret_path, &config, &mode, reterr) : status;
    if (status == PEN_OK) {
        values_set(config, values);
        status = config_write(ret_path, config, mode, reterr);
        cJSON_Delete(config);
    }
    return status;
}

/* ---- a copy to try settings on ---- */

static enum pen_status file_copy(const char *from, const char *to, struct pen_error *reterr)
{
    char *text = NULL;
    size_t bytes = 0;
    mode_t mode;
    if (link(from, to) == 0 || errno == EEXIST) {
        return PEN_OK;
    }
    enum pen_status status = text_read(from, COPY_BYTES_MAX, &text, &bytes, &mode, reterr);
    if (status == PEN_OK) {
        FILE *out = fopen(to, "wbx"); /* never into a file that is there: it may be a link to the original */
        bool good = out && fwrite(text, 1, bytes, out) == bytes;
        good = out && fclose(out) == 0 && good;
        status = good ? PEN_OK : io_failed(to, "write", reterr);
    }
    free(text);
    return status;
}

/* A folder of a version becomes a link; a file is copied. */
static enum pen_status entry_copy(const char *from, const char *to, struct pen_error *reterr)
{
    char real[PATH_MAX], config[PATH_MAX + 16];
    struct stat info;
    if (stat(from, &info) != 0 || !realpath(from, real)) {
        return PEN_OK; /* a link to nothing is nothing to a worker, too */
    }
    if (S_ISREG(info.st_mode)) {
        return file_copy(real, to, reterr);
    }
    snprintf(config, sizeof config, "%s/config.json", real);
    if (S_ISDIR(info.st_mode) && exists(config)) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "%.700s: a version with a config.json of its own cannot be tried on workers of plan's "
                             "own; measure the pool's (without --try-slots and --try-threads).",
                             from);
    }
    bool made = !S_ISDIR(info.st_mode) || symlink(real, to) == 0 || errno == EEXIST;
    return made ? PEN_OK : io_failed(to, "make", reterr);
}

static enum pen_status entries_copy(const char *from, const char *to, struct pen_error *reterr)
{
    char source[PLAN_PATH_BYTES * 2], target[PLAN_PATH_BYTES * 2];
    DIR *folder = opendir(from);
    enum pen_status status = PEN_OK;
    if (!folder) {
        return io_failed(from, "read", reterr);
    }
    for (const struct dirent *e = readdir(folder); e && status == PEN_OK; e = readdir(folder)) {
        if (e->d_name[0] == '.' || strcmp(e->d_name, "config.json") == 0) {
            continue;
        }
        snprintf(source, sizeof source, "%.900s/%.255s", from, e->d_name);
        snprintf(target, sizeof target, "%.900s/%.255s", to, e->d_name);
        status = entry_copy(source, target, reterr);
    }
    closedir(folder);
    return status;
}

enum pen_status plan_config_copy(const char *models, const char *name, const char *to, const struct plan_values *values,
                                 struct pen_error *reterr)
{
    char from[PLAN_PATH_BYTES], path[PLAN_PATH_BYTES], file[PLAN_PATH_BYTES + 16];
    cJSON *config = NULL;
    mode_t mode;
    snprintf(from, sizeof from, "%.500s/%.255s", models, name);
    snprintf(path, sizeof path, "%.500s/%.255s", to, name);
    if ((mkdir(to, 0700) != 0 && errno != EEXIST) || (mkdir(path, 0700) != 0 && errno != EEXIST)) {
        return io_failed(path, "make", reterr);
    }
    enum pen_status status = entries_copy(from, path, reterr);
    snprintf(file, sizeof file, "%s/config.json", from);
    bool configured = exists(file);
    if (status == PEN_OK && values && !configured) {
        status = pbtxt_refuse(from, values, reterr);
    }
    status = status == PEN_OK ? config_read(file, &config, &mode, reterr) : status;
    if (status != PEN_OK) {
        return status;
    }
    if (values) {
        values_set(config, values);
    }
    snprintf(file, sizeof file, "%s/config.json", path);
    if (values || configured) {
        status = config_write(file, config, 0600, reterr);
    }
    cJSON_Delete(config);
    return status;
}

void plan_config_remove(const char *to, const char *name)
{
    char path[PLAN_PATH_BYTES], entry[PLAN_PATH_BYTES + 260];
    snprintf(path, sizeof path, "%.500s/%.255s", to, name);
    DIR *folder = opendir(path);
    for (const struct dirent *e = folder ? readdir(folder) : NULL; e; e = readdir(folder)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            snprintf(entry, sizeof entry, "%.1000s/%.255s", path, e->d_name);
            unlink(entry); /* links and files: there are no folders */
        }
    }
    if (folder) {
        closedir(folder);
    }
    rmdir(path);
    rmdir(to);
}
