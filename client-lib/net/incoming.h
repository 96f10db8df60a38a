/*
 * incoming.h - a message from the broker: its envelope, its meta, and its raw frames, as ZeroMQ gave them.
 *
 * Threads: one-at-a-time.
 */
#ifndef INCOMING_H
#define INCOMING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zmq.h>

#include "frame.h"
#include "pack.h"

/* The frames are the caller's to move or close. */
struct incoming {
    zmq_msg_t header;
    struct envelope env;
    const uint8_t *meta; /* in the header */
    size_t frames_count;
    zmq_msg_t frames[FRAME_MAX_TENSORS];
};

/* A PACK of several messages that is being read: one belongs to each socket. Zeroed: none. */
struct incoming_pack {
    bool open;
    zmq_msg_t frame;
    struct pack_reader reader;
};
bool incoming_pack_holds(const struct incoming_pack *pack); /* a message is left in it */
void incoming_pack_drop(struct incoming_pack *pack);        /* with the connection that it came over */

/* From that socket, without blocking. 1: *in is filled; 0: nothing there, or no memory for it now; -1: a malformed message was dropped, reterr says why. */
int incoming_receive(void *socket, struct incoming_pack *pack, struct incoming *in, struct pen_error *reterr);
void incoming_fini(struct incoming *in);
/* `to` is what `from` was, which is empty then but for its header. */
void incoming_move(struct incoming *to, struct incoming *from);

#endif
