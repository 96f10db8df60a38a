/* The real blocks: what gives them back, what is missing then, and that they are taken again. The program's allocator is memory_reserve.c's. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "memory_reserve.h"

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)

static void *volatile kept[4096];
static size_t kept_count;

/* False: there was no memory. */
static bool take(size_t bytes)
{
    void *block = kept_count < sizeof kept / sizeof *kept ? malloc(bytes) : NULL;
    if (block)
        kept[kept_count++] = block;
    return block != NULL;
}

static void give_all(void)
{
    while (kept_count > 0)
        free(kept[--kept_count]);
}

/* No more address space than is used now. */
static void limit_space(struct rlimit *ret_before)
{
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "re");
    cr_assert(statm && fscanf(statm, "%lu", &pages) == 1);
    fclose(statm);
    cr_assert_eq(getrlimit(RLIMIT_AS, ret_before), 0);
    struct rlimit now = *ret_before;
    now.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE);
    cr_assert_eq(setrlimit(RLIMIT_AS, &now), 0);
}

Test(memory_reserve, what_is_given_back_is_missing_until_it_is_held_again)
{
    struct rlimit before;
    cr_assert_eq(memory_reserve_missing(), 0u, "nobody asked for it yet");
    memory_reserve_hold();
    cr_assert_eq(memory_reserve_missing(), 0u);
    for (int round = 0; round < 2; round++) {
        limit_space(&before);
        while (memory_reserve_missing() == 0 && take(MIB))
            ;
        uint64_t first = memory_reserve_missing();
        while (take(MIB))
            ;
        uint64_t still = memory_reserve_missing();
        while (memory_reserve_missing() == still && take(16 * KIB))
            ;
        uint64_t both = memory_reserve_missing();
        bool small = take(16 * KIB), large = take(256 * KIB);
        cr_assert_eq(setrlimit(RLIMIT_AS, &before), 0); /* from here on there is memory to say what was wrong */
        bool refused = !take(256 * KIB);
        memory_reserve_hold();
        bool large_again = take(256 * KIB);
        give_all();
        cr_expect_eq(first, 16 * MIB);
        cr_expect_eq(still, first, "large allocations leave the second block alone");
        cr_expect_eq(both, 24 * MIB);
        cr_expect(small && !large && refused, "once that is gone, small ones alone are served");
        cr_expect_eq(memory_reserve_missing(), 0u);
        cr_expect(large_again);
    }
}
