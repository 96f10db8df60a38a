/* view.c - links by rename, under the store's lock. */
#include "view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define UP           "../../../models/"
#define POLICY_BYTES 8192u

struct store_view {
    const struct store *store;
    char folder[DISK_PATH_BYTES];
    int lock;
};

/* The view's own lock file, taken; -1: another process has it, or there is none. */
static int lock_take(const char *folder, int flags)
{
    char path[DISK_PATH_BYTES];
    int fd = disk_path(path, folder, ".lock") ? open(path, O_RDWR | O_CLOEXEC | flags, 0644) : -1;
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool is_alive(const char *folder)
{
    char path[DISK_PATH_BYTES];
    int fd = lock_take(folder, 0);
    if (fd >= 0)
        close(fd);
    return fd < 0 && disk_path(path, folder, ".lock") && access(path, F_OK) == 0;
}

/* Each view, by its folder. The store is locked. */
static void views_each(const struct store *store, void (*visit)(void *context, const char *folder), void *context)
{
    char path[DISK_PATH_BYTES], folder[DISK_PATH_BYTES];
    store_path(store, "views", ".", path);
    DIR *dir = opendir(path);
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir)) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        store_path(store, "views", item->d_name, folder);
        visit(context, folder);
    }
    if (dir)
        closedir(dir);
}

static void remove_dead(void *context, const char *folder)
{
    (void)context;
    if (!is_alive(folder))
        disk_remove(folder);
}

enum pen_status view_open(const struct store *store, struct store_view **ret_view, struct pen_error *reterr)
{
    char name[48];
    struct store_view *view = calloc(1, sizeof *view);
    int lock = view ? store_lock(store) : -1;
    if (lock < 0) {
        free(view);
        return disk_failed("lock the store", store_folder(store), reterr);
    }
    views_each(store, remove_dead, NULL);
    disk_new_name(name);
    store_path(store, "views", name + 5, view->folder); /* behind ".new-" */
    view->store = store;
    enum pen_status status = disk_make(view->folder, reterr);
    view->lock = status == PEN_OK ? lock_take(view->folder, O_CREAT) : -1;
    if (status == PEN_OK && view->lock < 0)
        status = disk_failed("lock", view->folder, reterr);
    close(lock);
    if (status != PEN_OK) {
        free(view);
        return status;
    }
    *ret_view = view;
    return PEN_OK;
}

void view_close(struct store_view *view)
{
    if (!view)
        return;
    disk_remove(view->folder);
    close(view->lock);
    free(view);
}

const char *view_folder(const struct store_view *view)
{
    return view->folder;
}

static enum pen_status link_put(const char *folder, uint64_t version, const struct content_digest *digest,
                                struct pen_error *reterr)
{
    char number[24], other[48], path[DISK_PATH_BYTES], making[DISK_PATH_BYTES];
    char to[sizeof UP + CONTENT_DIGEST_TEXT];
    snprintf(number, sizeof number, "%" PRIu64, version);
    snprintf(to, sizeof to, UP "%s", digest->hex);
    disk_new_name(other);
    if (!disk_path(path, folder, number) || !disk_path(making, folder, other))
        return pen_error_set(reterr, PEN_ERR_INVALID, "the path of the store is too long");
    if (symlink(to, making) == 0 && rename(making, path) == 0)
        return PEN_OK;
    enum pen_status status = disk_failed("make the link", path, reterr);
    unlink(making);
    return status;
}

enum pen_status view_put(struct store_view *view, const char *name, uint64_t version,
                         const struct content_digest *digest, struct pen_error *reterr)
{
    char folder[DISK_PATH_BYTES];
    int lock = store_lock(view->store);
    if (lock < 0 || !disk_path(folder, view->folder, name))
        return disk_failed("lock the store", store_folder(view->store), reterr);
    enum pen_status status =
        store_model_has(view->store, digest)
            ? disk_make(folder, reterr)
            : pen_error_set(reterr, PEN_ERR_NOT_FOUND, "%s@%" PRIu64 " has left the store", name, version);
    if (status == PEN_OK)
        status = link_put(folder, version, digest, reterr);
    close(lock);
    return status;
}

enum pen_status view_choose(struct store_view *view, const char *name, const uint64_t *versions, size_t count,
                            struct pen_error *reterr)
{
    char folder[DISK_PATH_BYTES], path[DISK_PATH_BYTES],
        text[POLICY_BYTES] = "{\"version_policy\": "
                             "{\"specific\": {\"versions\": [";
    size_t used = strlen(text);
    for (size_t i = 0; i < count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRIu64, i ? ", " : "", versions[i]);
    used += used < sizeof text ? (size_t)snprintf(text + used, sizeof text - used, "]}}}\n") : 0;
    if (used >= sizeof text || !disk_path(folder, view->folder, name) || !disk_path(path, folder, "config.json"))
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "too many versions of %s are asked for", name);
    return disk_file_write(path, text, used, reterr);
}

void view_drop(struct store_view *view, const char *name, uint64_t version)
{
    char folder[DISK_PATH_BYTES], number[24], path[DISK_PATH_BYTES];
    snprintf(number, sizeof number, "%" PRIu64, version);
    if (disk_path(folder, view->folder, name) && disk_path(path, folder, number))
        unlink(path);
}

/* ---- what is in use ------------------------------------------------------------------------------------------------------------------ */

struct use_look {
    void (*tell)(void *context, const struct content_digest *digest);
    void *context;
};

static void links_tell(const struct use_look *look, const char *folder)
{
    char to[DISK_PATH_BYTES];
    struct content_digest digest;
    DIR *dir = opendir(folder);
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir)) {
        ssize_t length = readlinkat(dirfd(dir), item->d_name, to, sizeof to - 1);
        if (length < (ssize_t)sizeof UP)
            continue;
        to[length] = '\0';
        if (content_digest_parse(to + sizeof UP - 1, &digest))
            look->tell(look->context, &digest);
    }
    if (dir)
        closedir(dir);
}

static void view_tell(void *context, const char *folder)
{
    char path[DISK_PATH_BYTES];
    DIR *dir = is_alive(folder) ? opendir(folder) : NULL;
    for (const struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir))
        if (item->d_name[0] != '.' && disk_path(path, folder, item->d_name))
            links_tell(context, path);
    if (dir)
        closedir(dir);
}

void views_in_use(const struct store *store, void (*tell)(void *context, const struct content_digest *digest),
                  void *context)
{
    views_each(store, view_tell, &(struct use_look){.tell = tell, .context = context});
}
