#include "transfer_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "assertion.h"
#include "logline.h"
#include "sealed_way.h"
#include "send.h"
#include "answer_send.h"

enum pen_status transfer_hub_init(struct transfer_hub *hub)
{
    TAILQ_INIT(&hub->links);
    TAILQ_INIT(&hub->waiting);
    TAILQ_INIT(&hub->sealed);
    hub->asked_until_us = hub->memory_us = UINT64_MAX;
    return table_init(&hub->clients) == PEN_OK && table_init(&hub->workers) == PEN_OK ? PEN_OK : PEN_ERR_NO_MEMORY;
}

void transfer_hub_fini(struct broker *broker)
{
    struct transfer_hub *hub = &broker->transfers;
    while (!TAILQ_EMPTY(&hub->links))
        transfer_reset(broker, TAILQ_FIRST(&hub->links)->end);
    sealed_way_fini(broker);
    table_fini(&hub->clients);
    table_fini(&hub->workers);
}

/* ---- connections ---- */

static struct table *peers_of(struct broker *broker, const struct transfer_end *end)
{
    return end->session ? &broker->transfers.clients : &broker->transfers.workers;
}

static struct port *port_of(struct broker *broker, const struct transfer_end *end)
{
    return end->session ? broker->clients : broker->workers;
}

static struct transfer_link *link_by_peer(const struct table *peers, uint32_t peer)
{
    struct table_node *node = table_first(peers, table_hash(peers, peer, 0));
    for (; node; node = table_next(peers, node)) {
        struct transfer_link *link = table_entry(node, struct transfer_link, by_peer);
        if (link->peer == peer)
            return link;
    }
    return NULL;
}

static void detach(struct broker *broker, struct transfer_link *link)
{
    if (link->attached)
        table_remove(peers_of(broker, link->end), &link->by_peer);
    link->attached = false;
}

void transfer_reset(struct broker *broker, struct transfer_end *end)
{
    struct transfer_link *link = end->link;
    sealed_way_reset(broker, end);
    if (!link)
        return;
    while (!TAILQ_EMPTY(&link->ins))
        transfer_in_free(broker, TAILQ_FIRST(&link->ins));
    while (!TAILQ_EMPTY(&link->outs))
        transfer_out_free(link, TAILQ_FIRST(&link->outs));
    detach(broker, link);
    PEN_ASSERT(link->ins_count == 0 && link->outs_count == 0 && link->ins_open == 0 && link->ins_blocked == 0,
               "a connection that is reset carries nothing any more");
    TAILQ_REMOVE(&broker->transfers.links, link, in_hub);
    end->link = NULL;
    free(link);
}

void transfer_upset(struct broker *broker, struct transfer_end *end, const char *reason)
{
    log_event(LOG_WARN, "transfers_reset", "side=%s reason=%s", end->session ? "clients" : "workers", reason);
    broker->stats.messages_bad++;
    transfer_reset(broker, end);
    broker_resume(broker, port_of(broker, end), end->session ? end->session->link.peer : end->worker->link.peer);
}

void transfer_tell(struct broker *broker, struct transfer_end *end, struct job_id id, uint32_t number, uint64_t until,
                   enum pen_status status)
{
    struct envelope env = bulk_envelope(FRAME_CREDIT, id, number, until);
    env.status = (uint8_t)status;
    if (end->session)
        broker_send_client(broker, end->session, &env, NULL, 0);
    else
        broker_send_worker(broker, end->worker, &env, NULL, 0);
}

/* ---- out ---- */

static bool send_piece(struct broker *broker, struct transfer_link *link, const struct transfer_out *out,
                       const struct bulk_piece *piece, uint64_t offset)
{
    struct port *port = port_of(broker, link->end);
    struct envelope env = bulk_envelope(FRAME_CHUNK, out->id, out->run.number, offset);
    zmq_msg_t header, bytes;
    if (zmq_msg_init_size(&header, FRAME_ENVELOPE_BYTES) != 0)
        return false;
    envelope_encode(&env, zmq_msg_data(&header));
    if (shared_message_piece(out->shared, piece->frame + 1, piece->at, piece->bytes, &bytes) != PEN_OK) {
        zmq_msg_close(&header);
        return false;
    }
    if (!port->begin(port, link->peer)) {
        zmq_msg_close(&header);
        zmq_msg_close(&bytes);
        return false;
    }
    port->part(port, &header, FRAME_MORE);
    port->part(port, &bytes, FRAME_LAST);
    broker->stats.chunks_out++;
    return true;
}

/* Sends as much as the credit allows. False: the connection is gone, or there is no memory; all transfers were
   reset. */
static bool send_pieces(struct broker *broker, struct transfer_link *link, struct transfer_out *out)
{
    struct bulk_piece piece;
    uint64_t offset = out->run.moved;
    while (bulk_next(&out->run, &piece)) {
        if (!send_piece(broker, link, out, &piece, offset)) {
            transfer_upset(broker, link->end, "a bulk connection is gone");
            return false;
        }
        offset = out->run.moved;
        link->moved_us = broker->now_us;
    }
    return true;
}

static void out_end(struct broker *broker, struct transfer_link *link, struct transfer_out *out)
{
    struct session *session = link->end->session;
    char id[JOB_ID_TEXT_BYTES];
    broker->transfers.freed_us = broker->now_us;
    log_event(LOG_DEBUG, "transfer_out", "job=%s bytes=%" PRIu64 " of=%" PRIu64, job_id_text(out->id, id),
              out->run.moved, out->run.total);
    transfer_out_free(link, out);
    if (session)
        effect_post(&broker->effects, &session->room, EFFECT_ROOM_FOR_REPLIES);
}

static struct transfer_out *out_find(const struct transfer_link *link, const struct envelope *env)
{
    struct transfer_out *out;
    TAILQ_FOREACH(out, &link->outs, in_link)
    {
        if (out->run.number == env->transfer && job_id_equal(out->id, env->job))
            return out;
    }
    return NULL;
}

void transfer_credit(struct broker *broker, struct transfer_end *end, const struct envelope *env)
{
    struct transfer_link *link = end->link;
    struct transfer_out *out = link ? out_find(link, env) : NULL;
    if (!out)
        return; /* its job has ended meanwhile */
    link->moved_us = broker->now_us;
    if (env->status != PEN_OK) {
        out_end(broker, link, out);
        return;
    }
    if (!bulk_credited(&out->run, env->offset)) {
        transfer_upset(broker, end, "a credit that goes backwards or beyond the payload");
        return;
    }
    if (link->attached && send_pieces(broker, link, out) && bulk_done(&out->run))
        out_end(broker, link, out);
}

/* ---- the bulk connection speaks ---- */

/* Credit that came before the connection did. */
static void send_granted(struct broker *broker, struct transfer_end *end)
{
    struct transfer_out *out, *next;
    for (out = TAILQ_FIRST(&end->link->outs); out; out = next) {
        next = TAILQ_NEXT(out, in_link);
        if (!send_pieces(broker, end->link, out))
            return; /* all are gone */
        if (bulk_done(&out->run))
            transfer_out_free(end->link, out);
    }
    if (end->session)
        effect_post(&broker->effects, &end->session->room, EFFECT_ROOM_FOR_REPLIES);
}

/* The bulk connection must have the same key as the connection that said hello. */
static struct transfer_end *end_of(struct broker *broker, const struct port *port, const struct message *message,
                                   uint64_t uuid)
{
    struct identity *identity = broker->keyring ? keyring_find(broker->keyring, message->user) : NULL;
    struct session *session = port == broker->clients ? session_find(&broker->sessions, uuid) : NULL;
    struct worker *worker = port == broker->workers ? fleet_by_uuid(&broker->fleet, uuid) : NULL;
    if (session && session->connected && session->identity == identity && session->transfers.able)
        return &session->transfers;
    return worker && worker->identity == identity && worker->transfers.able ? &worker->transfers : NULL;
}

static void attach(struct broker *broker, struct port *port, struct message *message, const struct envelope *env)
{
    struct transfer_end *end = end_of(broker, port, message, env->job.client);
    struct transfer_link *link = end ? transfer_link_of(broker, end) : NULL;
    if (!link) {
        broker_resume(broker, port, message->peer);
        return;
    }
    struct transfer_link *former = link_by_peer(peers_of(broker, end), message->peer);
    if (former && former != link)
        detach(broker, former);
    detach(broker, link);
    link->peer = message->peer;
    link->attached = true;
    link->moved_us = broker->now_us;
    table_insert(peers_of(broker, end), &link->by_peer, table_hash(peers_of(broker, end), link->peer, 0));
    send_granted(broker, end);
}

void transfer_message(struct broker *broker, struct port *port, struct message *message, const struct envelope *env)
{
    if (env->type == FRAME_ATTACH) {
        attach(broker, port, message, env);
        return;
    }
    struct transfer_link *link =
        link_by_peer(port == broker->clients ? &broker->transfers.clients : &broker->transfers.workers, message->peer);
    if (!link) {
        broker_resume(broker, port, message->peer);
        return;
    }
    link->moved_us = broker->now_us;
    if (link->end->session)
        link->end->session->link.heard_us = broker->now_us;
    else
        link->end->worker->link.heard_us = broker->now_us;
    broker->stats.chunks_in++;
    transfer_in_chunk(broker, link, message, env);
}

/* ---- time ---- */

void transfer_tick(struct broker *broker)
{
    struct transfer_link *link, *next;
    for (link = TAILQ_FIRST(&broker->transfers.links); link; link = next) {
        next = TAILQ_NEXT(link, in_hub);
        bool waits = link->outs_count > 0 || link->ins_open > 0;
        if (waits && broker->now_us - link->moved_us >= (uint64_t)broker->options->liveness_us)
            transfer_upset(broker, link->end, "a transfer does not move");
        else
            transfer_in_tick(broker, link->end);
    }
    struct session *any = TAILQ_FIRST(&broker->sessions.all);
    if (any)
        transfer_in_open(broker, &any->transfers);
}

bool transfer_replies_pending(const struct broker *broker)
{
    const struct transfer_link *link;
    TAILQ_FOREACH(link, &broker->transfers.links, in_hub)
    {
        if (link->end->session && link->outs_count > 0)
            return true;
    }
    return false;
}
