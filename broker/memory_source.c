#include "memory_source.h"

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ballast.h"
#include "large_block.h"

#define GROUP_NONE (UINT64_C(1) << 60) /* version 1 says "no limit" by a number near 2^63 */
#define PATH_BYTES 512

static size_t text_read(int fd, char *text, size_t bytes)
{
    ssize_t got = fd < 0 ? -1 : pread(fd, text, bytes - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    return got > 0 ? (size_t)got : 0;
}

/* "max" and what is absent are no number. */
static bool number_read(int fd, uint64_t *ret_number)
{
    char text[32], *end;
    if (text_read(fd, text, sizeof text) == 0)
        return false;
    *ret_number = strtoull(text, &end, 10);
    return end != text;
}

/* ---- the control group ---- */

static const struct group_kind {
    const char *prefix, *root, *limit, *used;
} kinds[] = {
    {"0::", "/sys/fs/cgroup", "memory.max", "memory.current"},
    {":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
};

static int group_file(const struct group_kind *kind, const char *path, const char *name)
{
    char full[PATH_BYTES];
    int bytes = snprintf(full, sizeof full, "%s%s/%s", kind->root, path, name);
    return bytes > 0 && (size_t)bytes < sizeof full ? open(full, O_RDONLY | O_CLOEXEC) : -1;
}

static void group_close(struct memory_files *files)
{
    if (files->group_limit >= 0)
        close(files->group_limit);
    if (files->group_used >= 0)
        close(files->group_used);
    files->group_limit = files->group_used = -1;
}

static bool group_open(struct memory_files *files, const struct group_kind *kind, const char *path)
{
    files->group_limit = group_file(kind, path, kind->limit);
    files->group_used = group_file(kind, path, kind->used);
    snprintf(files->group_stat, sizeof files->group_stat, "%s%.400s/memory.stat", kind->root, path);
    return files->group_limit >= 0 && files->group_used >= 0;
}

/* From our own group upwards: the nearest that has a limit. A path of another namespace is not there: then the root's. */
static bool group_search(struct memory_files *files, const struct group_kind *kind, char *path)
{
    uint64_t limit;
    path[strcspn(path, "\n")] = '\0';
    for (;;) {
        char *slash = strrchr(path, '/');
        if (slash && !slash[1])
            *slash = '\0';
        if (group_open(files, kind, path) && number_read(files->group_limit, &limit) && limit < GROUP_NONE)
            return true;
        group_close(files);
        slash = strrchr(path, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
}

static void group_find(struct memory_files *files)
{
    char line[PATH_BYTES], own[PATH_BYTES];
    FILE *groups = fopen("/proc/self/cgroup", "re");
    while (groups && files->group_limit < 0 && fgets(line, sizeof line, groups)) {
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && files->group_limit < 0; i++) {
            const char *at = strstr(line, kinds[i].prefix);
            if (!at || (i == 0 && at != line))
                continue;
            memcpy(own, at + strlen(kinds[i].prefix), strlen(at + strlen(kinds[i].prefix)) + 1);
            if (group_search(files, &kinds[i], own))
                break;
            memcpy(own, at + strlen(kinds[i].prefix), strlen(at + strlen(kinds[i].prefix)) + 1);
            own[strcspn(own, "\n")] = '\0';
            if (!group_open(files, &kinds[i], strcmp(own, "/") == 0 ? "" : own)) /* it may get a limit yet */
                group_close(files);
        }
    }
    if (groups)
        fclose(groups);
}

/* Pages of files count as used, and go when memory is wanted. */
static uint64_t group_pages_of_files(const struct memory_files *files)
{
    char line[128];
    uint64_t sum = 0, plain = 0;
    FILE *stat = fopen(files->group_stat, "re");
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

static void group_read(const struct memory_files *files, bool thorough, struct memory_reading *reading)
{
    uint64_t limit, used;
    if (!number_read(files->group_limit, &limit) || limit >= GROUP_NONE || !number_read(files->group_used, &used))
        return;
    uint64_t files_bytes = thorough ? group_pages_of_files(files) : 0;
    reading->limit[MEMORY_GROUP] = limit;
    reading->used[MEMORY_GROUP] = used > files_bytes ? used - files_bytes : 0;
}

/* ---- all of it ---- */

static uint64_t limit_of(__rlimit_resource_t resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

/* The ballast is no use of ours while it is held, nor room for jobs when some of it had to be given back: it counts in both cases. */
static void own_read(const struct memory_files *files, struct memory_reading *reading)
{
    char text[128];
    uint64_t pages[6] = {0}, page = (uint64_t)sysconf(_SC_PAGESIZE), ballast = ballast_missing();
    text_read(files->statm, text, sizeof text);
    sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &pages[0], &pages[1],
           &pages[2], &pages[3], &pages[4], &pages[5]);
    reading->used[MEMORY_SPACE] = pages[0] * page + ballast;
    reading->used[MEMORY_SETTING] = (pages[1] - pages[2]) * page; /* code and files are shared, and can be let go */
    reading->used[MEMORY_DATA] = pages[5] * page + ballast;
    reading->limit[MEMORY_SPACE] = limit_of(RLIMIT_AS);
    reading->limit[MEMORY_DATA] = limit_of(RLIMIT_DATA);
    reading->limit[MEMORY_SETTING] = files->setting_bytes ? files->setting_bytes : UINT64_MAX;
    reading->limit[MEMORY_GROUP] = UINT64_MAX;
}

static void source_read(void *context, bool thorough, struct memory_reading *ret_reading)
{
    const struct memory_files *files = context;
    own_read(files, ret_reading);
    group_read(files, thorough, ret_reading);
    ret_reading->reusable = thorough ? mallinfo2().fordblks : 0;
}

static void source_relieve(void *context)
{
    (void)context;
    large_block_trim(UINT64_MAX, 0);
    malloc_trim(0);
}

void memory_source_init(struct memory_files *files, uint64_t setting_bytes, struct memory_source *ret_source)
{
    *files = (struct memory_files){.setting_bytes = setting_bytes, .group_limit = -1, .group_used = -1};
    files->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    group_find(files);
    ballast_hold();
    *ret_source = (struct memory_source){.read = source_read,
                                         .relieve = source_relieve,
                                         .missing = ballast_missing,
                                         .hold = ballast_hold,
                                         .context = files};
}

void memory_source_fini(struct memory_files *files)
{
    if (files->statm >= 0)
        close(files->statm);
    group_close(files);
}
