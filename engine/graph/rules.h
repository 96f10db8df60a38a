/*
 * rules.h - the shape rules named in op.def. A rule reads infer.in, writes infer.out, and fails only on a contradiction: what it cannot know stays unknown.
 *
 * Threads: any (pure functions).
 */
#ifndef RULES_H
#define RULES_H

#include "graph/infer.h"

enum pen_status infer_unknown(struct infer *c, struct pen_error *reterr); /* nothing is known before the run */

#define OP(name, min_in, max_in, min_out, max_out, rule, traits)                                                       \
    enum pen_status rule(struct infer *c, struct pen_error *reterr);
#include "graph/op.def"
#undef OP

#endif
