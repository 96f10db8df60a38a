/*
 * in_flight.h - the dispatches this worker has taken and not finished, with their caps.
 *
 * Threads: owner - the network thread.
 */
#ifndef IN_FLIGHT_H
#define IN_FLIGHT_H

#include "inbox.h"

struct in_flight {
    struct dispatch *first, *last;
    size_t dispatches, jobs, bytes;
    size_t limit_jobs, limit_bytes;
};

void in_flight_init(struct in_flight *in_flight, size_t limit_jobs, size_t limit_bytes);
void in_flight_fini(struct in_flight *in_flight); /* frees what is still held: no slot may be running */
/* BUSY beyond a cap; keeps the dispatch until in_flight_remove. */
enum pen_status in_flight_add(struct in_flight *in_flight, struct dispatch *dispatch, struct pen_error *reterr);
void in_flight_remove(struct in_flight *in_flight, struct dispatch *dispatch); /* it is the caller's again */

/* The newest held job of that id that has no answer yet; NULL when there is none. */
struct job *in_flight_find(const struct in_flight *in_flight, struct job_id id, struct dispatch **ret_dispatch);

#endif
