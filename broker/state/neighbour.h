/*
 * neighbour.h - other brokers of the same pool (--neighbours): how busy each of them is, and which one gets a client or
 * a job.
 *
 * A broker's load is a number of thousandths: 1000 is what its settings call busy. A busy broker sends clients that come
 * anew to a neighbour. Three rules keep clients from going to and fro: a broker is busy from 1000 on and until it is
 * below 750; a neighbour must have less load by 250; who was sent here is not sent away again. What is known of a
 * neighbour is a moment old, so each client that was sent there counts from then on, until it tells its load anew.
 * Threads: owner. Time is a parameter.
 */
#ifndef NEIGHBOUR_H
#define NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "dealer.h"
#include "endpoints.h"
#include "job.h"

#define NEIGHBOURS_MAX     ENDPOINTS_MAX
#define GUESTS_MAX         64u
#define LOAD_BUSY          1000u
#define LOAD_QUIET         750u
#define LOAD_AHEAD         250u
#define LOAD_MAX           1000000u
#define LOAD_JOBS_USUAL    1000 /* what counts as 1000 thousandths where --busy-jobs says nothing */
#define LOAD_CLIENTS_USUAL 10000

struct neighbour {
    char endpoint[ENDPOINTS_ONE_BYTES_MAX + 1]; /* as clients reach it, too */
    struct dealer dealer;
    uint64_t uuid;     /* of the broker there; 0 = it has not said it yet */
    uint64_t heard_us; /* 0 = never */
    uint64_t spoke_us; /* when it last said anything, as other software does, too; 0 = never */
    uint8_t minor;     /* of its protocol's version, as it said then */
    uint32_t load;
    uint32_t sent; /* clients sent there since it told its load */
    bool busy, draining;
    bool told_denied;
};

/* What a draining broker has offered to a neighbour and has no answer to. */
struct handover {
    struct neighbour *to; /* NULL = none is there */
    struct job_list out;  /* JOB_HANDED, by in_group */
    uint32_t count;
    uint64_t bytes;
    uint64_t answered_us; /* when it last answered, or was first asked */
    uint64_t due_us;      /* when it is looked at next */
};

struct neighbours {
    struct neighbour all[NEIGHBOURS_MAX];
    uint32_t count;
    uint32_t guests[GUESTS_MAX]; /* peers at the port for clients that are brokers; the oldest is overwritten */
    uint32_t guests_count;
    uint32_t load; /* this broker's own */
    bool busy;
    struct handover handover;
};

/* What this broker's load is now; busy_jobs, busy_clients: 0 = that number makes nobody busy. */
void neighbours_measure(struct neighbours *neighbours, uint64_t jobs, uint64_t clients, uint64_t busy_jobs,
                        uint64_t busy_clients);
/* True while it answers. */
bool neighbour_here(const struct neighbour *neighbour, uint64_t now_us, uint64_t liveness_us);
uint32_t neighbours_here(const struct neighbours *neighbours, uint64_t now_us, uint64_t liveness_us);

/* Where a client goes that has just come; NULL: it stays. Counts it there. clients: that this broker has. */
struct neighbour *neighbours_for_client(struct neighbours *neighbours, uint64_t clients, uint64_t now_us,
                                        uint64_t liveness_us);
/* Who takes the jobs of this broker, which ends: the one with the least load. NULL: nobody. */
struct neighbour *neighbours_for_jobs(struct neighbours *neighbours, uint64_t now_us, uint64_t liveness_us);

void neighbours_guest_add(struct neighbours *neighbours, uint32_t peer);
bool neighbours_guest(const struct neighbours *neighbours, uint32_t peer);

#endif
