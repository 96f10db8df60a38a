#include "answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "admit.h"
#include "cascade.h"
#include "depot.h"
#include "dispatch.h"
#include "job.pb-c.h"
#include "logline.h"
#include "metrics_record.h"
#include "sequence.h"

/* Field numbers of ResultMeta in proto/job.proto. */
enum {
    RESULT_MODEL = 3,
    RESULT_VERSION = 4,
    RESULT_CACHED = 9,
    RESULT_QUEUE_US = 10,
    RESULT_COMPUTE_US = 11,
    RESULT_TOTAL_US = 12,
    RESULT_WORKER_US = 13,
    RESULT_BATCH_SIZE = 14,
    RESULT_BATCH_REASON = 15,
    RESULT_ATTEMPTS = 20,
    RESULT_EXPLANATION = 21,
    RESULT_WORKER_WAIT_US = 30,
    RESULT_GATHER_US = 31,
    RESULT_SPLIT_US = 32,
};

/* ---- building a reply ---- */

/* Header frame of a RESULT: envelope, the meta as it came, and the patch unless the whole would be too large. */
static enum pen_status header_frame(struct envelope *env, const void *meta, size_t bytes, const struct patch *patch,
                                    zmq_msg_t *ret_frame)
{
    size_t extra = patch && bytes + patch->used <= FRAME_META_BYTES_MAX ? patch->used : 0;
    size_t more = patch && bytes + extra + patch->more_bytes <= FRAME_META_BYTES_MAX ? patch->more_bytes : 0;
    if (zmq_msg_init_size(ret_frame, FRAME_ENVELOPE_BYTES + bytes + extra + more) != 0)
        return PEN_ERR_NO_MEMORY;
    uint8_t *to = zmq_msg_data(ret_frame);
    env->meta_bytes = (uint32_t)(bytes + extra + more);
    envelope_encode(env, to);
    if (bytes)
        memcpy(to + FRAME_ENVELOPE_BYTES, meta, bytes);
    if (extra)
        memcpy(to + FRAME_ENVELOPE_BYTES + bytes, patch->bytes, extra);
    if (more)
        memcpy(to + FRAME_ENVELOPE_BYTES + bytes + extra, patch->more, more);
    return PEN_OK;
}

/* Puts the header into frame 0 of a parcel that has all others. */
static enum pen_status set_header(struct parcel *parcel, struct envelope *env, const void *meta, size_t bytes,
                                  const struct patch *patch)
{
    zmq_msg_t frame;
    if (header_frame(env, meta, bytes, patch, &frame) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    zmq_msg_move(&parcel->frames[0], &frame);
    zmq_msg_close(&frame);
    return PEN_OK;
}

static struct parcel *error_parcel(struct job_id id, enum pen_status status, const char *text, const char *model,
                                   uint64_t total_us, uint64_t retry_after_us)
{
    uint8_t meta[PEN_ERROR_TEXT_BYTES + 512];
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    struct envelope env = envelope_make(FRAME_RESULT);
    env.job = id;
    env.status = (uint8_t)status;
    result.error = (char *)(uintptr_t)text;
    result.model = (char *)(uintptr_t)(strlen(model) < 256 ? model : "");
    result.total_us = total_us;
    result.retry_after_us = retry_after_us;
    struct parcel *parcel = parcel_new(1);
    if (parcel && set_header(parcel, &env, meta, penstock__result_meta__pack(&result, meta), NULL) != PEN_OK) {
        parcel_release(parcel);
        return NULL;
    }
    return parcel;
}

/* ---- sending it ---- */

/* A large payload is only announced: the client asks for it. */
static bool announce(struct broker *broker, struct session *session, struct parcel *parcel, zmq_msg_t *header)
{
    struct envelope env;
    const uint8_t *meta;
    return transfer_wanted(broker, &session->transfers, parcel) &&
           envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) == PEN_OK &&
           transfer_begin(broker, &session->transfers, env.job, parcel, header);
}

/* cap_bytes: what the client may have unread. */
static bool send_within(struct broker *broker, struct session *session, struct parcel *parcel, uint64_t cap_bytes)
{
    if (!session->connected || link_full(&session->link, cap_bytes))
        return false;
    if (!broker->clients->begin(broker->clients, session->link.peer)) {
        broker_client_gone(broker, session);
        return false;
    }
    uint32_t count = parcel->count;
    for (uint32_t i = 0; i < count; i++) {
        zmq_msg_t frame;
        parcel_frame(parcel, i, &frame);
        if (i == 0 && announce(broker, session, parcel, &frame))
            count = 1;
        broker->clients->part(broker->clients, &frame, i + 1 < count);
    }
    link_sent(&session->link, count == 1 ? zmq_msg_size(&parcel->frames[0]) : parcel_bytes(parcel), broker->now_us);
    broker_mark_client(broker, session);
    return true;
}

/* False: it has to wait, and goes out when the client has read more. */
static bool send_parcel(struct broker *broker, struct session *session, struct parcel *parcel)
{
    if (transfer_busy(&session->transfers) && transfer_wanted(broker, &session->transfers, parcel))
        return false;
    return send_within(broker, session, parcel, (uint64_t)broker->options->peer_bytes);
}

static void count_end(struct broker *broker, struct job *job, enum pen_status status)
{
    if (status == PEN_OK)
        job->lane->model->jobs_done++;
    else
        job->lane->model->jobs_failed++;
    if (job->step)
        return; /* the whole counts */
    if (status == PEN_OK) {
        broker->stats.jobs_done++;
        return;
    }
    broker->stats.jobs_failed++;
    broker->stats.jobs_expired += status == PEN_ERR_DEADLINE;
    broker->stats.jobs_cancelled += status == PEN_ERR_CANCELLED;
}

static void log_end(const struct broker *broker, const struct job *job, enum pen_status status)
{
    char id[JOB_ID_TEXT_BYTES];
    enum log_level level = status == PEN_OK ? LOG_DEBUG : status == PEN_ERR_WORKER_LOST ? LOG_WARN : LOG_INFO;
    if (log_enabled(level))
        log_event(level, "job_done", "job=%s model=%s status=%s total_us=%" PRIu64 " attempts=%u",
                  job_id_text(job->id, id), job->lane->model->name, pen_status_name(status),
                  broker->now_us - job->admitted_us, job->attempts);
}

/* What a live job holds goes back; only its reply stays. The job is out of lanes, flights and dispatches already. */
static void retire(struct broker *broker, struct job *job, enum pen_status status)
{
    count_end(broker, job, status);
    log_end(broker, job, status);
    heap_remove(&broker->deadlines, job);
    job->lane->model->users--;
    lane_release(job->lane);
    broker->live--;
    if (!job->step)
        quota_give(job->session->identity, parcel_bytes(job->request));
    if (job->state == JOB_STEPS)
        cascade_release(broker, job);
    parcel_release(job->request);
    job->request = NULL;
    job->lane = NULL;
    job->state = JOB_DONE;
}

/* Takes the parcel (NULL: there was no memory for a reply; the client asks again after its own time-out). */
static void deliver(struct broker *broker, struct job *job, struct parcel *reply, enum pen_status status,
                    const struct ending *ending)
{
    struct session *session = job->session;
    if (job->step) {
        struct job_id id = job->id;
        record_end(broker, job, status, reply ? parcel_bytes(reply) : 0, ending);
        cascade_step_leaves(broker, job, ending);
        retire(broker, job, status);
        session_remove(session, job);
        jobs_free(&broker->jobs, job);
        cascade_step_ended(broker, id, reply, status);
        return;
    }
    struct sequence *sequence = job->lane->model->sequence_idle_us ? sequence_of(broker, job) : NULL;
    bool last = false, current = sequence && sequence_is_current(sequence, job, &last);
    if (session->depot) {
        record_end(broker, job, status, reply ? parcel_bytes(reply) : 0, ending);
        retire(broker, job, status);
        session_remove(session, job);
        depot_done(broker, job, reply, status);
        jobs_free(&broker->jobs, job);
        return;
    }
    bool sent = reply && send_parcel(broker, session, reply);
    record_end(broker, job, status, reply ? parcel_bytes(reply) : 0, ending);
    explain_end(broker, job, status, ending);
    retire(broker, job, status);
    job->reply = reply;
    job->unsent = !sent;
    if (!reply || (sent && job->id.sequence <= session->acked)) {
        session_remove(session, job);
        jobs_free(&broker->jobs, job);
    } else {
        reply_keep(&broker->sessions, job, broker->now_us);
    }
    if (sequence)
        sequence_ended(broker, sequence, current, last, status);
}

/* ---- errors ---- */

void answer_refusal(struct broker *broker, struct session *session, const struct envelope *env, const char *model,
                    uint64_t retry_after_us, const struct pen_error *error)
{
    char id[JOB_ID_TEXT_BYTES];
    struct parcel *reply = error_parcel(env->job, error->status, error->text, model, 0, retry_after_us);
    broker->stats.jobs_rejected++;
    record_refusal(broker, env->job, model, error);
    explain_short(broker, session, env->job, model, error->status, error->text);
    log_event(LOG_INFO, "job_refused", "job=%s status=%s reason=%s", job_id_text(env->job, id),
              pen_status_name(error->status), error->text);
    /* BUSY must reach a client that has its cap unread; one that still goes on submitting at twice that is not worth an answer. */
    if (reply && !send_within(broker, session, reply, 2 * (uint64_t)broker->options->peer_bytes))
        log_event(LOG_WARN, "refusal_unsent", "job=%s unread_bytes=%" PRIu64, id,
                  session->link.bytes_sent - session->link.bytes_taken);
    parcel_release(reply);
}

static void deliver_error(struct broker *broker, struct job *job, enum pen_status status, const char *text,
                          const struct dispatch *dispatch)
{
    struct ending ending = {.how = FINISH_FAILED, .dispatch = dispatch, .text = text};
    deliver(broker, job,
            error_parcel(job->id, status, text, job->lane->model->name, broker->now_us - job->admitted_us,
                         pen_status_retryable(status) ? dispatch_wait_hint_us(broker, job->lane->model) : 0),
            status, &ending);
}

void answer_error(struct broker *broker, struct job *job, enum pen_status status, const char *text)
{
    struct flight *flight = job->flight && job->flight->leader == job ? job->flight : NULL;
    const struct dispatch *dispatch = job->dispatch; /* outlives the detaching: its slot is still unanswered */
    /* The twins of a job that killed its workers would kill more of them. */
    while (status == PEN_ERR_WORKER_LOST && flight && flight->followers_count > 0) {
        struct job *follower = TAILQ_FIRST(&flight->followers);
        dispatch_detach(broker, follower);
        deliver_error(broker, follower, status, text, NULL);
    }
    dispatch_detach(broker, job);
    deliver_error(broker, job, status, text, dispatch);
}

void answer_lane_unserved(struct broker *broker, struct lane *lane)
{
    struct job *job;
    char text[320] = "";
    if (lane->model->script)
        cascade_missing(&broker->models, &broker->labels, lane->model, &lane->demand, text, sizeof text);
    else if (model_unloaded(lane->model))
        admit_unloaded(lane->model, text, sizeof text);
    lane->users++; /* outlive the loop */
    while ((job = lane_head(lane)) != NULL)
        answer_error(broker, job, PEN_ERR_UNAVAILABLE,
                     *text ? text : "no worker that could run the job is connected; start one or try again later");
    lane_release(lane);
}

/* ---- results ---- */

static void run_patch(const struct broker *broker, const struct job *job, const struct dispatch *dispatch,
                      struct patch *ret_patch)
{
    *ret_patch = (struct patch){.used = 0};
    uint64_t started_us = dispatch->sent_us > job->admitted_us ? dispatch->sent_us : job->admitted_us;
    patch_number(ret_patch, RESULT_QUEUE_US, started_us - job->admitted_us);
    patch_number(ret_patch, RESULT_TOTAL_US, broker->now_us - job->admitted_us);
    patch_number(ret_patch, RESULT_BATCH_SIZE, dispatch->count);
    patch_text(ret_patch, RESULT_BATCH_REASON, dispatch->reason);
    patch_number(ret_patch, RESULT_ATTEMPTS, job->attempts);
}

/* Of an ensemble whose steps ran as jobs of their own: whatever was not spent with workers was spent waiting. */
static void whole_patch(const struct broker *broker, const struct job *job, const struct result_group *group,
                        struct patch *ret_patch)
{
    uint64_t total_us = broker->now_us - job->admitted_us, worker_us = group->facts.worker_us;
    *ret_patch = (struct patch){.used = 0};
    patch_number(ret_patch, RESULT_QUEUE_US, total_us > worker_us ? total_us - worker_us : 0);
    patch_number(ret_patch, RESULT_TOTAL_US, total_us);
    patch_number(ret_patch, RESULT_ATTEMPTS, job->attempts);
}

static void hit_patch(uint64_t total_us, const struct model *model, struct patch *ret_patch)
{
    static const uint32_t zeroes[] = {RESULT_QUEUE_US, RESULT_COMPUTE_US,     RESULT_WORKER_US, RESULT_BATCH_SIZE,
                                      RESULT_ATTEMPTS, RESULT_WORKER_WAIT_US, RESULT_GATHER_US, RESULT_SPLIT_US};
    *ret_patch = (struct patch){.used = 0};
    patch_number(ret_patch, RESULT_CACHED, 1);
    patch_number(ret_patch, RESULT_TOTAL_US, total_us);
    patch_number(ret_patch, RESULT_VERSION, model->version);
    for (size_t i = 0; i < sizeof zeroes / sizeof zeroes[0]; i++)
        patch_number(ret_patch, zeroes[i], 0);
    patch_text(ret_patch, RESULT_BATCH_REASON, "");
    patch_text(ret_patch, RESULT_MODEL, model->name); /* two names may share one content */
}

static struct parcel *result_parcel(struct result_group *group)
{
    struct parcel *parcel = parcel_new(1u + group->env.frames);
    for (uint32_t i = 1; parcel && i < parcel->count; i++) {
        if (parcel_take(parcel, i, &group->frames[i - 1]) != PEN_OK) {
            parcel_release(parcel);
            return NULL;
        }
    }
    return parcel;
}

/* The same result under another job's id and times; `raws` has the raw frames. */
static struct parcel *reply_parcel(struct broker *broker, const struct job *job, const struct dispatch *dispatch,
                                   const struct result_group *group, const struct parcel *raws)
{
    struct patch patch;
    struct envelope env = group->env;
    struct parcel *parcel = parcel_share(raws, true);
    if (!parcel)
        return NULL;
    env.major = FRAME_VERSION_MAJOR;
    env.minor = FRAME_VERSION_MINOR;
    env.job = job->id;
    if (dispatch)
        run_patch(broker, job, dispatch, &patch);
    else
        whole_patch(broker, job, group, &patch);
    uint8_t *why = job->explain ? explain_packed(broker, job, dispatch, group->facts.compute_us, RESULT_EXPLANATION,
                                                 &patch.more_bytes)
                                : NULL;
    patch.more = why;
    enum pen_status status = set_header(parcel, &env, group->meta, group->env.meta_bytes, &patch);
    free(why);
    if (status != PEN_OK) {
        parcel_release(parcel);
        return NULL;
    }
    return parcel;
}

/* The worker ran what the client's digest says, on the content that the key says. */
static bool proved(const struct flight *flight, const struct dispatch *dispatch, const struct result_group *group)
{
    const uint8_t *model = group->facts.model_digest;
    return digest_equal(group->env.digest, flight->key.request) &&
           digest_equal(dispatch->model_digest, flight->key.model) &&
           (!model || memcmp(model, flight->key.model.bytes, sizeof flight->key.model.bytes) == 0);
}

bool answer_is_own(const struct job *job, const struct dispatch *dispatch, uint32_t slot,
                   const struct result_group *group)
{
    return job_id_equal(dispatch->slots[slot].id, job->id) ||
           (group->env.status == PEN_OK && job->flight && proved(job->flight, dispatch, group));
}

static void log_unproved(struct broker *broker, const struct job *job, const struct flight *flight)
{
    char id[JOB_ID_TEXT_BYTES];
    broker->stats.digests_wrong++;
    log_event(LOG_WARN, "digest_wrong", "job=%s model=%s followers=%u", job_id_text(job->id, id),
              job->lane->model->name, flight->followers_count);
}

/* Followers get the proved result; those of an unproved or failed one run by themselves. */
static void settle_followers(struct broker *broker, struct flight *flight, const struct dispatch *dispatch,
                             const struct result_group *group, const struct parcel *raws, bool share)
{
    struct job *follower;
    struct ending ending = {.how = FINISH_COALESCED, .dispatch = dispatch, .group = group};
    while ((follower = TAILQ_FIRST(&flight->followers)) != NULL) {
        if (!share) {
            flight_leave(flight, follower);
            dispatch_queue(broker, follower);
            continue;
        }
        dispatch_detach(broker, follower);
        deliver(broker, follower, reply_parcel(broker, follower, dispatch, group, raws),
                (enum pen_status)group->env.status, &ending);
    }
}

/* Stored as the worker sent it, after all replies have left. */
static void store(struct broker *broker, const struct cache_key *key, const char *tenant,
                  const struct result_group *group, struct parcel *raws)
{
    struct cache_value value;
    struct envelope env = group->env;
    if (headroom_short(broker->headroom))
        return; /* what it would take is wanted for answers */
    env.flags = 0;
    if (set_header(raws, &env, group->meta, group->env.meta_bytes, NULL) == PEN_OK &&
        cache_value_read(raws, &value) == PEN_OK)
        cache_put(broker->cache, key, tenant, &value, broker->now_us);
}

/* good: the worker ran what the client's digest says, on the content that the key says. */
static void settle_flight(struct broker *broker, struct job *job, struct dispatch *dispatch,
                          const struct result_group *group, struct parcel *raws, bool good)
{
    struct flight *flight = job->flight;
    struct cache_key key = flight->key;
    const char *tenant = job->session->tenant->name;
    bool ok = group->env.status == PEN_OK;
    struct parcel *reply = reply_parcel(broker, job, dispatch, group, raws);
    settle_followers(broker, flight, dispatch, group, raws, good && ok);
    flight_free(&broker->flights, flight);
    deliver(broker, job, reply, (enum pen_status)group->env.status,
            &(struct ending){.how = FINISH_COMPUTED, .dispatch = dispatch, .group = group});
    if (good && ok)
        store(broker, &key, tenant, group, raws);
}

void answer_result(struct broker *broker, struct job *job, struct dispatch *dispatch, struct result_group *group)
{
    struct parcel *raws = result_parcel(group);
    job->dispatch = NULL;
    job->lane->model->running--;
    if (!raws) {
        job->lane->model->running++;
        job->dispatch = dispatch;
        answer_error(broker, job, PEN_ERR_NO_MEMORY, "the broker has no memory for the result");
        return;
    }
    if (job->flight) {
        bool good = proved(job->flight, dispatch, group);
        if (!good && group->env.status == PEN_OK)
            log_unproved(broker, job, job->flight);
        settle_flight(broker, job, dispatch, group, raws, good);
    } else {
        deliver(broker, job, reply_parcel(broker, job, dispatch, group, raws), (enum pen_status)group->env.status,
                &(struct ending){.how = FINISH_COMPUTED, .dispatch = dispatch, .group = group});
    }
    parcel_release(raws);
}

void answer_apart(struct broker *broker, struct job *job)
{
    struct flight *flight = job->flight;
    if (!flight || flight->leader != job)
        return;
    settle_followers(broker, flight, NULL, NULL, NULL, false);
    flight_free(&broker->flights, flight);
}

void answer_whole(struct broker *broker, struct job *job, struct parcel *whole, bool good)
{
    struct result_group group = {.header = &whole->frames[0]};
    if (envelope_decode(zmq_msg_data(group.header), zmq_msg_size(group.header), &group.env, &group.meta, NULL) !=
            PEN_OK ||
        !result_read(group.meta, group.env.meta_bytes, &group.facts)) { /* our own; it can */
        answer_apart(broker, job);
        answer_error(broker, job, PEN_ERR_INTERNAL, "the result of the ensemble cannot be read");
    } else if (job->flight) {
        settle_flight(broker, job, NULL, &group, whole, good);
    } else {
        deliver(broker, job, reply_parcel(broker, job, NULL, &group, whole), PEN_OK,
                &(struct ending){.how = FINISH_COMPUTED, .group = &group});
    }
    parcel_release(whole);
}

/* ---- hits ---- */

static struct parcel *hit_parcel(struct broker *broker, struct job_id id, const struct cache_value *value,
                                 const struct model *model, uint64_t admitted_us)
{
    struct patch patch;
    struct envelope env;
    const uint8_t *meta;
    struct parcel *parcel = parcel_share(value->parcel, true);
    zmq_msg_t *header = &value->parcel->frames[0];
    if (!parcel || envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) != PEN_OK) {
        parcel_release(parcel);
        return NULL;
    }
    env.job = id;
    hit_patch(broker->now_us - admitted_us, model, &patch);
    if (set_header(parcel, &env, meta, env.meta_bytes, &patch) != PEN_OK) {
        parcel_release(parcel);
        return NULL;
    }
    return parcel;
}

void answer_hit(struct broker *broker, struct session *session, const struct envelope *env, struct model *model,
                const struct cache_value *value, uint64_t started_us)
{
    struct parcel *reply = hit_parcel(broker, env->job, value, model, started_us);
    broker->stats.cache_hits++;
    broker->stats.jobs_done++;
    model->cache_hits++;
    model->jobs_done++;
    record_hit(broker, session, env->job, model, broker->now_us - started_us, reply ? parcel_bytes(reply) : 0);
    explain_short(broker, session, env->job, model->name, PEN_OK, NULL);
    if (reply)
        send_within(broker, session, reply, (uint64_t)broker->options->peer_bytes);
    parcel_release(reply);
}

void answer_job_hit(struct broker *broker, struct job *job, const struct cache_value *value)
{
    struct flight *flight = job->flight;
    struct ending ending = {.how = FINISH_CACHED};
    while (flight && flight->followers_count > 0) {
        struct job *follower = TAILQ_FIRST(&flight->followers);
        dispatch_detach(broker, follower);
        deliver(broker, follower, hit_parcel(broker, follower->id, value, follower->lane->model, follower->admitted_us),
                PEN_OK, &ending);
    }
    struct model *model = job->lane->model;
    dispatch_detach(broker, job);
    broker->stats.cache_hits++;
    model->cache_hits++;
    deliver(broker, job, hit_parcel(broker, job->id, value, model, job->admitted_us), PEN_OK, &ending);
}

/* ---- again ---- */

void answer_again(struct broker *broker, struct session *session, struct job *job)
{
    bool unsent = !send_parcel(broker, session, job->reply); /* goes out when the client has read more */
    session->unsent += unsent;
    session->unsent -= job->unsent;
    job->unsent = unsent;
}

/* Replies were forgotten before they could be sent; now that there is room for them again, the client is asked to send its jobs again. */
static void recall(struct broker *broker, struct session *session)
{
    if (!session->missed || !session->connected || transfer_busy(&session->transfers) ||
        link_full(&session->link, (uint64_t)broker->options->peer_bytes))
        return;
    session->missed = false;
    broker_resume(broker, broker->clients, session->link.peer);
}

void answer_unsent(struct broker *broker, struct session *session)
{
    struct job *job;
    if (session->unsent == 0) {
        recall(broker, session);
        return;
    }
    TAILQ_FOREACH(job, &session->kept, in_session)
    {
        if (!job->unsent)
            continue;
        if (!send_parcel(broker, session, job->reply))
            return;
        job->unsent = false;
        session->unsent--;
    }
    recall(broker, session);
}

/* ---- detached jobs ---- */

struct parcel *answer_parcel_error(struct job_id id, enum pen_status status, const char *text)
{
    return error_parcel(id, status, text, "", 0, 0);
}

void answer_accepted(struct broker *broker, struct session *session, struct job_id id)
{
    struct parcel *reply = error_parcel(id, PEN_OK, "", "", 0, 0);
    if (reply)
        send_within(broker, session, reply, 2 * (uint64_t)broker->options->peer_bytes);
    parcel_release(reply);
}

void answer_stored(struct broker *broker, struct session *session, struct job_id id, struct parcel *stored)
{
    struct envelope env;
    const uint8_t *meta;
    zmq_msg_t *header = &stored->frames[0];
    struct parcel *reply = parcel_share(stored, true);
    if (reply && envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) == PEN_OK) {
        env.job = id;
        if (set_header(reply, &env, meta, env.meta_bytes, NULL) == PEN_OK)
            send_within(broker, session, reply, 2 * (uint64_t)broker->options->peer_bytes);
    }
    parcel_release(reply);
}
