/*
 * redis_thread.h - the thread that talks to Redis: pipelined GETs and SETs with a time-out, over connections that never
 * wait (redis_route.h): a server that is frozen delays no question to another one.
 * Threads: its own; started and joined by cache_redis.c.
 */
#ifndef REDIS_THREAD_H
#define REDIS_THREAD_H

#include <stdint.h>

#include "redis_route.h"

struct redis_thread {
    void *socket; /* its end of the PAIR; used by the starter before the thread begins and after it was joined */
    struct redis_place place;
    struct redis_route *route; /* the thread frees it */
    uint64_t ttl_ms;
};

void *redis_thread_run(void *thread); /* a pthread's body; `thread` is borrowed until it was joined */

#endif
