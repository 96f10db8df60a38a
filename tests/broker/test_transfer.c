/*
 * Large payloads as credited chunks, on the desk: what is sent in which order, what a peer can make the broker hold, and what becomes of transfers whose
 * client, worker or connection is lost.
 */
#include <criterion/criterion.h>

#include "bulk.h"
#include "desk_bulk.h"

#define MIB     (1024u * 1024u)
#define LARGE   (3 * MIB)
#define CLIENT  1u /* peers of the ordinary connections */
#define OTHER   2u
#define WORKER  11u
#define SECOND  12u
#define SESSION 0xC1u
#define UUID    0xA1u

static struct wire_model wide = {.name = "wide",
                                 .version = 1,
                                 .backend = "xnnpack",
                                 .precision = PRECISION_F32,
                                 .warm_us = 1000,
                                 .digest = 9,
                                 .cacheable = true,
                                 .dim = -1};
static struct desk *desk;

static void worker_comes(uint32_t peer, uint64_t uuid, bool bulk)
{
    struct wire_worker worker = {
        .uuid = uuid, .name = "w", .slots = 4, .bulk = bulk, .models = &wide, .models_count = 1};
    desk_worker(desk, peer, &worker);
}

static void begin(void)
{
    desk = desk_new();
    desk_open(desk);
    desk_client_bulk(desk, CLIENT, SESSION, "");
    desk_client_bulk(desk, OTHER, SESSION + 1, "");
    worker_comes(WORKER, UUID, true);
    desk_attach(desk, DESK_CLIENT, CLIENT + DESK_BULK, SESSION);
    desk_attach(desk, DESK_WORKER, WORKER + DESK_BULK, UUID);
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(transfer, .init = begin, .fini = end);

static struct job_id id_of(uint64_t session, uint64_t sequence)
{
    return (struct job_id){.client = session, .sequence = sequence};
}

static struct wire_job job_of(uint64_t session, uint64_t sequence, size_t bytes)
{
    struct wire_job job = {.id = id_of(session, sequence), .model = "wide", .dims = {1, (int64_t)bytes}};
    job.raw = bytes > FRAME_INLINE_BYTES;
    job.digest = (uint8_t)sequence;
    job.no_cache = true;
    return job;
}

static void upload(uint32_t peer, const struct wire_job *job, uint32_t number)
{
    uint64_t bytes = (uint64_t)(job->dims[0] * job->dims[1]);
    desk_announce(desk, peer, job, number);
    desk_chunks(desk, DESK_CLIENT, peer + DESK_BULK, job->id, number, 0, bytes);
}

static void expect_nothing_held(void)
{
    cr_expect_eq(desk->broker.transfers.bytes, 0u);
    cr_expect_eq(desk->broker.transfers.open, 0u);
    cr_expect_eq(desk->broker.queued_bytes, 0u);
}

Test(transfer, small_jobs_pass_a_large_one_on_every_hop)
{
    struct wire_job large = job_of(SESSION, 1, LARGE), small = job_of(SESSION + 1, 1, 1000);
    desk_announce(desk, CLIENT, &large, 7);
    struct sent *granted = desk_next(&desk->clients, FRAME_CREDIT);
    cr_assert(granted && granted->peer == CLIENT && granted->env.transfer == 7);
    cr_expect_eq(granted->env.offset, BULK_WINDOW_BYTES, "a window, not the whole");
    desk_chunks(desk, DESK_CLIENT, CLIENT + DESK_BULK, large.id, 7, 0, MIB);
    desk_submit(desk, OTHER, &small);
    struct sent *first = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(first && job_id_equal(sent_job(first, 0), small.id), "it goes while the large one still comes");
    desk_chunks(desk, DESK_CLIENT, CLIENT + DESK_BULK, large.id, 7, MIB, LARGE);
    struct sent *announced = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(announced && job_id_equal(announced->env.job, large.id));
    uint32_t number = announced->env.transfer;
    cr_assert(number != 0 && announced->count == 1, "the header alone, on the ordinary connection");
    cr_expect_eq(announced->peer, WORKER);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_CHUNK), 0u, "nothing before the worker asks");

    desk_credit(desk, DESK_WORKER, WORKER, large.id, number, MIB);
    small.id.sequence = 2;
    desk_submit(desk, OTHER, &small);
    desk_credit(desk, DESK_WORKER, WORKER, large.id, number, LARGE);
    struct side *to = &desk->workers;
    for (size_t i = 0; i < MIB / BULK_CHUNK_BYTES; i++) {
        struct sent *piece = to->sent[to->first++];
        cr_assert(piece->env.type == FRAME_CHUNK && piece->peer == WORKER + DESK_BULK);
        cr_expect_eq(piece->env.offset, i * BULK_CHUNK_BYTES);
        cr_expect_eq(*(uint8_t *)zmq_msg_data(&piece->frames[1]), i + 1, "the client's bytes in their places");
    }
    cr_assert_eq(to->sent[to->first]->env.type, FRAME_SUBMIT, "the small one stands between the chunks");
    cr_expect_eq(desk_count_to(to, FRAME_CHUNK, WORKER + DESK_BULK), (LARGE - MIB) / BULK_CHUNK_BYTES);
}

Test(transfer, a_large_result_is_asked_for_and_announced)
{
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    desk_announce_result(desk, WORKER, small.id, LARGE, 3);
    struct sent *granted = desk_next(&desk->workers, FRAME_CREDIT);
    cr_assert(granted && granted->peer == WORKER && granted->env.transfer == 3);
    cr_expect_eq(granted->env.offset, BULK_WINDOW_BYTES);
    desk_chunks(desk, DESK_WORKER, WORKER + DESK_BULK, small.id, 3, 0, LARGE);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->count == 1 && result->env.transfer != 0 && result->env.frames == 1);
    desk_credit(desk, DESK_CLIENT, CLIENT, small.id, result->env.transfer, MIB / 2);
    cr_expect_eq(desk_count_to(&desk->clients, FRAME_CHUNK, CLIENT + DESK_BULK), MIB / 2 / BULK_CHUNK_BYTES,
                 "as far as the credit goes");
    desk_credit(desk, DESK_CLIENT, CLIENT, small.id, result->env.transfer, LARGE);
    cr_expect_eq(desk_count_to(&desk->clients, FRAME_CHUNK, CLIENT + DESK_BULK), (LARGE - MIB / 2) / BULK_CHUNK_BYTES);
    expect_nothing_held();
}

Test(transfer, credit_may_come_before_the_connection_does)
{
    struct wire_job small = job_of(SESSION + 1, 1, 1000);
    desk_submit(desk, OTHER, &small);
    desk_announce_result(desk, WORKER, small.id, LARGE, 3);
    desk_chunks(desk, DESK_WORKER, WORKER + DESK_BULK, small.id, 3, 0, LARGE);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    desk_credit(desk, DESK_CLIENT, OTHER, small.id, result->env.transfer, MIB);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_CHUNK), 0u);
    desk_attach(desk, DESK_CLIENT, OTHER + DESK_BULK, SESSION + 1);
    cr_expect_eq(desk_count_to(&desk->clients, FRAME_CHUNK, OTHER + DESK_BULK), MIB / BULK_CHUNK_BYTES);
}

Test(transfer, peers_that_do_not_know_it_get_whole_frames)
{
    worker_comes(SECOND, UUID + 1, false);
    desk_client(desk, CLIENT + 2, SESSION + 2);
    side_lose(&desk->workers, WORKER);
    broker_hint_workers(&desk->broker, -1);
    desk_wait(desk, 200000);
    struct wire_job large = job_of(SESSION + 2, 1, LARGE);
    desk_submit(desk, CLIENT + 2, &large);
    struct sent *whole = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(whole && whole->peer == SECOND && whole->count == 2 && whole->env.transfer == 0);
    cr_expect_eq(zmq_msg_size(&whole->frames[1]), LARGE);
    large = job_of(SESSION, 1, LARGE);
    upload(CLIENT, &large, 1);
    whole = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(whole && whole->count == 2 && whole->env.transfer == 0,
              "put together for the worker that knows no chunks");
    cr_expect_eq(((uint8_t *)zmq_msg_data(&whole->frames[1]))[LARGE - 1], LARGE / BULK_CHUNK_BYTES);
}

Test(transfer, a_result_for_a_client_that_does_not_know_it_is_put_together)
{
    desk_client(desk, CLIENT + 2, SESSION + 2);
    struct wire_job small = job_of(SESSION + 2, 1, 1000);
    desk_submit(desk, CLIENT + 2, &small);
    desk_announce_result(desk, WORKER, small.id, LARGE, 3);
    desk_chunks(desk, DESK_WORKER, WORKER + DESK_BULK, small.id, 3, 0, LARGE);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->count == 2 && result->env.transfer == 0);
    cr_expect_eq(zmq_msg_size(&result->frames[1]), LARGE);
}

Test(transfer, what_is_announced_is_judged_before_anything_is_held)
{
    static const struct {
        size_t bytes;
        enum pen_status status;
    } cases[] = {{300 * MIB, PEN_ERR_TOO_LARGE}, {200 * MIB, PEN_ERR_TOO_LARGE}, {99 * MIB, PEN_ERR_BUSY}};
    desk->options.queue_bytes = 100 * (int64_t)MIB;
    desk->broker.queued_bytes = 2 * MIB;
    for (size_t i = 0; i < 3; i++) {
        struct wire_job job = job_of(SESSION, 1 + i, LARGE);
        job.dims[1] = (int64_t)cases[i].bytes;
        desk_announce(desk, CLIENT, &job, 1);
        struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
        cr_assert(result && result->env.status == cases[i].status, "case %zu: %u", i, result ? result->env.status : 0);
    }
    desk->broker.queued_bytes = 0;
    expect_nothing_held();
}

Test(transfer, few_are_open_at_a_time_and_the_others_wait_without_memory)
{
    for (uint32_t i = 1; i <= 6; i++) {
        struct wire_job job = job_of(SESSION, i, LARGE);
        desk_announce(desk, CLIENT, &job, i);
    }
    cr_expect_eq(desk_count_to(&desk->clients, FRAME_CREDIT, CLIENT), TRANSFER_OPEN_PEER);
    cr_expect_eq(desk->broker.transfers.bytes, 6 * LARGE, "all count against --queue-bytes");
    struct wire_job job = job_of(SESSION + 1, 1, LARGE);
    desk_announce(desk, OTHER, &job, 1);
    cr_expect_eq(desk_count_to(&desk->clients, FRAME_CREDIT, OTHER), 1u, "another client does not wait for them");
    desk_chunks(desk, DESK_CLIENT, CLIENT + DESK_BULK, id_of(SESSION, 1), 1, 0, LARGE);
    struct side *to = &desk->clients;
    struct sent *last = to->sent[to->count - 1];
    cr_expect(last->env.type == FRAME_CREDIT && last->env.job.sequence == 5, "the fifth has its turn");
    for (uint32_t i = 7; i <= 80; i++) {
        job = job_of(SESSION, i, LARGE);
        desk_announce(desk, CLIENT, &job, i);
    }
    struct sent *refusal = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(refusal && refusal->env.status == PEN_ERR_BUSY, "a session may announce so many and no more");
}

Test(transfer, what_a_dead_client_had_sent_is_freed)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    desk_announce(desk, CLIENT, &large, 1);
    desk_chunks(desk, DESK_CLIENT, CLIENT + DESK_BULK, large.id, 1, 0, MIB);
    cr_expect_eq(desk->broker.transfers.bytes, LARGE);
    side_lose(&desk->clients, CLIENT);
    side_lose(&desk->clients, CLIENT + DESK_BULK);
    broker_hint_clients(&desk->broker, -1);
    desk_wait(desk, 200000);
    expect_nothing_held();
    desk_wait(desk, 5000000);
    cr_expect_null(session_find(&desk->broker.sessions, SESSION));
}

Test(transfer, cancelled_and_expired_uploads_are_answered_and_freed)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    desk_announce(desk, CLIENT, &large, 1);
    desk_chunk(desk, DESK_CLIENT, CLIENT + DESK_BULK, large.id, 1, 0, BULK_CHUNK_BYTES);
    desk_cancel(desk, CLIENT, large.id);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_ERR_CANCELLED);
    expect_nothing_held();
    desk_chunk(desk, DESK_CLIENT, CLIENT + DESK_BULK, large.id, 1, BULK_CHUNK_BYTES, BULK_CHUNK_BYTES);
    cr_expect_eq(desk_count_to(&desk->clients, FRAME_RESUME, CLIENT), 0u, "what was still on its way is passed over");

    large = job_of(SESSION, 2, LARGE);
    large.deadline_us = 300000;
    desk_announce(desk, CLIENT, &large, 2);
    desk_wait(desk, 700000);
    result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_ERR_DEADLINE);
    expect_nothing_held();
}

Test(transfer, the_time_on_the_way_counts_against_the_deadline)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    large.deadline_us = 1000000;
    desk_announce(desk, CLIENT, &large, 1);
    desk_wait(desk, 400000);
    desk_chunks(desk, DESK_CLIENT, CLIENT + DESK_BULK, large.id, 1, 0, LARGE);
    struct sent *submit = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(submit && submit->env.deadline_us <= 600000 && submit->env.deadline_us > 500000);
}

Test(transfer, a_payload_that_is_whole_at_its_deadline_is_too_late)
{
    for (uint64_t left_us = 0; left_us < 2; left_us++) {
        struct wire_job large = job_of(SESSION, 1 + left_us, LARGE);
        large.deadline_us = 100000;
        desk_announce(desk, CLIENT, &large, 1 + (uint32_t)left_us);
        desk_wait(desk, large.deadline_us - left_us);
        desk_chunks(desk, DESK_CLIENT, CLIENT + DESK_BULK, large.id, 1 + (uint32_t)left_us, 0, LARGE);
        struct sent *result = desk_next(&desk->clients, FRAME_RESULT),
                    *submit = desk_next(&desk->workers, FRAME_SUBMIT);
        cr_expect_eq(submit != NULL, left_us > 0);
        cr_expect(left_us > 0 || (result && result->env.status == PEN_ERR_DEADLINE));
    }
}

Test(transfer, a_chunk_out_of_place_ends_the_transfers_of_its_connection)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    desk_announce(desk, CLIENT, &large, 1);
    desk_chunk(desk, DESK_CLIENT, CLIENT + DESK_BULK, large.id, 1, 0, BULK_CHUNK_BYTES);
    desk_chunk(desk, DESK_CLIENT, CLIENT + DESK_BULK, large.id, 1, 3 * BULK_CHUNK_BYTES, BULK_CHUNK_BYTES);
    cr_expect_eq(desk_count_to(&desk->clients, FRAME_RESUME, CLIENT), 1u, "it is asked to begin anew");
    expect_nothing_held();
}

Test(transfer, more_than_was_granted_is_not_taken)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    desk_announce(desk, CLIENT, &large, 1);
    desk_chunk(desk, DESK_CLIENT, CLIENT + DESK_BULK, large.id, 1, 0, BULK_WINDOW_BYTES + 1);
    cr_expect_eq(desk_count_to(&desk->clients, FRAME_RESUME, CLIENT), 1u);
    expect_nothing_held();
}

Test(transfer, one_that_does_not_move_is_given_up)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    desk_announce(desk, CLIENT, &large, 1);
    desk_chunk(desk, DESK_CLIENT, CLIENT + DESK_BULK, large.id, 1, 0, BULK_CHUNK_BYTES);
    for (int i = 0; i < 30; i++) { /* its ordinary connection lives on */
        desk_wait(desk, 100000);
        desk_say_client(desk, CLIENT, envelope_make(FRAME_PING), NULL, 0, 0);
    }
    cr_expect_eq(desk_count_to(&desk->clients, FRAME_RESUME, CLIENT), 1u);
    expect_nothing_held();
    cr_expect(session_find(&desk->broker.sessions, SESSION)->connected);
}

Test(transfer, a_worker_lost_in_the_middle_costs_another_transfer_and_no_job)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    upload(CLIENT, &large, 1);
    struct sent *submit = desk_next(&desk->workers, FRAME_SUBMIT);
    desk_credit(desk, DESK_WORKER, WORKER, large.id, submit->env.transfer, MIB);
    worker_comes(SECOND, UUID + 1, true);
    desk_attach(desk, DESK_WORKER, SECOND + DESK_BULK, UUID + 1);
    side_lose(&desk->workers, WORKER);
    broker_hint_workers(&desk->broker, -1);
    desk_wait(desk, 200000);
    submit = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(submit && submit->peer == SECOND && submit->env.transfer != 0);
    desk_credit(desk, DESK_WORKER, SECOND, large.id, submit->env.transfer, LARGE);
    cr_expect_eq(desk_count_to(&desk->workers, FRAME_CHUNK, SECOND + DESK_BULK), LARGE / BULK_CHUNK_BYTES,
                 "from its first byte");
    desk_result(desk, SECOND, large.id, 1, 5);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_OK);
}

Test(transfer, a_result_half_sent_by_a_lost_worker_is_computed_again)
{
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    desk_next(&desk->workers, FRAME_SUBMIT);
    desk_announce_result(desk, WORKER, small.id, LARGE, 3);
    desk_chunks(desk, DESK_WORKER, WORKER + DESK_BULK, small.id, 3, 0, MIB);
    worker_comes(SECOND, UUID + 1, true);
    side_lose(&desk->workers, WORKER);
    broker_hint_workers(&desk->broker, -1);
    desk_wait(desk, 200000);
    struct sent *again = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(again && again->peer == SECOND && job_id_equal(again->env.job, small.id));
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0u);
}

Test(transfer, a_lost_bulk_connection_makes_its_worker_begin_anew)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    upload(CLIENT, &large, 1);
    struct sent *submit = desk_next(&desk->workers, FRAME_SUBMIT);
    side_lose(&desk->workers, WORKER + DESK_BULK);
    desk_credit(desk, DESK_WORKER, WORKER, large.id, submit->env.transfer, MIB);
    cr_expect_eq(desk_count_to(&desk->workers, FRAME_RESUME, WORKER), 1u);
    worker_comes(SECOND, UUID, true); /* says hello again on a new connection, without the job */
    submit = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(submit && submit->peer == SECOND && job_id_equal(submit->env.job, large.id));
}

Test(transfer, results_nobody_wants_are_declined)
{
    desk_announce_result(desk, WORKER, id_of(SESSION, 9), LARGE, 3);
    struct sent *declined = desk_next(&desk->workers, FRAME_CREDIT);
    cr_assert(declined && declined->env.status == PEN_ERR_CANCELLED);
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    desk_cancel(desk, CLIENT, small.id);
    desk_announce_result(desk, WORKER, small.id, LARGE, 4);
    declined = desk_next(&desk->workers, FRAME_CREDIT);
    cr_assert(declined && declined->env.status == PEN_ERR_CANCELLED);
    cr_expect_eq(fleet_by_peer(&desk->broker.fleet, WORKER)->messages, 0u, "its slot is free again");
}

/* Its jobs run on for nobody; what it sends again runs a second time. */
static void client_begins_anew(void)
{
    desk_say_client(desk, CLIENT, envelope_make(FRAME_GOODBYE), NULL, 0, 0);
    desk_client_bulk(desk, CLIENT, SESSION, "");
    desk_attach(desk, DESK_CLIENT, CLIENT + DESK_BULK, SESSION);
}

Test(transfer, a_job_that_runs_twice_on_one_worker_is_answered_with_its_payload)
{
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    client_begins_anew();
    desk_submit(desk, CLIENT, &small);
    cr_assert_eq(fleet_by_peer(&desk->broker.fleet, WORKER)->jobs, 2u);
    for (uint32_t number = 3; number <= 4; number++) {
        desk_announce_result(desk, WORKER, small.id, LARGE, number);
        struct sent *granted = desk_next(&desk->workers, FRAME_CREDIT);
        cr_assert(granted && granted->env.transfer == number && granted->env.status == PEN_OK,
                  "somebody waits for it, whichever run it is of");
    }
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0u, "no answer before the payload is here");
    desk_chunks(desk, DESK_WORKER, WORKER + DESK_BULK, small.id, 4, 0, MIB);
    desk_chunks(desk, DESK_WORKER, WORKER + DESK_BULK, small.id, 3, 0, LARGE);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_OK && result->env.frames == 1 && result->env.transfer != 0);
    desk_credit(desk, DESK_CLIENT, CLIENT, small.id, result->env.transfer, LARGE);
    cr_expect_eq(desk_count_to(&desk->clients, FRAME_CHUNK, CLIENT + DESK_BULK), LARGE / BULK_CHUNK_BYTES);
    desk_chunks(desk, DESK_WORKER, WORKER + DESK_BULK, small.id, 4, MIB, LARGE);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0u);
    cr_expect_eq(desk_count_to(&desk->workers, FRAME_RESUME, WORKER), 0u, "each chunk was its own transfer's next");
    cr_expect_eq(fleet_by_peer(&desk->broker.fleet, WORKER)->messages, 0u);
}

Test(transfer, the_result_of_a_first_run_leaves_the_second_its_payload)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    upload(CLIENT, &large, 1);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    client_begins_anew();
    upload(CLIENT, &large, 1);
    struct sent *second = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert_not_null(second);
    desk_result(desk, WORKER, large.id, 1, 5);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_OK);
    desk_credit(desk, DESK_WORKER, WORKER, large.id, second->env.transfer, LARGE);
    cr_expect_eq(desk_count_to(&desk->workers, FRAME_CHUNK, WORKER + DESK_BULK), LARGE / BULK_CHUNK_BYTES);
    desk_result(desk, WORKER, large.id, 1, 5);
    cr_expect_eq(fleet_by_peer(&desk->broker.fleet, WORKER)->messages, 0u);
    cr_expect_eq(desk->broker.stats.results_duplicate, 1u);
}

Test(transfer, a_worker_does_not_wait_for_the_payload_of_a_job_that_it_has_answered)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    upload(CLIENT, &large, 1);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_SUBMIT));
    desk_result(desk, WORKER, large.id, 1, 5); /* of a run that it had before its connection was lost */
    struct sent *cancel = desk_next(&desk->workers, FRAME_CANCEL);
    cr_assert(cancel && job_id_equal(cancel->env.job, large.id) && cancel->env.sequence_id == 0);
}

Test(transfer, a_worker_announces_no_more_results_than_it_holds_jobs)
{
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    desk_announce_result(desk, WORKER, small.id, LARGE, 3);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_CREDIT));
    desk_announce_result(desk, WORKER, small.id, LARGE, 4);
    struct sent *declined = desk_next(&desk->workers, FRAME_CREDIT);
    cr_assert(declined && declined->env.transfer == 4 && declined->env.status == PEN_ERR_CANCELLED);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0u, "the first is on its way");
    desk_chunks(desk, DESK_WORKER, WORKER + DESK_BULK, small.id, 3, 0, LARGE);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_OK);
}

/* A run that had been given back answers after all, with a payload; then the run that came in its place fails without one. */
Test(transfer, what_was_announced_of_a_run_that_ended_otherwise_is_no_other_ones_fault)
{
    struct wire_job first = job_of(SESSION, 1, 1000), second = job_of(SESSION, 2, 1000);
    desk_submit(desk, CLIENT, &first);
    desk_announce_result(desk, WORKER, first.id, LARGE, 3);
    cr_assert_not_null(desk_next(&desk->workers, FRAME_CREDIT));
    desk_result_status(desk, WORKER, first.id, PEN_ERR_NO_MEMORY, 5);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_ERR_NO_MEMORY);
    desk_submit(desk, CLIENT, &second);
    desk_announce_result(desk, WORKER, second.id, LARGE, 4);
    struct sent *declined = desk_next(&desk->workers, FRAME_CREDIT);
    cr_assert(declined && declined->env.transfer == 3 && declined->env.status == PEN_ERR_CANCELLED);
    struct sent *granted = desk_next(&desk->workers, FRAME_CREDIT);
    cr_assert(granted && granted->env.transfer == 4 && granted->env.status == PEN_OK);
    desk_chunks(desk, DESK_WORKER, WORKER + DESK_BULK, second.id, 4, 0, LARGE);
    result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_OK);
}

Test(transfer, a_result_too_large_is_a_typed_error)
{
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    desk_announce_result(desk, WORKER, small.id, 300 * (size_t)MIB, 3);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_ERR_TOO_LARGE);
}

Test(transfer, a_client_that_does_not_ask_for_its_results_gets_few_at_a_time)
{
    for (uint64_t i = 1; i <= 6; i++) {
        struct wire_job small = job_of(SESSION, i, 1000);
        desk_submit(desk, CLIENT, &small);
        desk_announce_result(desk, WORKER, small.id, LARGE, (uint32_t)i);
        desk_chunks(desk, DESK_WORKER, WORKER + DESK_BULK, small.id, (uint32_t)i, 0, LARGE);
    }
    struct sent *first = desk_next(&desk->clients, FRAME_RESULT);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), TRANSFER_REPLIES - 1);
    cr_expect_eq(session_find(&desk->broker.sessions, SESSION)->unsent, 2u);
    desk_credit(desk, DESK_CLIENT, CLIENT, first->env.job, first->env.transfer, LARGE);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), TRANSFER_REPLIES, "one through, the next announced");
}

Test(transfer, strangers_get_nothing)
{
    desk_attach(desk, DESK_CLIENT, 77, 0xDEAD);
    desk_attach(desk, DESK_WORKER, 78, 0xDEAD);
    desk_chunk(desk, DESK_CLIENT, 79, id_of(SESSION, 1), 1, 0, 1000);
    cr_expect_eq(desk_count_to(&desk->clients, FRAME_RESUME, 77) + desk_pending(&desk->workers, FRAME_RESUME), 2u);
    expect_nothing_held();
}

Test(transfer, the_setting_switches_it_off)
{
    desk->options.bulk_from = 0;
    struct wire_job large = job_of(SESSION, 1, LARGE);
    upload(CLIENT, &large, 1);
    struct sent *whole = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(whole && whole->count == 2 && whole->env.transfer == 0);
}
