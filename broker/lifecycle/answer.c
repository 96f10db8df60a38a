#include "answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "answer_send.h"
#include "assertion.h"
#include "dispatch.h"
#include "forecast.h"
#include "logline.h"
#include "metrics_record.h"
#include "preview_record.h"
#include "reply.h"
#include "explain.h"
#include "states.h"

#define RETRY_HINT_US 100000u /* when no better estimate is known */

static void count_end(struct broker *broker, struct job *job, enum pen_status status)
{
    struct model *model = job->lane->model;
    if (broker->owners[job->owner]->moves) {
        broker->stats.jobs_handed++;
        return;
    }
    bool cancelled = status == PEN_ERR_CANCELLED;
    *(status == PEN_OK ? &model->jobs_done : cancelled ? &model->jobs_cancelled : &model->jobs_failed) += 1;
    if (job_is_part(broker, job))
        return; /* only the whole job is counted */
    struct stats *stats = &broker->stats;
    *(status == PEN_OK ? &stats->jobs_done : cancelled ? &stats->jobs_cancelled : &stats->jobs_failed) += 1;
    stats->jobs_expired += status == PEN_ERR_DEADLINE;
}

static void log_end(const struct broker *broker, const struct job *job, enum pen_status status)
{
    char id[JOB_ID_TEXT_BYTES];
    if (broker->owners[job->owner]->moves) {
        log_event(LOG_DEBUG, "job_handed", "job=%s model=%s", job_id_text(job->id, id), job->lane->model->name);
        return;
    }
    enum log_level level = status == PEN_OK ? LOG_DEBUG : status == PEN_ERR_WORKER_LOST ? LOG_WARN : LOG_INFO;
    if (log_enabled(level))
        log_event(level, "job_done", "job=%s model=%s status=%s total_us=%" PRIu64 " attempts=%u",
                  job_id_text(job->id, id), job->lane->model->name, pen_status_name(status),
                  broker->now_us - job->admitted_us, job->attempts);
}

/* Gives back what a live job holds; only its reply stays. The job has left lanes, single flights and dispatches
   already. */
void answer_retire(struct broker *broker, struct job *job, enum pen_status status)
{
    PEN_ASSERT(job->lane_place == 0 && !job->flight && !job->dispatch,
               "a job that ends is out of its lane, its single flight and its dispatch");
    count_end(broker, job, status);
    log_end(broker, job, status);
    heap_remove(&broker->deadlines, job);
    if (job->state == JOB_STEPS)
        job_course(broker, job)->release(broker, job);
    states_done(broker, job);
    lane_release(job->lane);
    if (!job_is_part(broker, job))
        quota_give(job->session->identity, shared_message_bytes(job->request));
    shared_message_release(job->request);
    job->request = NULL;
    job->lane = NULL;
}

/* A client's job: its reply is kept until it is acknowledged. Without memory for one, the client asks again after
   its own time-out. */
static void client_ended(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                         const struct ending *ending)
{
    struct session *session = job->session;
    bool sent = reply && answer_send(broker, session, reply);
    record_end(broker, job, status, reply ? shared_message_bytes(reply) : 0, ending);
    explain_end(broker, job, status, ending);
    if (status == PEN_OK && reply)
        record_preview(broker, job, reply);
    if (broker->shadow.pairs_count > 0 &&
        shadow_heard(&broker->shadow, job->id, reply, status, broker->now_us - job->admitted_us))
        effect_post(&broker->effects, &broker->shadow.moves, EFFECT_SHADOW_MOVES);
    answer_retire(broker, job, status);
    PEN_ASSERT(job->state == JOB_DONE && !job->request, "a job has its reply where it had its request");
    job->reply = reply;
    job->unsent = !sent;
    if (!reply || (sent && job->id.sequence <= session->acked)) {
        session_remove(session, job);
        jobs_free(&broker->jobs, job);
    } else {
        reply_keep(&broker->sessions, job, broker->now_us);
    }
}

const struct job_owner answer_client = {.name = "client", .ended = client_ended};

/* Takes the message. */
static void deliver(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                    const struct ending *ending)
{
    const struct job_course *course = job_course(broker, job);
    if (course->ending)
        course->ending(broker, job, status);
    broker->owners[job->owner]->ended(broker, job, reply, status, ending);
}

/* ---- errors ---- */

void answer_refusal(struct broker *broker, struct session *session, const struct envelope *env, const char *model,
                    uint64_t retry_after_us, const struct pen_error *error)
{
    char id[JOB_ID_TEXT_BYTES];
    if (retry_after_us == 0 && pen_status_retryable(error->status))
        retry_after_us = RETRY_HINT_US;
    struct shared_message *reply = reply_error(env->job, error->status, error->text, model, 0, retry_after_us);
    *(error->status == PEN_ERR_CANCELLED ? &broker->stats.jobs_cancelled : &broker->stats.jobs_rejected) += 1;
    record_refusal(broker, env->job, model, error);
    explain_short(broker, session, env->job, model, error->status, error->text);
    log_event(LOG_INFO, "job_refused", "job=%s status=%s reason=%s", job_id_text(env->job, id),
              pen_status_name(error->status), error->text);
    /* BUSY must reach even a client whose unread bytes have reached the cap. */
    if (reply && !answer_send_past(broker, session, reply))
        log_event(LOG_WARN, "refusal_unsent", "job=%s unread_bytes=%" PRIu64, id,
                  session->link.bytes_sent - session->link.bytes_taken);
    shared_message_release(reply);
}

void answer_refuse(struct broker *broker, struct session *session, const struct envelope *env, enum pen_status status,
                   const char *text)
{
    struct pen_error error = {.status = PEN_OK};
    pen_error_set(&error, status, "%s", text);
    answer_refusal(broker, session, env, "", 0, &error);
}

static void deliver_error(struct broker *broker, struct job *job, enum pen_status status, const char *text,
                          const struct dispatch *dispatch)
{
    struct ending ending = {.how = FINISH_FAILED, .dispatch = dispatch, .text = text};
    deliver(broker, job,
            reply_error(job->id, status, text, job->lane->model->name, broker->now_us - job->admitted_us,
                        pen_status_retryable(status) ? forecast_wait_hint_us(job->lane->model) : 0),
            status, &ending);
}

void answer_error(struct broker *broker, struct job *job, enum pen_status status, const char *text)
{
    struct single_flight *flight = job->flight && job->flight->leader == job ? job->flight : NULL;
    const struct dispatch *dispatch = job->dispatch; /* still valid after the detaching: its slot is unanswered */
    /* A job killed its workers: identical jobs would kill more of them, so they get the same error. */
    while (status == PEN_ERR_WORKER_LOST && flight && flight->followers_count > 0) {
        struct job *follower = TAILQ_FIRST(&flight->followers);
        dispatch_detach(broker, follower);
        deliver_error(broker, follower, status, text, NULL);
    }
    dispatch_detach(broker, job);
    deliver_error(broker, job, status, text, dispatch);
}

/* ---- results ---- */

/* True when the worker ran the request with the digest that the client sent, and the model of the key. */
static bool proved(const struct single_flight *flight, const struct dispatch *dispatch,
                   const struct result_group *group)
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

static void log_unproved(struct broker *broker, const struct job *job, const struct single_flight *flight)
{
    char id[JOB_ID_TEXT_BYTES];
    broker->stats.digests_wrong++;
    log_event(LOG_WARN, "digest_wrong", "job=%s model=%s followers=%u", job_id_text(job->id, id),
              job->lane->model->name, flight->followers_count);
}

static void run_followers(struct broker *broker, struct single_flight *flight)
{
    struct job *follower;
    while ((follower = TAILQ_FIRST(&flight->followers)) != NULL) {
        single_flight_leave(flight, follower);
        dispatch_queue(broker, follower);
    }
}

/* Gives them the leader's result, which is proved. */
static void answer_followers(struct broker *broker, struct single_flight *flight, const struct dispatch *dispatch,
                             const struct result_group *group, const struct shared_message *raws)
{
    struct job *follower;
    struct ending ending = {.how = FINISH_COALESCED, .dispatch = dispatch, .group = group};
    while ((follower = TAILQ_FIRST(&flight->followers)) != NULL) {
        dispatch_detach(broker, follower);
        deliver(broker, follower, reply_result(broker, follower, dispatch, group, raws),
                (enum pen_status)group->env.status, &ending);
    }
}

/* Stored as the worker sent it, after all replies have left. */
static void store(struct broker *broker, const struct cache_key *key, const char *tenant,
                  const struct result_group *group, struct shared_message *raws)
{
    struct cache_value value;
    struct envelope env = group->env;
    if (headroom_short(broker->headroom))
        return; /* memory is short, and needed for answers */
    env.flags = 0;
    if (shared_message_set_header(raws, &env, group->meta, group->env.meta_bytes, NULL) == PEN_OK &&
        cache_value_read(raws, &value) == PEN_OK)
        cache_put(broker->cache, key, tenant, &value, broker->now_us);
}

/* good: the result is proved (see above). */
static void settle_flight(struct broker *broker, struct job *job, struct dispatch *dispatch,
                          const struct result_group *group, struct shared_message *raws, bool good)
{
    struct single_flight *flight = job->flight;
    struct cache_key key = flight->key;
    const char *tenant = job->session->tenant->name;
    bool ok = group->env.status == PEN_OK;
    PEN_ASSERT(flight->leader == job, "the answer of a single flight is its leader's");
    struct shared_message *reply = reply_result(broker, job, dispatch, group, raws);
    if (good && ok)
        answer_followers(broker, flight, dispatch, group, raws);
    else
        run_followers(broker, flight);
    single_flight_free(&broker->flights, flight);
    deliver(broker, job, reply, (enum pen_status)group->env.status,
            &(struct ending){.how = FINISH_COMPUTED, .dispatch = dispatch, .group = group});
    if (good && ok)
        store(broker, &key, tenant, group, raws);
}

void answer_result(struct broker *broker, struct job *job, struct dispatch *dispatch, struct result_group *group)
{
    struct shared_message *raws = reply_raws(group);
    if (!raws) {
        answer_error(broker, job, PEN_ERR_NO_MEMORY, "the broker has no memory for the result");
        return;
    }
    PEN_ASSERT(job->dispatch == dispatch && job->state == JOB_DISPATCHED, "a result is of the run that is awaited");
    job->dispatch = NULL;
    states_run_no_more(job);
    if (job->flight) {
        bool good = proved(job->flight, dispatch, group);
        if (!good && group->env.status == PEN_OK)
            log_unproved(broker, job, job->flight);
        settle_flight(broker, job, dispatch, group, raws, good);
    } else {
        deliver(broker, job, reply_result(broker, job, dispatch, group, raws), (enum pen_status)group->env.status,
                &(struct ending){.how = FINISH_COMPUTED, .dispatch = dispatch, .group = group});
    }
    shared_message_release(raws);
}

void answer_apart(struct broker *broker, struct job *job)
{
    struct single_flight *flight = job->flight;
    if (!flight || flight->leader != job)
        return;
    run_followers(broker, flight);
    single_flight_free(&broker->flights, flight);
}

void answer_whole(struct broker *broker, struct job *job, struct shared_message *whole, bool good)
{
    struct result_group group = {.header = &whole->frames[0]};
    if (!shared_message_open(whole, &group.env, &group.meta) ||
        !result_read(group.meta, group.env.meta_bytes, &group.facts)) { /* our own; it can */
        answer_apart(broker, job);
        answer_error(broker, job, PEN_ERR_INTERNAL, "the result of the ensemble cannot be read");
    } else if (job->flight) {
        settle_flight(broker, job, NULL, &group, whole, good);
    } else {
        deliver(broker, job, reply_result(broker, job, NULL, &group, whole), PEN_OK,
                &(struct ending){.how = FINISH_COMPUTED, .group = &group});
    }
    shared_message_release(whole);
}

/* ---- hits ---- */

void answer_hit(struct broker *broker, struct session *session, const struct envelope *env, struct model *model,
                const struct cache_value *value, uint64_t started_us)
{
    struct shared_message *reply = reply_hit(broker, env->job, value, model, started_us);
    broker->stats.cache_hits++;
    broker->stats.jobs_done++;
    model->cache_hits++;
    model->jobs_done++;
    record_hit(broker, session, env->job, model, broker->now_us - started_us, reply ? shared_message_bytes(reply) : 0);
    explain_short(broker, session, env->job, model->name, PEN_OK, NULL);
    if (reply)
        answer_send_within(broker, session, reply, (uint64_t)broker->options->peer_bytes);
    shared_message_release(reply);
}

void answer_job_hit(struct broker *broker, struct job *job, const struct cache_value *value)
{
    struct single_flight *flight = job->flight;
    struct ending ending = {.how = FINISH_CACHED};
    while (flight && flight->followers_count > 0) {
        struct job *follower = TAILQ_FIRST(&flight->followers);
        dispatch_detach(broker, follower);
        deliver(broker, follower, reply_hit(broker, follower->id, value, follower->lane->model, follower->admitted_us),
                PEN_OK, &ending);
    }
    struct model *model = job->lane->model;
    dispatch_detach(broker, job);
    broker->stats.cache_hits++;
    model->cache_hits++;
    deliver(broker, job, reply_hit(broker, job->id, value, model, job->admitted_us), PEN_OK, &ending);
}
