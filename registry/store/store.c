/* store.c - contents by digest, and models made of them. */
#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES  (256u * 1024u)
#define KNOWN_BYTES  CONTENT_DIGEST_TEXT
#define FOLDER_BYTES 3072u /* leaves room for what lies in it */

struct store {
    char folder[FOLDER_BYTES];
    uint64_t limit_bytes;
};

bool store_folder_usual(char folder[DISK_PATH_BYTES])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        return disk_path(folder, cache, "penstock/store");
    return home && home[0] == '/' && disk_path(folder, home, ".cache/penstock/store");
}

enum pen_status store_open(const char *folder, uint64_t limit_bytes, struct store **ret_store, struct pen_error *reterr)
{
    static const char *const kinds[] = {"blobs/sha256", "partial", "models", "views", "known"};
    char path[DISK_PATH_BYTES];
    if (!*folder || strlen(folder) > FOLDER_BYTES - 1024)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the store's folder has %s name", *folder ? "too long a" : "no");
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the store");
    snprintf(store->folder, sizeof store->folder, "%s", folder);
    store->limit_bytes = limit_bytes;
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < sizeof kinds / sizeof kinds[0]; i++) {
        disk_path(path, folder, kinds[i]);
        status = disk_make(path, reterr);
    }
    if (status != PEN_OK) {
        free(store);
        return status;
    }
    *ret_store = store;
    return PEN_OK;
}

void store_close(struct store *store)
{
    free(store);
}

const char *store_folder(const struct store *store)
{
    return store->folder;
}

uint64_t store_limit(const struct store *store)
{
    return store->limit_bytes;
}

void store_path(const struct store *store, const char *kind, const char *name, char path[DISK_PATH_BYTES])
{
    snprintf(path, DISK_PATH_BYTES, "%s/%s/%s", store->folder, kind, name);
}

void store_blob_path(const struct store *store, const struct content_digest *digest, char path[DISK_PATH_BYTES])
{
    store_path(store, "blobs/sha256", digest->hex, path);
}

/* The time of use is the time of access, which we set ourselves: the time of change means another model to a watch. */
static void used_now(const char *path)
{
    utimensat(AT_FDCWD, path, (struct timespec[2]){{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}}, 0);
}

bool store_has(const struct store *store, const struct content_digest *digest, uint64_t bytes)
{
    char path[DISK_PATH_BYTES];
    struct stat info;
    store_blob_path(store, digest, path);
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode) || (uint64_t)info.st_size != bytes)
        return false;
    used_now(path);
    return true;
}

enum pen_status store_blob_put(const struct store *store, const struct content_digest *digest, const void *bytes,
                               size_t count, struct pen_error *reterr)
{
    char path[DISK_PATH_BYTES];
    store_blob_path(store, digest, path);
    enum pen_status status = disk_file_write(path, bytes, count, reterr);
    if (status == PEN_OK)
        chmod(path, 0444);
    return status;
}

void store_blob_drop(const struct store *store, const struct content_digest *digest)
{
    char path[DISK_PATH_BYTES];
    store_blob_path(store, digest, path);
    unlink(path);
}

int store_lock(const struct store *store)
{
    char path[DISK_PATH_BYTES];
    disk_path(path, store->folder, ".lock");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    while (fd >= 0 && flock(fd, LOCK_EX) != 0) {
        if (errno == EINTR)
            continue;
        close(fd);
        fd = -1;
    }
    return fd;
}

/* ---- models -------------------------------------------------------------------------------------------------------------------------- */

static bool file_copy(const char *from, const char *to)
{
    char *block = malloc(BLOCK_BYTES);
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    bool good = block && in >= 0 && out >= 0;
    uint64_t at = 0;
    ssize_t got = 1;
    while (good && (got = pread(in, block, BLOCK_BYTES, (off_t)at)) > 0) {
        good = disk_pwrite(out, block, (size_t)got, at);
        at += (uint64_t)got;
    }
    int error = errno;
    if (in >= 0)
        close(in);
    if (out >= 0)
        good &= close(out) == 0;
    free(block);
    errno = error;
    return good && got == 0;
}

/* A link, or a copy where the file system has no links. ENOENT: there is no such content. */
static bool content_link(const char *blob, const char *path)
{
    if (link(blob, path) == 0)
        return true;
    return (errno == EPERM || errno == EMLINK || errno == EOPNOTSUPP || errno == EXDEV) && file_copy(blob, path);
}

static enum pen_status file_put(const struct store *store, const char *folder, const char *name,
                                const struct content_digest *digest, struct pen_error *reterr)
{
    char path[DISK_PATH_BYTES], blob[DISK_PATH_BYTES];
    if (!disk_path(path, folder, name))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the path of %.200s is too long", name);
    store_blob_path(store, digest, blob);
    enum pen_status status = disk_make_above(path, reterr);
    if (status == PEN_OK && !content_link(blob, path))
        status = disk_failed("make", path, reterr);
    return status;
}

static enum pen_status files_put(const struct store *store, const char *folder, const struct content_digest *digest,
                                 const struct manifest *manifest, struct pen_error *reterr)
{
    char path[DISK_PATH_BYTES];
    enum pen_status status = disk_make(folder, reterr);
    for (size_t i = 0; status == PEN_OK && i < manifest->count; i++)
        status = file_put(store, folder, manifest->files[i].path, &manifest->files[i].digest, reterr);
    if (status == PEN_OK)
        status = file_put(store, folder, ".manifest", digest, reterr);
    if (status == PEN_OK && disk_path(path, folder, ".used"))
        status = disk_file_write(path, "", 0, reterr);
    return status;
}

bool store_model_has(const struct store *store, const struct content_digest *digest)
{
    char path[DISK_PATH_BYTES];
    store_path(store, "models", digest->hex, path);
    if (access(path, F_OK) != 0)
        return false;
    snprintf(path + strlen(path), 8, "/.used");
    utimensat(AT_FDCWD, path, NULL, 0);
    return true;
}

/* What a process left that died while it made a model. The store is locked: nobody makes one now. */
static void remove_unfinished(const struct store *store)
{
    char path[DISK_PATH_BYTES];
    store_path(store, "models", ".", path);
    DIR *dir = opendir(path);
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir)) {
        if (strncmp(item->d_name, ".new-", 5) != 0)
            continue;
        store_path(store, "models", item->d_name, path);
        disk_remove(path);
    }
    if (dir)
        closedir(dir);
}

enum pen_status store_model_put(const struct store *store, const struct content_digest *digest,
                                const struct manifest *manifest, struct pen_error *reterr)
{
    char name[48], making[DISK_PATH_BYTES], path[DISK_PATH_BYTES];
    int lock = store_lock(store);
    if (lock < 0)
        return disk_failed("lock the store", store->folder, reterr);
    enum pen_status status = PEN_OK;
    disk_new_name(name);
    store_path(store, "models", name, making);
    store_path(store, "models", digest->hex, path);
    if (!store_model_has(store, digest)) {
        remove_unfinished(store);
        status = files_put(store, making, digest, manifest, reterr);
        if (status == PEN_OK && rename(making, path) != 0)
            status = disk_failed("make", path, reterr);
        if (status != PEN_OK)
            disk_remove(making);
    }
    close(lock);
    return status;
}

static bool file_right(const char *folder, const struct manifest_file *file)
{
    char path[DISK_PATH_BYTES];
    struct content_digest digest;
    uint64_t bytes = 0;
    int fd = disk_path(path, folder, file->path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    bool good = fd >= 0 && content_digest_of_fd(fd, &digest, &bytes) && bytes == file->bytes &&
                content_digest_equal(&digest, &file->digest);
    if (fd >= 0)
        close(fd);
    return good;
}

enum pen_status store_model_check(const struct store *store, const struct content_digest *digest,
                                  const struct manifest *manifest, struct pen_error *reterr)
{
    char folder[DISK_PATH_BYTES];
    const char *wrong = NULL;
    store_path(store, "models", digest->hex, folder);
    for (size_t i = 0; i < manifest->count; i++) {
        if (file_right(folder, &manifest->files[i]))
            continue;
        wrong = manifest->files[i].path;
        store_blob_drop(store, &manifest->files[i].digest);
    }
    if (!wrong)
        return PEN_OK;
    int lock = store_lock(store);
    disk_remove(folder);
    if (lock >= 0)
        close(lock);
    return pen_error_set(reterr, PEN_ERR_CORRUPT,
                         "%.200s of %s@%llu in the store %.300s is not what its manifest says; it is removed", wrong,
                         manifest->model, (unsigned long long)manifest->version, store->folder);
}

/* As much as the largest manifest has, and a byte to see that there is more. */
static char *manifest_read(const char *path, size_t *ret_bytes)
{
    char *text = malloc(MANIFEST_BYTES_MAX + 1);
    int fd = text ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    ssize_t got = fd >= 0 ? pread(fd, text, MANIFEST_BYTES_MAX + 1, 0) : -1;
    if (fd >= 0)
        close(fd);
    if (got < 0) {
        free(text);
        return NULL;
    }
    *ret_bytes = (size_t)got;
    return text;
}

enum pen_status store_manifest(const struct store *store, const struct content_digest *digest,
                               struct manifest *ret_manifest, struct pen_error *reterr)
{
    char path[DISK_PATH_BYTES];
    size_t bytes = 0;
    store_blob_path(store, digest, path);
    char *text = manifest_read(path, &bytes);
    if (!text)
        return disk_failed("read", path, reterr);
    struct content_digest found = content_digest_of(text, bytes);
    enum pen_status status = content_digest_equal(&found, digest)
                                 ? manifest_parse(text, bytes, ret_manifest, reterr)
                                 : pen_error_set(reterr, PEN_ERR_CORRUPT, "%.700s is not what its name says", path);
    free(text);
    return status;
}

void store_models(const struct store *store, void (*tell)(void *context, const struct content_digest *digest),
                  void *context)
{
    char path[DISK_PATH_BYTES];
    struct content_digest digest;
    store_path(store, "models", ".", path);
    DIR *dir = opendir(path);
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir))
        if (content_digest_parse(item->d_name, &digest))
            tell(context, &digest);
    if (dir)
        closedir(dir);
}

/* ---- what is known of a registry ----------------------------------------------------------------------------------------------------- */

static void known_path(const struct store *store, const char *registry, const char *reference,
                       char path[DISK_PATH_BYTES])
{
    struct content_hash hash;
    content_hash_begin(&hash);
    content_hash_add(&hash, registry, strlen(registry) + 1);
    content_hash_add(&hash, reference, strlen(reference));
    struct content_digest key = content_hash_end(&hash);
    store_path(store, "known", key.hex, path);
}

void store_known_put(const struct store *store, const char *registry, const char *reference,
                     const struct content_digest *digest)
{
    char path[DISK_PATH_BYTES];
    struct content_digest old;
    if (store_known(store, registry, reference, &old) && content_digest_equal(&old, digest))
        return;
    known_path(store, registry, reference, path);
    disk_file_write(path, digest->hex, CONTENT_DIGEST_TEXT - 1, NULL); /* without it the registry must be there */
}

bool store_known(const struct store *store, const char *registry, const char *reference,
                 struct content_digest *ret_digest)
{
    char path[DISK_PATH_BYTES], text[KNOWN_BYTES] = "";
    known_path(store, registry, reference, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = fd >= 0 ? pread(fd, text, sizeof text - 1, 0) : -1;
    if (fd >= 0)
        close(fd);
    return got == CONTENT_DIGEST_TEXT - 1 && content_digest_parse(text, ret_digest);
}
