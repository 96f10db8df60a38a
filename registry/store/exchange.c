/* exchange.c - paths and locks in a folder of this user. */
#include "exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES (256u * 1024u)

struct exchange {
    char folder[DISK_PATH_BYTES];
};

static void folder_default(char folder[DISK_PATH_BYTES])
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    if (run && run[0] == '/' && strlen(run) < 1024)
        snprintf(folder, DISK_PATH_BYTES, "%s/penstock-exchange", run);
    else
        snprintf(folder, DISK_PATH_BYTES, "/tmp/penstock-exchange-%lu", (unsigned long)geteuid());
}

struct exchange *exchange_open(const char *folder, const char **ret_why)
{
    struct stat info;
    *ret_why = "";
    if (strcmp(folder, "none") == 0)
        return NULL;
    struct exchange *exchange = calloc(1, sizeof *exchange);
    *ret_why = "there is no memory for it";
    if (!exchange)
        return NULL;
    if (strcmp(folder, "auto") == 0)
        folder_default(exchange->folder);
    else
        snprintf(exchange->folder, sizeof exchange->folder, "%.3072s", folder);
    *ret_why = "";
    if (mkdir(exchange->folder, 0700) != 0 && errno != EEXIST)
        *ret_why = strerror(errno);
    else if (lstat(exchange->folder, &info) != 0 || !S_ISDIR(info.st_mode))
        *ret_why = "it is no folder";
    else if (info.st_uid != geteuid() || (info.st_mode & 077) != 0)
        *ret_why = "it must belong to this user and be closed to others (mode 700)";
    if (!**ret_why)
        return exchange;
    free(exchange);
    return NULL;
}

void exchange_close(struct exchange *exchange)
{
    free(exchange);
}

/* ---- contents ------------------------------------------------------------------------------------------------------------------------ */

static bool told_path(const struct exchange *exchange, const struct content_digest *digest, char path[DISK_PATH_BYTES])
{
    char note[DISK_PATH_BYTES];
    int fd = disk_path(note, exchange->folder, digest->hex) ? open(note, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    ssize_t got = fd >= 0 ? pread(fd, path, DISK_PATH_BYTES - 1, 0) : -1;
    if (fd >= 0)
        close(fd);
    path[got > 0 ? got : 0] = '\0';
    return got > 0 && path[0] == '/';
}

static void told_forget(const struct exchange *exchange, const struct content_digest *digest)
{
    char note[DISK_PATH_BYTES];
    if (disk_path(note, exchange->folder, digest->hex))
        unlink(note);
}

static int content_open(const char *path, uint64_t bytes)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        (uint64_t)info.st_size == bytes)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Reads all, copies it to `to` unless that is -1, and compares. */
static bool content_pass(int from, int to, uint64_t bytes, const struct content_digest *wanted)
{
    struct content_hash hash;
    char *block = malloc(BLOCK_BYTES);
    uint64_t at = 0;
    bool good = block != NULL;
    content_hash_begin(&hash);
    while (good && at < bytes) {
        ssize_t got = pread(from, block, BLOCK_BYTES, (off_t)at);
        good = got > 0 && (to < 0 || disk_pwrite(to, block, (size_t)got, at));
        if (good)
            content_hash_add(&hash, block, (size_t)got);
        at += good ? (uint64_t)got : 0;
    }
    free(block);
    struct content_digest found = content_hash_end(&hash);
    return good && at == bytes && content_digest_equal(&found, wanted);
}

/* A second name for the file that was opened, in our store: the disk holds it once. */
static bool content_link(int fd, struct partial *partial)
{
    char from[64], name[48], making[DISK_PATH_BYTES], blob[DISK_PATH_BYTES];
    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    disk_new_name(name);
    store_path(partial->store, "partial", name, making);
    store_blob_path(partial->store, &partial->digest, blob);
    if (linkat(AT_FDCWD, from, AT_FDCWD, making, AT_SYMLINK_FOLLOW) != 0)
        return false;
    bool good = content_pass(fd, -1, partial->bytes, &partial->digest) && rename(making, blob) == 0;
    unlink(making); /* two names of one file: rename may have left this one */
    return good;
}

static bool content_copy(int fd, struct partial *partial)
{
    if (content_pass(fd, partial->fd, partial->bytes, &partial->digest))
        return partial_finish(partial, true, NULL) == PEN_OK;
    partial_forget(partial);
    return false;
}

bool exchange_take(const struct exchange *exchange, struct partial *partial)
{
    char path[DISK_PATH_BYTES];
    if (!told_path(exchange, &partial->digest, path))
        return false;
    int fd = content_open(path, partial->bytes);
    bool linked = fd >= 0 && content_link(fd, partial), good = linked || (fd >= 0 && content_copy(fd, partial));
    if (linked)
        partial_drop(partial);
    if (fd >= 0)
        close(fd);
    if (!good)
        told_forget(exchange, &partial->digest);
    return good;
}

void exchange_tell(const struct exchange *exchange, const struct store *store, const struct content_digest *digest)
{
    char note[DISK_PATH_BYTES], path[DISK_PATH_BYTES], whole[DISK_PATH_BYTES];
    store_blob_path(store, digest, path);
    if (disk_path(note, exchange->folder, digest->hex) && realpath(path, whole))
        disk_file_write(note, whole, strlen(whole), NULL); /* else the others fetch it themselves */
}

/* ---- the right to fetch -------------------------------------------------------------------------------------------------------------- */

static bool lock_path(const struct exchange *exchange, const struct content_digest *digest, char path[DISK_PATH_BYTES])
{
    char name[CONTENT_DIGEST_TEXT + 8];
    snprintf(name, sizeof name, "%s.lock", digest->hex);
    return disk_path(path, exchange->folder, name);
}

int exchange_lock(const struct exchange *exchange, const struct content_digest *digest)
{
    char path[DISK_PATH_BYTES];
    struct stat named, ours;
    int fd = lock_path(exchange, digest, path) ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && lstat(path, &named) == 0 && fstat(fd, &ours) == 0 &&
        named.st_ino == ours.st_ino)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

void exchange_unlock(const struct exchange *exchange, const struct content_digest *digest, int lock)
{
    char path[DISK_PATH_BYTES];
    if (lock_path(exchange, digest, path))
        unlink(path); /* who waits for it sees another file under the name, and opens that */
    close(lock);
}
