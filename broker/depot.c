#include "depot.h"

#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "depot_entry.h"
#include "journal.h"
#include "keyring.h"

#define LOOK_US     1000000u
#define FORGET_MAX  256u /* entries in one look */
#define RETRY_US    100000u
#define MODEL_BYTES 256u

/* ---- what clients say ---- */

/* What a detached job's meta says of its keeping. */
struct wishes {
    uint64_t ttl_us;
    struct owner owner;
};

static enum pen_status read_wishes(struct broker *broker, const struct session *session, const struct envelope *env,
                                   const uint8_t *meta, struct wishes *ret_wishes, struct pen_error *reterr)
{
    uint64_t most_us = (uint64_t)broker->options->detached_ttl_us;
    meta_arena_reset(&broker->arena);
    const Penstock__JobMeta *job = meta_unpack(&broker->arena, &penstock__job_meta__descriptor, meta, env->meta_bytes);
    if (!job)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "the job's meta is no JobMeta (proto/job.proto)");
    if (!*job->model || strlen(job->model) >= MODEL_BYTES)
        return pen_error_set(reterr, PEN_ERR_INVALID, "the job names no model; a name has 1 to 255 bytes");
    ret_wishes->ttl_us = job->detached_ttl_us && job->detached_ttl_us < most_us ? job->detached_ttl_us : most_us;
    owner_of(session, job->detached_lock.data, job->detached_lock.len, &ret_wishes->owner);
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
    if (message->bytes > (uint64_t)options->max_job_bytes)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "the job has %zu bytes; this broker takes %" PRId64 " (--max-job-bytes)", message->bytes,
                             options->max_job_bytes);
    if (!session->identity)
        return PEN_OK;
    return quota_check(session->identity, message->bytes, (uint64_t)options->queue_limit,
                       (uint64_t)options->queue_bytes, broker->now_us, ret_wait_us, reterr);
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
    enum pen_status status = entry->request ? depot_record(depot, entry, JOURNAL_ACCEPTED, reterr)
                                            : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the job");
    if (status != PEN_OK) {
        entry_free(depot, entry);
        return status;
    }
    entry->identity = session->identity;
    quota_take(entry->identity, parcel_bytes(entry->request));
    return PEN_OK;
}

void depot_submit(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta,
                  struct message *message)
{
    struct pen_error error = {.status = PEN_OK};
    struct wishes wishes;
    uint64_t wait_us = RETRY_US;
    if (!broker->depot) {
        depot_refuse(broker, session, env, PEN_ERR_UNSUPPORTED,
                     "this broker takes no detached jobs: it was started without --journal");
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

/* Those whose clients have gone make room. */
static void drop_gone(struct broker *broker, struct entry *entry)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < entry->waiters_count; i++) {
        if (session_find(&broker->sessions, entry->waiters[i].client))
            entry->waiters[kept++] = entry->waiters[i];
    }
    entry->waiters_count = kept;
}

static void wait_for(struct broker *broker, struct session *session, const struct envelope *env, struct entry *entry)
{
    for (uint32_t i = 0; i < entry->waiters_count; i++) {
        if (job_id_equal(entry->waiters[i], env->job))
            return; /* sent again */
    }
    if (entry->waiters_count == WAITERS_MAX)
        drop_gone(broker, entry);
    if (entry->waiters_count == WAITERS_MAX)
        depot_refuse(broker, session, env, PEN_ERR_BUSY, "16 clients already wait for that job");
    else
        entry->waiters[entry->waiters_count++] = env->job;
}

static bool wanted_of(struct broker *broker, const struct envelope *env, const uint8_t *meta, struct job_id *ret_id)
{
    meta_arena_reset(&broker->arena);
    const Penstock__JobMeta *asked =
        meta_unpack(&broker->arena, &penstock__job_meta__descriptor, meta, env->meta_bytes);
    return asked && job_id_parse(asked->detached, ret_id) == 0;
}

void depot_fetch(struct broker *broker, struct session *session, const struct envelope *env, const uint8_t *meta)
{
    struct job_id id = {0, 0};
    if (!wanted_of(broker, env, meta, &id)) {
        depot_refuse(broker, session, env, PEN_ERR_INVALID, "that is no job id; one looks like 0123456789abcdef-42");
        return;
    }
    struct entry *entry = broker->depot ? entry_find(broker->depot, id) : NULL;
    if (!entry || entry->tenant != session->tenant)
        depot_refuse(broker, session, env, PEN_ERR_NOT_FOUND,
                     "no detached job of that id is here: it never came, or is too old");
    else if (entry->state == ENTRY_DONE)
        answer_stored(broker, session, env->job, entry->reply);
    else
        wait_for(broker, session, env, entry);
}

/* ---- clockwork ---- */

static void forget(struct broker *broker, struct entry *entry)
{
    struct depot *depot = broker->depot;
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
        if (entry->expires_us > now_us || entry->ticket > depot->dealt)
            return;
        forget(broker, entry);
    }
}

void depot_tick(struct broker *broker)
{
    struct depot *depot = broker->depot;
    if (!depot)
        return;
    depot_file_tick(broker);
    if (broker->now_us < depot->look_us)
        return;
    depot->look_us = broker->now_us + LOOK_US;
    forget_old(broker);
    depot_start(broker);
}
