/*
 * redis_open.h - opens a connection to Redis that is ready for use: connected, logged in, its database chosen.
 * Threads: any.
 */
#ifndef REDIS_OPEN_H
#define REDIS_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "redis_place.h"

/* Gives the connection, for redisFree; NULL: `reason` says why, without the password. Waits at most 250 ms for the
   connection and timeout_us for each of two answers; later answers have the same limit. */
redisContext *redis_open(const struct redis_place *place, uint64_t timeout_us, char *reason, size_t bytes);

/* Why the connection failed; for a time-out a sentence of our own. Borrowed from it. */
const char *redis_reason(const redisContext *redis);
/* True when the reply has that type; otherwise `reason` says what Redis or the connection reported. Frees the reply
   in both cases; NULL is fine. */
bool redis_expect(redisContext *redis, redisReply *reply, int type, char *reason, size_t bytes);

#endif
