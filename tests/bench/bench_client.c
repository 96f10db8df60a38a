/*
 * bench_client proxy|broker ENDPOINT BYTES WINDOW JOBS - jobs of model "null", WINDOW of them under way, JOBS after a tenth for warming up.
 * Prints one JSON object: p50_us, p90_us, p99_us, jobs_per_s, errors.
 *
 * With BENCH_PLAIN in the environment each message travels by itself, as in version 1.1 of the protocol.
 * No client library: the same bare frames go through zmq_proxy and through the broker. Towards the broker it says hello and acknowledges.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zmq.h>

#include "deadline.h"
#include "control.pb-c.h"
#include "job.pb-c.h"
#include "job_id.h"
#include "tensor_codec.h"
#include "wire.h"

#define ACK_EVERY 32u

struct client {
    void *socket;
    int through_proxy;
    struct pack_writer going; /* jobs and acknowledgements that leave together */
    struct wire_pack coming;
    uint64_t uuid;
    Penstock__JobMeta meta;
    Penstock__TensorDesc desc, *descs[1];
    int64_t dims[2];
    uint8_t *payload;
    size_t payload_bytes;
    uint64_t *sent_us; /* [jobs + 1], by sequence */
    uint64_t *trip_us; /* [jobs], in order of arrival */
    size_t answers, errors;
};

static void hello_send(struct client *c)
{
    Penstock__ClientHello hello = PENSTOCK__CLIENT_HELLO__INIT;
    struct envelope env = envelope_make(FRAME_CLIENT_HELLO);
    hello.uuid = c->uuid;
    hello.software = "penstock bench";
    hello.name = "bench_client";
    hello.pack_bytes = wire_pack_bytes();
    env.job.client = c->uuid;
    wire_send(c->socket, &env, &hello.base, 0);
}

static void job_prepare(struct client *c)
{
    penstock__job_meta__init(&c->meta);
    penstock__tensor_desc__init(&c->desc);
    c->dims[0] = 1;
    c->dims[1] = (int64_t)c->payload_bytes;
    c->desc.name = "bytes";
    c->desc.dtype = PEN_DTYPE_U8;
    c->desc.dims = c->dims;
    c->desc.n_dims = 2;
    c->desc.bytes = c->payload_bytes;
    if (c->payload_bytes <= FRAME_INLINE_BYTES) {
        c->desc.data = (ProtobufCBinaryData){.len = c->payload_bytes, .data = c->payload};
    } else {
        c->desc.frame = 1;
    }
    c->descs[0] = &c->desc;
    c->meta.model = "null";
    c->meta.inputs = c->descs;
    c->meta.n_inputs = 1;
}

static void release_nothing(void *data, void *hint)
{
    (void)data;
    (void)hint;
}

static void job_send(struct client *c, uint64_t sequence)
{
    struct envelope env = envelope_make(FRAME_SUBMIT);
    zmq_msg_t raw;
    env.flags = FRAME_FLAG_NO_CACHE;
    env.job = (struct job_id){.client = c->uuid, .sequence = sequence};
    env.model_hash = frame_name_hash("null");
    env.frames = c->desc.frame > 0;
    c->sent_us[sequence] = clock_now_us();
    if (!env.frames) {
        wire_send_packed(c->socket, &c->going, &env, &c->meta.base);
    } else { /* borrowed until the process ends: no copy */
        wire_flush(c->socket, &c->going);
        wire_send(c->socket, &env, &c->meta.base, env.frames);
        zmq_msg_init_data(&raw, c->payload, c->payload_bytes, release_nothing, NULL);
        zmq_msg_send(&raw, c->socket, 0);
    }
}

static void ack_send(struct client *c, uint64_t sequence)
{
    struct envelope env = envelope_make(FRAME_ACK);
    env.job = (struct job_id){.client = c->uuid, .sequence = sequence};
    wire_send_packed(c->socket, &c->going, &env, NULL);
}

/* A header frame, of `size` bytes. True when it was a job's result. */
static int take(struct client *c, const void *frame, size_t size)
{
    struct envelope env, pong = envelope_make(FRAME_PONG);
    const uint8_t *meta;
    struct pen_error error = {0};
    if (envelope_decode(frame, size, &env, &meta, &error) != PEN_OK) {
        wire_die("bench_client: %s", error.text);
    }
    if (env.type == FRAME_RESULT) {
        c->trip_us[c->answers++] = clock_now_us() - c->sent_us[env.job.sequence];
        if (env.status != PEN_OK && c->errors++ == 0) {
            fprintf(stderr, "bench_client: a job was answered %s\n", pen_status_name(env.status));
        }
        return 1;
    }
    if (env.type == FRAME_PING) {
        wire_send_packed(c->socket, &c->going, &pong, NULL);
    } else if (env.type == FRAME_WELCOME) {
        pack_limit(&c->going, wire_pack_allowed(&env, meta));
    }
    return 0;
}

/* The next message of the PACK at hand; its other frames are dropped. */
static int take_packed(struct client *c, struct pack_item *header)
{
    struct pack_item rest = *header;
    while (rest.more && wire_pack_next(&c->coming, &rest)) {
    }
    return take(c, header->data, header->bytes);
}

/* What waits to be sent leaves when all that came has been read. */
static void receive_message(struct client *c, zmq_msg_t *message)
{
    wire_flush(c->socket, &c->going);
    if (zmq_msg_recv(message, c->socket, 0) < 0) {
        wire_die("bench_client: no answer for 10 s after %zu results", c->answers);
    }
}

/* Receives one message; true when it was a job's result. */
static int receive(struct client *c)
{
    struct pack_item item;
    zmq_msg_t message;
    if (wire_pack_next(&c->coming, &item)) {
        return take_packed(c, &item);
    }
    zmq_msg_init(&message);
    receive_message(c, &message);
    if (wire_pack_take(&c->coming, &message)) {
        zmq_msg_close(&message);
        return wire_pack_next(&c->coming, &item) && take_packed(c, &item);
    }
    int result = take(c, zmq_msg_data(&message), zmq_msg_size(&message));
    zmq_msg_close(&message);
    wire_drop_rest(c->socket);
    return result;
}

/* The broker answers in any order, so an acknowledgement says "all up to n" only when n results have come and n are all. */
static void run(struct client *c, size_t window, size_t jobs)
{
    uint64_t sequence = 0, acked = 0;
    while (sequence < window && sequence < jobs) {
        job_send(c, ++sequence);
    }
    while (c->answers < jobs) {
        if (!receive(c)) {
            continue;
        }
        if (sequence < jobs) {
            job_send(c, ++sequence);
        }
        if (!c->through_proxy && c->answers >= acked + ACK_EVERY + window) {
            acked = c->answers - window; /* oldest first: at most `window` answers are out of order */
            ack_send(c, acked);
        }
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void report(struct client *c, size_t warm, uint64_t took_us)
{
    size_t n = c->answers - warm;
    uint64_t *trips = c->trip_us + warm;
    qsort(trips, n, sizeof *trips, by_value);
    printf("{\"jobs\":%zu,\"p50_us\":%llu,\"p90_us\":%llu,\"p99_us\":%llu,\"jobs_per_s\":%.0f,\"errors\":%zu}\n", n,
           (unsigned long long)trips[n / 2], (unsigned long long)trips[n * 9 / 10],
           (unsigned long long)trips[n * 99 / 100], (double)c->answers * 1e6 / (double)took_us, c->errors);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        wire_die("usage: bench_client proxy|broker ENDPOINT BYTES WINDOW JOBS");
    }
    const int timeout_ms = 10000;
    size_t window = strtoul(argv[4], NULL, 10), jobs = strtoul(argv[5], NULL, 10);
    struct client c = {.through_proxy = strcmp(argv[1], "proxy") == 0,
                       .uuid = random_u64(),
                       .payload_bytes = strtoul(argv[3], NULL, 10)};
    size_t all = jobs + jobs / 10;
    c.payload = calloc(1, c.payload_bytes + 1);
    c.sent_us = calloc(all + 1, sizeof *c.sent_us);
    c.trip_us = calloc(all, sizeof *c.trip_us);
    if (!c.payload || !c.sent_us || !c.trip_us || window == 0 || jobs == 0) {
        wire_die("bench_client: WINDOW and JOBS must be above 0 and fit into memory");
    }
    void *context = zmq_ctx_new();
    c.socket = wire_dealer(context, argv[2]);
    zmq_setsockopt(c.socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    if (!c.through_proxy) {
        hello_send(&c);
    }
    job_prepare(&c);
    uint64_t begin_us = clock_now_us();
    run(&c, window, all);
    report(&c, jobs / 10, clock_now_us() - begin_us);
    return c.errors > 0;
}
