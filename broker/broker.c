#include "broker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "cascade.h"
#include "charge.h"
#include "control.pb-c.h"
#include "depot.h"
#include "dispatch.h"
#include "early.h"
#include "hedge.h"
#include "logline.h"
#include "metrics_record.h"
#include "notify.h"
#include "sequence.h"
#include "submit.h"
#include "version.h"
#include "worker.pb-c.h"
#include "words.h"

#define JOB_ARENA_BYTES                                                                                                \
    (1024u * 1024u) /* a JobMeta of 64 KiB unpacked; the largest expansion is about 12 (empty texts) */

enum pen_status broker_init(struct broker *broker, const struct options *options, struct cache *cache,
                            uint64_t (*clock)(void))
{
    *broker = (struct broker){.options = options, .cache = cache, .clock = clock, .uuid = random_u64()};
    broker->now_us = broker->started_us = broker->beat_us = clock();
    broker->hedge_us = broker->probe_us = broker->wake_us = broker->drain_refuse_us = broker->drain_end_us = UINT64_MAX;
    TAILQ_INIT(&broker->lookups);
    lobby_init(&broker->lobby);
    meta_arena_init(&broker->arena, JOB_ARENA_BYTES);
    broker->metrics = metrics_new(broker->now_us);
    if (broker->metrics) {
        lives_ring_init(&broker->metrics->kept, (uint32_t)options->trace_keep); /* without memory none are kept */
        record_clock(broker);
    }
    heap_init(&broker->deadlines, job_deadline_before, offsetof(struct job, deadline_place));
    broker->quarantine = quarantine_new();
    broker->errands = errands_new();
    broker->cascades = cascades_new();
    broker->sequences = sequences_new();
    if (!broker->cascades || !broker->sequences || !broker->metrics || !broker->quarantine || !broker->errands ||
        explain_init(&broker->explain, (size_t)options->explain_jobs) != PEN_OK || jobs_init(&broker->jobs) != PEN_OK ||
        flights_init(&broker->flights) != PEN_OK ||
        sessions_init(&broker->sessions, &broker->jobs, (uint64_t)options->replies_bytes,
                      (uint64_t)options->replies_age_us) != PEN_OK ||
        models_init(&broker->models, (uint64_t)options->queue_limit) != PEN_OK ||
        fleet_init(&broker->fleet, &broker->models) != PEN_OK || transfer_hub_init(&broker->transfers) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    sessions_weights(&broker->sessions, &options->tenant_weights);
    return PEN_OK;
}

/* Jobs that are still live are answered to nobody: the connections are closed by now. */
static void drop_jobs(struct broker *broker)
{
    struct session *session;
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    {
        session->connected = false;
        while (!TAILQ_EMPTY(&session->live))
            answer_error(broker, TAILQ_FIRST(&session->live), PEN_ERR_UNAVAILABLE, "the broker is stopping");
    }
}

void broker_settle(struct broker *broker)
{
    jobs_settle(&broker->jobs);
    table_settle(&broker->flights);
    heap_settle(&broker->deadlines);
}

void broker_fini(struct broker *broker)
{
    drop_jobs(broker);
    depot_free(broker->depot);
    broker->depot = NULL;
    lobby_fini(&broker->lobby);
    transfer_hub_fini(broker);
    sessions_fini(&broker->sessions);
    fleet_fini(&broker->fleet);
    models_fini(&broker->models);
    jobs_fini(&broker->jobs);
    flights_fini(&broker->flights);
    heap_fini(&broker->deadlines);
    metrics_free(broker->metrics);
    quarantine_free(broker->quarantine);
    explain_fini(&broker->explain);
    labels_fini(&broker->labels);
    errands_free(broker->errands);
    cascades_free(broker->cascades);
    sequences_free(broker->sequences);
    meta_arena_fini(&broker->arena);
}

/* ---- sending ---- */

void broker_client_gone(struct broker *broker, struct session *session)
{
    if (!session->connected)
        return;
    transfer_reset(broker, &session->transfers);
    session_disconnect(session, broker->now_us);
    broker->stats.clients_lost++;
    broker->beat_us = broker->now_us; /* its grace may be 0 */
    log_event(LOG_INFO, "client_lost", "client=%016" PRIx64 " name=%s jobs=%u grace_us=%" PRIu64, session->uuid,
              session->name, session->live_count, session->grace_us);
}

bool broker_send_client(struct broker *broker, struct session *session, struct envelope *env, const void *meta,
                        size_t bytes)
{
    if (env->type != FRAME_PING && link_full(&session->link, 2 * (uint64_t)broker->options->peer_bytes))
        return false; /* it asks and asks and does not read */
    if (!port_send(broker->clients, session->link.peer, env, meta, bytes)) {
        broker_client_gone(broker, session);
        return false;
    }
    if (env->type == FRAME_PING)
        link_pinged(&session->link, broker->now_us);
    link_sent(&session->link, FRAME_ENVELOPE_BYTES + bytes, broker->now_us);
    if (env->type != FRAME_PING)
        broker_mark_client(broker, session); /* PONGs alone fill the cap, too, in time */
    return true;
}

void broker_mark_client(struct broker *broker, struct session *session)
{
    struct envelope env = envelope_make(FRAME_PING);
    if (link_wants_ping(&session->link, (uint64_t)broker->options->peer_bytes))
        broker_send_client(broker, session, &env, NULL, 0);
}

bool broker_send_worker(struct broker *broker, struct worker *worker, struct envelope *env, const void *meta,
                        size_t bytes)
{
    if (!port_send(broker->workers, worker->link.peer, env, meta, bytes))
        return false;
    if (env->type == FRAME_PING)
        link_pinged(&worker->link, broker->now_us);
    link_sent(&worker->link, FRAME_ENVELOPE_BYTES + bytes, broker->now_us);
    return true;
}

void broker_welcome(struct broker *broker, struct port *port, uint32_t peer, enum pen_status status, const char *text)
{
    uint8_t meta[PEN_ERROR_TEXT_BYTES + 256];
    const struct options *options = broker->options;
    struct envelope env = envelope_make(FRAME_WELCOME);
    Penstock__Welcome welcome = PENSTOCK__WELCOME__INIT;
    env.status = (uint8_t)status;
    welcome.software = (char *)(uintptr_t)PENSTOCK_SOFTWARE;
    welcome.heartbeat_us = (uint64_t)options->heartbeat_us;
    welcome.liveness_us = (uint64_t)options->liveness_us;
    welcome.max_frame_bytes = (uint64_t)options->max_frame_bytes;
    welcome.max_job_bytes = (uint64_t)options->max_job_bytes;
    welcome.broker_uuid = broker->uuid;
    welcome.digest_kind = options->digest;
    welcome.error = (char *)(uintptr_t)text;
    welcome.detached = broker->depot != NULL;
    welcome.grace_us = (uint64_t)options->grace_us;
    welcome.bulk_bytes = (uint64_t)options->bulk_from;
    welcome.bulk_port = port->bulk_number;
    welcome.digest_first_bytes = early_from(broker);
    port_send(port, peer, &env, meta, penstock__welcome__pack(&welcome, meta));
}

void broker_resume(struct broker *broker, struct port *port, uint32_t peer)
{
    (void)broker;
    struct envelope env = envelope_make(FRAME_RESUME);
    port_send(port, peer, &env, NULL, 0);
}

bool broker_ignores(const struct ignored *ignored, uint32_t peer)
{
    uint32_t count = ignored->count < IGNORED_PEERS ? ignored->count : IGNORED_PEERS;
    for (uint32_t i = 0; i < count; i++) {
        if (ignored->peers[i] == peer)
            return true;
    }
    return false;
}

void broker_refuse_version(struct broker *broker, struct port *port, struct ignored *ignored, uint32_t peer,
                           const char *text)
{
    ignored->peers[ignored->count++ % IGNORED_PEERS] = peer;
    log_event(LOG_WARN, "peer_refused", "reason=%s", text);
    broker_welcome(broker, port, peer, PEN_ERR_VERSION, text);
}

/* ---- losses ---- */

void broker_session_end(struct broker *broker, struct session *session, const char *reason)
{
    log_event(LOG_INFO, "client_gone", "client=%016" PRIx64 " name=%s jobs=%u reason=%s", session->uuid, session->name,
              session->live_count, reason);
    session->connected = false;
    transfer_reset(broker, &session->transfers);
    while (!TAILQ_EMPTY(&session->live))
        answer_error(broker, TAILQ_FIRST(&session->live), PEN_ERR_CANCELLED, reason);
    sequences_session_gone(broker, session);
    session_free(&broker->sessions, session);
}

void broker_worker_closes(struct broker *broker, struct worker *worker)
{
    worker->state = WORKER_DRAINING;
    broker->beat_us = broker->now_us; /* ensembles that it alone had whole may run in steps */
}

void broker_worker_lost(struct broker *broker, struct worker *worker, enum loss loss)
{
    broker->stats.workers_lost++;
    broker->stats.losses[loss]++;
    log_event(LOG_WARN, "worker_lost",
              "worker=%s uuid=%016" PRIx64 " jobs=%u reason=%s silent_us=%" PRIu64 " closed_us=%" PRIu64,
              worker->hello->name, worker->uuid, worker->jobs, loss_name(loss), broker->now_us - worker->link.heard_us,
              link_probed_us(&worker->link, broker->now_us));
    broker_worker_closes(broker, worker);
    sequences_worker_gone(broker, worker, PEN_ERR_WORKER_LOST, "was lost");
    broker_worker_leave(broker, worker, !worker->paused); /* paused: it had begun none of them */
}

/* What a worker said last is read by then, however much others have to say: most of what may wait on one connection, by many busy ones. */
#define ENDED_WAIT_US 20000u

void broker_worker_ended(struct broker *broker, struct worker *worker)
{
    if (!broker->workers->queues) {
        broker_worker_lost(broker, worker, LOSS_CLOSED);
    } else if (worker->ended_us == 0) {
        worker->ended_us = broker->now_us;
        worker->ended_mark = broker->workers->emptied;
        broker_worker_closes(broker, worker);
        broker->probe_us = broker->now_us;
    }
}

bool broker_worker_over(const struct broker *broker, const struct worker *worker)
{
    return worker->ended_us != 0 &&
           (broker->workers->emptied != worker->ended_mark || broker->now_us - worker->ended_us >= ENDED_WAIT_US);
}

static void take_back(struct broker *broker, struct worker *worker, struct dispatch *dispatch, uint32_t slot,
                      bool suspect)
{
    struct job *job = dispatch->slots[slot].job;
    dispatch->slots[slot].job = NULL;
    charge_lost(broker, dispatch, slot);
    if (!job)
        return;
    if (suspect)
        quarantine_trace(broker->quarantine, job->id, worker->hello->name);
    if (!hedge_forget(job, dispatch, slot)) {
        dispatch_requeue(broker, job, suspect);
        return;
    }
    job->deaths += suspect; /* its first run goes on */
    job->alone |= suspect;
}

void broker_worker_leave(struct broker *broker, struct worker *worker, bool suspect)
{
    while (!TAILQ_EMPTY(&worker->dispatches)) {
        struct dispatch *dispatch = TAILQ_FIRST(&worker->dispatches);
        for (uint32_t i = 0; i < dispatch->count; i++)
            take_back(broker, worker, dispatch, i, suspect);
        dispatch_free(dispatch);
    }
    transfer_reset(broker, &worker->transfers);
    sequences_worker_gone(broker, worker, PEN_ERR_UNAVAILABLE, "has gone");
    errand_worker_gone(broker, worker);
    fleet_leave(&broker->fleet, worker, broker->now_us);
    broker->schedule = true;
}

static void probe_soon(struct broker *broker, struct link *link)
{
    link_probe(link, broker->now_us);
    broker->probe_us = broker->now_us;
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

/* Whose connection it was is known by the descriptor it had; where nobody has that one, all are asked. */
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

void broker_keys_changed(struct broker *broker)
{
    struct session *session, *next_session;
    struct worker *worker, *next_worker;
    for (session = TAILQ_FIRST(&broker->sessions.all); session; session = next_session) {
        next_session = TAILQ_NEXT(session, in_all);
        if (session->identity && !(session->identity->active && session->identity->roles & ~(unsigned)ROLE_WORKER))
            broker_session_end(broker, session, "its key is no longer allowed");
    }
    for (worker = TAILQ_FIRST(&broker->fleet.all); worker; worker = next_worker) {
        next_worker = TAILQ_NEXT(worker, in_fleet);
        if (!worker->identity || (worker->identity->active && worker->identity->roles & ROLE_WORKER))
            continue;
        log_event(LOG_WARN, "worker_revoked", "worker=%s uuid=%016" PRIx64, worker->hello->name, worker->uuid);
        broker_worker_closes(broker, worker);
        broker_worker_leave(broker, worker, false);
    }
}

/* ---- drain ---- */

void broker_tell_drain(struct broker *broker, struct session *session)
{
    struct envelope env = envelope_make(FRAME_DRAIN);
    if (broker->draining && session->connected)
        broker_send_client(broker, session, &env, NULL, 0);
}

void broker_drain(struct broker *broker)
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
    submit_waiting(broker); /* told that no worker came */
}

bool broker_drained(const struct broker *broker)
{
    return broker->draining && broker->live == 0 && broker->now_us >= broker->drain_refuse_us &&
           !transfer_replies_pending(broker);
}
