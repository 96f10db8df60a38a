/* Results that a worker should not have sent, on the desk: each job gets its end, and they count against the worker. */
#include <criterion/criterion.h>
#include <string.h>

#include "worker_handler.h"
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

/* ---- outputs ---- */

static const struct wire_model strict = {.name = "strict",
                                         .version = 1,
                                         .backend = "xnnpack",
                                         .precision = PRECISION_F32,
                                         .warm_us = 100,
                                         .digest = 9,
                                         .cacheable = true,
                                         .gives = 4};

struct fault {
    const char *what, *word, *name;
    uint32_t dtype, frame, outputs, frames;
    int64_t dims[3];
    size_t rank, bytes, told_bytes;
};

/* A result of one output of that kind, twice when `outputs` is 2, with so many raw frames of four bytes. */
static void say_result(struct desk *desk, const struct fault *f)
{
    static uint8_t bytes[4096];
    struct message message = {.count = 0};
    size_t sizes[4] = {0, 4, 4, 4};
    uint8_t data[16] = {1, 2, 3, 4};
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__TensorDesc desc = PENSTOCK__TENSOR_DESC__INIT, *descs[2] = {&desc, &desc};
    struct envelope env = envelope_make(FRAME_RESULT);
    desc.name = (char *)(uintptr_t)f->name;
    desc.dtype = f->dtype;
    desc.dims = (int64_t *)(uintptr_t)f->dims;
    desc.n_dims = f->rank;
    desc.bytes = f->told_bytes;
    desc.frame = f->frame;
    desc.data.data = data;
    desc.data.len = f->frame ? 0 : f->bytes;
    result.outputs = descs;
    result.n_outputs = f->outputs;
    result.backend = (char *)(uintptr_t) "xnnpack";
    result.precision = PRECISION_F32;
    env.job = (struct job_id){0xABC, 1};
    env.frames = (uint8_t)f->frames;
    memset(env.digest.bytes, 6, sizeof env.digest.bytes); /* what the client says */
    env.meta_bytes = (uint32_t)penstock__result_meta__pack(&result, bytes + FRAME_ENVELOPE_BYTES);
    envelope_encode(&env, bytes);
    sizes[0] = FRAME_ENVELOPE_BYTES + env.meta_bytes;
    desk_frames(&message, 900, bytes, sizes, 1 + f->frames);
    worker_message(&desk->broker, &message);
    message_fini(&message);
    desk_run(desk);
}

static struct desk *strict_desk(void)
{
    static const struct wire_worker w = {.uuid = 77, .name = "w1", .slots = 1, .models = &strict, .models_count = 1};
    struct desk *desk = desk_new();
    desk_open(desk);
    desk_worker(desk, 900, &w);
    desk_client(desk, 1, 0xABC);
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, 1}, .model = "strict", .fill = 5});
    return desk;
}

Test(results, what_is_no_result_of_the_model_is_corrupt_and_neither_told_nor_cached)
{
    static const struct fault faults[] = {
        {"a frame beyond the frames", "raw frame 2", "y", 2, 2, 1, 1, {1, 4}, 2, 4, 4},
        {"a frame that is not there", "raw frame 1", "y", 2, 1, 1, 0, {1, 4}, 2, 4, 4},
        {"a frame nobody names", "raw frames", "y", 2, 0, 1, 1, {1, 4}, 2, 4, 4},
        {"fewer bytes than announced", "announces 4", "y", 2, 0, 1, 0, {1, 4}, 2, 3, 4},
        {"bytes that dims do not need", "bytes", "y", 2, 0, 1, 0, {1, 4}, 2, 5, 5},
        {"no outputs", "lacks the output 'y'", "y", 2, 0, 0, 0, {1, 4}, 2, 4, 4},
        {"one output twice", "twice", "y", 2, 0, 2, 0, {1, 4}, 2, 4, 4},
        {"another output", "'z'", "z", 2, 0, 1, 0, {1, 4}, 2, 4, 4},
        {"another type", "element type", "y", 3, 0, 1, 0, {1, 4}, 2, 4, 4},
        {"another shape", "shape", "y", 2, 0, 1, 0, {1, 3}, 2, 3, 3},
        {"another rank", "shape", "y", 2, 0, 1, 0, {1, 4, 1}, 3, 4, 4},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct cache_report report;
        struct desk *desk = strict_desk();
        say_result(desk, &faults[i]);
        struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
        cr_assert_not_null(reply, "%s", faults[i].what);
        cr_assert_eq(reply->env.status, PEN_ERR_CORRUPT, "%s: %s", faults[i].what,
                     pen_status_name((enum pen_status)reply->env.status));
        Penstock__ResultMeta *result = sent_result(reply);
        cr_assert(strstr(result->error, faults[i].word), "%s: %s", faults[i].what, result->error);
        cr_assert_eq(result->n_outputs, 0);
        penstock__result_meta__free_unpacked(result, NULL);
        cache_report(desk->cache, &report);
        cr_assert_eq(report.entries, 0, "%s", faults[i].what);
        expect_blame(desk, 1);
        desk_free(desk);
    }
}

Test(results, a_sound_one_is_told_and_cached)
{
    static const struct fault good[] = {{"inline", "", "y", 2, 0, 1, 0, {1, 4}, 2, 4, 4},
                                        {"raw", "", "y", 2, 1, 1, 1, {1, 4}, 2, 4, 4}};
    for (size_t i = 0; i < 2; i++) {
        struct cache_report report;
        struct desk *desk = strict_desk();
        say_result(desk, &good[i]);
        cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->env.status, PEN_OK, "%s", good[i].what);
        cache_report(desk->cache, &report);
        cr_assert_eq(report.entries, 1);
        expect_blame(desk, 0);
        desk_free(desk);
    }
}

Test(results, those_who_follow_a_job_with_a_bad_result_run_by_themselves)
{
    struct desk *desk = strict_desk();
    desk_client(desk, 2, 0xDEF);
    desk_submit(desk, 2, &(struct wire_job){.id = {0xDEF, 1}, .model = "strict", .fill = 5});
    cr_assert_eq(desk->broker.stats.jobs_coalesced, 1);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_result(desk, 900, (struct job_id){0xABC, 1}, 6, 1); /* one byte where four are due */
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_eq(reply->env.status, PEN_ERR_CORRUPT);
    cr_assert_eq(reply->peer, 1);
    struct sent *again = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(again);
    cr_assert_eq(sent_job(again, 0).client, 0xDEF);
    desk_free(desk);
}

/* ---- NUL bytes in texts ---- */

static void put_nul(uint8_t *meta, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        meta[i] = meta[i] == '~' ? 0 : meta[i];
}

static struct desk *echo_desk(void)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    desk_worker(desk, 900, &one);
    desk_client(desk, 1, 0xABC);
    while (desk_next(&desk->workers, FRAME_WELCOME) || desk_next(&desk->clients, FRAME_WELCOME))
        ;
    return desk;
}

Test(nul, a_job_whose_texts_have_one_is_invalid)
{
    static const struct wire_job jobs[] = {{.id = {0xABC, 1}, .model = "echo~evil"},
                                           {.id = {0xABC, 2}, .model = "echo", .tag = "a~b"},
                                           {.id = {0xABC, 3}, .model = "echo", .input = "x~y"},
                                           {.id = {0xABC, 4}, .model = "echo", .output = "y~z"},
                                           {.id = {0xABC, 5}, .model = "echo~", .flags = FRAME_FLAG_DETACHED}};
    struct desk *desk = echo_desk();
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        uint8_t meta[WIRE_META_BYTES];
        size_t raw, bytes = wire_job(meta, &jobs[i], &raw);
        put_nul(meta, bytes);
        desk_say_client(desk, 1, wire_job_envelope(&jobs[i]), meta, bytes, raw);
        cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT), "job %zu runs", i);
        struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
        cr_assert_not_null(reply);
        Penstock__ResultMeta *result = sent_result(reply);
        if (!(jobs[i].flags & FRAME_FLAG_DETACHED)) { /* this broker keeps none */
            cr_assert_eq(reply->env.status, PEN_ERR_INVALID, "job %zu", i);
            cr_assert(strstr(result->error, "NUL"), "%s", result->error);
        }
        penstock__result_meta__free_unpacked(result, NULL);
    }
    desk_free(desk);
}

Test(nul, a_hello_or_a_question_whose_texts_have_one_is_invalid)
{
    static const struct wire_model odd = {
        .name = "od~d", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .warm_us = 100, .digest = 9};
    const struct wire_worker two = {.uuid = 78, .name = "w2", .slots = 1, .models = &odd, .models_count = 1};
    uint8_t meta[WIRE_META_BYTES];
    enum pen_status status;
    struct desk *desk = echo_desk();
    size_t bytes = wire_worker_hello(meta, &two);
    put_nul(meta, bytes);
    desk_say_worker(desk, 901, envelope_make(FRAME_WORKER_HELLO), meta, bytes);
    struct sent *welcome = desk_next(&desk->workers, FRAME_WELCOME);
    cr_assert(welcome && welcome->env.status == PEN_ERR_INVALID);
    cr_assert_eq(desk->broker.fleet.count, 1);
    bytes = wire_worker_update(meta, &odd, 1);
    put_nul(meta, bytes);
    desk_say_worker(desk, 900, envelope_make(FRAME_WORKER_UPDATE), meta, bytes);
    welcome = desk_next(&desk->workers, FRAME_WELCOME);
    cr_assert(welcome && welcome->env.status == PEN_ERR_INVALID);
    bytes = wire_client_hello(meta, 0xDEF, "tenant~a", 0);
    put_nul(meta, bytes);
    desk_say_client(desk, 2, envelope_make(FRAME_CLIENT_HELLO), meta, bytes, 0);
    welcome = desk_next(&desk->clients, FRAME_WELCOME);
    cr_assert(welcome && welcome->env.status == PEN_ERR_INVALID);
    bytes = wire_control(meta, "stats~", "", 5);
    put_nul(meta, bytes);
    desk_say_client(desk, 1, envelope_make(FRAME_CONTROL), meta, bytes, 0);
    Penstock__ControlReply *answer = desk_answer(desk, &status);
    cr_assert_eq(status, PEN_ERR_INVALID);
    cr_assert(strstr(answer->error, "verb"), "%s", answer->error);
    penstock__control_reply__free_unpacked(answer, NULL);
    desk_free(desk);
}

Test(nul, a_result_whose_texts_have_one_is_corrupt)
{
    for (int failed = 0; failed < 2; failed++) {
        uint8_t meta[WIRE_META_BYTES];
        struct envelope env = envelope_make(FRAME_RESULT);
        struct desk *desk = desk_with_job();
        size_t bytes = wire_result(meta, 1, failed ? "xnnpack" : "xnn~pack", PRECISION_F32, 1, failed ? "no~" : NULL);
        put_nul(meta, bytes);
        env.job = (struct job_id){0xABC, 1};
        env.status = failed ? PEN_ERR_UNAVAILABLE : PEN_OK;
        desk_say_worker(desk, 900, env, meta, bytes);
        expect_end(desk, PEN_ERR_CORRUPT, "NUL");
        expect_blame(desk, 1);
        desk_free(desk);
    }
}
