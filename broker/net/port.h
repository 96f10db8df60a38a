/*
 * port.h - a ROUTER as the broker sees it: whole messages in, frames out, peers as numbers.
 *
 * A peer's number is the automatic routing id that ROUTER gives it (a zero byte and 32 bits); a peer that sets its own
 * identity is refused. The two functions for sending are pointers, so that tests run the broker's logic without a
 * socket.
 * Threads: owner.
 */
#ifndef PORT_H
#define PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zmq.h>

#include "frame.h"
#include "keys.h"
#include "penstock/status.h"

#define PEER_ID_BYTES      5u
#define MESSAGE_FRAMES_MAX (FRAME_MAX_GROUPS * (FRAME_MAX_TENSORS + 1))

/* One received multipart message without its routing id. */
struct message {
    uint32_t peer;
    bool named;    /* the peer set its own identity */
    bool overflow; /* it had more frames than any message may have; the rest was thrown away */
    size_t count, capacity;
    zmq_msg_t *frames;
    size_t bytes;
    const char *user; /* the sender's key (authenticator.h), valid until the next message is received; NULL = unknown */
    bool packed;      /* it came in a PACK, over the connection `fd` */
    bool borrowed;    /* its frames are bytes of that PACK: valid until the next message is received */
    int fd;
};
void message_fini(struct message *message);
/* Makes the frames the message's own, which is to be kept. False: no memory; the message is as it was. */
bool message_own(struct message *message);
void message_clear(struct message *message);                            /* closes the frames, keeps the room */
enum pen_status message_add(struct message *message, zmq_msg_t *frame); /* takes the frame; closes it on failure */
/* Closes all frames behind the first `count`, as if they had never been added. None of them may have been taken. */
void message_cut(struct message *message, size_t count);
int message_fd(struct message *message); /* the connection it came over; -1 unknown */

/* Whether another frame of the same message follows. */
enum frame_follows { FRAME_LAST, FRAME_MORE };

struct port {
    bool (*begin)(struct port *port, uint32_t peer);                               /* false: the peer is gone */
    void (*part)(struct port *port, zmq_msg_t *frame, enum frame_follows follows); /* takes the frame */
    void *socket, *monitor;
    bool authenticated; /* messages carry the keys of their senders */
    bool queues;        /* messages that have come wait in it until they are received */
    uint64_t emptied;   /* how often port_receive found nothing left */
    bool dry;           /* it has, and nothing was sent since: the socket's descriptor tells when there is more */
    uint64_t bytes_in, bytes_out;
    uint32_t bulk_number;     /* the TCP port for bulk connections; 0 = they use the ordinary port */
    struct port_packs *packs; /* port_pack.c; NULL: no peer takes packs */
    /* A peer was found to have gone when its pack was to be sent: what waited for it is lost. NULL: nobody asks. */
    void (*gone)(void *context, uint32_t peer);
    void *gone_context;
};

#define PORT_BULK_THREAD "ZMQbg/IO/1" /* libzmq's name of the second I/O thread, which serves only bulk connections */

struct port_options {
    const char *endpoint;
    const char *bulk_endpoint; /* tcp:// for bulk connections alone, on the context's second I/O thread; NULL = none */
    int fd;                    /* a listening socket for this endpoint that a service manager handed over; -1 = none */
    const char *monitor_name;  /* inproc address of the monitor */
    int64_t frame_bytes_max;
    uint64_t heartbeat_us, liveness_us;
    const struct key_pair *key; /* NULL: neither encrypted nor authenticated */
    const char *zap_domain;
};

/* Binds; PEN_ERR_IO with a sentence when the address is taken or malformed. */
enum pen_status port_open(struct port *port, void *context, const struct port_options *options,
                          struct pen_error *reterr);
void port_close(struct port *port, int linger_ms);
/* The address really bound: `*` is resolved. */
enum pen_status port_endpoint(const struct port *port, char *ret_text, size_t bytes);

/* Takes one message without waiting: true when there was one. */
bool port_receive(struct port *port, struct message *message);

/* Reads the monitor without waiting: calls lost(fd) for each connection that ended. */
void port_losses(struct port *port, void (*lost)(void *context, int fd), void *context);

/*
 * From now on messages to that peer wait until port_flush(), and those that wait at the same time leave as one PACK of
 * at most that many bytes. `begin` is true for such a peer even if it has gone: `gone` tells later. 0: no longer.
 */
void port_takes_packs(struct port *port, uint32_t peer, uint32_t frame_bytes);
void port_flush(struct port *port);       /* sends what waits */
bool port_holds(const struct port *port); /* does anything wait? */
void port_settle(struct port *port);      /* gives back memory */
/* Sends one header frame of `env` and `meta`; false when the peer is gone. */
bool port_send(struct port *port, uint32_t peer, struct envelope *env, const void *meta, size_t meta_bytes);

#endif
