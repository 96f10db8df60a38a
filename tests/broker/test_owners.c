/*
 * Kinds of jobs that the broker does not have yet, each an owner in this file and a row that the test adds (course.h): many results before the end, a job that is
 * parked while no worker exists, a job that goes to another broker under its id, a copy whose answer nobody gets. And several replies in one message.
 */
#include <criterion/criterion.h>

#include "answer.h"
#include "answer_send.h"
#include "client_handler.h"
#include "course.h"
#include "desk.h"
#include "explain.h"
#include "outgoing.h"
#include "reply.h"
#include "session.h"
#include "submit.h"

#define ALICE    0xA11CEu
#define WORKER   901
#define OWN_KIND OWNER_COUNT

static const struct wire_model plain = {.name = "plain",
                                        .version = 1,
                                        .backend = "xnnpack",
                                        .precision = PRECISION_F32,
                                        .warm_us = 1000,
                                        .digest = 1,
                                        .max_batch = 4};
static const struct wire_worker one = {.uuid = 1, .name = "one", .slots = 2, .models = &plain, .models_count = 1};
static const struct job_id first = {ALICE, 1};

static struct desk *desk_with(const struct job_owner *owner)
{
    struct desk *desk = desk_new();
    desk->options.worker_wait_us = 1000000;
    desk_open(desk);
    desk->broker.owners[OWN_KIND] = owner;
    desk_worker(desk, WORKER, &one);
    desk_client(desk, 1, ALICE);
    session_find(&desk->broker.sessions, ALICE)->owner = OWN_KIND;
    return desk;
}

static void submit(struct desk *desk, struct job_id id)
{
    desk_submit(desk, 1, &(struct wire_job){.id = id, .model = "plain", .no_digest = true});
}

/* The job as it is here ends: nothing of it is left in the broker. */
static void forget(struct broker *broker, struct job *job, enum pen_status status)
{
    answer_retire(broker, job, status);
    session_remove(job->session, job);
    jobs_free(&broker->jobs, job);
}

static void expect_nothing_left(const struct desk *desk)
{
    cr_expect_eq(desk->broker.live, 0);
    cr_expect_eq(desk->broker.queued_bytes, 0);
    cr_expect(effects_empty(&desk->broker.effects));
}

/* ---- many results before the end ---- */

static void pass_on(struct broker *broker, struct job *job, struct result_group *group)
{
    struct shared_message *raws = reply_raws(group);
    struct shared_message *reply = raws ? reply_result(broker, job, job->dispatch, group, raws) : NULL;
    if (reply)
        answer_send_past(broker, job->session, reply);
    shared_message_release(reply);
    shared_message_release(raws);
}

static void stream_ended(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                         const struct ending *ending)
{
    broker->owners[OWNER_CLIENT]->ended(broker, job, reply, status, ending);
}

static void partial(struct desk *desk, struct job_id id, uint8_t value, uint16_t flags)
{
    uint8_t meta[WIRE_META_BYTES];
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = id;
    env.flags = flags;
    desk_say_worker(desk, WORKER, env, meta, wire_result(meta, value, "xnnpack", PRECISION_F32, 1000, NULL));
}

static uint8_t value_of(const struct sent *sent)
{
    Penstock__ResultMeta *result = sent_result(sent);
    cr_assert_eq(result->n_outputs, 1);
    uint8_t value = result->outputs[0]->data.data[0];
    penstock__result_meta__free_unpacked(result, NULL);
    return value;
}

Test(owners, a_stream_tells_each_result_in_order_and_ends_once)
{
    static const struct job_owner stream = {.name = "stream", .ended = stream_ended, .result = pass_on};
    struct desk *desk = desk_with(&stream);
    submit(desk, first);
    for (uint8_t i = 1; i <= 5; i++)
        partial(desk, first, i, i < 5 ? FRAME_FLAG_PARTIAL : 0);
    for (uint8_t i = 1; i <= 5; i++) {
        const struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
        cr_assert(sent, "result %u", i);
        cr_expect_eq(value_of(sent), i);
        cr_expect_eq((sent->env.flags & FRAME_FLAG_PARTIAL) != 0, i < 5);
    }
    partial(desk, first, 6, FRAME_FLAG_PARTIAL); /* after its end */
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT));
    cr_expect_eq(desk->broker.stats.jobs_done, 1);
    expect_nothing_left(desk);
    desk_free(desk);
}

Test(owners, results_before_the_end_are_dropped_where_the_owner_takes_none)
{
    struct desk *desk = desk_with(&(struct job_owner){.name = "plain", .ended = stream_ended});
    submit(desk, first);
    partial(desk, first, 1, FRAME_FLAG_PARTIAL);
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT));
    partial(desk, first, 2, 0);
    cr_expect_eq(value_of(desk_next(&desk->clients, FRAME_RESULT)), 2);
    desk_free(desk);
}

Test(owners, a_result_before_the_end_that_is_none_ends_its_job)
{
    static const struct job_owner stream = {.name = "stream", .ended = stream_ended, .result = pass_on};
    struct desk *desk = desk_with(&stream);
    submit(desk, first);
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = first;
    env.flags = FRAME_FLAG_PARTIAL;
    desk_say_worker(desk, WORKER, env, NULL, 0); /* without the output that the model gives */
    const struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent);
    cr_expect_eq(sent->env.status, PEN_ERR_CORRUPT);
    expect_nothing_left(desk);
    desk_free(desk);
}

/* ---- parked while no worker exists ---- */

static struct shared_message *parked; /* the request of the one job that waits */

static void park(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                 const struct ending *ending)
{
    if (status != PEN_ERR_UNAVAILABLE) {
        broker->owners[OWNER_CLIENT]->ended(broker, job, reply, status, ending);
        return;
    }
    parked = shared_message_retain(job->request);
    shared_message_release(reply);
    forget(broker, job, status);
}

/* The kept request as the message that a client would send. */
static void message_of(struct message *message, struct envelope *ret_env, const uint8_t **ret_meta)
{
    for (uint32_t i = 0; i < parked->count; i++) {
        zmq_msg_t frame;
        shared_message_frame(parked, i, &frame);
        cr_assert_eq(message_add(message, &frame), PEN_OK);
    }
    zmq_msg_t *header = &message->frames[0];
    cr_assert_eq(envelope_decode(zmq_msg_data(header), zmq_msg_size(header), ret_env, ret_meta, NULL), PEN_OK);
    shared_message_release(parked);
    parked = NULL;
}

Test(owners, a_job_is_parked_while_no_worker_exists)
{
    static const struct job_owner waits = {.name = "waits", .ended = park};
    struct desk *desk = desk_with(&waits);
    struct message message = {.count = 0};
    struct envelope env;
    const uint8_t *meta;
    desk_say_worker(desk, WORKER, envelope_make(FRAME_GOODBYE), NULL, 0);
    submit(desk, first);
    desk_wait(desk, 1500000); /* beyond --worker-wait: a client's job would have been told */
    cr_assert(parked, "it waits");
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT));
    expect_nothing_left(desk);

    desk_worker(desk, WORKER + 1, &one);
    message_of(&message, &env, &meta);
    struct pen_error error;
    cr_assert_eq(submit_try(&desk->broker, session_find(&desk->broker.sessions, ALICE), &env, meta, &message, &error),
                 PEN_OK, "%s", error.text);
    message_fini(&message);
    desk_run(desk);
    desk_result(desk, WORKER + 1, first, 0, 9);
    const struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent && job_id_equal(sent->env.job, first), "answered under its own id");
    cr_expect_eq(value_of(sent), 9);
    expect_nothing_left(desk);
    desk_free(desk);
}

/* ---- handed to another broker under its id ---- */

static struct desk *other;

/* What nobody here can run goes to the other broker, which knows this one as a client with the job's own uuid. */
static void hand_over(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                      const struct ending *ending)
{
    if (status != PEN_ERR_UNAVAILABLE) {
        broker->owners[OWNER_CLIENT]->ended(broker, job, reply, status, ending);
        return;
    }
    struct message message = {.peer = 5};
    struct envelope env;
    const uint8_t *meta;
    parked = shared_message_retain(job->request);
    shared_message_release(reply);
    forget(broker, job, status);
    message_of(&message, &env, &meta);
    client_message(&other->broker, &message);
    message_fini(&message);
}

/* The other broker's answer as one of ours. */
static void relay(struct desk *desk, const struct sent *sent)
{
    struct shared_message *stored = shared_message_new(sent->count);
    for (size_t i = 0; i < sent->count; i++) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        zmq_msg_copy(&frame, (zmq_msg_t *)(uintptr_t)&sent->frames[i]);
        cr_assert_eq(shared_message_take(stored, i, &frame), PEN_OK);
        zmq_msg_close(&frame);
    }
    answer_stored(&desk->broker, session_find(&desk->broker.sessions, ALICE), sent->env.job, stored);
    shared_message_release(stored);
}

Test(owners, a_job_goes_to_another_broker_under_its_id)
{
    static const struct job_owner handed = {.name = "handed", .ended = hand_over};
    struct desk *desk = desk_with(&handed);
    other = desk_new();
    desk_open(other);
    desk_worker(other, WORKER, &one);
    desk_client(other, 5, ALICE);
    desk_say_worker(desk, WORKER, envelope_make(FRAME_GOODBYE), NULL, 0);
    submit(desk, first);
    desk_wait(desk, 1500000);
    expect_nothing_left(desk);
    desk_run(other);
    desk_result(other, WORKER, first, 0, 7);
    const struct sent *told = desk_next(&other->clients, FRAME_RESULT);
    cr_assert(told && job_id_equal(told->env.job, first));
    relay(desk, told);
    const struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent && job_id_equal(sent->env.job, first));
    cr_expect_eq(value_of(sent), 7);
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT), "one answer");
    desk_free(other);
    desk_free(desk);
}

/* ---- a copy whose answer nobody gets ---- */

static unsigned compared;

static void copy_ended(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                       const struct ending *ending)
{
    (void)ending;
    compared += status == PEN_OK;
    shared_message_release(reply);
    forget(broker, job, status);
}

Test(owners, the_answer_to_a_copy_reaches_nobody_and_it_counts_for_nothing)
{
    static const struct job_owner copy = {.name = "copy", .part = true, .ended = copy_ended};
    struct desk *desk = desk_with(&copy);
    const struct job_id own = {0xB0B, 1};
    compared = 0;
    desk_client(desk, 2, 0xB0B);
    desk_submit(desk, 2, &(struct wire_job){.id = own, .model = "plain", .no_digest = true});
    submit(desk, first);
    desk_result(desk, WORKER, own, 0, 1);
    desk_result(desk, WORKER, first, 0, 2);
    const struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent && sent->peer == 2);
    cr_expect_null(desk_next(&desk->clients, FRAME_RESULT));
    cr_expect_eq(compared, 1);
    cr_expect_eq(desk->broker.stats.jobs_done, 1, "the copy is none of a client's");
    expect_nothing_left(desk);
    desk_free(desk);
}

/* ---- several jobs in one message ---- */

Test(owners, replies_of_several_jobs_leave_in_one_message)
{
    struct desk *desk = desk_with(&answer_client);
    struct session *session = session_find(&desk->broker.sessions, ALICE);
    struct outgoing outgoing;
    cr_assert(outgoing_begin(&outgoing, desk->broker.clients, session->link.peer, &session->transfers));
    for (uint64_t i = 1; i <= 3; i++) {
        struct shared_message *reply =
            reply_error((struct job_id){ALICE, i}, PEN_ERR_CANCELLED, "it was not wanted", "plain", 0, 0);
        outgoing_group(&desk->broker, &outgoing, reply, NULL);
        shared_message_release(reply);
    }
    cr_expect_gt(outgoing_end(&outgoing), 3 * FRAME_ENVELOPE_BYTES);
    const struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent);
    cr_expect_eq(sent_groups(sent), 3);
    cr_expect_eq(sent_job(sent, 2).sequence, 3);
    desk_free(desk);
}
