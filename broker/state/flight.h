/*
 * flight.h - single flight: identical jobs that are under way at the same time run once.
 *
 * The first is the leader; those that come later follow it and are answered with its result, each under its own id, times and deadline. Only
 * jobs of one lane join: a demand that the leader does not make is never met by chance.
 * Threads: owner.
 */
#ifndef FLIGHT_H
#define FLIGHT_H

#include "cache_key.h"
#include "job.h"
#include "table.h"

struct flight {
    struct table_node by_key;
    struct cache_key key;
    struct job *leader;
    struct job_list followers; /* by in_group */
    uint32_t followers_count;
};

enum pen_status flights_init(struct table *flights);
void flights_fini(struct table *flights);

/* The flight of an identical job in the same lane; NULL = none. */
struct flight *flight_find(const struct table *flights, const struct cache_key *key, const struct lane *lane);
/* A new flight led by `leader`; NULL without memory (the job then runs outside). */
struct flight *flight_new(struct table *flights, const struct cache_key *key, struct job *leader);
void flight_join(struct flight *flight, struct job *follower);
void flight_leave(struct flight *flight, struct job *follower);
/* The first follower becomes the leader and is returned; NULL = there is none. The old leader is out of the flight. */
struct job *flight_promote(struct flight *flight);
/* Ends the flight: the leader is out of it; followers must have left. */
void flight_free(struct table *flights, struct flight *flight);

#endif
