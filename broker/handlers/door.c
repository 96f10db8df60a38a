#include "door.h"

#include <stdio.h>
#include <string.h>

#include "keyring.h"
#include "logline.h"
#include "send.h"

#define DOOR_BYTES 160u

/* "its port for workers is 5551 (--listen-workers)". */
static const char *other_door(const struct broker *broker, const struct port *port, char text[DOOR_BYTES])
{
    bool clients = port == broker->clients;
    const struct port *other = clients ? broker->workers : broker->clients;
    const char *who = clients ? "workers" : "clients";
    char endpoint[256] = "";
    const char *colon =
        other->socket && port_endpoint(other, endpoint, sizeof endpoint) == PEN_OK && strncmp(endpoint, "tcp:", 4) == 0
            ? strrchr(endpoint, ':')
            : NULL;
    if (colon)
        snprintf(text, DOOR_BYTES, "its port for %s is %.8s (--listen-%s)", who, colon + 1, who);
    else
        snprintf(text, DOOR_BYTES, "%s connect to the endpoint of --listen-%s", who, who);
    return text;
}

void door_wrong(struct broker *broker, struct port *port, uint32_t peer)
{
    char text[DOOR_BYTES], sentence[DOOR_BYTES + 64];
    bool clients = port == broker->clients;
    snprintf(sentence, sizeof sentence, "this is the broker's port for %s; %s", clients ? "clients" : "workers",
             other_door(broker, port, text));
    broker->stats.messages_bad++;
    log_event(LOG_WARN, "wrong_door", "side=%s reason=%s", clients ? "clients" : "workers",
              clients ? "a worker said hello at the port for clients" : "a client said hello at the port for workers");
    broker_welcome(broker, port, peer, PEN_ERR_INVALID, sentence);
}

enum pen_status door_check(const struct broker *broker, const struct port *port, const struct identity *identity,
                           struct pen_error *reterr)
{
    bool clients = port == broker->clients;
    char text[DOOR_BYTES];
    if (!broker->keyring || (identity && identity->roles & (clients ? ~(unsigned)ROLE_WORKER : ROLE_WORKER)))
        return PEN_OK;
    log_event(LOG_WARN, "key_refused", "door=%s name=%s", clients ? "clients" : "workers",
              identity ? identity->name : "?");
    if (!identity)
        return pen_error_set(reterr, PEN_ERR_DENIED, "this key is not on the broker's list (--keys)");
    if (clients)
        return pen_error_set(
            reterr, PEN_ERR_DENIED,
            "the key of %s has the role worker alone, so it may not submit, administer or observe; for "
            "a worker: %s",
            identity->name, other_door(broker, port, text));
    return pen_error_set(reterr, PEN_ERR_DENIED, "the key of %s lacks the role worker; for a client: %s",
                         identity->name, other_door(broker, port, text));
}

void door_bad_message(struct broker *broker, const struct port *port, const char *reason)
{
    broker->stats.messages_bad++;
    log_event(LOG_WARN, "bad_message", "side=%s reason=%s", port == broker->clients ? "clients" : "workers", reason);
}

enum door_word door_envelope(struct broker *broker, struct port *port, struct message *message,
                             struct envelope *ret_env, const uint8_t **ret_meta, struct pen_error *reterr)
{
    struct ignored *ignored = port == broker->clients ? &broker->clients_ignored : &broker->workers_ignored;
    if (message->named || message->count == 0) {
        door_bad_message(broker, port,
                         message->named ? "the peer set a ZeroMQ identity of its own; leave it unset" : "no frames");
        return DOOR_SHUT;
    }
    if (broker_ignores(ignored, message->peer))
        return DOOR_SHUT;
    zmq_msg_t *header = &message->frames[0];
    enum pen_status status = envelope_decode(zmq_msg_data(header), zmq_msg_size(header), ret_env, ret_meta, reterr);
    if (status == PEN_OK)
        return DOOR_OPEN;
    if (status != PEN_ERR_VERSION)
        return DOOR_BROKEN;
    broker_refuse_version(broker, port, ignored, message->peer, reterr->text);
    return DOOR_SHUT;
}
