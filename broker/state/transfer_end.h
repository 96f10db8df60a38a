/*
 * transfer_end.h - the large payloads under way of one session or worker, and of the whole broker (intake/transfer.h).
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
#define TRANSFER_ANNOUNCED 64u /* announced jobs that one session may have */
#define TRANSFER_REPLIES   4u  /* results on their way to one client; further ones wait until one is done */

struct session;
struct worker;
struct transfer_link;
struct transfer_in;
struct sealed_end;
struct parcel_door;

/* The transfers of one session or worker. */
struct transfer_end {
    bool able;               /* its hello said that it takes chunks */
    bool seals;              /* its hello said that it knows sealed memory */
    struct session *session; /* the peer: one of the two is set */
    struct worker *worker;
    struct transfer_link *link; /* NULL: no transfer yet */
    struct sealed_end *sealed;  /* NULL: it was not told of the socket for sealed memory (outbox/sealed_way.h) */
};

TAILQ_HEAD(transfer_links, transfer_link);
TAILQ_HEAD(transfer_ins, transfer_in);
TAILQ_HEAD(sealed_ends, sealed_end);

struct transfer_hub {
    struct table clients, workers; /* bulk connections by routing id */
    struct transfer_links links;
    struct sealed_ends sealed;
    struct parcel_door *door;    /* borrowed; where peers of this host bind their sockets; NULL: nowhere */
    struct transfer_ins waiting; /* announced jobs without credit, oldest first */
    uint32_t open;               /* transfers of clients that have credit */
    uint64_t bytes;              /* bytes announced by clients that are not jobs yet */
    uint64_t asked_until_us;     /* when the first question to Redis is given up; UINT64_MAX = there is none */
    uint64_t freed_us;           /* when a transfer last gave memory back */
    uint64_t memory_us;          /* when results that found no memory ask again; UINT64_MAX = none waits */
};

#endif
