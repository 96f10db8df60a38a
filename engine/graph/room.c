#include "graph/room.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#define ALIGN_BYTES ((size_t)64)
#define HUGE_BYTES  ((size_t)2 << 20) /* of a large page */

void *room_alloc(size_t bytes)
{
    void *memory = NULL;
    bool large = bytes >= HUGE_BYTES;
    if (posix_memalign(&memory, large ? HUGE_BYTES : ALIGN_BYTES, bytes) != 0) {
        return NULL;
    }
    if (large) {
        (void)madvise(memory, bytes / HUGE_BYTES * HUGE_BYTES, MADV_HUGEPAGE); /* without it they are small pages */
    }
    return memory;
}
