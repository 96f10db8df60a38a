/*
 * held.h - the dispatches this worker has taken and not finished, with their caps.
 *
 * Threads: owner - the network thread.
 */
#ifndef HELD_H
#define HELD_H

#include "inbox.h"

struct held {
    struct dispatch *first, *last;
    size_t dispatches, jobs, bytes;
    size_t limit_jobs, limit_bytes;
};

void held_init(struct held *held, size_t limit_jobs, size_t limit_bytes);
void held_fini(struct held *held); /* frees what is still held: no slot may be running */
/* BUSY beyond a cap; keeps the dispatch until held_remove. */
enum pen_status held_add(struct held *held, struct dispatch *dispatch, struct pen_error *reterr);
void held_remove(struct held *held, struct dispatch *dispatch); /* the dispatch is the caller's again */

/* The newest held job of that id that is not answered, NULL when there is none. */
struct job *held_find(const struct held *held, struct job_id id, struct dispatch **ret_dispatch);

#endif
