/*
 * specialise.h - what decides a graph's structure beyond the dims that inference follows: small inputs (axes, sizes, lengths and scales that a model takes as
 * data), and the shapes of inputs where branches or ranks depend on them.
 *
 * A shape rule that wants a value it cannot know says so (infer_ask); what it wants is followed back through small arithmetic to graph inputs.
 * With such inputs known, the graph is an ordinary static one (run/variant.h).
 * Threads: any.
 */
#ifndef SPECIALISE_H
#define SPECIALISE_H

#include "graph/infer.h"

#define SPECIALISE_ELEMENTS 64 /* an input with more elements is data, not a parameter */

struct specialise {
    bool *input;    /* [g->input_count] its contents decide shapes */
    bool *node;     /* [g->node_count] comes after such an input */
    uint32_t count; /* of such inputs */
    bool shapes;    /* shapes of inputs settle an If or a rank that is open while dims are dynamic */
};

/* Something would become known. */
static inline bool specialise_useful(const struct specialise *s)
{
    return s->count > 0 || s->shapes;
}

/* Cheap: there is an input small enough to be a parameter, a branch, or a rank that is not known. */
bool specialise_possible(const struct graph *g);
/* env: of plausible input shapes (trial_env_new). Nothing is useful when every shape is known anyhow. Fini with specialise_fini. */
enum pen_status specialise_find(const struct graph *g, const struct shape_env *env, struct specialise *ret_found);
void specialise_fini(struct specialise *s);

/*
 * Puts constants in the place of the inputs that decide: data[i] and shapes[i] of graph input i, copied. The inputs stay in the graph's list, unused.
 * Where shapes decide, those of the other tensors are fixed.
 */
enum pen_status specialise_apply(struct graph *g, const struct specialise *found, const struct shape *shapes,
                                 const void *const *data);

#endif
