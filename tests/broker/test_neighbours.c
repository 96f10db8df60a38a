/*
 * Brokers that know each other, on two desks: who is busy and who gets a client, what is said between them, and the steps of a job that is handed over. tests/sim
 * kills them at each of these steps.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "client_handler.h"
#include "desk.h"
#include "explain.h"
#include "folder.h"
#include "keyring.h"
#include "neighbour_talk.h"
#include "session.h"

#define ALICE    0xA11CEu
#define OTHER    77u /* the first desk's peer number at the second one */
#define WORKER   901
#define LIVENESS 2000000u

static const struct wire_model plain = {.name = "plain",
                                        .version = 1,
                                        .backend = "xnnpack",
                                        .precision = PRECISION_F32,
                                        .warm_us = 1000000,
                                        .digest = 1,
                                        .max_batch = 1,
                                        .dim = -1};
static const struct wire_worker one = {.uuid = 1, .name = "one", .slots = 1, .models = &plain, .models_count = 1};

/* ---- rules ---- */

static struct neighbours rules;

static void pool_of_three(void)
{
    rules = (struct neighbours){.count = 2};
    for (uint32_t i = 0; i < 2; i++)
        rules.all[i] = (struct neighbour){.uuid = i + 1, .heard_us = 1};
}

static int sent_to(uint64_t clients, uint64_t now_us)
{
    const struct neighbour *to = neighbours_for_client(&rules, clients, now_us, LIVENESS);
    return to ? (int)(to - rules.all) : -1;
}

Test(neighbours, a_broker_is_busy_from_its_limit_on_until_a_quarter_is_gone, .init = pool_of_three)
{
    neighbours_measure(&rules, 99, 0, 100, 0);
    cr_expect_not(rules.busy);
    neighbours_measure(&rules, 100, 0, 100, 0);
    cr_expect(rules.busy);
    neighbours_measure(&rules, 75, 0, 100, 0);
    cr_expect(rules.busy, "not at once");
    neighbours_measure(&rules, 74, 0, 100, 0);
    cr_expect_not(rules.busy);
    neighbours_measure(&rules, 0, 7, 100, 7);
    cr_expect(rules.busy, "by its clients");
    cr_expect_eq(rules.load, 1000);
    neighbours_measure(&rules, 5000000, 60000, 0, 0);
    cr_expect_not(rules.busy, "without a limit nobody is busy");
    cr_expect_gt(rules.load, 1000, "and yet has a load to compare");
}

Test(neighbours, a_client_goes_to_the_least_busy_one_that_is_there, .init = pool_of_three)
{
    neighbours_measure(&rules, 200, 0, 100, 0);
    rules.all[0].load = 900;
    rules.all[1].load = 500;
    cr_expect_eq(sent_to(100, 2), 1);
    rules.all[1].draining = true;
    cr_expect_eq(sent_to(100, 2), 0);
    rules.all[0].busy = true;
    cr_expect_eq(sent_to(100, 2), -1, "who is busy gets none");
    rules.all[1].draining = false;
    cr_expect_eq(sent_to(100, LIVENESS + 1), -1, "who is silent is not there");
    rules.busy = false;
    cr_expect_eq(sent_to(100, 2), -1, "who is not busy keeps its clients");
}

Test(neighbours, who_has_nearly_as_much_gets_none, .init = pool_of_three)
{
    neighbours_measure(&rules, 110, 0, 100, 0);
    rules.all[0].load = rules.all[1].load = 900;
    cr_expect_eq(sent_to(100, 2), -1);
    rules.all[0].load = 850;
    cr_expect_eq(sent_to(100, 2), 0);
}

/* What is known of a neighbour is a moment old: a flood of clients does not all go to one. */
Test(neighbours, clients_that_were_sent_count_until_their_broker_says_its_load_anew, .init = pool_of_three)
{
    int sent[3] = {0};
    neighbours_measure(&rules, 0, 200, 0, 100); /* 10 thousandths a client */
    rules.all[1].load = 400;
    for (int i = 0; i < 500; i++)
        sent[sent_to(200, 2) + 1]++;
    cr_expect(sent[1] > sent[2] && sent[2] > 0, "%d and %d", sent[1], sent[2]);
    cr_expect_gt(sent[0], 0, "when both have as much the rest stays");
    cr_expect_lt(rules.all[0].sent + rules.all[1].sent, 400u);
}

/* A client of many weighs less than a thousandth. */
Test(neighbours, a_small_share_is_not_counted_as_a_large_one, .init = pool_of_three)
{
    int sent = 0;
    neighbours_measure(&rules, 0, 20000, 0, 10000);
    while (sent < 20000 && sent_to(20000, 2) >= 0)
        sent++;
    cr_expect(sent > 30000 / 2 && sent <= 20000, "%d: until both have 1750 of our 2000 thousandths", sent);
}

/* ---- two brokers ---- */

static struct desk *here, *there;
static struct dealer *link_of(void)
{
    return &here->broker.neighbours.all[0].dealer;
}

static bool cut;
static const char *link_key; /* of the first broker, as the second one's connection says it */

static bool link_send(struct dealer *dealer, zmq_msg_t *frames, size_t count)
{
    struct message message = {.peer = OTHER, .user = link_key};
    (void)dealer;
    for (size_t i = 0; i < count; i++) {
        if (cut)
            zmq_msg_close(&frames[i]);
        else
            cr_assert_eq(message_add(&message, &frames[i]), PEN_OK);
    }
    if (!cut)
        client_message(&there->broker, &message);
    message_fini(&message);
    return !cut;
}

/* What the other broker has said to us; what it has said to clients stays. */
static bool link_receive(struct dealer *dealer, struct message *message)
{
    static const enum frame_type types[] = {FRAME_RESUME, FRAME_NEIGHBOUR, FRAME_HANDED};
    (void)dealer;
    message_clear(message);
    for (size_t i = 0; i < 3 && message->count == 0; i++) {
        struct sent *sent = desk_pending(&there->clients, types[i]) ? desk_next(&there->clients, types[i]) : NULL;
        zmq_msg_t frame;
        if (!sent)
            continue;
        zmq_msg_init(&frame);
        zmq_msg_copy(&frame, &sent->frames[0]);
        cr_assert_eq(message_add(message, &frame), PEN_OK);
    }
    return message->count > 0;
}

static bool nobody_send(struct dealer *dealer, zmq_msg_t *frames, size_t count)
{
    (void)dealer;
    for (size_t i = 0; i < count; i++)
        zmq_msg_close(&frames[i]);
    return false;
}

static bool nobody_receive(struct dealer *dealer, struct message *message)
{
    (void)dealer;
    (void)message;
    return false;
}

static void hello(struct desk *desk, uint32_t peer, bool follows, uint32_t followed)
{
    uint8_t meta[256];
    size_t bytes = follows ? wire_client_hello_follows(meta, ALICE + peer - 1, NULL, false, followed)
                           : wire_client_hello(meta, ALICE + peer - 1, NULL, 0);
    desk_say_client(desk, peer, envelope_make(FRAME_CLIENT_HELLO), meta, bytes, 0);
}

/* Where the next message of that type sends its reader; "" = nowhere. */
static const char *redirect_of(struct desk *desk, enum frame_type type)
{
    static char text[64];
    const struct sent *sent = desk_next(&desk->clients, type);
    cr_assert(sent, "no %s", frame_type_name((uint8_t)type));
    Penstock__Welcome *welcome =
        type == FRAME_WELCOME ? penstock__welcome__unpack(NULL, sent->env.meta_bytes, sent->meta) : NULL;
    Penstock__Resume *resume =
        type == FRAME_RESUME ? penstock__resume__unpack(NULL, sent->env.meta_bytes, sent->meta) : NULL;
    size_t count = welcome ? welcome->n_redirect : resume->n_redirect;
    snprintf(text, sizeof text, "%s", count ? (welcome ? welcome->redirect[0] : resume->redirect[0]) : "");
    if (welcome)
        penstock__welcome__free_unpacked(welcome, NULL);
    if (resume)
        penstock__resume__free_unpacked(resume, NULL);
    return text;
}

static void begin(void)
{
    here = desk_new();
    there = desk_new();
    here->options.busy_clients = 1;
    here->options.restart_wait_us = there->options.restart_wait_us = 0;
    desk_open(here);
    desk_open(there);
    here->broker.neighbours.count = 1;
    snprintf(here->broker.neighbours.all[0].endpoint, 64, "tcp://there:1");
    *link_of() = (struct dealer){.send = link_send, .receive = link_receive};
    there->broker.neighbours.count = 1;
    there->broker.neighbours.all[0].dealer = (struct dealer){.send = nobody_send, .receive = nobody_receive};
    desk_worker(here, WORKER, &one);
    desk_worker(there, WORKER, &one);
    desk_wait(here, 300000); /* a beat */
    neighbours_read(&here->broker);
}

static void end(void)
{
    desk_free(here);
    desk_free(there);
}

TestSuite(two_brokers, .init = begin, .fini = end);

Test(two_brokers, they_hear_of_each_other)
{
    const struct neighbour *neighbour = &here->broker.neighbours.all[0];
    cr_expect_eq(neighbour->uuid, there->broker.uuid);
    cr_expect(neighbours_guest(&there->broker.neighbours, OTHER));
    desk_wait(here, 300000);
    cr_expect_eq(here->broker.stats.neighbours, 1);
}

Test(two_brokers, a_client_that_comes_anew_to_the_busy_one_is_sent_to_the_other)
{
    hello(here, 1, true, 0);
    cr_expect_str_eq(redirect_of(here, FRAME_WELCOME), "tcp://there:1");
    hello(here, 1, true, 0);
    cr_expect_str_eq(redirect_of(here, FRAME_WELCOME), "", "it is not new any more");
    hello(here, 2, true, 1);
    cr_expect_str_eq(redirect_of(here, FRAME_WELCOME), "", "it was sent here");
    hello(here, 3, false, 0);
    cr_expect_str_eq(redirect_of(here, FRAME_WELCOME), "", "it follows nobody");
    cr_expect_eq(here->broker.stats.clients_redirected, 1);
}

#define JOBS 6u
static uint64_t running; /* of them; they are the first ones */

/* Jobs of one client: the first run, the others wait. */
static void six_jobs(void)
{
    hello(here, 1, true, 1);
    for (uint64_t i = 1; i <= JOBS; i++)
        desk_submit(here, 1,
                    &(struct wire_job){.id = {ALICE, i},
                                       .model = "plain",
                                       .fill = (uint8_t)i,
                                       .no_digest = true,
                                       .dims = {1, 4000},
                                       .raw = i == JOBS});
    running = desk_pending(&here->workers, FRAME_SUBMIT);
    cr_assert(here->broker.live == JOBS && running > 0 && running + 2 <= JOBS, "%lu of %lu run", (unsigned long)running,
              (unsigned long)here->broker.live);
}

static void drain(void)
{
    broker_drain(&here->broker);
    desk_run(here);
    neighbours_read(&here->broker);
    desk_run(here);
}

Test(two_brokers, what_waits_is_handed_over_and_what_runs_stays)
{
    six_jobs();
    drain();
    cr_expect_eq(here->broker.stats.jobs_handed, JOBS - running);
    cr_expect_eq(there->broker.stats.jobs_taken_over, JOBS - running);
    cr_expect_eq(here->broker.live, running);
    cr_expect_eq(there->broker.live, JOBS - running);
    cr_expect_null(desk_next(&here->clients, FRAME_RESULT), "nobody is answered for that");
    for (uint64_t i = 1; i <= running; i++) {
        desk_result(here, WORKER, (struct job_id){ALICE, i}, 0, 9);
        cr_expect_not_null(desk_next(&here->clients, FRAME_RESULT));
    }
    desk_wait(here, 20000);
    cr_expect_str_eq(redirect_of(here, FRAME_RESUME), "tcp://there:1", "nothing is left here");
    cr_expect(broker_drained(&here->broker));
    cr_expect_eq(here->broker.stats.jobs_failed, 0);
}

Test(two_brokers, the_client_joins_its_job_at_the_other_one)
{
    uint8_t meta[256];
    six_jobs();
    drain();
    desk_say_client(there, 8, envelope_make(FRAME_CLIENT_HELLO), meta,
                    wire_client_hello_follows(meta, ALICE, NULL, false, 1), 0);
    desk_submit(there, 8,
                &(struct wire_job){.id = {ALICE, 2},
                                   .model = "plain",
                                   .fill = 2,
                                   .no_digest = true,
                                   .dims = {1, 4000},
                                   .flags = FRAME_FLAG_RESENT});
    cr_expect_eq(there->broker.live, JOBS - running, "it is one job");
    for (uint64_t i = running + 1; i <= JOBS; i++)
        desk_result(there, WORKER, (struct job_id){ALICE, i}, 0, 4);
    for (uint64_t i = running + 1; i <= JOBS; i++) {
        const struct sent *sent = desk_next(&there->clients, FRAME_RESULT);
        cr_assert(sent && sent->peer == 8 && sent->env.job.sequence == i && sent->env.status == PEN_OK);
    }
    cr_expect_null(desk_next(&there->clients, FRAME_RESULT), "one answer each");
}

Test(two_brokers, a_client_that_stays_on_is_told_after_a_moment_though_a_job_of_its_runs)
{
    six_jobs();
    drain();
    desk_wait(here, 100000);
    cr_expect_eq(desk_pending(&here->clients, FRAME_RESUME), 0);
    desk_wait(here, 100000);
    cr_expect_str_eq(redirect_of(here, FRAME_RESUME), "tcp://there:1");
    desk_wait(here, 100000);
    cr_expect_eq(desk_pending(&here->clients, FRAME_RESUME), 0, "once");
}

Test(two_brokers, what_the_other_refuses_waits_here_again)
{
    six_jobs();
    there->broker.drain_refuse_us = 0; /* it takes no new jobs */
    drain();
    cr_expect_eq(here->broker.stats.jobs_handed, 0);
    cr_expect_eq(here->broker.live, JOBS);
    cr_expect_eq(here->broker.neighbours.handover.count, 0);
    desk_wait(here, 400000);
    cr_expect_eq(desk_pending(&here->clients, FRAME_RESUME), 0, "its client stays with them");
    for (uint64_t i = 1; i <= JOBS; i++) {
        desk_result(here, WORKER, (struct job_id){ALICE, i}, 0, (uint8_t)i);
        cr_expect_not_null(desk_next(&here->clients, FRAME_RESULT), "job %d", (int)i);
    }
}

Test(two_brokers, what_the_other_does_not_answer_waits_here_again)
{
    six_jobs();
    broker_drain(&here->broker);
    desk_run(here);
    cr_expect_eq(here->broker.neighbours.handover.count, JOBS - running, "offered");
    cut = true;
    desk_wait(here, LIVENESS + 300000);
    cr_expect_eq(here->broker.neighbours.handover.count, 0);
    cr_expect_eq(here->broker.live, JOBS);
    cut = false;
}

Test(two_brokers, a_job_that_was_offered_can_be_cancelled)
{
    six_jobs();
    broker_drain(&here->broker);
    desk_run(here);
    desk_cancel(here, 1, (struct job_id){ALICE, JOBS});
    const struct sent *sent = desk_next(&here->clients, FRAME_RESULT);
    cr_assert(sent && sent->env.status == PEN_ERR_CANCELLED);
    neighbours_read(&here->broker); /* the word about it comes too late */
    cr_expect_eq(here->broker.stats.jobs_handed, JOBS - running - 1);
    cr_expect_eq(here->broker.live, running);
}

Test(two_brokers, jobs_of_a_client_that_does_not_follow_stay)
{
    hello(here, 1, false, 0);
    for (uint64_t i = 1; i <= 2; i++)
        desk_submit(here, 1, &(struct wire_job){.id = {ALICE, i}, .model = "plain", .no_digest = true});
    drain();
    desk_wait(here, 400000);
    cr_expect_eq(here->broker.live, 2);
    cr_expect_eq(there->broker.live, 0);
    cr_expect_eq(desk_pending(&here->clients, FRAME_RESUME), 0);
}

Test(two_brokers, a_job_in_anothers_name_is_taken_only_from_a_broker)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw_bytes;
    struct wire_job job = {.id = {ALICE, 1}, .model = "plain", .no_digest = true};
    size_t bytes = wire_job(meta, &job, &raw_bytes);
    desk_say_client(there, 50, wire_job_envelope(&job), meta, bytes, 0);
    cr_expect_not_null(desk_next(&there->clients, FRAME_RESUME), "who are you?");
    desk_say_client(there, OTHER, wire_job_envelope(&job), meta, bytes, 0);
    const struct sent *sent = desk_next(&there->clients, FRAME_HANDED);
    cr_assert(sent);
    cr_expect_eq(sent->env.status, PEN_ERR_INVALID, "it does not say whose job it is");
    cr_expect_eq(there->broker.live, 0);
}

Test(two_brokers, a_client_that_never_comes_leaves_nothing_behind)
{
    six_jobs();
    drain();
    desk_wait(there, 6000000); /* the grace window of what was handed over */
    cr_expect_eq(there->broker.live, 0);
    cr_expect_eq(there->broker.sessions.count, 0);
}

/* ---- a job that is not offered, or not again ---- */

Test(two_brokers, a_frame_that_would_end_the_connection_is_not_offered)
{
    six_jobs();
    here->options.max_frame_bytes = 3999; /* the last job has a raw frame of 4000 bytes */
    drain();
    cr_expect_eq(here->broker.stats.jobs_handed, JOBS - running - 1);
    cr_expect_eq(here->broker.live, running + 1, "the large one stays");
}

Test(two_brokers, a_client_whose_job_was_refused_keeps_the_others_here)
{
    here->options.drain_delay_us = 60000000;
    six_jobs();
    there->broker.drain_refuse_us = 0;
    drain();
    cr_expect_eq(here->broker.live, JOBS);
    there->broker.drain_refuse_us = UINT64_MAX;
    desk_submit(here, 1, &(struct wire_job){.id = {ALICE, JOBS + 1}, .model = "plain", .no_digest = true});
    desk_wait(here, 100000);
    neighbours_read(&here->broker);
    cr_expect_eq(here->broker.stats.jobs_handed, 0, "its answer would wait there for a client that is here");
    cr_expect_eq(here->broker.live, JOBS + 1);
}

/* ---- many ---- */

Test(two_brokers, clients_are_sent_away_in_portions)
{
    const uint32_t clients = 600;
    for (uint32_t i = 1; i <= clients; i++)
        hello(here, i, true, 1);
    broker_drain(&here->broker);
    desk_run(here);
    size_t first = desk_pending(&here->clients, FRAME_RESUME);
    cr_expect(first > 0 && first <= 256, "%zu in one turn", first);
    cr_expect_not(broker_drained(&here->broker), "some have yet to be told");
    desk_wait(here, 100000);
    cr_expect_eq(desk_pending(&here->clients, FRAME_RESUME), clients);
    cr_expect(broker_drained(&here->broker));
}

/* Clients of jobs that were taken over have yet to come. A search by peer must not walk through all of them. */
Test(two_brokers, clients_that_have_yet_to_come_are_no_row_to_search)
{
    const struct table *table = &there->broker.sessions.by_peer;
    size_t same = 0;
    for (uint64_t i = 1; i <= 1000; i++)
        session_new(&there->broker.sessions, i)->grace_us = 1;
    for (struct table_node *node = table_first(table, table_hash(table, 0, 0)); node; node = table_next(table, node))
        same++;
    cr_expect_leq(same, 1);
}

/* ---- who is no neighbour ---- */

Test(two_brokers, a_broker_without_the_setting_is_nobodys_neighbour)
{
    there->broker.neighbours.count = 0;
    desk_say_client(there, 60, envelope_make(FRAME_NEIGHBOUR), NULL, 0, 0);
    const struct sent *sent = desk_next(&there->clients, FRAME_NEIGHBOUR);
    cr_assert(sent);
    cr_expect_eq(sent->env.status, PEN_ERR_UNSUPPORTED);
    cr_expect_not(neighbours_guest(&there->broker.neighbours, 60));
}

static uint32_t heard[FRAME_TYPE_COUNT];
static uint32_t old_answers;

/* Answers PING of whom it does not know, as brokers of 1.2 do, and takes anything else for broken. */
static bool old_send(struct dealer *dealer, zmq_msg_t *frames, size_t count)
{
    struct envelope env;
    const uint8_t *meta;
    cr_assert_eq(envelope_decode(zmq_msg_data(&frames[0]), zmq_msg_size(&frames[0]), &env, &meta, NULL), PEN_OK);
    heard[env.type]++;
    old_answers += env.type == FRAME_PING;
    nobody_send(dealer, frames, count);
    return true;
}

static bool old_receive(struct dealer *dealer, struct message *message)
{
    struct envelope env = envelope_make(FRAME_RESUME);
    zmq_msg_t frame;
    (void)dealer;
    message_clear(message);
    if (old_answers == 0)
        return false;
    old_answers--;
    zmq_msg_init_size(&frame, FRAME_ENVELOPE_BYTES);
    envelope_encode(&env, zmq_msg_data(&frame));
    ((uint8_t *)zmq_msg_data(&frame))[3] = 2; /* the minor version */
    return message_add(message, &frame) == PEN_OK;
}

Test(two_brokers, a_broker_of_an_older_version_hears_nothing_that_it_does_not_know)
{
    desk_wait(here, LIVENESS + 300000); /* the new one that was there is gone */
    memset(heard, 0, sizeof heard);
    *link_of() = (struct dealer){.send = old_send, .receive = old_receive};
    for (int i = 0; i < 20; i++) {
        desk_wait(here, 300000);
        neighbours_read(&here->broker);
    }
    cr_expect_gt(heard[FRAME_PING], 10);
    cr_expect_eq(heard[FRAME_NEIGHBOUR], 0);
    *link_of() = (struct dealer){.send = link_send, .receive = link_receive};
    desk_wait(here, 300000);
    neighbours_read(&here->broker);
    cr_expect_eq(here->broker.neighbours.all[0].heard_us, here->broker.now_us,
                 "a newer one in its place is heard at once");
}

/* ---- jobs that come back, or end while they are away ---- */

Test(two_brokers, a_job_that_comes_back_keeps_its_place)
{
    struct wire_job urgent = {
        .id = {ALICE, JOBS + 1}, .model = "plain", .no_digest = true, .dims = {1, 4000}, .priority = 1, .flags = 0};
    here->options.drain_delay_us = 60000000;
    six_jobs();
    there->broker.drain_refuse_us = 0; /* it takes no new jobs */
    drain();
    cr_assert_eq(here->broker.live, JOBS);
    desk_submit(here, 1, &urgent);
    while (desk_next(&here->workers, FRAME_SUBMIT))
        ;
    desk_result(here, WORKER, (struct job_id){ALICE, 1}, 0, 9);
    const struct sent *sent = desk_next(&here->workers, FRAME_SUBMIT);
    cr_assert(sent);
    cr_expect_eq(sent->env.job.sequence, JOBS + 1, "the urgent one goes first, not job %d",
                 (int)sent->env.job.sequence);
}

Test(two_brokers, what_is_cancelled_while_it_is_offered_is_computed_nowhere)
{
    six_jobs();
    broker_drain(&here->broker);
    desk_run(here);
    cr_assert_eq(there->broker.live, JOBS - running);
    desk_cancel(here, 1, (struct job_id){ALICE, JOBS});
    cr_expect_eq(there->broker.live, JOBS - running - 1);
}

Test(two_brokers, what_is_cancelled_after_it_was_handed_over_is_computed_nowhere)
{
    six_jobs();
    drain();
    desk_cancel(here, 1, (struct job_id){ALICE, JOBS});
    cr_expect_eq(there->broker.live, JOBS - running - 1);
}

Test(two_brokers, a_cancel_of_the_old_broker_does_not_reach_a_client_that_has_come)
{
    uint8_t meta[256];
    six_jobs();
    broker_drain(&here->broker);
    desk_run(here);
    desk_say_client(there, 8, envelope_make(FRAME_CLIENT_HELLO), meta,
                    wire_client_hello_follows(meta, ALICE, NULL, false, 1), 0);
    desk_cancel(here, 1, (struct job_id){ALICE, JOBS});
    cr_expect_eq(there->broker.live, JOBS - running);
}

Test(two_brokers, a_job_that_expires_while_it_is_offered_is_computed_nowhere)
{
    hello(here, 1, true, 1);
    for (uint64_t i = 1; i <= JOBS; i++)
        desk_submit(here, 1,
                    &(struct wire_job){
                        .id = {ALICE, i}, .model = "plain", .no_digest = true, .deadline_us = i == JOBS ? 1000000 : 0});
    broker_drain(&here->broker);
    desk_run(here);
    uint64_t live = there->broker.live;
    cr_assert_gt(live, 0);
    desk_wait(here, 1100000);
    desk_wait(there, 1000);
    cr_expect_eq(there->broker.live, live - 1);
}

/* ---- clients that are awaited ---- */

Test(two_brokers, clients_that_have_yet_to_come_are_limited_in_number)
{
    six_jobs();
    there->broker.sessions.awaited = AWAITED_MAX;
    drain();
    cr_expect_eq(there->broker.live, 0);
    cr_expect_eq(here->broker.live, JOBS);
    cr_expect_eq(there->broker.sessions.count, 0);
    there->broker.sessions.awaited = 0;
}

Test(two_brokers, jobs_of_clients_that_have_yet_to_come_are_limited_in_bytes)
{
    uint8_t meta[256];
    six_jobs();
    there->options.queue_bytes = 2 * 9000; /* half of it for them: one job of 4000 bytes, but not the rest */
    drain();
    uint64_t taken = there->broker.stats.jobs_taken_over;
    cr_expect(taken > 0 && taken < JOBS - running, "%lu were taken over", (unsigned long)taken);
    cr_expect_eq(there->broker.sessions.awaited, 1);
    cr_expect_gt(there->broker.sessions.awaited_bytes, 4000);
    desk_say_client(there, 8, envelope_make(FRAME_CLIENT_HELLO), meta,
                    wire_client_hello_follows(meta, ALICE, NULL, false, 1), 0);
    cr_expect_eq(there->broker.sessions.awaited, 0, "it has come");
    cr_expect_eq(there->broker.sessions.awaited_bytes, 0);
}

Test(two_brokers, an_awaited_client_that_never_comes_is_not_counted_for_good)
{
    six_jobs();
    drain();
    cr_expect_eq(there->broker.sessions.awaited, 1);
    desk_wait(there, 6000000);
    cr_expect_eq(there->broker.sessions.awaited, 0);
    cr_expect_eq(there->broker.sessions.awaited_bytes, 0);
}

/* ---- keys: the other broker takes a job for a client of a key that may submit there, from a broker of a key that may administer ---- */

#define KEY_ALICE  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define KEY_BOB    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define KEY_BROKER "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"

static char keys_folder[FOLDER_PATH_BYTES];

static struct keyring *keyring_of(const char *name, const char *text)
{
    char path[FOLDER_PATH_BYTES + 16];
    struct keyring *keyring = NULL;
    struct pen_error error = {.status = PEN_OK};
    snprintf(path, sizeof path, "%s/%s", keys_folder, name);
    file_write(path, text, strlen(text));
    cr_assert_eq(keyring_new(path, &keyring, &error), PEN_OK, "%s", error.text);
    return keyring;
}

static void begin_keyed(void)
{
    folder_new(keys_folder);
    begin();
    link_key = KEY_BROKER;
}

static void end_keyed(void)
{
    struct keyring *rings[] = {here->broker.keyring, there->broker.keyring};
    end();
    keyring_free(rings[0]);
    keyring_free(rings[1]);
    folder_free(keys_folder);
}

TestSuite(keyed_brokers, .init = begin_keyed, .fini = end_keyed);

/* Alice's jobs are here; the other broker has this list of keys. */
static void jobs_of_alice(const char *keys_there)
{
    here->broker.keyring = keyring_of("here", KEY_ALICE " alice submit\n");
    here->user = KEY_ALICE;
    six_jobs();
    there->broker.keyring = keyring_of("there", keys_there);
}

static void nothing_is_taken(const char *why)
{
    drain();
    cr_expect_eq(here->broker.stats.jobs_handed, 0, "%s", why);
    cr_expect_eq(here->broker.live, JOBS, "%s", why);
    cr_expect_eq(there->broker.stats.jobs_taken_over, 0, "%s", why);
    cr_expect_eq(there->broker.live, 0, "%s", why);
}

Test(keyed_brokers, a_job_keeps_its_clients_key)
{
    jobs_of_alice(KEY_ALICE " alice submit\n" KEY_BROKER " first admin\n");
    drain();
    cr_expect_eq(there->broker.stats.jobs_taken_over, JOBS - running);
    struct session *session = session_find(&there->broker.sessions, ALICE);
    cr_assert_not_null(session);
    cr_expect_eq(session->identity, keyring_find(there->broker.keyring, KEY_ALICE));
    cr_expect_str_eq(session->tenant->name, "alice");
}

Test(keyed_brokers, a_key_that_may_not_submit_there_is_refused)
{
    jobs_of_alice(KEY_ALICE " alice observe\n" KEY_BROKER " first admin\n");
    nothing_is_taken("alice may only look");
}

Test(keyed_brokers, a_key_that_is_not_known_there_is_refused)
{
    jobs_of_alice(KEY_BOB " bob submit\n" KEY_BROKER " first admin\n");
    nothing_is_taken("who is alice?");
}

Test(keyed_brokers, a_client_without_a_key_is_refused)
{
    six_jobs();
    there->broker.keyring = keyring_of("there", KEY_ALICE " alice submit\n" KEY_BROKER " first admin\n");
    nothing_is_taken("it came to a broker without keys");
}

/* The uuid of a client is no secret. */
Test(keyed_brokers, a_session_of_another_key_gets_no_jobs)
{
    jobs_of_alice(KEY_ALICE " alice submit\n" KEY_BOB " bob submit\n" KEY_BROKER " first admin\n");
    struct session *bobs = session_new(&there->broker.sessions, ALICE);
    cr_assert_not_null(bobs);
    bobs->identity = keyring_find(there->broker.keyring, KEY_BOB);
    session_connect(&there->broker.sessions, bobs, 8, -1, there->broker.now_us);
    nothing_is_taken("bob is there under alice's uuid");
}

Test(keyed_brokers, jobs_come_only_from_a_key_that_may_administer)
{
    jobs_of_alice(KEY_ALICE " alice submit\n" KEY_BROKER " first submit\n");
    nothing_is_taken("it is no broker's key");
}
