/* The parts that runs are made of, each alone: the arena and its ledger, marks of memory, turns of a loop and what they collect, checks of numbers, profiles. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "graph/lifetime.h"
#include "run/collect.h"
#include "run/internal.h"
#include "run/memory.h"
#include "run/turns.h"

#define BLOCK ((size_t)256 * 1024)

static struct rt_arena arena;
static struct pen_error error;

/* ---- the arena ---- */

static size_t apart(const void *first, const void *second)
{
    return (size_t)((const char *)second - (const char *)first);
}

Test(arena, what_is_taken_is_aligned_and_has_readable_bytes_behind_it)
{
    static const struct {
        size_t bytes, step;
    } cases[] = {{0, 64}, {1, 128}, {63, 128}, {64, 128}, {65, 192}, {1000, 1088}};
    rt_arena_init(&arena, 4 * BLOCK);
    char *before = rt_arena_alloc(&arena, 0);
    size_t step = 64;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *now = rt_arena_alloc(&arena, cases[i].bytes);
        cr_assert(now != NULL && (uintptr_t)now % LIFETIME_ALIGN == 0);
        cr_expect_eq(apart(before, now), step, "before %zu bytes: %zu", cases[i].bytes, apart(before, now));
        memset(now, 1, cases[i].bytes + LIFETIME_PAD);
        before = now;
        step = cases[i].step;
    }
    cr_expect_eq(arena.own, BLOCK);
    cr_expect_null(rt_arena_alloc(&arena, SIZE_MAX));
    cr_expect_null(rt_arena_alloc(&arena, SIZE_MAX - LIFETIME_PAD - LIFETIME_ALIGN + 1));
    cr_expect(!arena.own_refused, "no number, rather than beyond the limit");
    rt_arena_fini(&arena);
    cr_expect(arena.own == 0 && arena.blocks == NULL && arena.current == NULL);
}

Test(arena, blocks_are_within_the_limit_and_no_byte_beyond)
{
    static const struct {
        uint64_t limit;
        size_t bytes[3]; /* taken one after the other */
        bool given[3];
        uint64_t own;
    } cases[] = {
        {BLOCK, {BLOCK - 64, 0, 0}, {true, false, false}, BLOCK},
        {BLOCK, {BLOCK - 63, 1, 1}, {false, true, true}, BLOCK},
        {BLOCK - 1, {1, 1, 1}, {false, false, false}, 0},
        {2 * BLOCK, {BLOCK - 64, 1, BLOCK - 192}, {true, true, true}, 2 * BLOCK},
        {2 * BLOCK, {BLOCK - 64, 1, BLOCK - 191}, {true, true, false}, 2 * BLOCK},
        {3 * BLOCK, {2 * BLOCK, 1, 1}, {true, false, false}, 2 * BLOCK + 64},
        {3 * BLOCK + 64, {2 * BLOCK, 1, 1}, {true, true, true}, 3 * BLOCK + 64},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool refused = false;
        rt_arena_init(&arena, cases[i].limit);
        for (size_t k = 0; k < 3; k++) {
            refused |= !cases[i].given[k];
            cr_expect_eq(rt_arena_alloc(&arena, cases[i].bytes[k]) != NULL, cases[i].given[k], "case %zu, %zu", i, k);
            cr_expect_eq(arena.own_refused, refused, "case %zu, %zu", i, k);
        }
        cr_expect_eq(arena.own, cases[i].own, "case %zu: %lu", i, (unsigned long)arena.own);
        rt_arena_fini(&arena);
    }
}

Test(arena, goes_back_to_a_mark_and_keeps_its_blocks)
{
    rt_arena_init(&arena, 8 * BLOCK);
    const struct rt_mark nothing = rt_arena_mark(&arena);
    char *first = rt_arena_alloc(&arena, 100);
    const struct rt_mark mark = rt_arena_mark(&arena);
    char *second = rt_arena_alloc(&arena, 100), *third = rt_arena_alloc(&arena, BLOCK - 64),
         *fourth = rt_arena_alloc(&arena, BLOCK - 64);
    uint64_t own = arena.own;
    cr_expect_eq(own, 3 * BLOCK);
    for (int round = 0; round < 3; round++) {
        rt_arena_release(&arena, &mark);
        cr_expect_eq(rt_arena_alloc(&arena, 100), second, "round %d", round);
        cr_expect_eq(rt_arena_alloc(&arena, BLOCK - 64), third, "round %d", round);
        cr_expect_eq(rt_arena_alloc(&arena, BLOCK - 64), fourth, "round %d", round);
    }
    rt_arena_release(&arena, &nothing);
    cr_expect_eq(rt_arena_alloc(&arena, 100), first);
    rt_arena_reset(&arena);
    cr_expect_eq(rt_arena_alloc(&arena, 100), first);
    cr_expect_eq(rt_arena_alloc(&arena, BLOCK - 64), third, "a block that is free, before a new one");
    cr_expect_eq(rt_arena_alloc(&arena, BLOCK - 64), fourth);
    cr_expect_eq(arena.own, own);
    rt_arena_fini(&arena);
}

Test(arena, those_beside_each_other_share_a_limit)
{
    struct rt_arena beside;
    rt_arena_init(&arena, 3 * BLOCK);
    rt_arena_init_beside(&beside, &arena);
    cr_assert_not_null(rt_arena_alloc(&arena, 1));
    cr_assert_not_null(rt_arena_alloc(&beside, 1));
    cr_expect(arena.own == 2 * BLOCK && beside.own == BLOCK, "the first counts both");
    cr_expect_null(rt_arena_alloc(&beside, 2 * BLOCK));
    cr_expect(arena.own_refused && !beside.own_refused, "the first one's is asked");
    rt_arena_fini(&beside);
    cr_expect_eq(arena.own, BLOCK);
    rt_arena_fini(&arena);
}

/* ---- its ledger ---- */

static struct ledger ledger;
static struct model_ledger model;
static unsigned asked, gives; /* for room: so often, and so many buckets are there to go */

static bool room_make(void *context)
{
    cr_expect_eq(context, &arena);
    asked++;
    if (gives == 0) {
        return false;
    }
    gives--;
    ledger_book(&ledger, BLOCK, 0);
    return true;
}

Test(arena, blocks_are_booked_and_what_is_not_in_use_gives_way)
{
    model = (struct model_ledger){.budget = 4 * BLOCK, .weights_bytes = BLOCK, .sessions = 1};
    ledger = (struct ledger){.model = &model, .alone = 100 * BLOCK, .make_room = room_make, .context = &arena};
    ledger_book(&ledger, 0, 2 * BLOCK); /* two buckets; one block more may be taken */
    rt_arena_init(&arena, 50 * BLOCK);
    arena.ledger = &ledger;
    cr_assert_not_null(rt_arena_alloc(&arena, BLOCK - 64));
    cr_expect(ledger.bytes == 3 * BLOCK && asked == 0);
    gives = 1;
    cr_assert_not_null(rt_arena_alloc(&arena, BLOCK - 64));
    cr_expect(ledger.bytes == 3 * BLOCK && asked == 1);
    cr_expect_null(rt_arena_alloc(&arena, BLOCK - 64));
    cr_expect(asked == 2 && arena.own_refused);
    gives = 9;
    cr_expect_null(rt_arena_alloc(&arena, 3 * BLOCK), "it will never fit");
    cr_expect_eq(asked, 2u, "so nothing goes for it");
    rt_arena_fini(&arena);
    cr_expect_eq(ledger.bytes, BLOCK);
    ledger_book(&ledger, BLOCK, 0);
}

Test(arena, those_beside_each_other_are_booked_together)
{
    struct rt_arena beside;
    model = (struct model_ledger){.budget = 4 * BLOCK, .sessions = 1};
    ledger = (struct ledger){.model = &model, .alone = 100 * BLOCK, .make_room = room_make, .context = &arena};
    rt_arena_init(&arena, 50 * BLOCK);
    arena.ledger = &ledger;
    rt_arena_init_beside(&beside, &arena);
    cr_assert_not_null(rt_arena_alloc(&beside, BLOCK - 64));
    cr_expect_eq(ledger.bytes, BLOCK);
    rt_arena_fini(&beside);
    rt_arena_fini(&arena);
    cr_expect_eq(ledger.bytes, 0u);
}

Test(ledger_parts, a_sessions_part_is_what_weights_leave_in_equal_parts)
{
    static const struct {
        uint64_t budget, weights, alone;
        unsigned sessions;
        uint64_t limit;
    } cases[] = {
        {0, 50, 1000, 3, 1000}, {100, 40, 1000, 1, 60}, {100, 40, 1000, 2, 30}, {100, 40, 1000, 0, 60},
        {100, 99, 1000, 1, 1},  {100, 100, 1000, 1, 0}, {100, 101, 1000, 1, 0}, {100, 40, 59, 1, 59},
        {100, 40, 60, 1, 60},   {100, 40, 61, 1, 60},   {100, 0, 1000, 3, 33},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_ledger m = {
            .budget = cases[i].budget, .weights_bytes = cases[i].weights, .sessions = cases[i].sessions};
        struct ledger l = {.model = &m, .alone = cases[i].alone};
        cr_expect_eq(ledger_limit(&l), cases[i].limit, "case %zu: %lu", i, (unsigned long)ledger_limit(&l));
    }
}

Test(ledger_parts, what_is_booked_is_in_all_sums_and_in_the_peaks)
{
    struct memory_mark outer, inner;
    struct pen_memory memory;
    struct model_ledger m = {.budget = 0};
    struct ledger l = {.model = &m, .alone = 1000};
    ledger_book(&l, 0, 100);
    memory_mark_begin(&outer);
    cr_expect_eq(outer.peak_bytes, 100u);
    ledger_book(&l, 100, 150);
    model_ledger_weights(&m, 0, 30);
    memory_mark_begin(&inner);
    memory_tensors_book(2, 20);
    pen_memory(&memory);
    cr_expect(memory.arena_bytes == 150 && memory.weights_bytes == 30 && memory.tensor_bytes == 20 &&
              memory.tensors == 2);
    cr_expect(memory.bytes == 200 && memory.peak_bytes == 200);
    cr_expect(m.sessions_bytes == 150 && m.weights_bytes == 30 && l.bytes == 150);
    ledger_book(&l, 150, 0);
    model_ledger_weights(&m, 30, 10);
    memory_mark_end(&outer);
    memory_tensors_book(0, 400);
    cr_expect(outer.peak_bytes == 200 && inner.peak_bytes == 430, "%lu and %lu", (unsigned long)outer.peak_bytes,
              (unsigned long)inner.peak_bytes);
    memory_mark_end(&inner);
    memory_tensors_book(-2, -420);
    memory_tensors_book(1, 600);
    cr_expect_eq(inner.peak_bytes, 430u, "it has ended");
    pen_memory(&memory);
    cr_expect(memory.bytes == 610 && memory.peak_bytes == 610 && memory.tensors == 1);
    memory_tensors_book(-1, -600);
    pen_memory_peak_reset();
    pen_memory(&memory);
    cr_expect(memory.bytes == 10 && memory.peak_bytes == 10);
    model_ledger_weights(&m, 10, 0);
}

Test(ledger_parts, more_tensors_that_go_than_came_end_the_program, .signal = SIGABRT)
{
    memory_tensors_book(1, 10);
    memory_tensors_book(-2, -10);
}

/* ---- turns ---- */

static struct rt_memory *begun(struct turns *t, struct kernel_call *k)
{
    cr_assert_eq(turns_next(t, k), PEN_OK);
    return turns_keep(t);
}

Test(turns, after_a_few_what_a_turn_took_is_given_back_and_what_is_carried_lies_in_two_places)
{
    struct turns t;
    uint64_t total = 5;
    struct kernel_call k = {.error = &error};
    rt_arena_init(&arena, 100 * BLOCK);
    turns_init(&t, &arena, &total);
    for (int turn = 0; turn < TURNS_SMALL; turn++) {
        cr_expect_eq(begun(&t, &k), &arena.memory, "turn %d", turn);
        cr_expect_eq(turns_items(&t), &arena.memory);
        rt_arena_alloc(&arena, 100);
    }
    cr_expect(!t.apart && total == 5 + TURNS_SMALL);
    void *mark = NULL, *carried[2] = {NULL, NULL};
    for (unsigned turn = TURNS_SMALL; turn < TURNS_SMALL + 6; turn++) {
        struct rt_memory *keep = begun(&t, &k);
        cr_expect(t.apart && keep == &t.keep[turn % 2].memory, "turn %u", turn);
        cr_expect_eq(turns_items(&t), &t.items.memory);
        void *scratch = rt_arena_alloc(&arena, 1000), *kept = keep->alloc(keep, 10);
        cr_expect(mark == NULL || scratch == mark, "turn %u takes what the one before took", turn);
        cr_expect(carried[turn % 2] == NULL || kept == carried[turn % 2], "turn %u: that of the turn before the last",
                  turn);
        mark = scratch;
        carried[turn % 2] = kept;
    }
    cr_expect_neq(carried[0], carried[1]);
    turns_fini(&t);
    cr_expect_eq(arena.own, BLOCK);
    rt_arena_fini(&arena);
}

Test(turns, over_texts_keep_all_in_the_runs_arena)
{
    struct rt_value items[] = {{.dtype = PEN_DTYPE_F32}, {.dtype = PEN_DTYPE_STRING}};
    const struct rt_value numbers = {.dtype = PEN_DTYPE_F32}, text = {.dtype = PEN_DTYPE_STRING},
                          first = {.items = items, .item_count = 1}, both = {.items = items, .item_count = 2};
    const struct {
        const struct rt_value *value;
        bool texts;
    } cases[] = {{&numbers, false}, {&text, true}, {&first, false}, {&both, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct turns t;
        uint64_t total = 0;
        struct kernel_call k = {.error = &error};
        rt_arena_init(&arena, 100 * BLOCK);
        turns_init(&t, &arena, &total);
        turns_see(&t, cases[i].value);
        turns_see(&t, &numbers);
        cr_expect_eq(t.texts, cases[i].texts, "case %zu", i);
        const char *before = NULL;
        for (int turn = 0; turn < 2 * TURNS_SMALL; turn++) {
            struct rt_memory *keep = begun(&t, &k);
            char *now = rt_arena_alloc(&arena, 10);
            cr_expect(!cases[i].texts || (keep == &arena.memory && turns_items(&t) == keep && now > before), "case %zu",
                      i);
            before = now;
        }
        turns_fini(&t);
        rt_arena_fini(&arena);
    }
}

Test(turns, are_counted_over_all_loops_of_a_run_and_end_when_asked)
{
    struct turns t;
    uint64_t total = TURNS_MAX - 1;
    struct cancel cancel = {.deadline_us = UINT64_MAX};
    struct graph g = {.node_count = 0};
    struct node n = {.name = "loop"};
    struct kernel_call k = {.g = &g, .n = &n, .error = &error, .cancel = &cancel};
    rt_arena_init(&arena, BLOCK);
    turns_init(&t, &arena, &total);
    cr_expect_eq(turns_next(&t, &k), PEN_OK);
    cr_expect_eq(turns_next(&t, &k), PEN_ERR_TOO_LARGE);
    cr_expect(strstr(error.text, "turned 10000000 times") != NULL, "%s", error.text);
    total = 7;
    atomic_store(&cancel.stop, 1);
    cr_expect_eq(turns_next(&t, &k), PEN_ERR_CANCELLED);
    cr_expect_eq(total, 7u);
    turns_fini(&t);
    rt_arena_fini(&arena);
}

/* ---- what is collected ---- */

/* Two turns of [2, 3] bytes, stacked at each axis, forward and backward. */
Test(collect, items_are_stacked_along_any_axis_and_in_either_order)
{
    static const uint8_t items[2][6] = {{0, 1, 2, 3, 4, 5}, {10, 11, 12, 13, 14, 15}};
    for (int32_t axis = -3; axis <= 2; axis++) {
        for (int reverse = 0; reverse < 2; reverse++) {
            struct collect c = {.count = 0};
            struct graph g = {.node_count = 0};
            struct node n = {.name = "scan", .out_count = 1};
            struct rt_value out = {.kind = VALUE_TENSOR};
            const bool wanted = true;
            rt_arena_init(&arena, 4 * BLOCK);
            struct kernel_call k = {
                .g = &g, .n = &n, .out = &out, .wanted = &wanted, .memory = &arena.memory, .error = &error};
            for (size_t i = 0; i < 2; i++) {
                struct rt_value item = {.kind = VALUE_TENSOR,
                                        .dtype = PEN_DTYPE_U8,
                                        .shape = {.rank = 2, .dim = {2, 3}},
                                        .data = (void *)(uintptr_t)items[i],
                                        .bytes = 6};
                cr_assert_eq(collect_add(&c, &k, &item), PEN_OK, "%s", error.text);
            }
            cr_assert_eq(collect_stack(&c, &k, 0, axis, reverse != 0, NULL), PEN_OK, "%s", error.text);
            const int32_t at = axis < 0 ? axis + 3 : axis;
            cr_assert_eq(out.shape.rank, 3);
            const uint8_t *data = out.data;
            for (int64_t t = 0; t < 2; t++) {
                for (int64_t y = 0; y < 2; y++) {
                    for (int64_t x = 0; x < 3; x++) {
                        int64_t place = at == 0   ? (t * 2 + y) * 3 + x
                                        : at == 1 ? (y * 2 + t) * 3 + x
                                                  : (y * 3 + x) * 2 + t;
                        cr_expect_eq(data[place], items[reverse ? 1 - t : t][y * 3 + x], "axis %d, %d", axis, reverse);
                    }
                }
            }
            for (int32_t d = 0; d < 3; d++) {
                cr_expect_eq(out.shape.dim[d],
                             d == at                         ? 2
                             : d == 2 || (d == 1 && at == 2) ? 3
                                                             : 2,
                             "axis %d, dim %d", axis, d);
            }
            rt_arena_fini(&arena);
        }
    }
}

Test(collect, what_cannot_be_stacked_is_refused)
{
    struct collect c = {.count = 0};
    struct graph g = {.node_count = 0};
    struct node n = {.name = "scan", .out_count = 1};
    struct rt_value out = {.kind = VALUE_TENSOR};
    const bool wanted = true;
    const uint8_t data[8] = {0};
    rt_arena_init(&arena, BLOCK);
    struct kernel_call k = {.g = &g, .n = &n, .out = &out, .wanted = &wanted, .memory = &arena.memory, .error = &error};
    struct rt_value item = {.kind = VALUE_TENSOR,
                            .dtype = PEN_DTYPE_U8,
                            .shape = {.rank = 1, .dim = {4}},
                            .data = (void *)(uintptr_t)data,
                            .bytes = 4};
    struct rt_value other = item;
    other.kind = VALUE_SEQUENCE;
    cr_expect_eq(collect_add(&c, &k, &other), PEN_ERR_UNSUPPORTED);
    other = item;
    other.dtype = PEN_DTYPE_I4;
    cr_expect_eq(collect_add(&c, &k, &other), PEN_ERR_UNSUPPORTED, "not of whole bytes");
    cr_assert_eq(collect_add(&c, &k, &item), PEN_OK);
    other = item;
    other.dtype = PEN_DTYPE_I8;
    cr_expect_eq(collect_add(&c, &k, &other), PEN_ERR_SHAPE);
    other = item;
    other.shape.dim[0] = 3;
    cr_expect_eq(collect_add(&c, &k, &other), PEN_ERR_SHAPE);
    cr_expect_eq(c.count, 1u);
    cr_expect_eq(collect_stack(&c, &k, 0, 2, false, NULL), PEN_ERR_INVALID);
    cr_expect_eq(collect_stack(&c, &k, 0, -3, false, NULL), PEN_ERR_INVALID);
    c.shape.rank = PEN_MAX_RANK;
    cr_expect_eq(collect_stack(&c, &k, 0, 0, false, NULL), PEN_ERR_TOO_LARGE);
    rt_arena_fini(&arena);
}

/* ---- numbers ---- */

Test(numerics, the_first_bad_number_is_noted_or_refused_by_the_check_that_is_on)
{
    static const struct node node = {.name = "n1", .origin = "Exp"};
    static const struct {
        enum pen_check numbers, f16;
        float values[3];
        enum pen_status status;
        const char *text; /* note, or sentence */
    } cases[] = {
        {PEN_CHECK_OFF, PEN_CHECK_OFF, {NAN, INFINITY, 1e6f}, PEN_OK, ""},
        {PEN_CHECK_WARN, PEN_CHECK_OFF, {1, 2, 3}, PEN_OK, ""},
        {PEN_CHECK_WARN, PEN_CHECK_OFF, {1e6f, NAN, INFINITY}, PEN_OK, "node n1 (Exp) produced NaN at element 1"},
        {PEN_CHECK_FAIL,
         PEN_CHECK_OFF,
         {1, -INFINITY, NAN},
         PEN_ERR_INVALID,
         "node n1 (Exp) produced infinity at element 1"},
        {PEN_CHECK_OFF,
         PEN_CHECK_WARN,
         {NAN, 65504.0f, -65505.0f},
         PEN_OK,
         "node n1 (Exp) produced a value beyond f16 at element 2"},
        {PEN_CHECK_OFF,
         PEN_CHECK_FAIL,
         {-65504.0f, 65504.0f, 65505.0f},
         PEN_ERR_INVALID,
         "node n1 (Exp) produced a value beyond f16 at element 2"},
        {PEN_CHECK_FAIL, PEN_CHECK_WARN, {1e6f, 2, NAN}, PEN_ERR_INVALID, "node n1 (Exp) produced NaN at element 2"},
        {PEN_CHECK_WARN,
         PEN_CHECK_FAIL,
         {NAN, INFINITY, 1e6f},
         PEN_ERR_INVALID,
         "node n1 (Exp) produced a value beyond f16 at element 2"},
        {PEN_CHECK_WARN, PEN_CHECK_WARN, {1, INFINITY, 1e6f}, PEN_OK, "node n1 (Exp) produced infinity at element 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct numerics n = {.numbers = cases[i].numbers, .f16_range = cases[i].f16};
        error = (struct pen_error){.status = PEN_OK};
        cr_expect_eq(numerics_wanted(&n), cases[i].numbers != PEN_CHECK_OFF || cases[i].f16 != PEN_CHECK_OFF);
        cr_expect_eq(numerics_look(&n, &node, cases[i].values, 3, &error), cases[i].status, "case %zu", i);
        cr_expect_str_eq(cases[i].status == PEN_OK ? n.note : error.text, cases[i].text, "case %zu", i);
    }
    struct numerics n = {.numbers = PEN_CHECK_WARN, .note = "the first of the run"};
    numerics_look(&n, &node, cases[0].values, 3, &error);
    cr_expect_str_eq(n.note, "the first of the run");
}

/* ---- profiles ---- */

Test(profile_parts, has_a_row_per_key_in_the_order_of_the_first_run)
{
    enum { ROWS = 200 };
    static char keys[ROWS];
    size_t count = 9;
    struct profile *p = profile_new();
    profile_rows(p, &count);
    cr_expect_eq(count, 0u);
    for (unsigned run = 0; run < 3; run++) {
        for (unsigned i = 0; i < ROWS; i++) {
            const unsigned at = run == 2 ? ROWS - 1 - i : i; /* the last one backward */
            profile_add(p, &keys[at], "node", "Exp", "played", at, 1000 * run + at);
        }
    }
    const struct pen_profile_row *row = profile_rows(p, &count);
    cr_assert_eq(count, (size_t)ROWS);
    for (unsigned i = 0; i < ROWS; i++) {
        cr_expect(row[i].macs == i && row[i].runs == 3 && row[i].total_ns == 3000 + 3 * i, "row %u", i);
        cr_expect(strcmp(row[i].node, "node") == 0 && strcmp(row[i].op, "Exp") == 0 &&
                  strcmp(row[i].backend, "played") == 0);
    }
    profile_free(p);
}
