/* model_files.c - walks a version's folder and the model's beside it. */
#include "model_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct walk {
    struct model_files *files;
    const char *root;
    size_t root_bytes;
    size_t own;  /* files of the version's folder, which stand first: they win */
    bool beside; /* of the model's folder: versions are passed over */
};

void model_files_fini(struct model_files *files)
{
    manifest_fini(&files->manifest);
}

/* ---- which folder is which ----------------------------------------------------------------------------------------------------------- */

static uint64_t highest_version(const char *folder)
{
    uint64_t highest = 0;
    char path[DISK_PATH_BYTES];
    struct stat info;
    DIR *dir = opendir(folder);
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir)) {
        uint64_t version = reference_version(item->d_name);
        if (version > highest && disk_path(path, folder, item->d_name) && stat(path, &info) == 0 &&
            S_ISDIR(info.st_mode))
            highest = version;
    }
    if (dir)
        closedir(dir);
    return highest;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static enum pen_status name_set(struct model_files *files, const char *name, struct pen_error *reterr)
{
    if (!reference_name_good(name))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "'%.200s' is no name for a model in a registry: it has letters, digits, '.', '_', '-'; "
                             "--as gives another one",
                             name);
    snprintf(files->manifest.model, sizeof files->manifest.model, "%.128s", name);
    return PEN_OK;
}

/* NAME/VERSION/: with the version's number changed or not. */
static enum pen_status version_alone(struct model_files *files, const char *whole, const char *name, uint64_t version,
                                     struct pen_error *reterr)
{
    snprintf(files->version, sizeof files->version, "%s", whole);
    snprintf(files->model, sizeof files->model, "%.*s", (int)(strrchr(whole, '/') - whole), whole);
    files->manifest.version = version ? version : reference_version(last_part(whole));
    return name_set(files, name ? name : last_part(files->model), reterr);
}

static enum pen_status folders_find(struct model_files *files, const char *folder, const char *name, uint64_t version,
                                    struct pen_error *reterr)
{
    char whole[DISK_PATH_BYTES], number[24];
    if (!realpath(folder, whole))
        return disk_failed("read", folder, reterr);
    if (reference_version(last_part(whole)) && highest_version(whole) == 0)
        return version_alone(files, whole, name, version, reterr);
    uint64_t highest = highest_version(whole);
    snprintf(number, sizeof number, "%" PRIu64, highest);
    if (highest == 0 || !disk_path(files->version, whole, number))
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "%.500s has no version: put the model at %.100s/1/model.onnx, model.tflite or model.json; "
                             "`penstock import FILE` does",
                             whole, last_part(whole));
    snprintf(files->model, sizeof files->model, "%s", whole);
    files->manifest.version = version ? version : highest;
    return name_set(files, name ? name : last_part(whole), reterr);
}

/* ---- files --------------------------------------------------------------------------------------------------------------------------- */

/* Links are followed to files of this model, as Kubernetes makes them, and nowhere else. */
static int file_open(const struct model_files *files, const char *path, uint64_t *ret_bytes, struct pen_error *reterr)
{
    char real[DISK_PATH_BYTES];
    struct stat info;
    size_t home = strlen(files->model);
    int fd = realpath(path, real) ? open(real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (fd < 0) {
        disk_failed("read", path, reterr);
        return -1;
    }
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && strncmp(real, files->model, home) == 0 && real[home] == '/') {
        *ret_bytes = (uint64_t)info.st_size;
        return fd;
    }
    close(fd);
    pen_error_set(reterr, PEN_ERR_INVALID,
                  "%.500s is a link out of the model's folder, a pipe or a device: only files beneath it travel", path);
    return -1;
}

static bool is_there(const struct walk *walk, const char *path)
{
    for (size_t i = 0; i < walk->own; i++)
        if (strcmp(walk->files->manifest.files[i].path, path) == 0)
            return true;
    return false;
}

static enum pen_status file_add(const struct walk *walk, const char *path, struct pen_error *reterr)
{
    struct content_digest digest = {.hex = ""};
    uint64_t bytes = 0, read_bytes = 0;
    const char *name = path + walk->root_bytes + 1;
    if (is_there(walk, name))
        return PEN_OK;
    int fd = file_open(walk->files, path, &bytes, reterr);
    if (fd < 0)
        return reterr->status;
    bool good = content_digest_of_fd(fd, &digest, &read_bytes);
    close(fd);
    if (!good)
        return disk_failed("read", path, reterr);
    if (bytes != read_bytes)
        return pen_error_set(reterr, PEN_ERR_BUSY, "%.500s changed while it was read: push when nobody writes to it",
                             path);
    return manifest_add(&walk->files->manifest, name, bytes, &digest, reterr);
}

static enum pen_status folder_walk(const struct walk *walk, const char *folder, unsigned depth,
                                   struct pen_error *reterr);

static enum pen_status item_add(const struct walk *walk, const char *folder, const char *name, unsigned depth,
                                struct pen_error *reterr)
{
    char path[DISK_PATH_BYTES];
    struct stat info;
    if (name[0] == '.')
        return PEN_OK;
    if (!disk_path(path, folder, name) || stat(path, &info) != 0)
        return disk_failed("read", path, reterr);
    if (!S_ISDIR(info.st_mode))
        return file_add(walk, path, reterr);
    if (walk->beside && depth == 0 && reference_version(name) != 0)
        return PEN_OK;
    return folder_walk(walk, path, depth + 1, reterr);
}

static enum pen_status folder_walk(const struct walk *walk, const char *folder, unsigned depth,
                                   struct pen_error *reterr)
{
    DIR *dir = depth < MANIFEST_DEPTH_MAX ? opendir(folder) : NULL;
    if (!dir)
        return depth < MANIFEST_DEPTH_MAX
                   ? disk_failed("read", folder, reterr)
                   : pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%.500s is too deep: at most %u folders travel", folder,
                                   MANIFEST_DEPTH_MAX);
    enum pen_status status = PEN_OK;
    for (const struct dirent *item = readdir(dir); item && status == PEN_OK; item = readdir(dir))
        status = item_add(walk, folder, item->d_name, depth, reterr);
    closedir(dir);
    return status;
}

enum pen_status model_files_read(const char *folder, const char *name, uint64_t version, struct model_files *ret_files,
                                 struct pen_error *reterr)
{
    struct pen_error why = {.status = PEN_OK};
    struct model_files *files = ret_files;
    *files = (struct model_files){.model = ""};
    enum pen_status status = folders_find(files, folder, name, version, &why);
    struct walk walk = {.files = files, .root = files->version, .root_bytes = strlen(files->version)};
    if (status == PEN_OK)
        status = folder_walk(&walk, files->version, 0, &why);
    if (status == PEN_OK) {
        walk = (struct walk){.files = files,
                             .root = files->model,
                             .root_bytes = strlen(files->model),
                             .own = files->manifest.count,
                             .beside = true};
        status = folder_walk(&walk, files->model, 0, &why);
    }
    if (status == PEN_OK && files->manifest.count == 0)
        status = pen_error_set(&why, PEN_ERR_NOT_FOUND, "%.500s has no files", files->version);
    if (status != PEN_OK) {
        model_files_fini(files);
        return pen_error_set(reterr, status, "%s", why.text);
    }
    manifest_sort(&files->manifest);
    return PEN_OK;
}

int model_files_open(const struct model_files *files, size_t index, struct pen_error *reterr)
{
    char path[DISK_PATH_BYTES];
    uint64_t bytes = 0;
    const struct manifest_file *file = &files->manifest.files[index];
    if (!disk_path(path, files->version, file->path) || access(path, F_OK) != 0)
        disk_path(path, files->model, file->path);
    int fd = file_open(files, path, &bytes, reterr);
    if (fd >= 0 && bytes != file->bytes) {
        close(fd);
        pen_error_set(reterr, PEN_ERR_BUSY, "%.500s changed while it was read: push when nobody writes to it", path);
        return -1;
    }
    return fd;
}
