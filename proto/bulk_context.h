/*
 * bulk_context.h - a ZeroMQ context for a bulk connection whose threads give way to all others.
 *
 * Inline, so that proto itself needs no ZeroMQ: whoever includes this links it.
 * Threads: any.
 */
#ifndef BULK_CONTEXT_H
#define BULK_CONTEXT_H

#include <stddef.h>
#include <zmq.h>

#include "bulk_link.h"

/* libzmq's threads start with the first socket and inherit what the thread that opens it has. */
static inline void *bulk_context_begin(void *unused)
{
    (void)unused;
    void *context = zmq_ctx_new();
    void *socket = context ? zmq_socket(context, ZMQ_PAIR) : NULL;
    if (socket) {
        zmq_close(socket);
        return context;
    }
    if (context)
        zmq_ctx_term(context);
    return NULL;
}

/* Its threads run already. Gives: for zmq_ctx_term. NULL: no memory, descriptors or threads. */
static inline void *bulk_context_new(void)
{
    return bulk_begin(bulk_context_begin);
}

#endif
