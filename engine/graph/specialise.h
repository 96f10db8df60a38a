/*
 * specialise.h - which small inputs decide a graph's shapes: axes, sizes, lengths and scales that a model takes as data.
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
    uint32_t count; /* of such inputs; 0 = nothing would become known */
};

/* Cheap: there is an input small enough to be a parameter. */
bool specialise_possible(const struct graph *g);
/* env: of plausible input shapes (trial_env_new). count is 0 also when every shape is known without them. Fini with specialise_fini. */
enum pen_status specialise_find(const struct graph *g, const struct shape_env *env, struct specialise *ret_found);
void specialise_fini(struct specialise *s);

/* Puts constants in the place of the inputs that decide: data[i] and shapes[i] of graph input i, copied. The inputs stay in the graph's list, unused. */
enum pen_status specialise_apply(struct graph *g, const bool *input, const struct shape *shapes,
                                 const void *const *data);

#endif
