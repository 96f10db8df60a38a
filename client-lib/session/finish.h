/*
 * finish.h - the end of a job: its result, its callback, its place among the awaited ones.
 *
 * Threads: under the client's lock, unless marked.
 */
#ifndef FINISH_H
#define FINISH_H

#include "core.h"

/* A job that was just given its sequence is counted; when it is an ordered one, its end waits for those before it. */
void finish_expect(struct pen_client *client, struct pen_job *job);

/* The job leaves `pending` with this result (given). Waiters are told by who moves the session (drive/), when the step that ends jobs is over. */
void finish_job(struct pen_client *client, struct pen_job *job, struct pen_result *result, uint64_t now_us);

/* The same for all of them. */
void finish_all(struct pen_client *client, enum pen_status status, const char *text);

/* The descriptor that tells of callbacks to run can be read, or no longer; without one nothing happens. */
void finish_ring(struct pen_client *client);
void finish_hush(struct pen_client *client);

/* Takes a job with a callback to run; NULL: none. Gives the reference. */
struct pen_job *finish_take(struct pen_client *client);

#endif
