/*
 * pass_internal.h - what passes share: a graph with its use lists and what inference knows about it.
 *
 * A pass never changes which values are the graph's inputs and outputs: names of the signature stay.
 * Threads: one-at-a-time.
 */
#ifndef PASS_INTERNAL_H
#define PASS_INTERNAL_H

#include "graph/infer.h"
#include "graph/internal.h"
#include "graph/pass.h"

struct rewrite {
    struct graph *g;
    struct uses uses;
    struct shape_env *env;  /* facts of the values that were there when the pass began */
    bool *is_output;        /* [values at the beginning] */
    uint32_t value_count;   /* at the beginning */
    enum pen_status status; /* latches the first failure */
};

/* fold_all as in shape_env_new. */
enum pen_status rewrite_init(struct rewrite *r, struct graph *g, bool fold_all, struct pen_error *reterr);
void rewrite_fini(struct rewrite *r);

bool rewrite_is_output(const struct rewrite *r, uint32_t value);
/* What is known about a value: unknown for VALUE_NONE and values made by the pass itself without facts. */
const struct fact *rewrite_fact(const struct rewrite *r, uint32_t value);
/* The live node that makes a value, NULL when none. */
struct node *rewrite_maker(const struct rewrite *r, uint32_t value);
/* The maker when its operator is `op` and the value is used once, by its reader. NULL otherwise. */
struct node *rewrite_only_maker(const struct rewrite *r, uint32_t value, enum op op);
/* f32 constant with `count` items (0 = any), NULL otherwise. */
const float *rewrite_floats(const struct rewrite *r, uint32_t value, int64_t count);
/* The single item of a constant of any shape with one element, of dtype f32. */
bool rewrite_scalar(const struct rewrite *r, uint32_t value, float *ret);

/* `node` disappears: whoever reads out[0] reads `in` instead. False when the signature forbids it. */
bool rewrite_bypass(struct rewrite *r, uint32_t node, uint32_t in);
/* `node` takes over output 0 of `last`, which disappears; `last` must be the only reader of node's output 0. */
void rewrite_absorb(struct rewrite *r, uint32_t node, uint32_t last);
/* Appends a node with one fresh output; gives the value. */
uint32_t rewrite_node(struct rewrite *r, enum op op, const char *name, const uint32_t *in, uint32_t in_count);
/* Marks the change failed; gives false. */
bool rewrite_failed(struct rewrite *r, enum pen_status status);

/* pass_unroll.c: how many turns of this node would be written out, given the facts of the graph's values; 0: none. */
int64_t unroll_turns(const struct graph *g, const struct node *n, const struct fact *facts);
/* simplify_sequence.c: an element of a sequence, or its elements side by side, without the sequence. True when it was done. */
bool simplify_sequence(struct rewrite *r, uint32_t node);
/* pass_simplify.c: Reshape, Squeeze, Unsqueeze or Flatten. */
bool rewrite_is_view(const struct node *n);
/* Views of views, no-ops, casts whose target is known. *ret_count grows by the nodes removed. */
void simplify(struct rewrite *r, uint32_t *ret_count);

#endif
