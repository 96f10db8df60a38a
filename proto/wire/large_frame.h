/*
 * large_frame.h - makes a ZeroMQ message of a given size; a large one uses memory of large_block.h.
 *
 * The function is inline, so that proto itself needs no ZeroMQ; the files that include this link it.
 * Threads: any.
 */
#ifndef LARGE_FRAME_H
#define LARGE_FRAME_H

#include <stddef.h>
#include <zmq.h>

#include "large_block.h"

/* Like zmq_msg_init_size(): 0: close or send the frame; -1: no memory, and the frame is not initialised. */
static inline int large_frame_new(zmq_msg_t *frame, size_t bytes)
{
    void *hint = NULL;
    if (bytes < LARGE_BLOCK_BYTES)
        return zmq_msg_init_size(frame, bytes);
    void *data = large_block_take(bytes, &hint);
    if (data && zmq_msg_init_data(frame, data, bytes, large_block_give, hint) == 0)
        return 0;
    if (data)
        large_block_give(data, hint);
    return -1;
}

#endif
