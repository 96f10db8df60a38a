/*
 * cache_stored.h - a cached result as it is stored outside of the broker: it says under which key it was stored, and
 * counts under no other key.
 *
 * Its header carries flag STORED and, in place of a job id, a digest of the whole key (namespace, tenant, request,
 * model, precision); the request digest is that of the key. It contains nothing about the client that asked first.
 * Values of older brokers have a job id and no flag: they count when request and model digest are those of the key.
 * Threads: any (pure functions).
 */
#ifndef CACHE_STORED_H
#define CACHE_STORED_H

#include "cache_key.h"
#include "shared_message.h"

/* The value to store under `place`, the text of its key, with the time of that; shares the raw frames. NULL without
   memory. */
struct shared_message *stored_make(const struct shared_message *value, const struct cache_key *key, const char *place,
                                   uint64_t now_unix_us);
/* True when it was stored under that key. False also when it is no RESULT. */
bool stored_is(const struct shared_message *value, const struct cache_key *key, const char *place);

#endif
