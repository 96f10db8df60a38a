/* disk.c - mkdir -p, rm -r, whole writes. */
#include "disk.h"

#include "job_id.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 16u

enum pen_status disk_failed(const char *what, const char *path, struct pen_error *reterr)
{
    int error = errno;
    return pen_error_set(reterr, error == ENOENT ? PEN_ERR_NOT_FOUND : PEN_ERR_IO, "cannot %s %.700s: %s", what, path,
                         strerror(error));
}

bool disk_path(char path[DISK_PATH_BYTES], const char *root, const char *name)
{
    int length = snprintf(path, DISK_PATH_BYTES, "%s/%s", root, name);
    return length > 0 && (unsigned)length < DISK_PATH_BYTES;
}

void disk_new_name(char name[48])
{
    snprintf(name, 48, ".new-%016" PRIx64, random_u64());
}

enum pen_status disk_make(const char *path, struct pen_error *reterr)
{
    char above[DISK_PATH_BYTES];
    if (strlen(path) >= sizeof above)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the path %.200s... is too long", path);
    memcpy(above, path, strlen(path) + 1);
    for (char *slash = strchr(above + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(above, 0777) != 0 && errno != EEXIST)
            return disk_failed("make the folder", above, reterr);
        *slash = '/';
    }
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return disk_failed("make the folder", path, reterr);
    return PEN_OK;
}

enum pen_status disk_make_above(const char *path, struct pen_error *reterr)
{
    char above[DISK_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return PEN_OK;
    snprintf(above, sizeof above, "%.*s", (int)(slash - path), path);
    return disk_make(above, reterr);
}

static bool remove_below(int parent, const char *name, unsigned depth)
{
    bool good = depth < DEPTH_MAX;
    int fd = good ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return good && (unlinkat(parent, name, 0) == 0 || errno == ENOENT);
    }
    for (const struct dirent *item = readdir(dir); item; item = readdir(dir))
        if (strcmp(item->d_name, ".") != 0 && strcmp(item->d_name, "..") != 0)
            good &= remove_below(dirfd(dir), item->d_name, depth + 1);
    closedir(dir);
    return good && (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT);
}

bool disk_remove(const char *path)
{
    return remove_below(AT_FDCWD, path, 0);
}

bool disk_pwrite(int fd, const void *bytes, size_t count, uint64_t at)
{
    const char *from = bytes;
    while (count > 0) {
        ssize_t done = pwrite(fd, from, count, (off_t)at);
        if (done < 0 && errno != EINTR)
            return false;
        from += done > 0 ? done : 0;
        at += done > 0 ? (uint64_t)done : 0;
        count -= done > 0 ? (size_t)done : 0;
    }
    return true;
}

enum pen_status disk_file_write(const char *path, const void *bytes, size_t count, struct pen_error *reterr)
{
    char other[DISK_PATH_BYTES], name[48];
    const char *slash = strrchr(path, '/');
    disk_new_name(name);
    int length = snprintf(other, sizeof other, "%.*s%s", (int)(slash ? slash + 1 - path : 0), path, name);
    int fd = (unsigned)length < sizeof other ? open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644) : -1;
    bool good = fd >= 0 && disk_pwrite(fd, bytes, count, 0) && fsync(fd) == 0;
    if (fd >= 0)
        good &= close(fd) == 0;
    if (good && rename(other, path) == 0)
        return PEN_OK;
    enum pen_status status = disk_failed("write", path, reterr);
    if (fd >= 0)
        unlink(other);
    return status;
}
