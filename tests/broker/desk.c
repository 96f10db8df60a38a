#include "desk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker_handler.h"
#include "client_handler.h"

static uint64_t clock_us;
static uint64_t sent_count;

static uint64_t desk_clock(void)
{
    return clock_us;
}

/* Forgets the oldest. */
static void side_drop(struct side *side, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < side->sent[i]->count; k++)
            zmq_msg_close(&side->sent[i]->frames[k]);
        free(side->sent[i]);
    }
    side->count -= count;
    side->first -= side->first < count ? side->first : count;
    memmove(side->sent, side->sent + count, side->count * sizeof side->sent[0]);
}

static bool side_begin(struct port *port, uint32_t peer)
{
    struct side *side = (struct side *)(void *)port;
    for (size_t i = 0; i < side->gone_count; i++) {
        if (side->gone[i] == peer)
            return false;
    }
    if (side->forget && side->count == DESK_SENT_MAX)
        side_drop(side, side->first > 0 ? side->first : side->count); /* what was read, if anything was */
    if (side->in_message || side->count == DESK_SENT_MAX)
        abort(); /* a message must be finished before the next begins */
    struct sent *sent = calloc(1, sizeof *sent);
    if (!sent)
        abort();
    sent->peer = peer;
    sent->number = sent_count++;
    sent->at_us = clock_us;
    side->total++;
    side->sent[side->count++] = sent;
    side->in_message = true;
    return true;
}

static void side_part(struct port *port, zmq_msg_t *frame, enum frame_follows follows)
{
    bool more = follows == FRAME_MORE;
    struct side *side = (struct side *)(void *)port;
    struct sent *sent = side->sent[side->count - 1];
    if (!side->in_message || sent->count == sizeof sent->frames / sizeof sent->frames[0])
        abort();
    zmq_msg_t *own = &sent->frames[sent->count++];
    zmq_msg_init(own);
    zmq_msg_move(own, frame);
    zmq_msg_close(frame);
    if (sent->count == 1 &&
        envelope_decode(zmq_msg_data(own), zmq_msg_size(own), &sent->env, &sent->meta, NULL) != PEN_OK)
        abort(); /* the broker sent what no peer would take */
    side->in_message = more;
}

static void side_init(struct side *side)
{
    side->port.begin = side_begin;
    side->port.part = side_part;
}

void side_lose(struct side *side, uint32_t peer)
{
    side->gone[side->gone_count++] = peer;
}

struct desk *desk_new(void)
{
    struct desk *desk = calloc(1, sizeof *desk);
    char *argv[] = {(char *)(uintptr_t) "penstock-broker", NULL};
    enum settings_outcome outcome;
    struct settings_store *store;
    struct pen_error error = {.status = PEN_OK};
    if (!desk || options_load(1, argv, &desk->options, &outcome, &store, &error) != PEN_OK) {
        fprintf(stderr, "desk: %s\n", error.text);
        abort();
    }
    settings_free(store); /* texts of the options are not used after the start */
    desk->options.cache.namespace = "test";
    desk->options.refuse_late = false; /* tests of deadlines want jobs that miss them */
    log_setup("desk", LOG_ERROR, false);
    clock_us = 1000000;
    return desk;
}

/* The ports are reached through copies in the broker, so the callbacks get a pointer into the broker: they are the sides themselves there. */
void desk_open(struct desk *desk)
{
    if (cache_new(NULL, &desk->options.cache, &desk->cache, NULL) != PEN_OK ||
        broker_init(&desk->broker, &desk->options, desk->cache, desk_clock) != PEN_OK)
        abort();
    side_init(&desk->clients);
    side_init(&desk->workers);
    desk->broker.clients = &desk->clients.port;
    desk->broker.workers = &desk->workers.port;
}

void desk_free(struct desk *desk)
{
    broker_fini(&desk->broker);
    cache_free(desk->cache);
    side_drop(&desk->clients, desk->clients.count);
    side_drop(&desk->workers, desk->workers.count);
    free(desk);
}

void desk_run(struct desk *desk)
{
    broker_tick(&desk->broker);
}

#define SPINS 64

/* What is due is done, in a few turns: a timer that stays due would keep the loop from sleeping. Workers whose connection has ended wait for what they still said. */
static void tick_all(struct desk *desk)
{
    broker_tick(&desk->broker);
    for (unsigned i = 0; desk->broker.fleet.ended == 0 && broker_next_us(&desk->broker) <= clock_us; i++) {
        if (i == SPINS) {
            fprintf(stderr, "desk: a timer of the broker stays due\n");
            abort();
        }
        broker_tick(&desk->broker);
    }
}

void desk_wait(struct desk *desk, uint64_t us)
{
    uint64_t end_us = clock_us + us;
    while (clock_us < end_us) {
        uint64_t next_us = broker_next_us(&desk->broker);
        if (next_us <= clock_us)
            next_us = clock_us + 1;
        clock_us = next_us < end_us ? next_us : end_us;
        tick_all(desk);
    }
}

static void add_frame(struct message *message, const void *head, size_t head_bytes, const void *tail, size_t tail_bytes)
{
    zmq_msg_t frame;
    zmq_msg_init_size(&frame, head_bytes + tail_bytes);
    if (head_bytes)
        memcpy(zmq_msg_data(&frame), head, head_bytes);
    if (tail_bytes)
        memcpy((uint8_t *)zmq_msg_data(&frame) + head_bytes, tail, tail_bytes);
    message_add(message, &frame);
}

void desk_frames(struct message *message, uint32_t peer, const uint8_t *bytes, const size_t *sizes, size_t count)
{
    message->peer = peer;
    for (size_t i = 0; i < count; bytes += sizes[i], i++)
        add_frame(message, bytes, sizes[i], NULL, 0);
}

static void build(struct message *message, uint32_t peer, struct envelope env, const void *meta, size_t bytes,
                  size_t raw_bytes)
{
    uint8_t head[FRAME_ENVELOPE_BYTES];
    env.meta_bytes = (uint32_t)bytes;
    envelope_encode(&env, head);
    message->peer = peer;
    add_frame(message, head, sizeof head, meta, bytes);
    if (raw_bytes) {
        void *raw = calloc(1, raw_bytes);
        add_frame(message, raw, raw_bytes, NULL, 0);
        free(raw);
    }
}

void desk_say_client(struct desk *desk, uint32_t peer, struct envelope env, const void *meta, size_t bytes,
                     size_t raw_bytes)
{
    struct message message = {.count = 0};
    build(&message, peer, env, meta, bytes, raw_bytes);
    message.user = desk->user;
    client_message(&desk->broker, &message);
    message_fini(&message);
    desk_run(desk);
}

void desk_say_worker(struct desk *desk, uint32_t peer, struct envelope env, const void *meta, size_t bytes)
{
    struct message message = {.count = 0};
    build(&message, peer, env, meta, bytes, 0);
    worker_message(&desk->broker, &message);
    message_fini(&message);
    desk_run(desk);
}

static void expect_welcome(struct side *side)
{
    struct sent *welcome = desk_next(side, FRAME_WELCOME);
    if (!welcome || welcome->env.status != PEN_OK)
        abort();
}

void desk_client(struct desk *desk, uint32_t peer, uint64_t uuid)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t bytes = wire_client_hello(meta, uuid, "", 0);
    desk_say_client(desk, peer, envelope_make(FRAME_CLIENT_HELLO), meta, bytes, 0);
    expect_welcome(&desk->clients);
}

void desk_worker(struct desk *desk, uint32_t peer, const struct wire_worker *worker)
{
    uint8_t meta[WIRE_META_BYTES];
    struct message message = {.count = 0};
    build(&message, peer, envelope_make(FRAME_WORKER_HELLO), meta, wire_worker_hello(meta, worker), 0);
    worker_message(&desk->broker, &message);
    message_fini(&message);
    struct sent *last = desk->workers.count ? desk->workers.sent[desk->workers.count - 1] : NULL;
    if (!last || last->env.type != FRAME_WELCOME || last->env.status != PEN_OK)
        abort();
    desk_run(desk);
}

void desk_submit(struct desk *desk, uint32_t peer, const struct wire_job *job)
{
    uint8_t meta[WIRE_META_BYTES];
    size_t raw_bytes, bytes = wire_job(meta, job, &raw_bytes);
    desk_say_client(desk, peer, wire_job_envelope(job), meta, bytes, raw_bytes);
}

void desk_result(struct desk *desk, uint32_t peer, struct job_id id, uint8_t digest, uint8_t value)
{
    uint8_t meta[WIRE_META_BYTES];
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = id;
    memset(env.digest.bytes, digest, sizeof env.digest.bytes);
    desk_say_worker(desk, peer, env, meta, wire_result(meta, value, "xnnpack", PRECISION_F32, 1000, NULL));
}

void desk_result_status(struct desk *desk, uint32_t peer, struct job_id id, enum pen_status status, uint64_t compute_us)
{
    uint8_t meta[WIRE_META_BYTES];
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = id;
    env.status = (uint8_t)status;
    desk_say_worker(desk, peer, env, meta,
                    wire_result(meta, 1, "xnnpack", PRECISION_F32, compute_us, status == PEN_OK ? NULL : "it failed"));
}

void desk_cancel(struct desk *desk, uint32_t peer, struct job_id id)
{
    struct envelope env = envelope_make(FRAME_CANCEL);
    env.job = id;
    desk_say_client(desk, peer, env, NULL, 0, 0);
}

#define CONTROL_SERIAL 5u

void desk_question(struct desk *desk, uint32_t peer, const char *verb, const char *argument)
{
    uint8_t meta[WIRE_META_BYTES];
    desk_say_client(desk, peer, envelope_make(FRAME_CONTROL), meta, wire_control(meta, verb, argument, CONTROL_SERIAL),
                    0);
}

Penstock__ControlReply *desk_answer(struct desk *desk, enum pen_status *ret_status)
{
    struct sent *sent = desk_next(&desk->clients, FRAME_CONTROL_REPLY);
    if (!sent)
        return NULL;
    Penstock__ControlReply *reply = penstock__control_reply__unpack(NULL, sent->env.meta_bytes, sent->meta);
    if (!reply || reply->serial != CONTROL_SERIAL)
        abort();
    if (ret_status)
        *ret_status = (enum pen_status)sent->env.status;
    return reply;
}

Penstock__ControlReply *desk_ask(struct desk *desk, const char *verb, const char *argument, enum pen_status *ret_status)
{
    desk_question(desk, 1, verb, argument);
    Penstock__ControlReply *reply = desk_answer(desk, ret_status);
    if (!reply)
        abort();
    return reply;
}

struct sent *desk_next(struct side *side, enum frame_type type)
{
    while (side->first < side->count) {
        struct sent *sent = side->sent[side->first++];
        if (sent->env.type == type)
            return sent;
    }
    return NULL;
}

size_t desk_pending(const struct side *side, enum frame_type type)
{
    size_t count = 0;
    for (size_t i = side->first; i < side->count; i++)
        count += side->sent[i]->env.type == type;
    return count;
}

static const struct envelope *group_at(const struct sent *sent, size_t group, struct envelope *ret_env)
{
    size_t at = 0, number = 0;
    const uint8_t *meta;
    while (at < sent->count) {
        zmq_msg_t *frame = (zmq_msg_t *)(uintptr_t)&sent->frames[at];
        if (envelope_decode(zmq_msg_data(frame), zmq_msg_size(frame), ret_env, &meta, NULL) != PEN_OK)
            abort();
        if (number++ == group)
            return ret_env;
        at += 1u + ret_env->frames;
    }
    return NULL;
}

size_t sent_groups(const struct sent *sent)
{
    struct envelope env;
    size_t count = 0;
    while (group_at(sent, count, &env))
        count++;
    return count;
}

struct job_id sent_job(const struct sent *sent, size_t group)
{
    struct envelope env;
    if (!group_at(sent, group, &env))
        abort();
    return env.job;
}

Penstock__ResultMeta *sent_result(const struct sent *sent)
{
    Penstock__ResultMeta *result = penstock__result_meta__unpack(NULL, sent->env.meta_bytes, sent->meta);
    if (!result)
        abort();
    return result;
}
