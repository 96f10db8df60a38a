/*
 * link.h - the connection to the broker: hello, welcome, heartbeats, silence.
 *
 * A connection is a socket; when the broker falls silent a new socket takes its place and says hello with the jobs this worker still holds. Replies that
 * have no welcomed connection wait here.
 *
 * Threads: owner - the network thread (the socket never leaves it).
 */
#ifndef LINK_H
#define LINK_H

#include "hello.h"
#include "inbox.h"
#include "slot.h"
#include "worker.pb-c.h"

enum link_state {
    LINK_CLOSED,
    LINK_HELLO,   /* hello sent, no welcome yet */
    LINK_SERVING, /* welcomed */
    LINK_REFUSED  /* for good: exit_code says how the program ends */
};

struct link {
    void *zmq;
    void *socket;
    const struct options *options;
    const struct identity *identity;
    struct hello *hello; /* owned */
    struct held *held;
    struct stats *stats;
    enum link_state state;
    int exit_code;
    uint64_t heartbeat_us, liveness_us; /* in force */
    uint64_t max_frame_bytes;           /* of what the broker takes; 0 = not said */
    uint64_t broker_uuid;
    uint64_t hello_us, received_us, beat_us; /* when it was last sent, received, sent */
    uint64_t pings, pongs;                   /* on this connection: they come back in order */
    uint64_t complained_us;                  /* of a broker that does not answer */
    struct reply *unsent, *unsent_last;      /* oldest first */
    size_t unsent_bytes;
};

/* Takes `hello` over. */
void link_init(struct link *link, void *zmq, const struct options *options, const struct identity *identity,
               struct hello *hello, struct held *held, struct stats *stats);
void link_fini(struct link *link, int linger_ms); /* drops what was not sent */

/* A new socket and a hello; the old socket goes. INVALID: the endpoint is none. */
enum pen_status link_connect(struct link *link, uint64_t now_us, struct pen_error *reterr);
/* Hello again on the same socket: the broker has forgotten us. */
void link_resume(struct link *link, uint64_t now_us);
void link_welcome(struct link *link, const struct envelope *env, const uint8_t *meta, uint64_t now_us);
/* The peer speaks another major version. */
void link_version(struct link *link, const char *text);

/* Sends or, without a welcomed connection, keeps. Results with frames that the broker does not take become typed errors. */
void link_reply(struct link *link, struct reply *reply);
/* An envelope without meta: DRAIN, PING, PONG, GOODBYE. */
void link_send(struct link *link, enum frame_type type);
uint64_t link_ping(
    struct link *link); /* a PING: the broker has read all before it when link->pongs reaches the number given */
void link_hello_replace(struct link *link, struct hello *hello); /* takes it over; says nothing */
void link_update(struct link *link); /* the models of the hello, to a broker that knows us */
void link_heartbeat(struct link *link, const Penstock__Heartbeat *beat, uint64_t now_us);

/* Reconnects after silence. */
void link_check(struct link *link, uint64_t now_us);
/* When link_check or a heartbeat is due next. */
uint64_t link_next_us(const struct link *link);
uint64_t link_beat_due_us(const struct link *link);

#endif
