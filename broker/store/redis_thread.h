/*
 * redis_thread.h - the thread that talks to Redis: pipelined GETs and SETs with a time-out, reconnecting once a second.
 * Threads: its own; started and joined by cache_redis.c.
 */
#ifndef REDIS_THREAD_H
#define REDIS_THREAD_H

#include <stdint.h>

#include "redis_place.h"

struct redis_thread {
    void *socket; /* its end of the PAIR; used by the starter before the thread begins and after it was joined */
    struct redis_place place;
    uint64_t ttl_ms, timeout_us;
};

void *redis_thread_run(void *thread); /* a pthread's body; `thread` is borrowed until it was joined */

#endif
