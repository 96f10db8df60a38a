/*
 * Brokers that know each other, on two desks: who is busy and who gets a client, what is said between them, and the steps of a job that is handed over. tests/sim
 * kills them at each of these steps.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "client_handler.h"
#include "explain.h"
#include "folder.h"
#include "keyring.h"
#include "neighbour_talk.h"
#include "session.h"
#include "two_brokers.h"

TestSuite(two_brokers, .init = two_begin, .fini = two_end);

Test(neighbours, each_address_of_the_list_gets_a_connection)
{
    static const struct {
        const char *list, *endpoints[2];
        enum pen_status status;
    } rows[] = {{"tcp://127.0.0.1:1", {"tcp://127.0.0.1:1"}, PEN_OK},
                {"tcp://127.0.0.1:1,tcp://127.0.0.1:2", {"tcp://127.0.0.1:1", "tcp://127.0.0.1:2"}, PEN_OK},
                {"tcp://127.0.0.1:1,nowhere", {NULL}, PEN_ERR_INVALID}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *context = zmq_ctx_new();
        struct pen_error error = {.status = PEN_OK};
        struct desk *desk = desk_new();
        desk->options.neighbours = rows[i].list;
        desk_open(desk);
        struct neighbours *neighbours = &desk->broker.neighbours;
        cr_expect_eq(neighbours_open(&desk->broker, context, NULL, &error), rows[i].status, "%s", error.text);
        size_t count = 0;
        for (; count < 2 && rows[i].endpoints[count] && count < neighbours->count; count++)
            cr_expect_str_eq(neighbours->all[count].endpoint, rows[i].endpoints[count]);
        cr_expect(rows[i].status != PEN_OK || (neighbours->count == count && (count == 2 || !rows[i].endpoints[count])),
                  "%s: %u", rows[i].list, neighbours->count);
        neighbours_close(&desk->broker);
        cr_expect_eq(neighbours->count, 0);
        desk_free(desk);
        cr_expect_eq(zmq_ctx_term(context), 0, "each connection was closed");
    }
}

Test(two_brokers, they_hear_of_each_other)
{
    const struct neighbour *neighbour = &two_here->broker.neighbours.all[0];
    cr_expect_eq(neighbour->uuid, two_there->broker.uuid);
    cr_expect(neighbours_guest(&two_there->broker.neighbours, OTHER));
    desk_wait(two_here, 300000);
    cr_expect_eq(two_here->broker.stats.neighbours, 1);
}

Test(two_brokers, a_client_that_comes_anew_to_the_busy_one_is_sent_to_the_other)
{
    two_hello(two_here, 1, true, 0);
    cr_expect_str_eq(two_redirect(two_here, FRAME_WELCOME), "tcp://there:1");
    two_hello(two_here, 1, true, 0);
    cr_expect_str_eq(two_redirect(two_here, FRAME_WELCOME), "", "it is not new any more");
    two_hello(two_here, 2, true, 1);
    cr_expect_str_eq(two_redirect(two_here, FRAME_WELCOME), "", "it was sent here");
    two_hello(two_here, 3, false, 0);
    cr_expect_str_eq(two_redirect(two_here, FRAME_WELCOME), "", "it follows nobody");
    cr_expect_eq(two_here->broker.stats.clients_redirected, 1);
}

Test(two_brokers, what_waits_is_handed_over_and_what_runs_stays)
{
    two_six_jobs();
    two_drain();
    cr_expect_eq(two_here->broker.stats.jobs_handed, JOBS - two_running);
    cr_expect_eq(two_there->broker.stats.jobs_taken_over, JOBS - two_running);
    cr_expect_eq(two_here->broker.live, two_running);
    cr_expect_eq(two_there->broker.live, JOBS - two_running);
    cr_expect_null(desk_next(&two_here->clients, FRAME_RESULT), "nobody is answered for that");
    for (uint64_t i = 1; i <= two_running; i++) {
        desk_result(two_here, WORKER, (struct job_id){ALICE, i}, 0, 9);
        cr_expect_not_null(desk_next(&two_here->clients, FRAME_RESULT));
    }
    desk_wait(two_here, 20000);
    cr_expect_str_eq(two_redirect(two_here, FRAME_RESUME), "tcp://there:1", "nothing is left here");
    cr_expect(broker_drained(&two_here->broker));
    cr_expect_eq(two_here->broker.stats.jobs_failed, 0);
}

Test(two_brokers, the_client_joins_its_job_at_the_other_one)
{
    uint8_t meta[256];
    two_six_jobs();
    two_drain();
    desk_say_client(two_there, 8, envelope_make(FRAME_CLIENT_HELLO), meta,
                    wire_client_hello_follows(meta, ALICE, NULL, false, 1), 0);
    desk_submit(two_there, 8,
                &(struct wire_job){.id = {ALICE, 2},
                                   .model = "plain",
                                   .fill = 2,
                                   .no_digest = true,
                                   .dims = {1, 4000},
                                   .flags = FRAME_FLAG_RESENT});
    cr_expect_eq(two_there->broker.live, JOBS - two_running, "it is one job");
    for (uint64_t i = two_running + 1; i <= JOBS; i++)
        desk_result(two_there, WORKER, (struct job_id){ALICE, i}, 0, 4);
    for (uint64_t i = two_running + 1; i <= JOBS; i++) {
        const struct sent *sent = desk_next(&two_there->clients, FRAME_RESULT);
        cr_assert(sent && sent->peer == 8 && sent->env.job.sequence == i && sent->env.status == PEN_OK);
    }
    cr_expect_null(desk_next(&two_there->clients, FRAME_RESULT), "one answer each");
}

Test(two_brokers, a_client_that_stays_on_is_told_after_a_moment_though_a_job_of_its_runs)
{
    two_six_jobs();
    two_drain();
    desk_wait(two_here, 100000);
    cr_expect_eq(desk_pending(&two_here->clients, FRAME_RESUME), 0);
    desk_wait(two_here, 100000);
    cr_expect_str_eq(two_redirect(two_here, FRAME_RESUME), "tcp://there:1");
    desk_wait(two_here, 100000);
    cr_expect_eq(desk_pending(&two_here->clients, FRAME_RESUME), 0, "once");
}

Test(two_brokers, what_the_other_refuses_waits_here_again)
{
    two_six_jobs();
    two_there->broker.drain_refuse_us = 0; /* it takes no new jobs */
    two_drain();
    cr_expect_eq(two_here->broker.stats.jobs_handed, 0);
    cr_expect_eq(two_here->broker.live, JOBS);
    cr_expect_eq(two_here->broker.neighbours.handover.count, 0);
    desk_wait(two_here, 400000);
    cr_expect_eq(desk_pending(&two_here->clients, FRAME_RESUME), 0, "its client stays with them");
    for (uint64_t i = 1; i <= JOBS; i++) {
        desk_result(two_here, WORKER, (struct job_id){ALICE, i}, 0, (uint8_t)i);
        cr_expect_not_null(desk_next(&two_here->clients, FRAME_RESULT), "job %d", (int)i);
    }
}

Test(two_brokers, what_the_other_does_not_answer_waits_here_again)
{
    two_six_jobs();
    broker_drain(&two_here->broker);
    desk_run(two_here);
    cr_expect_eq(two_here->broker.neighbours.handover.count, JOBS - two_running, "offered");
    two_cut = true;
    desk_wait(two_here, LIVENESS + 300000);
    cr_expect_eq(two_here->broker.neighbours.handover.count, 0);
    cr_expect_eq(two_here->broker.live, JOBS);
    two_cut = false;
}

Test(two_brokers, a_job_that_was_offered_can_be_cancelled)
{
    two_six_jobs();
    broker_drain(&two_here->broker);
    desk_run(two_here);
    desk_cancel(two_here, 1, (struct job_id){ALICE, JOBS});
    const struct sent *sent = desk_next(&two_here->clients, FRAME_RESULT);
    cr_assert(sent && sent->env.status == PEN_ERR_CANCELLED);
    neighbours_read(&two_here->broker); /* the word about it comes too late */
    cr_expect_eq(two_here->broker.stats.jobs_handed, JOBS - two_running - 1);
    cr_expect_eq(two_here->broker.live, two_running);
}

Test(two_brokers, jobs_of_a_client_that_does_not_follow_stay)
{
    two_hello(two_here, 1, false, 0);
    for (uint64_t i = 1; i <= 2; i++)
        desk_submit(two_here, 1, &(struct wire_job){.id = {ALICE, i}, .model = "plain", .no_digest = true});
    two_drain();
    desk_wait(two_here, 400000);
    cr_expect_eq(two_here->broker.live, 2);
    cr_expect_eq(two_there->broker.live, 0);
    cr_expect_eq(desk_pending(&two_here->clients, FRAME_RESUME), 0);
}

Test(two_brokers, a_job_in_anothers_name_is_taken_only_from_a_broker)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw_bytes;
    struct wire_job job = {.id = {ALICE, 1}, .model = "plain", .no_digest = true};
    size_t bytes = wire_job(meta, &job, &raw_bytes);
    desk_say_client(two_there, 50, wire_job_envelope(&job), meta, bytes, 0);
    cr_expect_not_null(desk_next(&two_there->clients, FRAME_RESUME), "who are you?");
    desk_say_client(two_there, OTHER, wire_job_envelope(&job), meta, bytes, 0);
    const struct sent *sent = desk_next(&two_there->clients, FRAME_HANDED);
    cr_assert(sent);
    cr_expect_eq(sent->env.status, PEN_ERR_INVALID, "it does not say whose job it is");
    cr_expect_eq(two_there->broker.live, 0);
}

Test(two_brokers, a_client_that_never_comes_leaves_nothing_behind)
{
    two_six_jobs();
    two_drain();
    desk_wait(two_there, 6000000); /* the grace window of what was handed over */
    cr_expect_eq(two_there->broker.live, 0);
    cr_expect_eq(two_there->broker.sessions.count, 0);
}

/* ---- a job that is not offered, or not again ---- */

Test(two_brokers, a_frame_that_would_end_the_connection_is_not_offered)
{
    two_six_jobs();
    two_here->options.max_frame_bytes = 3999; /* the last job has a raw frame of 4000 bytes */
    two_drain();
    cr_expect_eq(two_here->broker.stats.jobs_handed, JOBS - two_running - 1);
    cr_expect_eq(two_here->broker.live, two_running + 1, "the large one stays");
}

Test(two_brokers, a_client_whose_job_was_refused_keeps_the_others_here)
{
    two_here->options.drain_delay_us = 60000000;
    two_six_jobs();
    two_there->broker.drain_refuse_us = 0;
    two_drain();
    cr_expect_eq(two_here->broker.live, JOBS);
    two_there->broker.drain_refuse_us = UINT64_MAX;
    desk_submit(two_here, 1, &(struct wire_job){.id = {ALICE, JOBS + 1}, .model = "plain", .no_digest = true});
    desk_wait(two_here, 100000);
    neighbours_read(&two_here->broker);
    cr_expect_eq(two_here->broker.stats.jobs_handed, 0, "its answer would wait there for a client that is here");
    cr_expect_eq(two_here->broker.live, JOBS + 1);
}

/* ---- many ---- */

Test(two_brokers, clients_are_sent_away_in_portions)
{
    const uint32_t clients = 600;
    for (uint32_t i = 1; i <= clients; i++)
        two_hello(two_here, i, true, 1);
    broker_drain(&two_here->broker);
    desk_run(two_here);
    size_t first = desk_pending(&two_here->clients, FRAME_RESUME);
    cr_expect(first > 0 && first <= 256, "%zu in one turn", first);
    cr_expect_not(broker_drained(&two_here->broker), "some have yet to be told");
    desk_wait(two_here, 100000);
    cr_expect_eq(desk_pending(&two_here->clients, FRAME_RESUME), clients);
    cr_expect(broker_drained(&two_here->broker));
}

/* Clients of jobs that were taken over have yet to come. A search by peer must not walk through all of them. */
Test(two_brokers, clients_that_have_yet_to_come_are_no_row_to_search)
{
    const struct table *table = &two_there->broker.sessions.by_peer;
    size_t same = 0;
    for (uint64_t i = 1; i <= 1000; i++)
        session_new(&two_there->broker.sessions, i)->grace_us = 1;
    for (struct table_node *node = table_first(table, table_hash(table, 0, 0)); node; node = table_next(table, node))
        same++;
    cr_expect_leq(same, 1);
}

/* ---- who is no neighbour ---- */

Test(two_brokers, a_broker_without_the_setting_is_nobodys_neighbour)
{
    two_there->broker.neighbours.count = 0;
    desk_say_client(two_there, 60, envelope_make(FRAME_NEIGHBOUR), NULL, 0, 0);
    const struct sent *sent = desk_next(&two_there->clients, FRAME_NEIGHBOUR);
    cr_assert(sent);
    cr_expect_eq(sent->env.status, PEN_ERR_UNSUPPORTED);
    cr_expect_not(neighbours_guest(&two_there->broker.neighbours, 60));
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
    two_nobody_send(dealer, frames, count);
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
    desk_wait(two_here, LIVENESS + 300000); /* the new one that was there is gone */
    memset(heard, 0, sizeof heard);
    *two_link() = (struct dealer){.send = old_send, .receive = old_receive};
    for (int i = 0; i < 20; i++) {
        desk_wait(two_here, 300000);
        neighbours_read(&two_here->broker);
    }
    cr_expect_gt(heard[FRAME_PING], 10);
    cr_expect_eq(heard[FRAME_NEIGHBOUR], 0);
    *two_link() = (struct dealer){.send = two_link_send, .receive = two_link_receive};
    desk_wait(two_here, 300000);
    neighbours_read(&two_here->broker);
    cr_expect_eq(two_here->broker.neighbours.all[0].heard_us, two_here->broker.now_us,
                 "a newer one in its place is heard at once");
}

/* ---- jobs that come back, or end while they are away ---- */

Test(two_brokers, a_job_that_comes_back_keeps_its_place)
{
    struct wire_job urgent = {
        .id = {ALICE, JOBS + 1}, .model = "plain", .no_digest = true, .dims = {1, 4000}, .priority = 1, .flags = 0};
    two_here->options.drain_delay_us = 60000000;
    two_six_jobs();
    two_there->broker.drain_refuse_us = 0; /* it takes no new jobs */
    two_drain();
    cr_assert_eq(two_here->broker.live, JOBS);
    desk_submit(two_here, 1, &urgent);
    while (desk_next(&two_here->workers, FRAME_SUBMIT))
        ;
    desk_result(two_here, WORKER, (struct job_id){ALICE, 1}, 0, 9);
    const struct sent *sent = desk_next(&two_here->workers, FRAME_SUBMIT);
    cr_assert(sent);
    cr_expect_eq(sent->env.job.sequence, JOBS + 1, "the urgent one goes first, not job %d",
                 (int)sent->env.job.sequence);
}

Test(two_brokers, what_is_cancelled_while_it_is_offered_is_computed_nowhere)
{
    two_six_jobs();
    broker_drain(&two_here->broker);
    desk_run(two_here);
    cr_assert_eq(two_there->broker.live, JOBS - two_running);
    desk_cancel(two_here, 1, (struct job_id){ALICE, JOBS});
    cr_expect_eq(two_there->broker.live, JOBS - two_running - 1);
}

Test(two_brokers, what_is_cancelled_after_it_was_handed_over_is_computed_nowhere)
{
    two_six_jobs();
    two_drain();
    desk_cancel(two_here, 1, (struct job_id){ALICE, JOBS});
    cr_expect_eq(two_there->broker.live, JOBS - two_running - 1);
}

Test(two_brokers, a_cancel_of_the_old_broker_does_not_reach_a_client_that_has_come)
{
    uint8_t meta[256];
    two_six_jobs();
    broker_drain(&two_here->broker);
    desk_run(two_here);
    desk_say_client(two_there, 8, envelope_make(FRAME_CLIENT_HELLO), meta,
                    wire_client_hello_follows(meta, ALICE, NULL, false, 1), 0);
    desk_cancel(two_here, 1, (struct job_id){ALICE, JOBS});
    cr_expect_eq(two_there->broker.live, JOBS - two_running);
}

Test(two_brokers, a_job_that_expires_while_it_is_offered_is_computed_nowhere)
{
    two_hello(two_here, 1, true, 1);
    for (uint64_t i = 1; i <= JOBS; i++)
        desk_submit(two_here, 1,
                    &(struct wire_job){
                        .id = {ALICE, i}, .model = "plain", .no_digest = true, .deadline_us = i == JOBS ? 1000000 : 0});
    broker_drain(&two_here->broker);
    desk_run(two_here);
    uint64_t live = two_there->broker.live;
    cr_assert_gt(live, 0);
    desk_wait(two_here, 1100000);
    desk_wait(two_there, 1000);
    cr_expect_eq(two_there->broker.live, live - 1);
}

/* ---- clients that are awaited ---- */

Test(two_brokers, clients_that_have_yet_to_come_are_limited_in_number)
{
    two_six_jobs();
    two_there->broker.sessions.awaited = AWAITED_MAX;
    two_drain();
    cr_expect_eq(two_there->broker.live, 0);
    cr_expect_eq(two_here->broker.live, JOBS);
    cr_expect_eq(two_there->broker.sessions.count, 0);
    two_there->broker.sessions.awaited = 0;
}

Test(two_brokers, jobs_of_clients_that_have_yet_to_come_are_limited_in_bytes)
{
    uint8_t meta[256];
    two_six_jobs();
    two_there->options.queue_bytes = 2 * 9000; /* half of it for them: one job of 4000 bytes, but not the rest */
    two_drain();
    uint64_t taken = two_there->broker.stats.jobs_taken_over;
    cr_expect(taken > 0 && taken < JOBS - two_running, "%lu were taken over", (unsigned long)taken);
    cr_expect_eq(two_there->broker.sessions.awaited, 1);
    cr_expect_gt(two_there->broker.sessions.awaited_bytes, 4000);
    desk_say_client(two_there, 8, envelope_make(FRAME_CLIENT_HELLO), meta,
                    wire_client_hello_follows(meta, ALICE, NULL, false, 1), 0);
    cr_expect_eq(two_there->broker.sessions.awaited, 0, "it has come");
    cr_expect_eq(two_there->broker.sessions.awaited_bytes, 0);
}

Test(two_brokers, an_awaited_client_that_never_comes_is_not_counted_for_good)
{
    two_six_jobs();
    two_drain();
    cr_expect_eq(two_there->broker.sessions.awaited, 1);
    desk_wait(two_there, 6000000);
    cr_expect_eq(two_there->broker.sessions.awaited, 0);
    cr_expect_eq(two_there->broker.sessions.awaited_bytes, 0);
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
    two_begin();
    two_key = KEY_BROKER;
}

static void end_keyed(void)
{
    struct keyring *rings[] = {two_here->broker.keyring, two_there->broker.keyring};
    two_end();
    keyring_free(rings[0]);
    keyring_free(rings[1]);
    folder_free(keys_folder);
}

TestSuite(keyed_brokers, .init = begin_keyed, .fini = end_keyed);

/* Alice's jobs are here; the other broker has this list of keys. */
static void jobs_of_alice(const char *keys_there)
{
    two_here->broker.keyring = keyring_of("here", KEY_ALICE " alice submit\n");
    two_here->user = KEY_ALICE;
    two_six_jobs();
    two_there->broker.keyring = keyring_of("there", keys_there);
}

static void nothing_is_taken(const char *why)
{
    two_drain();
    cr_expect_eq(two_here->broker.stats.jobs_handed, 0, "%s", why);
    cr_expect_eq(two_here->broker.live, JOBS, "%s", why);
    cr_expect_eq(two_there->broker.stats.jobs_taken_over, 0, "%s", why);
    cr_expect_eq(two_there->broker.live, 0, "%s", why);
}

Test(keyed_brokers, a_job_keeps_its_clients_key)
{
    jobs_of_alice(KEY_ALICE " alice submit\n" KEY_BROKER " first admin\n");
    two_drain();
    cr_expect_eq(two_there->broker.stats.jobs_taken_over, JOBS - two_running);
    struct session *session = session_find(&two_there->broker.sessions, ALICE);
    cr_assert_not_null(session);
    cr_expect_eq(session->identity, keyring_find(two_there->broker.keyring, KEY_ALICE));
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
    two_six_jobs();
    two_there->broker.keyring = keyring_of("there", KEY_ALICE " alice submit\n" KEY_BROKER " first admin\n");
    nothing_is_taken("it came to a broker without keys");
}

/* The uuid of a client is no secret. */
Test(keyed_brokers, a_session_of_another_key_gets_no_jobs)
{
    jobs_of_alice(KEY_ALICE " alice submit\n" KEY_BOB " bob submit\n" KEY_BROKER " first admin\n");
    struct session *bobs = session_new(&two_there->broker.sessions, ALICE);
    cr_assert_not_null(bobs);
    bobs->identity = keyring_find(two_there->broker.keyring, KEY_BOB);
    session_connect(&two_there->broker.sessions, bobs, 8, -1, two_there->broker.now_us);
    nothing_is_taken("bob is there under alice's uuid");
}

Test(keyed_brokers, jobs_come_only_from_a_key_that_may_administer)
{
    jobs_of_alice(KEY_ALICE " alice submit\n" KEY_BROKER " first submit\n");
    nothing_is_taken("it is no broker's key");
}
