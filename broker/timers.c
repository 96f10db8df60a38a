/* Handles what is due now, and says when the next thing is due: broker_tick, broker_next_us (broker.h). */
#include "broker.h"

#include <inttypes.h>

#include "answer.h"
#include "detached.h"
#include "dispatch.h"
#include "expiry.h"
#include "handover_out.h"
#include "hedge.h"
#include "lane_look.h"
#include "logline.h"
#include "metrics_record.h"
#include "neighbour_talk.h"
#include "sequence.h"
#include "shadow_guard.h"
#include "submit.h"
#include "usage_save.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void probe_worker(struct broker *broker, struct worker *worker)
{
    struct envelope env = envelope_make(FRAME_PING);
    if (worker->ended_us != 0)
        return; /* departure_tick handles it */
    if (link_probe_due(&worker->link, broker->now_us) && !broker_send_worker(broker, worker, &env, NULL, 0))
        broker_worker_ended(broker, worker);
    else
        broker->probe_us = earlier(broker->probe_us, link_probe_next_us(&worker->link));
}

static void probe_workers(struct broker *broker)
{
    struct worker *worker;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    probe_worker(broker, worker);
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

/* Redis did not answer in time: goes on without it. */
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
    struct worker *worker;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        if (worker->ended_us != 0)
            continue; /* departure_tick handles it */
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

/* A form without workers is forgotten after --worker-wait; a model without any, with all its forms, when it is due. */
static void check_orphans(struct broker *broker)
{
    struct model *model, *next;
    for (model = TAILQ_FIRST(&broker->models.all); model; model = next) {
        next = TAILQ_NEXT(model, in_all);
        uint64_t kept_us = model_kept_us(model, broker->options);
        forms_expire(&model->forms, broker->now_us, kept_us);
        if (model->orphan_us != 0 && model->users == 0 && broker->now_us - model->orphan_us >= kept_us)
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
    lanes_look(broker);
    check_orphans(broker);
    if (broker->now_us - broker->started_us >= (uint64_t)broker->options->restart_wait_us) {
        detached_start(broker);
        submit_parked_tick(broker);
    }
    report_drops(broker);
    transfer_tick(broker);
    fleet_order_tick(broker);
    neighbours_beat(broker);
    shadow_guard_beat(broker);
    fair_queue_sweep(&broker->models.fair_queue);
    record_clock(broker);
    usage_beat(broker);
    metrics_beat(broker->metrics, broker->now_us);
    broker->schedule |= !TAILQ_EMPTY(&broker->models.active); /* the matching counts the ages of dispatches */
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
        while (!TAILQ_EMPTY(&session->live)) /* ends, as in broker_session_end */
            answer_error(broker, TAILQ_FIRST(&session->live), PEN_ERR_UNAVAILABLE,
                         "the broker stops before the job could finish; send it again");
    }
}

/* True: there were effects. */
static bool schedule(struct broker *broker)
{
    effects_begin(&broker->effects);
    dispatch_all(broker);
    return effects_drain(broker);
}

void broker_tick(struct broker *broker)
{
    broker->now_us = broker->clock();
    effects_begin(&broker->effects);
    effects_turn(&broker->effects);
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
    departure_tick(broker);
    if (broker->now_us >= broker->beat_us)
        beat(broker);
    if (broker->now_us >= broker->wake_us)
        broker->schedule = true;
    if (broker->now_us >= broker->hedge_us)
        hedge_tick(broker);
    detached_tick(broker);
    sequences_tick(broker);
    handover_tick(broker);
    finish_drain(broker);
    effects_drain(broker);
    if (broker->schedule && schedule(broker) && broker->schedule) /* a worker proved to be gone */
        schedule(broker);
}

uint64_t broker_next_us(const struct broker *broker)
{
    const struct job *job = heap_top(&broker->deadlines), *lookup = TAILQ_FIRST(&broker->lookups);
    if (effects_left(&broker->effects) || broker->fleet.ended > 0)
        return broker->now_us; /* the loop reads messages first, and comes back */
    uint64_t next = earlier(earlier(broker->beat_us, broker->hedge_us), earlier(broker->probe_us, broker->wake_us));
    if (job)
        next = earlier(next, job->deadline_us);
    next = earlier(next, earlier(broker->transfers.asked_until_us, broker->transfers.memory_us));
    if (lookup)
        next = earlier(next, lookup->admitted_us + cache_deadline_us(broker->cache));
    next = earlier(next, handover_next_us(broker));
    return earlier(earlier(next, sequences_next_us(broker)), broker->drain_end_us);
}
