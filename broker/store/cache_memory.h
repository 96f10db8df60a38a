/*
 * cache_memory.h - results in memory, bounded by bytes; the least recently used one is dropped first.
 * Threads: owner.
 */
#ifndef CACHE_MEMORY_H
#define CACHE_MEMORY_H

#include "cache.h"

struct cache_memory;
/* ttl_us: 0 = values do not age. */
enum pen_status cache_memory_new(uint64_t bytes_max, uint64_t ttl_us, struct cache_memory **ret_memory);
void cache_memory_free(struct cache_memory *memory); /* NULL is fine */

/* Borrowed until the next put. */
bool cache_memory_get(struct cache_memory *memory, const struct cache_key *key, uint64_t now_us,
                      struct cache_value *ret_value);
/* Replaces an older value of the key; one larger than a quarter of the budget is left out. */
void cache_memory_put(struct cache_memory *memory, const struct cache_key *key, const struct cache_value *value,
                      uint64_t now_us);
void cache_memory_report(const struct cache_memory *memory, struct cache_report *report);

#endif
