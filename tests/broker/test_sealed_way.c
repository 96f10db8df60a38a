/*
 * Sealed memory on the desk: real Unix sockets and memory, a table for the rest. Payloads go through as the same memory; who is not bound gets bytes; who
 * lies is asked to begin anew, and nothing of its is left.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <string.h>

#include "desk_bulk.h"
#include "parcel_door.h"
#include "sealed_way.h"

#define CLIENT  1u
#define WORKER  11u
#define SESSION 0xC1u
#define UUID    0xA1u
#define LARGE   (200u * 1024u) /* more than --sealed-from, less than --bulk-from */

static struct wire_model wide = {.name = "wide",
                                 .version = 1,
                                 .backend = "xnnpack",
                                 .precision = PRECISION_F32,
                                 .warm_us = 1000,
                                 .digest = 9,
                                 .cacheable = true,
                                 .dim = -1};
static struct desk *desk;
static struct parcel_door door;
static struct parcel_link client, worker;
static struct pen_error error;

/* Field `sealed`, behind whatever hello: protobuf's messages are put together by putting them one behind the other. */
static size_t sealed_add(uint8_t *meta, size_t bytes)
{
    static const uint8_t field[] = {0xA0, 0x06, 1};
    memcpy(meta + bytes, field, sizeof field);
    return bytes + sizeof field;
}

/* Binds the peer as the WELCOME says. */
static void bind_peer(struct side *side, struct parcel_link *link, uint64_t uuid, bool is_worker)
{
    struct sent *sent = desk_next(side, FRAME_WELCOME);
    cr_assert(sent && sent->env.status == PEN_OK);
    Penstock__Welcome *welcome = penstock__welcome__unpack(NULL, sent->env.meta_bytes, sent->meta);
    cr_assert(welcome && welcome->sealed_secret.len == PARCEL_SECRET_BYTES);
    cr_expect_eq(welcome->sealed_bytes, (uint64_t)desk->options.sealed_from);
    cr_assert(parcel_ask(link, welcome->sealed_name, welcome->sealed_secret.data, uuid, is_worker));
    penstock__welcome__free_unpacked(welcome, NULL);
    sealed_way_look(&desk->broker);
    cr_assert(parcel_ready(link));
}

static void client_comes(void)
{
    uint8_t meta[1024];
    size_t bytes = sealed_add(meta, wire_client_hello(meta, SESSION, "", 0));
    desk_say_client(desk, CLIENT, envelope_make(FRAME_CLIENT_HELLO), meta, bytes, 0);
    bind_peer(&desk->clients, &client, SESSION, false);
}

static void worker_comes(bool sealed)
{
    static uint8_t meta[WIRE_META_BYTES];
    struct wire_worker hello = {.uuid = UUID, .name = "w", .slots = 4, .models = &wide, .models_count = 1};
    size_t bytes = wire_worker_hello(meta, &hello);
    desk_say_worker(desk, WORKER, envelope_make(FRAME_WORKER_HELLO), meta, sealed ? sealed_add(meta, bytes) : bytes);
    if (sealed)
        bind_peer(&desk->workers, &worker, UUID, true);
}

static void begin(void)
{
    desk = desk_new();
    desk->options.sealed_from = 128 * 1024;
    desk_open(desk);
    cr_assert_eq(parcel_door_open(&door, &error), PEN_OK, "%s", error.text);
    desk->broker.transfers.door = &door;
    client_comes();
}

static void end(void)
{
    desk_free(desk);
    parcel_close(&client);
    parcel_close(&worker);
    parcel_door_close(&door);
}

TestSuite(sealed_way, .init = begin, .fini = end);

static size_t files_open(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static uint32_t give(struct parcel_link *link, uint8_t fill)
{
    static uint8_t bytes[LARGE];
    const struct sealed_piece piece = {bytes, sizeof bytes};
    struct parcel parcel = {.number = 0};
    size_t offset;
    memset(bytes, fill, sizeof bytes);
    struct sealed *block = sealed_copy(&piece, 1, &offset);
    cr_assert(block && parcel_add(&parcel, block, offset, sizeof bytes) && parcel_send(link, &parcel));
    sealed_release(block);
    return parcel.number;
}

static void expect_given(struct parcel_link *link, const struct sent *sent, uint8_t fill)
{
    const struct parcel_limits any = {.frame_bytes_max = 0};
    struct parcel parcel;
    cr_assert(sent && sent->count == 1 && (sent->env.flags & FRAME_FLAG_SEALED), "the header alone");
    cr_assert_eq(parcel_take(link, sent->env.transfer, &any, &parcel, &error), PEN_OK, "%s", error.text);
    cr_assert(parcel.frames_count == 1 && parcel.frames[0].bytes == LARGE);
    const uint8_t *bytes = sealed_data(parcel.blocks[0]) + parcel.frames[0].offset;
    cr_expect(bytes[0] == fill && bytes[LARGE - 1] == fill);
    parcel_drop(&parcel);
}

static void expect_bytes(const struct sent *sent, uint8_t fill)
{
    cr_assert(sent && sent->count == 2 && sent->env.transfer == 0 && !(sent->env.flags & FRAME_FLAG_SEALED));
    zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&sent->frames[1];
    const uint8_t *bytes = zmq_msg_data(frame);
    cr_expect(zmq_msg_size(frame) == LARGE && bytes[0] == fill && bytes[LARGE - 1] == fill);
}

static struct wire_job job_of(uint64_t sequence)
{
    return (struct wire_job){.id = {.client = SESSION, .sequence = sequence},
                             .model = "wide",
                             .dims = {1, LARGE},
                             .raw = true,
                             .digest = (uint8_t)sequence,
                             .flags = FRAME_FLAG_SEALED};
}

static void submit(uint64_t sequence)
{
    struct wire_job job = job_of(sequence);
    desk_announce(desk, CLIENT, &job, give(&client, (uint8_t)sequence));
}

/* A RESULT whose y lies in sealed memory. */
static void answer(uint64_t sequence, uint8_t fill)
{
    uint8_t meta[1024];
    int64_t dims[] = {1, LARGE};
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__TensorDesc y = PENSTOCK__TENSOR_DESC__INIT, *outputs[] = {&y};
    struct envelope env = envelope_make(FRAME_RESULT);
    y.name = "y";
    y.dtype = PEN_DTYPE_U8;
    y.n_dims = 2;
    y.dims = dims;
    y.frame = 1;
    y.bytes = LARGE;
    result.outputs = outputs;
    result.n_outputs = 1;
    result.backend = "xnnpack";
    env.job = (struct job_id){.client = SESSION, .sequence = sequence};
    env.flags = FRAME_FLAG_SEALED;
    env.frames = 1;
    env.transfer = give(&worker, fill);
    desk_say_worker(desk, WORKER, env, meta, penstock__result_meta__pack(&result, meta));
}

Test(sealed_way, memory_goes_through_to_the_worker_and_back)
{
    worker_comes(true);
    submit(1);
    expect_given(&worker, desk_next(&desk->workers, FRAME_SUBMIT), 1);
    answer(1, 42);
    expect_given(&client, desk_next(&desk->clients, FRAME_RESULT), 42);
    cr_expect(desk->broker.stats.sealed_in == 2 && desk->broker.stats.sealed_out == 2);
    cr_expect_eq(desk->broker.stats.sealed_fallbacks, 0);
    cr_expect_geq(TAILQ_FIRST(&desk->broker.sessions.all)->link.bytes_sent, LARGE, "what it has not read counts");
}

Test(sealed_way, a_worker_that_is_not_bound_gets_the_bytes)
{
    worker_comes(false);
    submit(1);
    expect_bytes(desk_next(&desk->workers, FRAME_SUBMIT), 1);
    cr_expect_eq(desk->broker.stats.sealed_fallbacks, 1);
}

Test(sealed_way, a_worker_whose_socket_has_gone_gets_the_bytes)
{
    worker_comes(true);
    parcel_close(&worker);
    submit(1);
    expect_bytes(desk_next(&desk->workers, FRAME_SUBMIT), 1);
}

Test(sealed_way, a_job_keeps_its_memory_when_its_worker_leaves)
{
    worker_comes(true);
    submit(1);
    cr_assert(desk_next(&desk->workers, FRAME_SUBMIT));
    parcel_close(&worker);
    desk_say_worker(desk, WORKER, envelope_make(FRAME_GOODBYE), NULL, 0);
    worker_comes(true); /* it gets the job at once, before it has a socket */
    expect_bytes(desk_next(&desk->workers, FRAME_SUBMIT), 1);
}

Test(sealed_way, the_cache_keeps_it_and_gives_it_again)
{
    worker_comes(true);
    submit(1);
    expect_given(&worker, desk_next(&desk->workers, FRAME_SUBMIT), 1);
    answer(1, 42);
    cr_assert(desk_next(&desk->clients, FRAME_RESULT));
    submit(1);
    cr_assert(desk_next(&desk->clients, FRAME_RESULT), "the same id: its kept reply");
}

Test(sealed_way, nothing_is_held_when_all_is_over)
{
    size_t offset;
    worker_comes(true);
    sealed_release(
        sealed_copy(&(struct sealed_piece){"x", 1}, 1, &offset)); /* the files of our control group are open now */
    size_t before = files_open();
    for (uint64_t i = 1; i <= 20; i++) {
        submit(i);
        expect_given(&worker, desk_next(&desk->workers, FRAME_SUBMIT), (uint8_t)i);
        answer(i, 7);
        expect_given(&client, desk_next(&desk->clients, FRAME_RESULT), 7);
    }
    struct envelope ack = envelope_make(FRAME_ACK);
    ack.job = (struct job_id){.client = SESSION, .sequence = 20};
    desk_say_client(desk, CLIENT, ack, NULL, 0, 0);
    cr_expect_eq(files_open(), before);
}

static void expect_upset(uint64_t sequence, uint32_t number)
{
    struct wire_job job = job_of(sequence);
    size_t before = files_open();
    uint64_t admitted = desk->broker.stats.jobs_admitted;
    desk_announce(desk, CLIENT, &job, number);
    cr_assert(desk_next(&desk->clients, FRAME_RESUME), "it is asked to begin anew");
    cr_expect_eq(desk->broker.stats.jobs_admitted, admitted);
    cr_expect_leq(files_open(), before);
}

Test(sealed_way, memory_that_was_not_sent_makes_the_client_begin_anew)
{
    worker_comes(true);
    expect_upset(1, give(&client, 1) + 1);
    client_comes();
    submit(2);
    expect_given(&worker, desk_next(&desk->workers, FRAME_SUBMIT), 2);
}

Test(sealed_way, a_client_without_a_socket_cannot_name_memory)
{
    parcel_close(&client);
    expect_upset(1, 1);
}

Test(sealed_way, a_frame_above_the_limit_is_refused)
{
    desk->options.max_frame_bytes = LARGE - 1;
    expect_upset(1, give(&client, 1));
}

Test(sealed_way, fewer_frames_than_the_message_says_are_refused)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw, bytes;
    struct wire_job job = job_of(1);
    bytes = wire_job(meta, &job, &raw);
    struct envelope env = wire_job_envelope(&job);
    env.transfer = give(&client, 1);
    env.frames = 2;
    desk_say_client(desk, CLIENT, env, meta, bytes, 0);
    cr_assert(desk_next(&desk->clients, FRAME_RESUME));
}

Test(sealed_way, a_worker_that_lies_loses_its_socket_and_its_job_runs_again)
{
    worker_comes(true);
    submit(1);
    expect_given(&worker, desk_next(&desk->workers, FRAME_SUBMIT), 1);
    parcel_close(&worker);
    worker = (struct parcel_link){.state = PARCEL_NONE};
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = (struct job_id){.client = SESSION, .sequence = 1};
    env.flags = FRAME_FLAG_SEALED;
    env.frames = 1;
    env.transfer = 9;
    desk_say_worker(desk, WORKER, env, NULL, 0);
    cr_assert(desk_next(&desk->workers, FRAME_RESUME));
    worker_comes(true); /* it says hello, and holds nothing: it gets the job before it has a socket */
    expect_bytes(desk_next(&desk->workers, FRAME_SUBMIT), 1);
}
