/* numbers.h - a model whose numbers go wrong on demand: y = log(a) / b, z = a * 3 + b, all f32 [n]. */
#ifndef NUMBERS_H
#define NUMBERS_H

#include "written.h"

void numbers_open(struct written *w, const struct pen_engine_options *options);
/* Three elements: the last of them is `a` and `b`, the others are fine. */
enum pen_status numbers_run(struct written *w, float a, float b);

#endif
