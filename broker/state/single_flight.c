#include "single_flight.h"

#include <stdlib.h>

enum pen_status single_flights_init(struct table *flights)
{
    return table_init(flights);
}

void single_flights_fini(struct table *flights)
{
    table_fini(flights);
}

static uint64_t hash_of(const struct table *flights, const struct cache_key *key)
{
    return table_hash(flights, cache_key_half(key, 0), cache_key_half(key, 1));
}

struct single_flight *single_flight_find(const struct table *flights, const struct cache_key *key,
                                         const struct lane *lane)
{
    struct table_node *node = table_first(flights, hash_of(flights, key));
    for (; node; node = table_next(flights, node)) {
        struct single_flight *flight = table_entry(node, struct single_flight, by_key);
        if (flight->leader->lane == lane && cache_key_equal(&flight->key, key))
            return flight;
    }
    return NULL;
}

struct single_flight *single_flight_new(struct table *flights, const struct cache_key *key, struct job *leader)
{
    struct single_flight *flight = calloc(1, sizeof *flight);
    if (!flight)
        return NULL;
    flight->key = *key;
    flight->leader = leader;
    leader->flight = flight;
    TAILQ_INIT(&flight->followers);
    table_insert(flights, &flight->by_key, hash_of(flights, key));
    return flight;
}

void single_flight_join(struct single_flight *flight, struct job *follower)
{
    TAILQ_INSERT_TAIL(&flight->followers, follower, in_group);
    flight->followers_count++;
    follower->flight = flight;
}

void single_flight_leave(struct single_flight *flight, struct job *follower)
{
    TAILQ_REMOVE(&flight->followers, follower, in_group);
    flight->followers_count--;
    follower->flight = NULL;
}

struct job *single_flight_promote(struct single_flight *flight)
{
    struct job *next = TAILQ_FIRST(&flight->followers);
    if (!next)
        return NULL;
    single_flight_leave(flight, next);
    flight->leader->flight = NULL;
    flight->leader = next;
    next->flight = flight;
    return next;
}

void single_flight_free(struct table *flights, struct single_flight *flight)
{
    flight->leader->flight = NULL;
    table_remove(flights, &flight->by_key);
    free(flight);
}
