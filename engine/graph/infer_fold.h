/*
 * infer_fold.h - evaluates a node during inference when its inputs are known: shape arithmetic always, large values when asked to.
 *
 * Threads: one-at-a-time per shape_env.
 */
#ifndef INFER_FOLD_H
#define INFER_FOLD_H

#include "graph/infer.h"

/* Fills c->out[].data where it can; what cannot be evaluated (no kernel, over budget, a failure that the run will report) stays as inferred. */
void fold_node(struct shape_env *env, struct infer *c, bool fold_all);

#define FOLD_SMALL_BYTES (UINT64_C(64) << 20) /* for values of few elements, beside the budget */

#endif
