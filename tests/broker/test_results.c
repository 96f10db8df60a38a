/* Results that a worker should not have sent, on the desk: each job gets its end, and they count against the worker. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk.h"

static const struct wire_model echo = {
    .name = "echo", .version = 3, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 9};
static const struct wire_worker one = {.uuid = 77, .name = "w1", .slots = 1, .models = &echo, .models_count = 1};

static struct desk *desk_with_job(void)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    desk_worker(desk, 900, &one);
    desk_client(desk, 1, 0xABC);
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, 1}, .model = "echo"});
    return desk;
}

/* The reply to the only job: its status, and a word that its sentence has. */
static void expect_end(struct desk *desk, enum pen_status status, const char *word)
{
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(reply, "a job without a deadline must not wait for ever");
    cr_assert_eq(reply->env.status, status, "%s", pen_status_name((enum pen_status)reply->env.status));
    Penstock__ResultMeta *result = sent_result(reply);
    cr_assert(strstr(result->error, word), "%s", result->error);
    penstock__result_meta__free_unpacked(result, NULL);
    cr_assert_eq(desk->broker.live, 0);
}

static void expect_blame(struct desk *desk, uint64_t count)
{
    cr_assert_eq(desk->broker.stats.results_bad, count);
    Penstock__ControlReply *answer = desk_ask(desk, "workers", "", NULL);
    cr_assert_eq(answer->workers[0]->results_bad, count);
    cr_assert_eq(answer->workers[0]->jobs_failed, count);
    penstock__control_reply__free_unpacked(answer, NULL);
}

Test(results, an_unknown_status_ends_the_job_internal_with_its_number)
{
    struct desk *desk = desk_with_job();
    desk_result_status(desk, 900, (struct job_id){0xABC, 1}, (enum pen_status)200, 10);
    expect_end(desk, PEN_ERR_INTERNAL, "the status 200");
    expect_blame(desk, 1);
    desk_free(desk);
}

Test(results, one_that_is_cut_short_or_has_too_large_a_meta_ends_its_job)
{
    static uint8_t meta[FRAME_META_BYTES_MAX + 1];
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = (struct job_id){0xABC, 1};
    env.frames = 3;
    struct desk *desk = desk_with_job();
    desk_say_worker(desk, 900, env, NULL, 0);
    expect_end(desk, PEN_ERR_CORRUPT, "cut short");
    expect_blame(desk, 1);
    desk_free(desk);
    desk = desk_with_job();
    env.frames = 0;
    desk_say_worker(desk, 900, env, meta, sizeof meta);
    expect_end(desk, PEN_ERR_TOO_LARGE, "meta of 65537 bytes");
    expect_blame(desk, 1);
    desk_free(desk);
}

Test(results, a_cancelled_job_is_neither_failed_nor_rejected)
{
    struct desk *desk = desk_with_job();
    desk_cancel(desk, 1, (struct job_id){0xABC, 1});
    expect_end(desk, PEN_ERR_CANCELLED, "cancelled");
    desk_result_status(desk, 900, (struct job_id){0xABC, 1}, PEN_ERR_CANCELLED, 0);
    Penstock__ControlReply *answer = desk_ask(desk, "stats", "", NULL);
    cr_assert_eq(answer->stats->jobs_cancelled, 1);
    cr_assert_eq(answer->stats->jobs_failed, 0);
    penstock__control_reply__free_unpacked(answer, NULL);
    answer = desk_ask(desk, "workers", "", NULL);
    cr_assert_eq(answer->workers[0]->jobs_failed, 0);
    cr_assert_eq(answer->workers[0]->jobs_cancelled, 1);
    penstock__control_reply__free_unpacked(answer, NULL);
    answer = desk_ask(desk, "models", "", NULL);
    cr_assert_eq(answer->models[0]->jobs_failed, 0);
    cr_assert_eq(answer->models[0]->jobs_cancelled, 1);
    penstock__control_reply__free_unpacked(answer, NULL);
    answer = desk_ask(desk, "explain", "0000000000000abc-1", NULL);
    cr_assert_str_eq(answer->explanation->state, "cancelled");
    penstock__control_reply__free_unpacked(answer, NULL);
    const struct model_tally *tally = desk->broker.models.all.tqh_first->tally;
    cr_assert_eq(tally->cancelled, 1);
    cr_assert_eq(tally->failed[PEN_ERR_CANCELLED] + tally->rejected[PEN_ERR_CANCELLED], 0);
    cr_assert_eq(desk->broker.metrics->errors.count, 0);
    cr_assert_eq(desk->broker.metrics->recent.rows[0].how, FINISH_CANCELLED);
    desk_free(desk);
}
