/*
 * flow.h - finding the loops and branches of TensorFlow 1's control flow among the nodes, and looking at nodes again from a region.
 *
 * Threads: one-at-a-time.
 */
#ifndef TFJS_FLOW_H
#define TFJS_FLOW_H

#include "import/tfjs/reader.h"

/* ---- nodes and their inputs; NULL where there is none --------------------------------------------------------------------------------- */

const char *js_input_at(const struct gnode *n, int index);
struct gnode *js_node_of(const struct scope *s, const char *reference);
struct gnode *js_node_in(const struct scope *s, const struct gnode *n, int index);
bool js_is(const struct gnode *n, const char *op);
const char *js_frame_name(const struct gnode *enter, char *text, size_t bytes);
int js_merge_back(const struct scope *s,
                  const struct gnode *merge); /* input that comes from NextIteration; -1 = no loop's Merge */

struct loop_of {
    const struct gnode *cond; /* its LoopCond */
    char frame[200];
};
bool js_loop_find(const struct scope *s, const struct gnode *exit, struct loop_of *ret);
/* The region of a Merge's branches; the caller frees ret->inside. *yes: the input that is taken when the predicate is true. */
bool js_branch_find(struct scope *s, const struct gnode *merge, struct region *ret, int *ret_yes);

/* ---- scopes of regions -------------------------------------------------------------------------------------------------------------------- */

void js_scope_region_fini(struct scope *inner);
struct gnode *js_twin(const struct scope *inner, const struct scope *outer, const struct gnode *n);
void js_preset(struct scope *s, struct gnode *n, uint32_t value,
               uint32_t outs); /* the node is done, its outputs are this value */

#endif
