/*
 * bulk_context.h - a bulk connection to a port of its own: makes a ZeroMQ context whose threads give way to all others,
 * and finds out whether the port can be reached.
 *
 * The functions are inline, so that proto itself needs no ZeroMQ; the files that include this link it.
 * Threads: one-at-a-time.
 */
#ifndef BULK_CONTEXT_H
#define BULK_CONTEXT_H

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <zmq.h>

#include "bulk_link.h"
#include "descriptors.h"

/* libzmq's threads start with the first socket and inherit the priority of the thread that opens it. */
static inline void *bulk_context_begin(void *unused)
{
    (void)unused;
    void *context = descriptors_free(DESCRIPTORS_CONTEXT) ? zmq_ctx_new() : NULL;
    void *socket = context ? zmq_socket(context, ZMQ_PAIR) : NULL;
    if (socket) {
        zmq_close(socket);
        return context;
    }
    if (context)
        zmq_ctx_term(context);
    return NULL;
}

/* Gives a context whose threads already run, for zmq_ctx_term. NULL: no memory, descriptors or threads. */
static inline void *bulk_context_new(void)
{
    return bulk_begin(bulk_context_begin);
}

/* The way of one owner to the bulk port of its present broker. All zeroes: not known yet. */
struct bulk_way {
    void *context;        /* kept from one connection to the next; NULL until it is needed */
    void *monitor;        /* of the present connection; NULL: there is none, or it cannot be watched */
    bool up;              /* the connection has come up */
    uint32_t port;        /* 0: bulk connections go to the ordinary endpoint */
    uint64_t wait_us;     /* time to come up: less than both sides wait for a transfer that does not move */
    uint64_t due_us;      /* when the present connection should be up */
    uint64_t broker;      /* uuid */
    uint64_t unreachable; /* uuid of the broker whose port could not be reached; 0: none */
    uint64_t begun;       /* connections so far */
};

/* A WELCOME has come. A port that could not be reached is not tried again until there is another broker. */
static inline void bulk_way_welcome(struct bulk_way *way, uint64_t broker, uint32_t port, uint64_t liveness_us)
{
    way->wait_us = liveness_us / 2;
    way->broker = broker;
    way->port = broker != 0 && broker == way->unreachable ? 0 : port;
}

/* The address for the connection; false: use the ordinary endpoint, on the caller's own context. */
static inline bool bulk_way_apart(struct bulk_way *way, const char *endpoint, char ret_text[BULK_ENDPOINT_BYTES])
{
    if (!bulk_endpoint(endpoint, way->port, ret_text, BULK_ENDPOINT_BYTES))
        return false;
    if (!way->context)
        way->context = bulk_context_new();
    return way->context != NULL;
}

/* Call it before `socket`, of that context, connects there. The monitor waits for the handshake only: any message of
   it means that. */
static inline void bulk_way_begin(struct bulk_way *way, void *socket, uint64_t now_us)
{
    char address[64];
    int none = 0;
    snprintf(address, sizeof address, "inproc://bulk-%" PRIu64, ++way->begun);
    way->due_us = now_us + way->wait_us;
    way->up = false;
    way->monitor = zmq_socket(way->context, ZMQ_PAIR);
    if (!way->monitor)
        return;
    zmq_setsockopt(way->monitor, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(way->monitor, ZMQ_RCVHWM, &none, sizeof none); /* nobody need read the messages */
    if (zmq_socket_monitor(socket, address, ZMQ_EVENT_HANDSHAKE_SUCCEEDED) == 0 &&
        zmq_connect(way->monitor, address) == 0)
        return;
    zmq_socket_monitor(socket, NULL, 0);
    zmq_close(way->monitor);
    way->monitor = NULL;
}

/* When to give the present connection up; UINT64_MAX: it came up, or there is none. */
static inline uint64_t bulk_way_due_us(struct bulk_way *way)
{
    uint8_t event[16];
    way->up = way->up || !way->monitor || zmq_recv(way->monitor, event, sizeof event, ZMQ_DONTWAIT) >= 0;
    return way->up ? UINT64_MAX : way->due_us;
}

/* The present connection was closed. True: it did not come up in its time; its port will not be tried again. */
static inline bool bulk_way_end(struct bulk_way *way, uint64_t now_us)
{
    bool never = bulk_way_due_us(way) <= now_us;
    if (way->monitor)
        zmq_close(way->monitor);
    way->monitor = NULL;
    if (never)
        way->unreachable = way->broker;
    return never;
}

static inline void bulk_way_fini(struct bulk_way *way)
{
    if (way->context)
        zmq_ctx_term(way->context);
    way->context = NULL;
}

#endif
