/*
 * hello.h - the first message on every connection: who this worker is, what it can do, what it still holds.
 *
 * The worker builds it after warm-up, and again when its models change; in between only the list of held jobs changes.
 * Ownership: owns its arena and copies of all texts. Threads: one-at-a-time.
 */
#ifndef HELLO_H
#define HELLO_H

#include <zmq.h>

#include "catalog.h"
#include "in_flight.h"
#include "quota.h"
#include "options.h"
#include "outbox.h"

struct hello;

struct hello_facts {
    const struct catalog *catalog;
    const struct pen_engine *engine;
    const struct options *options;
    const struct identity *identity;
    const char *host;
    uint64_t uuid;
    uint32_t slots, threads;
    uint64_t memory_bytes, queue_bytes;
};

enum pen_status hello_new(const struct hello_facts *facts, struct hello **ret_hello, struct pen_error *reterr);
void hello_free(struct hello *hello); /* NULL is fine */

/* Packs the hello into `ret_frame` (initialised here, the caller sends or closes it); unsent replies count as held, too. */
enum pen_status hello_frame(struct hello *hello, const struct in_flight *in_flight, const struct reply *unsent,
                            zmq_msg_t *ret_frame, struct pen_error *reterr);

/* The list of models alone, as a WORKER_UPDATE. */
enum pen_status hello_update_frame(const struct hello *hello, zmq_msg_t *ret_frame, struct pen_error *reterr);

uint64_t hello_uuid(const struct hello *hello);

#endif
