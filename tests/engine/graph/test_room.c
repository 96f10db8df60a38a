/* test_room.c - memory for many values begins where its kernels and the kernel of the system want it. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "graph/room.h"

Test(room, small_ones_are_aligned_to_a_cache_line)
{
    for (size_t bytes = 1; bytes < 70000; bytes = bytes * 3 + 1) {
        unsigned char *memory = room_alloc(bytes);
        cr_assert(memory != NULL && (uintptr_t)memory % 64 == 0, "%zu bytes at %p", bytes, (void *)memory);
        memset(memory, 1, bytes);
        free(memory);
    }
}

Test(room, large_ones_begin_at_a_large_page)
{
    const size_t large = (size_t)2 << 20;
    for (size_t bytes = large; bytes < 9 * large; bytes += large + 12345) {
        unsigned char *memory = room_alloc(bytes);
        cr_assert(memory != NULL && (uintptr_t)memory % large == 0, "%zu bytes at %p", bytes, (void *)memory);
        memset(memory, 1, bytes);
        free(memory);
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
Test(room, too_much_is_null)
{
    cr_assert_null(room_alloc(SIZE_MAX / 2));
}
#endif
