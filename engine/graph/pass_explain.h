/*
 * pass_explain.h - tells the graph's log (explain.h) which passes fired, how often, and why the others did not.
 *
 * Threads: one-at-a-time.
 */
#ifndef PASS_EXPLAIN_H
#define PASS_EXPLAIN_H

#include "graph/pass.h"

/* Nodes that a pass could look at. */
struct pass_census {
    uint32_t nodes[PASS_COUNT];
};
void pass_count(const struct graph *g, struct pass_census *ret_census);
/* After the passes of one graph; `before` was counted in front of them. Nothing where no log is. PASS_PROMOTE is not among them: source.c runs it. */
void pass_explain(const struct graph *g, const struct pass_options *options, const struct pass_census *before,
                  const struct pass_report *report);
void pass_explain_promote(const struct graph *g, uint32_t off, uint32_t promoted);

#endif
