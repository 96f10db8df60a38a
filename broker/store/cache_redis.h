/*
 * cache_redis.h - results in Redis: hiredis on a thread of its own behind an inproc PAIR, so that nothing Redis does
 * can stall the loop.
 *
 * The owner's side never waits: it hands questions and values over and polls for answers. While the breaker is open it
 * hands nothing over; the thread probes once a second and reports when Redis is back. At most 64 values or 32 MiB wait
 * to be stored; further ones are dropped.
 * Threads: owner.
 */
#ifndef CACHE_REDIS_H
#define CACHE_REDIS_H

#include "cache.h"

struct cache_redis;
enum pen_status cache_redis_new(void *context, const struct cache_options *options, struct cache_redis **ret_redis,
                                struct pen_error *reterr);
void cache_redis_free(struct cache_redis *redis); /* NULL is fine; waits for the thread: at most its time-outs */

/* False: the breaker is open; go on without the cache. */
bool cache_redis_ask(struct cache_redis *redis, const struct cache_key *key, const char *tenant,
                     uint64_t *ret_question);
void cache_redis_put(struct cache_redis *redis, const struct cache_key *key, const char *tenant,
                     const struct shared_message *shared);
bool cache_redis_poll(struct cache_redis *redis, uint64_t *ret_question, bool *ret_hit, struct cache_value *ret_value);
void cache_redis_give_up(struct cache_redis *redis);
void *cache_redis_socket(struct cache_redis *redis);
void cache_redis_report(const struct cache_redis *redis, struct cache_report *report);

#endif
