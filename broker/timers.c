/* What is due now, and when something will be: broker_tick, broker_next_us (broker.h). */
#include "broker.h"

#include <inttypes.h>

#include "answer.h"
#include "ensemble_run.h"
#include "detached.h"
#include "dispatch.h"
#include "expiry.h"
#include "hedge.h"
#include "logline.h"
#include "metrics_record.h"
#include "reroute.h"
#include "sequence.h"
#include "submit.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* May free it. */
static void probe_worker(struct broker *broker, struct worker *worker)
{
    struct envelope env = envelope_make(FRAME_PING);
    if (broker_worker_over(broker, worker))
        broker_worker_lost(broker, worker, LOSS_CLOSED);
    else if (worker->ended_us != 0)
        broker->probe_us = broker->now_us; /* the loop reads, and comes back here */
    else if (link_probe_due(&worker->link, broker->now_us) && !broker_send_worker(broker, worker, &env, NULL, 0))
        broker_worker_ended(broker, worker);
    else
        broker->probe_us = earlier(broker->probe_us, link_probe_next_us(&worker->link));
}

static void probe_workers(struct broker *broker)
{
    struct worker *worker, *next;
    for (worker = TAILQ_FIRST(&broker->fleet.all); worker; worker = next) {
        next = TAILQ_NEXT(worker, in_fleet);
        probe_worker(broker, worker);
    }
}

static void probe_clients(struct broker *broker)
{
    struct envelope env = envelope_make(FRAME_PING);
    struct session *session;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        if (!session->connected)
            continue;
        if (link_probe_due(&session->link, broker->now_us))
            broker_send_client(broker, session, &env, NULL, 0);
        broker->probe_us = earlier(broker->probe_us, link_probe_next_us(&session->link));
    }
}

static void expire_jobs(struct broker *broker)
{
    struct job *job;
    while ((job = heap_top(&broker->deadlines)) && job->deadline_us <= broker->now_us) {
        if (expiry_delays(job)) {
            expiry_delay(broker, job);
            continue;
        }
        char text[EXPIRY_TEXT_BYTES];
        answer_error(broker, job, PEN_ERR_DEADLINE, expiry_text(job, text));
    }
}

/* Redis did not answer in time: on without it. */
static void expire_lookups(struct broker *broker)
{
    struct job *job;
    while ((job = TAILQ_FIRST(&broker->lookups)) &&
           broker->now_us - job->admitted_us >= cache_deadline_us(broker->cache)) {
        TAILQ_REMOVE(&broker->lookups, job, in_group);
        record_lookup(broker, job);
        record_miss(broker, job->lane->model);
        cache_give_up(broker->cache, broker->now_us);
        dispatch_queue(broker, job);
    }
}

static void beat_workers(struct broker *broker)
{
    struct envelope beat = envelope_make(FRAME_HEARTBEAT);
    uint64_t period_us =
        (uint64_t)broker->options->heartbeat_us * 3 / 4; /* checked every quarter: never later than the period */
    struct worker *worker, *next;
    for (worker = TAILQ_FIRST(&broker->fleet.all); worker; worker = next) {
        next = TAILQ_NEXT(worker, in_fleet);
        if (worker->ended_us != 0)
            continue; /* probe_worker sees to it */
        if (broker->now_us - worker->link.heard_us >= (uint64_t)broker->options->liveness_us)
            broker_worker_lost(broker, worker, loss_of_silent(worker->link.fd, (uint64_t)broker->options->liveness_us));
        else if (broker->now_us - worker->link.sent_us >= period_us &&
                 !broker_send_worker(broker, worker, &beat, NULL, 0))
            broker_worker_ended(broker, worker);
        else
            broker->beat_us = earlier(broker->beat_us, worker->link.heard_us + (uint64_t)broker->options->liveness_us);
    }
}

static void beat_clients(struct broker *broker)
{
    struct envelope ping = envelope_make(FRAME_PING);
    uint64_t period_us = (uint64_t)broker->options->heartbeat_us * 3 / 4;
    struct session *session, *next;
    for (session = TAILQ_FIRST(&broker->sessions.all); session; session = next) {
        next = TAILQ_NEXT(session, in_all);
        if (session->connected && broker->now_us - session->link.heard_us >= (uint64_t)broker->options->liveness_us)
            broker_client_gone(broker, session);
        else if (session->connected && broker->now_us - session->link.sent_us >= period_us)
            broker_send_client(broker, session, &ping, NULL, 0);
        if (session_over(session, broker->now_us))
            broker_session_end(broker, session, "the client is gone");
    }
}

/* A step that ends may end others with it, in any lane: the list is begun anew. */
static struct lane *unserved(struct broker *broker, struct lane *lane)
{
    answer_lane_unserved(broker, lane);
    return TAILQ_FIRST(&broker->models.active);
}

/* Jobs that nobody can run any more wait a while for a worker to come back, then they are told; at once when none will. */
static void check_lanes(struct broker *broker)
{
    struct lane *lane, *next;
    for (lane = TAILQ_FIRST(&broker->models.active); lane; lane = next) {
        next = TAILQ_NEXT(lane, in_active);
        if (model_served(lane->model, &lane->demand))
            lane->unserved_us = 0;
        else if (model_unloaded(lane->model) || !forms_open(&lane->model->forms, lane->demand.forms))
            next = unserved(broker, lane);
        else if (lane->unserved_us == 0)
            lane->unserved_us = broker->now_us;
        else if (broker->now_us - lane->unserved_us >= (uint64_t)broker->options->worker_wait_us)
            next = unserved(broker, lane);
    }
}

/* A model that nobody offers any more is forgotten after the same while. */
static void check_orphans(struct broker *broker)
{
    struct model *model, *next;
    for (model = TAILQ_FIRST(&broker->models.all); model; model = next) {
        next = TAILQ_NEXT(model, in_all);
        forms_expire(&model->forms, broker->now_us, (uint64_t)broker->options->worker_wait_us);
        if (model->orphan_us != 0 && model->users == 0 &&
            broker->now_us - model->orphan_us >= (uint64_t)broker->options->worker_wait_us)
            model_free(&broker->models, model);
    }
}

static void report_drops(struct broker *broker)
{
    if (broker->sessions.dropped_unsent == broker->drops_reported)
        return;
    log_event(LOG_WARN, "replies_dropped", "count=%" PRIu64 " reason=%s",
              broker->sessions.dropped_unsent - broker->drops_reported,
              "their clients did not read them before --replies-bytes or --replies-age");
    broker->drops_reported = broker->sessions.dropped_unsent;
}

static void beat(struct broker *broker)
{
    broker->beat_us = broker->now_us + (uint64_t)broker->options->heartbeat_us / 4;
    if (broker->beat_us - broker->now_us > 250000)
        broker->beat_us = broker->now_us + 250000;
    beat_workers(broker);
    beat_clients(broker);
    replies_age(&broker->sessions, broker->now_us);
    reroute_some(broker); /* first: jobs that may go to another version do */
    check_lanes(broker);
    check_orphans(broker);
    ensemble_look(broker);
    if (broker->now_us - broker->started_us >= (uint64_t)broker->options->restart_wait_us) {
        detached_start(broker);
        submit_waiting(broker);
    }
    report_drops(broker);
    transfer_tick(broker);
    fleet_order_tick(broker);
    fair_queue_sweep(&broker->models.fair_queue);
    record_clock(broker);
    metrics_beat(broker->metrics, broker->now_us);
    broker->schedule |= !TAILQ_EMPTY(&broker->models.active); /* ages of dispatches count in the matching */
}

static void finish_drain(struct broker *broker)
{
    struct session *session;
    if (broker->now_us < broker->drain_end_us)
        return;
    broker->drain_end_us = UINT64_MAX;
    log_event(LOG_WARN, "drain_timeout", "jobs=%" PRIu64, broker->live);
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        while (!TAILQ_EMPTY(&session->live))
            answer_error(broker, TAILQ_FIRST(&session->live), PEN_ERR_UNAVAILABLE,
                         "the broker stops before the job could finish; send it again");
    }
}

void broker_tick(struct broker *broker)
{
    broker->now_us = broker->clock();
    expire_jobs(broker);
    if (!TAILQ_EMPTY(&broker->lookups))
        expire_lookups(broker);
    if (broker->now_us >= broker->transfers.asked_until_us)
        transfer_asked_tick(broker);
    if (broker->now_us >= broker->transfers.memory_us)
        transfer_memory_tick(broker);
    if (broker->now_us >= broker->probe_us) {
        broker->probe_us = UINT64_MAX;
        probe_workers(broker);
        probe_clients(broker);
    }
    if (broker->now_us >= broker->beat_us)
        beat(broker);
    if (broker->now_us >= broker->wake_us)
        broker->schedule = true;
    if (broker->now_us >= broker->hedge_us)
        hedge_tick(broker);
    detached_tick(broker);
    sequences_tick(broker);
    finish_drain(broker);
    effects_drain(broker);
    if (broker->schedule)
        dispatch_all(broker);
    if (effects_drain(broker) && broker->schedule) { /* a worker proved to be gone */
        dispatch_all(broker);
        effects_drain(broker);
    }
}

uint64_t broker_next_us(const struct broker *broker)
{
    const struct job *job = heap_top(&broker->deadlines), *lookup = TAILQ_FIRST(&broker->lookups);
    uint64_t next = earlier(earlier(broker->beat_us, broker->hedge_us), earlier(broker->probe_us, broker->wake_us));
    if (job)
        next = earlier(next, job->deadline_us);
    next = earlier(next, earlier(broker->transfers.asked_until_us, broker->transfers.memory_us));
    if (lookup)
        next = earlier(next, lookup->admitted_us + cache_deadline_us(broker->cache));
    return earlier(earlier(next, sequences_next_us(broker)), broker->drain_end_us);
}
