#include "regions.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define REGIONS_MAX 1024u

struct region {
    struct region *next;
    int fd;
    bool writable;
    uint64_t offset, bytes;
    char *name, *key;
};

struct regions {
    pthread_mutex_t lock;
    enum region_rule rule;
    unsigned count;
    struct region *first;
};

struct regions *regions_new(enum region_rule rule)
{
    struct regions *regions = calloc(1, sizeof *regions);
    if (!regions)
        return NULL;
    regions->rule = rule;
    pthread_mutex_init(&regions->lock, NULL);
    return regions;
}

void regions_free(struct regions *regions)
{
    if (!regions)
        return;
    regions_unregister(regions, NULL);
    pthread_mutex_destroy(&regions->lock);
    free(regions);
}

static void region_free(struct region *region)
{
    if (!region)
        return;
    if (region->fd >= 0)
        close(region->fd);
    free(region->name);
    free(region->key);
    free(region);
}

static struct region *find(const struct regions *regions, const char *name)
{
    struct region *at = regions->first;
    while (at && strcmp(at->name, name) != 0)
        at = at->next;
    return at;
}

/* Writable where that is allowed. */
static enum pen_status open_object(enum region_rule rule, const struct region_info *info, struct region *region,
                                   struct pen_error *reterr)
{
    const char *bare = *info->key == '/' ? info->key + 1 : info->key;
    struct stat at;
    if (!*bare || strchr(bare, '/') || strlen(bare) > 250)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "\"%.250s\" is no key of shared memory; one looks like /input_data", info->key);
    region->fd = shm_open(info->key, O_RDWR | O_CLOEXEC, 0);
    region->writable = region->fd >= 0;
    if (region->fd < 0 && errno == EACCES)
        region->fd = shm_open(info->key, O_RDONLY | O_CLOEXEC, 0);
    if (region->fd < 0 || fstat(region->fd, &at) != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "Unable to open shared memory region \"%s\": %s", info->key,
                             strerror(errno));
    if (rule == REGIONS_OWN && at.st_uid != geteuid())
        return pen_error_set(reterr, PEN_ERR_DENIED,
                             "shared memory \"%s\" belongs to another user; --shared-memory any would allow it",
                             info->key);
    if (!S_ISREG(at.st_mode) || info->bytes == 0 || info->offset > (uint64_t)at.st_size ||
        info->bytes > (uint64_t)at.st_size - info->offset)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "shared memory \"%s\" has %" PRIu64 " bytes; %" PRIu64 " bytes from offset %" PRIu64
                             " on are not all in it",
                             info->key, (uint64_t)at.st_size, info->bytes, info->offset);
    return PEN_OK;
}

static enum pen_status region_new(enum region_rule rule, const struct region_info *info, struct region **ret_region,
                                  struct pen_error *reterr)
{
    struct region *region = calloc(1, sizeof *region);
    if (region) {
        *region = (struct region){.fd = -1,
                                  .offset = info->offset,
                                  .bytes = info->bytes,
                                  .name = strdup(info->name),
                                  .key = strdup(info->key)};
    }
    enum pen_status status = region && region->name && region->key
                                 ? open_object(rule, info, region, reterr)
                                 : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the region");
    if (status == PEN_OK)
        *ret_region = region;
    else
        region_free(region);
    return status;
}

enum pen_status regions_register(struct regions *regions, const struct region_info *info, struct pen_error *reterr)
{
    struct region *region = NULL;
    if (regions->rule == REGIONS_OFF)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "shared memory is switched off here (--shared-memory off)");
    if (!*info->name || strlen(info->name) >= REGION_NAME_BYTES)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the name of a region has 1 to 255 bytes");
    enum pen_status status = region_new(regions->rule, info, &region, reterr);
    if (status != PEN_OK)
        return status;
    pthread_mutex_lock(&regions->lock);
    if (find(regions, info->name))
        status = pen_error_set(reterr, PEN_ERR_INVALID,
                               "shared memory region '%s' already in manager: unregister it first", info->name);
    else if (regions->count == REGIONS_MAX)
        status = pen_error_set(reterr, PEN_ERR_BUSY, "1024 regions are registered; unregister some first");
    if (status == PEN_OK) {
        region->next = regions->first;
        regions->first = region;
        regions->count++;
        region = NULL;
    }
    pthread_mutex_unlock(&regions->lock);
    region_free(region);
    return status;
}

void regions_unregister(struct regions *regions, const char *name)
{
    pthread_mutex_lock(&regions->lock);
    for (struct region **link = &regions->first; *link;) {
        struct region *region = *link;
        if (name && strcmp(region->name, name) != 0) {
            link = &region->next;
            continue;
        }
        *link = region->next;
        regions->count--;
        region_free(region);
    }
    pthread_mutex_unlock(&regions->lock);
}

bool regions_each(struct regions *regions, const char *name,
                  void (*tell)(void *context, const struct region_info *info), void *context)
{
    bool found = name == NULL;
    pthread_mutex_lock(&regions->lock);
    for (const struct region *at = regions->first; at; at = at->next) {
        if (name && strcmp(at->name, name) != 0)
            continue;
        found = true;
        tell(context, &(struct region_info){at->name, at->key, at->offset, at->bytes});
    }
    pthread_mutex_unlock(&regions->lock);
    return found;
}

/* A descriptor of its own, so that nothing is held locked while bytes move; -1 with a sentence. */
static int lend(struct regions *regions, const char *name, uint64_t offset, uint64_t bytes, bool write,
                uint64_t *ret_at, struct pen_error *reterr)
{
    int fd = -1;
    pthread_mutex_lock(&regions->lock);
    const struct region *region = find(regions, name);
    if (!region)
        pen_error_set(reterr, PEN_ERR_INVALID, "Unable to find shared memory region: '%s'; register it first", name);
    else if (offset > region->bytes || bytes > region->bytes - offset)
        pen_error_set(reterr, PEN_ERR_INVALID,
                      "Invalid offset + byte size for shared memory region: '%s' has %" PRIu64 " bytes", name,
                      region->bytes);
    else if (write && !region->writable)
        pen_error_set(reterr, PEN_ERR_DENIED, "shared memory region '%s' may only be read by the gateway", name);
    else if ((fd = fcntl(region->fd, F_DUPFD_CLOEXEC, 3)) < 0)
        pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no descriptor is left for a region");
    else
        *ret_at = region->offset + offset;
    pthread_mutex_unlock(&regions->lock);
    return fd;
}

/* False: it is shorter now, or cannot be read or written. */
static bool move(int fd, uint64_t at, char *to, const char *from, size_t bytes)
{
    for (size_t moved = 0; moved < bytes;) {
        off_t where = (off_t)(at + moved);
        ssize_t count =
            to ? pread(fd, to + moved, bytes - moved, where) : pwrite(fd, from + moved, bytes - moved, where);
        if (count <= 0 && !(count < 0 && errno == EINTR))
            return false;
        moved += count > 0 ? (size_t)count : 0;
    }
    return true;
}

enum pen_status regions_read(struct regions *regions, const char *name, uint64_t offset, size_t bytes,
                             struct hold *hold, const void **ret_data, struct pen_error *reterr)
{
    uint64_t at = 0;
    struct pen_error error = {.status = PEN_OK};
    int fd = lend(regions, name, offset, bytes, false, &at, &error);
    if (fd < 0) {
        if (reterr)
            *reterr = error;
        return error.status;
    }
    char *data = hold_take(hold, bytes ? bytes : 1);
    bool well = data && move(fd, at, data, NULL, bytes);
    close(fd);
    if (!data)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY,
                             "no memory is left for the input; send it again later, or raise --body-memory");
    if (!well)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "shared memory region '%s' is shorter now than when it was registered", name);
    *ret_data = data;
    return PEN_OK;
}

enum pen_status regions_write(struct regions *regions, const char *name, uint64_t offset, uint64_t room,
                              const void *data, size_t bytes, struct pen_error *reterr)
{
    uint64_t at = 0;
    struct pen_error error = {.status = PEN_OK};
    if (bytes > room)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "shared memory size specified with the request for output (%" PRIu64
                             " bytes) should be at least %zu bytes",
                             room, bytes);
    int fd = lend(regions, name, offset, room, true, &at, &error);
    if (fd < 0) {
        if (reterr)
            *reterr = error;
        return error.status;
    }
    bool well = move(fd, at, NULL, data, bytes);
    close(fd);
    return well ? PEN_OK : pen_error_set(reterr, PEN_ERR_IO, "shared memory region '%s' cannot be written", name);
}
