/* Bounds on the error of an ensemble whose steps run apart: whose workers may run them, and what the whole says of itself. */
#include <criterion/criterion.h>
#include <string.h>

#include "ensemble_desk.h"

TestSuite(ensemble_contracts, .init = setup, .fini = teardown);

/* ONE has the plan and a, TWO has b; both are measured. */
static void open_measured(double a, double b)
{
    struct wire_model one[] = {ensemble(line, 2), model_of("a", 1)}, two[] = {model_of("b", 2)};
    one[1].error_source = two[0].error_source = "seeded";
    one[1].error = a;
    two[0].error = b;
    desk_open(desk);
    add_worker(ONE, one, 2);
    add_worker(TWO, two, 1);
    desk_client(desk, ALICE, ALICE);
}

static struct job_id submit_bound(double error_max)
{
    struct wire_job job = job_of(ALICE);
    job.error_max = error_max;
    desk_submit(desk, ALICE, &job);
    desk_run(desk);
    return job.id;
}

/* The answer of a worker that was measured. */
static void answer(uint32_t worker, uint8_t digest, double error)
{
    uint8_t meta[WIRE_META_BYTES], content[16];
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__MeasuredError measured = PENSTOCK__MEASURED_ERROR__INIT;
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = expect_step(worker);
    env.precision = PRECISION_F32;
    measured.largest = error;
    measured.inputs = 4;
    measured.source = (char *)(uintptr_t) "seeded";
    measured.repeatable = true;
    wire_give(&result);
    memset(content, digest, sizeof content);
    result.measured = &measured;
    result.backend = (char *)(uintptr_t) "xnnpack";
    result.precision = PRECISION_F32;
    result.model_digest.data = content;
    result.model_digest.len = sizeof content;
    desk_say_worker(desk, worker, env, meta, penstock__result_meta__pack(&result, meta));
}

Test(ensemble_contracts, a_bound_holds_where_the_steps_before_are_exact)
{
    open_measured(0.0, 1e-6);
    struct job_id id = submit_bound(1e-3);
    answer(ONE, 1, 0.0);
    answer(TWO, 2, 1e-6);
    Penstock__ResultMeta *meta = expect_result(id, PEN_OK);
    cr_assert_not_null(meta->measured);
    cr_expect(meta->measured->largest == 1e-6 && strcmp(meta->measured->source, "steps") == 0);
    cr_expect(meta->measured->repeatable);
    penstock__result_meta__free_unpacked(meta, NULL);
    expect_empty();
}

/* Both steps keep the bound; the second one may enlarge what the first one is off by. */
Test(ensemble_contracts, a_step_that_errs_before_another_keeps_no_bound)
{
    open_measured(1e-6, 1e-6);
    struct job_id id = submit_bound(1e-3);
    expect_no_step();
    desk_wait(desk, 1500000);
    expect_error(id, PEN_ERR_UNSUPPORTED, "step 1 needs model 'a' with no error at all");
    expect_empty();
}

Test(ensemble_contracts, a_last_step_beyond_the_bound_keeps_it_neither)
{
    open_measured(0.0, 1e-2);
    struct job_id id = submit_bound(1e-3);
    expect_no_step();
    desk_wait(desk, 1500000);
    expect_error(id, PEN_ERR_UNSUPPORTED, "step 2 needs model 'b' with max_relative_error=0.001");
    expect_empty();
}

Test(ensemble_contracts, without_a_bound_it_runs_and_tells_none_that_does_not_follow)
{
    open_measured(1e-6, 1e-6);
    struct job_id id = submit_bound(0.0);
    answer(ONE, 1, 1e-6);
    answer(TWO, 2, 1e-6);
    Penstock__ResultMeta *meta = expect_result(id, PEN_OK);
    cr_expect_null(meta->measured);
    penstock__result_meta__free_unpacked(meta, NULL);
    expect_empty();
}
