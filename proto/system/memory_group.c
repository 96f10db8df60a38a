#include "memory_group.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUPS_ROOT "/sys/fs/cgroup"
#define OWN_BYTES   4096u
#define LIMIT_NONE  (UINT64_C(1) << 60) /* version 1 says "no limit" by a number near 2^63 */

/* Version 2 is mounted at the root or, beside version 1, in a folder of it. */
static const struct group_kind {
    const char *controller, *mount, *limit, *used;
} kinds[] = {
    {"memory", "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
    {"", "", "memory.max", "memory.current"},
    {"", "/unified", "memory.max", "memory.current"},
};

/* "max", or a file that does not exist, is no number. */
static bool number_read(int fd, uint64_t *ret_number)
{
    char text[32], *end;
    ssize_t got = pread(fd, text, sizeof text - 1, 0);
    if (got <= 0 || text[0] < '0' || text[0] > '9')
        return false;
    text[got] = '\0';
    *ret_number = strtoull(text, &end, 10);
    return end != text;
}

static int file_open(const char *folder, const char *name)
{
    char path[MEMORY_GROUP_PATH_BYTES];
    int bytes = snprintf(path, sizeof path, "%s/%s", folder, name);
    return bytes > 0 && (size_t)bytes < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
}

static void group_close(const struct memory_group *group)
{
    if (group->limit >= 0)
        close(group->limit);
    if (group->used >= 0)
        close(group->used);
}

static void group_open(struct memory_groups *groups, const struct group_kind *kind, const char *folder)
{
    struct memory_group *group = &groups->groups[groups->count];
    int bytes = snprintf(group->stat, sizeof group->stat, "%s/memory.stat", folder);
    if (bytes < 0 || (size_t)bytes >= sizeof group->stat)
        return;
    group->limit = file_open(folder, kind->limit);
    group->used = file_open(folder, kind->used);
    if (group->limit >= 0 && group->used >= 0)
        groups->count++;
    else
        group_close(group);
}

/* Opens `folder` and all groups above it, up to the mount; changes the text. */
static void branch_open(struct memory_groups *groups, const struct group_kind *kind, char *folder, size_t mount_bytes)
{
    while (groups->count < MEMORY_GROUPS_MAX) {
        size_t length = strlen(folder);
        while (length > mount_bytes && folder[length - 1] == '/')
            folder[--length] = '\0';
        group_open(groups, kind, folder);
        if (length <= mount_bytes)
            return;
        *strrchr(folder, '/') = '\0';
    }
}

static bool list_has(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == length && memcmp(list, name, length) == 0)
            return true;
    return length == 0;
}

/* A line "id:controllers:/path"; version 2 has no controllers. */
static void line_open(struct memory_groups *groups, char *line, const char *root)
{
    char folder[MEMORY_GROUP_PATH_BYTES];
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path)
        return;
    *path++ = '\0';
    list++;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if ((*kinds[i].controller == '\0') != (*list == '\0') || !list_has(list, kinds[i].controller))
            continue;
        int bytes = snprintf(folder, sizeof folder, "%s%s%s", root, kinds[i].mount, path);
        if (bytes > 0 && (size_t)bytes < sizeof folder)
            branch_open(groups, &kinds[i], folder, strlen(root) + strlen(kinds[i].mount));
    }
}

void memory_groups_open(struct memory_groups *groups, const char *own, const char *root)
{
    groups->count = 0;
    while (*own) {
        char line[MEMORY_GROUP_PATH_BYTES];
        size_t length = strcspn(own, "\n");
        if (length < sizeof line) {
            memcpy(line, own, length);
            line[length] = '\0';
            line_open(groups, line, root);
        }
        own += length + (own[length] == '\n');
    }
}

void memory_groups_open_own(struct memory_groups *groups)
{
    char own[OWN_BYTES];
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, own, sizeof own - 1) : 0;
    own[got > 0 ? got : 0] = '\0';
    if (fd >= 0)
        close(fd);
    memory_groups_open(groups, own, GROUPS_ROOT);
}

void memory_groups_close(struct memory_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        group_close(&groups->groups[i]);
    groups->count = 0;
}

static uint64_t pages_of_files(const struct memory_group *group)
{
    char line[128];
    uint64_t sum = 0, plain = 0;
    FILE *stat = fopen(group->stat, "re");
    while (stat && fgets(line, sizeof line, stat)) {
        uint64_t value;
        if (sscanf(line, "total_inactive_file %" SCNu64, &value) == 1 ||
            sscanf(line, "total_active_file %" SCNu64, &value) == 1)
            sum += value;
        else if (sscanf(line, "inactive_file %" SCNu64, &value) == 1 ||
                 sscanf(line, "active_file %" SCNu64, &value) == 1)
            plain += value;
    }
    if (stat)
        fclose(stat);
    return sum ? sum : plain; /* version 1 tells both, for the tree and for the group alone */
}

bool memory_groups_read(const struct memory_groups *groups, bool thorough, uint64_t *ret_limit, uint64_t *ret_used)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < groups->count; i++) {
        const struct memory_group *group = &groups->groups[i];
        uint64_t limit, used;
        if (!number_read(group->limit, &limit) || limit >= LIMIT_NONE || !number_read(group->used, &used))
            continue;
        uint64_t pages = thorough ? pages_of_files(group) : 0;
        used = used > pages ? used - pages : 0;
        uint64_t left = limit > used ? limit - used : 0;
        if (left >= least)
            continue;
        least = left;
        *ret_limit = limit;
        *ret_used = used;
    }
    return least != UINT64_MAX;
}
