/*
 * fair_queue.h - fair sharing between clients inside a priority level: start-time fair queueing by expected compute
 * time.
 *
 * Each identity that waits in a level has a share with a virtual start time. The share with the smallest start is
 * served next; its start then moves on by the expected cost of its job, divided by its weight. A newcomer starts at the
 * level's virtual time, so it does not pay for what others used before. A share that uses less than its part may lag
 * behind by FAIR_BURST_US, so that its few jobs pass those of a flood; it cannot save up more. An identity is a tenant,
 * or the session of a client without one. Goyal, Vin, Cheng: Start-time Fair Queueing (1996). Unlike there, the start
 * moves when a job is served, not when it arrives, so a cancelled job costs its client nothing. The true cost of a job
 * is known only after its run: the forecast is charged first, then replaced by the measured time, so that clients of
 * one level get equal time even where forecasts are wrong. Each charge is settled once.
 * Threads: owner.
 */
#ifndef FAIR_QUEUE_H
#define FAIR_QUEUE_H

#include <stdint.h>
#include <sys/queue.h>

#include "heap.h"
#include "line.h"
#include "table.h"

#define FAIR_WEIGHT_MAX 1000u
#define FAIR_BURST_US   100000u

struct lane;

/* One identity in one priority level. */
struct fair_share {
    struct table_node by_identity;
    TAILQ_ENTRY(fair_share) in_idle;
    TAILQ_HEAD(turn_list, turn) turns; /* its jobs, lane by lane; empty: idle */
    uint64_t identity, start;
    uint32_t weight;
    uint32_t open; /* charges that are not settled; the share is kept until 0 */
    uint8_t priority;
};

/* What a run was charged so far. */
struct cost {
    struct fair_share *share; /* NULL: nothing to settle */
    uint64_t units;           /* of virtual time */
};

/* The jobs of one share in one lane. */
struct turn {
    struct table_node by_place;
    TAILQ_ENTRY(turn) in_share;
    struct fair_share *share;
    struct lane *lane;
    struct line jobs;
    uint32_t lane_place;
};

struct fair_queue {
    struct table by_identity, by_place;
    TAILQ_HEAD(share_list, fair_share) idle; /* shares without jobs, kept because they are ahead of their level */
    uint64_t now[256];                       /* of each level */
    uint64_t waiting[256];                   /* number of turns, of each level */
};

enum pen_status fair_queue_init(struct fair_queue *fair_queue); /* NO_MEMORY */
void fair_queue_fini(struct fair_queue *fair_queue);            /* no turns are left */

/* Finds or makes the turn; weight 1..FAIR_WEIGHT_MAX counts from now on. NULL without memory. */
struct turn *fair_queue_turn(struct fair_queue *fair_queue, struct lane *lane, uint64_t identity, uint32_t weight,
                             uint8_t priority);
/* The turn when there is one. */
const struct turn *fair_queue_find(const struct fair_queue *fair_queue, const struct lane *lane, uint64_t identity,
                                   uint8_t priority);
/* The last job of the turn has left. */
void fair_queue_turn_end(struct fair_queue *fair_queue, struct turn *turn);
/* The share of a client that has no turn now; found or made like that of a turn. NULL without memory. */
struct fair_share *fair_queue_share(struct fair_queue *fair_queue, uint64_t identity, uint32_t weight,
                                    uint8_t priority);
/* A job of the share starts and is expected to take this long on one slot. The share's turns move back in their
   lanes. Settle the charge later. */
void fair_queue_charge(struct fair_queue *fair_queue, struct fair_share *share, uint64_t cost_us,
                       struct cost *ret_cost);
/*
 * The run is over and took this long: replaces the charge by that; 0 = it did not run. When the charge was too high,
 * the share gets the rest back, but never so much that it would be more than FAIR_BURST_US behind its level. Does
 * nothing when the charge is settled already.
 */
void fair_queue_settle(struct fair_queue *fair_queue, struct cost *cost, double cost_us);
/* True when the share may be served before `first`, which is ahead of it: it would then lead by at most two jobs of
   that cost. */
bool fair_share_near(const struct fair_share *share, const struct fair_share *first, uint64_t cost_us);
/* Forgets idle shares whose start need not be remembered any more. */
void fair_queue_sweep(struct fair_queue *fair_queue);

/* The weight in "NAME=N"; 0: the text has another form, or (name not NULL) it is for another name. */
uint32_t fair_weight_parse(const char *text, const char *name);

/* Order of turns in a lane: level, then start, then the more urgent head. A heap_before. */
bool turn_before(const void *a, const void *b);

#endif
