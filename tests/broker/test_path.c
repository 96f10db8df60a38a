/* The whole path on the desk: hello, submit, dispatch, result, kept reply, acknowledgement. */
#include <criterion/criterion.h>

#include "desk.h"

static const struct wire_model echo = {.name = "echo",
                                       .version = 3,
                                       .backend = "xnnpack",
                                       .precision = PRECISION_F32,
                                       .warm_us = 100,
                                       .digest = 9,
                                       .cacheable = true};
static const struct wire_worker one = {.uuid = 77, .name = "w1", .slots = 1, .models = &echo, .models_count = 1};

static struct desk *ready_desk(void)
{
    struct desk *desk = desk_new();
    desk_open(desk);
    desk_worker(desk, 900, &one);
    desk_client(desk, 1, 0xABC);
    return desk;
}

Test(path, job_goes_to_the_worker_and_its_result_to_the_client)
{
    struct desk *desk = ready_desk();
    struct job_id id = {0xABC, 1};
    desk_submit(desk, 1, &(struct wire_job){.id = id, .model = "echo", .fill = 5});
    struct sent *submit = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(submit);
    cr_assert_eq(submit->peer, 900);
    cr_assert(job_id_equal(sent_job(submit, 0), id));
    Penstock__JobMeta *meta = penstock__job_meta__unpack(NULL, submit->env.meta_bytes, submit->meta);
    cr_assert_eq(meta->version, 3, "the broker resolves version 0");
    penstock__job_meta__free_unpacked(meta, NULL);
    desk_wait(desk, 2000);
    desk_result(desk, 900, id, 6, 42);
    struct sent *reply = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert_not_null(reply);
    cr_assert_eq(reply->env.status, PEN_OK);
    Penstock__ResultMeta *result = sent_result(reply);
    cr_assert_eq(result->outputs[0]->data.data[0], 42);
    cr_assert_eq(result->total_us, 2000);
    cr_assert_eq(result->attempts, 1);
    cr_assert_str_eq(result->batch_reason, "single");
    cr_assert_not(result->cached);
    penstock__result_meta__free_unpacked(result, NULL);
    desk_free(desk);
}
