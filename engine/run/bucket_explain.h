/*
 * bucket_explain.h - tells the graph's log (graph/explain.h) which shape bucket a run has, and what runs each node in it.
 *
 * Threads: one-at-a-time.
 */
#ifndef BUCKET_EXPLAIN_H
#define BUCKET_EXPLAIN_H

#include "run/bucket.h"

/* made: it was made for these shapes just now; kept: buckets that the session keeps beside it for this graph. Nothing where no log is. */
void bucket_explain(const struct bucket *b, bool made, uint32_t kept);

#endif
