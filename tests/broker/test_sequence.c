/* Jobs that belong to a worker's state, on a desk: their order, their worker, and every way in which a sequence ends. */
#include <criterion/criterion.h>
#include <string.h>

#include "desk.h"
#include "sequence.h"

enum { ALICE = 1, BOB = 2, ONE = 11, TWO = 12, IDLE_US = 500000 };

static struct desk *desk;
static uint64_t next_job;

static const struct wire_model adder = {.name = "adder",
                                        .version = 1,
                                        .backend = "xnnpack",
                                        .precision = PRECISION_F32,
                                        .warm_us = 1000,
                                        .sequence_idle_us = IDLE_US};

static void add_worker(uint32_t peer)
{
    desk_worker(desk, peer,
                &(struct wire_worker){.uuid = 100u + peer,
                                      .name = peer == ONE ? "one" : "two",
                                      .slots = 1,
                                      .takes_orders = true,
                                      .models = &adder,
                                      .models_count = 1});
}

static void setup(void)
{
    desk = desk_new();
    desk->options.grace_us = 0;
    desk_open(desk);
    add_worker(ONE);
    desk_client(desk, ALICE, ALICE);
    desk_client(desk, BOB, BOB);
    next_job = 0;
}

static void teardown(void)
{
    desk_free(desk);
}

TestSuite(sequence, .init = setup, .fini = teardown);

enum { START = 1, END = 2 };

static struct job_id submit_after(uint64_t client, uint64_t sequence, unsigned flags, uint64_t after)
{
    struct wire_job job = {.id = {.client = client, .sequence = ++next_job},
                           .model = "adder",
                           .sequence_after = after,
                           .no_digest = true,
                           .sequence = sequence,
                           .sequence_start = flags & START,
                           .sequence_end = flags & END};
    desk_submit(desk, (uint32_t)client, &job);
    return job.id;
}

/* As a client that does not say which job comes before. */
static struct job_id submit(uint64_t client, uint64_t sequence, unsigned flags)
{
    return submit_after(client, sequence, flags, 0);
}

static struct job_id expect_job(uint32_t worker)
{
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent, "no job was sent");
    cr_assert(sent->peer == worker, "it went to worker %u", sent->peer);
    return sent_job(sent, 0);
}

static void expect_end(struct job_id id, enum pen_status status, const char *words)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(sent, "no result");
    Penstock__ResultMeta *result = sent_result(sent);
    cr_assert(job_id_equal(sent->env.job, id), "the result is of another job");
    cr_assert(sent->env.status == status, "%s: %s", pen_status_name((enum pen_status)sent->env.status), result->error);
    cr_expect(!words || strstr(result->error, words), "'%s' is not in '%s'", words ? words : "", result->error);
    penstock__result_meta__free_unpacked(result, NULL);
}

/* Submits the next one of a sequence and has its worker answer it. */
static void step(uint64_t client, uint64_t sequence, unsigned flags, uint32_t worker)
{
    struct job_id id = submit(client, sequence, flags);
    cr_assert(job_id_equal(expect_job(worker), id));
    desk_result(desk, worker, id, 0, 1);
    expect_end(id, PEN_OK, NULL);
}

Test(sequence, its_jobs_go_to_one_worker_one_after_the_other)
{
    add_worker(TWO);
    struct job_id first = submit(ALICE, 7, START), second = submit(ALICE, 7, 0), third = submit(ALICE, 7, END);
    struct sent *sent = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(sent && job_id_equal(sent_job(sent, 0), first));
    uint32_t home = sent->peer;
    cr_expect(desk_pending(&desk->workers, FRAME_SUBMIT) == 0, "the next one waits for the first");
    desk_result(desk, home, first, 0, 1);
    cr_assert(job_id_equal(expect_job(home), second));
    desk_result(desk, home, second, 0, 1);
    cr_assert(job_id_equal(expect_job(home), third));
    desk_result(desk, home, third, 0, 1);
    cr_expect(sequences_open(&desk->broker) == 0 && desk->broker.live == 0);
    expect_end(first, PEN_OK, NULL);
    expect_end(second, PEN_OK, NULL);
    expect_end(third, PEN_OK, NULL);
    cr_expect(desk_pending(&desk->workers, FRAME_CANCEL) == 1, "the worker drops the state");
}

Test(sequence, start_and_end_in_one_job_is_a_sequence_of_one)
{
    step(ALICE, 7, START | END, ONE);
    cr_expect(sequences_open(&desk->broker) == 0);
    expect_end(submit(ALICE, 7, 0), PEN_ERR_NOT_FOUND, "is not open here");
}

Test(sequence, what_was_never_begun_is_refused)
{
    expect_end(submit(ALICE, 7, 0), PEN_ERR_NOT_FOUND, "sequence 7 is not open here: begin it with the start flag");
    expect_end(submit(ALICE, 7, END), PEN_ERR_NOT_FOUND, "sequence 7 is not open here");
    expect_end(submit(ALICE, 0, START), PEN_ERR_INVALID, "name a sequence");
    cr_expect(desk->broker.live == 0 && sequences_open(&desk->broker) == 0);
}

Test(sequence, one_without_an_end_ends_by_its_silence)
{
    step(ALICE, 7, START, ONE);
    desk_wait(desk, IDLE_US - 1000);
    step(ALICE, 7, 0, ONE); /* counted from the last job */
    desk_wait(desk, IDLE_US - 1000);
    cr_expect(sequences_open(&desk->broker) == 1);
    desk_wait(desk, 2000);
    cr_expect(sequences_open(&desk->broker) == 0);
    struct sent *cancel = desk_next(&desk->workers, FRAME_CANCEL);
    cr_expect(cancel && cancel->env.sequence_id == 7, "the worker is told");
    expect_end(submit(ALICE, 7, 0), PEN_ERR_TIMEOUT, "no job of it came for 500000 us");
    step(ALICE, 7, START, ONE);
}

Test(sequence, a_job_that_runs_for_long_is_no_silence)
{
    struct job_id id = submit(ALICE, 7, START);
    expect_job(ONE);
    desk_wait(desk, 2 * IDLE_US);
    cr_expect(sequences_open(&desk->broker) == 1);
    desk_result(desk, ONE, id, 0, 1);
    expect_end(id, PEN_OK, NULL);
}

Test(sequence, a_start_without_an_end_before_begins_anew)
{
    step(ALICE, 7, START, ONE);
    struct job_id waits, runs = submit(ALICE, 7, 0);
    expect_job(ONE);
    waits = submit(ALICE, 7, 0);
    struct job_id again = submit(ALICE, 7, START);
    expect_end(waits, PEN_ERR_CANCELLED, "it was begun anew");
    desk_result(desk, ONE, runs, 0, 1);
    expect_end(runs, PEN_OK, NULL);
    cr_assert(job_id_equal(expect_job(ONE), again));
    desk_result(desk, ONE, again, 0, 1);
    expect_end(again, PEN_OK, NULL);
    cr_expect(sequences_open(&desk->broker) == 1);
}

Test(sequence, equal_ids_of_two_clients_are_two_sequences)
{
    step(ALICE, 7, START, ONE);
    expect_end(submit(BOB, 7, 0), PEN_ERR_NOT_FOUND, "not open here");
    step(BOB, 7, START, ONE);
    step(ALICE, 7, END, ONE);
    step(BOB, 7, 0, ONE);
    cr_expect(sequences_open(&desk->broker) == 1);
}

Test(sequence, a_lost_worker_ends_those_that_it_kept_at_once)
{
    step(ALICE, 7, START, ONE);
    struct job_id runs = submit(ALICE, 7, 0), waits = submit(ALICE, 7, 0);
    expect_job(ONE);
    add_worker(TWO); /* it could run the jobs, but has not the state */
    side_lose(&desk->workers, ONE);
    broker_hint_workers(&desk->broker, -1);
    desk_run(desk);
    expect_end(waits, PEN_ERR_WORKER_LOST, "worker one, which kept its state, was lost");
    expect_end(runs, PEN_ERR_WORKER_LOST, "the state of the sequence was lost");
    expect_end(submit(ALICE, 7, 0), PEN_ERR_WORKER_LOST, "begin it again");
    step(ALICE, 7, START, TWO);
}

Test(sequence, a_first_job_that_is_lost_begins_elsewhere)
{
    struct job_id first = submit(ALICE, 7, START), second = submit(ALICE, 7, 0);
    expect_job(ONE);
    add_worker(TWO);
    side_lose(&desk->workers, ONE);
    broker_hint_workers(&desk->broker, -1);
    desk_run(desk);
    cr_assert(job_id_equal(expect_job(TWO), first), "nothing is lost with it");
    desk_result(desk, TWO, first, 0, 1);
    cr_assert(job_id_equal(expect_job(TWO), second));
}

Test(sequence, a_draining_worker_finishes_the_job_and_ends_the_sequence)
{
    step(ALICE, 7, START, ONE);
    struct job_id runs = submit(ALICE, 7, 0), waits = submit(ALICE, 7, 0);
    expect_job(ONE);
    desk_say_worker(desk, ONE, envelope_make(FRAME_DRAIN), NULL, 0);
    expect_end(waits, PEN_ERR_UNAVAILABLE, "worker one, which kept its state, is draining");
    desk_result(desk, ONE, runs, 0, 1);
    expect_end(runs, PEN_OK, NULL);
    expect_end(submit(ALICE, 7, 0), PEN_ERR_UNAVAILABLE, "is draining; begin it again");
}

Test(sequence, a_model_that_is_withdrawn_ends_them)
{
    uint8_t meta[WIRE_META_BYTES];
    step(ALICE, 7, START, ONE);
    desk_say_worker(desk, ONE, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, NULL, 0));
    cr_expect(sequences_open(&desk->broker) == 0);
}

Test(sequence, a_model_that_leaves_memory_keeps_them)
{
    struct wire_model cold = adder;
    uint8_t meta[WIRE_META_BYTES];
    cold.not_ready = true;
    cold.load_us = 5000;
    step(ALICE, 7, START, ONE);
    desk_say_worker(desk, ONE, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, &cold, 1));
    cr_expect(sequences_open(&desk->broker) == 1, "the state is not the model's");
    struct job_id id = submit(ALICE, 7, 0);
    cr_expect(desk_pending(&desk->clients, FRAME_RESULT) == 0, "it is refused");
    cr_expect(desk_pending(&desk->workers, FRAME_CONTROL) == 1, "it is asked to load it again");
    desk_say_worker(desk, ONE, envelope_make(FRAME_WORKER_UPDATE), meta, wire_worker_update(meta, &adder, 1));
    cr_assert(job_id_equal(expect_job(ONE), id));
}

Test(sequence, a_job_that_fails_ends_it)
{
    step(ALICE, 7, START, ONE);
    struct job_id fails = submit(ALICE, 7, 0), waits = submit(ALICE, 7, 0);
    expect_job(ONE);
    desk_result_status(desk, ONE, fails, PEN_ERR_SHAPE, 1);
    expect_end(fails, PEN_ERR_SHAPE, NULL);
    expect_end(waits, PEN_ERR_CANCELLED, "a job of it ended with");
}

Test(sequence, a_cancelled_job_ends_it)
{
    step(ALICE, 7, START, ONE);
    struct job_id runs = submit(ALICE, 7, 0), waits = submit(ALICE, 7, 0);
    expect_job(ONE);
    desk_cancel(desk, ALICE, waits);
    expect_end(waits, PEN_ERR_CANCELLED, NULL);
    cr_expect(sequences_open(&desk->broker) == 0);
    desk_result(desk, ONE, runs, 0, 1);
    expect_end(runs, PEN_OK, NULL);
    expect_end(submit(ALICE, 7, 0), PEN_ERR_CANCELLED, "begin it again");
}

Test(sequence, a_client_that_leaves_takes_its_own_along)
{
    step(ALICE, 7, START, ONE);
    step(BOB, 7, START, ONE);
    desk_say_client(desk, ALICE, envelope_make(FRAME_GOODBYE), NULL, 0, 0);
    cr_expect(sequences_open(&desk->broker) == 1);
    step(BOB, 7, 0, ONE);
}

Test(sequence, a_job_sent_again_has_its_answer_when_its_worker_has_ended_both_runs)
{
    struct job_id first = submit(ALICE, 7, START);
    cr_assert(job_id_equal(expect_job(ONE), first));
    desk_say_client(desk, ALICE, envelope_make(FRAME_GOODBYE), NULL, 0, 0);
    desk_client(desk, ALICE, ALICE);
    next_job = 0;
    first = submit(ALICE, 7, START);
    cr_assert(job_id_equal(expect_job(ONE), first), "the same id, and the first run is not over");
    struct job_id second = submit(ALICE, 7, 0);
    desk_result(desk, ONE, first, 0, 1);
    cr_expect(desk_pending(&desk->clients, FRAME_RESULT) == 0 && desk_pending(&desk->workers, FRAME_SUBMIT) == 0,
              "the next one must not meet a run that begins the state anew");
    desk_result(desk, ONE, first, 0, 1);
    expect_end(first, PEN_OK, NULL);
    cr_assert(job_id_equal(expect_job(ONE), second));
}

/* After a restart of the broker a worker may still run a job that is sent to it again: the earlier run's end is taken for the later one's. */
static void a_run_that_nobody_waits_for_ends(struct job_id id, enum pen_status status)
{
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = id;
    env.sequence_id = 7;
    env.model_hash = frame_name_hash("adder");
    env.status = (uint8_t)status;
    desk_say_worker(desk, ONE, env, NULL, 0);
}

Test(sequence, a_later_run_that_fails_ends_it)
{
    step(ALICE, 7, START, ONE);
    struct job_id before = {.client = ALICE, .sequence = next_job};
    a_run_that_nobody_waits_for_ends(before, PEN_ERR_CANCELLED);
    step(ALICE, 7, START, ONE);
    a_run_that_nobody_waits_for_ends(before, PEN_ERR_NO_MEMORY);
    step(ALICE, 7, 0, ONE);
    a_run_that_nobody_waits_for_ends((struct job_id){.client = ALICE, .sequence = next_job}, PEN_ERR_NO_MEMORY);
    expect_end(submit(ALICE, 7, 0), PEN_ERR_UNAVAILABLE, "an earlier run of a job of it failed");
}

Test(sequence, a_client_may_have_so_many_open_and_any_number_that_have_ended)
{
    desk->clients.forget = desk->workers.forget = true;
    for (uint64_t id = 1; id <= SEQUENCES_PER_SESSION; id++) {
        struct job_id job = submit(ALICE, id, START);
        desk->clients.first = desk->clients.count; /* nobody reads them */
        desk->workers.first = desk->workers.count;
        desk_result(desk, ONE, job, 0, 1);
    }
    desk->clients.first = desk->clients.count;
    desk->workers.first = desk->workers.count;
    cr_expect(sequences_open(&desk->broker) == SEQUENCES_PER_SESSION);
    expect_end(submit(ALICE, 9999999, START), PEN_ERR_BUSY, "4096 sequences open, the limit");
    step(BOB, 1, START, ONE);
    step(ALICE, 5, END, ONE);
    step(ALICE, 9999999, START, ONE);
    desk_wait(desk, IDLE_US + 1000); /* all are silent: told why for a while, and in nobody's way */
    cr_expect(sequences_open(&desk->broker) == 0);
    step(ALICE, 4242, START, ONE);
}

/* ---- jobs that say which one they follow ---- */

Test(sequence, jobs_that_follow_each_other_run_in_their_order)
{
    struct job_id first = submit_after(ALICE, 7, START, 0), second = submit_after(ALICE, 7, 0, 1);
    struct job_id third = submit_after(ALICE, 7, END, 2);
    for (uint64_t i = 1; i <= 3; i++) {
        struct job_id id = expect_job(ONE);
        cr_assert(id.sequence == i);
        desk_result(desk, ONE, id, 0, 1);
    }
    expect_end(first, PEN_OK, NULL);
    expect_end(second, PEN_OK, NULL);
    expect_end(third, PEN_OK, NULL);
}

Test(sequence, a_job_whose_predecessor_never_came_ends_it_for_all_later_ones)
{
    step(ALICE, 7, START, ONE);
    next_job = 2; /* the client's job 2 had ended before it was sent */
    expect_end(submit_after(ALICE, 7, 0, 2), PEN_ERR_CANCELLED,
               "job 3 follows job 2, and the newest that ran here is job 1");
    cr_expect(sequences_open(&desk->broker) == 0);
    struct sent *cancel = desk_next(&desk->workers, FRAME_CANCEL);
    cr_expect(cancel && cancel->env.sequence_id == 7, "the worker is told");
    expect_end(submit_after(ALICE, 7, 0, 3), PEN_ERR_CANCELLED, "sequence 7 has ended: job 3 follows job 2");
    expect_end(submit_after(ALICE, 7, END, 4), PEN_ERR_CANCELLED, "begin it again");
    step(ALICE, 7, START, ONE);
    struct job_id next = submit_after(ALICE, 7, 0, 6);
    cr_assert(job_id_equal(expect_job(ONE), next), "it goes on from the new beginning");
}

Test(sequence, a_gap_ends_those_that_wait_too)
{
    step(ALICE, 7, START, ONE);
    struct job_id runs = submit_after(ALICE, 7, 0, 1), waits = submit_after(ALICE, 7, 0, 2);
    expect_job(ONE);
    next_job = 4;
    struct job_id late = submit_after(ALICE, 7, 0, 4);
    expect_end(waits, PEN_ERR_CANCELLED, "job 5 follows job 4");
    expect_end(late, PEN_ERR_CANCELLED, "job 5 follows job 4");
    desk_result(desk, ONE, runs, 0, 1);
    expect_end(runs, PEN_OK, NULL);
}

Test(sequence, what_is_sent_again_after_a_lost_session_does_not_jump_over_a_job_that_failed)
{
    step(ALICE, 7, START, ONE);
    desk_say_client(desk, ALICE, envelope_make(FRAME_GOODBYE), NULL, 0, 0);
    desk_client(desk, ALICE, ALICE);
    next_job = 0;
    step(ALICE, 7, START, ONE); /* its answer was lost; job 2 had failed, so it is not sent again */
    next_job = 2;
    expect_end(submit_after(ALICE, 7, 0, 2), PEN_ERR_CANCELLED, "job 3 follows job 2");
    cr_expect(desk_pending(&desk->workers, FRAME_SUBMIT) == 0, "it would go on from a wrong state");
}

Test(sequence, a_refused_job_is_a_gap)
{
    step(ALICE, 7, START, ONE);
    desk->options.max_job_bytes = 1;
    expect_end(submit_after(ALICE, 7, 0, 1), PEN_ERR_TOO_LARGE, NULL);
    desk->options.max_job_bytes = 1 << 20;
    expect_end(submit_after(ALICE, 7, 0, 2), PEN_ERR_CANCELLED, "sequence 7 has ended");
}
