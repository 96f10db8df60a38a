/*
 * activation.h - the activation fused behind an operator (ATTR_act and its parameters, graph/op.h).
 *
 * Threads: any.
 */
#ifndef ACTIVATION_H
#define ACTIVATION_H

#include "graph/graph.h"

struct activation_fused {
    enum activation kind;
    double min, max, alpha;
};

struct activation_fused activation_of(const struct node *n);
void activation_apply(const struct activation_fused *a, double *items, int64_t count); /* in place */

#endif
