/*
 * forms.h - which loop of own.h an element-wise operator is, and with which parameters.
 *
 * Threads: any (pure).
 */
#ifndef XNNPACK_FORMS_H
#define XNNPACK_FORMS_H

#include "backend/xnnpack/own.h"
#include "graph/infer.h"

struct unary_form {
    enum unary_fn fn; /* UNARY_NONE: it is none */
    float a, b;
    bool limits; /* Clip: a and b come from inputs 1 and 2 */
};

struct unary_form unary_form_of(const struct node *n);
/* The same with the limits of a Clip; false when it is no such function, or its limits are not known. */
bool unary_form_known(const struct shape_env *env, const struct node *n, struct unary_form *ret_form);
/* One of two operands, or of several in turn. */
bool binary_fn_of(const struct node *n, enum binary_fn *ret_fn);

#endif
