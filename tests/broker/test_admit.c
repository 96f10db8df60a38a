/* What is refused, with which code, and that the sentence names the field. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "desk.h"

static const struct wire_model models[] = {
    {.name = "plain", .version = 2, .backend = "xnnpack", .precision = PRECISION_F32, .digest = 1},
    {.name = "batchy",
     .version = 1,
     .backend = "reference",
     .precision = PRECISION_F16_MATH,
     .max_batch = 4,
     .digest = 2,
     .dim = -1},
    {.name = "asleep", .version = 1, .backend = "xnnpack", .precision = PRECISION_F32, .not_ready = true},
};
static const struct wire_worker fleet = {.uuid = 7,
                                         .name = "w",
                                         .slots = 1,
                                         .tag = "red",
                                         .flag = "cpu.isa",
                                         .flag_value = "avx2",
                                         .models = models,
                                         .models_count = 3};

static struct desk *ready_desk(void)
{
    struct desk *desk = desk_new();
    desk->options.max_job_bytes = 100000;
    desk_open(desk);
    desk_worker(desk, 900, &fleet);
    desk_client(desk, 1, 0xABC);
    return desk;
}

static void expect(struct wire_job job, enum pen_status status, const char *sentence)
{
    struct desk *desk = ready_desk();
    job.id = (struct job_id){0xABC, 1};
    desk_submit(desk, 1, &job);
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(reply, "no answer: %s", sentence);
    Penstock__ResultMeta *result = sent_result(reply);
    cr_assert_eq(reply->env.status, status, "%s: %s", pen_status_name((enum pen_status)reply->env.status),
                 result->error);
    cr_assert_not_null(strstr(result->error, sentence), "'%s' lacks '%s'", result->error, sentence);
    cr_assert_null(desk_next(&desk->workers, FRAME_SUBMIT));
    cr_assert_eq(desk->broker.stats.jobs_rejected, 1);
    penstock__result_meta__free_unpacked(result, NULL);
    desk_free(desk);
}

Test(admit, unknown_model)
{
    expect((struct wire_job){.model = "nope"}, PEN_ERR_NOT_FOUND, "unknown model 'nope'; served: plain:2, batchy:1");
}
Test(admit, unknown_version)
{
    expect((struct wire_job){.model = "plain", .version = 9}, PEN_ERR_NOT_FOUND, "'plain' has no version 9");
}
Test(admit, model_that_is_not_ready_yet)
{
    expect((struct wire_job){.model = "asleep"}, PEN_ERR_NOT_FOUND, "unknown model 'asleep'");
}
Test(admit, wrong_input_name)
{
    expect((struct wire_job){.model = "plain", .input = "z"}, PEN_ERR_NOT_FOUND,
           "model 'plain' has no input 'z', it takes: x");
}
Test(admit, wrong_dtype)
{
    expect((struct wire_job){.model = "plain", .dtype = PEN_DTYPE_I8}, PEN_ERR_DTYPE,
           "input 'x' of model 'plain' has element type i8, expected u8");
}
Test(admit, wrong_dimension)
{
    expect((struct wire_job){.model = "plain", .dims = {1, 5}}, PEN_ERR_SHAPE,
           "input 'x' of model 'plain' has shape 1x5, expected 1x4");
}
Test(admit, wrong_rank)
{
    expect((struct wire_job){.model = "plain", .rank = 1, .dims = {4, 1}}, PEN_ERR_SHAPE, "has shape 4, expected 1x4");
}
Test(admit, batch_larger_than_the_model_takes)
{
    expect((struct wire_job){.model = "batchy", .dims = {5, 3}, .precision = PRECISION_F16_MATH}, PEN_ERR_SHAPE,
           "has a batch of 5, expected 1 to 4");
}
Test(admit, unknown_output)
{
    expect((struct wire_job){.model = "plain", .output = "w"}, PEN_ERR_NOT_FOUND,
           "model 'plain' has no output 'w', it gives: y");
}
Test(admit, backend_that_nobody_offers)
{
    expect((struct wire_job){.model = "plain", .backend = "vulkan"}, PEN_ERR_UNSUPPORTED,
           "on backend 'vulkan'; it is served by: xnnpack f32");
}
Test(admit, precision_that_nobody_offers)
{
    expect((struct wire_job){.model = "batchy", .precision = PRECISION_F32}, PEN_ERR_UNSUPPORTED,
           "in precision f32 or better; it is served by: reference f16_math");
}
Test(admit, tag_that_nobody_carries)
{
    expect((struct wire_job){.model = "plain", .tag = "blue"}, PEN_ERR_UNSUPPORTED,
           "has all the tags and flags that the job asks for: blue");
}
Test(admit, flag_that_nobody_has)
{
    expect((struct wire_job){.model = "plain", .need = "cpu.isa=avx512"}, PEN_ERR_UNSUPPORTED,
           "all the tags and flags");
    expect((struct wire_job){.model = "plain", .need = "cpu"}, PEN_ERR_UNSUPPORTED, "all the tags and flags");
    expect((struct wire_job){.model = "plain", .tag = "cpu.isa"}, PEN_ERR_UNSUPPORTED, "all the tags and flags");
    expect((struct wire_job){.model = "plain", .need = "red"}, PEN_ERR_UNSUPPORTED, "all the tags and flags");
}
Test(admit, debug_mode_needs_a_worker_that_allows_it_and_no_cache)
{
    expect((struct wire_job){.model = "plain", .debug = true}, PEN_ERR_INVALID, "set the flag NO_CACHE");
    expect((struct wire_job){.model = "plain", .debug = true, .no_cache = true, .tag = "blue"}, PEN_ERR_UNSUPPORTED,
           "asks for: blue, debug_jobs (the worker's --allow-debug)");
}
Test(admit, more_classes_than_can_be_told)
{
    expect((struct wire_job){.model = "plain", .top_k = 1001}, PEN_ERR_INVALID, "1001 best classes; at most 1000");
}
Test(admit, payload_beyond_the_cap)
{
    expect((struct wire_job){.model = "plain", .dims = {1, 200000}, .raw = true}, PEN_ERR_TOO_LARGE, "--max-job-bytes");
}

Test(admit, dynamic_dimensions_tags_and_versions_are_taken)
{
    struct desk *desk = ready_desk();
    desk_submit(
        desk, 1,
        &(struct wire_job){.id = {0xABC, 1}, .model = "plain", .version = 2, .tag = "red", .need = "cpu.isa=avx2"});
    desk_submit(
        desk, 1,
        &(struct wire_job){.id = {0xABC, 2}, .model = "batchy", .dims = {4, 99}, .precision = PRECISION_F16_MATH});
    cr_assert_null(desk_next(&desk->clients, FRAME_RESULT));
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_wait(desk, 1000000); /* until the first is as good as done */
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_free(desk);
}

Test(admit, without_any_worker_it_says_so)
{
    struct desk *desk = desk_new();
    desk->options.restart_wait_us = 0; /* otherwise: test_lobby.c */
    desk_open(desk);
    desk_client(desk, 1, 0xABC);
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, 1}, .model = "plain"});
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_eq(reply->env.status, PEN_ERR_UNAVAILABLE);
    desk_free(desk);
}

Test(admit, job_of_another_session_is_denied)
{
    struct desk *desk = ready_desk();
    desk_submit(desk, 1, &(struct wire_job){.id = {0xDEF, 1}, .model = "plain"});
    cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->env.status, PEN_ERR_DENIED);
    cr_expect_eq(desk->broker.stats.messages_bad, 1, "it is counted, too");
    desk_free(desk);
}
