#include "client_handler.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "control.h"
#include "control.pb-c.h"
#include "detached.h"
#include "dispatch.h"
#include "door.h"
#include "error_complete.h"
#include "handover_in.h"
#include "handover_out.h"
#include "logline.h"
#include "metrics_record.h"
#include "neighbour_talk.h"
#include "sealed_in.h"
#include "shadow_run.h"
#include "submit.h"
#include "send.h"
#include "departure.h"
#include "transfer.h"
#include "answer_send.h"

#define REDIRECTS_MAX 4u /* a client that has followed so many in a row is served where it is */

static void bad_message(struct broker *broker, const char *reason)
{
    door_bad_message(broker, broker->clients, reason);
}

/* ---- hello ---- */

static void set_name(struct session *session, const char *name)
{
    snprintf(session->name, sizeof session->name, "%s", *name ? name : "-");
}

static enum pen_status read_hello(struct broker *broker, const uint8_t *meta, size_t bytes,
                                  Penstock__ClientHello **ret_hello, const struct tenant **ret_tenant,
                                  struct pen_error *reterr)
{
    meta_arena_reset(&broker->arena);
    Penstock__ClientHello *hello = meta_unpack(&broker->arena, &penstock__client_hello__descriptor, meta, bytes);
    if (!hello)
        return meta_refusal(&broker->arena, "the hello's meta is no ClientHello (proto/control.proto)", reterr);
    if (hello->uuid >= SHADOW_UUID_FIRST)
        return pen_error_set(reterr, PEN_ERR_INVALID, "that uuid is the broker's own; draw a random one");
    if (hello->uuid == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the hello has no uuid; a client draws a random one per session");
    *ret_hello = hello;
    return tenant_intern(&broker->sessions, hello->tenant, ret_tenant, reterr);
}

/* The tenant follows from the key. A session belongs to the identity that opened it. */
static enum pen_status authenticate(struct broker *broker, const struct message *message, uint64_t uuid,
                                    struct identity **ret_identity, const struct tenant **tenant,
                                    struct pen_error *reterr)
{
    const struct session *session = session_find(&broker->sessions, uuid);
    *ret_identity = NULL;
    if (!broker->keyring)
        return PEN_OK;
    struct identity *identity = keyring_find(broker->keyring, message->user);
    if (door_check(broker, broker->clients, identity, reterr) != PEN_OK)
        return PEN_ERR_DENIED;
    if (session && session->identity != identity)
        return pen_error_set(reterr, PEN_ERR_DENIED, "a session of that uuid belongs to another key");
    *ret_identity = identity;
    return tenant_intern(&broker->sessions, identity->tenant, tenant, reterr);
}

/* A client that comes anew, and was not sent here, may have to go to a less busy broker. NULL: it stays. */
static const char *elsewhere(struct broker *broker, const Penstock__ClientHello *said, bool known)
{
    bool may_go = !known && said->follows && said->followed == 0;
    return may_go ? neighbours_place(broker) : NULL;
}

/* A second hello with another uuid on one connection says goodbye to the first. */
static void end_former(struct broker *broker, uint32_t peer, uint64_t uuid)
{
    struct session *former = session_by_peer(&broker->sessions, peer);
    if (former && former->uuid != uuid)
        broker_session_end(broker, former, "the client said hello under another uuid");
}

static void hello(struct broker *broker, struct message *message, const struct envelope *env, const uint8_t *meta)
{
    struct pen_error error = {.status = PEN_OK};
    Penstock__ClientHello *said = NULL;
    const struct tenant *tenant = NULL;
    struct identity *identity = NULL;
    enum pen_status status = read_hello(broker, meta, env->meta_bytes, &said, &tenant, &error);
    if (status == PEN_OK)
        status = authenticate(broker, message, said->uuid, &identity, &tenant, &error);
    if (status != PEN_OK) {
        broker->stats.messages_bad++;
        broker_welcome(broker, broker->clients, message->peer, status, error.text);
        return;
    }
    end_former(broker, message->peer, said->uuid);
    struct session *session = session_find(&broker->sessions, said->uuid);
    bool known = session != NULL;
    if (!session)
        session = session_new(&broker->sessions, said->uuid);
    if (!session) {
        broker_welcome(broker, broker->clients, message->peer, PEN_ERR_BUSY,
                       "the broker serves as many clients as it can; try again later");
        return;
    }
    transfer_reset(broker, &session->transfers);
    if (known)
        port_takes_packs(broker->clients, session->link.peer, 0);
    port_takes_packs(broker->clients, message->peer, said->pack_bytes);
    session_connect(&broker->sessions, session, message->peer, message_fd(message), broker->now_us);
    session->transfers = (struct transfer_end){.able = said->bulk, .seals = said->sealed, .session = session};
    session->notices = said->notices;
    session_belongs(session, tenant);
    session->identity = identity;
    session_grace(session, said->grace_us ? said->grace_us : (uint64_t)broker->options->grace_us);
    set_name(session, said->name);
    log_event(LOG_INFO, known ? "client_back" : "client_hello", "client=%016" PRIx64 " name=%s tenant=%s software=%s",
              session->uuid, session->name, tenant->name, said->software);
    session->follows = said->follows && said->followed < REDIRECTS_MAX;
    broker_welcome_client(broker, message->peer, elsewhere(broker, said, known));
    broker_tell_drain(broker, session);
}

/* ---- what a known client says ---- */

void client_submit(struct broker *broker, struct session *session, struct message *message, const struct envelope *env,
                   const uint8_t *meta)
{
    if (env->job.client != session->uuid) {
        bad_message(broker, "a job id of another session");
        struct pen_error error = {.status = PEN_OK};
        pen_error_set(&error, PEN_ERR_DENIED,
                      "the job id names session %016" PRIx64 ", this connection said hello as %016" PRIx64,
                      env->job.client, session->uuid);
        answer_refusal(broker, session, env, "", 0, &error);
        return;
    }
    if (session->identity && !(session->identity->roles & ROLE_SUBMIT)) {
        struct pen_error error = {.status = PEN_OK};
        pen_error_set(&error, PEN_ERR_DENIED, "the key of %s lacks the role submit", session->identity->name);
        answer_refusal(broker, session, env, "", 0, &error);
        return;
    }
    if (env->transfer != 0 && session->transfers.able && !jobs_find(&broker->jobs, env->job))
        transfer_submit(broker, session, env, meta, message);
    else if (env->flags & FRAME_FLAG_FETCH)
        detached_fetch(broker, session, env, meta);
    else if (env->flags & FRAME_FLAG_DETACHED)
        detached_submit(broker, session, env, meta, message);
    else if (!transfer_hold(broker, session, env, meta, message))
        submit_job(broker, session, env, meta, message);
}

static void on_cancel(struct broker *broker, struct session *session, struct message *message,
                      const struct envelope *env, const uint8_t *meta)
{
    (void)message;
    (void)meta;
    struct job *job = env->job.client == session->uuid ? jobs_find(&broker->jobs, env->job) : NULL;
    if (job && job->session->detached)
        return; /* it was accepted and belongs to the detached store; the verb `cancel` ends it */
    if (job && job->state != JOB_DONE) {
        dispatch_recall(broker, job);
        answer_error(broker, job, PEN_ERR_CANCELLED, "the client cancelled the job");
        return;
    }
    if (!job && session->gave)
        handover_recall(broker, env);
    if (!job && env->job.client == session->uuid && !detached_cancel_fetch(broker, session, env) &&
        !transfer_cancel(broker, session, env->job))
        submit_cancel(broker, session, env);
}

static void on_ack(struct broker *broker, struct session *session, struct message *message, const struct envelope *env,
                   const uint8_t *meta)
{
    (void)message;
    (void)meta;
    replies_acknowledge(&broker->sessions, session, env->job.sequence);
}

static void on_control(struct broker *broker, struct session *session, struct message *message,
                       const struct envelope *env, const uint8_t *meta)
{
    (void)message;
    control_answer(broker, session, meta, env->meta_bytes);
}

static void on_goodbye(struct broker *broker, struct session *session, struct message *message,
                       const struct envelope *env, const uint8_t *meta)
{
    (void)message;
    (void)env;
    (void)meta;
    broker_session_end(broker, session, "the client said goodbye");
}

static void on_credit(struct broker *broker, struct session *session, struct message *message,
                      const struct envelope *env, const uint8_t *meta)
{
    (void)message;
    (void)meta;
    transfer_credit(broker, &session->transfers, env);
}

static void on_ping(struct broker *broker, struct session *session, struct message *message, const struct envelope *env,
                    const uint8_t *meta)
{
    (void)message;
    (void)meta;
    struct envelope pong = envelope_make(FRAME_PONG);
    pong.job = env->job;
    broker_send_client(broker, session, &pong, NULL, 0);
}

static void on_pong(struct broker *broker, struct session *session, struct message *message, const struct envelope *env,
                    const uint8_t *meta)
{
    (void)message;
    (void)env;
    (void)meta;
    link_ponged(&session->link);
    effect_post(&broker->effects, &session->room, EFFECT_ROOM_FOR_REPLIES);
}

typedef void (*client_verb)(struct broker *broker, struct session *session, struct message *message,
                            const struct envelope *env, const uint8_t *meta);

static const client_verb verbs[FRAME_TYPE_COUNT] = {
    [FRAME_SUBMIT] = client_submit, [FRAME_CANCEL] = on_cancel,   [FRAME_ACK] = on_ack,   [FRAME_CONTROL] = on_control,
    [FRAME_CREDIT] = on_credit,     [FRAME_GOODBYE] = on_goodbye, [FRAME_PING] = on_ping, [FRAME_PONG] = on_pong,
};

/* ---- the door ---- */

static uint64_t load_u64(const uint8_t *bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

/* A broken SUBMIT is answered when its job id can still be read (offsets: proto/PROTOCOL.md), anything else is dropped and counted. */
static void refuse_broken(struct broker *broker, struct message *message, const struct pen_error *error)
{
    const uint8_t *bytes = zmq_msg_data(&message->frames[0]);
    struct session *session = session_by_peer(&broker->sessions, message->peer);
    bad_message(broker, error->text);
    if (!session || zmq_msg_size(&message->frames[0]) < FRAME_ENVELOPE_BYTES || error->status == PEN_ERR_UNSUPPORTED ||
        bytes[4] != FRAME_SUBMIT)
        return;
    struct envelope env = envelope_make(FRAME_SUBMIT);
    env.job = (struct job_id){.client = load_u64(bytes + 8), .sequence = load_u64(bytes + 16)};
    if (env.job.client == session->uuid && env.job.sequence != 0)
        answer_refusal(broker, session, &env, "", 0, error);
}

static void take_message(struct broker *broker, struct message *message)
{
    struct envelope env;
    const uint8_t *meta;
    struct pen_error error;
    error_begin(&error);
    broker->now_us = broker->clock();
    enum door_word word = door_envelope(broker, broker->clients, message, &env, &meta, &error);
    if (word == DOOR_BROKEN)
        refuse_broken(broker, message, &error);
    if (word != DOOR_OPEN)
        return;
    if (env.type == FRAME_CLIENT_HELLO) {
        hello(broker, message, &env, meta);
        return;
    }
    if (env.type == FRAME_ATTACH || env.type == FRAME_CHUNK) {
        transfer_message(broker, broker->clients, message, &env);
        return;
    }
    if (env.type == FRAME_NEIGHBOUR) {
        neighbours_asked(broker, message, &env, meta);
        return;
    }
    if (env.type == FRAME_WORKER_HELLO) {
        door_wrong(broker, broker->clients, message->peer);
        return;
    }
    if (!verbs[env.type]) {
        bad_message(broker, frame_type_name(env.type));
        return;
    }
    struct session *session = session_by_peer(&broker->sessions, message->peer);
    if (!session && env.type == FRAME_SUBMIT && neighbours_guest(&broker->neighbours, message->peer)) {
        handover_take(broker, message, &env, meta);
        return;
    }
    if (!session && env.type == FRAME_CANCEL && neighbours_guest(&broker->neighbours, message->peer)) {
        handover_cancel(broker, message, &env);
        return;
    }
    if (!session) {
        if (env.type != FRAME_GOODBYE)
            broker_resume(broker, broker->clients, message->peer);
        return;
    }
    if (session->connected) {
        session->link.heard_us = broker->now_us;
    } else {
        /* It was taken for lost, so replies were held back, and some perhaps dropped: it asks for all that it lacks. */
        session_revive(session, broker->now_us);
        broker_resume(broker, broker->clients, message->peer);
    }
    if (env.type == FRAME_SUBMIT && (env.flags & FRAME_FLAG_SEALED)) {
        if (!sealed_in_whole(broker, &session->transfers, message))
            return;
        envelope_decode(zmq_msg_data(&message->frames[0]), zmq_msg_size(&message->frames[0]), &env, &meta, NULL);
    }
    verbs[env.type](broker, session, message, &env, meta);
}

void client_message(struct broker *broker, struct message *message)
{
    effects_begin(&broker->effects);
    take_message(broker, message);
    effects_drain(broker);
}

static void take_lookup(struct broker *broker, uint64_t question, bool hit, const struct cache_value *value)
{
    struct job *job;
    TAILQ_FOREACH(job, &broker->lookups, in_group)
    {
        if (job->lookup == question)
            break;
    }
    if (!job) { /* given up, cancelled or expired in the meantime; or its payload has not come yet */
        transfer_answered(broker, question, hit, value);
        return;
    }
    if (hit && match_cached(&job->lane->demand, value)) {
        answer_job_hit(broker, job, value);
        return;
    }
    record_lookup(broker, job);
    record_miss(broker, job->lane->model);
    TAILQ_REMOVE(&broker->lookups, job, in_group);
    dispatch_queue(broker, job);
}

void client_lookup(struct broker *broker, uint64_t question, bool hit, const struct cache_value *value)
{
    effects_begin(&broker->effects);
    take_lookup(broker, question, hit, value);
    effects_drain(broker);
}
