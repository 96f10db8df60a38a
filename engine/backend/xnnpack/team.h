/*
 * team.h - threads that help with a loop: the caller works too and never waits for a helper that has not begun.
 *
 * pthreadpool waits until each of its threads has been scheduled, once per operator; on a busy host that costs a time slice each. Here a helper joins when it
 * gets a processor; the caller takes all units that nobody took and waits only for units under way. Helpers spin for some microseconds between loops, then
 * sleep.
 * Threads: team_run one-at-a-time per team.
 */
#ifndef XNNPACK_TEAM_H
#define XNNPACK_TEAM_H

#include <stddef.h>
#include <stdint.h>

struct team;

struct team *team_new(uint32_t threads); /* with the caller; >= 2. NULL without memory or threads */
/* Keeps each helper on one processor of the calling thread's; teams take the processors in turn, cores before their second threads. The caller itself stays free. */
void team_pin(struct team *t);
void team_free(struct team *t);              /* NULL is fine */
uint32_t team_threads(const struct team *t); /* NULL: 1 */
/*
 * task(context, unit) for each unit below `units`, each exactly once; all done when it returns. Each thread begins with its own contiguous share of the units and
 * then helps with the others': what it wrote in one loop it tends to read in the next, from its own cache.
 */
void team_run(struct team *t, void (*task)(void *context, size_t unit), void *context, size_t units);

/*
 * The same for a loop that is short beside a time slice. On a busy host a helper may lose its processor within a unit; where one did, the caller does the
 * next of these loops alone for some time.
 */
void team_run_short(struct team *t, void (*task)(void *context, size_t unit), void *context, size_t units);

/* In a task: which of the team's threads runs it, < team_threads; 0 outside of teams. */
uint32_t team_self(void);

#endif
