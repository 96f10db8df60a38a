/*
 * bench_echo_worker proxy|broker ENDPOINT [BYTES [SERVICE_US]] - a worker without an engine: answers every job of model "null" with its input, or with BYTES
 * (not 0) of its own; one after the other, each SERVICE_US after the one before or after it came. It sleeps meanwhile: several of them need no processor.
 * Prints `ready`.
 *
 * Behind zmq_proxy it skips hello and heartbeats; unpacking the job and packing the result are the same work in both.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "deadline.h"
#include "job.pb-c.h"
#include "job_id.h"
#include "tensor_codec.h"
#include "wire.h"
#include "worker.pb-c.h"

#define ARENA_BYTES  (1u << 20)
#define HEARTBEAT_US 200000u
#define ID_MAX       256

struct worker {
    void *socket;
    int through_proxy;
    struct meta_arena arena;
    struct pack_writer going; /* answers that leave together */
    struct wire_pack coming;
    uint8_t client[ID_MAX]; /* behind the proxy: routing id of the message in hand */
    size_t client_bytes;
    uint64_t heartbeat_at_us, jobs_done;
    uint8_t *own; /* [own_bytes], the answer to every job; NULL: its input */
    size_t own_bytes;
    uint64_t service_us;
    uint64_t done_us; /* when the last job was done, by the plan: a late wake-up is made up for */
    bool waited;      /* the job in hand had come before that */
};

/* The tensors of a "null" offer: uint8 [N, 1024] in and out; declared free, for payloads of any size. */
static void hello_send(struct worker *w)
{
    int64_t dims[] = {-1, -1};
    Penstock__TensorSig in = PENSTOCK__TENSOR_SIG__INIT, out = PENSTOCK__TENSOR_SIG__INIT;
    Penstock__TensorSig *ins[] = {&in}, *outs[] = {&out};
    Penstock__WarmTime warm = PENSTOCK__WARM_TIME__INIT, *warms[] = {&warm};
    Penstock__ModelOffer offer = PENSTOCK__MODEL_OFFER__INIT, *offers[] = {&offer};
    Penstock__WorkerHello hello = PENSTOCK__WORKER_HELLO__INIT;
    uint8_t digest[16] = "echo worker null";
    struct envelope env = envelope_make(FRAME_WORKER_HELLO);
    in.name = "bytes";
    out.name = "copy";
    in.dtype = out.dtype = PEN_DTYPE_U8;
    in.dims = out.dims = dims;
    in.n_dims = out.n_dims = 2;
    in.batched = out.batched = w->service_us == 0;
    warm.batch = 1;
    warm.cold_us = warm.warm_us = w->service_us ? w->service_us : 1;
    offer.name = "null";
    offer.version = 1;
    offer.digest = (ProtobufCBinaryData){.len = sizeof digest, .data = digest};
    offer.inputs = ins;
    offer.n_inputs = 1;
    offer.outputs = outs;
    offer.n_outputs = 1;
    offer.backend = "reference";
    offer.precision = PRECISION_F32;
    offer.placement = "echo";
    offer.max_batch_size = w->service_us ? 0 : 64;
    offer.warm = warms;
    offer.n_warm = 1;
    offer.ready = 1;
    offer.platform = "onnx";
    hello.name = "echo";
    hello.uuid = random_u64();
    hello.host = "bench";
    hello.pid = (uint32_t)getpid();
    hello.software = "penstock bench";
    hello.slots = 1;
    hello.threads = 1;
    hello.backend = "reference";
    hello.device = "none";
    hello.pack_bytes = w->own || w->service_us ? 0 : wire_pack_bytes();
    hello.models = offers;
    hello.n_models = 1;
    wire_send(w->socket, &env, &hello.base, 0);
}

static void release_nothing(void *data, void *hint)
{
    (void)data;
    (void)hint;
}

/* The worker's own bytes as the only output. */
static void answer_own(struct worker *w, const struct envelope *job, int more)
{
    Penstock__ResultMeta out = PENSTOCK__RESULT_META__INIT;
    Penstock__TensorDesc desc = PENSTOCK__TENSOR_DESC__INIT, *descs[] = {&desc};
    int64_t dims[] = {1, (int64_t)w->own_bytes};
    struct envelope env = envelope_make(FRAME_RESULT);
    zmq_msg_t raw;
    desc.name = "copy";
    desc.dtype = PEN_DTYPE_U8;
    desc.dims = dims;
    desc.n_dims = 2;
    desc.bytes = w->own_bytes;
    desc.frame = 1;
    out.outputs = descs;
    out.n_outputs = 1;
    out.model = "null";
    out.version = 1;
    out.backend = "reference";
    out.precision = PRECISION_F32;
    out.batch_size = 1;
    out.compute_us = w->service_us;
    env.job = job->job;
    env.frames = 1;
    wire_send(w->socket, &env, &out.base, 1);
    zmq_msg_init_data(&raw, w->own, w->own_bytes, release_nothing, NULL);
    if (zmq_msg_send(&raw, w->socket, more ? ZMQ_SNDMORE : 0) < 0) {
        wire_die("echo worker: send: %s", zmq_strerror(zmq_errno()));
    }
    w->jobs_done++;
}

/* The RESULT with the job's inputs as "copy". */
static void echo_make(struct worker *w, const struct envelope *job, const uint8_t *meta, Penstock__ResultMeta *out)
{
    Penstock__JobMeta *in = meta_unpack(&w->arena, &penstock__job_meta__descriptor, meta, job->meta_bytes);
    if (!in || in->n_inputs != 1) {
        wire_die("echo worker: a job without exactly one input");
    }
    in->inputs[0]->name = "copy";
    penstock__result_meta__init(out);
    out->outputs = in->inputs;
    out->n_outputs = 1;
    out->model = in->model;
    out->version = 1;
    out->backend = "reference";
    out->precision = PRECISION_F32;
    out->batch_size = 1;
    out->compute_us = w->service_us;
}

/* The job's inputs go back as "copy". `raw` is the raw frame in hand when the tensor does not ride in the meta. */
static void answer(struct worker *w, const struct envelope *job, const uint8_t *meta, zmq_msg_t *raw, int more)
{
    Penstock__ResultMeta out;
    echo_make(w, job, meta, &out);
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = job->job;
    env.frames = job->frames;
    wire_send(w->socket, &env, &out.base, job->frames > 0 || more);
    if (job->frames > 0 && zmq_msg_send(raw, w->socket, more ? ZMQ_SNDMORE : 0) < 0) {
        wire_die("echo worker: send: %s", zmq_strerror(zmq_errno()));
    }
    meta_arena_reset(&w->arena);
    w->jobs_done++;
}

/* Until the job in hand would be done. */
static void work(struct worker *w)
{
    uint64_t now_us = clock_now_us();
    if (w->service_us == 0)
        return;
    w->done_us = (w->waited ? w->done_us : now_us) + w->service_us;
    if (w->done_us > now_us)
        usleep((useconds_t)(w->done_us - now_us));
    w->waited = true; /* the next of this message */
}

/* All groups of a SUBMIT, the first header being in `header`. Answers go out as one message of as many groups. */
static void serve(struct worker *w, zmq_msg_t *header)
{
    struct envelope env;
    const uint8_t *meta;
    struct pen_error error = {0};
    zmq_msg_t raw;
    int more = 1;
    if (w->through_proxy) {
        wire_send_bytes(w->socket, w->client, w->client_bytes, 1);
    }
    while (more) {
        if (envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, &error) != PEN_OK) {
            wire_die("echo worker: %s", error.text);
        }
        zmq_msg_init(&raw);
        for (uint8_t i = 0; i < env.frames; i++) {
            zmq_msg_recv(&raw, w->socket, 0);
        }
        more = wire_more(w->socket);
        work(w);
        if (w->own) {
            answer_own(w, &env, more);
        } else {
            answer(w, &env, meta, &raw, more);
        }
        zmq_msg_close(&raw);
        if (more) {
            zmq_msg_recv(header, w->socket, 0);
        }
    }
}

/* The answer to a job out of a PACK: a message of its own, which waits for others. raw: its input, when that is a frame. */
static void answer_packed(struct worker *w, const struct envelope *job, const uint8_t *meta,
                          const struct pack_item *raw)
{
    Penstock__ResultMeta out;
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = job->job;
    echo_make(w, job, meta, &out);
    if (job->frames == 0) {
        wire_send_packed(w->socket, &w->going, &env, &out.base);
    } else {
        env.frames = 1;
        wire_flush(w->socket, &w->going);
        wire_send(w->socket, &env, &out.base, 1);
        wire_send_bytes(w->socket, raw->data, raw->bytes, 0);
    }
    meta_arena_reset(&w->arena);
    w->jobs_done++;
}

/* All messages of the PACK at hand. */
static void serve_pack(struct worker *w)
{
    struct envelope env, pong = envelope_make(FRAME_PONG);
    const uint8_t *meta;
    struct pen_error error = {0};
    for (struct pack_item header, raw; wire_pack_next(&w->coming, &header);) {
        if (envelope_decode(header.data, header.bytes, &env, &meta, &error) != PEN_OK) {
            wire_die("echo worker: %s", error.text);
        }
        for (uint8_t i = 0; i < env.frames; i++) {
            wire_pack_next(&w->coming, &raw);
        }
        if (env.type == FRAME_SUBMIT) {
            answer_packed(w, &env, meta, &raw);
        } else if (env.type == FRAME_PING) {
            wire_send_packed(w->socket, &w->going, &pong, NULL);
        }
    }
}

static void heartbeat_send(struct worker *w)
{
    uint64_t now_us = clock_now_us();
    Penstock__Heartbeat beat = PENSTOCK__HEARTBEAT__INIT;
    struct envelope env = envelope_make(FRAME_HEARTBEAT);
    if (w->through_proxy || now_us < w->heartbeat_at_us) {
        return;
    }
    beat.jobs_done = w->jobs_done;
    wire_send(w->socket, &env, &beat.base, 0);
    w->heartbeat_at_us = now_us + HEARTBEAT_US;
}

static void handle(struct worker *w, zmq_msg_t *message)
{
    uint8_t type = zmq_msg_size(message) > 4 ? ((const uint8_t *)zmq_msg_data(message))[4] : 0;
    struct envelope env = envelope_make(FRAME_PONG);
    if (w->through_proxy || type == FRAME_SUBMIT) {
        wire_flush(w->socket, &w->going);
        serve(w, message);
        return;
    }
    if (wire_pack_take(&w->coming, message)) {
        serve_pack(w);
        return;
    }
    if (type == FRAME_WELCOME) {
        struct envelope welcome;
        const uint8_t *meta;
        envelope_decode(zmq_msg_data(message), zmq_msg_size(message), &welcome, &meta, NULL);
        pack_limit(&w->going, w->own || w->service_us ? 0 : wire_pack_allowed(&welcome, meta));
    }
    wire_drop_rest(w->socket);
    if (type == FRAME_PING) {
        wire_send(w->socket, &env, NULL, 0);
    } else if (type == FRAME_WELCOME) {
        printf("ready\n");
        fflush(stdout);
    } else if (type == FRAME_RESUME) {
        hello_send(w);
    }
}

static void loop(struct worker *w)
{
    zmq_msg_t message;
    zmq_msg_init(&message);
    for (;;) {
        w->waited = zmq_msg_recv(&message, w->socket, ZMQ_DONTWAIT) >= 0;
        if (!w->waited) {
            wire_flush(w->socket, &w->going);
        }
        if (!w->waited && zmq_msg_recv(&message, w->socket, 0) < 0) { /* RCVTIMEO: time for a heartbeat */
            heartbeat_send(w);
            continue;
        }
        if (w->through_proxy) {
            w->client_bytes = zmq_msg_size(&message) <= ID_MAX ? zmq_msg_size(&message) : ID_MAX;
            memcpy(w->client, zmq_msg_data(&message), w->client_bytes);
            zmq_msg_recv(&message, w->socket, 0);
        }
        handle(w, &message);
        if (w->jobs_done % 64 == 0 || w->service_us) {
            heartbeat_send(w);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 5 || (strcmp(argv[1], "proxy") != 0 && strcmp(argv[1], "broker") != 0)) {
        wire_die("usage: bench_echo_worker proxy|broker ENDPOINT [BYTES [SERVICE_US]]");
    }
    const int timeout_ms = 100;
    struct worker w = {.through_proxy = strcmp(argv[1], "proxy") == 0};
    void *context = zmq_ctx_new();
    w.socket = wire_dealer(context, argv[2]);
    zmq_setsockopt(w.socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    meta_arena_init(&w.arena, ARENA_BYTES);
    w.own_bytes = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
    w.service_us = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    w.own = w.own_bytes > 0 ? calloc(1, w.own_bytes) : NULL;
    if (w.own_bytes > 0 && (!w.own || w.own_bytes <= FRAME_INLINE_BYTES)) {
        wire_die("bench_echo_worker: BYTES must be above %u and fit into memory", (unsigned)FRAME_INLINE_BYTES);
    }
    if (w.through_proxy) {
        printf("ready\n");
        fflush(stdout);
    } else {
        hello_send(&w);
    }
    loop(&w);
}
