/* The thread that measures models without a result: each once, models before ensembles, within the memory that is granted, and until it is stopped. */
#include "measurer.h"
#include "one_slot.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdatomic.h>
#include <string.h>

#include "measure.h"
#include "measure_whole.h"
#include "process.h"

static struct served *neg, *add, *whole, *steps[ENSEMBLE_PLAN_STEPS_MAX];
static struct measurer *measurer;
static struct pen_error error;
static atomic_uint told;

static void begin(void)
{
    cr_redirect_stderr();
    one_slot_ensemble_setup();
    neg = catalog_find(&one_slot_catalog, "neg", 0);
    add = catalog_find(&one_slot_catalog, "add", 0);
    whole = catalog_find(&one_slot_catalog, "whole", 0);
    cr_assert(neg && add && ensemble_resolve(&one_slot_catalog, whole, steps, &error) == PEN_OK);
}

static void end(void)
{
    measurer_stop(measurer);
    measurer_free(measurer);
    one_slot_teardown();
}

TestSuite(measurer, .init = begin, .fini = end, .timeout = 60);

static void tell(void *context)
{
    cr_assert(context == &told);
    atomic_fetch_add(&told, 1);
}

static void measure(uint64_t budget)
{
    measurer = measurer_new(&one_slot_catalog, budget);
    cr_assert_not_null(measurer);
    cr_assert_eq(measurer_start(measurer, tell, &told), PEN_OK);
}

static bool whole_known(struct pen_measured *ret_measured)
{
    bool open = true;
    struct digest digest = ensemble_digest(whole, steps);
    bool found = measure_whole_result(whole, steps, &digest, ret_measured, &open);
    return found && !open;
}

static void wait_for(unsigned count)
{
    while (atomic_load(&told) < count)
        support_sleep_ms(1);
}

static bool nobody_held(void)
{
    return atomic_load(&neg->users) + atomic_load(&add->users) + atomic_load(&whole->users) == 0;
}

Test(measurer, each_model_and_ensemble_is_measured_once_and_told)
{
    struct pen_measured measured;
    measure(0);
    wait_for(3);
    cr_expect(measure_result(neg, &measured) && measured.largest < 1e-5);
    cr_expect(measure_result(add, &measured) && whole_known(&measured));
    cr_expect_eq(measured.source, PEN_MEASURED_SEEDED);
    measurer_stop(measurer);
    cr_expect_eq(atomic_load(&told), 3);
    cr_expect(nobody_held());
}

Test(measurer, a_wake_brings_what_is_new)
{
    struct pen_measured measured;
    measure(0);
    wait_for(3);
    atomic_store(&neg->measured_as, SERVED_NOT_MEASURED);
    measurer_wake(measurer);
    wait_for(4);
    cr_expect(measure_result(neg, &measured));
    measurer_wake(NULL);
}

Test(measurer, what_does_not_fit_a_second_time_is_not_measured)
{
    struct pen_measured measured;
    static char log[65536];
    measure(1);
    wait_for(3);
    cr_expect_eq(atomic_load(&neg->measured_as), SERVED_UNMEASURABLE);
    cr_expect_eq(atomic_load(&add->measured_as), SERVED_UNMEASURABLE);
    cr_expect_not(whole_known(&measured));
    measurer_stop(measurer);
    fflush(stderr);
    log[fread(log, 1, sizeof log - 1, cr_get_redirected_stderr())] = '\0';
    cr_expect(strstr(log, "evt=model_not_measured model=neg") && strstr(log, "within --memory-budget"), "%s", log);
    cr_expect(nobody_held());
}

Test(measurer, a_budget_that_all_fit_into_twice_is_enough)
{
    struct pen_memory all;
    struct pen_measured measured;
    pen_memory(&all);
    measure(all.weights_bytes + all.arena_bytes + pen_model_memory(neg->model) + pen_model_memory(add->model) + 1);
    wait_for(3);
    cr_expect(measure_result(neg, &measured) && measure_result(add, &measured));
}

Test(measurer, a_stop_leaves_no_model_held)
{
    measure(0);
    measurer_stop(measurer);
    measurer_stop(measurer); /* it has ended */
    unsigned before = atomic_load(&told);
    measurer_wake(measurer);
    cr_expect_eq(atomic_load(&told), before, "nobody is told any more");
    cr_expect(nobody_held());
    measurer_stop(NULL);
    measurer_free(NULL);
}
