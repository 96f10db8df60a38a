/* Large payloads in chunks: announced jobs that wait for their bytes, results that leave by credit, and what becomes of both when a connection ends. */
#include "net_side.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <string.h>

#include "bulk.h"
#include "deadline.h"

static struct link *link;
static uint8_t payload[3u << 20];

static void setup(void)
{
    cr_redirect_stderr();
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i * 7 + i / 251);
    net_open(1);
    link = &net_brokers.links[0];
    link->in_flight.limit_bytes = 64u << 20;
    net_serve_link(0, 5);
}

TestSuite(transfer, .init = setup, .fini = net_close);

static void take(void)
{
    messages_receive(&net_serve, net_now_us);
}

/* ---- what comes -------------------------------------------------------------------------------------------------------------------- */

/* A job of number `sequence` whose two inputs have these bytes, announced as transfer `number`. */
static void announce(uint64_t sequence, uint32_t number, size_t first, size_t second, uint64_t deadline_us)
{
    const struct pen_tensor in[] = {
        {.name = "a", .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {(int64_t)first}, .bytes = first, .data = payload},
        {.name = "b", .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {(int64_t)second}, .bytes = second, .data = payload}};
    Penstock__TensorDesc descs[2], *pointers[2];
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    uint32_t order[2];
    size_t raw = 0;
    tensors_encode(in, 2, descs, pointers, order, &raw);
    cr_assert(raw == 2);
    meta.model = meta_text("model");
    meta.inputs = pointers;
    meta.n_inputs = 2;
    env.job = (struct job_id){.client = 1, .sequence = sequence};
    env.frames = 2;
    env.transfer = number;
    env.deadline_us = deadline_us;
    net_send(0, &env, &meta.base);
    take();
}

static void chunk(uint64_t sequence, uint32_t number, uint64_t offset, size_t from, size_t bytes)
{
    struct envelope env =
        bulk_envelope(FRAME_CHUNK, (struct job_id){.client = 1, .sequence = sequence}, number, offset);
    net_send_bulk(0, &env, payload + from, bytes);
    take();
}

static void credit_comes(uint64_t sequence, uint32_t number, uint64_t until)
{
    net_expect(0, FRAME_CREDIT);
    cr_assert(net_got.env.job.sequence == sequence && net_got.env.transfer == number);
    cr_assert(net_got.env.offset == until, "credit until %u", (unsigned)net_got.env.offset);
}

static struct dispatch *taken(void)
{
    struct dispatch *dispatch = handoff_poll(net_serve.handoff);
    cr_assert_not_null(dispatch);
    return dispatch;
}

static void finish(struct dispatch *dispatch)
{
    exclusive_finished(&net_serve.exclusive, dispatch);
    in_flight_remove(&link->in_flight, dispatch);
    dispatch_free(dispatch);
}

/* Jobs of one dispatch, each of one input, announced as transfers 1, 2 ... */
static void announce_together(size_t jobs, size_t bytes)
{
    const struct pen_tensor in = {
        .name = "a", .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {(int64_t)bytes}, .bytes = bytes, .data = payload};
    Penstock__TensorDesc desc, *pointer;
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    const ProtobufCMessage *metas[8];
    struct envelope envs[8];
    uint32_t order;
    size_t raw = 0;
    tensors_encode(&in, 1, &desc, &pointer, &order, &raw);
    cr_assert_eq(raw, 1);
    meta.model = meta_text("model");
    meta.inputs = &pointer;
    meta.n_inputs = 1;
    for (size_t i = 0; i < jobs; i++) {
        envs[i] = envelope_make(FRAME_SUBMIT);
        envs[i].job = (struct job_id){.client = 1, .sequence = i + 1};
        envs[i].frames = 1;
        envs[i].transfer = (uint32_t)i + 1;
        metas[i] = &meta.base;
    }
    net_send_groups(0, envs, metas, jobs);
    take();
}

Test(transfer, a_dispatch_starts_when_the_bytes_of_all_its_jobs_have_come)
{
    enum { JOBS = 5, BYTES = 5000 };
    announce_together(JOBS, BYTES);
    for (uint64_t i = 1; i <= JOBS; i++)
        credit_comes(i, (uint32_t)i, BYTES);
    net_expect(0, FRAME_ATTACH);
    for (uint64_t i = JOBS; i > 0; i--) {
        cr_assert_null(handoff_poll(net_serve.handoff), "job %u has nothing yet", (unsigned)i);
        chunk(i, (uint32_t)i, 0, i, BYTES);
    }
    struct dispatch *dispatch = taken();
    cr_assert(dispatch->jobs_count == JOBS && dispatch->bytes >= JOBS * BYTES);
    for (size_t i = 0; i < JOBS; i++) {
        zmq_msg_t *frame = &dispatch->frames[dispatch->jobs[i].first_frame];
        cr_assert(zmq_msg_size(frame) == BYTES && memcmp(zmq_msg_data(frame), payload + i + 1, BYTES) == 0);
    }
    cr_assert(!link->transfers.arrivals);
    finish(dispatch);
}

Test(transfer, a_job_starts_when_all_its_bytes_have_come)
{
    announce(4, 9, 3000, 500, 0);
    credit_comes(4, 9, 3500);
    net_expect(0, FRAME_ATTACH);
    cr_assert(net_got.env.job.client == 77, "it says whose connection it is");
    cr_assert(link->in_flight.bytes >= 3500 && link->in_flight.jobs == 1);
    chunk(4, 9, 0, 0, 2000);
    chunk(4, 9, 2000, 2000, 1000);
    cr_assert_null(handoff_poll(net_serve.handoff));
    chunk(4, 9, 3000, 100, 500);
    struct dispatch *dispatch = taken();
    cr_assert(dispatch->frames_count == 3 && zmq_msg_size(&dispatch->frames[1]) == 3000);
    cr_assert(memcmp(zmq_msg_data(&dispatch->frames[1]), payload, 3000) == 0);
    cr_assert(zmq_msg_size(&dispatch->frames[2]) == 500);
    cr_assert(memcmp(zmq_msg_data(&dispatch->frames[2]), payload + 100, 500) == 0);
    cr_assert(!link->transfers.arrivals);
    finish(dispatch);
    cr_assert(link->in_flight.bytes == 0);
    announce(5, 10, 1200, 1200, 0);
    credit_comes(5, 10, 2400); /* the connection is there already */
    net_silent(0);
    chunk(5, 10, 0, 0, 1200);
    chunk(5, 10, 1200, 0, 1200);
    finish(taken());
}

Test(transfer, credit_goes_a_window_ahead)
{
    size_t sent = 0, large = sizeof payload - 5000;
    uint64_t granted = 0;
    announce(4, 9, large, 5000, 0);
    credit_comes(4, 9, BULK_WINDOW_BYTES);
    net_expect(0, FRAME_ATTACH);
    granted = BULK_WINDOW_BYTES;
    while (sent < large) {
        size_t piece = large - sent < BULK_CHUNK_BYTES ? large - sent : BULK_CHUNK_BYTES;
        if (sent + piece > granted) {
            net_expect(0, FRAME_CREDIT);
            cr_assert(net_got.env.offset > granted && net_got.env.offset <= sent + BULK_WINDOW_BYTES);
            granted = net_got.env.offset;
            continue;
        }
        chunk(4, 9, sent, sent, piece);
        sent += piece;
    }
    cr_assert_null(handoff_poll(net_serve.handoff));
    chunk(4, 9, large, 0, 5000);
    struct dispatch *dispatch = taken();
    cr_assert(memcmp(zmq_msg_data(&dispatch->frames[1]), payload, large) == 0);
    finish(dispatch);
}

Test(transfer, a_chunk_out_of_order_ends_the_connection)
{
    announce(4, 9, 3000, 500, 0);
    credit_comes(4, 9, 3500);
    net_expect(0, FRAME_ATTACH);
    chunk(4, 8, 0, 0, 1000);
    chunk(3, 9, 0, 0, 1000);
    net_silent(0);
    cr_assert(link->state == LINK_SERVING, "chunks of what is not awaited are passed over");
    chunk(4, 9, 1000, 1000, 1000);
    net_expect(0, FRAME_WORKER_HELLO);
    cr_assert(link->state == LINK_HELLO && !link->transfers.arrivals && !link->transfers.socket);
    cr_assert(link->in_flight.dispatches == 0 && atomic_load(&net_stats.messages_dropped) == 1);
}

Test(transfer, a_payload_beyond_the_limit_is_refused)
{
    net_options.frame_limit = 3000;
    announce(4, 9, 3001, 1500, 0);
    net_expect(0, FRAME_RESULT);
    cr_assert(net_got.env.job.sequence == 4 && net_got.env.status == PEN_ERR_TOO_LARGE);
    cr_assert(link->in_flight.dispatches == 0 && !link->transfers.arrivals);
    announce(5, 10, 3000, 1500, 0);
    credit_comes(5, 10, 4500);
    net_expect(0, FRAME_ATTACH);
    link->in_flight.limit_bytes = link->in_flight.bytes + 4000;
    announce(6, 11, 3000, 1500, 0);
    net_expect(0, FRAME_RESULT);
    cr_assert(net_got.env.job.sequence == 6 && net_got.env.status == PEN_ERR_BUSY);
    cr_assert(link->in_flight.dispatches == 1);
}

Test(transfer, a_cancelled_job_needs_no_bytes)
{
    struct envelope cancel = envelope_make(FRAME_CANCEL);
    announce(4, 9, 3000, 500, 0);
    credit_comes(4, 9, 3500);
    net_expect(0, FRAME_ATTACH);
    size_t before = link->in_flight.bytes;
    cancel.job = (struct job_id){.client = 1, .sequence = 4};
    net_send(0, &cancel, NULL);
    take();
    net_answered(0, 4, PEN_ERR_CANCELLED, "before it started");
    cr_assert(link->in_flight.bytes == before - 3500 && !link->transfers.arrivals);
    struct dispatch *dispatch = taken();
    cr_assert(zmq_msg_size(&dispatch->frames[1]) == 0 && zmq_msg_size(&dispatch->frames[2]) == 0);
    chunk(4, 9, 0, 0, 1000); /* on its way meanwhile */
    cr_assert(link->state == LINK_SERVING && atomic_load(&net_stats.messages_dropped) == 0);
    finish(dispatch);
    cr_assert(link->in_flight.bytes == 0);
}

Test(transfer, a_job_that_is_late_is_answered_without_its_bytes)
{
    announce(4, 9, 3000, 500, 5000);
    credit_comes(4, 9, 3500);
    net_expect(0, FRAME_ATTACH);
    announce(5, 10, 3000, 500, 7000);
    credit_comes(5, 10, 3500);
    cr_assert(transfer_late_us(link) == net_now_us + 5000);
    messages_expire(&net_serve, net_now_us + 4999);
    net_silent(0);
    messages_expire(&net_serve, net_now_us + 5000);
    net_answered(0, 4, PEN_ERR_DEADLINE, "before all of the payload had come");
    cr_assert(atomic_load(&net_stats.jobs_expired) == 1);
    cr_assert(transfer_late_us(link) == net_now_us + 7000);
    net_silent(0);
    finish(taken());
    messages_expire(&net_serve, net_now_us + 7000);
    net_answered(0, 5, PEN_ERR_DEADLINE, "");
    cr_assert(transfer_late_us(link) == DEADLINE_NONE && !link->transfers.arrivals);
    finish(taken());
}

Test(transfer, bytes_that_stop_coming_end_the_connection)
{
    cr_assert(!transfer_stalled(link, net_now_us + 100000000), "nothing is awaited");
    announce(4, 9, 3000, 500, 0);
    credit_comes(4, 9, 3500);
    net_expect(0, FRAME_ATTACH);
    net_now_us += 1500000;
    chunk(4, 9, 0, 0, 1000);
    cr_assert(!transfer_stalled(link, net_now_us + 1999999) && transfer_stalled(link, net_now_us + 2000000));
    link->received_us = net_now_us + 2000000; /* the broker itself is not silent */
    net_now_us += 2000000;
    link_check(link, net_now_us);
    net_expect(0, FRAME_WORKER_HELLO);
    const Penstock__WorkerHello *hello = net_meta(&penstock__worker_hello__descriptor);
    cr_assert(hello->n_running == 0, "the broker has it, and sends it again");
    cr_assert(link->in_flight.dispatches == 0);
}

Test(transfer, another_announcement_is_no_progress)
{
    announce(4, 9, 3000, 500, 0);
    net_now_us += 1500000;
    announce(5, 10, 3000, 500, 0);
    cr_assert(!transfer_stalled(link, net_now_us + 499999) && transfer_stalled(link, net_now_us + 500000));
}

/* ---- what goes --------------------------------------------------------------------------------------------------------------------- */

static void credit(uint64_t sequence, uint32_t number, uint64_t until, enum pen_status status)
{
    struct envelope env =
        bulk_envelope(FRAME_CREDIT, (struct job_id){.client = 1, .sequence = sequence}, number, until);
    env.status = (uint8_t)status;
    net_send(0, &env, NULL);
    take();
}

static void chunk_comes(uint64_t sequence, uint64_t offset, size_t bytes)
{
    net_expect(0, FRAME_CHUNK);
    cr_assert(net_got.env.job.sequence == sequence && net_got.env.offset == offset && net_got.count == 2);
    cr_assert(zmq_msg_size(&net_got.frames[1]) == bytes, "%zu bytes", zmq_msg_size(&net_got.frames[1]));
}

/* An announced result: its header alone, with the number of its transfer. */
static uint32_t announced(uint64_t sequence)
{
    net_expect(0, FRAME_RESULT);
    cr_assert(net_got.env.job.sequence == sequence && net_got.count == 1);
    cr_assert(net_got.env.frames == 1 && net_got.env.transfer != 0);
    return net_got.env.transfer;
}

Test(transfer, a_large_result_leaves_by_credit)
{
    link->transfers.from_bytes = 2999;
    link_reply(link, net_reply(1, 2999)); /* not above the limit */
    net_expect(0, FRAME_RESULT);
    cr_assert(net_got.count == 2 && net_got.env.transfer == 0);
    link_reply(link, net_reply(2, 3000));
    uint32_t number = announced(2);
    net_silent(0);
    credit(2, number, 1000, PEN_OK);
    net_expect(0, FRAME_ATTACH);
    chunk_comes(2, 0, 1000);
    credit(2, number + 1, 3000, PEN_OK); /* of another */
    credit(3, number, 3000, PEN_OK);
    credit(2, number, 900, PEN_OK);  /* backwards */
    credit(2, number, 3001, PEN_OK); /* beyond the end */
    net_silent(0);
    credit(2, number, 3000, PEN_OK);
    chunk_comes(2, 1000, 2000);
    cr_assert(!link->transfers.departures);
    credit(2, number, 3000, PEN_OK);
    net_silent(0);
}

Test(transfer, several_results_leave_side_by_side)
{
    link->transfers.from_bytes = 2500;
    link_reply(link, net_reply(1, 3000));
    uint32_t first = announced(1);
    link_reply(link, net_reply(2, 4000));
    uint32_t second = announced(2);
    cr_assert(first != second);
    credit(2, second, 4000, PEN_OK);
    net_expect(0, FRAME_ATTACH);
    chunk_comes(2, 0, 4000);
    credit(1, first, 3000, PEN_OK);
    chunk_comes(1, 0, 3000);
    link->transfers.numbers = UINT32_MAX;
    link_reply(link, net_reply(3, 3000));
    cr_assert(announced(3) == 1, "no transfer has the number 0");
}

Test(transfer, a_result_that_is_not_wanted_is_dropped)
{
    link->transfers.from_bytes = 2500;
    link_reply(link, net_reply(1, 3000));
    link_reply(link, net_reply(2, 3000));
    uint32_t first = announced(1), second = announced(2);
    credit(1, first, 0, PEN_ERR_CANCELLED);
    credit(2, second, 3000, PEN_OK);
    net_expect(0, FRAME_ATTACH);
    chunk_comes(2, 0, 3000);
    cr_assert(!link->transfers.departures);
}

/* A reply of two jobs with outputs of so many bytes. */
static struct reply *two_jobs(size_t first, size_t second)
{
    struct reply *reply = reply_new(2, 4);
    const size_t bytes[] = {first, second};
    for (uint64_t i = 0; i < 2; i++) {
        Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
        struct envelope env = envelope_make(FRAME_SUBMIT);
        env.job = (struct job_id){.client = 1, .sequence = i + 1};
        const struct pen_tensor output = {.name = "y",
                                          .dtype = PEN_DTYPE_U8,
                                          .rank = 1,
                                          .dims = {(int64_t)bytes[i]},
                                          .data = payload + i,
                                          .bytes = bytes[i]};
        cr_assert(reply_add(reply, &env, &(struct reply_group){.outputs = &output, .outputs_count = 1}, &meta, NULL) ==
                  PEN_OK);
    }
    return reply;
}

Test(transfer, only_the_large_jobs_of_a_reply_are_announced)
{
    link->transfers.from_bytes = 3000;
    for (int round = 0; round < 2; round++) {
        uint64_t large = round == 0 ? 1 : 2;
        link_reply(link, round == 0 ? two_jobs(9000, 2500) : two_jobs(2500, 9000));
        uint32_t number = announced(large);
        net_expect(0, FRAME_RESULT);
        cr_assert(net_got.env.job.sequence == 3 - large && net_got.count == 2 && net_got.env.transfer == 0);
        cr_assert(memcmp(zmq_msg_data(&net_got.frames[1]), payload + 2 - large, 2500) == 0);
        credit(large, number, 9000, PEN_OK);
        if (round == 0)
            net_expect(0, FRAME_ATTACH);
        chunk_comes(large, 0, 9000);
        cr_assert(memcmp(zmq_msg_data(&net_got.frames[1]), payload + large - 1, 9000) == 0);
    }
    link_reply(link, two_jobs(2500, 2500)); /* together above the limit, none alone */
    net_expect(0, FRAME_RESULT);
    cr_assert(net_got.count == 4);
    link_reply(link, two_jobs(3001, 3002));
    announced(1);
    announced(2);
    net_silent(0);
}

Test(transfer, results_that_have_not_left_go_with_the_next_connection)
{
    link->transfers.from_bytes = 2500;
    for (uint64_t i = 1; i <= 3; i++)
        link_reply(link, net_reply(i, 3000));
    uint32_t first = announced(1);
    announced(2);
    announced(3);
    credit(1, first, 1000, PEN_OK);
    net_expect(0, FRAME_ATTACH);
    chunk_comes(1, 0, 1000);
    net_now_us += 100000;
    net_send_type(0, FRAME_RESUME);
    take();
    net_expect(0, FRAME_WORKER_HELLO);
    const Penstock__WorkerHello *hello = net_meta(&penstock__worker_hello__descriptor);
    cr_assert(hello->n_running == 3 && hello->running[0]->sequence == 1 && hello->running[2]->sequence == 3);
    cr_assert(!link->transfers.socket && !link->transfers.departures && link->transfers.from_bytes == 0);
    net_welcome(0, 5, PEN_OK, ""); /* it wants no chunks now */
    take();
    for (uint64_t i = 1; i <= 3; i++) {
        net_expect(0, FRAME_RESULT);
        cr_assert(net_got.env.job.sequence == i && net_got.count == 2 && net_got.env.transfer == 0);
    }
}
