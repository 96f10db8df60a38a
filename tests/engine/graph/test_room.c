/* test_room.c - memory for many values begins where its kernels and the kernel of the system want it. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/xnnpack/emit.h"
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

/* ---- large pages that are slow ---------------------------------------------------------------------------------------------- */

static uint64_t now, step; /* each look at the clock turns it */

static uint64_t turned_clock(void)
{
    return now += step;
}

#define LARGE ((size_t)2 << 20)

/* Then small ones are taken for a while, and a large one is tried again. */
Test(room, large_pages_that_are_slow_are_left_out_for_a_while)
{
    void *memory = NULL;
    unsigned tries = 0;
    cr_assert_eq(posix_memalign(&memory, LARGE, 4 * LARGE), 0);
    room_now_ns = turned_clock;
    step = 1000;
    cr_assert(room_large(memory, 4 * LARGE), "a quick one");
    step = 5000000;
    cr_assert_not(room_large(memory, 4 * LARGE), "a slow one");
    step = 1000;
    while (!room_large(memory, 4 * LARGE)) {
        cr_assert_lt(++tries, 100u, "a large page is tried again");
    }
    cr_assert_eq(tries, 8u, "64 MiB later, after %u times 8", tries);
    free(memory);
}

/* ---- large pages that come later --------------------------------------------------------------------------------------------- */

/* Whether the mapping that holds `memory` has this flag in /proc/self/smaps. */
static bool mapping_has(const void *memory, const char *flag)
{
    char line[512];
    bool here = false, has = false;
    FILE *f = fopen("/proc/self/smaps", "re");
    cr_assert_not_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        unsigned long first = 0, end = 0;
        if (sscanf(line, "%lx-%lx ", &first, &end) == 2) {
            here = (uintptr_t)memory >= first && (uintptr_t)memory < end;
        } else if (here && strncmp(line, "VmFlags:", 8) == 0) {
            has = strstr(line, flag) != NULL;
        }
    }
    (void)fclose(f);
    return has;
}

Test(room, small_pages_may_be_joined_later)
{
    void *memory = NULL;
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0) {
        cr_skip_test("this system has no large pages");
    }
    cr_assert_eq(posix_memalign(&memory, LARGE, 4 * LARGE), 0);
    room_later(memory, LARGE - 1);
    cr_assert_not(mapping_has(memory, " hg"), "too small for one");
    room_later(memory, 4 * LARGE);
    cr_assert(mapping_has(memory, " hg"));
    free(memory);
}

/* Weights live long: also those that got small pages at the load. */
Test(room, packed_weights_may_be_joined_later)
{
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0) {
        cr_skip_test("this system has no large pages");
    }
    room_now_ns = turned_clock;
    step = 5000000;
    unsigned char *memory = packed_alloc(4 * LARGE);
    cr_assert_not_null(memory);
    cr_expect(mapping_has(memory + 2 * LARGE, " hg"));
    free(memory);
}
