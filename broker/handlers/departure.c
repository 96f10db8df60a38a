#include "departure.h"

#include <inttypes.h>

#include "answer.h"
#include "cost.h"
#include "dispatch.h"
#include "handover_out.h"
#include "hedge.h"
#include "logline.h"
#include "notify.h"
#include "send.h"
#include "sequence.h"
#include "submit.h"
#include "transfer.h"
#include "words.h"

/* ---- losses ---- */

void broker_session_end(struct broker *broker, struct session *session, const char *reason)
{
    log_event(LOG_INFO, "client_gone", "client=%016" PRIx64 " name=%s jobs=%u reason=%s", session->uuid, session->name,
              session->live_count, reason);
    session->connected = false;
    transfer_reset(broker, &session->transfers);
    while (!TAILQ_EMPTY(&session->live)) /* ends: each turn takes one job out and adds none (steps begin by effects) */
        answer_error(broker, TAILQ_FIRST(&session->live), PEN_ERR_CANCELLED, reason);
    sequences_session_gone(broker, session);
    port_takes_packs(broker->clients, session->link.peer, 0);
    session_free(&broker->sessions, session);
}

void broker_worker_leave(struct broker *broker, struct worker *worker)
{
    worker->state = WORKER_DRAINING; /* no candidate for work any more */
    effect_post(&broker->effects, &worker->left, EFFECT_WORKER_LEFT);
}

void broker_worker_lost(struct broker *broker, struct worker *worker, enum loss loss)
{
    if (effect_posted(&worker->left))
        return; /* it is going already */
    broker->stats.workers_lost++;
    broker->stats.losses[loss]++;
    log_event(LOG_WARN, "worker_lost",
              "worker=%s uuid=%016" PRIx64 " jobs=%u reason=%s silent_us=%" PRIu64 " closed_us=%" PRIu64,
              worker->hello->name, worker->uuid, worker->jobs, loss_name(loss), broker->now_us - worker->link.heard_us,
              link_probed_us(&worker->link, broker->now_us));
    worker->lost = true;
    broker_worker_leave(broker, worker);
}

/* After this time the worker's last messages have been read, even when others send much: it covers the most that may
   wait on one connection among many busy ones. */
#define ENDED_WAIT_US 20000u

static bool is_read_out(const struct broker *broker, const struct worker *worker)
{
    return broker->workers->emptied != worker->ended_mark || broker->now_us - worker->ended_us >= ENDED_WAIT_US;
}

void departure_tick(struct broker *broker)
{
    struct worker *worker;
    if (broker->fleet.ended == 0)
        return;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        if (worker->ended_us != 0 && is_read_out(broker, worker))
            broker_worker_lost(broker, worker, LOSS_CLOSED);
    }
}

bool departure_worker_ended(struct broker *broker, struct effect *effect)
{
    if (!broker->workers->queues) /* otherwise departure_tick does it */
        broker_worker_lost(broker, effect_of(effect, struct worker, ended), LOSS_CLOSED);
    return true;
}

/* A session without a grace window ends now. */
bool departure_client_gone(struct broker *broker, struct effect *effect)
{
    struct session *session = effect_of(effect, struct session, gone);
    transfer_reset(broker, &session->transfers);
    if (session_over(session, broker->now_us))
        broker_session_end(broker, session, "the client is gone");
    return false; /* it may have gone */
}

static void take_back(struct broker *broker, struct worker *worker, struct dispatch *dispatch, uint32_t slot,
                      enum blame blame)
{
    bool suspect = blame == BLAME_SUSPECT;
    struct job *job = dispatch->slots[slot].job;
    dispatch->slots[slot].job = NULL;
    cost_lost(broker, dispatch, slot);
    if (!job)
        return;
    if (suspect)
        quarantine_trace(broker->quarantine, job->id, worker->hello->name);
    if (!hedge_forget(job, dispatch, slot)) {
        dispatch_requeue(broker, job, blame);
        return;
    }
    job->deaths += suspect; /* the first run goes on */
    job->alone |= suspect;
}

bool departure_take_back(struct broker *broker, struct effect *effect)
{
    struct worker *worker = effect_of(effect, struct worker, left);
    enum blame blame = worker->lost && !worker->paused ? BLAME_SUSPECT : BLAME_NONE; /* paused: it had begun none */
    while (!TAILQ_EMPTY(&worker->dispatches)) {
        struct dispatch *dispatch = TAILQ_FIRST(&worker->dispatches);
        bool unsent = worker->unsent_us != 0 && dispatch->sent_us >= worker->unsent_us;
        for (uint32_t i = 0; i < dispatch->count; i++)
            take_back(broker, worker, dispatch, i, unsent ? BLAME_NONE : blame);
        dispatch_free(dispatch);
    }
    return true;
}

bool departure_worker_left(struct broker *broker, struct effect *effect)
{
    struct worker *worker = effect_of(effect, struct worker, left);
    transfer_reset(broker, &worker->transfers);
    uint32_t peer = worker->link.peer;
    fleet_leave(&broker->fleet, worker, broker->now_us);
    if (!fleet_by_peer(&broker->fleet, peer)) /* otherwise the connection has said hello anew */
        port_takes_packs(broker->workers, peer, 0);
    broker->schedule = true;
    return false;
}

static void probe_soon(struct broker *broker, struct link *link)
{
    link_probe(link, broker->now_us);
    uint64_t next_us = link_probe_next_us(link);
    broker->probe_us = next_us < broker->probe_us ? next_us : broker->probe_us;
}

static bool fleet_has_fd(const struct fleet *fleet, int fd)
{
    const struct worker *worker;
    TAILQ_FOREACH(worker, &fleet->all, in_fleet)
    {
        if (fd >= 0 && worker->link.fd == fd)
            return true;
    }
    return false;
}

/* The descriptor tells whose connection it was; when no peer has that descriptor, all of them are probed. */
void broker_hint_workers(struct broker *broker, int fd)
{
    struct worker *worker;
    bool known = fleet_has_fd(&broker->fleet, fd);
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        if (!known || worker->link.fd == fd)
            probe_soon(broker, &worker->link);
    }
}

void broker_hint_clients(struct broker *broker, int fd)
{
    struct session *session;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        if (session->connected && (session->link.fd == fd || session->link.fd < 0))
            probe_soon(broker, &session->link);
    }
}

static void show_out(struct broker *broker)
{
    struct session *session, *next_session;
    struct worker *worker;
    for (session = TAILQ_FIRST(&broker->sessions.all); session; session = next_session) {
        next_session = TAILQ_NEXT(session, in_all);
        if (session->identity && !(session->identity->active && session->identity->roles & ~(unsigned)ROLE_WORKER))
            broker_session_end(broker, session, "its key is no longer allowed");
    }
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        if (!worker->identity || (worker->identity->active && worker->identity->roles & ROLE_WORKER))
            continue;
        log_event(LOG_WARN, "worker_revoked", "worker=%s uuid=%016" PRIx64, worker->hello->name, worker->uuid);
        broker_worker_leave(broker, worker);
    }
}

void broker_keys_changed(struct broker *broker)
{
    effects_begin(&broker->effects);
    show_out(broker);
    effects_drain(broker);
}

/* ---- what waits to be sent ---- */

/* A pack for that client could not be sent. The client asks for what it lacks when it is back. */
static void client_unreachable(void *context, uint32_t peer)
{
    struct broker *broker = context;
    struct session *session = session_by_peer(&broker->sessions, peer);
    if (session)
        broker_client_gone(broker, session);
}

/* The jobs of that pack never got to the worker, so they are not to blame for its end. They were dispatched in this
   very event, because each event ends with departure_flush. */
static void worker_unreachable(void *context, uint32_t peer)
{
    struct broker *broker = context;
    struct worker *worker = fleet_by_peer(&broker->fleet, peer);
    if (!worker)
        return;
    if (worker->unsent_us == 0)
        worker->unsent_us = broker->now_us;
    broker_worker_ended(broker, worker);
}

void departure_watch(struct broker *broker)
{
    broker->clients->gone = client_unreachable;
    broker->workers->gone = worker_unreachable;
    broker->clients->gone_context = broker->workers->gone_context = broker;
}

/* Ends: a peer that has gone has nothing waiting any more, so it is told once. */
void departure_flush(struct broker *broker)
{
    while (port_holds(broker->clients) || port_holds(broker->workers)) {
        effects_begin(&broker->effects);
        port_flush(broker->workers);
        port_flush(broker->clients);
        effects_drain(broker);
    }
}

/* ---- drain ---- */

void broker_tell_drain(struct broker *broker, struct session *session)
{
    struct envelope env = envelope_make(FRAME_DRAIN);
    if (broker->draining && session->connected)
        broker_send_client(broker, session, &env, NULL, 0);
}

void departure_drain(struct broker *broker)
{
    if (broker->draining)
        return;
    broker->draining = true;
    broker->drain_refuse_us = broker->now_us + (uint64_t)broker->options->drain_delay_us;
    broker->drain_end_us = broker->drain_refuse_us + (uint64_t)broker->options->drain_timeout_us;
    log_event(LOG_INFO, "drain", "jobs=%" PRIu64 " delay_us=%" PRId64 " timeout_us=%" PRId64, broker->live,
              broker->options->drain_delay_us, broker->options->drain_timeout_us);
    struct session *session;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    broker_tell_drain(broker, session);
    notify_send("STOPPING=1\nSTATUS=draining: %" PRIu64 " %s under way", broker->live,
                words_plural(broker->live, "job is", "jobs are"));
    submit_waiting(broker); /* they are told that no worker came */
}

void broker_drain(struct broker *broker)
{
    effects_begin(&broker->effects);
    departure_drain(broker);
    effects_drain(broker);
}

bool broker_drained(const struct broker *broker)
{
    return broker->draining && broker->live == 0 && broker->now_us >= broker->drain_refuse_us &&
           !transfer_replies_pending(broker) && !handover_owes(broker);
}
