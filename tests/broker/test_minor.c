/*
 * Old and new minor versions at one broker. The bytes of version 1.0 are those of the vectors, which were written with its first encoder and are frozen; those of a later
 * one are the same with a longer envelope, meta fields, and message types that this side has never heard of.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "worker_handler.h"
#include "desk.h"
#include "client_handler.h"
#include "vector_file.h"

#define VECTORS  PENSTOCK_SOURCE "/tests/proto/vectors/"
#define CLIENT   1u
#define WORKER   900u
#define LONGER   8u /* bytes that the later envelope has more */
#define TYPE_NEW 200

static struct desk *desk;

static void begin(void)
{
    desk = desk_new();
    desk_open(desk);
}

static void end(void)
{
    desk_free(desk);
}

TestSuite(minor, .init = begin, .fini = end);

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* The header frame as version 1.9 would send it: 88 bytes of envelope, two meta fields of a number that 1.0 does not have. */
static size_t lift(const uint8_t *frame, size_t size, uint8_t *to)
{
    static const uint8_t fields[] = {0xA2, 0x7D, 2, 'h', 'i', 0xA8, 0x7D, 5}; /* 2004: "hi", 2005: 5 */
    memcpy(to, frame, FRAME_ENVELOPE_BYTES);
    to[3] = 9;
    to[5] = FRAME_ENVELOPE_BYTES + LONGER;
    put_u32(to + 72, (uint32_t)(size - FRAME_ENVELOPE_BYTES + sizeof fields));
    memset(to + FRAME_ENVELOPE_BYTES, 0xEE, LONGER);
    size_t used = FRAME_ENVELOPE_BYTES + LONGER;
    memcpy(to + used, frame + FRAME_ENVELOPE_BYTES, size - FRAME_ENVELOPE_BYTES);
    used += size - FRAME_ENVELOPE_BYTES;
    memcpy(to + used, fields, sizeof fields);
    return used + sizeof fields;
}

/* The hello's model takes pictures of 8x8, the job's has 4x4: the same bytes with the job's size. */
static void picture_resize(struct vector_frame *frame)
{
    static const uint8_t eight[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 1, 8, 8};
    uint8_t *found = memmem(frame->data, frame->bytes, eight, sizeof eight);
    cr_assert_not_null(found);
    found[11] = found[12] = 4;
}

/* Says the vector at that door, as it is or lifted. */
static void say(const char *name, bool to_workers, bool lifted)
{
    char path[512];
    struct vector vector;
    struct message message = {.count = 0};
    static uint8_t bytes[1 << 16];
    size_t sizes[VECTOR_FRAMES_MAX], used = 0;
    snprintf(path, sizeof path, VECTORS "%s.vec", name);
    cr_assert_eq(vector_read(path, &vector), 0);
    if (strcmp(name, "worker_hello") == 0)
        picture_resize(&vector.frames[0]);
    for (size_t i = 0; i < vector.frames_count; used += sizes[i++]) {
        const struct vector_frame *frame = &vector.frames[i];
        sizes[i] = i == 0 && lifted ? lift(frame->data, frame->bytes, bytes + used) : frame->bytes;
        if (i > 0 || !lifted)
            memcpy(bytes + used, frame->data, frame->bytes);
    }
    desk_frames(&message, to_workers ? WORKER : CLIENT, bytes, sizes, vector.frames_count);
    if (to_workers)
        worker_message(&desk->broker, &message);
    else
        client_message(&desk->broker, &message);
    message_fini(&message);
    vector_fini(&vector);
    desk_wait(desk, 1000); /* the model waits 250 us for company */
}

/* Whatever the broker says, it says in its own version: others may not know more. */
static struct sent *heard(struct side *side, enum frame_type type)
{
    struct sent *sent = desk_next(side, type);
    cr_assert_not_null(sent, "%s", frame_type_name((uint8_t)type));
    const uint8_t *bytes = zmq_msg_data(&sent->frames[0]);
    cr_assert_eq(bytes[3], FRAME_VERSION_MINOR);
    cr_assert_eq(bytes[5], FRAME_ENVELOPE_BYTES);
    return sent;
}

static void job_is_answered(bool client_new, bool worker_new)
{
    say("worker_hello", true, worker_new);
    cr_assert_eq(heard(&desk->workers, FRAME_WELCOME)->env.status, PEN_OK);
    say("client_hello", false, client_new);
    cr_assert_eq(heard(&desk->clients, FRAME_WELCOME)->env.status, PEN_OK);
    say("submit_inline", false, client_new);
    struct sent *work = heard(&desk->workers, FRAME_SUBMIT);
    cr_assert_eq(sent_job(work, 0).sequence, 7);
    say("heartbeat", true, worker_new);
    say("result_inline", true, worker_new);
    struct sent *answer = heard(&desk->clients, FRAME_RESULT);
    cr_assert_eq(answer->env.status, PEN_OK);
    cr_assert_eq(answer->env.job.sequence, 7);
    Penstock__ResultMeta *meta = sent_result(answer);
    cr_assert_eq(meta->n_outputs, 1);
    cr_assert_str_eq(meta->outputs[0]->name, "scores");
    cr_assert_eq(meta->outputs[0]->data.len, 40);
    penstock__result_meta__free_unpacked(meta, NULL);
    say("ack", false, client_new);
    say("goodbye", false, client_new);
    cr_assert_eq(desk->broker.stats.messages_bad, 0);
}

Test(minor, bytes_of_the_first_version_go_all_the_way)
{
    job_is_answered(false, false);
}

Test(minor, newer_client_with_an_older_worker)
{
    job_is_answered(true, false);
}

Test(minor, older_client_with_a_newer_worker)
{
    job_is_answered(false, true);
}

Test(minor, both_newer)
{
    job_is_answered(true, true);
}

/* A message of a type that comes later is passed over: whoever sent it stays, and is answered otherwise. */
Test(minor, types_of_later_versions_are_passed_over)
{
    uint8_t bytes[FRAME_ENVELOPE_BYTES], later[FRAME_ENVELOPE_BYTES + LONGER + 16];
    struct envelope env = envelope_make(FRAME_PING);
    say("worker_hello", true, true);
    say("client_hello", false, true);
    envelope_encode(&env, bytes);
    size_t size = lift(bytes, sizeof bytes, later);
    later[4] = TYPE_NEW;
    for (int to_workers = 0; to_workers < 2; to_workers++) {
        struct message message = {.count = 0};
        desk_frames(&message, to_workers ? WORKER : CLIENT, later, &size, 1);
        if (to_workers)
            worker_message(&desk->broker, &message);
        else
            client_message(&desk->broker, &message);
        message_fini(&message);
    }
    say("submit_inline", false, true);
    heard(&desk->workers, FRAME_SUBMIT);
    say("result_inline", true, true);
    cr_assert_eq(heard(&desk->clients, FRAME_RESULT)->env.status, PEN_OK);
}
