/*
 * link.h - the connection to one broker: hello, welcome, heartbeats, silence; and the dispatches held for it.
 *
 * A connection is a socket. When the broker falls silent, the link opens a new socket and says hello with the jobs that
 * this worker still holds. Replies wait here while no connection is welcomed.
 *
 * Threads: owner - the network thread (the socket never leaves it).
 */
#ifndef LINK_H
#define LINK_H

#include "hello.h"
#include "inbox.h"
#include "pack.h"
#include "parcel.h"
#include "slot.h"
#include "tensor_codec.h"
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
    uint64_t sockets;         /* opened so far */
    struct pack_writer going; /* results that leave together: link_pack.h */
    bool holds;
    struct in_flight in_flight;
    struct transfers transfers;
    struct parcel_link parcels; /* to a broker on this host: link_sealed.h */
    uint64_t sealed_from;       /* payloads of more bytes may go there; 0 = none */
    enum link_state state;
    int exit_code;
    uint64_t heartbeat_us, liveness_us; /* in force */
    uint64_t max_frame_bytes;           /* the largest frame that the broker takes; 0 = it did not say */
    uint64_t broker_uuid;
    uint64_t hello_us, received_us, beat_us; /* when it was last sent, received, sent */
    unsigned unanswered;                     /* hellos in a row without an answer */
    uint64_t hellos;                         /* sent, over all connections */
    uint64_t pings, pongs;                   /* on this connection; PONGs come in the order of the PINGs */
    uint64_t pings_owed;                     /* counted as sent, but there was no memory to send them */
    bool gives_back;                         /* link_give_back() */
    uint64_t drain_ping; /* when its PONG has come, the broker has read our DRAIN: no dispatch is on its way any more */
    uint64_t complained_us;             /* when the log last said that this broker does not answer */
    uint64_t denied_us;                 /* since when a broker that had welcomed us refuses us; 0: it does not */
    struct reply *unsent, *unsent_last; /* oldest first */
    size_t unsent_bytes;
    uint64_t parked_until_us; /* do not connect before then: another link has the same broker */
    uint32_t credit_told;     /* credit in the last heartbeat */
    struct meta_arena answer; /* for the WELCOME: it has memory before the hello is said */
};

/* held_jobs, held_bytes: caps of what is held for this broker. */
void link_init(struct link *link, const struct link_context *context, const char *endpoint, size_t held_jobs,
               size_t held_bytes);
void link_close(struct link *link, int linger_ms);
void link_fini(struct link *link); /* after link_close; drops unsent replies and held dispatches: no slot may run */
/* Closes a connection to a broker that another link serves already, and keeps it closed for a while. */
void link_park(struct link *link, uint64_t until_us);

/* Opens a new socket, says hello, and closes the old socket. INVALID: the endpoint is malformed. */
enum pen_status link_connect(struct link *link, uint64_t now_us, struct pen_error *reterr);
/* The same for a worker that serves: a failure is logged, and link_check() tries again; soon when it was for want of
   memory. */
void link_reconnect(struct link *link, uint64_t now_us);
/* Hello again on the same socket: the broker has forgotten us. */
void link_resume(struct link *link, uint64_t now_us);
void link_welcome(struct link *link, const struct envelope *env, const uint8_t *meta, uint64_t now_us);
/* The peer speaks another major version. */
void link_version(struct link *link, const char *text);

/* Sends the reply, or keeps it while no connection is welcomed. Results with frames that the broker does not take
   become typed errors. */
void link_reply(struct link *link, struct reply *reply);
/* An envelope without meta: DRAIN, PING, PONG, GOODBYE. */
void link_send(struct link *link, enum frame_type type);
uint64_t link_ping(struct link *link); /* sends a PING: read when link->pongs is the number given */
bool link_update(struct link *link); /* sends the models of the hello to a broker that knows us; false: no memory now */
/* There is no memory to take or answer jobs: link_check() makes the connection anew, and the broker runs elsewhere
   the jobs that this worker does not hold. */
void link_give_back(struct link *link);
/* Opens the bulk connection: transfer.h. */
enum pen_status link_attach(struct link *link, struct pen_error *reterr);
bool link_send_envelope(struct link *link, const struct envelope *env); /* false: no memory, no socket */
/* Sends the outcome of an order. False: there was no memory for it, or no socket. */
bool link_control_reply(struct link *link, uint64_t serial, const struct pen_error *outcome);
void link_heartbeat(struct link *link, const Penstock__Heartbeat *beat, uint64_t now_us);

/* Reconnects after silence. */
void link_check(struct link *link, uint64_t now_us);
/* When link_check or a heartbeat is due next. */
uint64_t link_next_us(const struct link *link);
uint64_t link_beat_due_us(const struct link *link);

#endif
