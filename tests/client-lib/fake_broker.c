#include "fake_broker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "control.pb-c.h"
#include "deadline.h"
#include "job.pb-c.h"
#include "pack.h"
#include "worker.pb-c.h"

/* assert() is nothing in a release build, and some of these have effects */
#define need(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fake broker: %s fails\n", #condition);                                                    \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

#define PARTS_MAX 70
#define HELD_MAX  4096

struct parts {
    zmq_msg_t part[PARTS_MAX]; /* routing id, header, tensors */
    size_t count;
};

struct fake_broker {
    char endpoint[FAKE_ENDPOINT_BYTES];
    void *context, *router;
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock; /* behaviour, seen */
    struct fake_behaviour behaviour;
    struct fake_seen seen;
    struct parts *held[HELD_MAX]; /* the thread's */
    size_t held_count;
    unsigned seed;
    bool packing; /* answers wait in `going` */
    struct pack_writer going;
};

static void parts_close(struct parts *p)
{
    for (size_t i = 0; i < p->count; i++) {
        zmq_msg_close(&p->part[i]);
    }
    p->count = 0;
}

static bool parts_receive(void *router, struct parts *p)
{
    p->count = 0;
    for (int more = 1; more;) {
        need(p->count < PARTS_MAX);
        zmq_msg_init(&p->part[p->count]);
        if (zmq_msg_recv(&p->part[p->count], router, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&p->part[p->count]);
            parts_close(p);
            return false;
        }
        more = zmq_msg_more(&p->part[p->count++]);
    }
    return true;
}

static void send_bytes(struct fake_broker *f, const void *bytes, size_t size, bool more)
{
    zmq_send(f->router, bytes, size, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
}

/* flips: bits to turn over in the meta and in the envelope's last fields; the job id stays. */
static void send_flipped(struct fake_broker *f, struct parts *to, struct envelope env, const ProtobufCMessage *meta,
                         unsigned flips)
{
    size_t meta_bytes = meta ? protobuf_c_message_get_packed_size(meta) : 0;
    uint8_t *bytes = malloc(FRAME_ENVELOPE_BYTES + meta_bytes);
    need(bytes);
    env.meta_bytes = (uint32_t)meta_bytes;
    envelope_encode(&env, bytes);
    if (meta) {
        protobuf_c_message_pack(meta, bytes + FRAME_ENVELOPE_BYTES);
    }
    for (unsigned i = 0; i < flips; i++) {
        size_t at = (size_t)rand_r(&f->seed) % (meta_bytes + 16);
        at = at < meta_bytes ? FRAME_ENVELOPE_BYTES + at : FRAME_ENVELOPE_BYTES - 16 + (at - meta_bytes);
        bytes[at] ^= (uint8_t)(1u << rand_r(&f->seed) % 8);
    }
    uint8_t *packed = f->packing ? pack_frame(&f->going, FRAME_ENVELOPE_BYTES + meta_bytes, env.frames > 0) : NULL;
    if (packed) {
        memcpy(packed, bytes, FRAME_ENVELOPE_BYTES + meta_bytes);
        for (size_t i = 0; i < env.frames; i++) {
            size_t size = zmq_msg_size(&to->part[2 + i]);
            packed = pack_frame(&f->going, size, i + 1 < env.frames);
            need(packed);
            memcpy(packed, zmq_msg_data(&to->part[2 + i]), size);
        }
        free(bytes);
        return;
    }
    send_bytes(f, zmq_msg_data(&to->part[0]), zmq_msg_size(&to->part[0]), true);
    send_bytes(f, bytes, FRAME_ENVELOPE_BYTES + meta_bytes, env.frames > 0);
    for (size_t i = 0; i < env.frames; i++) {
        zmq_msg_t copy;
        zmq_msg_init(&copy);
        zmq_msg_copy(&copy, &to->part[2 + i]);
        zmq_msg_send(&copy, f->router, ZMQ_DONTWAIT | (i + 1 < env.frames ? ZMQ_SNDMORE : 0));
        zmq_msg_close(&copy);
    }
    free(bytes);
}

static void send_to(struct fake_broker *f, struct parts *to, struct envelope env, const ProtobufCMessage *meta)
{
    send_flipped(f, to, env, meta, 0);
}

/* Frames that no honest broker sends: short, wrong magic, wrong counts, meta that is no protobuf. */
static void send_garbage(struct fake_broker *f, struct parts *to, struct envelope reply, unsigned kind)
{
    uint8_t bytes[FRAME_ENVELOPE_BYTES + 40];
    size_t size = sizeof bytes;
    struct envelope env = envelope_make((enum frame_type)(kind % 3 == 0   ? FRAME_RESULT
                                                          : kind % 3 == 1 ? FRAME_WELCOME
                                                                          : FRAME_CONTROL_REPLY));
    env.job = reply.job;
    env.job.sequence += 1000; /* a job that is not there, unless the test wants more */
    env.meta_bytes = 40;
    env.frames = kind % 5 == 4 ? 3 : 0;
    envelope_encode(&env, bytes);
    memset(bytes + FRAME_ENVELOPE_BYTES, 0xFF, 40);
    if (kind % 5 == 0) {
        size = kind % 90;
    } else if (kind % 5 == 1) {
        bytes[kind % FRAME_ENVELOPE_BYTES] ^= 0x5A;
    }
    send_bytes(f, zmq_msg_data(&to->part[0]), zmq_msg_size(&to->part[0]), true);
    send_bytes(f, bytes, size, kind % 5 == 3);
    if (kind % 5 == 3) {
        send_bytes(f, "x", 1, false);
    }
}

static void welcome(struct fake_broker *f, struct parts *p, const struct fake_behaviour *b)
{
    Penstock__Welcome meta = PENSTOCK__WELCOME__INIT;
    struct envelope env = envelope_make(FRAME_WELCOME);
    if (b->hello_delay_us) {
        usleep(b->hello_delay_us);
    }
    meta.heartbeat_us = b->heartbeat_us ? b->heartbeat_us : 100000;
    meta.liveness_us = b->liveness_us ? b->liveness_us : 20000000;
    meta.max_job_bytes = b->max_job_bytes;
    meta.digest_kind = b->digest_kind;
    meta.needs = b->knows_needs;
    meta.pack_bytes = b->packs ? pack_bytes_taken(0) : 0;
    env.status = (uint8_t)b->hello_status;
    env.major = b->major ? b->major : env.major;
    env.minor = b->first_minor ? 0 : env.minor;
    char *redirect[] = {(char *)(uintptr_t)b->redirect};
    meta.redirect = redirect;
    meta.n_redirect = b->redirect && (b->sends_always || fake_see(f).followed == 0);
    if (b->hello_status != PEN_OK) {
        meta.error = (char *)(uintptr_t) "the test's broker refuses.";
    }
    send_to(f, p, env, &meta.base);
}

static void result(struct fake_broker *f, struct parts *p, const struct fake_behaviour *b)
{
    struct envelope env;
    const uint8_t *bytes;
    need(envelope_decode(zmq_msg_data(&p->part[1]), zmq_msg_size(&p->part[1]), &env, &bytes, NULL) == PEN_OK);
    Penstock__JobMeta *job = penstock__job_meta__unpack(NULL, env.meta_bytes, bytes);
    Penstock__ResultMeta meta = PENSTOCK__RESULT_META__INIT;
    char *labels[] = {(char *)(uintptr_t) "0.9 nine"};
    need(job);
    struct envelope reply = envelope_make(FRAME_RESULT);
    reply.job = env.job;
    reply.status = (uint8_t)b->job_status;
    if (b->job_status == PEN_OK) {
        meta.outputs = job->inputs;
        meta.n_outputs = job->n_inputs;
        meta.labels = labels;
        meta.n_labels = 1;
        reply.frames = env.frames;
    } else {
        meta.error = (char *)(uintptr_t) "the test's worker failed.";
        meta.retry_after_us = 1234;
    }
    meta.model = job->model;
    meta.version = 3;
    meta.backend = (char *)(uintptr_t) "echo";
    meta.compute_us = 7;
    for (unsigned i = 0; i < b->garbage; i++) {
        send_garbage(f, p, reply, i);
    }
    for (unsigned i = 0; i < b->mutants; i++) {
        send_flipped(f, p, reply, &meta.base, 1 + i % 4);
    }
    for (unsigned i = 0; i <= b->extra_results; i++) {
        send_to(f, p, reply, &meta.base);
    }
    penstock__job_meta__free_unpacked(job, NULL);
    pthread_mutex_lock(&f->lock);
    f->seen.results_sent++;
    pthread_mutex_unlock(&f->lock);
}

static void submit(struct fake_broker *f, struct parts *p, const struct fake_behaviour *b)
{
    if (b->forget) {
        send_to(f, p, envelope_make(FRAME_RESUME), NULL);
        pthread_mutex_lock(&f->lock);
        f->behaviour.forget = false;
        pthread_mutex_unlock(&f->lock);
    } else if (b->gives_to) {
        char *redirect[] = {(char *)(uintptr_t)b->gives_to};
        Penstock__Resume meta = PENSTOCK__RESUME__INIT;
        meta.redirect = redirect;
        meta.n_redirect = 1;
        send_to(f, p, envelope_make(FRAME_RESUME), &meta.base);
    } else if (b->hold) {
        struct parts *kept = malloc(sizeof *kept);
        need(kept && f->held_count < HELD_MAX);
        *kept = *p; /* zmq_msg_t may be moved as bytes as long as one copy is closed */
        p->count = 0;
        f->held[f->held_count++] = kept;
    } else {
        if (b->delay_us) {
            usleep(b->delay_us);
        }
        result(f, p, b);
    }
}

static void text(char to[64], const char *from)
{
    snprintf(to, 64, "%.63s", from);
}

static void note_submit(struct fake_seen *s, const struct envelope *env, const uint8_t *bytes)
{
    Penstock__JobMeta *job = penstock__job_meta__unpack(NULL, env->meta_bytes, bytes);
    need(job);
    s->submits++;
    s->resents += (env->flags & FRAME_FLAG_RESENT) != 0;
    s->last_submit = *env;
    text(s->model, job->model);
    text(s->tenant, job->tenant);
    text(s->backend, job->backend);
    text(s->traceparent, job->traceparent);
    s->explain = job->explain;
    s->debug = job->debug;
    s->version = job->version;
    s->sequence_after[env->job.sequence % 16] = job->sequence_after;
    s->inputs = (unsigned)job->n_inputs;
    s->outputs = (unsigned)job->n_outputs;
    s->parameters = (unsigned)job->n_parameters;
    s->tags = (unsigned)job->n_tags;
    s->needs = (unsigned)job->n_needs;
    penstock__job_meta__free_unpacked(job, NULL);
}

static void note(struct fake_seen *s, const struct envelope *env, const uint8_t *bytes)
{
    switch (env->type) {
    case FRAME_CLIENT_HELLO: {
        Penstock__ClientHello *hello = penstock__client_hello__unpack(NULL, env->meta_bytes, bytes);
        need(hello && hello->uuid == env->job.client);
        text(s->hello_name, hello->name);
        s->grace_us = hello->grace_us;
        s->pack_bytes = hello->pack_bytes;
        s->follows = hello->follows;
        s->followed = hello->followed;
        penstock__client_hello__free_unpacked(hello, NULL);
        s->hellos++;
        break;
    }
    case FRAME_SUBMIT:
        note_submit(s, env, bytes);
        break;
    case FRAME_CONTROL: {
        Penstock__ControlRequest *ask = penstock__control_request__unpack(NULL, env->meta_bytes, bytes);
        need(ask);
        text(s->verb, ask->verb);
        text(s->argument, ask->argument);
        penstock__control_request__free_unpacked(ask, NULL);
        s->controls++;
        break;
    }
    case FRAME_CANCEL:
        s->cancels++;
        break;
    case FRAME_ACK:
        s->acks++;
        s->acknowledged = env->job.sequence > s->acknowledged ? env->job.sequence : s->acknowledged;
        break;
    case FRAME_PING:
        s->pings++;
        break;
    case FRAME_GOODBYE:
        s->goodbyes++;
        break;
    default:
        break;
    }
}

static void control(struct fake_broker *f, struct parts *p, const struct envelope *env, const uint8_t *bytes)
{
    Penstock__ControlRequest *ask = penstock__control_request__unpack(NULL, env->meta_bytes, bytes);
    Penstock__ControlReply reply = PENSTOCK__CONTROL_REPLY__INIT;
    Penstock__Stats stats = PENSTOCK__STATS__INIT;
    Penstock__Explanation explanation = PENSTOCK__EXPLANATION__INIT;
    Penstock__Candidate candidate = PENSTOCK__CANDIDATE__INIT, *candidates[] = {&candidate};
    Penstock__WorkerInfo worker = PENSTOCK__WORKER_INFO__INIT, *workers[] = {&worker};
    Penstock__Flag flag = PENSTOCK__FLAG__INIT, *flags[] = {&flag};
    Penstock__ModelInfo model = PENSTOCK__MODEL_INFO__INIT, *models[] = {&model};
    Penstock__ModelOffer offer = PENSTOCK__MODEL_OFFER__INIT, *offers[] = {&offer};
    Penstock__TensorSig sig = PENSTOCK__TENSOR_SIG__INIT, *sigs[] = {&sig};
    char *names[] = {(char *)(uintptr_t) "worker-1"};
    char label_texts[64][16], *labels[64]; /* one per pixel: the brightest one wins */
    int64_t dims[] = {-1, 8, 8, 1};
    need(ask);
    struct envelope out = envelope_make(FRAME_CONTROL_REPLY);
    reply.serial = ask->serial;
    if (strcmp(ask->verb, "explain") == 0) {
        candidate.worker = names[0];
        candidate.chosen = true;
        explanation.job = ask->argument;
        explanation.why_worker = (char *)(uintptr_t) "it was the only one";
        explanation.candidates = candidates;
        explanation.n_candidates = 1;
        reply.explanation = &explanation;
    } else if (strcmp(ask->verb, "stats") == 0) {
        stats.jobs_done = 42;
        stats.software = (char *)(uintptr_t) "fake";
        reply.stats = &stats;
    } else if (strcmp(ask->verb, "workers") == 0) {
        worker.name = names[0];
        worker.slots = 2;
        flag.name = (char *)(uintptr_t) "isa";
        flag.value = (char *)(uintptr_t) "avx2";
        worker.flags = flags;
        worker.n_flags = 1;
        worker.models = names;
        worker.n_models = 1;
        reply.workers = workers;
        reply.n_workers = 1;
    } else if (strcmp(ask->verb, "models") == 0) {
        sig.name = (char *)(uintptr_t) "image";
        sig.dtype = PEN_DTYPE_U8;
        sig.dims = dims;
        sig.n_dims = 4;
        sig.batched = true;
        offer.name = model.name = (char *)(uintptr_t) "echo";
        offer.backend = (char *)(uintptr_t) "xnnpack";
        offer.preprocess = (char *)(uintptr_t) "{\"input\": \"image\", \"channels\": 1, \"height\": 8, \"width\": 8}";
        for (int i = 0; i < 64; i++) {
            snprintf(label_texts[i], sizeof label_texts[i], "l%d", i);
            labels[i] = label_texts[i];
        }
        offer.labels = labels;
        offer.n_labels = 64;
        model.version = 2;
        model.inputs = model.outputs = sigs;
        model.n_inputs = model.n_outputs = 1;
        model.offers = offers;
        model.n_offers = 1;
        model.worker_names = names;
        model.n_worker_names = 1;
        reply.models = models;
        reply.n_models = 1;
    } else if (strcmp(ask->argument, "nobody") == 0) {
        out.status = PEN_ERR_NOT_FOUND;
        reply.error = (char *)(uintptr_t) "no worker \"nobody\".";
    }
    send_to(f, p, out, &reply.base);
    penstock__control_request__free_unpacked(ask, NULL);
}

static void handle(struct fake_broker *f, struct parts *p)
{
    struct envelope env;
    const uint8_t *bytes;
    bool well_formed = p->count >= 2 && envelope_decode(zmq_msg_data(&p->part[1]), zmq_msg_size(&p->part[1]), &env,
                                                        &bytes, NULL) == PEN_OK;
    need(well_formed);
    pthread_mutex_lock(&f->lock);
    struct fake_behaviour b = f->behaviour;
    note(&f->seen, &env, bytes);
    pthread_mutex_unlock(&f->lock);
    if (b.mute) {
        return;
    }
    if (env.type == FRAME_CLIENT_HELLO) {
        welcome(f, p, &b);
        if (b.leaving) {
            send_to(f, p, envelope_make(FRAME_DRAIN), NULL);
        }
    } else if (env.type == FRAME_SUBMIT) {
        submit(f, p, &b);
    } else if (env.type == FRAME_PING) {
        send_to(f, p, envelope_make(FRAME_PONG), NULL);
    } else if (env.type == FRAME_CONTROL && !b.control_mute) {
        control(f, p, &env, bytes);
    }
}

static void part_copy(struct parts *to, const void *bytes, size_t size)
{
    need(to->count < PARTS_MAX && zmq_msg_init_size(&to->part[to->count], size) == 0);
    memcpy(zmq_msg_data(&to->part[to->count++]), bytes, size);
}

/* Each message of a PACK as if it had come by itself; the answers as one PACK. */
static void handle_pack(struct fake_broker *f, struct parts *p)
{
    struct envelope env;
    const uint8_t *meta;
    struct pack_reader reader;
    struct pack_item item = {.more = false};
    zmq_msg_t *frame = &p->part[1];
    need(p->count == 2 && envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), &env, &meta, NULL) == PEN_OK &&
         pack_reader_open(&reader, meta, env.meta_bytes, NULL) == PEN_OK);
    pack_limit(&f->going, pack_bytes_taken(0));
    f->packing = true;
    unsigned messages = 0;
    while (reader.at < reader.end) {
        struct parts one = {.count = 0};
        part_copy(&one, zmq_msg_data(&p->part[0]), zmq_msg_size(&p->part[0]));
        do {
            need(pack_next(&reader, &item));
            part_copy(&one, item.data, item.bytes);
        } while (item.more);
        handle(f, &one);
        parts_close(&one);
        messages++;
    }
    f->packing = false;
    pthread_mutex_lock(&f->lock); /* before the answers, after which a test may ask */
    f->seen.packs++;
    f->seen.packed += messages;
    pthread_mutex_unlock(&f->lock);
    if (f->going.messages > 0) {
        size_t bytes = pack_seal(&f->going);
        send_bytes(f, zmq_msg_data(&p->part[0]), zmq_msg_size(&p->part[0]), true);
        send_bytes(f, f->going.bytes, bytes, false);
    }
    pack_clear(&f->going);
}

static void release_held(struct fake_broker *f)
{
    pthread_mutex_lock(&f->lock);
    struct fake_behaviour b = f->behaviour;
    pthread_mutex_unlock(&f->lock);
    for (size_t i = 0; !b.hold && i < f->held_count; i++) {
        result(f, f->held[i], &b);
        parts_close(f->held[i]);
        free(f->held[i]);
    }
    f->held_count = b.hold ? f->held_count : 0;
}

static void *fake_main(void *arg)
{
    struct fake_broker *f = arg;
    struct parts p;
    while (!atomic_load(&f->stop)) {
        pthread_mutex_lock(&f->lock);
        bool frozen = f->behaviour.frozen;
        pthread_mutex_unlock(&f->lock);
        if (frozen) {
            pthread_mutex_lock(&f->lock);
            f->seen.frozen_turns++;
            pthread_mutex_unlock(&f->lock);
            usleep(2000);
            continue;
        }
        zmq_pollitem_t item = {.socket = f->router, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, 2);
        for (unsigned n = 0; n < 100 && parts_receive(f->router, &p); n++) {
            if (p.count > 1 && pack_is(zmq_msg_data(&p.part[1]), zmq_msg_size(&p.part[1]))) {
                handle_pack(f, &p);
            } else {
                handle(f, &p);
            }
            parts_close(&p);
        }
        release_held(f);
    }
    return NULL;
}

struct fake_broker *fake_start(const char *endpoint, struct fake_behaviour behaviour)
{
    struct fake_broker *f = calloc(1, sizeof *f);
    size_t bytes = sizeof f->endpoint;
    need(f);
    f->behaviour = behaviour;
    pthread_mutex_init(&f->lock, NULL);
    f->context = zmq_ctx_new();
    f->router = zmq_socket(f->context, ZMQ_ROUTER);
    int one = 1, none = 0;
    /* Before anybody comes: a later word may miss his connection, whose end would then be waited for without end. */
    zmq_setsockopt(f->router, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(f->router, ZMQ_RCVHWM, &one, sizeof one); /* so that a frozen one pushes back soon */
    int rc = -1;
    for (int tries = 0; rc != 0 && tries < 100; tries++) {
        rc = zmq_bind(f->router, endpoint ? endpoint : "tcp://127.0.0.1:*");
        if (rc != 0) {
            usleep(20000); /* the last one's port may still be closing */
        }
    }
    need(rc == 0);
    zmq_getsockopt(f->router, ZMQ_LAST_ENDPOINT, f->endpoint, &bytes);
    pthread_create(&f->thread, NULL, fake_main, f);
    return f;
}

const char *fake_endpoint(const struct fake_broker *fake)
{
    return fake->endpoint;
}

void fake_set(struct fake_broker *f, struct fake_behaviour behaviour)
{
    pthread_mutex_lock(&f->lock);
    f->behaviour = behaviour;
    pthread_mutex_unlock(&f->lock);
}

struct fake_seen fake_see(struct fake_broker *f)
{
    pthread_mutex_lock(&f->lock);
    struct fake_seen seen = f->seen;
    pthread_mutex_unlock(&f->lock);
    return seen;
}

bool fake_wait(struct fake_broker *f, size_t offset, unsigned least)
{
    for (int i = 0; i < 10000; i++) {
        struct fake_seen seen = fake_see(f);
        unsigned value;
        memcpy(&value, (const char *)&seen + offset, sizeof value);
        if (value >= least) {
            return true;
        }
        usleep(2000);
    }
    return false;
}

void fake_stop(struct fake_broker *f)
{
    atomic_store(&f->stop, true);
    pthread_join(f->thread, NULL);
    for (size_t i = 0; i < f->held_count; i++) {
        parts_close(f->held[i]);
        free(f->held[i]);
    }
    zmq_close(f->router);
    zmq_ctx_term(f->context);
    pthread_mutex_destroy(&f->lock);
    pack_fini(&f->going);
    free(f);
}
