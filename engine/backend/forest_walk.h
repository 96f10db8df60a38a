/*
 * forest_walk.h - rows of features through a forest (graph/forest.h): what the CPU backends run for OP_TreeEnsemble.
 *
 * Eight rows go down a tree side by side, so that their reads overlap; a single row goes down eight trees. Weights are added tree by tree in the type of the rows, as
 * onnxruntime does: where a sum meets 0.5 exactly, rounding decides the class.
 * Threads: any.
 */
#ifndef FOREST_WALK_H
#define FOREST_WALK_H

#include "graph/forest.h"

#define FOREST_ROWS  64 /* rows of one unit of work: they stay in the first cache while the trees go by */
#define FOREST_TREES 64 /* trees of one unit where there are few rows */

struct forest_call {
    const struct forest *f;
    const void *x; /* [rows, width] float, or double where f->wide */
    size_t width, rows;
    void *y; /* [rows, targets], of the same type */
    enum forest_aggregate aggregate;
    const float *base; /* [base_count]: for each target, or one for the only one */
    uint32_t base_count;
};

/* Rows [from, from + count) to the end: sums and base values. The width is at least f->features. */
void forest_rows(const struct forest_call *c, size_t from, size_t count);
/* The leaves that row `row` reaches in trees [from, from + count), to leaf[0 ...]. */
void forest_leaves(const struct forest_call *c, size_t row, size_t from, size_t count, uint32_t *leaf);
/* Sums row `row` from the leaves of all trees. */
void forest_add(const struct forest_call *c, size_t row, const uint32_t *leaf);

/* The call of a node: forest, aggregation, base values; INVALID with a phrase in *ret_reason when x is too narrow. x, rows and y are left to the caller. */
bool forest_call_of(const struct node *n, const void *forest, size_t forest_bytes, const struct shape *x,
                    struct forest_call *ret, const char **ret_reason);

#endif
