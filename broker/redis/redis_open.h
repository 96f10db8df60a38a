/*
 * redis_open.h - opens a connection to Redis that is ready for use: connected, logged in, its database chosen. It
 * waits for each answer, so only threads that may wait use it; redis_node.h is for those that may not.
 * Threads: any.
 */
#ifndef REDIS_OPEN_H
#define REDIS_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hiredis/hiredis.h>

#include "redis_place.h"

/* Gives a connection to one server, for redisFree; NULL: `reason` says why, without the password. Waits at most 250 ms
   for the connection and timeout_us for each of two answers; later answers have the same limit. */
redisContext *redis_open(const struct redis_place *place, const struct redis_address *address, uint64_t timeout_us,
                         char *reason, size_t bytes);
/* The same for a Sentinel, which has no databases, and often no password. */
redisContext *redis_open_sentinel(const struct redis_place *place, const struct redis_address *address,
                                  uint64_t timeout_us, char *reason, size_t bytes);

/* The user and password that are in the file now; while it cannot be read, the last ones. */
void redis_password_now(const struct redis_place *place, struct redis_place *ret_now);

/* Why the connection failed; for a time-out a sentence of our own. Borrowed from it. */
const char *redis_reason(const redisContext *redis);
/* True when the reply has that type; otherwise `reason` says what Redis or the connection reported. Frees the reply
   in both cases; NULL is fine. */
bool redis_expect(redisContext *redis, redisReply *reply, int type, char *reason, size_t bytes);

#endif
