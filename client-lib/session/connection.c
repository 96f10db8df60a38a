#include "connection.h"

#include <stdio.h>

#include "acks.h"
#include "assertion.h"
#include "deadline.h"
#include "finish.h"
#include "outgoing.h"
#include "parcels.h"
#include "questions.h"
#include "transfer.h"
#include "version.h"
#include "worker.pb-c.h"

#define HELLO_RETRY_US  1000000u /* a hello without an answer */
#define HELLO_NEXT_US   250000u  /* the same when there are other brokers to try */
#define HELLO_DOUBLINGS 1u       /* of that wait: who answers slower is not hung up on each time */
#define LEAVE_LINGER_MS 100
#define REOPEN_PAUSE_US 20000u /* between two sockets: whoever accepts and hangs up must not make us spin */

#define KEY_REFUSED                                                                                                    \
    "the handshake failed: the broker does not take this key, wants one, or is not the one whose public key was given"

void connection_spread(struct pen_client *c)
{
    PEN_ASSERT(c->brokers.count > 0, "a client has a broker to begin with");
    c->session.broker = (size_t)(c->session.uuid % c->brokers.count);
}

static const char *broker_endpoint(const struct pen_client *c)
{
    return *c->session.redirect ? c->session.redirect : c->brokers.texts[c->session.broker];
}

uint64_t connection_hello_wait_us(const struct pen_client *c)
{
    size_t rounds = c->session.unanswered / c->brokers.count;
    uint64_t first_us = c->brokers.count > 1 ? HELLO_NEXT_US : HELLO_RETRY_US;
    return first_us << (rounds < HELLO_DOUBLINGS ? rounds : HELLO_DOUBLINGS);
}

void connection_next_broker(struct pen_client *c)
{
    PEN_ASSERT(c->session.broker < c->brokers.count, "the broker that is spoken to is one of the list");
    if (*c->session.redirect) { /* back to the one that sent us there */
        c->session.redirect[0] = '\0';
        return;
    }
    c->session.broker = (c->session.broker + 1) % c->brokers.count;
}

static void hello_send(struct pen_client *c, uint64_t now_us)
{
    uint8_t packed[2048]; /* name and tenant are at most 255 bytes each */
    Penstock__ClientHello hello = PENSTOCK__CLIENT_HELLO__INIT;
    PEN_ASSERT(c->session.state == SESSION_HELLO, "hello is said by who is not welcomed");
    hello.uuid = c->session.uuid;
    hello.software = (char *)(uintptr_t)PENSTOCK_SOFTWARE;
    hello.name = c->name;
    hello.tenant = (char *)(uintptr_t)(c->tenant ? c->tenant : "");
    hello.grace_us = c->grace_us;
    hello.bulk = true;
    hello.pack_bytes = pack_bytes_taken(c->link.frame_bytes_max);
    hello.notices = true;
    hello.follows = !c->stays;
    hello.followed = c->session.followed;
    hello.sealed = true;
    size_t bytes = penstock__client_hello__pack(&hello, packed);
    struct envelope env = outgoing_envelope(c, FRAME_CLIENT_HELLO);
    link_send(&c->link, env, packed, bytes);
    c->session.sent_us = c->session.opened_us = now_us;
}

/* No longer welcomed: what was sent is unanswered and will be sent again. */
static void welcome_forget(struct pen_client *c, uint64_t now_us)
{
    if (c->session.state == SESSION_READY) {
        c->session.lost_us = now_us;
    }
    session_enter(&c->session, SESSION_HELLO);
    c->session.leaving = c->session.draining = false;
    c->session.held_us = 0;
    link_packs(&c->link, 0);
    transfer_reset(c);
    parcels_reset(c);
    pending_rewind(&c->pending);
    asks_rewind(c);
    PEN_ASSERT(!c->transfers.uploads && !c->transfers.downloads && c->pending.unsent == c->pending.oldest,
               "who is not welcomed has sent nothing on this connection");
}

void connection_drop(struct pen_client *c, uint64_t now_us)
{
    if (c->session.state == SESSION_REFUSED) {
        return;
    }
    welcome_forget(c, now_us);
    link_close(&c->link, 0);
    c->session.reopen_us = c->session.opened_us + REOPEN_PAUSE_US;
}

void connection_lost(struct pen_client *c, uint64_t now_us)
{
    connection_drop(c, now_us);
    connection_next_broker(c);
}

void connection_resume(struct pen_client *c, uint64_t now_us)
{
    welcome_forget(c, now_us);
    hello_send(c, now_us);
}

void connection_refuse(struct pen_client *c, enum pen_status status, const char *text)
{
    session_enter(&c->session, SESSION_REFUSED);
    pen_error_set(&c->session.refusal, status, "%s", text);
    link_close(&c->link, 0);
    parcels_reset(c);
    finish_all(c, status, c->session.refusal.text);
    asks_fail(c, status, c->session.refusal.text);
    PEN_ASSERT(c->pending.count == 0 && !c->transfers.downloads, "a client that is refused has nothing under way");
}

void connection_open(struct pen_client *c, uint64_t now_us)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    PEN_ASSERT(c->session.state == SESSION_HELLO, "a connection is opened when there is none that has welcomed us");
    link_close(&c->link, 0);
    c->session.reopen_us = DEADLINE_NONE;
    if (link_open(&c->link, broker_endpoint(c), &error) != PEN_OK) {
        session_trouble_note(&c->session, error.text);
        c->session.opened_us = now_us;
        c->session.reopen_us = now_us + connection_hello_wait_us(c);
        connection_next_broker(c);
        return;
    }
    c->counters.connections++;
    c->session.heard_us = now_us;
    hello_send(c, now_us);
}

static void goodbye(struct pen_client *c, uint64_t now_us)
{
    acks_send(c, now_us);
    link_send(&c->link, outgoing_envelope(c, FRAME_GOODBYE), NULL, 0);
    welcome_forget(c, now_us);
    link_close(&c->link, LEAVE_LINGER_MS);
    c->session.reopen_us = c->session.opened_us + REOPEN_PAUSE_US;
}

void connection_leave(struct pen_client *c, uint64_t now_us)
{
    PEN_ASSERT(c->session.leaving && (c->brokers.count > 1 || *c->session.redirect),
               "a broker is left for another one");
    goodbye(c, now_us);
    connection_next_broker(c);
    c->session.left++;
}

void connection_move(struct pen_client *c, const char *endpoint, uint64_t now_us)
{
    goodbye(c, now_us);
    snprintf(c->session.redirect, sizeof c->session.redirect, "%s", endpoint);
    c->session.followed++;
    c->counters.redirects++;
}

const char *connection_place(const struct pen_client *c)
{
    return broker_endpoint(c);
}

const char *connection_trouble(const struct pen_client *c)
{
    return c->link.refused || c->link.refused_before ? KEY_REFUSED : c->session.trouble;
}

void connection_end(struct pen_client *c)
{
    bool ready = c->session.state == SESSION_READY;
    if (ready) {
        acks_send(c, clock_now_us());
        link_send(&c->link, outgoing_envelope(c, FRAME_GOODBYE), NULL, 0);
    }
    link_close(&c->link, ready ? LEAVE_LINGER_MS : 0);
    parcels_reset(c);
    finish_all(c, PEN_ERR_CANCELLED, "the client was closed before the answer came.");
    asks_fail(c, PEN_ERR_CANCELLED, "the client was closed before the answer came.");
}
