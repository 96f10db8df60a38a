/*
 * fair_queue.h - fair sharing between clients inside a priority level: start-time fair queueing by expected compute time.
 *
 * Who waits in a level has a share with a virtual start time; the least one is served next and moves on by what its job is expected to cost,
 * divided by its weight. A newcomer starts at the level's virtual time and pays nothing for what a flood of others left behind. Who uses less than
 * its share may lag by FAIR_BURST_US, so that its few jobs pass ahead of those of a flood; more cannot be saved up. Identity: the tenant, or the session of a client without one.
 * Goyal, Vin, Cheng: Start-time Fair Queueing (1996). Here the start is given when a job is served, not when it arrives: a cancelled job costs
 * its client nothing. What a job costs is known when it has run: until then the forecast is charged, then the charge is settled by what was measured, so that
 * clients of one level get equal time even where forecasts err. Each charge is settled once.
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
    uint32_t open; /* charges that are not settled: it is kept for them */
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
    TAILQ_HEAD(share_list, fair_share) idle; /* served ahead of their level: their start is remembered */
    uint64_t now[256];                       /* virtual time of each level */
    uint64_t waiting[256];                   /* turns of each level */
};

enum pen_status fair_queue_init(struct fair_queue *fair_queue); /* NO_MEMORY */
void fair_queue_fini(struct fair_queue *fair_queue);            /* no turns are left */

/* Finds or makes the turn; weight 1..FAIR_WEIGHT_MAX counts from now on. NULL without memory. */
struct turn *fair_queue_turn(struct fair_queue *fair_queue, struct lane *lane, uint64_t identity, uint32_t weight,
                             uint8_t priority);
/* The turn when there is one. */
const struct turn *fair_queue_find(const struct fair_queue *fair_queue, const struct lane *lane, uint64_t identity,
                                   uint8_t priority);
/* Its last job has left. */
void fair_queue_turn_end(struct fair_queue *fair_queue, struct turn *turn);
/* The share of who has no turn now; found or made like that of a turn. NULL without memory. */
struct fair_share *fair_queue_share(struct fair_queue *fair_queue, uint64_t identity, uint32_t weight,
                                    uint8_t priority);
/* A job of the share starts and is expected to take this long on one slot. Its turns move back in their lanes. The charge must be settled. */
void fair_queue_charge(struct fair_queue *fair_queue, struct fair_share *share, uint64_t cost_us,
                       struct cost *ret_cost);
/*
 * The run is over and took so long: what was charged is replaced by that; 0 = it did not run. Too high a charge is given back but for what would put the
 * share more than FAIR_BURST_US behind its level. Nothing when the charge is settled.
 */
void fair_queue_settle(struct fair_queue *fair_queue, struct cost *cost, double cost_us);
/* Served before whoever is ahead of it in order, the share would lead by no more than two jobs of that cost. */
bool fair_share_near(const struct fair_share *share, const struct fair_share *first, uint64_t cost_us);
/* Forgets idle shares that have nothing to remember any more. */
void fair_queue_sweep(struct fair_queue *fair_queue);

/* The weight in "NAME=N"; 0: it has another form, or (name not NULL) is for somebody else. */
uint32_t fair_weight_parse(const char *text, const char *name);

/* Order of turns in a lane: level, then start, then the more urgent head. A heap_before. */
bool turn_before(const void *a, const void *b);

#endif
