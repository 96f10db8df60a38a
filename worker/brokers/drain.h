/*
 * drain.h - how a worker leaves: it finishes the jobs that it holds and those that are still on their way to it, then
 * it sends each broker a GOODBYE.
 *
 * Threads: owner - the network thread.
 */
#ifndef DRAIN_H
#define DRAIN_H

#include "serve.h"

/* Tells the brokers, once. `why` is for the log. */
void drain_begin(struct serve *serve, uint64_t now_us, const char *why);
/* Tells one broker; again after a new connection. */
void drain_say(struct link *link);

/* -1: the worker goes on, or drains still; else the exit code. Ends the process when jobs still run after
   --drain-timeout. */
int drain_check(struct serve *serve, uint64_t now_us);

#endif
