/*
 * link.h - the connection to one broker: hello, welcome, heartbeats, silence; and the dispatches held for it.
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
#include "transfer.h"
#include "worker.pb-c.h"

enum link_state {
    LINK_CLOSED,
    LINK_HELLO,   /* hello sent, no welcome yet */
    LINK_SERVING, /* welcomed */
    LINK_REFUSED  /* for good: exit_code says how the program ends */
};

/* What all links of a worker share. */
struct link_context {
    void *zmq;
    const struct options *options;
    const struct identity *identity;
    struct hello *hello; /* the present one: brokers.h owns it */
    struct stats *stats;
};

struct link {
    const struct link_context *context;
    const char *endpoint; /* borrowed */
    void *socket;
    struct in_flight in_flight;
    struct transfers transfers;
    enum link_state state;
    int exit_code;
    uint64_t heartbeat_us, liveness_us; /* in force */
    uint64_t max_frame_bytes;           /* of what the broker takes; 0 = not said */
    uint64_t broker_uuid;
    uint64_t hello_us, received_us, beat_us; /* when it was last sent, received, sent */
    unsigned unanswered;                     /* hellos in a row */
    uint64_t hellos;                         /* sent, over all connections */
    uint64_t pings, pongs;                   /* on this connection: they come back in order */
    uint64_t pings_owed;                     /* counted, and not sent for want of memory */
    bool gives_back;                         /* link_give_back() */
    uint64_t drain_ping; /* when its PONG is there the broker has read our DRAIN: no dispatch is on its way any more */
    uint64_t complained_us;             /* of a broker that does not answer */
    uint64_t denied_us;                 /* since when the broker, which had welcomed us, denies us; 0: it does not */
    struct reply *unsent, *unsent_last; /* oldest first */
    size_t unsent_bytes;
    uint64_t parked_until_us; /* not tried before: another link has the same broker */
    uint32_t credit_told;     /* of the last heartbeat */
};

/* held_jobs, held_bytes: caps of what is held for this broker. */
void link_init(struct link *link, const struct link_context *context, const char *endpoint, size_t held_jobs,
               size_t held_bytes);
void link_close(struct link *link, int linger_ms);
void link_fini(
    struct link *link); /* after link_close; drops what was not sent and is still held: no slot may be running */
/* Closes a connection whose broker another link serves already, and leaves it closed for a while. */
void link_park(struct link *link, uint64_t until_us);

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
bool link_update(struct link *link); /* the models of the hello, to a broker that knows us; false: no memory now */
/* Jobs can be neither taken nor answered, for want of memory: link_check() makes the connection anew, and what this worker does not hold runs elsewhere. */
void link_give_back(struct link *link);
/* Opens the bulk connection: transfer.h. */
enum pen_status link_attach(struct link *link, struct pen_error *reterr);
bool link_send_envelope(struct link *link, const struct envelope *env); /* false: no memory, no socket */
/* The outcome of an order. False: there was no memory for it. */
bool link_control_reply(struct link *link, uint64_t serial, const struct pen_error *outcome);
void link_heartbeat(struct link *link, const Penstock__Heartbeat *beat, uint64_t now_us);

/* Reconnects after silence. */
void link_check(struct link *link, uint64_t now_us);
/* When link_check or a heartbeat is due next. */
uint64_t link_next_us(const struct link *link);
uint64_t link_beat_due_us(const struct link *link);

#endif
