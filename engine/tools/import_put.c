#include "tools/import_put.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_MAX_BYTES 255

static enum pen_status fail(const char *verb, const char *path, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_IO, "cannot %s %.900s: %s", verb, path, strerror(errno));
}

static enum pen_status join(char to[IMPORT_PATH_BYTES], const char *folder, const char *name, struct pen_error *reterr)
{
    if ((size_t)snprintf(to, IMPORT_PATH_BYTES, "%s/%s", folder, name) >= IMPORT_PATH_BYTES) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the path of %.200s is longer than %d bytes", name,
                             IMPORT_PATH_BYTES);
    }
    return PEN_OK;
}

enum pen_status import_name_check(const char *name, struct pen_error *reterr)
{
    bool good = *name != '\0' && *name != '.' && strlen(name) <= NAME_MAX_BYTES;
    for (const char *c = name; *c; c++) {
        good = good && *c != '/' && *c != ':' && !iscntrl((unsigned char)*c) && *c != ' ';
    }
    return good
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_INVALID,
                               "'%.80s' is no name for a model: 1 to %d characters, not '/', ':' or spaces, and no dot "
                               "in front",
                               name, NAME_MAX_BYTES);
}

/* ---- writing ----------------------------------------------------------------------------------------------------------------------- */

static enum pen_status all_write(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            return PEN_ERR_IO;
        }
        bytes += done;
        size -= (size_t)done;
    }
    return PEN_OK;
}

/* A new file, on the disk when this returns: a power cut must not leave a name without its content. */
static enum pen_status file_write(const char *folder, const char *name, const void *bytes, size_t size,
                                  struct pen_error *reterr)
{
    char path[IMPORT_PATH_BYTES];
    enum pen_status status = join(path, folder, name, reterr);
    if (status != PEN_OK) {
        return status;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        return fail("write", path, reterr);
    }
    if (all_write(fd, bytes, size) != PEN_OK || fsync(fd) != 0) {
        status = fail("write", path, reterr);
    }
    close(fd);
    return status;
}

/* mkdir -p of all folders of the path; last: of its last part, too. */
static enum pen_status folders_make(const char *path, bool last, struct pen_error *reterr)
{
    char part[IMPORT_PATH_BYTES];
    snprintf(part, sizeof part, "%s", path);
    for (char *c = part + 1; *c; c++) {
        if (*c != '/') {
            continue;
        }
        *c = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return fail("make the folder", part, reterr);
        }
        *c = '/';
    }
    return last && mkdir(part, 0777) != 0 && errno != EEXIST ? fail("make the folder", part, reterr) : PEN_OK;
}

/* External data and shards keep their names, which the engine has found to lie beneath the model's folder. */
static enum pen_status beside_write(const struct import_parts *parts, const char *folder, struct pen_error *reterr)
{
    char path[IMPORT_PATH_BYTES];
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < parts->file_count; i++) {
        const struct import_file *file = &parts->files[i];
        if (strcmp(file->name, "config.json") == 0 || strcmp(file->name, "labels.txt") == 0) {
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "the model keeps data in a file '%s', which is the worker's name for something else: "
                                 "export it with another",
                                 file->name);
        }
        status = join(path, folder, file->name, reterr);
        if (status == PEN_OK && strchr(file->name, '/') != NULL) {
            status = folders_make(path, false, reterr);
        }
        if (status == PEN_OK) {
            status = file_write(folder, file->name, file->data, file->bytes, reterr);
        }
    }
    return status;
}

/* config: the folder of config.json. */
static enum pen_status parts_write(const struct import_parts *parts, const char *version, const char *config,
                                   struct pen_error *reterr)
{
    enum pen_status status = mkdir(version, 0777) == 0 ? PEN_OK : fail("make the folder", version, reterr);
    if (status == PEN_OK) {
        status = file_write(version, parts->model, parts->bytes, parts->size, reterr);
    }
    if (status == PEN_OK) {
        status = beside_write(parts, version, reterr);
    }
    if (status == PEN_OK) {
        status = file_write(config, "config.json", parts->config, strlen(parts->config), reterr);
    }
    if (status == PEN_OK && parts->labels != NULL) {
        status = file_write(config, "labels.txt", parts->labels, parts->labels_size, reterr);
    }
    return status;
}

/* ---- in place ---------------------------------------------------------------------------------------------------------------------- */

static int item_remove(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info;
    (void)type;
    (void)at;
    return remove(path);
}

/* A file system that does not know the flag does the same in steps; nobody else writes here but another import. */
static int rename_new(const char *from, const char *to)
{
    struct stat info;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return -1;
    }
    if (lstat(to, &info) == 0) {
        errno = EEXIST;
        return -1;
    }
    return rename(from, to);
}

static int rename_over(const char *from, const char *to, const char *aside)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return -1;
    }
    return rename(to, aside) == 0 ? rename(from, to) : -1;
}

static enum pen_status there(const char *folder, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_INVALID,
                         "%.600s is there already: --version N makes another version, --force replaces this one",
                         folder);
}

static enum pen_status version_place(const struct import_parts *parts, const char *from, const char *to,
                                     const char *aside, struct pen_error *reterr)
{
    if (rename_new(from, to) == 0) {
        return PEN_OK;
    }
    if (errno != EEXIST && errno != ENOTEMPTY) {
        return fail("put in place", to, reterr);
    }
    if (!parts->force) {
        return there(to, reterr);
    }
    return rename_over(from, to, aside) == 0 ? PEN_OK : fail("put in place", to, reterr);
}

/* The hidden folder beside the models; its rights are those that a new folder of this user has. */
static enum pen_status stage_new(const char *models, char stage[IMPORT_PATH_BYTES], struct pen_error *reterr)
{
    enum pen_status status = folders_make(models, true, reterr);
    if (status == PEN_OK) {
        status = join(stage, models, ".import-XXXXXX", reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    mode_t mask = umask(0);
    umask(mask);
    if (mkdtemp(stage) == NULL || chmod(stage, 0777 & ~mask) != 0) {
        return fail("make a folder in", models, reterr);
    }
    return PEN_OK;
}

static enum pen_status stage_fill(const struct import_parts *parts, const char *stage, bool is_new,
                                  const char *model_folder, const char *version_folder, struct pen_error *reterr)
{
    char number[24], version[IMPORT_PATH_BYTES], aside[IMPORT_PATH_BYTES];
    snprintf(number, sizeof number, "%" PRIu64, parts->version);
    enum pen_status status = join(version, stage, number, reterr);
    if (status == PEN_OK) {
        status = join(aside, stage, "old", reterr);
    }
    if (status == PEN_OK) {
        status = parts_write(parts, version, is_new ? stage : version, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    if (is_new) {
        return rename_new(stage, model_folder) == 0 ? PEN_OK : fail("put in place", model_folder, reterr);
    }
    return version_place(parts, version, version_folder, aside, reterr);
}

enum pen_status import_put(const struct import_parts *parts, char ret_folder[IMPORT_PATH_BYTES],
                           char ret_config[IMPORT_PATH_BYTES], struct pen_error *reterr)
{
    char stage[IMPORT_PATH_BYTES], folder[IMPORT_PATH_BYTES], number[24];
    struct stat info;
    snprintf(number, sizeof number, "%" PRIu64, parts->version);
    enum pen_status status = join(folder, parts->models, parts->name, reterr);
    if (status == PEN_OK) {
        status = join(ret_folder, folder, number, reterr);
    }
    bool is_new = status == PEN_OK && lstat(folder, &info) != 0;
    if (status == PEN_OK) {
        status = join(ret_config, is_new ? folder : ret_folder, "config.json", reterr);
    }
    if (status == PEN_OK && !is_new && !parts->force && lstat(ret_folder, &info) == 0) {
        return there(ret_folder, reterr);
    }
    if (status == PEN_OK) {
        status = stage_new(parts->models, stage, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    status = stage_fill(parts, stage, is_new, folder, ret_folder, reterr);
    if (lstat(stage, &info) == 0) {
        nftw(stage, item_remove, 16, FTW_DEPTH | FTW_PHYS);
    }
    return status;
}
