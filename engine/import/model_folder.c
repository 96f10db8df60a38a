/*
 * model_folder.c - the real path says whether a file lies in the folder; then that path is walked without following links, so that nobody can exchange
 * one of its parts in between.
 */
#include "penstock/model_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 3 /* links may be switched while they are followed: Kubernetes' ..data is */

/* The part of `real` below the folder; NULL = it lies elsewhere. */
static const char *below(const char *real, const char *folder)
{
    size_t length = strlen(folder);
    length -= length == 1; /* "/" */
    return strncmp(real, folder, length) == 0 && real[length] == '/' ? real + length + 1 : NULL;
}

/* The last step. A device or a pipe is not even opened: that alone may do something. */
static int open_regular(int folder, const char *name)
{
    struct stat info;
    if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    if (!S_ISREG(info.st_mode)) {
        errno = S_ISLNK(info.st_mode) ? ELOOP : EINVAL;
        return -1;
    }
    return openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Closes `folder`. -1: errno. */
static int walk(int folder, const char *path)
{
    char name[NAME_MAX + 1];
    while (folder >= 0) {
        size_t length = strcspn(path, "/");
        bool last = path[length] == '\0';
        if (length > NAME_MAX) {
            close(folder);
            errno = ENAMETOOLONG;
            return -1;
        }
        memcpy(name, path, length);
        name[length] = '\0';
        int next =
                last ? open_regular(folder, name) : openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
            error = errno;
        close(folder);
        errno = error;
        if (last)
            return next;
        folder = next;
        path += length + 1;
    }
    return -1;
}

/* Tells by EXDEV that the file lies in neither folder. */
static int open_once(const char *path, const char *const folders[2], char real[PATH_MAX])
{
    char root[PATH_MAX];
    if (!realpath(path, real))
        return -1;
    for (size_t i = 0; i < 2; i++) {
        const char *rest = folders[i] && realpath(folders[i][0] ? folders[i] : ".", root) ? below(real, root) : NULL;
        if (rest)
            return walk(open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), rest);
    }
    errno = EXDEV;
    return -1;
}

/* May another try find what this one missed? */
static bool was_switched(int error)
{
    return error == ENOENT || error == ELOOP || error == ENOTDIR;
}

static enum pen_status failed(const char *path, const char *real, int error, struct pen_error *reterr)
{
    struct stat info;
    bool link = lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
    if (error == EXDEV)
        return pen_error_set(reterr, PEN_ERR_IO,
                             "%.400s leads out of the model's folder, to %.200s: put the file itself there", path,
                             real);
    if (error == EINVAL)
        return pen_error_set(reterr, PEN_ERR_IO, "%.512s is not a regular file: put the file itself there", path);
    if (error == ENOENT && !link)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND, "cannot open %.512s: %s", path, strerror(error));
    return pen_error_set(reterr, PEN_ERR_IO, "cannot open %.512s: %s", path,
                         error == ENOENT ? "it is a link that leads nowhere" : strerror(error));
}

/* Owns fd. */
static enum pen_status opened(int fd, const char *path, int *ret_fd, size_t *ret_bytes, struct pen_error *reterr)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) { /* it was exchanged after the look at it */
        close(fd);
        return failed(path, "", EINVAL, reterr);
    }
    *ret_fd = fd;
    if (ret_bytes)
        *ret_bytes = (size_t)info.st_size;
    return PEN_OK;
}

enum pen_status pen_model_folder_open(const char *folder, const char *name, const char *also, int *ret_fd,
                                      size_t *ret_bytes, struct pen_error *reterr)
{
    char path[PATH_MAX], real[PATH_MAX] = "";
    const char *const folders[2] = {folder, also};
    int fd = -1;
    if ((size_t)snprintf(path, sizeof path, "%s%s%s", folder, folder[0] ? "/" : "", name) >= sizeof path)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the path of %.200s is longer than %d bytes", name, PATH_MAX - 1);
    for (int i = 0; fd < 0 && i < TRIES && (i == 0 || was_switched(errno)); i++)
        fd = open_once(path, folders, real);
    return fd < 0 ? failed(path, real, errno, reterr) : opened(fd, path, ret_fd, ret_bytes, reterr);
}

/* A relative path of names: no "..", no ".", nothing empty. */
static bool is_plain(const char *path)
{
    for (const char *name = path;; name++) {
        size_t length = strcspn(name, "/");
        if (length == 0 || (length <= 2 && strncmp(name, "..", length) == 0))
            return false;
        name += length;
        if (*name == '\0')
            return true;
    }
}

enum pen_status pen_model_folder_open_plain(const char *folder, const char *name, int *ret_fd, size_t *ret_bytes,
                                            struct pen_error *reterr)
{
    if (!is_plain(name))
        return pen_error_set(reterr, PEN_ERR_IO, "'%.200s' is not the path of a file beneath the model's folder", name);
    int fd = walk(open(folder[0] ? folder : ".", O_PATH | O_DIRECTORY | O_CLOEXEC), name);
    if (fd < 0)
        return pen_error_set(reterr, errno == ENOENT ? PEN_ERR_NOT_FOUND : PEN_ERR_IO,
                             "'%.200s' is not a regular file beneath the model's folder (links and '..' are refused): "
                             "%s",
                             name, strerror(errno));
    return opened(fd, name, ret_fd, ret_bytes, reterr);
}
