/* At which size a batch runs: warmed sizes as they are, others filled up until preparing would have been cheaper. */
#include "batch_shape.h"

#include <criterion/criterion.h>

static const struct warm_time times[] = {
    {.batch = 1, .shape = 7, .cold_us = 300, .warm_us = 100},
    {.batch = 4, .shape = 7, .cold_us = 500, .warm_us = 160},
    {.batch = 8, .shape = 7, .cold_us = 700, .warm_us = 240},
};
#define TIMES 3u

Test(batch_shape, warmed_sizes_run_as_they_are)
{
    struct batch_shape batch_shape = {0};
    for (size_t i = 0; i < TIMES; i++)
        cr_expect(batch_shape_rows(&batch_shape, times, TIMES, 7, times[i].batch) == times[i].batch);
    cr_expect(batch_shape.learnt_count == 0 && batch_shape_warmed(times, TIMES, 7, 4) &&
              !batch_shape_warmed(times, TIMES, 7, 5));
}

/* 3 of 4 rows cost 20 us too much, preparing costs 340: the 18th time is the first that is dearer. */
Test(batch_shape, filling_goes_on_until_preparing_would_have_been_cheaper)
{
    struct batch_shape batch_shape = {0};
    for (int i = 0; i < 17; i++)
        cr_assert(batch_shape_rows(&batch_shape, times, TIMES, 7, 3) == 4, "%d", i);
    cr_expect(batch_shape_rows(&batch_shape, times, TIMES, 7, 3) == 3);
    cr_expect(batch_shape_rows(&batch_shape, times, TIMES, 7, 3) == 3, "from now on it is ready");
    cr_expect(batch_shape_rows(&batch_shape, times, TIMES, 7, 2) == 4, "another size counts for itself");
}

Test(batch_shape, what_was_never_measured_runs_as_it_is)
{
    struct batch_shape batch_shape = {0};
    cr_expect(batch_shape_rows(&batch_shape, times, TIMES, 7, 9) == 9, "nothing above");
    cr_expect(batch_shape_rows(&batch_shape, times, TIMES, 8, 3) == 3, "another shape");
    cr_expect(batch_shape_rows(&batch_shape, NULL, 0, 7, 3) == 3);
}

Test(batch_shape, filling_that_costs_nothing_never_ends)
{
    const struct warm_time flat[] = {{.batch = 1, .shape = 7, .cold_us = 150, .warm_us = 100},
                                     {.batch = 8, .shape = 7, .cold_us = 150, .warm_us = 90}};
    struct batch_shape batch_shape = {0};
    for (int i = 0; i < 100000; i++)
        cr_assert(batch_shape_rows(&batch_shape, flat, 2, 7, 5) == 8);
}

/* The engine keeps 16 shapes: more than are warmed and learnt together would drop a warmed one. */
Test(batch_shape, learnt_sizes_never_crowd_out_warmed_ones)
{
    struct warm_time many[BATCH_SHAPE_READY_MAX];
    struct batch_shape few = {0}, full = {0};
    for (uint32_t i = 0; i < BATCH_SHAPE_READY_MAX; i++)
        many[i] =
            (struct warm_time){.batch = i == 0 ? 1 : 10 * i, .shape = 7, .cold_us = 2 + 10 * i, .warm_us = 10 * i};
    for (int round = 0; round < 1000; round++)
        for (uint32_t rows = 2; rows < 10; rows++)
            cr_assert(batch_shape_rows(&full, many, BATCH_SHAPE_READY_MAX, 7, rows) == 10);
    cr_expect(full.learnt_count == 0);
    size_t own = 0;
    for (int round = 0; round < 1000; round++)
        for (uint32_t rows = 2; rows < 10; rows++)
            own += batch_shape_rows(&few, many, 2, 7, rows) == rows && round == 999;
    cr_expect(own == BATCH_SHAPE_LEARNT_MAX, "%zu", own);
}

Test(batch_shape, a_model_that_cannot_be_cut_is_never_filled)
{
    struct batch_shape batch_shape = {0};
    batch_shape_exact(&batch_shape);
    cr_expect(batch_shape_rows(&batch_shape, times, TIMES, 7, 3) == 3);
}

Test(batch_shape, shapes_differ_by_dims_and_by_where_an_input_ends)
{
    struct pen_tensor a[2] = {{.rank = 3, .dims = {1, 2, 3}}, {.rank = 1, .dims = {1}}};
    struct pen_tensor b[2] = {{.rank = 2, .dims = {1, 2}}, {.rank = 2, .dims = {1, 3}}};
    struct pen_tensor more = {.rank = 3, .dims = {9, 2, 3}};
    cr_expect(batch_shape_of(a, 2, true) != batch_shape_of(b, 2, true));
    cr_expect(batch_shape_of(a, 1, true) == batch_shape_of(&more, 1, true), "the batch does not count");
    cr_expect(batch_shape_of(a, 1, false) != batch_shape_of(&more, 1, false));
}
