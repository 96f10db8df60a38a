/*
 * Large payloads as credited chunks, on the desk: what is sent in which order, what a peer can make the broker hold, and what becomes of transfers whose
 * client, worker or connection is lost.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "back.h"
#include "bulk.h"
#include "desk.h"
#include "front.h"

#define MIB     (1024u * 1024u)
#define LARGE   (3 * MIB)
#define CLIENT  1u /* peers of the ordinary connections */
#define OTHER   2u
#define WORKER  11u
#define SECOND  12u
#define BULK    100u /* added for the bulk connections */
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

/* `bulk = true` behind a packed hello: field 50 of both. */
static size_t add_bulk(uint8_t *meta, size_t bytes, bool able)
{
    static const uint8_t field[] = {0x90, 0x03, 0x01};
    memcpy(meta + bytes, field, sizeof field);
    return bytes + (able ? sizeof field : 0);
}

static void client_comes(uint32_t peer, uint64_t uuid, bool able)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t bytes = add_bulk(meta, wire_client_hello(meta, uuid, "", 0), able);
    desk_say_client(desk, peer, envelope_make(FRAME_CLIENT_HELLO), meta, bytes, 0);
    struct sent *welcome = desk_next(&desk->clients, FRAME_WELCOME);
    cr_assert(welcome && welcome->env.status == PEN_OK);
}

static void worker_comes(uint32_t peer, uint64_t uuid, bool able)
{
    uint8_t meta[WIRE_META_BYTES];
    struct wire_worker worker = {.uuid = uuid, .name = "w", .slots = 4, .models = &wide, .models_count = 1};
    size_t bytes = add_bulk(meta, wire_worker_hello(meta, &worker), able);
    desk_say_worker(desk, peer, envelope_make(FRAME_WORKER_HELLO), meta, bytes);
    struct sent *welcome = desk_next(&desk->workers, FRAME_WELCOME);
    cr_assert(welcome && welcome->env.status == PEN_OK);
}

static void attach(bool worker, uint32_t peer, uint64_t uuid)
{
    struct envelope env = envelope_make(FRAME_ATTACH);
    env.job.client = uuid;
    if (worker)
        desk_say_worker(desk, peer, env, NULL, 0);
    else
        desk_say_client(desk, peer, env, NULL, 0, 0);
}

static void begin(void)
{
    desk = desk_new();
    desk_open(desk);
    client_comes(CLIENT, SESSION, true);
    client_comes(OTHER, SESSION + 1, true);
    worker_comes(WORKER, UUID, true);
    attach(false, CLIENT + BULK, SESSION);
    attach(true, WORKER + BULK, UUID);
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

static void announce(uint32_t peer, const struct wire_job *job, uint32_t number)
{
    static uint8_t meta[WIRE_META_BYTES];
    size_t raw_bytes, bytes = wire_job(meta, job, &raw_bytes);
    struct envelope env = wire_job_envelope(job);
    env.transfer = number;
    env.frames = 1;
    desk_say_client(desk, peer, env, meta, bytes, 0);
}

/* A CHUNK of `bytes` whose every byte is its offset's low MiB count. */
static void chunk(bool worker, uint32_t peer, struct job_id id, uint32_t number, uint64_t offset, size_t bytes)
{
    struct message message = {.peer = peer};
    struct envelope env = bulk_envelope(FRAME_CHUNK, id, number, offset);
    zmq_msg_t frame;
    zmq_msg_init_size(&frame, FRAME_ENVELOPE_BYTES);
    envelope_encode(&env, zmq_msg_data(&frame));
    message_add(&message, &frame);
    zmq_msg_init_size(&frame, bytes);
    memset(zmq_msg_data(&frame), (int)(offset / BULK_CHUNK_BYTES) + 1, bytes);
    message_add(&message, &frame);
    if (worker)
        back_message(&desk->broker, &message);
    else
        front_message(&desk->broker, &message);
    message_fini(&message);
    desk_run(desk);
}

static void chunks(bool worker, uint32_t peer, struct job_id id, uint32_t number, uint64_t from, uint64_t to)
{
    for (; from < to; from += BULK_CHUNK_BYTES)
        chunk(worker, peer, id, number, from, to - from < BULK_CHUNK_BYTES ? to - from : BULK_CHUNK_BYTES);
}

static void credit(bool worker, uint32_t peer, struct job_id id, uint32_t number, uint64_t until)
{
    struct envelope env = bulk_envelope(FRAME_CREDIT, id, number, until);
    if (worker)
        desk_say_worker(desk, peer, env, NULL, 0);
    else
        desk_say_client(desk, peer, env, NULL, 0, 0);
}

static void upload(uint32_t peer, const struct wire_job *job, uint32_t number)
{
    uint64_t bytes = (uint64_t)(job->dims[0] * job->dims[1]);
    announce(peer, job, number);
    chunks(false, peer + BULK, job->id, number, 0, bytes);
}

/* How many messages of that type and peer were sent since the last look, and all are looked at. */
static size_t count_to(struct side *side, enum frame_type type, uint32_t peer)
{
    size_t count = 0;
    for (; side->first < side->count; side->first++)
        count += side->sent[side->first]->env.type == type && side->sent[side->first]->peer == peer;
    return count;
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
    announce(CLIENT, &large, 7);
    struct sent *granted = desk_next(&desk->clients, FRAME_CREDIT);
    cr_assert(granted && granted->peer == CLIENT && granted->env.transfer == 7);
    cr_expect_eq(granted->env.offset, BULK_WINDOW_BYTES, "a window, not the whole");
    chunks(false, CLIENT + BULK, large.id, 7, 0, MIB);
    desk_submit(desk, OTHER, &small);
    struct sent *first = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(first && job_id_equal(sent_job(first, 0), small.id), "it goes while the large one still comes");
    chunks(false, CLIENT + BULK, large.id, 7, MIB, LARGE);
    struct sent *announced = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(announced && job_id_equal(announced->env.job, large.id));
    uint32_t number = announced->env.transfer;
    cr_assert(number != 0 && announced->count == 1, "the header alone, on the ordinary connection");
    cr_expect_eq(announced->peer, WORKER);
    cr_expect_eq(desk_pending(&desk->workers, FRAME_CHUNK), 0u, "nothing before the worker asks");

    credit(true, WORKER, large.id, number, MIB);
    small.id.sequence = 2;
    desk_submit(desk, OTHER, &small);
    credit(true, WORKER, large.id, number, LARGE);
    struct side *to = &desk->workers;
    for (size_t i = 0; i < MIB / BULK_CHUNK_BYTES; i++) {
        struct sent *piece = to->sent[to->first++];
        cr_assert(piece->env.type == FRAME_CHUNK && piece->peer == WORKER + BULK);
        cr_expect_eq(piece->env.offset, i * BULK_CHUNK_BYTES);
        cr_expect_eq(*(uint8_t *)zmq_msg_data(&piece->frames[1]), i + 1, "the client's bytes in their places");
    }
    cr_assert_eq(to->sent[to->first]->env.type, FRAME_SUBMIT, "the small one stands between the chunks");
    cr_expect_eq(count_to(to, FRAME_CHUNK, WORKER + BULK), (LARGE - MIB) / BULK_CHUNK_BYTES);
}

/* A RESULT of `bytes` announced by the worker. */
static void announce_result(uint32_t peer, struct job_id id, size_t bytes, uint32_t number)
{
    uint8_t meta[1024];
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__TensorDesc desc = PENSTOCK__TENSOR_DESC__INIT, *descs[] = {&desc};
    int64_t dims[] = {1, (int64_t)bytes};
    struct envelope env = envelope_make(FRAME_RESULT);
    desc.name = (char *)(uintptr_t) "y";
    desc.dtype = PEN_DTYPE_U8;
    desc.n_dims = 2;
    desc.dims = dims;
    desc.frame = 1;
    desc.bytes = bytes;
    result.outputs = descs;
    result.n_outputs = 1;
    result.backend = (char *)(uintptr_t) "xnnpack";
    env.job = id;
    env.frames = 1;
    env.transfer = number;
    desk_say_worker(desk, peer, env, meta, penstock__result_meta__pack(&result, meta));
}

Test(transfer, a_large_result_is_asked_for_and_announced)
{
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    announce_result(WORKER, small.id, LARGE, 3);
    struct sent *granted = desk_next(&desk->workers, FRAME_CREDIT);
    cr_assert(granted && granted->peer == WORKER && granted->env.transfer == 3);
    cr_expect_eq(granted->env.offset, BULK_WINDOW_BYTES);
    chunks(true, WORKER + BULK, small.id, 3, 0, LARGE);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->count == 1 && result->env.transfer != 0 && result->env.frames == 1);
    credit(false, CLIENT, small.id, result->env.transfer, MIB / 2);
    cr_expect_eq(count_to(&desk->clients, FRAME_CHUNK, CLIENT + BULK), 2u, "as far as the credit goes");
    credit(false, CLIENT, small.id, result->env.transfer, LARGE);
    cr_expect_eq(count_to(&desk->clients, FRAME_CHUNK, CLIENT + BULK), LARGE / BULK_CHUNK_BYTES - 2);
    expect_nothing_held();
}

Test(transfer, credit_may_come_before_the_connection_does)
{
    struct wire_job small = job_of(SESSION + 1, 1, 1000);
    desk_submit(desk, OTHER, &small);
    announce_result(WORKER, small.id, LARGE, 3);
    chunks(true, WORKER + BULK, small.id, 3, 0, LARGE);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    credit(false, OTHER, small.id, result->env.transfer, MIB);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_CHUNK), 0u);
    attach(false, OTHER + BULK, SESSION + 1);
    cr_expect_eq(count_to(&desk->clients, FRAME_CHUNK, OTHER + BULK), MIB / BULK_CHUNK_BYTES);
}

Test(transfer, peers_that_do_not_know_it_get_whole_frames)
{
    worker_comes(SECOND, UUID + 1, false);
    client_comes(CLIENT + 2, SESSION + 2, false);
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
    client_comes(CLIENT + 2, SESSION + 2, false);
    struct wire_job small = job_of(SESSION + 2, 1, 1000);
    desk_submit(desk, CLIENT + 2, &small);
    announce_result(WORKER, small.id, LARGE, 3);
    chunks(true, WORKER + BULK, small.id, 3, 0, LARGE);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->count == 2 && result->env.transfer == 0);
    cr_expect_eq(zmq_msg_size(&result->frames[1]), LARGE);
}

Test(transfer, what_is_announced_is_judged_before_anything_is_held)
{
    static const struct {
        size_t bytes;
        enum pen_status status;
    } cases[] = {{300 * MIB, PEN_ERR_TOO_LARGE}, {200 * MIB, PEN_ERR_BUSY}};
    desk->options.queue_bytes = 100 * (int64_t)MIB;
    for (size_t i = 0; i < 2; i++) {
        struct wire_job job = job_of(SESSION, 1 + i, LARGE);
        job.dims[1] = (int64_t)cases[i].bytes;
        announce(CLIENT, &job, 1);
        struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
        cr_assert(result && result->env.status == cases[i].status, "case %zu: %u", i, result ? result->env.status : 0);
    }
    expect_nothing_held();
}

Test(transfer, few_are_open_at_a_time_and_the_others_wait_without_memory)
{
    for (uint32_t i = 1; i <= 6; i++) {
        struct wire_job job = job_of(SESSION, i, LARGE);
        announce(CLIENT, &job, i);
    }
    cr_expect_eq(count_to(&desk->clients, FRAME_CREDIT, CLIENT), TRANSFER_OPEN_PEER);
    cr_expect_eq(desk->broker.transfers.bytes, 6 * LARGE, "all count against --queue-bytes");
    struct wire_job job = job_of(SESSION + 1, 1, LARGE);
    announce(OTHER, &job, 1);
    cr_expect_eq(count_to(&desk->clients, FRAME_CREDIT, OTHER), 1u, "another client does not wait for them");
    chunks(false, CLIENT + BULK, id_of(SESSION, 1), 1, 0, LARGE);
    struct side *to = &desk->clients;
    struct sent *last = to->sent[to->count - 1];
    cr_expect(last->env.type == FRAME_CREDIT && last->env.job.sequence == 5, "the fifth has its turn");
    for (uint32_t i = 7; i <= 80; i++) {
        job = job_of(SESSION, i, LARGE);
        announce(CLIENT, &job, i);
    }
    struct sent *refusal = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(refusal && refusal->env.status == PEN_ERR_BUSY, "a session may announce so many and no more");
}

Test(transfer, what_a_dead_client_had_sent_is_freed)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    announce(CLIENT, &large, 1);
    chunks(false, CLIENT + BULK, large.id, 1, 0, MIB);
    cr_expect_eq(desk->broker.transfers.bytes, LARGE);
    side_lose(&desk->clients, CLIENT);
    side_lose(&desk->clients, CLIENT + BULK);
    broker_hint_clients(&desk->broker, -1);
    desk_wait(desk, 200000);
    expect_nothing_held();
    desk_wait(desk, 5000000);
    cr_expect_null(session_find(&desk->broker.sessions, SESSION));
}

Test(transfer, cancelled_and_expired_uploads_are_answered_and_freed)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    announce(CLIENT, &large, 1);
    chunk(false, CLIENT + BULK, large.id, 1, 0, BULK_CHUNK_BYTES);
    desk_cancel(desk, CLIENT, large.id);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_ERR_CANCELLED);
    expect_nothing_held();
    chunk(false, CLIENT + BULK, large.id, 1, BULK_CHUNK_BYTES, BULK_CHUNK_BYTES);
    cr_expect_eq(count_to(&desk->clients, FRAME_RESUME, CLIENT), 0u, "what was still on its way is passed over");

    large = job_of(SESSION, 2, LARGE);
    large.deadline_us = 300000;
    announce(CLIENT, &large, 2);
    desk_wait(desk, 700000);
    result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_ERR_DEADLINE);
    expect_nothing_held();
}

Test(transfer, the_time_on_the_way_counts_against_the_deadline)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    large.deadline_us = 1000000;
    announce(CLIENT, &large, 1);
    desk_wait(desk, 400000);
    chunks(false, CLIENT + BULK, large.id, 1, 0, LARGE);
    struct sent *submit = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(submit && submit->env.deadline_us <= 600000 && submit->env.deadline_us > 500000);
}

Test(transfer, a_chunk_out_of_place_ends_the_transfers_of_its_connection)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    announce(CLIENT, &large, 1);
    chunk(false, CLIENT + BULK, large.id, 1, 0, BULK_CHUNK_BYTES);
    chunk(false, CLIENT + BULK, large.id, 1, 3 * BULK_CHUNK_BYTES, BULK_CHUNK_BYTES);
    cr_expect_eq(count_to(&desk->clients, FRAME_RESUME, CLIENT), 1u, "it is asked to begin anew");
    expect_nothing_held();
}

Test(transfer, more_than_was_granted_is_not_taken)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    announce(CLIENT, &large, 1);
    chunk(false, CLIENT + BULK, large.id, 1, 0, BULK_WINDOW_BYTES + 1);
    cr_expect_eq(count_to(&desk->clients, FRAME_RESUME, CLIENT), 1u);
    expect_nothing_held();
}

Test(transfer, one_that_does_not_move_is_given_up)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    announce(CLIENT, &large, 1);
    chunk(false, CLIENT + BULK, large.id, 1, 0, BULK_CHUNK_BYTES);
    for (int i = 0; i < 30; i++) { /* its ordinary connection lives on */
        desk_wait(desk, 100000);
        desk_say_client(desk, CLIENT, envelope_make(FRAME_PING), NULL, 0, 0);
    }
    cr_expect_eq(count_to(&desk->clients, FRAME_RESUME, CLIENT), 1u);
    expect_nothing_held();
    cr_expect(session_find(&desk->broker.sessions, SESSION)->connected);
}

Test(transfer, a_worker_lost_in_the_middle_costs_another_transfer_and_no_job)
{
    struct wire_job large = job_of(SESSION, 1, LARGE);
    upload(CLIENT, &large, 1);
    struct sent *submit = desk_next(&desk->workers, FRAME_SUBMIT);
    credit(true, WORKER, large.id, submit->env.transfer, MIB);
    worker_comes(SECOND, UUID + 1, true);
    attach(true, SECOND + BULK, UUID + 1);
    side_lose(&desk->workers, WORKER);
    broker_hint_workers(&desk->broker, -1);
    desk_wait(desk, 200000);
    submit = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(submit && submit->peer == SECOND && submit->env.transfer != 0);
    credit(true, SECOND, large.id, submit->env.transfer, LARGE);
    cr_expect_eq(count_to(&desk->workers, FRAME_CHUNK, SECOND + BULK), LARGE / BULK_CHUNK_BYTES, "from its first byte");
    desk_result(desk, SECOND, large.id, 1, 5);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_OK);
}

Test(transfer, a_result_half_sent_by_a_lost_worker_is_computed_again)
{
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    desk_next(&desk->workers, FRAME_SUBMIT);
    announce_result(WORKER, small.id, LARGE, 3);
    chunks(true, WORKER + BULK, small.id, 3, 0, MIB);
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
    side_lose(&desk->workers, WORKER + BULK);
    credit(true, WORKER, large.id, submit->env.transfer, MIB);
    cr_expect_eq(count_to(&desk->workers, FRAME_RESUME, WORKER), 1u);
    worker_comes(SECOND, UUID, true); /* says hello again on a new connection, without the job */
    submit = desk_next(&desk->workers, FRAME_SUBMIT);
    cr_assert(submit && submit->peer == SECOND && job_id_equal(submit->env.job, large.id));
}

Test(transfer, results_nobody_wants_are_declined)
{
    announce_result(WORKER, id_of(SESSION, 9), LARGE, 3);
    struct sent *declined = desk_next(&desk->workers, FRAME_CREDIT);
    cr_assert(declined && declined->env.status == PEN_ERR_CANCELLED);
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    desk_cancel(desk, CLIENT, small.id);
    announce_result(WORKER, small.id, LARGE, 4);
    declined = desk_next(&desk->workers, FRAME_CREDIT);
    cr_assert(declined && declined->env.status == PEN_ERR_CANCELLED);
    cr_expect_eq(fleet_by_peer(&desk->broker.fleet, WORKER)->messages, 0u, "its slot is free again");
}

/* Its jobs run on for nobody; what it sends again runs a second time. */
static void client_begins_anew(void)
{
    desk_say_client(desk, CLIENT, envelope_make(FRAME_GOODBYE), NULL, 0, 0);
    client_comes(CLIENT, SESSION, true);
    attach(false, CLIENT + BULK, SESSION);
}

Test(transfer, a_job_that_runs_twice_on_one_worker_is_answered_with_its_payload)
{
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    client_begins_anew();
    desk_submit(desk, CLIENT, &small);
    cr_assert_eq(fleet_by_peer(&desk->broker.fleet, WORKER)->jobs, 2u);
    for (uint32_t number = 3; number <= 4; number++) {
        announce_result(WORKER, small.id, LARGE, number);
        struct sent *granted = desk_next(&desk->workers, FRAME_CREDIT);
        cr_assert(granted && granted->env.transfer == number && granted->env.status == PEN_OK,
                  "somebody waits for it, whichever run it is of");
    }
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0u, "no answer before the payload is here");
    chunks(true, WORKER + BULK, small.id, 4, 0, MIB);
    chunks(true, WORKER + BULK, small.id, 3, 0, LARGE);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_OK && result->env.frames == 1 && result->env.transfer != 0);
    credit(false, CLIENT, small.id, result->env.transfer, LARGE);
    cr_expect_eq(count_to(&desk->clients, FRAME_CHUNK, CLIENT + BULK), LARGE / BULK_CHUNK_BYTES);
    chunks(true, WORKER + BULK, small.id, 4, MIB, LARGE);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0u);
    cr_expect_eq(count_to(&desk->workers, FRAME_RESUME, WORKER), 0u, "each chunk was its own transfer's next");
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
    credit(true, WORKER, large.id, second->env.transfer, LARGE);
    cr_expect_eq(count_to(&desk->workers, FRAME_CHUNK, WORKER + BULK), LARGE / BULK_CHUNK_BYTES);
    desk_result(desk, WORKER, large.id, 1, 5);
    cr_expect_eq(fleet_by_peer(&desk->broker.fleet, WORKER)->messages, 0u);
    cr_expect_eq(desk->broker.stats.results_duplicate, 1u);
}

Test(transfer, a_worker_announces_no_more_results_than_it_holds_jobs)
{
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    announce_result(WORKER, small.id, LARGE, 3);
    announce_result(WORKER, small.id, LARGE, 4);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_ERR_CORRUPT);
    chunks(true, WORKER + BULK, small.id, 3, 0, LARGE);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), 0u);
}

Test(transfer, a_result_too_large_is_a_typed_error)
{
    struct wire_job small = job_of(SESSION, 1, 1000);
    desk_submit(desk, CLIENT, &small);
    announce_result(WORKER, small.id, 300 * (size_t)MIB, 3);
    struct sent *result = desk_next(&desk->clients, FRAME_RESULT);
    cr_assert(result && result->env.status == PEN_ERR_TOO_LARGE);
}

Test(transfer, a_client_that_does_not_ask_for_its_results_gets_few_at_a_time)
{
    for (uint64_t i = 1; i <= 6; i++) {
        struct wire_job small = job_of(SESSION, i, 1000);
        desk_submit(desk, CLIENT, &small);
        announce_result(WORKER, small.id, LARGE, (uint32_t)i);
        chunks(true, WORKER + BULK, small.id, (uint32_t)i, 0, LARGE);
    }
    struct sent *first = desk_next(&desk->clients, FRAME_RESULT);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), TRANSFER_REPLIES - 1);
    cr_expect_eq(session_find(&desk->broker.sessions, SESSION)->unsent, 2u);
    credit(false, CLIENT, first->env.job, first->env.transfer, LARGE);
    cr_expect_eq(desk_pending(&desk->clients, FRAME_RESULT), TRANSFER_REPLIES, "one through, the next announced");
}

Test(transfer, strangers_get_nothing)
{
    attach(false, 77, 0xDEAD);
    attach(true, 78, 0xDEAD);
    chunk(false, 79, id_of(SESSION, 1), 1, 0, 1000);
    cr_expect_eq(count_to(&desk->clients, FRAME_RESUME, 77) + desk_pending(&desk->workers, FRAME_RESUME), 2u);
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
