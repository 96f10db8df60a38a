/*
 * single_flight.h - single flight: identical jobs that are under way at the same time run once.
 *
 * The first is the leader; those that come later follow it and are answered with its result, each under its own id,
 * times and deadline. Only jobs of the same lane join, because the leader's run need not meet another demand.
 * Threads: owner.
 */
#ifndef SINGLE_FLIGHT_H
#define SINGLE_FLIGHT_H

#include "cache_key.h"
#include "job.h"
#include "table.h"

struct single_flight {
    struct table_node by_key;
    struct cache_key key;
    struct job *leader;
    struct job_list followers; /* by in_group */
    uint32_t followers_count;
};

enum pen_status single_flights_init(struct table *flights);
void single_flights_fini(struct table *flights);

/* The single flight of an identical job in the same lane; NULL = none. */
struct single_flight *single_flight_find(const struct table *flights, const struct cache_key *key,
                                         const struct lane *lane);
/* A new single flight led by `leader`; NULL without memory (the job then runs without one). */
struct single_flight *single_flight_new(struct table *flights, const struct cache_key *key, struct job *leader);
void single_flight_join(struct single_flight *flight, struct job *follower);
void single_flight_leave(struct single_flight *flight, struct job *follower);
/* Makes the first follower the leader and returns it; NULL = there is none. The old leader has left the single
   flight. */
struct job *single_flight_promote(struct single_flight *flight);
/* Ends the single flight; its leader leaves it, its followers must have left. */
void single_flight_free(struct table *flights, struct single_flight *flight);

#endif
