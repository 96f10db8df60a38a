/*
 * lean_worker.h - a worker on a thread of the test's own, whose allocations are watched (tests/support/lean.h).
 *
 * Apart from the tests, because the engine's and the client's public headers do not go into one file. Threads: owner - the test's main thread.
 */
#ifndef LEAN_WORKER_H
#define LEAN_WORKER_H

#include <stdbool.h>

#define LEAN_WORKER_NAME "lean-worker"

/* Settings for all starts: two slots of the reference backend that serve all models of the folder or none. False: they cannot be read. */
bool lean_worker_init(const char *broker, const char *folder);
void lean_worker_fini(void);

void lean_worker_start(void);
/* It has ended by itself, or after a drain. */
bool lean_worker_ended(void);
/* Its exit code; only once it has ended. 0: drained. */
int lean_worker_join(void);
/* An exit code of a start that has failed, as the worker's README lists them. */
bool lean_worker_failed_start(int exit_code);

#endif
