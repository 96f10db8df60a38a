/*
 * parcel_frames.h - ZeroMQ frames that lie in sealed memory: made of a parcel that came, and put into one that leaves.
 *
 * The functions are inline, so that proto itself needs no ZeroMQ; the files that include this link it.
 * Threads: any.
 */
#ifndef PARCEL_FRAMES_H
#define PARCEL_FRAMES_H

#include <string.h>
#include <zmq.h>

#include "parcel.h"
#include "sealed_view.h"

/* A frame of these bytes of the block. 0; -1: no memory, and the frame is not initialised. */
static inline int sealed_frame_new(zmq_msg_t *frame, struct sealed *block, size_t offset, size_t bytes)
{
    void *hint = NULL, *data = sealed_view_new(block, offset, bytes, &hint);
    if (!data)
        return -1;
    if (zmq_msg_init_data(frame, data, bytes, sealed_view_free, hint) == 0)
        return 0;
    sealed_view_free(data, hint);
    return -1;
}

/* The same as a copy, for a process that has as many blocks as it may have. */
static inline int sealed_frame_copy(zmq_msg_t *frame, struct sealed *block, size_t offset, size_t bytes)
{
    if (zmq_msg_init_size(frame, bytes) != 0)
        return -1;
    memcpy(zmq_msg_data(frame), sealed_data(block) + offset, bytes);
    return 0;
}

/* All frames of a parcel that was taken; the parcel still is the caller's. 0; -1: no memory, and none is initialised. */
static inline int parcel_frames_make(const struct parcel *parcel, zmq_msg_t *ret_frames)
{
    bool copy = sealed_full();
    for (uint32_t i = 0; i < parcel->frames_count; i++) {
        const struct parcel_frame *from = &parcel->frames[i];
        struct sealed *block = parcel->blocks[from->block];
        int made = copy ? sealed_frame_copy(&ret_frames[i], block, (size_t)from->offset, (size_t)from->bytes)
                        : sealed_frame_new(&ret_frames[i], block, (size_t)from->offset, (size_t)from->bytes);
        if (made == 0)
            continue;
        while (i > 0)
            zmq_msg_close(&ret_frames[--i]);
        return -1;
    }
    return 0;
}

/* Puts a frame into a parcel that is being made. False: it does not lie in sealed memory, or there is no room. */
static inline bool parcel_add_frame(struct parcel *parcel, const zmq_msg_t *frame)
{
    zmq_msg_t *own = (zmq_msg_t *)(uintptr_t)frame; /* libzmq has no const; nothing is written */
    size_t offset = 0, bytes = zmq_msg_size(own);
    struct sealed *block = sealed_view_find(zmq_msg_data(own), bytes, &offset);
    return block && parcel_add(parcel, block, offset, bytes);
}

#endif
