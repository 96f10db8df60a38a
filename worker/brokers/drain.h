/*
 * drain.h - how a worker leaves: what it holds is finished, what is on its way to it is still run, then each broker hears GOODBYE.
 *
 * Threads: owner - the network thread.
 */
#ifndef DRAIN_H
#define DRAIN_H

#include "serve.h"

/* Tells the brokers, once. `why` is for the log. */
void drain_begin(struct serve *serve, uint64_t now_us, const char *why);
/* To one of them: again after a new connection. */
void drain_say(struct link *link);

/* -1: it goes on (or none was begun); else the exit code. Ends the process where jobs still run after --drain-timeout. */
int drain_check(struct serve *serve, uint64_t now_us);

#endif
