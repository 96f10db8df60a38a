/*
 * cache_stored.h - a cached result as it lies outside of the broker: it says under which key it was put there, and is believed under no other.
 *
 * Its header carries flag STORED and, in place of a job id, a digest of the whole key (namespace, tenant, request, model, precision); the request digest is
 * that of the key. Nothing of the client that asked first stays in it. Values of brokers before this have a job id and no flag: they are believed when
 * request and model digest are those of the key. Threads: any (pure functions).
 */
#ifndef CACHE_STORED_H
#define CACHE_STORED_H

#include "cache_key.h"
#include "shared_message.h"

/* The value as it is put under `place`, the text of its key; shares the raw frames. NULL without memory. */
struct shared_message *stored_make(const struct shared_message *value, const struct cache_key *key, const char *place);
/* Was it put under that key? False also for what is no RESULT. */
bool stored_is(const struct shared_message *value, const struct cache_key *key, const char *place);

#endif
