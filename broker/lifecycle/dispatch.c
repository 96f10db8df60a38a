#include "dispatch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "assertion.h"
#include "batch.h"
#include "expiry.h"
#include "choose.h"
#include "fleet_order.h"
#include "hedge.h"
#include "logline.h"
#include "metrics_record.h"
#include "outgoing.h"
#include "states.h"
#include "words.h"
#include "send.h"

#define DOUBTS_TOLD       4u
#define DOUBTS_MAX        127u /* what a job has room to count */
#define MESSAGE_BYTES_MAX (64u * 1024u * 1024u)

/* ---- into the lanes ---- */

void dispatch_queue(struct broker *broker, struct job *job)
{
    states_set(job, JOB_QUEUED);
    const struct job_course *course = job_course(broker, job);
    if (course->begin && course->begin(broker, job))
        return;
    if (lane_push(job->lane, job) != PEN_OK) {
        answer_error(broker, job, PEN_ERR_NO_MEMORY, "the broker has no memory to queue the job");
        return;
    }
    broker->schedule = true;
}

void dispatch_raise(struct broker *broker, struct job *job, uint8_t priority)
{
    if (job->priority <= priority)
        return;
    switch ((enum job_state)job->state) {
    case JOB_QUEUED:
        lane_remove(job->lane, job);
        states_reorder(job, priority);
        dispatch_queue(broker, job);
        break;
    case JOB_LOOKUP:
    case JOB_HELD:
    case JOB_FOLLOWING:
    case JOB_HANDED:
        states_reorder(job, priority);
        break;
    case JOB_STEPS:
        job_course(broker, job)->raise(broker, job, priority);
        break;
    case JOB_DISPATCHED: /* in case the worker comes back */
        job->priority = priority;
        break;
    case JOB_DONE:
        break;
    }
}

/* The job that was alone on the worker at the last death most likely caused it. */
static void give_up(struct broker *broker, struct job *job, bool alone)
{
    char text[256], id[JOB_ID_TEXT_BYTES];
    snprintf(text, sizeof text,
             "the job was running on %u %s lost, the limit (--max-attempts); it may be what ends %s%s", job->deaths,
             words_plural(job->deaths, "worker when that was", "workers when they were"),
             words_plural(job->deaths, "it", "them"),
             alone ? ", and is in quarantine: `penstock quarantine show` tells more" : "");
    if (alone) {
        quarantine_add(broker->quarantine, job_whole(broker, job), job, broker->now_us);
        broker->stats.quarantined++;
        log_event(LOG_WARN, "job_quarantined", "job=%s model=%s tenant=%s deaths=%u", job_id_text(job->id, id),
                  job->lane->model->name, job->session->tenant->name, job->deaths);
    }
    answer_error(broker, job, PEN_ERR_WORKER_LOST, text);
}

/* How often a worker that tells when it runs a job alone may be lost through other brokers' jobs: each of those is
   found out after a few deaths. */
static uint32_t doubts_max(const struct broker *broker, const struct worker *worker)
{
    uint32_t most = (uint32_t)broker->options->max_attempts * (worker->hello->runs_alone ? DOUBTS_TOLD : 1u);
    return most < DOUBTS_MAX ? most : DOUBTS_MAX;
}

void dispatch_requeue(struct broker *broker, struct job *job, enum blame blame)
{
    bool suspect = blame == BLAME_SUSPECT;
    const struct job_course *course = job_course(broker, job);
    PEN_ASSERT(job->state == JOB_DISPATCHED && job->dispatch, "only what a worker has comes back from it");
    bool alone = job->isolated && !job->dispatch->others;
    bool doubt = suspect && job->isolated && !alone && job->doubts < doubts_max(broker, job->dispatch->worker);
    record_attempt_lost(broker, job, job->dispatch);
    if (doubt)
        job->doubts++; /* another broker's job may have caused it: the job gets another chance, but only so often */
    else
        job->deaths += suspect;
    job->alone |= suspect;
    if (hedge_succeed(job))
        return; /* its hedge runs on */
    if (course->requeue && course->requeue(broker, job, blame))
        return;
    job->dispatch = NULL;
    states_set(job, JOB_QUEUED);
    states_run_no_more(job);
    states_wait(broker, job);
    job->front = true;
    if (suspect && job->deaths >= broker->options->max_attempts) {
        give_up(broker, job, alone);
        return;
    }
    record_requeue(broker, job);
    dispatch_queue(broker, job);
}

/* ---- out of wherever it is ---- */

/* The leader no longer waits or runs. Its first follower takes its place and becomes as urgent as the most urgent of
   the other followers. NULL: there was no follower, and the single flight is over. */
static struct job *succeed(struct broker *broker, struct job *job)
{
    struct single_flight *flight = job->flight;
    if (!flight || flight->leader != job)
        return NULL;
    struct job *next = single_flight_promote(flight);
    if (!next)
        single_flight_free(&broker->flights, flight);
    else if (next->priority > job->priority)
        states_reorder(next, job->priority);
    return next;
}

static void detach_dispatched(struct broker *broker, struct job *job)
{
    hedge_drop(broker, job);
    struct dispatch *dispatch = job->dispatch;
    uint32_t slot = job->slot;
    uint8_t attempts = job->attempts;
    PEN_ASSERT(slot < dispatch->count && (dispatch->slots[slot].job == job || !dispatch->slots[slot].job),
               "the slot of a job that runs names it, or nobody when its worker has gone");
    job->dispatch = NULL;
    states_run_no_more(job);
    dispatch->slots[slot].job = NULL;
    struct job *next = succeed(broker, job);
    if (!next) {
        broker_cancel(broker, dispatch->worker, dispatch->slots[slot].id);
        return;
    }
    states_wait_no_more(broker, next);
    states_run(next, JOB_DISPATCHED);
    next->dispatch = dispatch;
    next->slot = (uint8_t)slot;
    next->hedge = NULL;
    next->attempts = attempts;
    dispatch->slots[slot].job = next;
}

void dispatch_unhand(struct broker *broker, struct job *job)
{
    struct handover *handover = &broker->neighbours.handover;
    size_t bytes = shared_message_bytes(job->request);
    PEN_ASSERT(handover->count > 0 && handover->bytes >= bytes, "what was offered to another broker was counted");
    TAILQ_REMOVE(&handover->out, job, in_group);
    handover->count--;
    handover->bytes -= bytes;
}

void dispatch_recall(struct broker *broker, const struct job *job)
{
    struct neighbour *to = broker->neighbours.handover.to;
    struct envelope cancel = envelope_make(FRAME_CANCEL);
    if (job->state != JOB_HANDED || !to)
        return;
    cancel.job = job->id;
    dealer_say(&to->dealer, cancel, NULL, 0);
}

void dispatch_detach(struct broker *broker, struct job *job)
{
    struct job *next = NULL;
    switch ((enum job_state)job->state) {
    case JOB_LOOKUP:
        TAILQ_REMOVE(&broker->lookups, job, in_group);
        states_wait_no_more(broker, job);
        next = succeed(broker, job);
        break;
    case JOB_QUEUED:
        lane_remove(job->lane, job);
        states_wait_no_more(broker, job);
        next = succeed(broker, job);
        break;
    case JOB_HELD:
        job_course(broker, job)->leave(broker, job, NULL);
        states_wait_no_more(broker, job);
        break;
    case JOB_FOLLOWING:
        single_flight_leave(job->flight, job);
        states_wait_no_more(broker, job);
        break;
    case JOB_HANDED:
        dispatch_unhand(broker, job);
        states_wait_no_more(broker, job);
        break;
    case JOB_DISPATCHED:
        detach_dispatched(broker, job);
        break;
    case JOB_STEPS:
        job_course(broker, job)->leave(broker, job, succeed(broker, job)); /* its successor runs already */
        break;
    case JOB_DONE:
        break;
    }
    if (next)
        dispatch_queue(broker, next);
}

/* ---- to a worker ---- */

_Static_assert(FRAME_MAX_GROUPS <= UINT8_MAX, "a job keeps the number of its slot in a byte");

static bool fits(const struct job *job, const struct dispatch *dispatch, const struct plan *plan)
{
    const struct worker *worker = plan->offer->worker;
    size_t bytes = dispatch->bytes + shared_message_bytes(job->request);
    return dispatch->count < FRAME_MAX_GROUPS && !job->alone && dispatch->rows + job->rows <= plan->rows &&
           bytes <= MESSAGE_BYTES_MAX && worker->bytes + bytes <= worker_bytes_max(worker);
}

static void add_job(struct broker *broker, struct dispatch *dispatch, struct job *job, const struct plan *plan)
{
    struct dispatch_slot *slot = &dispatch->slots[dispatch->count];
    PEN_ASSERT(dispatch->count < FRAME_MAX_GROUPS && !job->dispatch,
               "a job joins one dispatch, which has a slot for it");
    *slot = (struct dispatch_slot){.id = job->id, .job = job, .rows = job->rows};
    lane_charge(job->lane, job, plan->row_us * job->rows, &slot->cost);
    lane_remove(job->lane, job);
    states_wait_no_more(broker, job);
    states_run(job, JOB_DISPATCHED);
    job->dispatch = dispatch;
    job->slot = (uint8_t)dispatch->count;
    job->hedge = NULL;
    job->attempts++;
    dispatch->count++;
    dispatch->rows += job->rows;
    dispatch->bytes += shared_message_bytes(job->request);
}

/* Whether a run shares its worker with other runs. */
enum exclusive { RUNS_BESIDE, RUNS_ALONE };

/* The header is shared with the kept request. The remaining deadline and ALONE belong to this run, so they are
   written into a copy. */
static void run_header(const struct broker *broker, const struct job *job, bool alone, zmq_msg_t *ret_frame)
{
    bool timed = job->deadline_us != DEADLINE_NONE && !expiry_delays(job_whole(broker, job));
    shared_message_frame(job->request, 0, ret_frame);
    if (!timed && !alone)
        return;
    zmq_msg_t copy;
    size_t bytes = zmq_msg_size(ret_frame);
    if (zmq_msg_init_size(&copy, bytes) != 0)
        return; /* the deadline stays as it was at admission; the broker itself enforces the right one */
    void *to = zmq_msg_data(&copy);
    memcpy(to, zmq_msg_data(ret_frame), bytes);
    uint64_t left_us = deadline_remaining(broker->now_us, job->deadline_us);
    if (timed)
        frame_set_deadline_us(to, left_us);
    if (alone)
        frame_add_flags(to, FRAME_FLAG_ALONE);
    zmq_msg_move(ret_frame, &copy);
    zmq_msg_close(&copy);
}

static void send_job(struct broker *broker, struct outgoing *outgoing, const struct worker *worker,
                     const struct job *job, enum exclusive exclusive)
{
    zmq_msg_t header;
    run_header(broker, job, exclusive == RUNS_ALONE && worker->hello->runs_alone, &header);
    outgoing_group(broker, outgoing, job->request, &header);
}

/* Learns whether waiting filled the batch: when it paid, the lane waits again. Only a full batch may have waited for
   less than the whole delay. */
static void learn_fill(const struct broker *broker, struct lane *lane, const struct dispatch *dispatch,
                       const struct offer *offer)
{
    uint64_t delay_us = offer->meta->max_queue_delay_us, age_us = broker->now_us - dispatch->slots[0].job->admitted_us;
    bool filled = dispatch->reason == CLOSE_FULL;
    if (batch_wait_paid(&offer->latency, dispatch->count, filled && age_us < delay_us ? age_us : delay_us))
        lane->solo_batches = 0;
    else if (dispatch->reason == CLOSE_DELAY)
        lane->solo_batches++;
}

static void log_dispatch(const struct dispatch *dispatch)
{
    char id[JOB_ID_TEXT_BYTES];
    if (!log_enabled(LOG_DEBUG))
        return;
    for (uint32_t i = 0; i < dispatch->count; i++)
        log_event(LOG_DEBUG, "job_dispatched", "job=%s worker=%s batch=%u reason=%s expect_us=%" PRIu64,
                  job_id_text(dispatch->slots[i].id, id), dispatch->worker->hello->name, dispatch->count,
                  close_reason_name(dispatch->reason), dispatch->expect_us);
}

static void tell_course(struct broker *broker, struct job *job, const struct worker *worker)
{
    const struct job_course *course = job_course(broker, job);
    if (course->dispatched)
        course->dispatched(broker, job, worker);
}

/* False only when nothing of the lane could move; a worker that proves to be gone counts as movement. */
static bool dispatch_lane(struct broker *broker, struct lane *lane)
{
    struct plan plan;
    enum plan_kind kind = choose(broker, lane, &plan);
    if (kind == PLAN_LOAD)
        fleet_order_warm(broker, plan.offer);
    if (kind != PLAN_RUN)
        return false;
    struct worker *worker = plan.offer->worker;
    size_t most = lane->count < plan.rows ? lane->count : plan.rows;
    struct dispatch *dispatch = dispatch_new(most < FRAME_MAX_GROUPS ? most : FRAME_MAX_GROUPS);
    if (!dispatch)
        return false;
    struct outgoing outgoing;
    if (!outgoing_begin(&outgoing, broker->workers, worker->link.peer, &worker->transfers)) {
        dispatch_discard(dispatch);
        broker_worker_ended(broker, worker);
        return true;
    }
    dispatch->count = 0;
    dispatch->row_us = plan.row_us;
    dispatch->own_row_us = plan.own_row_us;
    add_job(broker, dispatch, plan.first, &plan);
    for (struct job *next; dispatch->count < most && (next = lane_head(lane)) && fits(next, dispatch, &plan);)
        add_job(broker, dispatch, next, &plan);
    PEN_ASSERT(dispatch->count > 0 && dispatch->count <= most, "a dispatch has jobs, and no more than it has slots");
    dispatch->open = dispatch->count;
    dispatch->reason = plan.reason;
    dispatch->isolated = dispatch->slots[0].job->isolated = choose_must_isolate(broker, dispatch->slots[0].job);
    dispatch->decision = plan.decision;
    learn_fill(broker, lane, dispatch, plan.offer);
    dispatch->expect_us = latency_expect_us(&plan.offer->latency, dispatch->rows);
    for (uint32_t i = 0; i < dispatch->count; i++)
        send_job(broker, &outgoing, worker, dispatch->slots[i].job, dispatch->isolated ? RUNS_ALONE : RUNS_BESIDE);
    outgoing_end(&outgoing);
    for (uint32_t i = 0; i < dispatch->count; i++)
        tell_course(broker, dispatch->slots[i].job, worker);
    dispatch_send(dispatch, plan.offer, broker->now_us);
    record_dispatch(broker, dispatch);
    link_sent(&worker->link, dispatch->bytes, broker->now_us);
    broker->stats.jobs_dispatched += dispatch->count;
    if (broker->options->hedge && broker->hedge_us == UINT64_MAX)
        broker->hedge_us = broker->now_us;
    log_dispatch(dispatch);
    return true;
}

bool dispatch_adopt(struct broker *broker, struct worker *worker, struct job *job)
{
    struct offer *offer = NULL;
    for (size_t i = 0; i < worker->offers_count && !offer; i++)
        offer =
            worker->offers[i]->model == job->lane->model && form_in(job->lane->demand.forms, worker->offers[i]->form)
                ? worker->offers[i]
                : NULL;
    struct dispatch *dispatch = offer ? dispatch_new(1) : NULL;
    if (!dispatch)
        return false;
    dispatch->slots[0] = (struct dispatch_slot){.id = job->id, .job = job, .rows = job->rows};
    dispatch->expect_us = dispatch->row_us = dispatch->own_row_us = latency_expect_us(&offer->latency, job->rows);
    lane_remove(job->lane, job); /* it runs; take it out, even if it was not its turn */
    lane_charge(job->lane, job, dispatch->expect_us, &dispatch->slots[0].cost);
    PEN_ASSERT(job->state == JOB_QUEUED && !job->dispatch, "a job that is adopted has waited");
    states_wait_no_more(broker, job);
    states_run(job, JOB_DISPATCHED);
    job->dispatch = dispatch;
    job->slot = 0;
    job->hedge = NULL;
    job->isolated = false;
    dispatch->rows = job->rows;
    dispatch->bytes = shared_message_bytes(job->request);
    dispatch->reason = CLOSE_SINGLE;
    tell_course(broker, job, worker);
    dispatch_send(dispatch, offer, broker->now_us);
    record_dispatch(broker, dispatch);
    return true;
}

bool dispatch_hedge(struct broker *broker, struct job *job, struct offer *offer)
{
    PEN_ASSERT(job->state == JOB_DISPATCHED && !job->hedge, "a job that runs gets one hedge");
    struct dispatch *dispatch = dispatch_new(1);
    struct outgoing outgoing;
    if (!dispatch || !outgoing_begin(&outgoing, broker->workers, offer->worker->link.peer, &offer->worker->transfers)) {
        dispatch_discard(dispatch);
        return false; /* a worker that has gone is found by the probes */
    }
    dispatch->slots[0] = (struct dispatch_slot){.id = job->id, .job = job};
    dispatch->rows = job->rows;
    dispatch->bytes = shared_message_bytes(job->request);
    dispatch->reason = CLOSE_HEDGE;
    dispatch->expect_us = latency_expect_us(&offer->latency, job->rows);
    send_job(broker, &outgoing, offer->worker, job, RUNS_BESIDE);
    outgoing_end(&outgoing);
    job->hedge = dispatch;
    job->hedge_slot = 0;
    job->attempts++;
    dispatch_send(dispatch, offer, broker->now_us);
    record_dispatch(broker, dispatch);
    link_sent(&offer->worker->link, dispatch->bytes, broker->now_us);
    broker->stats.jobs_dispatched++;
    return true;
}

/* The lane whose head is the most urgent among those not yet tried in this pass. */
static struct lane *next_lane(struct broker *broker)
{
    struct lane *best = NULL, *lane;
    TAILQ_FOREACH(lane, &broker->models.active, in_active)
    {
        if (lane->pass != broker->pass && (!best || lane_before(lane, best)))
            best = lane;
    }
    return best;
}

void dispatch_all(struct broker *broker)
{
    struct lane *lane;
    broker->schedule = false;
    broker->pass++;
    while ((lane = next_lane(broker)) != NULL) {
        if (!dispatch_lane(broker, lane))
            lane->pass = broker->pass;
    }
    broker->wake_us = UINT64_MAX;
    TAILQ_FOREACH(lane, &broker->models.active, in_active)
    {
        if (lane->wake_us < broker->wake_us)
            broker->wake_us = lane->wake_us;
    }
}
