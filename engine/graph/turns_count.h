/*
 * turns_count.h - how often a Loop turns, where integers decide it that are known before the run.
 *
 * Threads: any (pure).
 */
#ifndef TURNS_COUNT_H
#define TURNS_COUNT_H

#include "graph/infer.h"

/* shapes: of the body's inputs on every turn. SHAPE_DIM_UNKNOWN: the data decide, or it would take long to count. */
int64_t turns_count(const struct infer *c, const struct graph *body, const struct shape *shapes, uint32_t carried);
/* Nodes of a body and of the subgraphs within. */
int64_t turns_nodes(const struct graph *body);

#endif
