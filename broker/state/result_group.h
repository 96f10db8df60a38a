/*
 * result_group.h - one job's part of a RESULT that a worker sent, as it lies in the message.
 * Threads: owner.
 */
#ifndef RESULT_GROUP_H
#define RESULT_GROUP_H

#include <zmq.h>

#include "frame.h"
#include "patch.h"

/* A group of a worker's RESULT. `frames`: its raw frames, moved out. */
struct result_group {
    struct envelope env;
    const uint8_t *meta;
    struct result_facts facts;
    bool refused; /* it breaks the protocol: only its status counts */
    zmq_msg_t *header;
    zmq_msg_t *frames;
};

#endif
