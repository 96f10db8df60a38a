#include "handover_in.h"

#include <inttypes.h>
#include <stdio.h>

#include "answer.h"
#include "job.pb-c.h"
#include "keyring.h"
#include "logline.h"
#include "meta_fields.h"
#include "neighbour_talk.h"
#include "shadow_run.h"
#include "submit.h"
#include "wire_reader.h"

#define GRACE_US_MIN  5000000u /* the client has yet to hear where its job is, and to come here */
#define AWAITED_SHARE 2u       /* of --queue-bytes: what may wait here for clients that have yet to come */

/* Finds whose job it is: the last field of the meta. *ret_meta_bytes: of the meta without it. */
static bool handed_find(const uint8_t *meta, size_t bytes, struct wire_field *ret_field, size_t *ret_meta_bytes)
{
    struct wire_reader reader = {meta, meta + bytes};
    struct wire_field field = {.number = 0};
    const uint8_t *at = meta;
    bool found = false;
    for (; meta_next(&reader, &field); at = reader.at) {
        found = field.number == JOB_META_HANDED && field.data;
        *ret_field = field;
        *ret_meta_bytes = (size_t)(at - meta);
    }
    return found && reader.at == reader.end;
}

static enum pen_status identity_of(struct broker *broker, const char *key, struct identity **ret_identity,
                                   struct pen_error *reterr)
{
    *ret_identity = NULL;
    if (!broker->keyring)
        return PEN_OK;
    *ret_identity = keyring_find(broker->keyring, key);
    if (*ret_identity && (*ret_identity)->roles & ROLE_SUBMIT)
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_DENIED, "the key of the job's client may not submit here (--keys)");
}

static struct session *session_for(struct broker *broker, uint64_t uuid, const Penstock__HandedOver *handed,
                                   const struct tenant *tenant, struct identity *identity)
{
    struct session *session = session_new(&broker->sessions, uuid);
    if (!session)
        return NULL;
    session_await(&broker->sessions, session, 0);
    session_belongs(session, tenant);
    session->identity = identity;
    session->lost_us = broker->now_us;
    session_grace(session, handed->grace_us > GRACE_US_MIN ? handed->grace_us : GRACE_US_MIN);
    snprintf(session->name, sizeof session->name, "%s", *handed->name ? handed->name : "-");
    return session;
}

/* Its client's session: one that is here already must be of the same key. */
static enum pen_status session_of(struct broker *broker, uint64_t uuid, const struct wire_field *field,
                                  struct session **ret_session, struct pen_error *reterr)
{
    struct identity *identity;
    const struct tenant *tenant;
    struct session *known = session_find(&broker->sessions, uuid);
    meta_arena_reset(&broker->arena);
    const Penstock__HandedOver *handed =
        meta_unpack(&broker->arena, &penstock__handed_over__descriptor, field->data, field->bytes);
    if (!handed || uuid >= SHADOW_UUID_FIRST || (known && known->owner != OWNER_CLIENT))
        return pen_error_set(reterr, PEN_ERR_INVALID, "it does not say whose job it is");
    enum pen_status status = identity_of(broker, handed->key, &identity, reterr);
    if (status == PEN_OK)
        status = tenant_intern(&broker->sessions, identity ? identity->tenant : handed->tenant, &tenant, reterr);
    if (status != PEN_OK)
        return status;
    if (known && known->identity != identity)
        return pen_error_set(reterr, PEN_ERR_DENIED, "a session of that uuid belongs to another key");
    *ret_session = known ? known : session_for(broker, uuid, handed, tenant, identity);
    return *ret_session ? PEN_OK : pen_error_set(reterr, PEN_ERR_BUSY, "there is no room for another client");
}

static uint64_t message_bytes(const struct message *message)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < message->count; i++)
        bytes += zmq_msg_size((zmq_msg_t *)(uintptr_t)&message->frames[i]);
    return bytes;
}

/* A job for a client that is not here yet. Whoever may speak as a neighbour could fill this broker with such. */
static enum pen_status room_of(const struct broker *broker, const struct session *session, uint64_t bytes,
                               struct pen_error *reterr)
{
    const struct sessions *sessions = &broker->sessions;
    uint64_t most = (uint64_t)broker->options->queue_bytes / AWAITED_SHARE;
    if (session && !session->awaited)
        return PEN_OK; /* its client is known here */
    if (!session && sessions->awaited >= AWAITED_MAX)
        return pen_error_set(reterr, PEN_ERR_BUSY, "%u clients have yet to come after their jobs; that is the limit",
                             sessions->awaited);
    if (bytes > most || sessions->awaited_bytes > most - bytes)
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "jobs of %" PRIu64
                             " bytes wait here for clients that have yet to come, and this one has %" PRIu64
                             "; they may have half of --queue-bytes",
                             sessions->awaited_bytes, bytes);
    return PEN_OK;
}

static enum pen_status take(struct broker *broker, struct message *message, const struct envelope *env,
                            const uint8_t *meta, struct pen_error *reterr)
{
    struct wire_field field = {.number = 0};
    struct envelope own = *env;
    struct session *session = NULL;
    size_t meta_bytes = 0;
    if (!neighbours_may_ask(broker, message))
        return pen_error_set(reterr, PEN_ERR_DENIED, "the key of that broker lacks the role admin by now (--keys)");
    if (jobs_find(&broker->jobs, env->job))
        return PEN_OK; /* its client was here first */
    if (broker->draining)
        return pen_error_set(reterr, PEN_ERR_UNAVAILABLE, "this broker drains, too");
    if (env->transfer != 0 || env->flags & (FRAME_FLAG_FETCH | FRAME_FLAG_DETACHED) ||
        !handed_find(meta, env->meta_bytes, &field, &meta_bytes))
        return pen_error_set(reterr, PEN_ERR_INVALID, "it is no job that is handed over (JobMeta.handed)");
    uint64_t bytes = message_bytes(message);
    enum pen_status status = room_of(broker, session_find(&broker->sessions, env->job.client), bytes, reterr);
    if (status == PEN_OK)
        status = session_of(broker, env->job.client, &field, &session, reterr);
    own.meta_bytes = (uint32_t)meta_bytes; /* workers need not know whose it was */
    if (status == PEN_OK)
        status = submit_try(broker, session, &own, meta, message, reterr);
    if (status == PEN_OK && session->awaited)
        session_await(&broker->sessions, session, bytes);
    return status;
}

void handover_take(struct broker *broker, struct message *message, const struct envelope *env, const uint8_t *meta)
{
    char id[JOB_ID_TEXT_BYTES];
    struct pen_error error = {.status = PEN_OK, .text = ""};
    struct envelope answer = envelope_make(FRAME_HANDED);
    enum pen_status status = take(broker, message, env, meta, &error);
    broker->stats.jobs_taken_over += status == PEN_OK;
    if (status != PEN_OK)
        log_event(LOG_INFO, "handover_refused", "job=%s status=%s reason=%s", job_id_text(env->job, id),
                  pen_status_name(status), error.text);
    answer.job = env->job;
    answer.status = (uint8_t)status;
    port_send(broker->clients, message->peer, &answer, NULL, 0);
}

void handover_cancel(struct broker *broker, const struct message *message, const struct envelope *env)
{
    struct job *job = jobs_find(&broker->jobs, env->job);
    if (!job || job->state == JOB_DONE || job->owner != OWNER_CLIENT || !job->session->awaited ||
        !neighbours_may_ask(broker, message))
        return;
    answer_error(broker, job, PEN_ERR_CANCELLED, "it ended at the broker that handed it over");
}
