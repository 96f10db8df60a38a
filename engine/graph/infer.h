/*
 * infer.h - shape and type inference with value propagation, for one concrete set of input shapes or for what is known at load.
 *
 * Small values (shapes, axes, indices, scalars) are evaluated while shapes are inferred, so that chains such as Shape -> Gather -> Concat -> Reshape
 * resolve before anything runs. The graph is not changed: results go into a shape_env, one per shape bucket.
 * Threads: a shape_env is one-at-a-time while built, any afterwards.
 */
#ifndef INFER_H
#define INFER_H

#include "graph/allowance.h"
#include "graph/graph.h"

/* What inference knows about one value. */
struct fact {
    enum value_kind kind;
    enum pen_dtype dtype;
    struct shape shape;
    const void *data; /* its known value (constant, or folded for this bucket); NULL = only known at run time */
    size_t bytes;
    bool asked; /* a shape rule wanted to know its contents and could not */
};

/* Given to an operator's shape rule (rules.h). Rules read `in`, write `out`. */
struct infer {
    const struct graph *g;
    const struct node *n;
    const struct fact *in; /* [n->in_count]; an omitted input has dtype NONE */
    struct fact *out;      /* [n->out_count]; starts unknown */
    uint32_t *asked; /* bit i: a rule asked for the contents of input i, which are not known; NULL = nobody listens */
};

/* Helpers for rules (infer_util.c). */
bool infer_has(const struct infer *c, uint32_t index); /* input present */
/* Reads input `index` as integers when its value is known (any integer dtype): 1 = read, 0 = not known, -1 = more than `room` items. */
int infer_ints(const struct infer *c, uint32_t index, int64_t *items, size_t room, size_t *ret_count);
/* Notes that the rule wants the contents of input `index`; true when they are known. infer_ints asks by itself. */
bool infer_ask(const struct infer *c, uint32_t index);
enum pen_status infer_fail(const struct infer *c, struct pen_error *reterr, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct shape_env {
    const struct graph *g;
    struct fact *facts;                  /* [g->value_count] */
    struct graph_arena *arena;           /* folded data */
    uint64_t folded_bytes, folded_steps; /* spent so far */
    uint32_t values, nodes;              /* of the graph, inferred so far */
    uint32_t unfolded_nodes;             /* that there is no kernel for (evaluator.h) */
    enum op unfolded;                    /* the first of them */
    struct allowance
        *allowance; /* of what execs made from it take; NULL = the graph's limits alone. Borrowed while they are made */
};

#define INFER_FOLD_ELEMENTS 1024 /* values up to this size are evaluated during inference */

/*
 * Infers every value. `input_shapes`: one per graph input, or NULL to use the shapes in the graph (dynamic dims stay unknown). `input_data` may be NULL, or
 * hold known contents of some inputs (NULL entries = unknown). fold_all: evaluate also large values whose inputs are all constant (load-time folding).
 * Unresolvable dims stay unknown: not an error. Contradictions are, with the node's name.
 */
enum pen_status shape_env_new(const struct graph *g, const struct shape *input_shapes, const void *const *input_data,
                              bool fold_all, struct shape_env **ret_env, struct pen_error *reterr);
/*
 * For one bucket: nodes with small_only[node] are evaluated when their results are small, all others whatever their size (within limits.folded_bytes): a plan
 * was made on the understanding that they need not run. A table of positions is small for the few positions that a plan is tried with, not for many.
 */
enum pen_status shape_env_new_bucket(const struct graph *g, const struct shape *input_shapes, const bool *small_only,
                                     struct shape_env **ret_env, struct pen_error *reterr);
void shape_env_free(struct shape_env *env); /* NULL is fine */
/*
 * Catches up with a graph that is still being written: nodes appended since, each after what it reads. Facts stay those of the shapes in the graph. After a
 * failure the env is of no more use.
 */
enum pen_status shape_env_extend(struct shape_env *env, struct pen_error *reterr);

/*
 * False when everything that could be folded was. Else writes one sentence that says why nodes with known inputs were left: this build lacks their kernels,
 * or none are registered. Shapes that follow from their results are unknown.
 */
bool shape_env_unfolded(const struct shape_env *env, char *text, size_t bytes);

/* All outputs' values are known in this env: nothing to run. */
bool shape_env_folded(const struct shape_env *env, const struct node *n);

#endif
