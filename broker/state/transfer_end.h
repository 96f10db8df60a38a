/*
 * transfer_end.h - what a session or worker has of large payloads under way, and what the broker has of them all (intake/transfer.h).
 * Threads: owner.
 */
#ifndef TRANSFER_END_H
#define TRANSFER_END_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "table.h"

#define TRANSFER_OPEN_PEER 4u  /* transfers of one connection that get credit at the same time */
#define TRANSFER_OPEN_MAX  64u /* of all clients together */
#define TRANSFER_ANNOUNCED 64u /* jobs that one session may have announced */
#define TRANSFER_REPLIES   4u  /* results on their way to one client; more wait until one is through */

struct session;
struct worker;
struct transfer_link;
struct transfer_in;

/* What a session or worker has of it. */
struct transfer_end {
    bool able;               /* its hello said so */
    struct session *session; /* whose it is: one of the two */
    struct worker *worker;
    struct transfer_link *link; /* NULL: no transfer yet */
};

TAILQ_HEAD(transfer_links, transfer_link);
TAILQ_HEAD(transfer_ins, transfer_in);

struct transfer_hub {
    struct table clients, workers; /* bulk connections by routing id */
    struct transfer_links links;
    struct transfer_ins waiting; /* announced jobs without credit, oldest first */
    uint32_t open;               /* of clients, with credit */
    uint64_t bytes;              /* announced by clients and not yet a job */
    uint64_t asked_until_us;     /* when the first question to Redis is given up; UINT64_MAX = none */
    uint64_t freed_us;           /* memory was last given back by a transfer */
    uint64_t memory_us;          /* when results that found no memory ask again; UINT64_MAX = none waits */
};

#endif
