/* Whole messages, dispatches, caps; and thousands of senseless ones. */
#include "in_flight.h"

#include "deadline.h"
#include "pack.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void *context, *out, *in;
static struct inbox *inbox;

static void open_pair(void)
{
    context = zmq_ctx_new();
    out = zmq_socket(context, ZMQ_PAIR);
    in = zmq_socket(context, ZMQ_PAIR);
    cr_assert(zmq_bind(in, "inproc://broker") == 0 && zmq_connect(out, "inproc://broker") == 0);
    inbox = inbox_new();
    cr_assert_not_null(inbox);
}

static void close_pair(void)
{
    int none = 0;
    inbox_free(inbox);
    zmq_setsockopt(out, ZMQ_LINGER, &none, sizeof none);
    zmq_close(out);
    zmq_close(in);
    zmq_ctx_term(context);
}

TestSuite(inbox, .init = open_pair, .fini = close_pair);

static struct envelope job_envelope(uint64_t sequence, uint8_t frames)
{
    struct envelope env = envelope_make(FRAME_SUBMIT);
    env.job = (struct job_id){.client = 5, .sequence = sequence};
    env.frames = frames;
    return env;
}

static void send_header(const struct envelope *env, int more)
{
    uint8_t bytes[FRAME_ENVELOPE_BYTES + 8] = {0};
    envelope_encode(env, bytes);
    cr_assert(zmq_send(out, bytes, FRAME_ENVELOPE_BYTES + env->meta_bytes, more ? ZMQ_SNDMORE : 0) >= 0);
}

static unsigned interrupts; /* so many of the next receptions are ended by a signal */

int __real_zmq_msg_recv(zmq_msg_t *frame, void *socket, int flags);
int __wrap_zmq_msg_recv(zmq_msg_t *frame, void *socket, int flags);

int __wrap_zmq_msg_recv(zmq_msg_t *frame, void *socket, int flags)
{
    static bool now;
    now = interrupts > 0 && !now;
    if (!now)
        return __real_zmq_msg_recv(frame, socket, flags);
    interrupts--;
    errno = EINTR;
    return -1;
}

Test(inbox, a_signal_between_two_frames_ends_no_message)
{
    struct message message;
    struct dispatch *dispatch = NULL;
    struct envelope a = job_envelope(1, 2);
    send_header(&a, 1);
    zmq_send(out, "xx", 2, ZMQ_SNDMORE);
    zmq_send(out, "yyy", 3, 0);
    interrupts = 3;
    cr_assert(inbox_receive(inbox, in, &message, NULL) == PEN_OK);
    cr_assert(inbox_dispatch(inbox, &message, 1000, &dispatch, NULL) == PEN_OK);
    cr_expect(dispatch->jobs_count == 1 && dispatch->frames_count == 3 && interrupts == 0);
    dispatch_free(dispatch);
    interrupts = 1;
    cr_expect(inbox_receive(inbox, in, &message, NULL) == PEN_ERR_UNAVAILABLE, "nothing is there");
    cr_expect_eq(interrupts, 0u);
}

Test(inbox, groups_become_jobs_with_their_frames)
{
    struct message message;
    struct dispatch *dispatch = NULL;
    struct envelope a = job_envelope(1, 2), b = job_envelope(2, 0);
    a.deadline_us = 500;
    b.meta_bytes = 4;
    send_header(&a, 1);
    zmq_send(out, "xx", 2, ZMQ_SNDMORE);
    zmq_send(out, "yyy", 3, ZMQ_SNDMORE);
    send_header(&b, 0);
    cr_assert(inbox_receive(inbox, in, &message, NULL) == PEN_OK);
    cr_assert(inbox_dispatch(inbox, &message, 1000, &dispatch, NULL) == PEN_OK);
    cr_expect(dispatch->jobs_count == 2 && dispatch->frames_count == 4);
    cr_expect(dispatch->jobs[0].first_frame == 1 && dispatch->jobs[0].deadline_us == 1500);
    cr_expect(dispatch->jobs[1].env.job.sequence == 2 && dispatch->jobs[1].deadline_us == DEADLINE_NONE);
    cr_expect(memcmp(zmq_msg_data(&dispatch->frames[2]), "yyy", 3) == 0);
    const uint8_t *header = zmq_msg_data(&dispatch->frames[3]);
    cr_expect(dispatch->jobs[1].meta == header + FRAME_ENVELOPE_BYTES);
    cr_expect(inbox_receive(inbox, in, &message, NULL) == PEN_ERR_UNAVAILABLE);
    dispatch_free(dispatch);
}

static void expect_refused(enum pen_status status)
{
    struct message message;
    struct dispatch *dispatch = NULL;
    struct pen_error error = {0};
    enum pen_status got = inbox_receive(inbox, in, &message, &error);
    if (got == PEN_OK)
        got = inbox_dispatch(inbox, &message, 0, &dispatch, &error);
    cr_expect(got == status, "%s instead of %s: %s", pen_status_name(got), pen_status_name(status), error.text);
    dispatch_free(dispatch);
}

Test(inbox, frames_that_do_not_match_are_corrupt)
{
    struct envelope missing = job_envelope(1, 2), cancel = envelope_make(FRAME_CANCEL), good = job_envelope(2, 0);
    send_header(&missing, 1);
    zmq_send(out, "x", 1, 0);
    expect_refused(PEN_ERR_CORRUPT);
    send_header(&good, 1);
    send_header(&cancel, 0);
    expect_refused(PEN_ERR_CORRUPT);
    send_header(&good, 1);
    zmq_send(out, "", 0, 0);
    expect_refused(PEN_ERR_CORRUPT);
    zmq_send(out, "PK", 2, 0);
    expect_refused(PEN_ERR_CORRUPT);
}

Test(inbox, too_many_jobs_or_frames_are_dropped_whole)
{
    struct envelope good = job_envelope(1, 0);
    for (int i = 0; i < 65; i++)
        send_header(&good, i < 64);
    expect_refused(PEN_ERR_TOO_LARGE);
    for (unsigned i = 0; i < INBOX_FRAMES_MAX + 50; i++)
        zmq_send(out, "x", 1, ZMQ_SNDMORE);
    zmq_send(out, "x", 1, 0);
    send_header(&good, 0);
    expect_refused(PEN_ERR_TOO_LARGE);
    struct message message;
    cr_expect(inbox_receive(inbox, in, &message, NULL) == PEN_OK, "the next message is whole again");
}

Test(inbox, another_major_version_is_told)
{
    uint8_t bytes[FRAME_ENVELOPE_BYTES];
    struct envelope env = envelope_make(FRAME_WELCOME);
    envelope_encode(&env, bytes);
    bytes[2] = 2;
    zmq_send(out, bytes, sizeof bytes, 0);
    expect_refused(PEN_ERR_VERSION);
}

Test(inbox, thousands_of_senseless_messages_do_no_harm)
{
    uint64_t state = 88172645463325252u;
    uint8_t bytes[256];
    for (int i = 0; i < 20000; i++) {
        struct envelope env = job_envelope((uint64_t)i, 0);
        envelope_encode(&env, bytes);
        for (int j = 0; j < 6; j++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes[state % 96] = (uint8_t)(state >> 40);
        }
        zmq_send(out, bytes, state % 90, state % 3 ? ZMQ_SNDMORE : 0);
        zmq_send(out, bytes, 80, 0);
        struct message message;
        struct dispatch *dispatch = NULL;
        while (inbox_receive(inbox, in, &message, NULL) != PEN_ERR_UNAVAILABLE) {
            if (message.env.type == FRAME_SUBMIT && inbox_dispatch(inbox, &message, 0, &dispatch, NULL) == PEN_OK)
                dispatch_free(dispatch);
            dispatch = NULL;
            memset(&message, 0, sizeof message);
        }
    }
}

Test(in_flight, caps_are_answered_with_busy_and_ids_are_found)
{
    struct job jobs[3] = {{.env = {.job = {1, 1}}}, {.env = {.job = {1, 2}}}, {.env = {.job = {1, 3}}}};
    struct dispatch a = {.jobs = jobs, .jobs_count = 2, .bytes = 60},
                    b = {.jobs = jobs + 2, .jobs_count = 1, .bytes = 50};
    struct dispatch *where = NULL;
    struct in_flight in_flight;
    in_flight_init(&in_flight, 3, 100);
    cr_assert(in_flight_add(&in_flight, &a, NULL) == PEN_OK);
    cr_expect(in_flight_add(&in_flight, &b, NULL) == PEN_ERR_BUSY, "bytes");
    b.bytes = 40;
    cr_assert(in_flight_add(&in_flight, &b, NULL) == PEN_OK);
    struct dispatch c = {.jobs = jobs, .jobs_count = 1};
    cr_expect(in_flight_add(&in_flight, &c, NULL) == PEN_ERR_BUSY, "jobs");
    cr_expect(in_flight_find(&in_flight, (struct job_id){1, 2}, &where) == &jobs[1] && where == &a);
    cr_expect_null(in_flight_find(&in_flight, (struct job_id){1, 9}, &where));
    atomic_store(&jobs[1].state, JOB_ANSWERED);
    cr_expect_null(in_flight_find(&in_flight, (struct job_id){1, 2}, &where));
    in_flight_remove(&in_flight, &a);
    cr_expect(in_flight.first == &b && in_flight.last == &b && in_flight.jobs == 1 && in_flight.bytes == 40);
    in_flight_remove(&in_flight, &b);
    cr_expect(!in_flight.first && !in_flight.last && in_flight.dispatches == 0);
}

/* ---- packs ---- */

/* A PACK of two SUBMITs, the first with a raw frame, and a PING. */
static size_t pack_write(struct pack_writer *writer)
{
    struct envelope a = job_envelope(1, 1), b = job_envelope(2, 0), ping = envelope_make(FRAME_PING);
    pack_limit(writer, pack_bytes_taken(0));
    envelope_encode(&a, pack_frame(writer, FRAME_ENVELOPE_BYTES, true));
    memset(pack_frame(writer, 5000, false), 6, 5000);
    envelope_encode(&b, pack_frame(writer, FRAME_ENVELOPE_BYTES, false));
    envelope_encode(&ping, pack_frame(writer, FRAME_ENVELOPE_BYTES, false));
    return pack_seal(writer);
}

Test(inbox, messages_of_a_pack_come_one_by_one)
{
    struct pack_writer writer = {0};
    struct message message;
    struct dispatch *first = NULL, *second = NULL;
    size_t bytes = pack_write(&writer);
    cr_assert(zmq_send(out, writer.bytes, bytes, 0) >= 0);
    pack_fini(&writer);
    cr_assert(!inbox_holds(inbox));
    cr_assert(inbox_receive(inbox, in, &message, NULL) == PEN_OK);
    cr_assert(inbox_dispatch(inbox, &message, 0, &first, NULL) == PEN_OK);
    cr_assert(inbox_holds(inbox));
    cr_assert(inbox_receive(inbox, in, &message, NULL) == PEN_OK);
    cr_assert(inbox_dispatch(inbox, &message, 0, &second, NULL) == PEN_OK);
    cr_assert(inbox_receive(inbox, in, &message, NULL) == PEN_OK && message.env.type == FRAME_PING);
    cr_assert(!inbox_holds(inbox));
    cr_assert(inbox_receive(inbox, in, &message, NULL) == PEN_ERR_UNAVAILABLE);
    cr_expect(first->jobs_count == 1 && first->frames_count == 2 && first->bytes == FRAME_ENVELOPE_BYTES + 5000);
    cr_expect(((const uint8_t *)zmq_msg_data(&first->frames[1]))[4999] == 6);
    cr_expect(second->jobs[0].env.job.sequence == 2);
    dispatch_free(first);
    dispatch_free(second);
}

Test(inbox, what_is_left_of_a_pack_goes_with_its_connection)
{
    struct pack_writer writer = {0};
    struct message message;
    size_t bytes = pack_write(&writer);
    cr_assert(zmq_send(out, writer.bytes, bytes, 0) >= 0);
    pack_fini(&writer);
    cr_assert(inbox_receive(inbox, in, &message, NULL) == PEN_OK);
    inbox_drop(inbox);
    cr_assert(!inbox_holds(inbox));
    cr_assert(inbox_receive(inbox, in, &message, NULL) == PEN_ERR_UNAVAILABLE);
}

Test(inbox, a_broken_pack_is_refused_and_the_next_message_is_read)
{
    struct pack_writer writer = {0};
    struct message message;
    struct pen_error error = {0};
    struct envelope ping = envelope_make(FRAME_PING);
    size_t bytes = pack_write(&writer);
    writer.bytes[bytes - FRAME_ENVELOPE_BYTES - 1] |= 0x80; /* the last message would go on */
    cr_assert(zmq_send(out, writer.bytes, bytes, 0) >= 0);
    pack_fini(&writer);
    send_header(&ping, 0);
    cr_assert(inbox_receive(inbox, in, &message, &error) == PEN_ERR_CORRUPT);
    cr_assert(strstr(error.text, "PACK") != NULL, "%s", error.text);
    cr_assert(inbox_receive(inbox, in, &message, NULL) == PEN_OK && message.env.type == FRAME_PING);
}
