/* Memory for packed weights. */
#include <sys/mman.h>

#include "backend/xnnpack/emit.h"
#include "graph/room.h"

#define PAGE_BYTES  ((size_t)4096) /* at least: what is asked for is advice */
#define TOUCH_BYTES (16 * PAGE_BYTES)

/* Pages that are about to be written: in one go instead of one by one. */
static void pages_touch(void *memory, size_t bytes)
{
    uintptr_t first = ((uintptr_t)memory + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    uintptr_t end = ((uintptr_t)memory + bytes) / PAGE_BYTES * PAGE_BYTES;
    if (end > first) {
        (void)madvise((void *)first, end - first, MADV_POPULATE_WRITE);
    }
}

void *packed_alloc(size_t bytes)
{
    void *memory = room_alloc(bytes);
    if (memory != NULL && bytes >= TOUCH_BYTES) {
        pages_touch(memory, bytes);
        room_later(memory, bytes);
    }
    return memory;
}
