/*
 * layout.h - turns spatial operators to channels-last: each value may have a twin, the same data as N, spatial..., C.
 *
 * A node that is turned writes the twin of its output; the output itself is then lazy, made from the twin only when somebody needs it. So
 * transposes stand at the edges, and those of the file vanish where they were the way from or to a twin.
 * Threads: one-at-a-time.
 */
#ifndef LAYOUT_PASS_H
#define LAYOUT_PASS_H

#include "graph/pass_internal.h"

struct turner {
    struct rewrite r;
    uint32_t *twin;          /* [value_count at the beginning] VALUE_NONE = none */
    bool *lazy;              /* nobody computes the value any more; its twin does */
    uint32_t added, removed; /* transposes */
};

/* Axis `axis` of a tensor of this rank in its twin. */
int32_t twin_axis(int32_t axis, int32_t rank);
/* perm[i] of the Transpose that makes the twin, or goes back. */
void perm_to_twin(int32_t rank, int64_t *perm);
void perm_from_twin(int32_t rank, int64_t *perm);

int32_t turn_rank(const struct turner *t, uint32_t value); /* SHAPE_RANK_UNKNOWN when not known */
bool has_twin(const struct turner *t, uint32_t value);
/* The twin, made if need be: a rearranged constant, or a Transpose. `rank`: a constant of lower rank gets leading ones. VALUE_NONE on failure. */
uint32_t need_twin(struct turner *t, uint32_t value, int32_t rank);
/* The value itself is computed again if it was lazy. */
void need_original(struct turner *t, uint32_t value);
/* Output `index` of the node is the twin of what it was. */
void output_twin(struct turner *t, uint32_t node, uint32_t index);
void set_input(struct turner *t, uint32_t node, uint32_t input, uint32_t value);
void turn_failed(struct turner *t, enum pen_status status);

bool turnable(int32_t rank);                           /* images and volumes: what is turned at all */
struct node *turn_at(struct turner *t, uint32_t node); /* borrowed until a node is added */
void turn_outputs(struct turner *t, uint32_t node);    /* output_twin of all */

/* layout_ops.c: tries to turn the node; false: it needs its inputs as they were. */
bool turn_node(struct turner *t, uint32_t node);
/* layout_lists.c: the same for operators with lists of axes. */
bool turn_reduce(struct turner *t, uint32_t node);
bool turn_slice(struct turner *t, uint32_t node);
bool turn_pad(struct turner *t, uint32_t node);
bool turn_resize(struct turner *t, uint32_t node);
/* layout_shuffle.c: the same for the first Reshape of a channel shuffle. */
bool turn_shuffle(struct turner *t, uint32_t node);

#endif
