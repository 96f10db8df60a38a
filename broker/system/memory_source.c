#include "memory_source.h"

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory_reserve.h"
#include "large_block.h"
#include "memory.h"

static size_t text_read(int fd, char *text, size_t bytes)
{
    ssize_t got = fd < 0 ? -1 : pread(fd, text, bytes - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    return got > 0 ? (size_t)got : 0;
}

static uint64_t limit_of(__rlimit_resource_t resource)
{
    struct rlimit limit;
    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : UINT64_MAX;
}

/* The memory reserve counts as used in both cases: it is no use of ours while it is held, and no room for jobs when
   some of it had to be given back. */
static void own_read(const struct memory_files *files, struct memory_reading *reading)
{
    char text[128];
    uint64_t pages[6] = {0}, page = (uint64_t)sysconf(_SC_PAGESIZE), memory_reserve = memory_reserve_missing();
    text_read(files->statm, text, sizeof text);
    sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &pages[0], &pages[1],
           &pages[2], &pages[3], &pages[4], &pages[5]);
    reading->used[MEMORY_SPACE] = pages[0] * page + memory_reserve;
    reading->used[MEMORY_SETTING] = (pages[1] - pages[2]) * page; /* code and files are shared, and can be dropped */
    reading->used[MEMORY_DATA] = pages[5] * page + memory_reserve;
    reading->limit[MEMORY_SPACE] = limit_of(RLIMIT_AS);
    reading->limit[MEMORY_DATA] = limit_of(RLIMIT_DATA);
    reading->limit[MEMORY_SETTING] = files->setting_bytes ? files->setting_bytes : UINT64_MAX;
    reading->limit[MEMORY_GROUP] = UINT64_MAX;
    reading->used[MEMORY_GROUP] = 0;
}

static void source_read(void *context, bool thorough, struct memory_reading *ret_reading)
{
    const struct memory_files *files = context;
    own_read(files, ret_reading);
    memory_groups_read(&files->groups, thorough, &ret_reading->limit[MEMORY_GROUP], &ret_reading->used[MEMORY_GROUP]);
    ret_reading->reusable = thorough ? mallinfo2().fordblks : 0;
}

/* For threads that read ahead of the loop: they may use half of the reserve, so that what they read can still be
   refused. */
static uint64_t groups_left(void *context)
{
    const struct memory_files *files = context;
    for (int thorough = 0; thorough < 2; thorough++) {
        uint64_t limit, used;
        if (!memory_groups_read(&files->groups, thorough != 0, &limit, &used))
            return UINT64_MAX;
        uint64_t kept = headroom_reserve(limit) / 2, left = limit > used ? limit - used : 0;
        if (left > kept + kept / 2)
            return left - kept;
    }
    return 0;
}

static void source_spare(void *context, bool sparing)
{
    (void)context;
    memory_spare(sparing);
}

static void source_relieve(void *context)
{
    (void)context;
    large_block_trim(UINT64_MAX, 0);
    malloc_trim(0);
}

void memory_source_init(struct memory_files *files, uint64_t setting_bytes, struct memory_source *ret_source)
{
    *files = (struct memory_files){.setting_bytes = setting_bytes};
    files->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    memory_groups_open_own(&files->groups);
    memory_reserve_hold();
    if (files->groups.count > 0)
        memory_reserve_watch(groups_left, files);
    *ret_source = (struct memory_source){.read = source_read,
                                         .relieve = source_relieve,
                                         .spare = source_spare,
                                         .missing = memory_reserve_missing,
                                         .hold = memory_reserve_hold,
                                         .context = files};
}

void memory_source_fini(struct memory_files *files)
{
    if (files->statm >= 0)
        close(files->statm);
    memory_reserve_watch(NULL, NULL);
    memory_groups_close(&files->groups);
}
