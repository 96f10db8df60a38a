#include "detached.h"

#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "cluster.h"
#include "detached_entry.h"
#include "detached_progress.h"
#include "detached_shared.h"
#include "journal.h"
#include "keyring.h"
#include "submit.h"
#include "answer_send.h"

#define LOOK_US    1000000u
#define FORGET_MAX 256u /* entries in one call */
#define RETRY_US   100000u

/* ---- what clients say ---- */

static enum pen_status read_wishes(struct broker *broker, const struct session *session, const struct envelope *env,
                                   const uint8_t *meta, struct wishes *ret_wishes, struct pen_error *reterr)
{
    uint64_t most_us = (uint64_t)broker->options->detached_ttl_us;
    meta_arena_reset(&broker->arena);
    const Penstock__JobMeta *job = meta_unpack(&broker->arena, &penstock__job_meta__descriptor, meta, env->meta_bytes);
    if (!job)
        return meta_refusal(&broker->arena, "the job's meta is no JobMeta (proto/job.proto)", reterr);
    if (!*job->model || strlen(job->model) >= sizeof ret_wishes->model)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the job names no model; a name has 1 to 255 bytes");
    ret_wishes->ttl_us = job->detached_ttl_us && job->detached_ttl_us < most_us ? job->detached_ttl_us : most_us;
    memcpy(ret_wishes->model, job->model, strlen(job->model) + 1);
    owner_of(session->tenant->name, session->identity, job->detached_lock.data, job->detached_lock.len,
             &ret_wishes->owner);
    return PEN_OK;
}

static enum pen_status check_room(struct broker *broker, const struct session *session, const struct envelope *env,
                                  const struct message *message, uint64_t *ret_wait_us, struct pen_error *reterr)
{
    const struct options *options = broker->options;
    *ret_wait_us = RETRY_US;
    if (message->overflow || message->count != 1u + env->frames)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "the envelope announces %u raw frames, the message has %zu",
                             env->frames, message->count - 1);
    if (submit_fits(options, message->bytes, reterr) != PEN_OK)
        return PEN_ERR_TOO_LARGE;
    if (submit_memory(broker, message->bytes, 0, reterr) != PEN_OK)
        return PEN_ERR_BUSY;
    if (!session->identity)
        return PEN_OK;
    return quota_check(session->identity, cluster_brokers(broker->cluster), message->bytes,
                       (uint64_t)options->queue_limit, (uint64_t)options->queue_bytes, broker->now_us, ret_wait_us,
                       reterr);
}

static struct shared_message *take_frames(struct message *message)
{
    struct shared_message *shared = shared_message_new(message->count);
    for (size_t i = 0; shared && i < message->count; i++) {
        if (shared_message_take(shared, i, &message->frames[i]) != PEN_OK) {
            shared_message_release(shared);
            return NULL;
        }
    }
    return shared;
}

/* Redis first; when it is known to be gone, the journal if there is one. */
static enum pen_status store(struct broker *broker, struct entry *entry, const struct wishes *wishes,
                             struct pen_error *reterr)
{
    struct detached_store *detached = broker->detached;
    enum pen_status status =
        detached->shared ? shared_accept(broker, entry, wishes->model, reterr) : PEN_ERR_UNAVAILABLE;
    return status == PEN_ERR_UNAVAILABLE && detached->journal ? detached_keep(broker, entry, reterr) : status;
}

static enum pen_status accept_entry(struct broker *broker, struct session *session, const struct envelope *env,
                                    const struct wishes *wishes, struct message *message, struct pen_error *reterr)
{
    struct detached_store *detached = broker->detached;
    struct entry *entry =
        entry_new(detached, env->job, session->tenant, detached->wall() + wishes->ttl_us, ENTRY_ACCEPTING);
    if (!entry)
        return pen_error_set(reterr, PEN_ERR_BUSY, "the broker keeps %u detached jobs, its limit", DETACHED_JOBS_MAX);
    entry->since_us = broker->now_us;
    entry->owner = wishes->owner;
    entry->request = take_frames(message);
    entry->accepted_us = broker->now_us;
    entry->identity = session->identity;
    if (entry->request)
        quota_take(entry->identity, shared_message_bytes(entry->request));
    enum pen_status status = entry->request ? store(broker, entry, wishes, reterr)
                                            : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the job");
    if (status != PEN_OK)
        entry_free(detached, entry);
    return status;
}

void detached_submit(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                     struct message *message)
{
    struct pen_error error = {.status = PEN_OK};
    struct wishes wishes;
    uint64_t wait_us = RETRY_US;
    if (!broker->detached) {
        answer_refuse(broker, session, env, PEN_ERR_UNSUPPORTED,
                      "this broker takes no detached jobs: it was started without --journal and without Redis");
        return;
    }
    if (broker->draining) {
        answer_refuse(broker, session, env, PEN_ERR_UNAVAILABLE,
                      "the broker is draining and takes no new jobs; try again shortly or another broker");
        return;
    }
    const struct entry *known = entry_find(broker->detached, env->job);
    if (known) {
        if (known->state != ENTRY_ACCEPTING)
            answer_accepted(broker, session, env->job);
        return; /* otherwise answered when the journal has it */
    }
    enum pen_status status = read_wishes(broker, session, env, meta, &wishes, &error);
    if (status == PEN_OK)
        status = check_room(broker, session, env, message, &wait_us, &error);
    if (status == PEN_OK)
        status = accept_entry(broker, session, env, &wishes, message, &error);
    if (status != PEN_OK)
        answer_refusal(broker, session, env, "", wait_us, &error);
}

/* ---- what becomes of one ---- */

static bool read_wanted(struct broker *broker, const struct envelope *env, const uint8_t *meta, struct job_id *ret_id,
                        enum watch_for *ret_what)
{
    meta_arena_reset(&broker->arena);
    const Penstock__JobMeta *asked =
        meta_unpack(&broker->arena, &penstock__job_meta__descriptor, meta, env->meta_bytes);
    if (!asked || job_id_parse(asked->detached, ret_id) != 0)
        return false;
    *ret_what = asked->detached_state ? WATCH_STATE : WATCH_REPLY;
    return true;
}

static void tell_state(struct broker *broker, struct session *session, const struct envelope *env,
                       const struct entry *entry)
{
    uint64_t now_us = broker->detached->wall();
    struct progress progress = {.state = entry->state == ENTRY_RUNNING ? "running" : "waiting",
                                .attempts = entry->attempts,
                                .age_us = broker->now_us - entry->accepted_us,
                                .left_us = entry->expires_us > now_us ? entry->expires_us - now_us : 0};
    if (entry->state == ENTRY_DONE)
        answer_ended(broker, session, env->job, entry->reply, progress);
    else
        answer_progress(broker, session, env->job, &progress);
}

void detached_fetch(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta)
{
    struct detached_store *detached = broker->detached;
    struct job_id id = {0, 0};
    enum watch_for what = WATCH_REPLY;
    if (!read_wanted(broker, env, meta, &id, &what)) {
        answer_refuse(broker, session, env, PEN_ERR_INVALID, "that " JOB_ID_REFUSED);
        return;
    }
    struct entry *entry = detached ? entry_find(detached, id) : NULL;
    if (detached && watch_find(&detached->watches, env->job))
        return; /* the client sent it again */
    if (detached && detached->shared && (!entry || entry->shared))
        shared_fetch(broker, session, env, id, what);
    else if (!entry || entry->tenant != session->tenant)
        answer_refuse(
            broker, session, env, PEN_ERR_NOT_FOUND,
            detached
                ? "no detached job of that id is in this broker's journal: it never came, is too old, or another "
                  "broker took it, which alone knows it (ask that one: --broker)"
                : "this broker keeps no detached jobs (it has neither --journal nor Redis); ask the one that took it: "
                  "--broker");
    else if (what == WATCH_STATE)
        tell_state(broker, session, env, entry);
    else if (entry->state == ENTRY_DONE)
        answer_stored(broker, session, env->job, entry->reply);
    else if (!watch_new(&detached->watches, env->job, id, session->tenant, what))
        answer_refuse(broker, session, env, PEN_ERR_BUSY, "as many clients as may wait for detached jobs");
}

bool detached_cancel_fetch(struct broker *broker, struct session *session, const struct envelope *env)
{
    struct watch *watch = broker->detached ? watch_find(&broker->detached->watches, env->job) : NULL;
    if (!watch)
        return false;
    watch_free(&broker->detached->watches, watch);
    answer_refuse(broker, session, env, PEN_ERR_CANCELLED, "the client does not wait for the detached job any more");
    return true;
}

/* ---- timers ---- */

static void forget(struct broker *broker, struct entry *entry)
{
    struct detached_store *detached = broker->detached;
    if (entry->shared) {
        shared_expire(broker, entry);
        return;
    }
    struct job *job = entry->state == ENTRY_RUNNING ? jobs_find(&broker->jobs, entry->id) : NULL;
    detached_record(detached, entry, JOURNAL_GONE, NULL);
    if (!entry->reply)
        entry->reply =
            answer_message_error(entry->id, PEN_ERR_DEADLINE, "the detached job was not done in its lifetime");
    if (entry->reply)
        detached_tell(broker, entry);
    entry_move(detached, entry, ENTRY_DONE, broker->now_us); /* so that the end of its job, below, changes nothing */
    if (job && job->state != JOB_DONE)
        answer_error(broker, job, PEN_ERR_DEADLINE, "the detached job was not done in its lifetime");
    entry_free(detached, entry);
}

static void forget_old(struct broker *broker)
{
    struct detached_store *detached = broker->detached;
    uint64_t now_us = detached->wall();
    struct entry *entry;
    for (uint32_t i = 0; i < FORGET_MAX && (entry = heap_top(&detached->expiry)); i++) {
        if (entry->expires_us > now_us || entry->ticket > detached->dealt ||
            (entry->shared && entry->state == ENTRY_ACCEPTING))
            return;
        forget(broker, entry);
    }
}

/* Drops fetches of clients that have gone; with Redis they are found when they are asked again. */
static void drop_gone(struct broker *broker)
{
    struct watches *watches = &broker->detached->watches;
    struct watch *watch;
    for (uint32_t i = 0; i < FORGET_MAX && i < watches->count && (watch = TAILQ_FIRST(&watches->all)); i++) {
        TAILQ_REMOVE(&watches->all, watch, in_all);
        TAILQ_INSERT_TAIL(&watches->all, watch, in_all);
        if (!session_find(&broker->sessions, watch->own.client))
            watch_free(watches, watch);
    }
}

void detached_tick(struct broker *broker)
{
    struct detached_store *detached = broker->detached;
    if (!detached)
        return;
    detached_file_tick(broker);
    shared_tick(broker);
    if (broker->now_us < detached->look_us)
        return;
    detached->look_us = broker->now_us + LOOK_US;
    forget_old(broker);
    detached_file_look(broker);
    if (!detached->shared)
        drop_gone(broker);
    detached_start(broker);
}
