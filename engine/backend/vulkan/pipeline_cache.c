#include "backend/vulkan/pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static const struct {
    const char *name;
    uint32_t magic, version;
    size_t most; /* a file beyond it is none of ours */
} kinds[] = {
    [VK_CACHE_PIPELINES] = {"pipelines", 0x4B56504Eu /* "NPVK" */, 1, (size_t)256 << 20},
    [VK_CACHE_TUNING] = {"tuning", 0x5456504Eu /* "NPVT" */, 1, (size_t)1 << 16},
};

/* Before the driver's payload; drivers check little of what they are given, so all of it is checked here. */
struct cache_header {
    uint32_t magic, version;
    struct vk_cache_key key;
    uint64_t bytes, hash; /* of the payload */
};

struct vk_cache_key vk_cache_key_of(const struct vk_device_info *info)
{
    struct vk_cache_key key;
    memset(&key, 0, sizeof key); /* padding too: the key is compared and written as bytes */
    memcpy(key.uuid, info->uuid, sizeof key.uuid);
    key.driver = (uint32_t)info->driver;
    key.driver_version = info->driver_version;
    key.info_hash = XXH3_64bits(info->driver_info, strnlen(info->driver_info, sizeof info->driver_info));
    return key;
}

bool vk_cache_path(const char *dir, enum vk_cache_kind kind, const struct vk_cache_key *key, char *path,
                   size_t path_bytes)
{
    uint64_t name = XXH3_64bits(key, sizeof *key);
    int length = snprintf(path, path_bytes, "%s/%s-%016llx.bin", dir, kinds[kind].name, (unsigned long long)name);
    return length > 0 && (size_t)length < path_bytes;
}

static bool file_read(int fd, void *to, size_t bytes)
{
    uint8_t *at = to;
    while (bytes > 0) {
        ssize_t got = read(fd, at, bytes);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            return false;
        }
        at += got > 0 ? got : 0;
        bytes -= got > 0 ? (size_t)got : 0;
    }
    return true;
}

static void *payload_read(int fd, enum vk_cache_kind kind, const struct vk_cache_key *key, size_t *ret_bytes,
                          const char **ret_why)
{
    struct cache_header h;
    struct stat st;
    *ret_why = "corrupt";
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || !file_read(fd, &h, sizeof h) || h.magic != kinds[kind].magic) {
        return NULL;
    }
    if (h.version != kinds[kind].version || memcmp(&h.key, key, sizeof *key) != 0) {
        *ret_why = "foreign";
        return NULL;
    }
    if (h.bytes == 0 || h.bytes > kinds[kind].most || (uint64_t)st.st_size != sizeof h + h.bytes) {
        return NULL;
    }
    void *payload = malloc((size_t)h.bytes);
    if (payload == NULL || !file_read(fd, payload, (size_t)h.bytes) ||
        XXH3_64bits(payload, (size_t)h.bytes) != h.hash) {
        free(payload);
        return NULL;
    }
    *ret_bytes = (size_t)h.bytes;
    *ret_why = "hit";
    return payload;
}

void *vk_cache_read(const char *dir, enum vk_cache_kind kind, const struct vk_cache_key *key, size_t *ret_bytes,
                    const char **ret_why)
{
    char path[4096];
    *ret_why = "none";
    int fd = vk_cache_path(dir, kind, key, path, sizeof path)
                 ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
                 : -1;
    if (fd < 0) {
        return NULL;
    }
    void *payload = payload_read(fd, kind, key, ret_bytes, ret_why);
    close(fd);
    return payload;
}

/* mkdir -p, for this user only. False: errno says why. */
static bool folder_make(const char *dir)
{
    char path[4096];
    size_t length = strlen(dir);
    if (length == 0 || length >= sizeof path) {
        errno = length == 0 ? ENOENT : ENAMETOOLONG;
        return false;
    }
    memcpy(path, dir, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] == '/' || path[i] == '\0') {
            char kept = path[i];
            path[i] = '\0';
            if (mkdir(path, 0700) != 0 && errno != EEXIST) {
                return false;
            }
            path[i] = kept;
        }
    }
    return true;
}

bool vk_cache_usable(const char *dir, char *why, size_t why_bytes)
{
    struct stat st;
    bool made = folder_make(dir) && stat(dir, &st) == 0;
    if (made && !S_ISDIR(st.st_mode)) { /* mkdir said that there is something of that name */
        made = false;
        errno = ENOTDIR;
    }
    if (made && access(dir, W_OK | X_OK) == 0) {
        return true;
    }
    snprintf(why, why_bytes, "%s", strerrordesc_np(errno));
    return false;
}

static bool file_write(int fd, const void *from, size_t bytes)
{
    const uint8_t *at = from;
    while (bytes > 0) {
        ssize_t put = write(fd, at, bytes);
        if (put < 0 && errno != EINTR) {
            return false;
        }
        at += put > 0 ? put : 0;
        bytes -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

bool vk_cache_write(const char *dir, enum vk_cache_kind kind, const struct vk_cache_key *key, const void *payload,
                    size_t bytes)
{
    char path[4096], temporary[4200];
    struct cache_header h;
    if (bytes == 0 || bytes > kinds[kind].most || !folder_make(dir) ||
        !vk_cache_path(dir, kind, key, path, sizeof path)) {
        return false;
    }
    memset(&h, 0, sizeof h);
    h.magic = kinds[kind].magic;
    h.version = kinds[kind].version;
    h.key = *key;
    h.bytes = bytes;
    h.hash = XXH3_64bits(payload, bytes);
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int fd = mkstemp(temporary);
    if (fd < 0) {
        return false;
    }
    bool written = file_write(fd, &h, sizeof h) && file_write(fd, payload, bytes);
    written = close(fd) == 0 && written;
    if (!written || rename(temporary, path) != 0) {
        unlink(temporary);
        return false;
    }
    return true;
}
