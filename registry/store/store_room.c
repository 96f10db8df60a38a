/* store_room.c - counts what is there, removes models by the time of their last use, and contents that no model has. */
#include "store_room.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEPTH_MAX     (MANIFEST_DEPTH_MAX + 1)
#define FRESH_SECONDS 60 /* a content that a pull has just brought is on its way into a model */

struct inodes {
    ino_t *list;
    size_t count, room;
    bool full; /* no memory: nothing may be removed */
};

static void inode_add(struct inodes *inodes, ino_t inode)
{
    if (inodes->count == inodes->room) {
        size_t room = inodes->room ? 2 * inodes->room : 256;
        ino_t *list = realloc(inodes->list, room * sizeof *list);
        inodes->full |= !list;
        if (!list)
            return;
        inodes->list = list;
        inodes->room = room;
    }
    inodes->list[inodes->count++] = inode;
}

static int by_inode(const void *a, const void *b)
{
    ino_t x = *(const ino_t *)a, y = *(const ino_t *)b;
    return x < y ? -1 : x > y;
}

static bool inode_known(const struct inodes *inodes, ino_t inode)
{
    return inodes->count > 0 && bsearch(&inode, inodes->list, inodes->count, sizeof *inodes->list, by_inode) != NULL;
}

static void inodes_below(struct inodes *inodes, const char *folder, unsigned depth)
{
    char path[DISK_PATH_BYTES];
    struct stat info;
    DIR *dir = depth <= DEPTH_MAX ? opendir(folder) : NULL;
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir)) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0 ||
            !disk_path(path, folder, item->d_name) || lstat(path, &info) != 0)
            continue;
        if (S_ISDIR(info.st_mode))
            inodes_below(inodes, path, depth + 1);
        else
            inode_add(inodes, info.st_ino);
    }
    if (dir)
        closedir(dir);
}

/* ---- what is there ------------------------------------------------------------------------------------------------------------------- */

static uint64_t folder_bytes(const struct store *store, const char *kind)
{
    char path[DISK_PATH_BYTES];
    struct stat info;
    uint64_t bytes = 0;
    store_path(store, kind, ".", path);
    DIR *dir = opendir(path);
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir))
        if (fstatat(dirfd(dir), item->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode))
            bytes += strcmp(kind, "partial") == 0 ? (uint64_t)info.st_blocks * 512 : (uint64_t)info.st_size;
    if (dir)
        closedir(dir);
    return bytes;
}

uint64_t store_room_used(const struct store *store)
{
    return folder_bytes(store, "blobs/sha256") + folder_bytes(store, "partial");
}

static bool is_wanted(const struct content_digest *digest, const struct manifest *manifest, const char *name)
{
    if (strncmp(digest->hex, name, CONTENT_DIGEST_TEXT - 1) == 0)
        return true;
    for (size_t i = 0; i < manifest->count; i++)
        if (strncmp(manifest->files[i].digest.hex, name, CONTENT_DIGEST_TEXT - 1) == 0)
            return true;
    return false;
}

static uint64_t missing_bytes(const struct store *store, const struct manifest *manifest)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->count; i++)
        if (!store_has(store, &manifest->files[i].digest, manifest->files[i].bytes))
            bytes += manifest->files[i].bytes;
    return bytes;
}

/* ---- what may go --------------------------------------------------------------------------------------------------------------------- */

struct room_search {
    const struct store *store;
    const struct content_digest *digest;
    const struct manifest *manifest;
    struct content_digest used[256]; /* by views */
    size_t used_count;
    bool too_many; /* views name more than that: nothing may be removed */
    struct content_digest oldest;
    struct timespec oldest_use;
};

static void used_note(void *context, const struct content_digest *digest)
{
    struct room_search *search = context;
    search->too_many |= search->used_count == sizeof search->used / sizeof search->used[0];
    if (!search->too_many)
        search->used[search->used_count++] = *digest;
}

static bool is_used(const struct room_search *search, const struct content_digest *digest)
{
    for (size_t i = 0; i < search->used_count; i++)
        if (content_digest_equal(&search->used[i], digest))
            return true;
    return search->too_many || content_digest_equal(search->digest, digest);
}

static void model_consider(void *context, const struct content_digest *digest)
{
    struct room_search *search = context;
    char path[DISK_PATH_BYTES];
    struct stat info = {.st_mtim = {.tv_sec = 0}};
    if (is_used(search, digest))
        return;
    store_path(search->store, "models", digest->hex, path);
    snprintf(path + strlen(path), 8, "/.used");
    stat(path, &info); /* without it: never used */
    const struct timespec *use = &info.st_mtim, *oldest = &search->oldest_use;
    if (search->oldest.hex[0] &&
        (use->tv_sec > oldest->tv_sec || (use->tv_sec == oldest->tv_sec && use->tv_nsec >= oldest->tv_nsec)))
        return;
    search->oldest = *digest;
    search->oldest_use = *use;
}

/* Files that a process holds, as it fetches them, stay. */
static bool is_held(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    bool held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
    if (fd >= 0)
        close(fd);
    return held;
}

/* Removes what no model has: contents, and what is left of transfers. */
static void folder_sweep(const struct room_search *search, const char *kind, const struct inodes *kept)
{
    char path[DISK_PATH_BYTES];
    struct stat info;
    store_path(search->store, kind, ".", path);
    DIR *dir = opendir(path);
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir)) {
        if (fstatat(dirfd(dir), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode) ||
            is_wanted(search->digest, search->manifest, item->d_name) || inode_known(kept, info.st_ino) ||
            time(NULL) - info.st_atim.tv_sec < FRESH_SECONDS || is_held(dirfd(dir), item->d_name))
            continue;
        unlinkat(dirfd(dir), item->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

static void sweep(const struct room_search *search)
{
    char path[DISK_PATH_BYTES];
    struct inodes kept = {.list = NULL};
    store_path(search->store, "models", ".", path);
    inodes_below(&kept, path, 0);
    if (kept.count > 0)
        qsort(kept.list, kept.count, sizeof *kept.list, by_inode);
    if (!kept.full) {
        folder_sweep(search, "blobs/sha256", &kept);
        folder_sweep(search, "partial", &kept);
    }
    free(kept.list);
}

/* The contents of a model that goes are as old as its last use: so the sweep takes them. */
static void model_age(const struct room_search *search, const struct content_digest *digest)
{
    char path[DISK_PATH_BYTES];
    struct manifest manifest;
    struct timespec old[2] = {{.tv_sec = 1}, {.tv_nsec = UTIME_OMIT}};
    if (store_manifest(search->store, digest, &manifest, NULL) == PEN_OK) {
        for (size_t i = 0; i < manifest.count; i++) {
            store_blob_path(search->store, &manifest.files[i].digest, path);
            utimensat(AT_FDCWD, path, old, 0);
        }
        manifest_fini(&manifest);
    }
    store_blob_path(search->store, digest, path);
    utimensat(AT_FDCWD, path, old, 0);
}

/* False: none may go. */
static bool model_remove_oldest(struct room_search *search)
{
    char path[DISK_PATH_BYTES], gone[DISK_PATH_BYTES], name[48];
    search->oldest.hex[0] = '\0';
    store_models(search->store, model_consider, search);
    if (!search->oldest.hex[0])
        return false;
    model_age(search, &search->oldest);
    disk_new_name(name);
    store_path(search->store, "models", search->oldest.hex, path);
    store_path(search->store, "models", name, gone);
    return rename(path, gone) == 0 && disk_remove(gone);
}

static enum pen_status room_search(struct room_search *search, struct pen_error *reterr)
{
    uint64_t limit = store_limit(search->store), needed = missing_bytes(search->store, search->manifest), used = 0;
    views_in_use(search->store, used_note, search);
    while ((used = store_room_used(search->store)) + needed > limit) {
        sweep(search);
        if (store_room_used(search->store) + needed <= limit)
            break;
        if (!model_remove_oldest(search))
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                                 "%s@%" PRIu64 " needs %" PRIu64 " bytes more, but %" PRIu64 " of the store's %" PRIu64
                                 " are in use: raise --store-limit",
                                 search->manifest->model, search->manifest->version, needed, used, limit);
    }
    return PEN_OK;
}

enum pen_status store_room_make(const struct store *store, const struct content_digest *digest,
                                const struct manifest *manifest, struct pen_error *reterr)
{
    if (store_limit(store) == 0)
        return PEN_OK;
    if (manifest->bytes > store_limit(store))
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "%s@%" PRIu64 " has %" PRIu64 " bytes, and the store holds %" PRIu64
                             " at most: raise --store-limit",
                             manifest->model, manifest->version, manifest->bytes, store_limit(store));
    struct room_search *search = calloc(1, sizeof *search);
    int lock = search ? store_lock(store) : -1;
    enum pen_status status = lock >= 0 ? PEN_OK : disk_failed("lock the store", store_folder(store), reterr);
    if (status == PEN_OK) {
        search->store = store;
        search->digest = digest;
        search->manifest = manifest;
        status = room_search(search, reterr);
        close(lock);
    }
    free(search);
    return status;
}
