/* Several brokers at once: who gets how much, who is whom, and what must run alone. */
#include "net_side.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

#include "deadline.h"

static struct link *first, *second;

static void setup(void)
{
    cr_redirect_stderr();
    net_open(2);
    first = &net_brokers.links[0];
    second = &net_brokers.links[1];
}

TestSuite(brokers, .init = setup, .fini = net_close);

static void both(void)
{
    net_serve_link(0, 5);
    net_serve_link(1, 6);
}

static void take(void)
{
    messages_receive(&net_serve, net_now_us);
}

/* A heartbeat to broker `i`, as it comes there. */
static const Penstock__Heartbeat *beat(size_t i)
{
    Penstock__Heartbeat message = PENSTOCK__HEARTBEAT__INIT;
    exclusive_fill(&net_serve.exclusive, &net_brokers.links[i], &message);
    brokers_beat(&net_brokers, &net_brokers.links[i], &message, net_now_us);
    net_expect(i, FRAME_HEARTBEAT);
    return net_meta(&penstock__heartbeat__descriptor);
}

/* As many as a list may have, each with something of its own. */
Test(brokers, each_of_a_whole_list_counts)
{
    static struct brokers full = {.count = ENDPOINTS_MAX, .slots = 1};
    int code = 0;
    for (size_t i = 0; i < ENDPOINTS_MAX; i++) {
        full.links[i] = (struct link){.context = &net_brokers.context, .state = LINK_REFUSED, .exit_code = 40 + (int)i};
        full.links[i].broker_uuid = i + 1;
        full.links[i].hello_us = net_now_us + 1000 * (ENDPOINTS_MAX - i);
        full.links[i].in_flight = (struct in_flight){.jobs = i + 1, .dispatches = 1};
    }
    cr_expect(brokers_refused(&full, &code) && code == 40);
    cr_expect_not(brokers_serving(&full));
    cr_expect_eq(brokers_in_flight_jobs(&full), ENDPOINTS_MAX * (ENDPOINTS_MAX + 1) / 2);
    cr_expect_eq(brokers_in_flight_dispatches(&full), ENDPOINTS_MAX);
    cr_expect_eq(brokers_next_us(&full), net_now_us + 1000 + 1000000, "the last one's hello");
    full.links[ENDPOINTS_MAX - 1].state = LINK_SERVING;
    cr_expect_not(brokers_refused(&full, &code));
    cr_expect(brokers_serving(&full));
    brokers_welcomed(&full, &full.links[ENDPOINTS_MAX - 1], net_now_us);
    cr_expect_eq(full.links[ENDPOINTS_MAX - 1].state, LINK_SERVING, "nobody else is that broker");
    full.links[ENDPOINTS_MAX - 1].beat_us = net_now_us;
    full.links[ENDPOINTS_MAX - 1].heartbeat_us = 4000000;
    full.links[ENDPOINTS_MAX - 1].credit_told = 2;
    cr_expect_not(brokers_beat_due(&full, &full.links[ENDPOINTS_MAX - 1], net_now_us + 2999999));
    cr_expect(brokers_beat_due(&full, &full.links[ENDPOINTS_MAX - 1], net_now_us + 3000000));
    full.count = 0;
    cr_expect_not(brokers_refused(&full, &code), "there are none");
    cr_expect_eq(brokers_next_us(&full), DEADLINE_NONE);
}

static void finish(struct link *link)
{
    struct dispatch *dispatch = handoff_poll(net_serve.handoff);
    cr_assert(dispatch && dispatch->link == link);
    exclusive_finished(&net_serve.exclusive, dispatch);
    in_flight_remove(&link->in_flight, dispatch);
    dispatch_free(dispatch);
}

Test(brokers, the_same_broker_twice_is_served_once)
{
    net_serve_link(0, 5);
    net_now_us += 100000;
    cr_assert(link_connect(second, net_now_us, &one_slot_error) == PEN_OK);
    net_expect(1, FRAME_WORKER_HELLO);
    net_welcome(1, 5, PEN_OK, "");
    take();
    cr_assert(second->state == LINK_CLOSED && second->parked_until_us == net_now_us + 300000000);
    net_expect(0, FRAME_WORKER_HELLO);
    cr_assert(first->state == LINK_HELLO && first->hellos == 2, "the older connection says hello again");
    net_welcome(0, 5, PEN_OK, "");
    take();
    cr_assert(first->state == LINK_SERVING && brokers_serving(&net_brokers));
}

Test(brokers, credit_is_shared_while_another_broker_has_work_here)
{
    both();
    cr_assert(beat(0)->credit == 2 && beat(1)->credit == 2);
    net_submit(1, 1, 1, 0);
    take();
    cr_assert(brokers_beat_due(&net_brokers, first, net_now_us + 50000), "news do not wait");
    cr_assert(!brokers_beat_due(&net_brokers, first, net_now_us + 49999));
    cr_assert(!brokers_beat_due(&net_brokers, second, net_now_us + 299999));
    cr_assert(brokers_beat_due(&net_brokers, second, net_now_us + 300000));
    cr_assert(beat(0)->credit == 1 && beat(1)->credit == 2, "who has the work alone keeps all of it");
    cr_assert(!brokers_beat_due(&net_brokers, first, net_now_us + 50000), "it was told");
    finish(second);
    net_now_us += 50000 + 999999; /* since it was last looked at */
    cr_assert(beat(0)->credit == 1, "for a second after the last job");
    net_now_us += 1;
    cr_assert(beat(0)->credit == 2);
}

Test(brokers, a_broker_that_is_not_connected_takes_no_credit)
{
    both();
    net_submit(1, 1, 1, 0);
    take();
    link_close(second, 0);
    cr_assert(beat(0)->credit == 2);
    cr_assert(!brokers_beat_due(&net_brokers, second, net_now_us + 10000000));
    finish(second);
}

Test(brokers, heartbeats_tell_the_work_for_others)
{
    both();
    net_brokers.slots = 2;
    net_submit(1, 1, 6, 0);
    net_submit(0, 7, 3, 0);
    take();
    cr_assert(beat(0)->elsewhere_us == 0, "no job has been measured");
    atomic_store(&net_stats.jobs_done, 3);
    atomic_store(&net_stats.compute_us, 3000);
    cr_assert(beat(0)->elsewhere_us == 0, "three are too few for a mean");
    atomic_store(&net_stats.jobs_done, 4);
    atomic_store(&net_stats.compute_us, 4000);
    cr_assert(beat(0)->elsewhere_us == 6 * 1000 / 2);
    cr_assert(beat(1)->elsewhere_us == 3 * 1000 / 2);
    atomic_store(&net_stats.jobs_done, 8);
    atomic_store(&net_stats.compute_us, 16000);
    cr_assert(beat(1)->elsewhere_us == 3 * 2000 / 2, "half of the old mean and half of the new one");
    cr_assert(brokers_in_flight_jobs(&net_brokers) == 9 && brokers_in_flight_dispatches(&net_brokers) == 2);
    finish(first);
    finish(second);
}

Test(brokers, the_next_event_is_the_earliest_of_all_links)
{
    both();
    net_now_us += 10000;
    beat(0);
    cr_assert(brokers_next_us(&net_brokers) == second->beat_us + 300000);
    cr_assert(link_next_us(first) == net_now_us + 300000);
    first->liveness_us = 1000;
    cr_assert(brokers_next_us(&net_brokers) == first->received_us + 1000);
}

Test(brokers, the_worker_is_refused_when_all_refuse_it)
{
    int code = 77;
    both();
    cr_assert(!brokers_refused(&net_brokers, &code));
    first->state = LINK_REFUSED;
    first->exit_code = WORKER_EXIT_VERSION;
    cr_assert(!brokers_refused(&net_brokers, &code) && brokers_serving(&net_brokers));
    second->state = LINK_REFUSED;
    second->exit_code = WORKER_EXIT_REFUSED;
    cr_assert(brokers_refused(&net_brokers, &code) && code == WORKER_EXIT_VERSION && !brokers_serving(&net_brokers));
}

/* ---- alone ----------------------------------------------------------------------------------------------------------------------- */

static bool step(void)
{
    return exclusive_step(&net_serve.exclusive, net_serve.handoff, &net_brokers, net_now_us);
}

/* As serve.c does when a step asks for it. */
static void tell_all(void)
{
    const Penstock__Heartbeat *told = beat(0);
    cr_assert(told->alone && told->alone->sequence == 2 && !told->paused);
    told = beat(1);
    cr_assert(!told->alone && told->paused);
    exclusive_told(&net_serve.exclusive, &net_brokers, net_now_us);
    net_expect(0, FRAME_PING);
    net_expect(1, FRAME_PING);
}

static void pong(size_t i)
{
    net_send_type(i, FRAME_PONG);
    take();
}

Test(brokers, a_suspect_runs_when_all_know_that_it_is_alone)
{
    both();
    net_submit(1, 1, 1, 0);
    take();
    net_submit(0, 2, 1, FRAME_FLAG_ALONE);
    take();
    net_submit(1, 3, 1, 0);
    take();
    cr_assert(handoff_length(net_serve.handoff) == 1, "the slots have what came before");
    cr_assert(!step() && net_serve.exclusive.stage == EXCLUSIVE_DRAINING);
    finish(second);
    cr_assert(step() && net_serve.exclusive.stage == EXCLUSIVE_TELLING);
    tell_all();
    pong(0);
    cr_assert(!step() && handoff_length(net_serve.handoff) == 0, "one broker does not know yet");
    pong(1);
    cr_assert(!step() && net_serve.exclusive.stage == EXCLUSIVE_RUNNING);
    finish(first);
    cr_assert(step() && net_serve.exclusive.stage == EXCLUSIVE_OVER && handoff_length(net_serve.handoff) == 0);
    exclusive_told(&net_serve.exclusive, &net_brokers, net_now_us);
    pong(0);
    cr_assert(!step() && handoff_length(net_serve.handoff) == 0, "not all know that it is over");
    pong(1);
    cr_assert(!step() && net_serve.exclusive.stage == EXCLUSIVE_NONE);
    finish(second);
    cr_assert(!net_serve.exclusive.first && !net_serve.exclusive.last && net_serve.exclusive.in_slots == 0);
}

Test(brokers, a_broker_without_an_answer_is_waited_for_a_second)
{
    both();
    net_submit(0, 2, 1, FRAME_FLAG_ALONE);
    take();
    net_submit(1, 3, 1, FRAME_FLAG_ALONE);
    take();
    cr_assert(step());
    tell_all();
    net_now_us += 999999;
    cr_assert(!step() && net_serve.exclusive.stage == EXCLUSIVE_TELLING);
    net_now_us += 1;
    cr_assert(!step() && net_serve.exclusive.stage == EXCLUSIVE_RUNNING);
    finish(first);
    cr_assert(step());
    exclusive_told(&net_serve.exclusive, &net_brokers, net_now_us);
    link_close(first, 0);
    link_close(second, 0);
    cr_assert(step() && net_serve.exclusive.stage == EXCLUSIVE_TELLING,
              "who is gone knows nothing; the next suspect is next");
    cr_assert(net_serve.exclusive.one->link == second);
}

/* ---- changes of models ---------------------------------------------------------------------------------------------------------- */

static struct hello *another_hello(void)
{
    struct hello *hello = NULL;
    const struct hello_facts facts = {.catalog = &one_slot_catalog,
                                      .engine = one_slot_engine,
                                      .options = &net_options,
                                      .identity = net_serve.identity,
                                      .host = "host",
                                      .uuid = 78,
                                      .slots = 1};
    cr_assert(hello_new(&facts, &hello, &one_slot_error) == PEN_OK);
    return hello;
}

Test(brokers, a_new_hello_is_said_where_no_welcome_has_come)
{
    net_serve_link(0, 5);
    cr_assert(link_connect(second, net_now_us, &one_slot_error) == PEN_OK);
    net_expect(1, FRAME_WORKER_HELLO);
    brokers_hello_replace(&net_brokers, another_hello(), net_now_us);
    net_silent(0);
    net_expect(1, FRAME_WORKER_HELLO);
    const Penstock__WorkerHello *hello = net_meta(&penstock__worker_hello__descriptor);
    cr_assert(hello->uuid == 78);
}
