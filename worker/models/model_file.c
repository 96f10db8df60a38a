/* model_file.c - a look into a version folder. */
#include "model_file.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/model_folder.h"

#define ITEMS_MAX          10000u       /* looked at in one folder */
#define DEPTH_MAX          4u           /* of the folders that shards lie in */
#define TOPOLOGY_BYTES_MAX (256u << 20) /* the engine reads no larger ones */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), e = strlen(end);
    return n > e && strcmp(name + n - e, end) == 0;
}

/* The path without its last part. */
static void parent_of(const char *path, char ret_parent[MODEL_FILE_PATH_BYTES])
{
    const char *slash = strrchr(path, '/');
    snprintf(ret_parent, MODEL_FILE_PATH_BYTES, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (slash == path)
        snprintf(ret_parent, MODEL_FILE_PATH_BYTES, "/");
}

void model_file_home(const char *path, char ret_folder[MODEL_FILE_PATH_BYTES])
{
    char version[MODEL_FILE_PATH_BYTES];
    parent_of(path, version);
    parent_of(version, ret_folder);
}

enum pen_status model_file_open(const char *path, int *ret_fd, size_t *ret_bytes, struct pen_error *reterr)
{
    char folder[MODEL_FILE_PATH_BYTES], home[MODEL_FILE_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    parent_of(path, folder);
    parent_of(folder, home);
    return pen_model_folder_open(folder, slash ? slash + 1 : path, home, ret_fd, ret_bytes, reterr);
}

/* Searches the whole file, because the manifest may come after megabytes of topology. The engine parses it properly. */
static bool has_manifest(const char *path)
{
    bool found = false;
    int fd;
    size_t bytes;
    if (model_file_open(path, &fd, &bytes, NULL) != PEN_OK)
        return strcmp(strrchr(path, '/') + 1, "model.json") == 0; /* loading tells why it cannot be read */
    void *text =
        bytes > 0 && bytes <= TOPOLOGY_BYTES_MAX ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (text != MAP_FAILED) {
        found = memmem(text, bytes, "\"weightsManifest\"", 17) != NULL;
        munmap(text, bytes);
    }
    close(fd);
    return found;
}

bool model_file_alone(const char *path)
{
    return ends_with(path, ".onnx") || ends_with(path, ".tflite") || (ends_with(path, ".json") && has_manifest(path));
}

static bool is_model(const char *folder, const char *name, char path[MODEL_FILE_PATH_BYTES])
{
    struct stat info;
    if (name[0] == '.' || (size_t)snprintf(path, MODEL_FILE_PATH_BYTES, "%s/%s", folder, name) >= MODEL_FILE_PATH_BYTES)
        return false;
    if (strcmp(name, "model.onnx") == 0 || strcmp(name, "model.tflite") == 0)
        return stat(path, &info) == 0;
    return ends_with(name, ".json") && strcmp(name, "config.json") != 0 && has_manifest(path);
}

static enum pen_status several(const char *folder, const char *a, const char *b, struct pen_error *reterr)
{
    const char *x = strrchr(a, '/') + 1, *y = strrchr(b, '/') + 1;
    bool swap = strcmp(x, y) > 0; /* sorted, so that the sentence is the same at each look */
    return pen_error_set(reterr, PEN_ERR_INVALID, "%.512s holds two models, %.128s and %.128s: leave one", folder,
                         swap ? y : x, swap ? x : y);
}

static enum pen_status none(const char *folder, struct pen_error *reterr)
{
    return pen_error_set(
        reterr, PEN_ERR_NOT_FOUND,
        "%.512s holds no model: put model.onnx, model.tflite or a TensorFlow.js model.json with its shards there",
        folder);
}

enum pen_status model_file_find(const char *folder, char ret_path[MODEL_FILE_PATH_BYTES], struct pen_error *reterr)
{
    char path[MODEL_FILE_PATH_BYTES], found[MODEL_FILE_PATH_BYTES] = "";
    struct dirent *item;
    DIR *dir = opendir(folder);
    enum pen_status status = PEN_OK;
    if (!dir)
        return none(folder, reterr);
    for (size_t i = 0; status == PEN_OK && i < ITEMS_MAX && (item = readdir(dir)); i++) {
        if (!is_model(folder, item->d_name, path))
            continue;
        if (found[0])
            status = several(folder, found, path, reterr);
        memcpy(found, path, sizeof found);
    }
    closedir(dir);
    if (status != PEN_OK)
        return status;
    if (!found[0])
        return none(folder, reterr);
    memcpy(ret_path, found, sizeof found);
    return PEN_OK;
}

/* ---- stamps ------------------------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    return ((hash ^ word) * 0x9e3779b97f4a7c15u) ^ hash >> 29;
}

static uint64_t info_mix(uint64_t hash, const struct stat *info)
{
    hash = mix(hash, (uint64_t)info->st_mtim.tv_sec);
    hash = mix(hash, (uint64_t)info->st_mtim.tv_nsec);
    hash = mix(hash, (uint64_t)info->st_size);
    hash = mix(hash, (uint64_t)info->st_mode << 32 | (uint64_t)info->st_uid);
    return mix(hash, (uint64_t)info->st_ino);
}

bool model_file_counts(const char *name)
{
    static const char *const texts[] = {".md", ".txt", ".log"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (ends_with(name, texts[i]))
            return false;
    return name[0] != '.' && strcmp(name, "config.json") != 0 && strcmp(name, "config.pbtxt") != 0;
}

/* A sum over the files below, so that the order in which the folder gives them does not count. */
static uint64_t folder_sum(const char *folder, unsigned depth)
{
    char path[MODEL_FILE_PATH_BYTES];
    struct dirent *item;
    struct stat info;
    uint64_t sum = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return 0;
    for (size_t i = 0; i < ITEMS_MAX && (item = readdir(dir)); i++) {
        if (item->d_name[0] == '.' ||
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, item->d_name) >= sizeof path || stat(path, &info) != 0)
            continue;
        uint64_t name = 0xcbf29ce484222325u;
        for (const char *c = item->d_name; *c; c++)
            name = (name ^ (uint8_t)*c) * 0x100000001b3u;
        if (S_ISREG(info.st_mode) && model_file_counts(item->d_name))
            sum += info_mix(name, &info);
        else if (S_ISDIR(info.st_mode) && depth + 1 < DEPTH_MAX)
            sum += mix(name, folder_sum(path, depth + 1));
    }
    closedir(dir);
    return sum;
}

uint64_t model_file_stamp(const char *folder)
{
    char path[MODEL_FILE_PATH_BYTES];
    struct stat info;
    if (model_file_find(folder, path, NULL) == PEN_OK && ends_with(path, ".tflite") && stat(path, &info) == 0)
        return info_mix(0, &info);
    return folder_sum(folder, 0);
}
