/*
 * evaluator.h - the table through which the graph asks for the result of one node whose inputs are known. The graph has no kernels of its own.
 *
 * Whoever opens an engine, or reads a graph without one, registers a table once, before the first graph: reference_evaluator_register() of
 * backend/reference/evaluate.h. Without a table nothing is folded, shapes that follow from computed constants stay unknown, and shape_env_unfolded() says so.
 * Threads: any. A registered table lives as long as the process.
 */
#ifndef EVALUATOR_H
#define EVALUATOR_H

#include "graph/infer.h"

/* One node to be computed. */
struct evaluation {
    const struct graph *g;
    const struct node *n;
    const struct fact *in; /* [n->in_count], data known and not written to; an omitted input has dtype NONE */
    struct fact *out;      /* [n->out_count], zeroed: the results; one that was not made keeps dtype NONE */
    /* Memory for the results and for scratch: zeroed, 64-byte aligned, LIFETIME_PAD readable behind; freed by the caller. NULL when the cap is reached. */
    void *(*alloc)(struct evaluation *e, size_t bytes);
};

struct evaluator {
    bool (*has)(enum op op); /* a kernel of this operator is in this build */
    /* Its kernel takes the node's dtypes and attributes, as far as known. `reason` (may be NULL) gets a phrase when false. */
    bool (*supports)(const struct graph *g, const struct node *n, const char **ret_reason);
    /* A failure is the node's own: the run is going to report it. */
    enum pen_status (*run)(struct evaluation *e);
};

/* The same table again is fine. table: static. */
void evaluator_register(const struct evaluator *table);
const struct evaluator *evaluator_get(void); /* NULL: none is registered */

#endif
