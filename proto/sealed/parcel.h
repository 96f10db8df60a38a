/*
 * parcel.h - sealed memory on its way between two processes of one host: a Unix socket beside a ZeroMQ connection
 * (proto/PROTOCOL.md, "On one host").
 *
 * A parcel is a datagram with a number, a table of frames, and the descriptors of the blocks in which they lie. It is
 * sent before the message that names its number. So it is there when that message is: nobody waits for a parcel. What
 * is never named is closed unread.
 * Threads: owner - who owns the ZeroMQ connection.
 */
#ifndef PARCEL_H
#define PARCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "sealed.h"

#define PARCEL_BLOCKS_MAX   8u /* descriptors of one parcel */
#define PARCEL_SECRET_BYTES 32u
#define PARCEL_TOKEN_BYTES  16u /* the peer tells the first half of the secret, the broker answers the second one */
#define PARCEL_NAME_BYTES   64u
#define PARCEL_HELLO_BYTES  32u

/* Where one raw frame lies. */
struct parcel_frame {
    uint32_t block; /* of the parcel */
    uint64_t offset, bytes;
};

struct parcel {
    uint32_t number;
    uint32_t blocks_count, frames_count;
    struct sealed *blocks[PARCEL_BLOCKS_MAX];
    struct parcel_frame frames[FRAME_MAX_TENSORS];
};

/* Adds a frame to a parcel that is being made; borrows the block. False: no room for one more frame or block. */
bool parcel_add(struct parcel *parcel, struct sealed *block, size_t offset, size_t bytes);
uint64_t parcel_bytes(const struct parcel *parcel); /* of all frames */
void parcel_drop(struct parcel *parcel);            /* lets go of the blocks of a parcel that was taken */

enum parcel_state {
    PARCEL_NONE,  /* no socket: payloads travel as bytes */
    PARCEL_ASKED, /* the token was sent, the broker has not answered */
    PARCEL_BOUND
};

/* One end of the socket. Zeroed: there is none. */
struct parcel_link {
    enum parcel_state state;
    int fd;
    uint32_t numbers; /* given to parcels so far */
    uint8_t proof[PARCEL_TOKEN_BYTES];
};

/* Who asks to be bound: the uuid of its hello, and its token. */
struct parcel_claim {
    uint64_t uuid;
    bool worker;
    uint8_t token[PARCEL_TOKEN_BYTES];
};

/* A peer connects to the broker's socket. False: it is not on this host, or not in this network namespace. */
bool parcel_ask(struct parcel_link *link, const char *name, const uint8_t secret[PARCEL_SECRET_BYTES], uint64_t uuid,
                bool worker);
/* The broker's side: binds a socket whose token is that of the secret, and takes it. False: the token is wrong, or the
   peer has gone; the socket is closed. */
bool parcel_bind(struct parcel_link *link, int fd, const struct parcel_claim *claim,
                 const uint8_t secret[PARCEL_SECRET_BYTES]);
/* True when parcels may be sent; looks for the broker's answer. */
bool parcel_ready(struct parcel_link *link);
void parcel_close(struct parcel_link *link);

/* Numbers and sends it. False: the peer does not read, or has gone (then the link is closed): send the bytes. */
bool parcel_send(struct parcel_link *link, struct parcel *parcel);

/* What may be taken. */
struct parcel_limits {
    uint64_t frame_bytes_max, bytes_max; /* 0 = any */
    bool whole;                          /* blocks must have nothing besides these frames */
};
/*
 * The parcel of that number; drops those before it. The caller owns it. Fails with a sentence, and closes the link when
 * the peer cannot be understood or no descriptor is free: later payloads travel as bytes then.
 */
enum pen_status parcel_take(struct parcel_link *link, uint32_t number, const struct parcel_limits *limits,
                            struct parcel *ret_parcel, struct pen_error *reterr);

#define PARCEL_DATAGRAM_BYTES (16u + FRAME_MAX_TENSORS * 24u)

/* Reads the datagram of a parcel that brought `blocks` descriptors: its number and its table. The blocks themselves are
   not touched. False: it is malformed, or goes beyond the limits. */
bool parcel_read(const uint8_t *bytes, size_t count, uint32_t blocks, const struct parcel_limits *limits,
                 struct parcel *ret_parcel);
/* Reads the first datagram of a peer. */
bool parcel_claim_read(const uint8_t *bytes, size_t count, struct parcel_claim *ret_claim);

#endif
