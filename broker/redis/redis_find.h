/*
 * redis_find.h - finds the one server that has a key, and connects to it: the server itself, the master of the key's
 * slot in a Redis Cluster, or the master that the Sentinels name. For threads that may wait.
 *
 * Remembers the masters that it has heard of, so that a cluster is found again when all seeds are gone.
 * Threads: one-at-a-time.
 */
#ifndef REDIS_FIND_H
#define REDIS_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis_open.h"

#define REDIS_KNOWN_MAX 32u

struct redis_finder {
    const struct redis_place *place; /* borrowed */
    struct redis_address known[REDIS_KNOWN_MAX];
    unsigned known_count, turn; /* turn: where the next search begins, so that one stale node misleads but once */
    struct redis_address at;    /* the server that was found last */
    redisContext *watch;        /* SENTINEL: subscribed to +switch-master; NULL = not */
};

void redis_finder_init(struct redis_finder *finder, const struct redis_place *place);
void redis_finder_fini(struct redis_finder *finder);

/* Gives a connection to the master of that key, ready for use, and sets `at`; NULL: `reason`. Each server that is asked
   takes 250 ms at most, and the found one as redis_open says. */
redisContext *redis_find(struct redis_finder *finder, const char *key, uint64_t timeout_us, char *reason, size_t bytes);
/* One more connection to the server that was found last. */
redisContext *redis_find_again(struct redis_finder *finder, uint64_t timeout_us, char *reason, size_t bytes);

/* Readable when Sentinels have something to say; -1 = none is listened to. */
int redis_finder_descriptor(const struct redis_finder *finder);
/* Reads it. True: the master is another one now, and the connections are of no use. */
bool redis_finder_moved(struct redis_finder *finder);

/* Waits until so many replicas have what this connection has written, at most 1 s. False: `reason`. */
bool redis_replicated(redisContext *redis, int replicas, char *reason, size_t bytes);

#endif
