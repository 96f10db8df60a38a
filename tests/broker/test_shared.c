/* Detached jobs in a shared store, two brokers, on the test's clock: takeover, time-outs, caps, lost answers, duplicates, turns. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "detached_entry.h"
#include "detached_shared_internal.h"
#include "logline.h"
#include "client_handler.h"
#include "paper.h"
#include "shared_desks.h"

TestSuite(shared, .init = desks_begin, .fini = desks_end);

Test(shared, accepted_here_run_there_fetched_anywhere)
{
    desks_submit(0, 1);
    cr_assert_eq(play_jobs(), 1u);
    desks_fetch(0, 7, 1, false);
    cr_assert_eq(desks_reply(0, 7), PEN_STATUS_COUNT, "told when it is done");
    desks_worker(1);
    cr_assert_eq(desk_pending(&shared_desks[1]->workers, FRAME_SUBMIT), 1u);
    desks_work(1, 1, 42);
    desk_run(shared_desks[0]);
    cr_assert_eq(desks_reply(0, 7), PEN_OK, "its bell has rung here, too");
    cr_assert_eq(desks_value(0, 8, 1), 42);
    cr_assert_eq(desks_value(1, 9, 1), 42);
    cr_assert_eq(play_runs(), 1u);
    cr_expect_eq(shared_desks[0]->broker.stats.detached_taken, 0u);
    cr_expect_eq(shared_desks[1]->broker.stats.detached_taken, 1u);
    cr_expect_eq(shared_desks[1]->broker.stats.detached_again, 0u, "nobody had begun it");
}

/* Of `whole`: a step, or the plan alone. */
static struct wire_model part(const char *name, const struct wire_step *steps, size_t count)
{
    struct wire_model model = shared_echo;
    model.name = name;
    model.not_ready = count > 0;
    model.steps = steps;
    model.steps_count = count;
    return model;
}

Test(shared, an_ensemble_that_no_worker_has_whole_is_taken_and_run_in_steps)
{
    static const struct wire_step steps[] = {{"a", "x", "y", false}};
    struct wire_model models[] = {part("echo", steps, 1), part("a", NULL, 0)};
    desks_submit(0, 1);
    desk_worker(shared_desks[1], WORKER,
                &(struct wire_worker){.uuid = 1, .name = "w", .slots = 1, .models = models, .models_count = 2});
    desks_wait(SECOND_);
    struct sent *step = desk_next(&shared_desks[1]->workers, FRAME_SUBMIT);
    cr_assert_not_null(step, "its step is run");
    desk_result(shared_desks[1], WORKER, sent_job(step, 0), 0, 42);
    desk_run(shared_desks[1]);
    cr_assert_eq(desks_value(0, 8, 1), 42);
}

Test(shared, same_id_is_one_job_at_every_broker)
{
    desks_submit(0, 1);
    desks_submit(0, 1);
    desks_submit(1, 1);
    cr_assert_eq(play_jobs(), 1u);
}

Test(shared, broker_that_is_killed_loses_its_jobs_when_the_lease_is_over_and_not_before)
{
    desks_worker(1);
    desks_submit(0, 1);
    desk_run(shared_desks[1]);
    cr_assert_eq(desk_pending(&shared_desks[1]->workers, FRAME_SUBMIT), 1u);
    desks_kill(1);
    desks_worker(0);
    desks_wait(LEASE - 200000);
    desk_say_worker(shared_desks[0], WORKER, envelope_make(FRAME_PING), NULL, 0);
    cr_assert_eq(desk_pending(&shared_desks[0]->workers, FRAME_SUBMIT), 0u);
    desks_wait(400000);
    cr_assert_eq(desk_pending(&shared_desks[0]->workers, FRAME_SUBMIT), 1u);
    desks_work(0, 1, 42);
    cr_assert_eq(desks_value(0, 7, 1), 42);
    cr_assert_eq(shared_desks[0]->broker.stats.detached_again, 1u);
    cr_expect_eq(shared_desks[0]->broker.stats.detached_taken, 1u);
}

Test(shared, lease_is_renewed_as_long_as_the_broker_traces)
{
    desks_worker(0);
    desks_submit(0, 1);
    desks_worker(1);
    for (int i = 0; i < 20; i++) {
        desks_wait(LEASE / 4);
        for (int k = 0; k < 2; k++)
            desk_say_worker(shared_desks[k], WORKER, envelope_make(FRAME_PING), NULL, 0);
    }
    cr_assert_eq(play_runs(), 1u);
}

Test(shared, frozen_broker_that_returns_answers_second_and_is_counted)
{
    desks_worker(1);
    desks_submit(0, 1);
    desk_run(shared_desks[1]);
    struct desk *frozen = shared_desks[1];
    shared_desks[1] = NULL;
    desks_worker(0);
    for (int i = 0; i < 5; i++) {
        desks_wait(LEASE / 4);
        desk_say_worker(shared_desks[0], WORKER, envelope_make(FRAME_PING), NULL, 0);
    }
    cr_assert_eq(play_runs(), 2u, "the other one has taken it");
    desks_work(0, 1, 42);
    shared_desks[1] = frozen;
    desk_result(shared_desks[1], WORKER, (struct job_id){CLIENT, 1}, 0, 13);
    desk_run(shared_desks[1]);
    cr_assert_eq(desks_value(0, 7, 1), 42, "the first answer stays");
    cr_assert_eq(desks_value(1, 8, 1), 42);
    cr_assert_eq(shared_desks[1]->broker.stats.detached_duplicates + shared_desks[0]->broker.stats.detached_duplicates,
                 1u);
}

Test(shared, result_waits_for_a_redis_that_is_away)
{
    desks_worker(0);
    desks_submit(0, 1);
    desks_fetch(0, 7, 1, false);
    play_mood(PLAY_DOWN);
    desk_run(shared_desks[0]);
    desks_work(0, 1, 42);
    cr_assert_eq(desks_reply(0, 7), PEN_STATUS_COUNT, "nobody is told what Redis does not have");
    desks_fetch(0, 8, 1, false);
    cr_assert_eq(desks_reply(0, 8), PEN_ERR_UNAVAILABLE);
    play_mood(PLAY_UP);
    desks_wait(SECOND_);
    cr_assert_eq(desks_reply(0, 7), PEN_OK);
    cr_assert_eq(shared_desks[0]->broker.stats.detached_duplicates, 0u);
}

Test(shared, lost_answer_to_a_result_is_no_duplicate)
{
    desks_worker(0);
    desks_submit(0, 1);
    play_mood(PLAY_DEAF);
    desks_work(0, 1, 42);
    play_mood(PLAY_UP);
    desks_wait(2 * SECOND_);
    cr_assert_eq(desks_value(0, 7, 1), 42);
    cr_assert_eq(shared_desks[0]->broker.stats.detached_duplicates, 0u);
    cr_assert_eq(detached_count(shared_desks[0]->broker.detached), 0u);
}

/* The bell about a job's end may be lost with the connection: who waits is asked for when Redis is back. */
Test(shared, a_fetch_is_answered_though_its_bell_was_lost)
{
    desks_worker(1);
    desks_submit(0, 1);
    desks_fetch(0, 7, 1, false);
    desk_run(shared_desks[1]);
    play_mood(PLAY_DEAF);
    desks_work(1, 1, 42);
    desk_run(shared_desks[0]);
    cr_assert_eq(play_state((struct job_id){CLIENT, 1}), PLAY_DONE);
    cr_assert_eq(desks_reply(0, 7), PEN_STATUS_COUNT, "nobody has told it");
    play_mood(PLAY_UP);
    desk_run(shared_desks[0]);
    cr_assert_eq(desks_reply(0, 7), PEN_OK);
}

/* Operators search the log for these. */
Test(shared, the_log_says_when_redis_goes_and_comes)
{
    FILE *log = tmpfile();
    char text[8192] = "";
    int before = dup(STDERR_FILENO);
    cr_assert(log && before >= 0);
    fflush(stderr);
    cr_assert_geq(dup2(fileno(log), STDERR_FILENO), 0);
    log_level_set(LOG_INFO);
    play_mood(PLAY_DOWN);
    desk_run(shared_desks[0]);
    play_mood(PLAY_UP);
    desk_run(shared_desks[0]);
    fflush(stderr);
    cr_assert_geq(dup2(before, STDERR_FILENO), 0);
    close(before);
    rewind(log);
    cr_assert_gt(fread(text, 1, sizeof text - 1, log), 0u);
    fclose(log);
    const char *down = strstr(text, "evt=detached_down"), *up = strstr(text, "evt=detached_up");
    cr_assert(down && up && down < up, "%s", text);
    cr_expect(strstr(down, "kind=redis reason=") && strstr(up, "kind=redis durability="), "%s", text);
}

Test(shared, submit_without_redis_is_a_typed_error_and_with_a_lost_answer_one_that_says_so)
{
    play_mood(PLAY_DOWN);
    desk_run(shared_desks[0]);
    desks_send(0, 1, NULL);
    cr_assert_eq(desks_reply(0, 1), PEN_ERR_UNAVAILABLE);
    play_mood(PLAY_UP);
    desk_run(shared_desks[0]);
    play_mood(PLAY_DEAF);
    desks_send(0, 2, NULL);
    cr_assert_eq(desks_reply(0, 2), PEN_ERR_UNAVAILABLE);
    play_mood(PLAY_UP);
    desk_run(shared_desks[0]);
    desks_submit(0, 2);
    cr_assert_eq(play_jobs(), 1u, "it was there: the id is the key");
    cr_assert_eq(detached_count(shared_desks[0]->broker.detached), 0u);
}

Test(shared, journal_steps_in_only_while_redis_is_gone)
{
    struct paper *paper = paper_new();
    struct journal *journal;
    cr_assert_eq(journal_open_file(&paper->file, 0, 1 << 20, &journal), PEN_OK);
    desk_free(shared_desks[1]);
    desks_open(1);
    cr_assert_eq(detached_open_journal(&shared_desks[1]->broker, journal, paper->bytes, 0), PEN_OK);
    desks_join(1);
    desks_submit(1, 1);
    cr_assert_eq(paper->written, 0u);
    play_mood(PLAY_DOWN);
    desk_run(shared_desks[1]);
    desks_send(1, 2, NULL);
    cr_assert_eq(desks_reply(1, 2), PEN_STATUS_COUNT, "not on disk yet");
    journal_work(journal);
    desk_run(shared_desks[1]);
    cr_assert_eq(desks_reply(1, 2), PEN_OK);
    play_mood(PLAY_UP);
    desk_run(shared_desks[1]);
    desks_worker(1);
    desks_work(1, 2, 42);
    cr_assert_eq(desks_value(1, 7, 2), 42);
    desk_free(shared_desks[1]);
    shared_desks[1] = NULL;
    free(paper);
}

Test(shared, time_is_over_for_waiting_running_and_done_jobs)
{
    Penstock__JobMeta brief = PENSTOCK__JOB_META__INIT;
    brief.detached_ttl_us = 3 * SECOND_;
    for (uint64_t i = 1; i <= 3; i++) {
        desks_send(0, i, &brief);
        cr_assert_eq(desks_reply(0, i), PEN_OK);
        if (i == 1)
            desks_worker(0);
    }
    desks_work(0, 1, 42);
    desks_fetch(1, 7, 3, false);
    cr_assert_eq(desks_value(0, 8, 1), 42);
    for (int i = 0; i < 8; i++) {
        desks_wait(SECOND_ / 2);
        desk_say_worker(shared_desks[0], WORKER, envelope_make(FRAME_PING), NULL, 0);
    }
    cr_assert_eq(play_jobs(), 0u);
    cr_assert_eq(detached_count(shared_desks[0]->broker.detached), 0u, "what ran is stopped");
    cr_assert_eq(shared_desks[0]->broker.live, 0u);
    cr_assert_eq(desks_reply(1, 7), PEN_ERR_NOT_FOUND, "who waited is told");
    desks_fetch(0, 9, 1, false);
    cr_assert_eq(desks_reply(0, 9), PEN_ERR_NOT_FOUND);
}

Test(shared, caps_and_quotas_are_those_of_all_brokers_together)
{
    static struct identity alice = {.key = {1}, .name = "alice", .roles = ROLE_SUBMIT, .active = true};
    desks_submit(0, 1);
    alice.bytes_max = 400;
    for (int i = 0; i < 2; i++)
        session_find(&shared_desks[i]->broker.sessions, CLIENT)->identity = &alice;
    uint64_t sequence = 2, accepted = 0;
    enum pen_status last;
    do {
        desks_send((int)(sequence % 2), sequence, NULL);
        last = desks_reply((int)(sequence % 2), sequence);
        accepted += last == PEN_OK;
        sequence++;
    } while (last == PEN_OK && sequence < 20);
    cr_assert_eq(last, PEN_ERR_BUSY);
    cr_assert(accepted >= 1 && accepted <= 3, "%lu", (unsigned long)accepted);
    cr_assert_eq(alice.bytes, 0u, "what Redis counts is not counted here, too");
    cr_assert_eq(alice.jobs, 0u);
}

Test(shared, progress_is_told_at_once)
{
    static const struct {
        const char *state;
        uint32_t attempts;
    } rows[] = {{"waiting", 0}, {"running", 1}, {"done", 1}};
    desks_submit(0, 1);
    for (uint64_t i = 0; i < 3; i++) {
        if (i == 1)
            desks_worker(1);
        if (i == 2)
            desks_work(1, 1, 42);
        desks_fetch(0, 10 + i, 1, true);
        struct sent *sent = desk_next(&shared_desks[0]->clients, FRAME_RESULT);
        cr_assert_not_null(sent);
        Penstock__ResultMeta *result = sent_result(sent);
        cr_assert_str_eq(result->detached->state, rows[i].state);
        cr_assert_eq(result->detached->attempts, rows[i].attempts);
        cr_assert_eq(result->n_outputs, 0u);
        penstock__result_meta__free_unpacked(result, NULL);
    }
}

Test(shared, cancelled_anywhere_stops_it_everywhere)
{
    uint8_t meta[WIRE_META_BYTES];
    desks_worker(1);
    desks_submit(0, 1);
    desk_run(shared_desks[1]);
    desk_say_client(shared_desks[0], 1, envelope_make(FRAME_CONTROL), meta,
                    wire_control(meta, "cancel", "0000000000000abc-1", 5), 0);
    desk_run(shared_desks[0]);
    struct sent *sent = desk_next(&shared_desks[0]->clients, FRAME_CONTROL_REPLY);
    cr_assert_not_null(sent);
    cr_assert_eq(sent->env.status, PEN_OK);
    desk_run(shared_desks[1]);
    cr_assert_eq(desk_pending(&shared_desks[1]->workers, FRAME_CANCEL), 1u, "the worker is told to stop");
    desks_fetch(1, 7, 1, false);
    cr_assert_eq(desks_reply(1, 7), PEN_ERR_CANCELLED);
}

Test(shared, fetch_can_be_cancelled_and_is_answered_once)
{
    desks_submit(0, 1);
    desks_fetch(0, 7, 1, false);
    desk_cancel(shared_desks[0], 1, (struct job_id){CLIENT, 7});
    cr_assert_eq(desks_reply(0, 7), PEN_ERR_CANCELLED);
    desks_worker(0);
    desks_work(0, 1, 42);
    cr_assert_eq(desks_reply(0, 7), PEN_STATUS_COUNT);
}

Test(shared, draining_broker_gives_back_what_it_has_not_begun)
{
    desks_worker(0);
    for (uint64_t i = 1; i <= 4; i++)
        desks_submit(0, i);
    shared_desks[0]->options.drain_timeout_us = 1000;
    broker_drain(&shared_desks[0]->broker);
    desk_wait(shared_desks[0], 5000);
    desk_wait(shared_desks[0], 600000);
    cr_assert_eq(detached_count(shared_desks[0]->broker.detached), 0u);
    desks_worker(1);
    cr_assert_eq(play_runs(), 8u, "all four by the other broker at once, without waiting for a lease");
}

/* Workers of equal speed at two brokers; all jobs came in at one of them. */
Test(shared, brokers_share_a_backlog)
{
    enum { JOBS = 200 };
    uint64_t done[2] = {0, 0};
    for (uint64_t i = 1; i <= JOBS; i++)
        desks_submit(0, i);
    desks_worker(0);
    desks_worker(1);
    for (int turn = 0; turn < 4 * JOBS && done[0] + done[1] < JOBS; turn++) {
        for (int i = 0; i < 2; i++) {
            struct sent *sent = desk_next(&shared_desks[i]->workers, FRAME_SUBMIT);
            for (size_t k = 0; sent && k < sent_groups(sent); k++) {
                struct job_id id = sent_job(sent, k);
                desk_result(shared_desks[i], WORKER, id, 0, 1);
                done[i]++;
            }
            desk_run(shared_desks[i]);
        }
    }
    cr_assert_eq(done[0] + done[1], (uint64_t)JOBS);
    cr_assert_geq(done[0], JOBS * 2 / 5, "%lu %lu", (unsigned long)done[0], (unsigned long)done[1]);
    cr_assert_geq(done[1], JOBS * 2 / 5, "%lu %lu", (unsigned long)done[0], (unsigned long)done[1]);
}

/* ---- what is due when ---- */

static struct shared *store(int i)
{
    return shared_desks[i]->broker.detached->shared;
}

/* The next look is now; the waiting job was taken so long ago. */
static size_t count_after_look(uint64_t waited_us)
{
    struct detached_store *detached = shared_desks[0]->broker.detached;
    desk_run(shared_desks[0]);
    TAILQ_FIRST(&detached->lists[ENTRY_WAITING])->since_us = desks_now() - waited_us;
    store(0)->look_us = desks_now();
    desk_run(shared_desks[0]);
    cr_expect_eq(store(0)->look_us, desks_now() + 500000);
    return detached_count(detached);
}

Test(shared, a_job_that_cannot_run_here_is_given_back_after_two_seconds)
{
    desks_worker(0);
    struct broker *broker = &shared_desks[0]->broker;
    desks_submit(0, 1);
    desk_run(shared_desks[0]);
    cr_assert_eq(detached_count(broker->detached), 1u);
    struct entry *entry = TAILQ_FIRST(&broker->detached->lists[ENTRY_RUNNING]);
    cr_assert_not_null(entry);
    entry_move(broker->detached, entry, ENTRY_WAITING, desks_now());
    cr_expect_eq(count_after_look(1999999), 1u);
    cr_expect_eq(store(0)->held, 1u);
    side_lose(&shared_desks[0]->workers, WORKER); /* so that it is not taken again at once */
    fleet_by_peer(&broker->fleet, WORKER)->state = WORKER_DRAINING;
    cr_expect_eq(count_after_look(2000000), 0u);
    cr_expect_eq(store(0)->held, 0u);
}

Test(shared, room_is_that_of_the_workers_that_take_work)
{
    struct wire_worker large = {.uuid = 9, .name = "large", .slots = 100, .models = &shared_echo, .models_count = 1};
    desk_run(shared_desks[0]);
    cr_expect_eq(store(0)->room_told, 0u);
    desks_worker(0);
    cr_expect_eq(store(0)->room_told, 8u);
    desks_submit(0, 1);
    desk_run(shared_desks[0]);
    cr_expect(store(0)->held == 1 && store(0)->room_told == 7);
    desk_worker(shared_desks[0], WORKER + 1, &large);
    desk_run(shared_desks[0]);
    cr_expect_eq(store(0)->room_told, 807u);
    large.uuid = 10;
    large.name = "larger";
    desk_worker(shared_desks[0], WORKER + 2, &large);
    desk_run(shared_desks[0]);
    cr_expect_eq(store(0)->room_told, 1023u, "at most 1024 are held");
    desk_say_worker(shared_desks[0], WORKER + 2, envelope_make(FRAME_DRAIN), NULL, 0);
    desk_run(shared_desks[0]);
    cr_expect_eq(store(0)->room_told, 807u);
    broker_drain(&shared_desks[0]->broker);
    desk_run(shared_desks[0]);
    cr_expect_eq(store(0)->room_told, 0u);
}

Test(shared, held_jobs_are_renewed_three_times_in_a_lease)
{
    desks_worker(0);
    desks_submit(0, 1);
    desk_run(shared_desks[0]);
    for (int i = 0; i < 3; i++) {
        store(0)->renew_us = desks_now() + 1;
        desk_run(shared_desks[0]);
        cr_expect_eq(store(0)->renew_us, desks_now() + 1, "not yet");
        store(0)->renew_us = desks_now();
        desk_run(shared_desks[0]);
        cr_expect_eq(store(0)->renew_us, desks_now() + LEASE / 3);
        desk_wait(shared_desks[0], 1000);
    }
    desks_work(0, 1, 42);
    desk_run(shared_desks[0]);
    cr_expect_eq(store(0)->held, 0u);
    store(0)->renew_us = desks_now();
    desk_run(shared_desks[0]);
    cr_expect_eq(store(0)->renew_us, desks_now(), "nothing is held");
}

Test(shared, what_is_on_its_way_to_redis_has_a_limit)
{
    store(0)->accepting_bytes = 64u * 1024 * 1024 - 1;
    desks_send(0, 1, NULL);
    cr_assert_eq(desks_reply(0, 1), PEN_ERR_BUSY);
    store(0)->accepting_bytes = 0;
    desks_submit(0, 1);
    cr_expect_eq(store(0)->accepting_bytes, 0u, "it has arrived");
}
