/* Kernels that are timed: by clocks of this file, under which the one or the other is the quickest. Each test is a process of its own, which knows nothing yet. */
#include <criterion/criterion.h>

#include "backend/xnnpack/isa.h"
#include "cross.h"
#include "few.h"

static uint64_t now, calls, step, growth;

/* Each look is later by `step`, which grows: what runs first is the quickest, or with a negative growth what runs last. */
static uint64_t clock_of_steps(void)
{
    calls++;
    now += step;
    step += growth;
    return now;
}

static void clock_set(uint64_t first, uint64_t more)
{
    now = calls = 0;
    step = first;
    growth = more;
}

static struct few *convolution(int64_t side, int64_t channels)
{
    struct few *f = few_new();
    if (!isa_own()->wide) {
        cr_skip("this processor has no tiles to choose");
    }
    uint32_t x = few_input(f, 4, (int64_t[]){1, side, side, channels});
    uint32_t w = few_constant(f, 4, (int64_t[]){channels, 3, 3, channels});
    few_output(f, few_conv(f, x, w, VALUE_NONE, (struct few_window){3, 1, 1, 1}));
    few_measure(f, clock_of_steps);
    return f;
}

/* The product runs first of all. By the rules this would be tiles. */
Test(xnnpack_choose, the_first_is_the_quickest)
{
    struct few *f = convolution(10, 32);
    clock_set(1000, 1000);
    few_run(f, 0);
    cr_expect_eq(few_kernels(f, "own gemm"), 1);
    cr_expect_eq(few_reasons(f, "measured: product"), 1);
    few_free(f);
}

/* Later looks take less time: tiles of 2 x 2 are tried last. By the rules these would be tiles of 4 x 4. */
Test(xnnpack_choose, the_last_is_the_quickest)
{
    struct few *f = convolution(14, 32);
    clock_set(1000000, (uint64_t)-30000);
    few_run(f, 0);
    cr_expect_eq(few_kernels(f, "own Winograd F(2, 3)"), 1);
    cr_expect_eq(few_reasons(f, "tiles of 2 x 2"), 1);
    few_free(f);
}

/* All alike: the rule's kernel stays. */
Test(xnnpack_choose, the_rules_kernel_stays_where_none_is_quicker)
{
    struct few *f = convolution(14, 32);
    clock_set(1000, 0);
    few_run(f, 0);
    cr_expect_eq(few_kernels(f, "own Winograd F(4, 3)"), 1);
    cr_expect_eq(few_reasons(f, "measured:"), 1);
    few_free(f);
}

/* What one exec has found the next one knows, with other threads, too: few_run makes three. */
Test(xnnpack_choose, shapes_are_timed_once)
{
    struct few *f = convolution(14, 32);
    clock_set(1000, 1000);
    few_run(f, 0);
    const uint64_t once = calls;
    few_run(f, 0);
    cr_expect_gt(once, 6);
    cr_expect_lt(calls - once, 12, "the later execs looked at the clock %lu times", (unsigned long)(calls - once));
    few_free(f);
}

/* All the time there is has gone by at the first look: both go by the rules, and say so. */
Test(xnnpack_choose, time_is_bounded)
{
    struct few *f = few_new();
    if (!isa_own()->wide) {
        cr_skip("this processor has no tiles to choose");
    }
    uint32_t x = few_input(f, 4, (int64_t[]){1, 24, 24, 32});
    uint32_t wide = few_constant(f, 4, (int64_t[]){48, 3, 3, 32}),
             narrow = few_constant(f, 4, (int64_t[]){32, 3, 3, 48});
    uint32_t y = few_conv(f, x, wide, VALUE_NONE, (struct few_window){3, 1, 1, 1});
    few_output(f, few_conv(f, y, narrow, VALUE_NONE, (struct few_window){3, 1, 1, 1}));
    few_measure(f, clock_of_steps);
    clock_set(70000000, 1);
    few_run(f, 0);
    cr_expect_eq(few_reasons(f, "by rule, the time for measuring was spent"), 2);
    cr_expect_eq(few_kernels(f, "own Winograd F(4, 3)"), 2);
    few_free(f);
}

/* The same with more time: all that compete are timed. */
Test(xnnpack_choose, an_option_gives_it_more_time_or_less)
{
    struct few *f = convolution(14, 32);
    few_options(f, "xnnpack.measure_ms=1");
    clock_set(1100000, 0);
    few_run(f, 0);
    cr_expect_eq(few_reasons(f, "by rule, the time for measuring was spent"), 1);
    few_options(f, "xnnpack.measure_ms=60000");
    clock_set(1100000, 0);
    few_run(f, 0);
    cr_expect_eq(few_reasons(f, "measured:"), 1);
    few_free(f);
}

Test(xnnpack_choose, tiles_may_be_left_out)
{
    struct few *f = convolution(14, 32);
    few_options(f, "xnnpack.tiles=off");
    clock_set(1000, 0);
    few_run(f, 0);
    cr_expect_eq(few_kernels(f, "own gemm"), 1);
    cr_expect_eq(few_reasons(f, "measured:"), 0, "there was nothing to choose");
    few_free(f);
}
