/*
 * incoming.h - a message from the broker: its envelope, its meta, and its raw frames, as ZeroMQ gave them.
 *
 * Threads: one-at-a-time.
 */
#ifndef INCOMING_H
#define INCOMING_H

#include <stddef.h>
#include <stdint.h>

#include <zmq.h>

#include "frame.h"

/* The frames are the caller's to move or close. */
struct incoming {
    zmq_msg_t header;
    struct envelope env;
    const uint8_t *meta; /* in the header */
    size_t frames_count;
    zmq_msg_t frames[FRAME_MAX_TENSORS];
};

/* From that socket, without blocking. 1: *in is filled; 0: nothing there; -1: a malformed message was dropped, reterr says why. */
int incoming_receive(void *socket, struct incoming *in, struct pen_error *reterr);
void incoming_fini(struct incoming *in);
/* `to` is what `from` was, which is empty then but for its header. */
void incoming_move(struct incoming *to, struct incoming *from);

#endif
