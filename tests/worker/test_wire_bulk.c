/* Announced payloads whose bytes do not come: the worker gives them up at the job's deadline by itself, and has their memory again. */
#include "play_broker.h"

#include <criterion/criterion.h>
#include <string.h>

#define PAYLOAD  (3 * 1024 * 1024)
#define SESSION  UINT64_C(0x1234567812345678) /* that of play_cancel */
#define TRANSFER 5u

static struct play play;
static struct play_message message;

static void begin(void)
{
    const char *const arguments[] = {"--models",  PLAY_DIGITS,   "--backend", "reference",     "--slots",
                                     "1",         "--threads",   "1",         "--queue-bytes", "4MiB",
                                     "--metrics", "127.0.0.1:0", NULL};
    play_open(&play);
    play_start(&play, arguments);
    play_serve(&play, &message);
}

static void end(void)
{
    play_message_fini(&message);
    play_close(&play);
}

TestSuite(bulk, .init = begin, .fini = end, .timeout = 120);

static void announce(uint64_t sequence, uint64_t deadline_us)
{
    uint8_t bytes[1024];
    int64_t dims[] = {PAYLOAD / 64, 8, 8, 1};
    char name[] = "image", model[] = "digits";
    Penstock__TensorDesc desc = PENSTOCK__TENSOR_DESC__INIT, *descs[] = {&desc};
    Penstock__JobMeta meta = PENSTOCK__JOB_META__INIT;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    desc.name = name;
    desc.dtype = PEN_DTYPE_U8;
    desc.dims = dims;
    desc.n_dims = 4;
    desc.bytes = PAYLOAD;
    desc.frame = 1;
    meta.model = model;
    meta.inputs = descs;
    meta.n_inputs = 1;
    env.job = (struct job_id){SESSION, sequence};
    env.frames = 1;
    env.transfer = TRANSFER;
    env.deadline_us = deadline_us;
    play_send(&play, &env, bytes, penstock__job_meta__pack(&meta, bytes));
}

/* The next message of the main connection; what the bulk connection says is passed over. */
static enum frame_type next_type(void)
{
    do
        cr_assert(play_receive(&play, &message, PLAY_WAIT_MS), "log:\n%s", play_log(&play));
    while (message.env.type == FRAME_HEARTBEAT || message.env.type == FRAME_ATTACH);
    return (enum frame_type)message.env.type;
}

static void asked_for(uint64_t sequence)
{
    cr_assert_eq(next_type(), FRAME_CREDIT, "%s", play_log(&play));
    cr_assert_eq(message.env.job.sequence, sequence);
    cr_assert_eq(message.env.status, PEN_OK);
}

static void ended(uint64_t sequence, enum pen_status status)
{
    cr_assert_eq(next_type(), FRAME_RESULT, "%s", play_log(&play));
    cr_assert_eq(message.env.job.sequence, sequence);
    cr_assert_eq(message.env.status, status, "%s", pen_status_name(message.env.status));
}

Test(bulk, payload_that_does_not_come_is_given_up_at_the_deadline_and_its_memory_is_free)
{
    announce(1, 1000000); /* time enough to be asked for on a busy machine */
    asked_for(1);
    ended(1, PEN_ERR_DEADLINE);
    announce(2, 1000000);
    asked_for(2);
    ended(2, PEN_ERR_DEADLINE);
    cr_expect_eq(play_metric(&play, "jobs_expired_total"), 2);
    cr_expect_eq(play_metric(&play, "jobs_failed_total"), 0);
}

Test(bulk, cancelled_payload_is_free_at_once)
{
    announce(1, 0);
    asked_for(1);
    announce(2, 0);
    ended(2, PEN_ERR_BUSY); /* 4 MiB do not hold both */
    play_cancel(&play, 1);
    ended(1, PEN_ERR_CANCELLED);
    announce(3, 0);
    asked_for(3);
}
