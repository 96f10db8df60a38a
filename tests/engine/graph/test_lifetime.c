/* The planner's promise: what is alive together never overlaps. */
#include <criterion/criterion.h>
#include <stdint.h>

#include "graph/lifetime.h"

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void check(const struct lifetime *items, size_t count, size_t arena)
{
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(items[i].offset % LIFETIME_ALIGN, 0);
        cr_assert_leq(items[i].offset + items[i].bytes + LIFETIME_PAD, arena);
        for (size_t k = i + 1; k < count; k++) {
            int together = items[i].first <= items[k].last && items[k].first <= items[i].last;
            int apart = items[i].offset + items[i].bytes + LIFETIME_PAD <= items[k].offset ||
                        items[k].offset + items[k].bytes + LIFETIME_PAD <= items[i].offset;
            cr_assert(!together || apart, "%zu and %zu overlap", i, k);
        }
    }
}

Test(lifetime, nothing_alive_together_overlaps)
{
    enum { COUNT = 120 };
    struct lifetime items[COUNT];
    for (uint32_t seed = 1; seed <= 60; seed++) {
        uint32_t state = seed;
        size_t arena = 0, sum = 0;
        for (size_t i = 0; i < COUNT; i++) {
            uint32_t first = next(&state) % 50;
            items[i] = (struct lifetime){next(&state) % 5000, first, first + next(&state) % 12, 0};
            sum += items[i].bytes + LIFETIME_PAD + LIFETIME_ALIGN;
        }
        cr_assert_eq(lifetime_plan(items, COUNT, &arena), PEN_OK);
        check(items, COUNT, arena);
        cr_assert_lt(arena, sum / 2, "seed %u: %zu of %zu bytes: nothing is shared", seed, arena, sum);
    }
}

Test(lifetime, a_chain_needs_two_buffers)
{
    struct lifetime items[50];
    size_t arena = 0;
    for (uint32_t i = 0; i < 50; i++)
        items[i] = (struct lifetime){1024, i, i + 1, 0};
    cr_assert_eq(lifetime_plan(items, 50, &arena), PEN_OK);
    cr_assert_eq(arena, 2 * (1024 + LIFETIME_PAD));
}

Test(lifetime, empty_and_impossible_plans)
{
    size_t arena = 7;
    struct lifetime huge[2] = {{SIZE_MAX - 1000, 0, 1, 0}, {SIZE_MAX - 1000, 0, 1, 0}};
    struct lifetime backwards = {8, 3, 2, 0};
    cr_assert_eq(lifetime_plan(NULL, 0, &arena), PEN_OK);
    cr_assert_eq(arena, 0);
    cr_assert_eq(lifetime_plan(huge, 2, &arena), PEN_ERR_TOO_LARGE);
    cr_assert_eq(lifetime_plan(&backwards, 1, &arena), PEN_ERR_INVALID);
}
