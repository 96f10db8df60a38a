/*
 * redis_open.h - a connection to Redis that has proved itself: connected, logged in, its database chosen.
 * Threads: any.
 */
#ifndef REDIS_OPEN_H
#define REDIS_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "redis_place.h"

/* Gives the connection, for redisFree; NULL: `reason` says why, without the password. Waits at most 250 ms and two answers of timeout_us, which holds for later ones, too. */
redisContext *redis_open(const struct redis_place *place, uint64_t timeout_us, char *reason, size_t bytes);

/* What the connection has to say of its failure; of a time-out in words of our own. Borrowed from it. */
const char *redis_reason(const redisContext *redis);
/* Is the reply of that type? If not, `reason` says what Redis or the connection had to say. Frees the reply; NULL is fine. */
bool redis_expect(redisContext *redis, redisReply *reply, int type, char *reason, size_t bytes);

#endif
