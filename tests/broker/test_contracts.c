/* What jobs and models state of their numbers: who gets them, what shares a batch, an answer and the cache with what. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "desk.h"
#include "metrics_snapshot.h"

#define FAST  11u /* f16, off by up to 4e-3 */
#define EXACT 12u /* f32 */

static struct desk *desk;

static void open_empty(void)
{
    desk = desk_new();
    desk_open(desk);
    desk_client(desk, 1, 0xA);
}

static void close_desk(void)
{
    desk_free(desk);
}

TestSuite(contracts, .init = open_empty, .fini = close_desk);

static const struct wire_model half = {.name = "net",
                                       .version = 1,
                                       .backend = "vulkan",
                                       .precision = PRECISION_F16_MMA,
                                       .max_batch = 8,
                                       .warm_us = 1000,
                                       .digest = 1,
                                       .cacheable = true,
                                       .error_source = "seeded",
                                       .error = 4e-3};

static struct wire_model full(void)
{
    struct wire_model model = half;
    model.backend = "xnnpack";
    model.precision = PRECISION_F32;
    model.warm_us = 50000;
    model.error = 1e-6;
    return model;
}

static void join(uint32_t peer, const struct wire_model *model)
{
    desk_worker(
        desk, peer,
        &(struct wire_worker){
            .uuid = peer, .name = peer == FAST ? "fast" : "exact", .slots = 1, .models = model, .models_count = 1});
}

static void join_both(void)
{
    struct wire_model slow = full();
    join(FAST, &half);
    join(EXACT, &slow);
}

static struct wire_job asks(uint64_t sequence, double error_max)
{
    return (struct wire_job){.id = {0xA, sequence}, .model = "net", .dims = {1, 4}, .error_max = error_max, .fill = 3};
}

/* Who got the job; 0 = nobody. */
static uint32_t taker(const struct wire_job *job)
{
    desk_submit(desk, 1, job);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    return sent ? sent->peer : 0;
}

static void expect_refusal(enum pen_status status, const char *part)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent, "no refusal with '%s'", part);
    Penstock__ResultMeta *meta = sent_result(sent);
    cr_expect_eq(sent->env.status, status);
    cr_expect(strstr(meta->error, part), "'%s' is not in: %s", part, meta->error);
    penstock__result_meta__free_unpacked(meta, NULL);
}

/* An honest answer of that worker, with what was measured of it. */
static void answer(uint32_t peer, struct job_id id, const struct wire_model *model)
{
    uint8_t meta[WIRE_META_BYTES];
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__MeasuredError measured = PENSTOCK__MEASURED_ERROR__INIT;
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = id;
    env.precision = (uint8_t)model->precision;
    memset(env.digest.bytes, 4, sizeof env.digest.bytes);
    measured.largest = model->error;
    measured.source = (char *)(uintptr_t) "seeded";
    measured.repeatable = true;
    wire_give(&result);
    result.measured = &measured;
    result.backend = (char *)(uintptr_t)model->backend;
    result.precision = model->precision;
    uint8_t digest[16];
    memset(digest, model->digest, sizeof digest);
    result.model_digest.data = digest;
    result.model_digest.len = sizeof digest;
    desk_say_worker(desk, peer, env, meta, penstock__result_meta__pack(&result, meta));
}

/* Time passes, and all are alive. */
static void pass(unsigned seconds)
{
    for (unsigned i = 0; i < 2 * seconds; i++) {
        desk_say_client(desk, 1, envelope_make(FRAME_PING), NULL, 0, 0);
        desk_say_worker(desk, FAST, envelope_make(FRAME_HEARTBEAT), NULL, 0);
        desk_say_worker(desk, EXACT, envelope_make(FRAME_HEARTBEAT), NULL, 0);
        desk_wait(desk, 500000);
    }
}

/* ---- routing ---- */

Test(contracts, a_bound_goes_to_the_quickest_that_keeps_it)
{
    join_both();
    struct wire_job wide = asks(1, 1e-2), narrow = asks(2, 1e-3), none = asks(3, 0.0);
    wide.no_digest = narrow.no_digest = none.no_digest = true;
    cr_expect_eq(taker(&wide), FAST, "f16 keeps it and is quicker");
    cr_expect_eq(taker(&narrow), EXACT, "only f32 keeps it");
    answer(EXACT, narrow.id, &half);
    cr_expect_eq(taker(&none), EXACT, "who states nothing never gets f16");
}

Test(contracts, a_bound_that_nobody_keeps_is_refused_with_the_best_offer)
{
    join_both();
    struct wire_job job = asks(1, 1e-9);
    cr_expect_eq(taker(&job), 0);
    expect_refusal(PEN_ERR_UNSUPPORTED, "the best is xnnpack in f32: largest relative error 1e-06 (seeded inputs)");
}

Test(contracts, a_bound_never_goes_to_who_was_not_measured)
{
    struct wire_model model = full();
    model.error_source = NULL;
    join(EXACT, &model);
    struct wire_job job = asks(1, 0.5), plain = asks(2, 0.0);
    cr_expect_eq(taker(&job), 0);
    expect_refusal(PEN_ERR_UNSUPPORTED, "none of them has been measured");
    cr_expect_eq(taker(&plain), EXACT, "without a bound it runs");
}

static bool told_as_measuring(void)
{
    struct snapshot *snapshot = snapshot_take(&desk->broker);
    bool told = snapshot->offers_count == 1 && snapshot->offers[0].measures && !snapshot->offers[0].measured;
    snapshot_free(snapshot);
    return told;
}

Test(contracts, a_bound_waits_for_a_measurement_that_is_under_way)
{
    uint8_t meta[WIRE_META_BYTES];
    struct wire_model model = full();
    model.error_source = NULL;
    model.measures = true;
    join(EXACT, &model);
    struct wire_job job = asks(1, 1e-3);
    cr_expect_eq(taker(&job), 0);
    pass(60);
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT), "it waits however long the reference takes");
    cr_expect(told_as_measuring(), "the page says why");
    model = full();
    desk_say_worker(desk, EXACT, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, &model, 1));
    desk_run(desk);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(sent, "the update says that it keeps the bound");
    cr_expect_eq(sent->peer, EXACT);
}

Test(contracts, a_job_ends_when_the_measurement_shows_that_nobody_keeps_its_bound)
{
    uint8_t meta[WIRE_META_BYTES];
    struct wire_model model = half;
    model.error_source = NULL;
    model.measures = true;
    join(FAST, &model);
    struct wire_job job = asks(1, 1e-3);
    cr_expect_eq(taker(&job), 0);
    desk_say_worker(desk, FAST, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, &half, 1));
    pass(60);
    expect_refusal(PEN_ERR_UNAVAILABLE, "");
}

Test(contracts, f32_exact_runs_alone_and_where_bits_come_again)
{
    struct wire_model model = full();
    join(EXACT, &model);
    for (uint64_t k = 1; k <= 3; k++) {
        struct wire_job job = asks(k, 0.0);
        job.no_digest = job.exact = true;
        job.precision = PRECISION_F32;
        desk_submit(desk, 1, &job);
    }
    for (uint64_t k = 1; k <= 3; k++) {
        struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
        if (!sent) {
            answer(EXACT, (struct job_id){0xA, k - 1}, &model);
            sent = desk_next(&desk->workers, FRAME_SUBMIT);
        }
        cr_assert_not_null(sent);
        cr_expect_eq(sent_groups(sent), 1, "three jobs that wait would share a batch");
    }
}

Test(contracts, f32_exact_is_refused_where_bits_do_not_come_again)
{
    struct wire_model model = full();
    model.unrepeatable = true;
    join(EXACT, &model);
    struct wire_job job = asks(1, 0.0);
    job.exact = true;
    job.precision = PRECISION_F32;
    cr_expect_eq(taker(&job), 0);
    expect_refusal(PEN_ERR_UNSUPPORTED, "equal inputs did not give equal bits");
}

Test(contracts, what_is_no_bound_is_refused)
{
    join_both();
    struct wire_job wrong = asks(1, (double)NAN);
    cr_expect_eq(taker(&wrong), 0);
    expect_refusal(PEN_ERR_INVALID, "expected a number above 0");
    wrong = asks(2, -1.0);
    cr_expect_eq(taker(&wrong), 0);
    expect_refusal(PEN_ERR_INVALID, "expected a number above 0");
    wrong = asks(3, 0.0);
    wrong.exact = true;
    cr_expect_eq(taker(&wrong), 0);
    expect_refusal(PEN_ERR_INVALID, "f32_exact needs precision f32");
}

/* ---- what the model states ---- */

Test(contracts, the_models_own_bound_lets_a_job_that_states_nothing_run_in_f16)
{
    struct wire_model model = half;
    model.contract_error = 1e-2;
    join(FAST, &model);
    struct wire_job job = asks(1, 0.0), stricter = asks(2, 1e-3);
    cr_expect_eq(taker(&job), FAST);
    cr_expect_eq(taker(&stricter), 0);
    expect_refusal(PEN_ERR_UNSUPPORTED, "no worker keeps max_relative_error=0.001");
}

Test(contracts, the_stricter_of_job_and_model_counts)
{
    struct wire_model model = half;
    model.contract_error = 1e-3;
    join(FAST, &model);
    struct wire_job looser = asks(1, 1e-1);
    cr_expect_eq(taker(&looser), 0, "the model states 1e-3 for every answer");
    expect_refusal(PEN_ERR_UNSUPPORTED, "max_relative_error=0.001");
}

Test(contracts, a_model_of_f32_is_f32_whatever_the_job_says)
{
    struct wire_model model = half;
    model.contract_precision = PRECISION_F32;
    join(FAST, &model);
    struct wire_job job = asks(1, 0.0);
    job.precision = PRECISION_F16_MMA;
    cr_expect_eq(taker(&job), 0);
    expect_refusal(PEN_ERR_UNSUPPORTED, "in precision f32 or better");
}

/* ---- sharing ---- */

/* Whether the next answer came from the cache, how old it was, and what it says of its error. */
static bool from_cache(double *ret_error, uint64_t *ret_age_us)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(sent);
    Penstock__ResultMeta *meta = sent_result(sent);
    bool cached = meta->cached;
    *ret_error = meta->measured ? meta->measured->largest : -1.0;
    *ret_age_us = meta->age_us;
    penstock__result_meta__free_unpacked(meta, NULL);
    return cached;
}

Test(contracts, a_cached_answer_keeps_its_bound_and_is_given_to_no_stricter_job)
{
    double error;
    uint64_t age_us;
    join_both();
    struct wire_job wide = asks(1, 1e-2), again = asks(2, 1e-2), narrow = asks(3, 1e-3), none = asks(4, 0.0);
    cr_assert_eq(taker(&wide), FAST);
    answer(FAST, wide.id, &half);
    cr_expect_not(from_cache(&error, &age_us));
    pass(5);
    cr_expect_eq(taker(&again), 0, "the same contract: the cache has it");
    cr_expect(from_cache(&error, &age_us));
    cr_expect_float_eq(error, 4e-3, 1e-12, "with the bound of who computed it");
    cr_expect_geq(age_us, 5000000u);
    cr_expect_eq(taker(&narrow), EXACT, "the answer in the cache is off by more");
    struct wire_model slow = full();
    answer(EXACT, narrow.id, &slow);
    cr_expect_not(from_cache(&error, &age_us));
    cr_expect_eq(taker(&none), EXACT, "f16 is not for who states nothing");
}

Test(contracts, jobs_of_unlike_contracts_share_neither_a_batch_nor_a_run)
{
    struct wire_model model = half;
    model.delay_us = 1000;
    join(FAST, &model);
    struct wire_job wide = asks(1, 1e-2), wider = asks(2, 5e-2);
    desk_submit(desk, 1, &wide);
    desk_submit(desk, 1, &wider); /* the same request */
    desk_wait(desk, 10000);
    struct sent *first = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(first);
    cr_expect_eq(sent_groups(first), 1);
    answer(FAST, wide.id, &half);
    struct sent *second = desk_next(&desk->workers, FRAME_SUBMIT);
    desk_wait(desk, 10000);
    second = second ? second : desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(second, "it does not follow the other one");
    cr_expect(job_id_equal(sent_job(second, 0), wider.id));
}

Test(contracts, the_welcome_says_that_contracts_are_known)
{
    struct side *side = &desk->clients;
    uint8_t meta[WIRE_META_BYTES];
    desk_say_client(desk, 2, envelope_make(FRAME_CLIENT_HELLO), meta, wire_client_hello(meta, 0xB, "", 0), 0);
    struct sent *sent = desk_next(side, FRAME_WELCOME);
    cr_assert_not_null(sent);
    Penstock__Welcome *welcome = penstock__welcome__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_expect(welcome->contracts);
    penstock__welcome__free_unpacked(welcome, NULL);
}
