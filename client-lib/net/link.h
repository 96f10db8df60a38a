/*
 * link.h - the connection to the broker: one DEALER socket, its monitor, and a descriptor that interrupts a wait.
 *
 * The socket is replaced as a whole when the broker was lost: what lies unsent in the old one is dropped with it.
 * Threads: one-at-a-time (drive/ passes it on under a lock); link_wake: any.
 */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zmq.h>

#include "bulk_context.h"
#include "frame.h"
#include "incoming.h"
#include "keys.h"
#include "pack.h"
#include "payload.h"
#include "tensor_codec.h"

struct link {
    void *context;
    void *socket;         /* NULL: closed */
    struct bulk_way way;  /* of `bulk`, when the broker has a port for it */
    void *bulk;           /* second connection to the same broker, for large payloads; NULL until it is needed */
    const char *endpoint; /* of the socket; borrowed from the client's list */
    void *monitor;        /* PAIR that tells of a lost connection */
    int wake_fd;          /* eventfd */
    int watch_fd;         /* epoll of the sockets, for a loop that moves the session itself; -1: nobody watches */
    bool watch_paused;
    uint64_t opened; /* sockets so far */
    uint64_t frame_bytes_max;
    uint64_t frames_max;                      /* messages kept unread */
    struct incoming_pack coming, bulk_coming; /* PACKs of the two sockets */
    struct pack_writer going;                 /* messages that leave together at link_release() */
    bool holds;
    struct key_set keys;
    bool refused;        /* the broker did not take our key, or is not the one whose key we have; since the last open */
    bool refused_before; /* the same of the connection before: what this one comes to is not known at once */
};

enum pen_status link_init(struct link *link, uint64_t frame_bytes_max, uint64_t messages_max, struct pen_error *reterr);
void link_fini(struct link *link);

/* Opens a new socket; the old one must be closed. INVALID for a malformed endpoint, which is borrowed until the next link_open() or link_close(). */
enum pen_status link_open(struct link *link, const char *endpoint, struct pen_error *reterr);
void link_close(struct link *link, int linger_ms); /* fine when closed */

/* Opens the bulk connection of that session; fine when it is open. 0, or -1. */
int link_attach(struct link *link, uint64_t session);

enum link_event { LINK_READABLE = 1, LINK_LOST = 2 };

/* Sleeps until something happens or timeout_us ran out (0: only looks). Bits of enum link_event. */
int link_wait(struct link *link, uint64_t timeout_us);
void link_wake(struct link *link); /* ends a link_wait, now or the next one */

/*
 * A descriptor that can be read when the sockets have something to say; it stays the same when they are replaced. -1 without one. What a socket has said is
 * read to its end, or link_pending() asked: the descriptor tells of it once. While another thread waits in link_wait() the watch is paused.
 */
int link_watch(struct link *link);
void link_watch_pause(struct link *link, bool yes);
bool link_pending(struct link *link); /* is there a message to receive? */

/* The largest PACK that the broker takes, in bytes; 0: none. Messages that still wait are dropped. */
void link_packs(struct link *link, uint64_t frame_bytes);
/* Messages that are sent between the two leave together, if the broker takes packs. What cannot be sent for lack of memory waits for the next message, or for
   link_wait(). */
void link_hold(struct link *link);
void link_release(struct link *link);

/* Sends a message without tensors. 0, or -1. */
int link_send(struct link *link, struct envelope env, const void *meta, size_t meta_bytes);
/* Sends one with raw frames lent by the payload. */
int link_send_frames(struct link *link, struct envelope env, const void *meta, size_t meta_bytes,
                     struct payload *payload, const struct raw_frame *frames, size_t frames_count);

/* A CHUNK over the bulk connection, of bytes that the payload covers. 0, or -1. */
int link_send_chunk(struct link *link, struct envelope env, struct payload *payload, const void *data, size_t bytes);

/* 1: *in is filled; 0: nothing there; -1: a malformed message was dropped, reterr says why. Never blocks. */
int link_receive(struct link *link, struct incoming *in, struct pen_error *reterr);

#endif
