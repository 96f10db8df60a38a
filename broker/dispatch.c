#include "dispatch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "answer.h"
#include "batch.h"
#include "expiry.h"
#include "cascade.h"
#include "hedge.h"
#include "logline.h"
#include "metrics_record.h"
#include "sequence.h"
#include "warming.h"

#define CANDIDATES_MAX                                                                                                 \
    (2 * READY_LOOK) /* weighed for one batch: ready_look gives as many, or a few of each of many classes */
#define DOUBTS_TOLD           4u
#define MESSAGE_BYTES_MAX     (64u * 1024u * 1024u)
#define TRANSFER_BYTES_PER_US 1000u /* loopback and 10 Gbit/s alike, within a factor of two */

/* ---- into the lanes ---- */

void dispatch_queue(struct broker *broker, struct job *job)
{
    job->state = JOB_QUEUED;
    if (cascade_begin(broker, job))
        return;
    if (lane_push(job->lane, job) != PEN_OK) {
        answer_error(broker, job, PEN_ERR_NO_MEMORY, "the broker has no memory to queue the job");
        return;
    }
    broker->schedule = true;
}

/* Who was alone on the worker at the last of its deaths is what ended it, as far as anybody can tell. */
static void give_up(struct broker *broker, struct job *job, bool alone)
{
    char text[256], id[JOB_ID_TEXT_BYTES];
    snprintf(
        text, sizeof text,
        "the job was running on %u workers when they were lost, the limit (--max-attempts); it may be what ends them%s",
        job->deaths, alone ? ", and is in quarantine: `penstock quarantine show` tells more" : "");
    if (alone) {
        quarantine_add(broker->quarantine, job->step ? cascade_whole(broker, job) : job, job, broker->now_us);
        broker->stats.quarantined++;
        log_event(LOG_WARN, "job_quarantined", "job=%s model=%s tenant=%s deaths=%u", job_id_text(job->id, id),
                  job->lane->model->name, job->session->tenant->name, job->deaths);
    }
    answer_error(broker, job, PEN_ERR_WORKER_LOST, text);
}

/* A worker that tells when it runs a job alone may be ended by other brokers' jobs more often: each of those is found out by a few deaths. */
static uint32_t doubts_max(const struct broker *broker, const struct worker *worker)
{
    uint32_t most = (uint32_t)broker->options->max_attempts * (worker->hello->runs_alone ? DOUBTS_TOLD : 1u);
    return most < UINT8_MAX ? most : UINT8_MAX;
}

void dispatch_requeue(struct broker *broker, struct job *job, bool suspect)
{
    bool alone = job->isolated && !job->dispatch->company;
    bool doubt = suspect && job->isolated && !alone && job->doubts < doubts_max(broker, job->dispatch->worker);
    record_attempt_lost(broker, job, job->dispatch);
    if (doubt)
        job->doubts++; /* another broker's job may have done it: once more, and not without end */
    else
        job->deaths += suspect;
    job->alone |= suspect;
    if (hedge_succeed(job))
        return; /* its twin runs on */
    if (job->lane->model->sequence_idle_us && sequence_requeue(broker, job, suspect))
        return;
    job->dispatch = NULL;
    job->state = JOB_QUEUED;
    job->lane->model->running--;
    queue_add(&job->lane->model->queue, job->priority, parcel_bytes(job->request)); /* it was admitted once */
    broker->queued_bytes += parcel_bytes(job->request);
    job->front = true;
    if (suspect && job->deaths >= broker->options->max_attempts) {
        give_up(broker, job, alone);
        return;
    }
    record_requeue(broker, job);
    dispatch_queue(broker, job);
}

/* ---- out of wherever it is ---- */

static void leave_queue(struct broker *broker, struct job *job)
{
    queue_leave(&job->lane->model->queue, job->priority, parcel_bytes(job->request));
    broker->queued_bytes -= parcel_bytes(job->request);
}

/* The leader waits or runs no more: its first follower goes on. NULL: nobody followed, the flight is over. */
static struct job *succeed(struct broker *broker, struct job *job)
{
    struct flight *flight = job->flight;
    if (!flight || flight->leader != job)
        return NULL;
    struct job *next = flight_promote(flight);
    if (!next)
        flight_free(&broker->flights, flight);
    return next;
}

static void tell_cancel(struct broker *broker, struct dispatch *dispatch, uint32_t slot)
{
    struct envelope env = envelope_make(FRAME_CANCEL);
    env.job = dispatch->slots[slot].id;
    broker_send_worker(broker, dispatch->worker, &env, NULL, 0);
}

static void detach_dispatched(struct broker *broker, struct job *job)
{
    hedge_drop(broker, job);
    struct dispatch *dispatch = job->dispatch;
    uint32_t slot = job->slot;
    uint8_t attempts = job->attempts;
    job->dispatch = NULL;
    job->lane->model->running--;
    dispatch->slots[slot].job = NULL;
    struct job *next = succeed(broker, job);
    if (!next) {
        tell_cancel(broker, dispatch, slot);
        return;
    }
    leave_queue(broker, next);
    next->state = JOB_DISPATCHED;
    next->dispatch = dispatch;
    next->slot = (uint8_t)slot;
    next->hedge = NULL;
    next->attempts = attempts;
    next->lane->model->running++;
    dispatch->slots[slot].job = next;
}

void dispatch_detach(struct broker *broker, struct job *job)
{
    struct job *next = NULL;
    switch ((enum job_state)job->state) {
    case JOB_LOOKUP:
        TAILQ_REMOVE(&broker->lookups, job, in_group);
        leave_queue(broker, job);
        next = succeed(broker, job);
        break;
    case JOB_QUEUED:
        lane_remove(job->lane, job);
        leave_queue(broker, job);
        next = succeed(broker, job);
        break;
    case JOB_HELD:
        sequence_unhold(broker, job);
        leave_queue(broker, job);
        break;
    case JOB_FOLLOWING:
        flight_leave(job->flight, job);
        leave_queue(broker, job);
        break;
    case JOB_DISPATCHED:
        detach_dispatched(broker, job);
        break;
    case JOB_STEPS:
        next = job->cascade ? succeed(broker, job) : NULL;
        if (next)
            cascade_pass(broker, job, next);
        else
            cascade_cancel(broker, job);
        next = NULL;
        break;
    case JOB_DONE:
        break;
    }
    if (next)
        dispatch_queue(broker, next);
}

/* ---- to a worker ---- */

struct plan {
    struct offer *offer;
    struct job *first; /* the lane's head, or one that is better off aside: match_aside */
    uint32_t rows;
    const char *reason;
    uint64_t expect_us;          /* of the batch */
    uint64_t row_us, own_row_us; /* of one row: where it is quickest, and there */
    struct decision decision;
};

/* Rows of the batches that suit this offer best. */
static uint32_t target_rows(const struct job *head, const struct offer *offer)
{
    uint32_t target = head->alone ? 1 : speed_target(&offer->speed, offer->rows_max);
    return target > head->rows ? target : head->rows;
}

/* Rows that this offer could take of the lane now. */
static uint32_t plan_rows(const struct lane *lane, const struct job *head, const struct offer *offer)
{
    uint32_t most = target_rows(head, offer);
    return lane->rows < most ? (uint32_t)lane->rows : most;
}

/* A suspect's last chance: on a worker that has nothing else, so that nobody is blamed for somebody else's deed. */
static bool must_isolate(const struct broker *broker, const struct job *head)
{
    return head->deaths > 0 && head->deaths + 1 >= broker->options->max_attempts;
}

/* Room for the head on this worker. A batch that may still grow goes as late as the slot allows. */
static bool has_credit(const struct broker *broker, const struct lane *lane, const struct job *head,
                       const struct offer *offer, uint64_t expect_us, uint64_t *ret_when_us)
{
    const struct worker *worker = offer->worker;
    bool grows = lane->rows < target_rows(head, offer);
    *ret_when_us = UINT64_MAX;
    if (worker->reserved_pass == broker->pass)
        return false;
    if (must_isolate(broker, head))
        return worker->messages == 0 && !worker->paused;
    return worker_credit(worker, broker->now_us, expect_us, parcel_bytes(head->request), grows, ret_when_us);
}

/* What is weighed for one batch. */
struct gathering {
    const struct broker *broker;
    const struct lane *lane;
    const struct job *head;
    struct offer **offers;
    struct match_candidate *candidates;
    size_t count;
};

/* A ready_look callback. */
static bool gather_one(void *context, struct offer *offer)
{
    struct gathering *g = context;
    struct worker *worker = offer->worker;
    if (g->lane->demand.worker && g->lane->demand.worker != worker->uuid)
        return false;
    if (g->count == CANDIDATES_MAX || worker->state != WORKER_READY ||
        !match_capable(&g->lane->demand, offer->meta->backend, offer->precision, worker->tags))
        return false;
    speed_fade(&offer->speed, g->broker->now_us);
    uint64_t expect_us = speed_expect_us(&offer->speed, plan_rows(g->lane, g->head, offer));
    struct match_candidate *candidate = &g->candidates[g->count];
    g->offers[g->count++] = offer;
    *candidate = (struct match_candidate){
        .backlog_us = worker_backlog_us(worker, g->broker->now_us),
        .expect_us = expect_us,
        .transfer_us = parcel_bytes(g->head->request) / TRANSFER_BYTES_PER_US,
        .slots = worker->slots,
    };
    if (offer->cold)
        candidate->load_us = warming_us(offer, g->broker->now_us);
    candidate->credit = offer->cold ? warming_possible(offer, g->broker->now_us, &candidate->credit_us)
                                    : has_credit(g->broker, g->lane, g->head, offer, expect_us, &candidate->credit_us);
    return true;
}

static size_t gather(const struct broker *broker, const struct lane *lane, struct offer *ret_offers[CANDIDATES_MAX],
                     struct match_candidate ret_candidates[CANDIDATES_MAX])
{
    struct gathering gathering = {
        .broker = broker, .lane = lane, .head = lane_head(lane), .offers = ret_offers, .candidates = ret_candidates};
    ready_look(lane->model, gather_one, &gathering);
    return gathering.count;
}

static struct batch_choice close_batch(struct broker *broker, const struct lane *lane, const struct job *head,
                                       struct offer *offer)
{
    struct batch_rules rules = {
        .rows_max = head->alone ? 1 : offer->rows_max,
        .preferred = offer->meta->preferred_batch_size,
        .preferred_count = offer->meta->n_preferred_batch_size,
        .delay_us = offer->meta->max_queue_delay_us,
        .speed = &offer->speed,
    };
    struct batch_facts facts = {
        .now_us = broker->now_us,
        .rows_waiting = lane->rows,
        .oldest_us = head->admitted_us,
        .deadline_us = head->deadline_us,
        .lonely = lane->lonely,
    };
    struct batch_choice choice = batch_close(&rules, &facts);
    uint32_t most = lane->rows < rules.rows_max ? (uint32_t)lane->rows : rules.rows_max, other = 0;
    if (choice.rows > 0 && batch_may_explore(&rules, &facts))
        other = speed_explore(&offer->speed, most, broker->now_us);
    return other ? (struct batch_choice){.rows = other, .reason = "explore", .wake_us = UINT64_MAX} : choice;
}

/* A worker may be given its next message shortly before it is done with the last. */
static uint64_t first_credit_us(const struct match_candidate *candidates, size_t count)
{
    uint64_t first_us = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        if (!candidates[i].credit && candidates[i].credit_us < first_us)
            first_us = candidates[i].credit_us;
    }
    return first_us;
}

/*
 * Who is less urgent must not fill up the worker that this lane waits for: short jobs, for which there is nearly always some credit, would keep
 * a long one out for ever.
 */
static void reserve(const struct broker *broker, struct offer *const *offers, const struct match_candidate *candidates,
                    size_t count)
{
    int best = match_best(candidates, count);
    if (best >= 0 && !offers[best]->cold) /* a load runs beside other work */
        offers[best]->worker->reserved_pass = broker->pass;
}

/* What a row costs where it is quickest: a client pays for its work, not for where it had to run. */
static uint64_t least_row_us(const struct lane *lane, struct offer *const *offers,
                             const struct match_candidate *candidates, size_t count)
{
    uint64_t least_us = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        uint64_t row_us = candidates[i].expect_us / plan_rows(lane, lane_head(lane), offers[i]);
        least_us = row_us < least_us ? row_us : least_us;
    }
    return least_us;
}

static uint64_t left_us(const struct broker *broker, const struct job *head)
{
    return head->deadline_us > broker->now_us ? head->deadline_us - broker->now_us : 0;
}

static void decide(const struct lane *lane, struct offer *const *offers, const struct match_candidate *candidates,
                   size_t count, int index, struct decision *decision)
{
    decision_fill(decision, offers, candidates, count, index);
    decision->rows_waiting = lane->rows > UINT32_MAX ? UINT32_MAX : (uint32_t)lane->rows;
    decision->rows_max = index >= 0 ? offers[index]->rows_max : 0;
    decision->delay_us = index >= 0 ? offers[index]->meta->max_queue_delay_us : 0;
}

/*
 * The first idle worker will do; one that no other broker uses is better, then one that can be asked to run it alone. While all are busy, the least
 * busy one is kept free of other work.
 */
static int choose_isolated(const struct broker *broker, struct offer *const *offers,
                           const struct match_candidate *candidates, size_t count)
{
    size_t least = 0;
    int shared = MATCH_WAIT;
    for (size_t i = 0; i < count; i++) {
        if (candidates[i].credit && !worker_has_company(offers[i]->worker))
            return (int)i;
        if (candidates[i].credit && (shared == MATCH_WAIT || offers[i]->worker->hello->runs_alone))
            shared = (int)i;
        if (candidates[i].backlog_us < candidates[least].backlog_us)
            least = i;
    }
    if (shared == MATCH_WAIT && count > 0)
        offers[least]->worker->reserved_pass = broker->pass;
    return shared;
}

/* Of a model with batches: how many stay behind the one that starts with the head. Where each job runs by itself choose_aside sees to them. */
static uint64_t batches_behind(const struct lane *lane, const struct job *head, struct offer *const *offers,
                               const struct match_candidate *candidates, size_t count)
{
    int best = match_best(candidates, count);
    if (best < 0 || offers[best]->rows_max <= 1)
        return 0;
    uint64_t rows = plan_rows(lane, head, offers[best]);
    return rows && lane->rows > rows ? (lane->rows - rows + rows - 1) / rows : 0;
}

/* The head waits for a busy worker; a job behind it may start elsewhere. */
static int choose_aside(const struct lane *lane, struct offer *const *offers, const struct match_candidate *candidates,
                        size_t count, struct job **ret_job)
{
    uint64_t rank, cost_us = least_row_us(lane, offers, candidates, count);
    int index = match_aside(candidates, count, lane->count - 1, &rank);
    struct job *job = index >= 0 && offers[index]->rows_max <= 1 && rank > 0 ? lane_ranked(lane, rank, cost_us) : NULL;
    if (!job || job->alone)
        return MATCH_WAIT;
    *ret_job = job;
    return index;
}

/* False: nothing of this lane can start now. */
static bool choose(struct broker *broker, struct lane *lane, struct plan *ret_plan)
{
    struct offer *offers[CANDIDATES_MAX];
    struct match_candidate candidates[CANDIDATES_MAX];
    struct job *head = lane_head(lane), *first = head;
    size_t count = gather(broker, lane, offers, candidates);
    int index = must_isolate(broker, head)
                    ? choose_isolated(broker, offers, candidates, count)
                    : match_choose(candidates, count, batches_behind(lane, head, offers, candidates, count),
                                   left_us(broker, head));
    lane->wake_us = first_credit_us(candidates, count);
    if (index == MATCH_WAIT && !must_isolate(broker, head)) {
        reserve(broker, offers, candidates, count);
        index = choose_aside(lane, offers, candidates, count, &first);
    }
    if (index == MATCH_WAIT)
        return false;
    if (offers[index]->cold) {
        warming_ask(broker, offers[index]);
        return false;
    }
    struct batch_choice choice = close_batch(broker, lane, head, offers[index]);
    lane->wake_us = choice.wake_us;
    if (choice.rows == 0)
        return false;
    *ret_plan = (struct plan){.offer = offers[index],
                              .first = first,
                              .rows = choice.rows,
                              .reason = choice.reason,
                              .expect_us = candidates[index].expect_us};
    ret_plan->row_us = least_row_us(lane, offers, candidates, count);
    ret_plan->own_row_us = candidates[index].expect_us / plan_rows(lane, head, offers[index]);
    decide(lane, offers, candidates, count, index, &ret_plan->decision);
    return true;
}

void dispatch_weigh(struct broker *broker, struct lane *lane, struct decision *ret_decision)
{
    struct offer *offers[CANDIDATES_MAX];
    struct match_candidate candidates[CANDIDATES_MAX];
    size_t count = lane_head(lane) ? gather(broker, lane, offers, candidates) : 0;
    decide(lane, offers, candidates, count, MATCH_WAIT, ret_decision);
}

static bool fits(const struct job *job, const struct dispatch *dispatch, const struct plan *plan)
{
    return dispatch->count < FRAME_MAX_GROUPS && !job->alone && dispatch->rows + job->rows <= plan->rows &&
           dispatch->bytes + parcel_bytes(job->request) <= MESSAGE_BYTES_MAX;
}

static void add_job(struct broker *broker, struct dispatch *dispatch, struct job *job, const struct plan *plan)
{
    struct dispatch_slot *slot = &dispatch->slots[dispatch->count];
    *slot = (struct dispatch_slot){.id = job->id, .job = job, .rows = job->rows};
    lane_charge(job->lane, job, plan->row_us * job->rows, &slot->charge);
    lane_remove(job->lane, job);
    leave_queue(broker, job);
    job->state = JOB_DISPATCHED;
    job->dispatch = dispatch;
    job->slot = (uint8_t)dispatch->count;
    job->hedge = NULL;
    job->attempts++;
    job->lane->model->running++;
    dispatch->count++;
    dispatch->rows += job->rows;
    dispatch->bytes += parcel_bytes(job->request);
}

/* The header is shared with the kept request, but for what belongs to this run: the remaining deadline and ALONE are written into a copy. */
static enum pen_status header_frame(const struct broker *broker, const struct job *job, bool alone,
                                    zmq_msg_t *ret_frame)
{
    enum pen_status status = parcel_frame(job->request, 0, ret_frame);
    bool timed = job->deadline_us != DEADLINE_NONE && !expiry_delays(job);
    if (status != PEN_OK || !(timed || alone))
        return status;
    zmq_msg_t copy;
    size_t bytes = zmq_msg_size(ret_frame);
    if (zmq_msg_init_size(&copy, bytes) != 0)
        return PEN_OK; /* the deadline as it was at admission: the broker still enforces the right one */
    uint8_t *to = zmq_msg_data(&copy);
    memcpy(to, zmq_msg_data(ret_frame), bytes);
    uint64_t left_us = deadline_remaining(broker->now_us, job->deadline_us);
    for (unsigned i = 0; timed && i < 8; i++)
        to[ENVELOPE_DEADLINE_AT + i] = (uint8_t)(left_us >> (8 * i));
    if (alone)
        to[ENVELOPE_FLAGS_AT + 1] |= FRAME_FLAG_ALONE >> 8;
    zmq_msg_move(ret_frame, &copy);
    zmq_msg_close(&copy);
    return PEN_OK;
}

/* A large payload is only announced: the worker asks for it when it wants it. */
static void send_job(struct broker *broker, struct worker *worker, const struct job *job, bool alone, bool last)
{
    uint32_t count = job->request->count;
    zmq_msg_t frame;
    header_frame(broker, job, alone && worker->hello->runs_alone, &frame);
    if (transfer_wanted(broker, &worker->transfers, job->request) &&
        transfer_begin(broker, &worker->transfers, job->id, job->request, &frame))
        count = 1;
    broker->workers->part(broker->workers, &frame, !(last && count == 1));
    for (uint32_t i = 1; i < count; i++) {
        parcel_frame(job->request, i, &frame);
        broker->workers->part(broker->workers, &frame, !(last && i + 1 == count));
    }
}

/* Company that was worth waiting for makes the lane wait again. Only what filled up may have waited for less than the whole delay. */
static void learn_company(const struct broker *broker, struct lane *lane, const struct dispatch *dispatch,
                          const struct offer *offer)
{
    uint64_t delay_us = offer->meta->max_queue_delay_us, age_us = broker->now_us - dispatch->slots[0].job->admitted_us;
    bool filled = strcmp(dispatch->reason, "full") == 0;
    if (batch_wait_paid(&offer->speed, dispatch->count, filled && age_us < delay_us ? age_us : delay_us))
        lane->lonely = 0;
    else if (strcmp(dispatch->reason, "delay") == 0)
        lane->lonely++;
}

static void log_dispatch(const struct dispatch *dispatch)
{
    char id[JOB_ID_TEXT_BYTES];
    if (!log_enabled(LOG_DEBUG))
        return;
    for (uint32_t i = 0; i < dispatch->count; i++)
        log_event(LOG_DEBUG, "job_dispatched", "job=%s worker=%s batch=%u reason=%s expect_us=%" PRIu64,
                  job_id_text(dispatch->slots[i].id, id), dispatch->worker->hello->name, dispatch->count,
                  dispatch->reason, dispatch->expect_us);
}

/* False only when the lane could not move; a worker that proves to be gone counts as movement. */
static bool dispatch_lane(struct broker *broker, struct lane *lane)
{
    struct plan plan;
    if (!choose(broker, lane, &plan))
        return false;
    struct worker *worker = plan.offer->worker;
    size_t most = lane->count < plan.rows ? lane->count : plan.rows;
    struct dispatch *dispatch = dispatch_new(most < FRAME_MAX_GROUPS ? most : FRAME_MAX_GROUPS);
    if (!dispatch)
        return false;
    if (!broker->workers->begin(broker->workers, worker->link.peer)) {
        dispatch_discard(dispatch);
        broker_worker_lost(broker, worker, LOSS_CLOSED);
        return true;
    }
    dispatch->count = 0;
    dispatch->row_us = plan.row_us;
    dispatch->own_row_us = plan.own_row_us;
    add_job(broker, dispatch, plan.first, &plan);
    while (lane_head(lane) && dispatch->count < most && fits(lane_head(lane), dispatch, &plan))
        add_job(broker, dispatch, lane_head(lane), &plan);
    dispatch->open = dispatch->count;
    dispatch->reason = plan.reason;
    dispatch->isolated = dispatch->slots[0].job->isolated = must_isolate(broker, dispatch->slots[0].job);
    dispatch->decision = plan.decision;
    learn_company(broker, lane, dispatch, plan.offer);
    dispatch->expect_us = speed_expect_us(&plan.offer->speed, dispatch->rows);
    for (uint32_t i = 0; i < dispatch->count; i++)
        send_job(broker, worker, dispatch->slots[i].job, dispatch->isolated, i + 1 == dispatch->count);
    for (uint32_t i = 0; i < dispatch->count; i++)
        if (dispatch->slots[i].job->lane->model->sequence_idle_us)
            sequence_dispatched(broker, dispatch->slots[i].job, worker);
    dispatch_send(dispatch, plan.offer, broker->now_us);
    record_dispatch(broker, dispatch);
    link_sent(&worker->link, dispatch->bytes, broker->now_us);
    broker->stats.jobs_dispatched += dispatch->count;
    if (broker->options->hedge && broker->hedge_us == UINT64_MAX)
        broker->hedge_us = broker->now_us;
    log_dispatch(dispatch);
    return true;
}

bool dispatch_twin(struct broker *broker, struct job *job, struct offer *offer)
{
    struct dispatch *dispatch = dispatch_new(1);
    if (!dispatch || !broker->workers->begin(broker->workers, offer->worker->link.peer)) {
        dispatch_discard(dispatch);
        return false; /* a worker that is gone is found by the probes */
    }
    dispatch->slots[0] = (struct dispatch_slot){.id = job->id, .job = job};
    dispatch->rows = job->rows;
    dispatch->bytes = parcel_bytes(job->request);
    dispatch->reason = "hedge";
    dispatch->expect_us = speed_expect_us(&offer->speed, job->rows);
    send_job(broker, offer->worker, job, false, true);
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

uint64_t dispatch_wait_hint_us(const struct broker *broker, const struct model *model)
{
    uint64_t slots = 0, expect_us = 0;
    const struct offer *offer;
    (void)broker;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        slots += offer->worker->slots;
        expect_us += speed_expect_us(&offer->speed, 1) * offer->worker->slots;
    }
    if (slots == 0)
        return 1000000;
    uint64_t hint =
        model->queue.waiting * (expect_us / slots) / slots / 4; /* a quarter of the queue: room for newcomers by then */
    return hint < 5000 ? 5000 : hint > 5000000 ? 5000000 : hint;
}
