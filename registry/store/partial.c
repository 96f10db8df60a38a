/* partial.c - the file, its marks, and the lock that only one process has. */
#include "partial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS 10000000L /* while another process fetches */

static void marks_path(const struct partial *partial, char path[DISK_PATH_BYTES])
{
    snprintf(path, DISK_PATH_BYTES, "%.4080s.parts", partial->path);
}

/* True while the descriptor is the file of that name: the process before us may have made it a blob. */
static bool is_named(const struct partial *partial)
{
    struct stat named, ours;
    return lstat(partial->path, &named) == 0 && fstat(partial->fd, &ours) == 0 && named.st_ino == ours.st_ino &&
           named.st_dev == ours.st_dev;
}

/* False with errno EWOULDBLOCK: another process has it. */
static bool lock_try(struct partial *partial)
{
    partial->fd = open(partial->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (partial->fd >= 0 && flock(partial->fd, LOCK_EX | LOCK_NB) == 0 && is_named(partial))
        return true;
    int error = partial->fd < 0 ? errno : EWOULDBLOCK;
    if (partial->fd >= 0)
        close(partial->fd);
    partial->fd = -1;
    errno = error;
    return false;
}

/* Marks of another size than this content has are no marks. */
static enum pen_status marks_open(struct partial *partial, struct pen_error *reterr)
{
    char path[DISK_PATH_BYTES];
    struct stat info;
    marks_path(partial, path);
    partial->marks = malloc(partial->parts + 1);
    partial->marks_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (!partial->marks || partial->marks_fd < 0)
        return disk_failed("write", path, reterr);
    memset(partial->marks, '0', partial->parts + 1);
    bool kept = fstat(partial->fd, &info) == 0 && (uint64_t)info.st_size == partial->bytes &&
                fstat(partial->marks_fd, &info) == 0 && (uint64_t)info.st_size == partial->parts &&
                pread(partial->marks_fd, partial->marks, partial->parts, 0) == (ssize_t)partial->parts;
    if (!kept)
        partial_forget(partial);
    if (ftruncate(partial->fd, (off_t)partial->bytes) != 0)
        return disk_failed("write", partial->path, reterr);
    return PEN_OK;
}

static void pause_short(void)
{
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
}

static enum pen_status lock_wait(struct partial *partial, bool (*stop)(void), bool *ret_came, struct pen_error *reterr)
{
    for (;; pause_short()) {
        *ret_came = store_has(partial->store, &partial->digest, partial->bytes);
        if (*ret_came)
            return PEN_OK;
        if (lock_try(partial))
            return PEN_OK;
        if (errno != EWOULDBLOCK)
            return disk_failed("write", partial->path, reterr);
        if (stop && stop())
            return pen_error_set(reterr, PEN_ERR_CANCELLED, "the transfer was stopped");
    }
}

enum pen_status partial_open(const struct store *store, const struct content_digest *digest, uint64_t bytes,
                             bool (*stop)(void), struct partial **ret_partial, struct pen_error *reterr)
{
    bool came = false;
    struct partial *partial = calloc(1, sizeof *partial);
    *ret_partial = NULL;
    if (!partial)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a transfer");
    partial->store = store;
    partial->digest = *digest;
    partial->bytes = bytes;
    partial->parts = (size_t)((bytes + PARTIAL_PART_BYTES - 1) / PARTIAL_PART_BYTES);
    partial->fd = partial->marks_fd = -1;
    store_path(store, "partial", digest->hex, partial->path);
    enum pen_status status = lock_wait(partial, stop, &came, reterr);
    if (status == PEN_OK && !came && !store_has(store, digest, bytes)) {
        status = marks_open(partial, reterr);
        if (status == PEN_OK) {
            *ret_partial = partial;
            return PEN_OK;
        }
    }
    if (partial->fd >= 0 && status == PEN_OK)
        unlink(partial->path); /* we have just made it, and nobody needs it */
    partial_close(partial);
    return status;
}

void partial_close(struct partial *partial)
{
    if (!partial)
        return;
    if (partial->fd >= 0)
        close(partial->fd);
    if (partial->marks_fd >= 0)
        close(partial->marks_fd);
    free(partial->marks);
    free(partial);
}

uint64_t partial_part_end(const struct partial *partial, size_t part)
{
    uint64_t end = (uint64_t)(part + 1) * PARTIAL_PART_BYTES;
    return end < partial->bytes ? end : partial->bytes;
}

bool partial_write(struct partial *partial, const void *bytes, size_t count, uint64_t at)
{
    return disk_pwrite(partial->fd, bytes, count, at);
}

void partial_mark(struct partial *partial, size_t part)
{
    partial->marks[part] = '1';
    disk_pwrite(partial->marks_fd, "1", 1, part); /* without the mark the part is fetched again */
}

void partial_forget(struct partial *partial)
{
    memset(partial->marks, '0', partial->parts + 1);
    disk_pwrite(partial->marks_fd, partial->marks, partial->parts, 0);
    if (ftruncate(partial->marks_fd, (off_t)partial->parts) != 0)
        partial->marks[partial->parts] = '0'; /* longer marks are no marks to the next process */
}

void partial_drop(struct partial *partial)
{
    char marks[DISK_PATH_BYTES];
    marks_path(partial, marks);
    unlink(marks);
    unlink(partial->path); /* last: who waits for the lock finds the content */
}

enum pen_status partial_finish(struct partial *partial, bool sync, struct pen_error *reterr)
{
    char blob[DISK_PATH_BYTES], marks[DISK_PATH_BYTES];
    store_blob_path(partial->store, &partial->digest, blob);
    marks_path(partial, marks);
    if (fchmod(partial->fd, 0444) != 0 || (sync && fsync(partial->fd) != 0) || rename(partial->path, blob) != 0)
        return disk_failed("keep", blob, reterr);
    unlink(marks);
    return PEN_OK;
}
