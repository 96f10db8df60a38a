/* journal_file.c - the journal's real file: writing, syncing, and giving its place to a new one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "journal.h"

static int file_write(struct journal_file *file, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    while (size > 0) {
        ssize_t put = write(file->fd, at, size);
        if (put < 0 && errno != EINTR)
            return errno;
        at += put > 0 ? put : 0;
        size -= put > 0 ? (size_t)put : 0;
    }
    return 0;
}

static int file_read(struct journal_file *file, uint64_t at, void *bytes, size_t size)
{
    uint8_t *to = bytes;
    while (size > 0) {
        ssize_t got = pread(file->fd, to, size, (off_t)at);
        if (got == 0 || (got < 0 && errno != EINTR))
            return got == 0 ? EIO : errno;
        to += got > 0 ? got : 0;
        at += got > 0 ? (uint64_t)got : 0;
        size -= got > 0 ? (size_t)got : 0;
    }
    return 0;
}

static int file_sync(struct journal_file *file)
{
    int error = file->folder_due ? journal_sync_folder(file->path) : 0;
    if (error != 0)
        return error;
    file->folder_due = false;
    return fdatasync(file->fd) == 0 ? 0 : errno;
}

static int file_cut(struct journal_file *file, uint64_t size)
{
    return ftruncate(file->fd, (off_t)size) == 0 && lseek(file->fd, (off_t)size, SEEK_SET) >= 0 ? 0 : errno;
}

static void new_path(const struct journal_file *file, char path[560])
{
    snprintf(path, 560, "%.512s.new", file->path);
}

static int file_fresh(struct journal_file *file, struct journal_file **ret_fresh)
{
    char path[560];
    struct pen_error error;
    struct journal_file *fresh = malloc(sizeof *fresh);
    new_path(file, path);
    if (!fresh)
        return ENOMEM;
    if (journal_file_open(path, 0, fresh, &error) != PEN_OK) {
        free(fresh);
        return errno ? errno : EIO;
    }
    *ret_fresh = fresh;
    return 0;
}

static void file_abandon(struct journal_file *file, struct journal_file *fresh)
{
    char path[560];
    new_path(file, path);
    close(fresh->fd);
    unlink(path);
    free(fresh);
}

/* The rename is durable only when the folder is synced; until then no record in the new file may be acknowledged. */
static int file_replace(struct journal_file *file, struct journal_file *fresh)
{
    char path[560];
    new_path(file, path);
    if (rename(path, file->path) != 0)
        return errno;
    file->folder_due = journal_sync_folder(file->path) != 0;
    close(file->fd);
    file->fd = fresh->fd;
    free(fresh);
    return 0;
}

int journal_sync_folder(const char *path)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%.511s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *(slash == folder ? slash + 1 : slash) = '\0';
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int error = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return error;
}

enum pen_status journal_file_open(const char *path, uint64_t size, struct journal_file *ret_file,
                                  struct pen_error *reterr)
{
    *ret_file = (struct journal_file){.write = file_write,
                                      .sync = file_sync,
                                      .cut = file_cut,
                                      .read = file_read,
                                      .fresh = file_fresh,
                                      .replace = file_replace,
                                      .abandon = file_abandon,
                                      .path = path};
    ret_file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (ret_file->fd >= 0 && file_cut(ret_file, size) == 0)
        return PEN_OK;
    pen_error_set(reterr, PEN_ERR_IO, "cannot write --journal %.300s: %s", path, strerror(errno));
    if (ret_file->fd >= 0)
        close(ret_file->fd);
    return PEN_ERR_IO;
}
