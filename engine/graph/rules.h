/*
 * rules.h - the shape rules named in op.def. A rule reads infer.in, writes infer.out, and fails only on a contradiction: what it cannot know stays unknown.
 *
 * Threads: any (pure functions).
 */
#ifndef RULES_H
#define RULES_H

#include "graph/infer.h"

typedef enum pen_status infer_rule(struct infer *c, struct pen_error *reterr);
infer_rule *infer_rule_of(enum op op); /* never NULL */

enum pen_status infer_unknown(struct infer *c, struct pen_error *reterr); /* nothing is known before the run */

/* Shapes of the inputs of a Loop's or Scan's body that hold on every turn (ret_shapes: one per input); false when they cannot be told. */
bool control_body_shapes(const struct infer *c, struct shape *ret_shapes);

#define OP(name, min_in, max_in, min_out, max_out, rule, traits)                                                       \
    enum pen_status rule(struct infer *c, struct pen_error *reterr);
#include "graph/op.def"
#undef OP

#endif
