#include "depot.h"

#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "commons.h"
#include "depot_entry.h"
#include "depot_progress.h"
#include "depot_shared.h"
#include "journal.h"
#include "keyring.h"
#include "submit.h"
#include "answer_send.h"

#define LOOK_US    1000000u
#define FORGET_MAX 256u /* entries in one look */
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
    return quota_check(session->identity, commons_brokers(broker->commons), message->bytes,
                       (uint64_t)options->queue_limit, (uint64_t)options->queue_bytes, broker->now_us, ret_wait_us,
                       reterr);
}

static struct parcel *take_frames(struct message *message)
{
    struct parcel *parcel = parcel_new(message->count);
    for (size_t i = 0; parcel && i < message->count; i++) {
        if (parcel_take(parcel, i, &message->frames[i]) != PEN_OK) {
            parcel_release(parcel);
            return NULL;
        }
    }
    return parcel;
}

/* Redis first; when it is known to be gone, the journal if there is one. */
static enum pen_status store(struct broker *broker, struct entry *entry, const struct wishes *wishes,
                             struct pen_error *reterr)
{
    struct depot *depot = broker->depot;
    enum pen_status status = depot->shared ? shared_accept(broker, entry, wishes->model, reterr) : PEN_ERR_UNAVAILABLE;
    return status == PEN_ERR_UNAVAILABLE && depot->journal ? depot_keep(broker, entry, reterr) : status;
}

static enum pen_status accept_entry(struct broker *broker, struct session *session, const struct envelope *env,
                                    const struct wishes *wishes, struct message *message, struct pen_error *reterr)
{
    struct depot *depot = broker->depot;
    struct entry *entry = entry_new(depot, env->job, session->tenant, depot->wall() + wishes->ttl_us, ENTRY_ACCEPTING);
    if (!entry)
        return pen_error_set(reterr, PEN_ERR_BUSY, "the broker keeps %u detached jobs, its limit", DEPOT_JOBS_MAX);
    entry->since_us = broker->now_us;
    entry->owner = wishes->owner;
    entry->request = take_frames(message);
    entry->accepted_us = broker->now_us;
    entry->identity = session->identity;
    if (entry->request)
        quota_take(entry->identity, parcel_bytes(entry->request));
    enum pen_status status = entry->request ? store(broker, entry, wishes, reterr)
                                            : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the job");
    if (status != PEN_OK)
        entry_free(depot, entry);
    return status;
}

void depot_submit(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                  struct message *message)
{
    struct pen_error error = {.status = PEN_OK};
    struct wishes wishes;
    uint64_t wait_us = RETRY_US;
    if (!broker->depot) {
        depot_refuse(broker, session, env, PEN_ERR_UNSUPPORTED,
                     "this broker takes no detached jobs: it was started without --journal and without Redis");
        return;
    }
    if (broker->draining) {
        depot_refuse(broker, session, env, PEN_ERR_UNAVAILABLE,
                     "the broker is draining and takes no new jobs; try again shortly or another broker");
        return;
    }
    const struct entry *known = entry_find(broker->depot, env->job);
    if (known) {
        if (known->state != ENTRY_ACCEPTING)
            answer_accepted(broker, session, env->job);
        return; /* else when the journal has it */
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
                        bool *ret_state)
{
    meta_arena_reset(&broker->arena);
    const Penstock__JobMeta *asked =
        meta_unpack(&broker->arena, &penstock__job_meta__descriptor, meta, env->meta_bytes);
    if (!asked || job_id_parse(asked->detached, ret_id) != 0)
        return false;
    *ret_state = asked->detached_state;
    return true;
}

static void tell_state(struct broker *broker, struct session *session, const struct envelope *env,
                       const struct entry *entry)
{
    uint64_t now_us = broker->depot->wall();
    struct progress progress = {.state = entry->state == ENTRY_RUNNING ? "running" : "waiting",
                                .attempts = entry->attempts,
                                .age_us = broker->now_us - entry->accepted_us,
                                .left_us = entry->expires_us > now_us ? entry->expires_us - now_us : 0};
    if (entry->state == ENTRY_DONE)
        answer_ended(broker, session, env->job, entry->reply);
    else
        answer_progress(broker, session, env->job, &progress);
}

void depot_fetch(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta)
{
    struct depot *depot = broker->depot;
    struct job_id id = {0, 0};
    bool state = false;
    if (!read_wanted(broker, env, meta, &id, &state)) {
        depot_refuse(broker, session, env, PEN_ERR_INVALID, "that " JOB_ID_REFUSED);
        return;
    }
    struct entry *entry = depot ? entry_find(depot, id) : NULL;
    if (depot && watch_find(&depot->watches, env->job))
        return; /* sent again */
    if (depot && depot->shared && (!entry || entry->shared))
        shared_fetch(broker, session, env, id, state);
    else if (!entry || entry->tenant != session->tenant)
        depot_refuse(
            broker, session, env, PEN_ERR_NOT_FOUND,
            depot
                ? "no detached job of that id is in this broker's journal: it never came, is too old, or another "
                  "broker took it, which alone knows it (ask that one: --broker)"
                : "this broker keeps no detached jobs (it has neither --journal nor Redis); ask the one that took it: "
                  "--broker");
    else if (state)
        tell_state(broker, session, env, entry);
    else if (entry->state == ENTRY_DONE)
        answer_stored(broker, session, env->job, entry->reply);
    else if (!watch_new(&depot->watches, env->job, id, session->tenant, false))
        depot_refuse(broker, session, env, PEN_ERR_BUSY, "as many clients as may wait for detached jobs");
}

bool depot_cancel_fetch(struct broker *broker, struct session *session, const struct envelope *env)
{
    struct watch *watch = broker->depot ? watch_find(&broker->depot->watches, env->job) : NULL;
    if (!watch)
        return false;
    watch_free(&broker->depot->watches, watch);
    depot_refuse(broker, session, env, PEN_ERR_CANCELLED, "the client does not wait for the detached job any more");
    return true;
}

/* ---- clockwork ---- */

static void forget(struct broker *broker, struct entry *entry)
{
    struct depot *depot = broker->depot;
    if (entry->shared) {
        shared_expire(broker, entry);
        return;
    }
    struct job *job = entry->state == ENTRY_RUNNING ? jobs_find(&broker->jobs, entry->id) : NULL;
    depot_record(depot, entry, JOURNAL_GONE, NULL);
    if (!entry->reply)
        entry->reply =
            answer_parcel_error(entry->id, PEN_ERR_DEADLINE, "the detached job was not done in its lifetime");
    if (entry->reply)
        depot_tell(broker, entry);
    entry_move(depot, entry, ENTRY_DONE, broker->now_us); /* so that its end below changes nothing */
    if (job && job->state != JOB_DONE)
        answer_error(broker, job, PEN_ERR_DEADLINE, "the detached job was not done in its lifetime");
    entry_free(depot, entry);
}

static void forget_old(struct broker *broker)
{
    struct depot *depot = broker->depot;
    uint64_t now_us = depot->wall();
    struct entry *entry;
    for (uint32_t i = 0; i < FORGET_MAX && (entry = heap_top(&depot->expiry)); i++) {
        if (entry->expires_us > now_us || entry->ticket > depot->dealt ||
            (entry->shared && entry->state == ENTRY_ACCEPTING))
            return;
        forget(broker, entry);
    }
}

/* Fetches of clients that have gone; with Redis they are found when they are asked for again. */
static void drop_gone(struct broker *broker)
{
    struct watches *watches = &broker->depot->watches;
    struct watch *watch;
    for (uint32_t i = 0; i < FORGET_MAX && i < watches->count && (watch = TAILQ_FIRST(&watches->all)); i++) {
        TAILQ_REMOVE(&watches->all, watch, in_all);
        TAILQ_INSERT_TAIL(&watches->all, watch, in_all);
        if (!session_find(&broker->sessions, watch->own.client))
            watch_free(watches, watch);
    }
}

void depot_tick(struct broker *broker)
{
    struct depot *depot = broker->depot;
    if (!depot)
        return;
    depot_file_tick(broker);
    shared_tick(broker);
    if (broker->now_us < depot->look_us)
        return;
    depot->look_us = broker->now_us + LOOK_US;
    forget_old(broker);
    depot_file_look(broker);
    if (!depot->shared)
        drop_gone(broker);
    depot_start(broker);
}
