/*
 * enqueue.h - jobs become pending: within the client's limits, numbered, and those of a sequence told which one they follow.
 *
 * Threads: under the client's lock.
 */
#ifndef ENQUEUE_H
#define ENQUEUE_H

#include "core.h"

/* All of them or none. BUSY beyond the client's limits, NO_MEMORY, or why the broker refuses this client. What is sent is the caller's next step. */
enum pen_status enqueue_jobs(struct pen_client *client, struct pen_job *const *jobs, size_t count,
                             struct pen_error *reterr);

#endif
