/* The table of messages: what a broker's message does to the worker, and what it says to those that are wrong. */
#include "net_side.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

#include "control.pb-c.h"
#include "drain.h"

static struct link *link;

static void setup(void)
{
    cr_redirect_stderr();
    net_open(1);
    link = &net_brokers.links[0];
    net_serve_link(0, 5);
}

TestSuite(messages, .init = setup, .fini = net_close);

static void take(void)
{
    messages_receive(&net_serve, net_now_us);
}

static struct dispatch *taken(size_t jobs)
{
    struct dispatch *dispatch = handoff_poll(net_serve.handoff);
    cr_assert(dispatch && dispatch->jobs_count == jobs && dispatch->link == link);
    return dispatch;
}

/* As a slot and serve.c do it. */
static void finish(struct dispatch *dispatch)
{
    exclusive_finished(&net_serve.exclusive, dispatch);
    in_flight_remove(&link->in_flight, dispatch);
    dispatch_free(dispatch);
}

Test(messages, a_dispatch_goes_to_the_slots_and_is_held)
{
    cr_assert(!messages_receive(&net_serve, net_now_us), "nothing has come");
    net_submit(0, 1, 3, 0);
    cr_assert(messages_receive(&net_serve, net_now_us));
    struct dispatch *dispatch = taken(3);
    cr_assert(link->in_flight.jobs == 3 && link->in_flight.dispatches == 1);
    cr_assert(dispatch->received_us == net_now_us && dispatch->jobs[2].env.job.sequence == 3);
    finish(dispatch);
    cr_assert(brokers_in_flight_jobs(&net_brokers) == 0 && brokers_in_flight_dispatches(&net_brokers) == 0);
    net_silent(0);
}

Test(messages, what_a_slot_has_finished_is_sent_and_given_back)
{
    net_submit(0, 1, 1, 0);
    take();
    struct reply *reply = net_reply(1, 10);
    reply->link = link;
    reply->finished = taken(1);
    outbox_push(net_serve.outbox, reply);
    cr_assert(serve_turn(&net_serve, net_now_us) && !serve_turn(&net_serve, net_now_us));
    net_answered(0, 1, PEN_OK, "");
    cr_assert(link->in_flight.dispatches == 0 && link->in_flight.jobs == 0 && link->in_flight.bytes == 0);
    cr_assert(net_serve.exclusive.in_slots == 0);
}

Test(messages, more_than_the_worker_may_hold_is_refused)
{
    net_submit(0, 1, 60, 0);
    net_submit(0, 101, 40, 0);
    take();
    cr_assert(link->in_flight.jobs == 100);
    net_submit(0, 200, 1, 0);
    take();
    net_answered(0, 200, PEN_ERR_BUSY, "this worker holds 100 jobs");
    cr_assert(atomic_load(&net_stats.jobs_failed) == 1 && link->in_flight.jobs == 100);
    taken(60);
    taken(40);
    cr_assert_null(handoff_poll(net_serve.handoff));
}

Test(messages, every_job_of_a_refused_dispatch_is_answered)
{
    link->in_flight.limit_jobs = 2;
    net_submit(0, 5, 3, 0);
    take();
    net_expect(0, FRAME_RESULT);
    cr_assert(net_got.count == 3);
    for (uint64_t i = 0; i < 3; i++) {
        struct envelope env;
        const uint8_t *meta;
        zmq_msg_t *frame = &net_got.frames[i];
        cr_assert(envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &env, &meta, NULL) == PEN_OK);
        cr_assert(env.job.sequence == 5 + i && env.status == PEN_ERR_BUSY);
    }
    cr_assert(atomic_load(&net_stats.jobs_failed) == 3 && link->in_flight.dispatches == 0);
    link->in_flight.limit_jobs = 3;
    net_submit(0, 5, 3, 0);
    take();
    finish(taken(3));
    net_log_clean();
}

Test(messages, a_malformed_dispatch_is_answered_by_its_first_job)
{
    struct envelope env = envelope_make(FRAME_SUBMIT);
    env.job = (struct job_id){.client = 1, .sequence = 4};
    env.frames = 2; /* and none follows */
    net_send(0, &env, NULL);
    take();
    net_answered(0, 4, PEN_ERR_CORRUPT, "announces 2 frames, 0 follow");
    cr_assert(atomic_load(&net_stats.messages_dropped) == 1 && link->in_flight.dispatches == 0);
}

Test(messages, what_cannot_be_read_is_dropped_and_the_connection_goes_on)
{
    net_send_bytes(0, "nonsense", 8);
    net_send_type(0, FRAME_CLIENT_HELLO);
    net_send_type(0, FRAME_PING);
    take();
    net_expect(0, FRAME_PONG);
    net_silent(0);
    cr_assert(atomic_load(&net_stats.messages_dropped) == 2 && link->state == LINK_SERVING);
}

/* ---- cancels -------------------------------------------------------------------------------------------------------------------- */

static void cancel(uint64_t sequence)
{
    struct envelope env = envelope_make(FRAME_CANCEL);
    env.job = (struct job_id){.client = 1, .sequence = sequence};
    net_send(0, &env, NULL);
    take();
}

Test(messages, a_job_that_waits_is_cancelled_at_once)
{
    net_submit(0, 1, 2, 0);
    take();
    net_now_us += 700;
    cancel(2);
    net_answered(0, 2, PEN_ERR_CANCELLED, "before it started");
    const Penstock__ResultMeta *meta = net_meta(&penstock__result_meta__descriptor);
    cr_assert(meta->worker_us == 700);
    struct dispatch *dispatch = taken(2);
    cr_assert(atomic_load(&dispatch->jobs[0].state) == JOB_WAITING);
    cr_assert(atomic_load(&dispatch->jobs[1].state) == JOB_ANSWERED);
    cr_assert(atomic_load(&net_stats.jobs_cancelled) == 1);
    cancel(2);
    cancel(3);
    net_silent(0);
    finish(dispatch);
}

Test(messages, a_job_that_runs_answers_for_itself)
{
    net_submit(0, 1, 1, 0);
    take();
    struct dispatch *dispatch = taken(1);
    atomic_store(&dispatch->jobs[0].state, JOB_RUNNING);
    cancel(1);
    net_silent(0);
    cr_assert(atomic_load(&dispatch->jobs[0].state) == JOB_RUNNING && atomic_load(&net_stats.jobs_cancelled) == 0);
    finish(dispatch);
}

/* ---- orders --------------------------------------------------------------------------------------------------------------------- */

static void order(const char *verb, const char *argument)
{
    Penstock__ControlRequest request = PENSTOCK__CONTROL_REQUEST__INIT;
    struct envelope env = envelope_make(FRAME_CONTROL);
    env.job = (struct job_id){.client = 1, .sequence = 1};
    request.serial = 31;
    request.verb = meta_text(verb);
    request.argument = meta_text(argument);
    net_send(0, &env, &request.base);
    take();
}

static void order_is(const char *verb, const char *argument, enum order_kind kind, const char *name, uint64_t version)
{
    struct order got;
    order(verb, argument);
    cr_assert(orders_take(net_serve.orders, &got), "%s %s", verb, argument);
    cr_assert(got.kind == kind && got.version == version && got.serial == 31 && got.link == 0);
    cr_assert_str_eq(got.name, name);
    orders_done(net_serve.orders, &got);
    cr_assert(orders_answer(net_serve.orders, &got));
}

static void order_refused(const char *verb, const char *argument, enum pen_status status)
{
    struct order got;
    order(verb, argument);
    cr_assert(!orders_take(net_serve.orders, &got), "%s %s", verb, argument);
    net_expect(0, FRAME_CONTROL_REPLY);
    const Penstock__ControlReply *reply = net_meta(&penstock__control_reply__descriptor);
    cr_assert(net_got.env.status == status && reply->serial == 31 && *reply->error, "%s %s: %s", verb, argument,
              reply->error);
}

Test(messages, orders_name_a_model_and_perhaps_a_version)
{
    order_is(order_name(ORDER_LOAD), "digits", ORDER_LOAD, "digits", 0);
    order_is(order_name(ORDER_UNLOAD), "digits:12", ORDER_UNLOAD, "digits", 12);
    order_is(order_name(ORDER_WARM), "a:b:3", ORDER_WARM, "a:b", 3);
}

Test(messages, orders_that_are_none_are_refused)
{
    char longest[CONFIG_NAME_BYTES_MAX + 2];
    memset(longest, 'm', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    order_refused("paint", "digits", PEN_ERR_UNSUPPORTED);
    static const char *const wrong[] = {"", ":1", ".hidden", "a/b", "a:0", "a:x", "a:1x", "a:"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        order_refused(order_name(ORDER_LOAD), wrong[i], PEN_ERR_INVALID);
    order_refused(order_name(ORDER_LOAD), longest, PEN_ERR_INVALID);
    longest[sizeof longest - 2] = '\0';
    order_is(order_name(ORDER_LOAD), longest, ORDER_LOAD, longest, 0);
}

Test(messages, too_many_orders_and_orders_in_a_drain_are_refused)
{
    for (size_t i = 0; i < ORDERS_MAX; i++)
        order(order_name(ORDER_LOAD), "digits");
    net_silent(0);
    order(order_name(ORDER_LOAD), "digits");
    net_expect(0, FRAME_CONTROL_REPLY);
    cr_assert(net_got.env.status == PEN_ERR_BUSY);
    struct order got;
    for (size_t i = 0; i < ORDERS_MAX; i++)
        cr_assert(orders_take(net_serve.orders, &got));
    net_serve.draining = true;
    order(order_name(ORDER_LOAD), "digits");
    net_expect(0, FRAME_CONTROL_REPLY);
    cr_assert(net_got.env.status == PEN_ERR_BUSY);
}

Test(messages, an_order_without_a_meta_is_dropped)
{
    struct envelope env = envelope_make(FRAME_CONTROL);
    uint8_t bytes[FRAME_ENVELOPE_BYTES + 2];
    env.job = (struct job_id){.client = 1, .sequence = 1};
    env.meta_bytes = 2;
    memset(envelope_encode(&env, bytes), 0xff, 2);
    net_send_bytes(0, bytes, sizeof bytes);
    take();
    net_silent(0);
    cr_assert(atomic_load(&net_stats.messages_dropped) == 1);
}

Test(messages, a_heartbeat_may_bring_a_log_level)
{
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    const struct envelope env = envelope_make(FRAME_HEARTBEAT);
    log_level_set(LOG_INFO);
    beat.log_level = meta_text("debug");
    net_send(0, &env, &beat.base);
    take();
    cr_assert(log_enabled(LOG_DEBUG));
    beat.log_level = meta_text("warn");
    net_send(0, &env, &beat.base);
    take();
    cr_assert(!log_enabled(LOG_INFO) && log_enabled(LOG_WARN));
    beat.log_level = meta_text("loud");
    net_send(0, &env, &beat.base);
    net_send_type(0, FRAME_HEARTBEAT);
    take();
    cr_assert(log_enabled(LOG_WARN) && atomic_load(&net_stats.messages_dropped) == 0);
}

/* ---- drain ------------------------------------------------------------------------------------------------------------------------ */

Test(messages, a_drain_ends_when_all_is_answered_and_read)
{
    net_options.drain_timeout_us = 60000000;
    net_submit(0, 1, 1, 0);
    net_send_type(0, FRAME_DRAIN);
    take();
    cr_assert(net_serve.draining && net_serve.drain_us == net_now_us);
    net_expect(0, FRAME_DRAIN);
    net_expect(0, FRAME_PING);
    cr_assert(drain_check(&net_serve, net_now_us) == -1, "a job is held");
    finish(taken(1));
    cr_assert(drain_check(&net_serve, net_now_us) == -1, "the broker has not read it");
    net_send_type(0, FRAME_PONG);
    take();
    cr_assert(drain_check(&net_serve, net_now_us) == WORKER_EXIT_OK && net_serve.drained);
    net_expect(0, FRAME_GOODBYE);
}

Test(messages, a_drain_does_not_wait_for_a_broker_that_says_nothing)
{
    net_options.drain_timeout_us = 60000000;
    cr_assert(drain_check(&net_serve, net_now_us) == -1, "nobody asked");
    drain_begin(&net_serve, net_now_us, "test");
    drain_begin(&net_serve, net_now_us + 5, "again");
    cr_assert(net_serve.drain_us == net_now_us, "only the first counts");
    net_now_us += 1000000;
    cr_assert(drain_check(&net_serve, net_now_us) == -1);
    net_now_us += 1;
    cr_assert(drain_check(&net_serve, net_now_us) == WORKER_EXIT_OK);
}

Test(messages, a_drain_gives_results_a_moment_to_be_sent)
{
    net_options.drain_timeout_us = 60000000;
    link_close(link, 0);
    link_reply(link, net_reply(1, 10));
    drain_begin(&net_serve, net_now_us, "test");
    cr_assert(drain_check(&net_serve, net_now_us + 1000000) == -1, "the broker may come back");
    cr_assert(drain_check(&net_serve, net_now_us + 1000001) == WORKER_EXIT_OK);
}

Test(messages, a_new_connection_in_a_drain_is_told)
{
    drain_begin(&net_serve, net_now_us, "test");
    net_expect(0, FRAME_DRAIN);
    net_expect(0, FRAME_PING);
    net_serve_link(0, 5);
    net_expect(0, FRAME_DRAIN);
    net_expect(0, FRAME_PING);
}
