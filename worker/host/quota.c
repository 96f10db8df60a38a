/* quota.c - reads the cgroup files of the own group and of all above it. */
#include "quota.h"

#include <stdbool.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cores.h"

#define TEXT_BYTES 8192
#define PATH_BYTES 1024

uint64_t quota_parse_bytes(const char *text)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9')
        return QUOTA_NONE;
    uint64_t bytes = strtoull(text, &end, 10);
    return bytes >= (UINT64_C(1) << 60) ? QUOTA_NONE : bytes;
}

uint64_t quota_parse_cpu_max(const char *text)
{
    char *end = NULL;
    uint64_t quota = quota_parse_bytes(text);
    if (quota == QUOTA_NONE)
        return QUOTA_NONE;
    strtoull(text, &end, 10);
    uint64_t period = strtoull(end, NULL, 10);
    return period == 0 ? QUOTA_NONE : quota * 1000 / period;
}

/* Reads a small file into text; an empty text when it cannot be read. */
static void file_text(const char *path, char *text, size_t room)
{
    text[0] = '\0';
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    size_t bytes = fread(text, 1, room - 1, file);
    text[bytes] = '\0';
    fclose(file);
}

static uint64_t v2_cpu(const char *folder)
{
    char path[PATH_BYTES + 32], text[128];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    file_text(path, text, sizeof text);
    return quota_parse_cpu_max(text);
}

static uint64_t v2_memory(const char *folder)
{
    char path[PATH_BYTES + 32], text[128];
    snprintf(path, sizeof path, "%s/memory.max", folder);
    file_text(path, text, sizeof text);
    return quota_parse_bytes(text);
}

static uint64_t v1_cpu(const char *folder)
{
    char path[PATH_BYTES + 32], quota[128], period[128], both[260];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    file_text(path, quota, sizeof quota);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    file_text(path, period, sizeof period);
    quota[strcspn(quota, "\n")] = '\0';
    snprintf(both, sizeof both, "%s %s", quota, period);
    return quota_parse_cpu_max(both);
}

static uint64_t v1_memory(const char *folder)
{
    char path[PATH_BYTES + 32], text[128];
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", folder);
    file_text(path, text, sizeof text);
    return quota_parse_bytes(text);
}

/* The lowest limit of root/mount/<group> and every group above it. In a container the path may be the host's: then
   only the part that exists counts. */
static uint64_t least_above(const char *root, const char *mount, const char *group,
                            uint64_t (*read)(const char *folder))
{
    char folder[PATH_BYTES];
    int length = snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
    size_t base = strlen(root) + strlen(mount);
    uint64_t least = QUOTA_NONE;
    if (length < 0 || (size_t)length >= sizeof folder)
        return QUOTA_NONE;
    for (;;) {
        uint64_t value = read(folder);
        least = value < least ? value : least;
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= base || !slash || slash < folder + base)
            return least;
        *slash = '\0';
    }
}

static bool list_has(const char *list, size_t length, const char *name)
{
    size_t wanted = strlen(name);
    for (size_t at = 0; at + wanted <= length; at++) {
        bool starts = at == 0 || list[at - 1] == ',';
        bool ends = at + wanted == length || list[at + wanted] == ',';
        if (starts && ends && memcmp(list + at, name, wanted) == 0)
            return true;
    }
    return false;
}

/* Walks lines "id:controllers:/path"; an empty controller list is the v2 hierarchy. */
static uint64_t least_of(const char *cgroup, const char *root, const char *controller,
                         uint64_t (*v1)(const char *folder), uint64_t (*v2)(const char *folder))
{
    uint64_t least = QUOTA_NONE;
    for (const char *line = cgroup; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char group[PATH_BYTES / 2], mount[64];
        size_t length = strcspn(line, "\n");
        const char *first = memchr(line, ':', length);
        const char *second = first ? memchr(first + 1, ':', length - (size_t)(first + 1 - line)) : NULL;
        if (!second)
            continue;
        size_t list = (size_t)(second - first - 1), path = length - (size_t)(second + 1 - line);
        if (path >= sizeof group || list + 2 >= sizeof mount || (list > 0 && !list_has(first + 1, list, controller)))
            continue;
        memcpy(group, second + 1, path);
        group[path] = '\0';
        snprintf(mount, sizeof mount, "%s%.*s", list ? "/" : "", (int)list, first + 1);
        uint64_t value = least_above(root, mount, group, list ? v1 : v2);
        least = value < least ? value : least;
    }
    return least;
}

uint64_t quota_cpu_millis(const char *cgroup, const char *root)
{
    return least_of(cgroup, root, "cpu", v1_cpu, v2_cpu);
}

uint64_t quota_memory(const char *cgroup, const char *root)
{
    return least_of(cgroup, root, "memory", v1_memory, v2_memory);
}

/* *ret_cores: without the second threads of a core. */
static uint32_t affinity_cpus(uint32_t *ret_cores)
{
    cpu_set_t set, cores;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
        cores_of(CORES_ROOT, &set, &cores);
        *ret_cores = (uint32_t)CPU_COUNT(&cores);
        return (uint32_t)CPU_COUNT(&set);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more than 1024 processors: the set is too small */
    *ret_cores = online > 0 ? (uint32_t)online : 1;
    return *ret_cores;
}

void quota_detect(struct quota *ret_quota)
{
    char cgroup[TEXT_BYTES];
    file_text("/proc/self/cgroup", cgroup, sizeof cgroup);
    uint64_t millis = quota_cpu_millis(cgroup, "/sys/fs/cgroup");
    uint64_t memory = quota_memory(cgroup, "/sys/fs/cgroup");
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t physical = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : QUOTA_NONE;
    uint32_t cores = 1, affinity = affinity_cpus(&cores);
    uint64_t quota = millis == QUOTA_NONE ? affinity : (millis + 999) / 1000;
    quota = quota == 0 ? 1 : quota;
    *ret_quota = (struct quota){
        .cpus = quota < affinity ? (uint32_t)quota : affinity,
        .cores = quota < cores ? (uint32_t)quota : cores,
        .cpus_affinity = affinity,
        .memory_bytes = memory < physical ? memory : physical,
    };
}
