#include "send.h"

#include <inttypes.h>

#include "control.pb-c.h"
#include "endpoints.h"
#include "logline.h"
#include "pack.h"
#include "sealed_way.h"
#include "version.h"

void broker_client_gone(struct broker *broker, struct session *session)
{
    if (!session->connected)
        return;
    effect_post(&broker->effects, &session->gone, EFFECT_CLIENT_GONE);
    session_disconnect(session, broker->now_us);
    broker->stats.clients_lost++;
    log_event(LOG_INFO, "client_lost", "client=%016" PRIx64 " name=%s jobs=%u grace_us=%" PRIu64, session->uuid,
              session->name, session->live_count, session->grace_us);
}

bool broker_send_client(struct broker *broker, struct session *session, struct envelope *env, const void *meta,
                        size_t bytes)
{
    if (env->type != FRAME_PING && link_full(&session->link, 2 * (uint64_t)broker->options->peer_bytes))
        return false; /* it asks again and again, and does not read the answers */
    if (!port_send(broker->clients, session->link.peer, env, meta, bytes)) {
        broker_client_gone(broker, session);
        return false;
    }
    if (env->type == FRAME_PING)
        link_pinged(&session->link, broker->now_us);
    link_sent(&session->link, FRAME_ENVELOPE_BYTES + bytes, broker->now_us);
    if (env->type != FRAME_PING)
        broker_mark_client(broker, session); /* even PONGs alone fill the cap in time */
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

void broker_cancel(struct broker *broker, struct worker *worker, struct job_id id)
{
    struct envelope env = envelope_make(FRAME_CANCEL);
    env.job = id;
    broker_send_worker(broker, worker, &env, NULL, 0);
}

static void welcome_send(struct broker *broker, struct port *port, uint32_t peer, enum pen_status status,
                         const char *text, const char *elsewhere)
{
    uint8_t meta[PEN_ERROR_TEXT_BYTES + ENDPOINTS_ONE_BYTES_MAX + 512];
    char *redirect[] = {(char *)(uintptr_t)elsewhere};
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
    welcome.detached = broker->detached != NULL;
    welcome.grace_us = (uint64_t)options->grace_us;
    welcome.bulk_bytes = (uint64_t)options->bulk_from;
    welcome.needs = true;
    welcome.contracts = true;
    welcome.bulk_port = port->bulk_number;
    welcome.pack_bytes = pack_bytes_taken((uint64_t)options->max_frame_bytes);
    welcome.digest_first_bytes = digest_first_bytes(broker);
    welcome.redirect = redirect;
    welcome.n_redirect = elsewhere ? 1 : 0;
    if (status == PEN_OK)
        sealed_way_welcome(broker, port, peer, &welcome);
    port_send(port, peer, &env, meta, penstock__welcome__pack(&welcome, meta));
}

void broker_welcome(struct broker *broker, struct port *port, uint32_t peer, enum pen_status status, const char *text)
{
    welcome_send(broker, port, peer, status, text, NULL);
}

void broker_welcome_client(struct broker *broker, uint32_t peer, const char *elsewhere)
{
    welcome_send(broker, broker->clients, peer, PEN_OK, "", elsewhere);
}

void broker_resume_at(struct broker *broker, struct session *session, const char *endpoint)
{
    uint8_t meta[ENDPOINTS_ONE_BYTES_MAX + 16];
    char *redirect[] = {(char *)(uintptr_t)endpoint};
    struct envelope env = envelope_make(FRAME_RESUME);
    Penstock__Resume resume = PENSTOCK__RESUME__INIT;
    resume.redirect = redirect;
    resume.n_redirect = 1;
    broker_send_client(broker, session, &env, meta, penstock__resume__pack(&resume, meta));
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

void send_control_reply(struct broker *broker, struct session *session, uint64_t serial, enum pen_status status,
                        const char *text)
{
    uint8_t meta[512];
    struct envelope env = envelope_make(FRAME_CONTROL_REPLY);
    Penstock__ControlReply reply = PENSTOCK__CONTROL_REPLY__INIT;
    char error[256];
    snprintf(error, sizeof error, "%s", text);
    reply.serial = serial;
    reply.error = error;
    env.status = (uint8_t)status;
    if (session->connected)
        broker_send_client(broker, session, &env, meta, penstock__control_reply__pack(&reply, meta));
}

void broker_worker_ended(struct broker *broker, struct worker *worker)
{
    if (worker->ended_us != 0)
        return;
    worker->ended_us = broker->now_us ? broker->now_us : 1;
    worker->ended_mark = broker->workers->emptied;
    worker->state = WORKER_DRAINING;
    broker->fleet.ended++;
    effect_post(&broker->effects, &worker->ended, EFFECT_WORKER_ENDED);
}
