/* place_folder.c - a registry that is a folder. */
#include "disk.h"
#include "place_kind.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES (256u * 1024u)
#define DEPTH_MAX   4u

static enum pen_status content_open(const struct place *place, const char *key, int *ret_fd, uint64_t *ret_bytes,
                                    struct pen_error *reterr)
{
    char path[DISK_PATH_BYTES];
    struct stat info;
    if (!disk_path(path, place->root, key))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the path of %s is too long", key);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return disk_failed("read", path, reterr);
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return pen_error_set(reterr, PEN_ERR_IO, "%.700s is no regular file", path);
    }
    *ret_fd = fd;
    *ret_bytes = (uint64_t)info.st_size;
    return PEN_OK;
}

static enum pen_status folder_read(struct place *place, const struct place_part *part, struct pen_error *reterr)
{
    int fd = -1;
    uint64_t size = 0, at = part->first;
    enum pen_status status = content_open(place, part->key, &fd, &size, reterr);
    if (status != PEN_OK)
        return status;
    uint64_t end = part->last < size ? part->last + 1 : size;
    char *block = malloc(BLOCK_BYTES);
    status = block ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to read %s", part->key);
    while (status == PEN_OK && at < end) {
        ssize_t got = pread(fd, block, end - at < BLOCK_BYTES ? (size_t)(end - at) : BLOCK_BYTES, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            status = disk_failed("read", part->key, reterr);
        if (got <= 0 || !part->sink(part->context, at, block, (size_t)got))
            break;
        at += (uint64_t)got;
    }
    free(block);
    close(fd);
    return status;
}

static enum pen_status folder_look(struct place *place, const char *key, uint64_t *ret_bytes, struct pen_error *reterr)
{
    int fd = -1;
    enum pen_status status = content_open(place, key, &fd, ret_bytes, reterr);
    if (fd >= 0)
        close(fd);
    return status;
}

static bool block_pass(int from, int to, char *block, uint64_t *at, uint64_t size)
{
    ssize_t got = pread(from, block, BLOCK_BYTES, (off_t)*at);
    if (got < 0)
        return errno == EINTR;
    errno = EIO; /* it became shorter while it was read */
    if (got == 0 || (uint64_t)got > size - *at || !disk_pwrite(to, block, (size_t)got, *at))
        return false;
    *at += (uint64_t)got;
    return true;
}

static bool file_pass(int from, int to, uint64_t size)
{
    char *block = malloc(BLOCK_BYTES);
    uint64_t at = 0;
    bool good = block != NULL;
    while (good && at < size)
        good = block_pass(from, to, block, &at, size);
    free(block);
    return good && fsync(to) == 0;
}

static enum pen_status file_put(const char *path, const struct place_content *content, struct pen_error *reterr)
{
    char other[DISK_PATH_BYTES], name[48];
    const char *slash = strrchr(path, '/');
    disk_new_name(name);
    snprintf(other, sizeof other, "%.*s%.47s", (int)(slash + 1 - path), path, name);
    int fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    bool good = fd >= 0 && file_pass(content->fd, fd, content->size);
    if (fd >= 0)
        good &= close(fd) == 0;
    if (good && rename(other, path) == 0)
        return PEN_OK;
    enum pen_status status = disk_failed("write", path, reterr);
    unlink(other);
    return status;
}

static enum pen_status folder_write(struct place *place, const char *key, const struct place_content *content,
                                    struct pen_error *reterr)
{
    char path[DISK_PATH_BYTES];
    if (!disk_path(path, place->root, key) || strlen(path) > DISK_PATH_BYTES - 64)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the path of %s is too long", key);
    enum pen_status status = disk_make_above(path, reterr);
    if (status != PEN_OK)
        return status;
    return content->bytes ? disk_file_write(path, content->bytes, (size_t)content->size, reterr)
                          : file_put(path, content, reterr);
}

struct listing {
    const struct place *place;
    place_tell *tell;
    void *context;
    bool goes_on;
};

static void list_below(struct listing *listing, const char *below, unsigned depth)
{
    char path[DISK_PATH_BYTES], inner[PLACE_KEY_BYTES];
    struct stat info;
    DIR *dir = disk_path(path, listing->place->root, below) ? opendir(path) : NULL;
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item && listing->goes_on; item = readdir(dir)) {
        int length = snprintf(inner, sizeof inner, "%s/%s", below, item->d_name);
        if (item->d_name[0] == '.' || (size_t)length >= sizeof inner || !disk_path(path, listing->place->root, inner) ||
            stat(path, &info) != 0)
            continue;
        if (S_ISDIR(info.st_mode) && depth < DEPTH_MAX)
            list_below(listing, inner, depth + 1);
        else if (S_ISREG(info.st_mode))
            listing->goes_on = listing->tell(listing->context, inner);
    }
    if (dir)
        closedir(dir);
}

static enum pen_status folder_list(struct place *place, const char *prefix, place_tell *tell, void *context,
                                   struct pen_error *reterr)
{
    char below[PLACE_KEY_BYTES];
    struct listing listing = {.place = place, .tell = tell, .context = context, .goes_on = true};
    if (access(place->root, R_OK | X_OK) != 0)
        return disk_failed("read the registry", place->root, reterr);
    snprintf(below, sizeof below, "%.*s", (int)(strlen(prefix) - 1), prefix); /* without the slash at its end */
    list_below(&listing, below, 0);
    return PEN_OK;
}

const struct place_kind place_folder = {
    .writable = true, .read = folder_read, .look = folder_look, .write = folder_write, .list = folder_list};
