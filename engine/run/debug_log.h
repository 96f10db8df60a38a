/*
 * debug_log.h - the writing side of penstock/debug.h: rows of the run that is on its way.
 *
 * A run without a log pays one look at a pointer per step (debug_of). Built with PEN_NO_DEBUG it does not even do that: how tests/bench/debug_cost.sh measures.
 * Threads: one-at-a-time.
 */
#ifndef DEBUG_LOG_H
#define DEBUG_LOG_H

#include "penstock/debug.h"
#include "run/runner.h"

struct debug_log;
struct debug_log *debug_log_new(void); /* NULL without memory */
void debug_log_free(struct debug_log *log);
void debug_log_begin(struct debug_log *log); /* a new run: the rows of the last are gone */

/* After a step that a backend has run, all of whose values are in the bucket (placement_new: watch). */
void debug_step(struct runner *r, const struct bucket *b, const struct bucket_step *step);
/* After a node that the executor has run. */
void debug_node(struct runner *r, const struct bucket *b, uint32_t node, uint64_t ns);

const struct pen_debug_row *debug_log_rows(const struct debug_log *log, size_t *ret_count, uint64_t *ret_lost);

#endif
