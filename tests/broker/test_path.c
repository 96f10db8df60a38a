/* The whole path on the desk: hello, submit, dispatch, result, kept reply, acknowledgement. */
#include <criterion/criterion.h>

#include "worker_handler.h"
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

/* Header frames of OK results, one behind the other; returns how many. */
static size_t two_results(uint8_t *bytes, size_t sizes[2], struct job_id first, struct job_id second)
{
    struct job_id ids[2] = {first, second};
    for (size_t i = 0, at = 0; i < 2; at += sizes[i++]) {
        struct envelope env = envelope_make(FRAME_RESULT);
        env.job = ids[i];
        env.meta_bytes = (uint32_t)wire_result(bytes + at + FRAME_ENVELOPE_BYTES, (uint8_t)(40 + i), "xnnpack",
                                               PRECISION_F32, 10, NULL);
        envelope_encode(&env, bytes + at);
        sizes[i] = FRAME_ENVELOPE_BYTES + env.meta_bytes;
    }
    return 2;
}

Test(path, one_message_may_answer_several_jobs)
{
    static uint8_t bytes[2 * (WIRE_META_BYTES + FRAME_ENVELOPE_BYTES)];
    struct desk *desk = ready_desk();
    struct message message = {.count = 0};
    size_t sizes[2];
    for (uint64_t i = 1; i <= 2; i++)
        desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, i}, .model = "echo", .fill = (uint8_t)i});
    desk_frames(&message, 900, bytes, sizes,
                two_results(bytes, sizes, (struct job_id){0xABC, 2}, (struct job_id){0xABC, 1}));
    worker_message(&desk->broker, &message);
    message_fini(&message);
    cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->env.job.sequence, 2);
    cr_assert_eq(desk_next(&desk->clients, FRAME_RESULT)->env.job.sequence, 1);
    cr_assert_eq(desk->broker.live, 0);
    desk_free(desk);
}

Test(path, raw_frames_go_through_untouched)
{
    struct desk *desk = ready_desk();
    desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, 1}, .model = "echo", .raw = true});
    struct sent *submit = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(submit->count, 2);
    cr_assert_eq(zmq_msg_size(&submit->frames[1]), 4);
    desk_free(desk);
}

Test(path, acknowledged_replies_are_forgotten)
{
    struct desk *desk = ready_desk();
    struct envelope ack = envelope_make(FRAME_ACK);
    for (uint64_t i = 1; i <= 3; i++) {
        desk_submit(desk, 1, &(struct wire_job){.id = {0xABC, i}, .model = "echo", .fill = (uint8_t)i});
        desk_result(desk, 900, (struct job_id){0xABC, i}, 0, 1);
    }
    cr_assert_eq(desk->broker.sessions.kept_count, 3);
    ack.job = (struct job_id){0xABC, 2};
    desk_say_client(desk, 1, ack, NULL, 0, 0);
    cr_assert_eq(desk->broker.sessions.kept_count, 1);
    desk_wait(desk, (uint64_t)desk->options.replies_age_us);
    cr_assert_eq(desk->broker.sessions.kept_count, 0);
    desk_free(desk);
}
