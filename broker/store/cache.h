/*
 * cache.h - results by content: one interface over a bounded memory LRU, Redis, or none.
 *
 * A value is a RESULT group as its worker sent it, with the backend and precision that computed it; each hit is checked
 * against the job's demand. Memory answers at once. A thread of its own asks Redis, which answers later, by the number
 * of the question, or is given up after the deadline.
 * Threads: owner.
 */
#ifndef CACHE_H
#define CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache_key.h"
#include "shared_message.h"
#include "redis_place.h"

#define CACHE_BACKEND_BYTES 32u

struct cache_value {
    struct shared_message *shared; /* frame 0: envelope and ResultMeta; then the raw frames */
    enum precision precision;
    double error;            /* measured, of the worker that computed it; infinity = it was not */
    bool repeatable;         /* as measured there */
    uint64_t age_us;         /* of a hit: since it was stored */
    uint64_t stored_unix_us; /* of a value outside the broker; 0 = not said */
    char backend[CACHE_BACKEND_BYTES];
};

enum cache_kind { CACHE_NONE, CACHE_MEMORY, CACHE_REDIS };

struct cache_options {
    enum cache_kind kind;
    uint64_t bytes_max; /* memory: the budget; Redis: limit of one value */
    struct redis_place redis;
    const char *namespace; /* key prefix */
    uint64_t ttl_us;
    uint64_t deadline_us; /* for one answer */
};

/* "memory:64MiB", a place in Redis (redis_place.h), "none" -> kind, bytes, redis without user, password and files. */
enum pen_status cache_parse(const char *text, struct cache_options *ret_options, struct pen_error *reterr);

enum cache_answer { CACHE_MISS, CACHE_HIT, CACHE_ASKED };

struct cache;
enum pen_status cache_new(void *context, const struct cache_options *options, struct cache **ret_cache,
                          struct pen_error *reterr);
void cache_free(struct cache *cache); /* NULL is fine */

bool cache_enabled(const struct cache *cache);

/* HIT: *ret_value is borrowed until the next call. ASKED: cache_poll gives the answer to *ret_question later, or
   never. */
enum cache_answer cache_get(struct cache *cache, const struct cache_key *key, const char *tenant, uint64_t now_us,
                            struct cache_value *ret_value, uint64_t *ret_question);
/* Shares the value's message; a value beyond the caps is not stored. */
void cache_put(struct cache *cache, const struct cache_key *key, const char *tenant, const struct cache_value *value,
               uint64_t now_us);

/* Reads backend and precision out of a message whose header is a RESULT; PEN_ERR_CORRUPT when it is none. */
enum pen_status cache_value_read(struct shared_message *shared, struct cache_value *ret_value);

/* Answers that have come: false = none left. Gives the value's message; *ret_hit false: not there. */
bool cache_poll(struct cache *cache, uint64_t now_us, uint64_t *ret_question, bool *ret_hit,
                struct cache_value *ret_value);
/* The caller gave the question up: counts as a failure for the breaker. */
void cache_give_up(struct cache *cache, uint64_t now_us);
void *cache_socket(struct cache *cache); /* to poll for reading; NULL = none */
uint64_t cache_deadline_us(const struct cache *cache);

struct cache_report {
    const char *kind;
    char state[128]; /* "ok", "open: connection refused" */
    uint64_t bytes, entries, evicted;
    uint64_t mismatched; /* values in Redis that belonged to another key than the one they were stored under */
};
void cache_report(const struct cache *cache, struct cache_report *ret_report);

#endif
