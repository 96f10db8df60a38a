#include "memory.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "large_block.h"

#define BLOCKS_KEPT_BYTES (512u * 1024u * 1024u) /* of large frames, for two seconds */

#define MAPPED_FROM   (32 * 1024 * 1024) /* the largest that glibc takes */
#define MAPPED_SPARED (64 * 1024)
#define TRIM_FROM     (64 * 1024 * 1024)
#define TRIM_SPARED   (1024 * 1024)

/* Without this glibc would map and unmap every large payload: +47 % jobs/s at 600 KiB with it. One arena, because
   one thread allocates most. */
void memory_tune(void)
{
    memory_spare(false);
    mallopt(M_ARENA_MAX, 2);
}

void memory_spare(bool sparing)
{
    mallopt(M_MMAP_THRESHOLD, sparing ? MAPPED_SPARED : MAPPED_FROM);
    mallopt(M_TRIM_THRESHOLD, sparing ? TRIM_SPARED : TRIM_FROM);
    large_block_keep(sparing ? 0 : BLOCKS_KEPT_BYTES);
}

/* Code only: nobody may write there, so its pages equal those of the file. Relocated tables are mapped readable,
   too, but they differ from the file, so they stay. */
static void code_let_go(const char *line)
{
    uintptr_t from, to;
    char rights[5], path[2];
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %1s", &from, &to, rights, path) == 4 &&
        strcmp(rights, "r-xp") == 0 && *path == '/')
        madvise((void *)from, to - from, MADV_DONTNEED);
}

void memory_settle(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        code_let_go(line);
    if (maps)
        fclose(maps);
    malloc_trim(0);
}
