#include "worker_handler.h"

#include "assertion.h"
#include "answer.h"
#include "worker_handler_internal.h"
#include "cost.h"
#include "dispatch.h"
#include "hedge.h"
#include "error_complete.h"
#include "logline.h"
#include "metrics_record.h"
#include "result_check.h"
#include "sequence.h"
#include "send.h"
#include "transfer.h"

/* A run in debug mode says nothing about the model's others. */
static bool debugs(const struct dispatch *dispatch)
{
    bool found = false;
    for (uint32_t i = 0; i < dispatch->count; i++)
        found |= dispatch->slots[i].job && dispatch->slots[i].job->debug;
    return found;
}

static void learn(const struct broker *broker, struct dispatch *dispatch, const struct result_group *group)
{
    struct shared_run run = dispatch_run(dispatch, &group->facts);
    bool first = dispatch->open == dispatch->count;
    if (run.counts && !debugs(dispatch) && dispatch->offer && group->env.status == PEN_OK &&
        !(group->env.flags & FRAME_FLAG_PARTIAL)) {
        record_run(dispatch, run, group->facts.compute_us);
        latency_learn(&dispatch->offer->latency, run.rows, group->facts.compute_us, broker->now_us);
        offer_prepared(dispatch->offer, group->facts.decode_us);
    }
    uint64_t away_us = broker->now_us - dispatch->sent_us;
    if (first && dispatch->count == 1 && group->facts.worker_us > 0 && group->facts.worker_us <= away_us)
        bandwidth_learn(&dispatch->worker->bandwidth, dispatch->bytes, away_us - group->facts.worker_us,
                        broker->now_us);
}

/*
 * True for a job that the worker sends back because it leaves; the job is not to blame. A job that was cancelled here
 * is done and has left its slot, so CANCELLED for a live job means an earlier run of the same id, from before this
 * broker was restarted.
 */
static bool returned(const struct result_group *group)
{
    return group->env.status == PEN_ERR_UNAVAILABLE || group->env.status == PEN_ERR_BUSY ||
           group->env.status == PEN_ERR_CANCELLED;
}

#define EARLIER_RUNS 3u /* per job and worker, beyond its attempts */

/* CANCELLED does not count as an attempt, because this broker has cancelled nothing. But it is accepted only so
   often. */
static bool may_return(const struct broker *broker, const struct job *job, struct result_group *group)
{
    bool earlier = group->env.status == PEN_ERR_CANCELLED && job->lane->model->sequence_idle_us == 0;
    if (!returned(group))
        return false;
    if (job->hedge || job->attempts < broker->options->max_attempts + (earlier ? EARLIER_RUNS : 0u))
        return true;
    if (earlier)
        group->env.status = PEN_ERR_UNAVAILABLE;
    return false;
}

/* The first answer counts; a hedge that still runs is told to stop. */
static void take_answer(struct broker *broker, struct job *job, struct dispatch *dispatch, uint32_t slot,
                        struct result_group *group)
{
    broker->stats.hedges_won += job->hedge == dispatch;
    hedge_answered(job, dispatch, slot);
    hedge_drop(broker, job);
    answer_result(broker, job, dispatch, group);
}

/* A run was stopped: records the time that it still needed by the forecast. Called for the last of its jobs. */
static void record_stopped(struct broker *broker, struct dispatch *dispatch, enum pen_status status)
{
    dispatch->computed |= status != PEN_ERR_CANCELLED && status != PEN_ERR_DEADLINE;
    if (dispatch->computed || dispatch->open > 1 || !dispatch->offer)
        return;
    uint64_t left_us = dispatch->end_us > broker->now_us ? dispatch->end_us - broker->now_us : 0;
    record_saved(broker, dispatch->offer->model, left_us < dispatch->expect_us ? left_us : dispatch->expect_us);
}

/*
 * Drops the rest of the answer's payload, unless it belongs to another run of the job. The worker may still wait for
 * credit, when the result came from a run that it had given back before; it is told not to.
 */
static void forget_payload(struct broker *broker, struct worker *worker, struct job_id id)
{
    struct envelope cancel = envelope_make(FRAME_CANCEL);
    struct dispatch *dispatch;
    uint32_t slot;
    if (!transfer_sends(&worker->transfers) || worker_holds(worker, id, HELD_FOR_A_JOB, &dispatch, &slot))
        return;
    cancel.job = id;
    if (transfer_forget(&worker->transfers, id))
        broker_send_worker(broker, worker, &cancel, NULL, 0);
}

static void take_result(struct broker *broker, struct worker *worker, struct dispatch *dispatch, uint32_t slot,
                        struct result_group *group)
{
    struct job *job = dispatch->slots[slot].job;
    PEN_ASSERT(!job || (job->state == JOB_DISPATCHED && (job->dispatch == dispatch || job->hedge == dispatch)),
               "the job of a slot that is awaited runs there, as itself or as its hedge");
    learn(broker, dispatch, group);
    cost_settle(broker, dispatch, slot, (enum pen_status)group->env.status, &group->facts);
    record_stopped(broker, dispatch, (enum pen_status)group->env.status);
    if (group->env.status == PEN_OK)
        worker->jobs_done++;
    else if (group->env.status == PEN_ERR_CANCELLED)
        worker->jobs_cancelled++;
    else
        worker->jobs_failed++;
    if (!job)
        broker->stats.results_duplicate++;
    else if ((returned(group) || group->refused) && hedge_forget(job, dispatch, slot))
        ; /* the run that it hedged goes on */
    else if (group->refused && job->hedge)
        dispatch_requeue(broker, job, BLAME_NONE); /* its hedge goes on */
    else if (may_return(broker, job, group))
        dispatch_requeue(broker, job, BLAME_NONE);
    else if (!answer_is_own(job, dispatch, slot, group))
        dispatch_requeue(broker, job, BLAME_NONE); /* whatever its attempts: its first run here is still to come */
    else
        take_answer(broker, job, dispatch, slot, group);
    dispatch_answer(dispatch, slot);
    forget_payload(broker, worker, group->env.job);
    broker->schedule |= !TAILQ_EMPTY(&broker->models.active);
}

/*
 * Finds the run that a result belongs to, when a worker has two runs of the same id. OK is taken as the result of the
 * run that a job waits for, if there is one; any other status (above all CANCELLED) as that of a run that nobody waits
 * for. So in any order each run gets one of the results, and the job gets the best. Runs of a sequence end in the order
 * in which they were sent; the next job must not be sent while the worker still has one of them.
 */
static bool find_run(const struct broker *broker, const struct worker *worker, const struct envelope *env,
                     struct dispatch **ret_dispatch, uint32_t *ret_slot)
{
    const struct job *job = jobs_find(&broker->jobs, env->job);
    struct dispatch *own = job && job->state == JOB_DISPATCHED ? job->dispatch : NULL;
    bool good = env->status == PEN_OK && !(own && job->lane->model->sequence_idle_us);
    if (!good || !own || own->worker != worker || !job_id_equal(own->slots[job->slot].id, env->job))
        return worker_holds(worker, env->job, good ? HELD_FOR_A_JOB : HELD_FOR_NOBODY, ret_dispatch, ret_slot);
    *ret_dispatch = own;
    *ret_slot = job->slot;
    return true;
}

static void ignored_result(struct broker *broker, const struct worker *worker, const struct result_group *group)
{
    char text[JOB_ID_TEXT_BYTES];
    broker->stats.results_duplicate++;
    sequence_run_failed(broker, worker, &group->env);
    log_event(LOG_DEBUG, "result_ignored", "job=%s worker=%s", job_id_text(group->env.job, text), worker->hello->name);
}

static void one_result(struct broker *broker, struct worker *worker, struct result_group *group)
{
    struct dispatch *dispatch;
    uint32_t slot;
    if (find_run(broker, worker, &group->env, &dispatch, &slot))
        take_result(broker, worker, dispatch, slot, group);
    else
        ignored_result(broker, worker, group);
}

/* A result cannot be taken: its run ends, and so does the job, unless a hedge still runs. */
static void run_failed(struct broker *broker, struct worker *worker, const struct envelope *env, enum pen_status status,
                       const char *text)
{
    struct result_group group = {.env = *env};
    struct dispatch *dispatch;
    uint32_t slot;
    struct job *job = find_run(broker, worker, env, &dispatch, &slot) ? dispatch->slots[slot].job : NULL;
    if (job && !job->hedge)
        answer_error(broker, job, status, text);
    group.refused = true;
    group.env.status = (uint8_t)status;
    group.env.meta_bytes = 0;
    group.env.frames = 0;
    group.env.transfer = 0;
    one_result(broker, worker, &group);
}

void worker_result_dropped(struct broker *broker, struct worker *worker, const struct envelope *env)
{
    run_failed(broker, worker, env, PEN_ERR_BUSY, "the broker has no memory for the result; try again later");
}

/* A result that breaks the protocol: it counts against the worker, even if nobody waits for it. */
static void refused_result(struct broker *broker, struct worker *worker, const struct envelope *env,
                           enum pen_status status, const char *why)
{
    char text[384], id[JOB_ID_TEXT_BYTES];
    broker->stats.results_bad++;
    worker->results_bad++;
    log_event(LOG_WARN, "result_refused", "job=%s worker=%s status=%s reason=%s", job_id_text(env->job, id),
              worker->hello->name, pen_status_name(status), why);
    snprintf(text, sizeof text, "the worker '%.60s' gave a result that cannot be taken: %.200s", worker->hello->name,
             why);
    run_failed(broker, worker, env, status, text);
}

/* The payload is only announced. It is not asked for when nobody waits for it; when it cannot be taken, the job
   ends. */
static void announced_result(struct broker *broker, struct worker *worker, struct result_group *group)
{
    struct pen_error error = {.status = PEN_OK};
    struct dispatch *dispatch;
    uint32_t slot;
    bool held = find_run(broker, worker, &group->env, &dispatch, &slot);
    bool wanted = held && dispatch->slots[slot].job;
    if (wanted && transfer_result(broker, worker, &group->env, group->meta, group->header, &error))
        return;
    transfer_decline(broker, &worker->transfers, &group->env);
    if (wanted && error.status == PEN_OK)
        return; /* an earlier announcement of that job is under way */
    if (wanted && error.status == PEN_ERR_NO_MEMORY) {
        worker_result_dropped(broker, worker, &group->env);
        return;
    }
    if (wanted) {
        refused_result(broker, worker, &group->env, error.status, error.text);
        return;
    }
    group->env.frames = 0;
    group->env.transfer = 0;
    one_result(broker, worker, group);
}

static void unknown_status(struct broker *broker, struct worker *worker, const struct result_group *group)
{
    char why[224];
    int own = (int)(group->facts.error_bytes < 120 ? group->facts.error_bytes : 120);
    snprintf(why, sizeof why, "the status %u, which no version here knows%s%.*s", group->env.status_told,
             own ? ": " : "", own, own ? (const char *)group->facts.error : "");
    refused_result(broker, worker, &group->env, PEN_ERR_INTERNAL, why);
}

/* A result that nobody waits for is not checked. */
static bool sound(const struct job *job, const struct dispatch *dispatch, const struct result_group *group,
                  struct pen_error *reterr)
{
    if (!job)
        return true;
    enum pen_status status =
        group->env.status == PEN_OK ? result_check(dispatch, job, group, reterr) : result_check_texts(group, reterr);
    return status == PEN_OK;
}

static void whole_result(struct broker *broker, struct worker *worker, struct result_group *group)
{
    struct pen_error error;
    struct dispatch *dispatch;
    uint32_t slot;
    error_begin(&error);
    if (!find_run(broker, worker, &group->env, &dispatch, &slot))
        ignored_result(broker, worker, group);
    else if (sound(dispatch->slots[slot].job, dispatch, group, &error))
        take_result(broker, worker, dispatch, slot, group);
    else
        refused_result(broker, worker, &group->env, PEN_ERR_CORRUPT, error.text);
}

/* A group that can be read. */
static void read_result(struct broker *broker, struct worker *worker, struct result_group *group)
{
    if (envelope_status_unknown(&group->env)) {
        if (group->env.transfer)
            transfer_decline(broker, &worker->transfers, &group->env);
        unknown_status(broker, worker, group);
    } else if (group->env.transfer) {
        announced_result(broker, worker, group);
    } else {
        whole_result(broker, worker, group);
    }
}

/* One of several results, for owners that take them; the job goes on. When its payload is only announced, it is not
   asked for. */
static void partial_result(struct broker *broker, struct worker *worker, struct result_group *group)
{
    struct pen_error error = {.status = PEN_OK};
    struct dispatch *dispatch;
    uint32_t slot;
    if (group->env.transfer) {
        transfer_decline(broker, &worker->transfers, &group->env);
        return;
    }
    struct job *job = find_run(broker, worker, &group->env, &dispatch, &slot) ? dispatch->slots[slot].job : NULL;
    void (*take)(struct broker *, struct job *, struct result_group *) =
        job ? broker->owners[job->owner]->result : NULL;
    if (!take)
        return;
    if (sound(job, dispatch, group, &error))
        take(broker, job, group);
    else
        refused_result(broker, worker, &group->env, PEN_ERR_CORRUPT, error.text);
}

/* The rest of the message cannot be split into groups any more. The job ends with an error if its id could be read. */
static void broken_group(struct broker *broker, struct worker *worker, const struct result_group *group,
                         const struct pen_error *error)
{
    bool named = error->status == PEN_OK || error->status == PEN_ERR_TOO_LARGE;
    const char *why = error->status != PEN_OK ? error->text : "a group of it is cut short or of another type";
    worker_bad_message(broker, why);
    if (named && group->env.type == FRAME_RESULT)
        refused_result(broker, worker, &group->env, error->status != PEN_OK ? error->status : PEN_ERR_CORRUPT, why);
}

void worker_result(struct broker *broker, struct worker *worker, struct message *message)
{
    size_t at = 0;
    struct pen_error error;
    error_begin(&error);
    if (message->overflow) {
        worker_bad_message(broker, "a result with more frames than 64 groups can have");
        return;
    }
    while (at < message->count) {
        struct result_group group = {.header = &message->frames[at]};
        enum pen_status status =
            envelope_decode(zmq_msg_data(group.header), zmq_msg_size(group.header), &group.env, &group.meta, &error);
        if (status != PEN_OK || group.env.type != FRAME_RESULT ||
            (group.env.transfer == 0 && group.env.frames >= message->count - at)) {
            broken_group(broker, worker, &group, &error);
            return;
        }
        group.frames = &message->frames[at] + 1;
        at += 1u + (group.env.transfer ? 0 : group.env.frames);
        bool readable = result_read(group.meta, group.env.meta_bytes, &group.facts);
        if (!readable && group.env.transfer)
            transfer_decline(broker, &worker->transfers, &group.env);
        if (readable && (group.env.flags & FRAME_FLAG_PARTIAL))
            partial_result(broker, worker, &group);
        else if (readable)
            read_result(broker, worker, &group);
        else
            refused_result(broker, worker, &group.env, PEN_ERR_CORRUPT, "its meta is no ResultMeta");
    }
}
