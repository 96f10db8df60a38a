/* The real blocks: what gives them back, what is missing then, and that they are taken again. The program's allocator is memory_reserve.c's. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
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

/* ---- large blocks of other threads ---- */

static struct {
    uint64_t room;     /* what is left */
    unsigned short_of; /* so many first looks find less than that */
    unsigned looks, trims, pauses;
    bool right;
} pace;

int __wrap_malloc_trim(size_t pad);
int __wrap_nanosleep(const struct timespec *time, struct timespec *rest);

int __wrap_malloc_trim(size_t pad)
{
    pace.trims++;
    pace.right &= pad == 0;
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
    pace.pauses++;
    pace.right &= time->tv_sec == 0 && time->tv_nsec == 1000000 && rest == NULL;
    return 0;
}

static uint64_t room_left(void *context)
{
    pace.right &= context == &pace;
    return ++pace.looks <= pace.short_of ? 0 : pace.room;
}

struct wish {
    size_t bytes;
    bool served;
    int error;
    unsigned looks; /* so far */
};

static void *wish_all(void *context)
{
    for (struct wish *wish = context; wish->bytes > 0; wish++) {
        errno = 0;
        void *volatile block = malloc(wish->bytes);
        wish->error = errno;
        wish->served = block != NULL;
        wish->looks = pace.looks;
        free(block);
    }
    return NULL;
}

static void wishes(struct wish *list)
{
    pthread_t thread;
    memory_reserve_watch(room_left, &pace);
    cr_assert_eq(pthread_create(&thread, NULL, wish_all, list), 0);
    pthread_join(thread, NULL);
}

/* Half of what is left beside a block may be taken before anybody looks again. */
Test(memory_reserve, large_blocks_of_other_threads_are_paced_by_what_is_left)
{
    struct wish list[] = {{.bytes = 64 * KIB - 1}, {.bytes = 64 * KIB}, {.bytes = MIB}, {.bytes = MIB},  {.bytes = MIB},
                          {.bytes = MIB},          {.bytes = MIB},      {.bytes = MIB}, {.bytes = 4096}, {0}};
    const unsigned looks[] = {0, 1, 1, 1, 1, 1, 2, 2, 2};
    pace.room = 8 * MIB + 64 * KIB; /* 4 MiB more may go */
    pace.right = true;
    wishes(list);
    for (size_t i = 0; list[i].bytes > 0; i++)
        cr_expect(list[i].served && list[i].looks == looks[i], "block %zu: %u looks", i, list[i].looks);
    cr_expect(pace.right && pace.trims == 0 && pace.pauses == 0);
    unsigned before = pace.looks;
    free((void *)(uintptr_t)malloc(2 * MIB));
    cr_expect_eq(pace.looks, before, "the owner's own are not held up");
}

Test(memory_reserve, a_large_block_waits_for_room_and_is_refused_in_the_end)
{
    static const struct {
        size_t bytes;
        uint64_t room;
        unsigned short_of, looks, trims, pauses;
        bool served;
    } cases[] = {
        {MIB, MIB, 0, 1, 0, 0, true},        {MIB, MIB - 1, 0, 100, 5, 95, false},
        {MIB, 2 * MIB, 1, 2, 1, 0, true},    {MIB, 2 * MIB, 3, 4, 1, 2, true},
        {MIB, 2 * MIB, 21, 22, 2, 19, true}, {MIB, 2 * MIB, 99, 100, 5, 94, true},
        {MIB, UINT64_MAX, 0, 1, 0, 0, true}, {MIB, 2 * MIB, 100, 100, 5, 95, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wish list[] = {{.bytes = cases[i].bytes}, {0}};
        pace.room = cases[i].room;
        pace.short_of = cases[i].short_of;
        pace.looks = pace.trims = pace.pauses = 0;
        pace.right = true;
        wishes(list);
        cr_expect(list[0].served == cases[i].served && list[0].error == (cases[i].served ? 0 : ENOMEM), "case %zu", i);
        cr_expect(pace.right && pace.looks == cases[i].looks && pace.trims == cases[i].trims &&
                      pace.pauses == cases[i].pauses,
                  "case %zu: %u looks, %u trims, %u pauses", i, pace.looks, pace.trims, pace.pauses);
    }
}

/* What is left is more than a signed number: it counts as as much as that. */
Test(memory_reserve, where_there_is_no_limit_nobody_looks_twice)
{
    struct wish list[] = {{.bytes = MIB}, {.bytes = MIB}, {.bytes = 64 * MIB}, {0}};
    pace.room = UINT64_MAX;
    pace.right = true;
    wishes(list);
    for (size_t i = 0; list[i].bytes > 0; i++)
        cr_expect(list[i].served && list[i].looks == 1, "block %zu: %u looks", i, list[i].looks);
}
