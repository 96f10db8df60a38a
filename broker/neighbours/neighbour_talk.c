#include "neighbour_talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control.pb-c.h"
#include "endpoints.h"
#include "handover_out.h"
#include "keyring.h"
#include "logline.h"
#include "version.h"

#define STATE_BYTES   256u
#define READ_MESSAGES 256u /* of one neighbour, before others get their turn */
#define MINOR_FIRST   3u   /* of the protocol: the first one with NEIGHBOUR */

static uint64_t liveness_us(const struct broker *broker)
{
    return (uint64_t)broker->options->liveness_us;
}

static size_t state_pack(const struct broker *broker, uint8_t meta[STATE_BYTES])
{
    Penstock__NeighbourState state = PENSTOCK__NEIGHBOUR_STATE__INIT;
    state.broker = broker->uuid;
    state.software = (char *)(uintptr_t)PENSTOCK_SOFTWARE;
    state.load = broker->neighbours.load;
    state.busy = broker->neighbours.busy;
    state.draining = broker->draining;
    return penstock__neighbour_state__pack(&state, meta);
}

/* ---- asking ---- */

enum pen_status neighbours_open(struct broker *broker, void *context, const struct key_pair *key,
                                struct pen_error *reterr)
{
    struct neighbours *neighbours = &broker->neighbours;
    struct endpoints list = {.count = 0};
    enum pen_status status = endpoints_parse(broker->options->neighbours, &list, reterr);
    for (size_t i = 0; i < list.count && status == PEN_OK; i++) {
        struct neighbour *next = &neighbours->all[neighbours->count];
        snprintf(next->endpoint, sizeof next->endpoint, "%s", list.texts[i]);
        status = dealer_open(&next->dealer, context, next->endpoint, key, broker->options->max_frame_bytes, reterr);
        neighbours->count += status == PEN_OK;
    }
    endpoints_fini(&list);
    return status;
}

void neighbours_close(struct broker *broker)
{
    for (uint32_t i = 0; i < broker->neighbours.count; i++)
        dealer_close(&broker->neighbours.all[i].dealer);
    broker->neighbours.count = 0;
}

static void measure(struct broker *broker)
{
    neighbours_measure(&broker->neighbours, broker->live, broker->sessions.count, (uint64_t)broker->options->busy_jobs,
                       (uint64_t)broker->options->busy_clients);
    broker->stats.load = broker->neighbours.load;
}

const char *neighbours_place(struct broker *broker)
{
    measure(broker);
    const struct neighbour *to =
        neighbours_for_client(&broker->neighbours, broker->sessions.count, broker->now_us, liveness_us(broker));
    broker->stats.clients_redirected += to != NULL;
    return to ? to->endpoint : NULL;
}

/* It is there, and its protocol is new enough. */
static bool understands(const struct broker *broker, const struct neighbour *to)
{
    return to->spoke_us != 0 && to->minor >= MINOR_FIRST && broker->now_us - to->spoke_us < liveness_us(broker);
}

/* A broker of 1.2 or older would take NEIGHBOUR for a broken message, and log it each time. PING it knows, and to who has
   said no hello it answers RESUME, which tells its version. */
static void tell(struct broker *broker, struct neighbour *to)
{
    uint8_t meta[STATE_BYTES];
    bool state = understands(broker, to);
    dealer_say(&to->dealer, envelope_make(state ? FRAME_NEIGHBOUR : FRAME_PING), meta,
               state ? state_pack(broker, meta) : 0);
}

void neighbours_beat(struct broker *broker)
{
    struct neighbours *neighbours = &broker->neighbours;
    measure(broker);
    for (uint32_t i = 0; i < neighbours->count; i++)
        tell(broker, &neighbours->all[i]);
    broker->stats.neighbours = neighbours_here(neighbours, broker->now_us, liveness_us(broker));
}

/* ---- being told ---- */

static Penstock__NeighbourState *state_unpack(struct broker *broker, const struct envelope *env, const uint8_t *meta)
{
    meta_arena_reset(&broker->arena);
    return meta_unpack(&broker->arena, &penstock__neighbour_state__descriptor, meta, env->meta_bytes);
}

static void told_denied(struct neighbour *from)
{
    if (!from->told_denied)
        log_event(LOG_WARN, "neighbour_denied", "endpoint=%s reason=%s", from->endpoint,
                  "the key of this broker (--key) lacks the role admin there (--keys)");
    from->told_denied = true;
}

static void told_state(struct broker *broker, struct neighbour *from, const struct envelope *env, const uint8_t *meta)
{
    const Penstock__NeighbourState *state = state_unpack(broker, env, meta);
    if (env->status == PEN_ERR_DENIED)
        told_denied(from);
    if (!state || env->status != PEN_OK || state->broker == broker->uuid)
        return; /* one list may serve all brokers: this one is its own neighbour in it */
    if (from->uuid != state->broker)
        log_event(LOG_INFO, "neighbour", "endpoint=%s broker=%016" PRIx64 " load=%u draining=%d", from->endpoint,
                  state->broker, state->load, state->draining);
    if (from->uuid != 0 && from->uuid != state->broker)
        handover_lost(broker, from); /* another process answers there: it knows nothing of our jobs */
    from->uuid = state->broker;
    from->heard_us = broker->now_us;
    from->load = state->load;
    from->busy = state->busy;
    from->draining = state->draining;
    from->sent = 0;
    from->told_denied = false;
}

static void hear(struct broker *broker, struct neighbour *from, const struct message *message)
{
    struct envelope env;
    const uint8_t *meta;
    zmq_msg_t *header = (zmq_msg_t *)(uintptr_t)&message->frames[0];
    if (envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) != PEN_OK)
        return;
    bool knew = understands(broker, from);
    from->spoke_us = broker->now_us;
    from->minor = env.minor;
    if (env.type == FRAME_NEIGHBOUR)
        told_state(broker, from, &env, meta);
    else if (env.type == FRAME_HANDED)
        handover_answered(broker, from, &env);
    else if (env.type == FRAME_RESUME)
        handover_lost(broker, from); /* it was started again: it has heard none of what was said before */
    if (!knew && understands(broker, from))
        tell(broker, from);
}

void neighbours_read(struct broker *broker)
{
    struct message message = {.count = 0};
    if (broker->neighbours.count == 0)
        return;
    effects_begin(&broker->effects);
    broker->now_us = broker->clock();
    for (uint32_t i = 0; i < broker->neighbours.count; i++) {
        struct neighbour *from = &broker->neighbours.all[i];
        for (unsigned n = 0; n < READ_MESSAGES && from->dealer.receive(&from->dealer, &message); n++)
            hear(broker, from, &message);
    }
    effects_drain(broker);
    message_fini(&message);
}

/* ---- being asked ---- */

bool neighbours_may_ask(struct broker *broker, const struct message *message)
{
    const struct identity *identity = broker->keyring ? keyring_find(broker->keyring, message->user) : NULL;
    return !broker->keyring || (identity && identity->roles & ROLE_ADMIN);
}

void neighbours_asked(struct broker *broker, const struct message *message, const struct envelope *env,
                      const uint8_t *meta)
{
    uint8_t own[STATE_BYTES];
    struct envelope answer = envelope_make(FRAME_NEIGHBOUR);
    if (broker->neighbours.count == 0)
        answer.status = PEN_ERR_UNSUPPORTED;
    else if (!neighbours_may_ask(broker, message))
        answer.status = PEN_ERR_DENIED;
    else if (!state_unpack(broker, env, meta))
        answer.status = PEN_ERR_INVALID;
    else
        neighbours_guest_add(&broker->neighbours, message->peer);
    measure(broker);
    port_send(broker->clients, message->peer, &answer, own, answer.status == PEN_OK ? state_pack(broker, own) : 0);
}
