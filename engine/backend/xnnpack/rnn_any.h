/*
 * rnn_any.h - RNN, GRU and LSTM with everything the standard allows: computed weights, lengths, peepholes, clipping, batch first, any activation.
 *
 * One sequence of one direction is one unit of work; products are dot products with rows of the weights as they lie in the model. emit_rnn.c is the
 * faster way for the common form.
 * Threads: as emit.h says.
 */
#ifndef XNNPACK_RNN_ANY_H
#define XNNPACK_RNN_ANY_H

#include "backend/xnnpack/emit.h"

bool rnn_any_supports(const struct graph *g, const struct node *n, const char **ret_reason);
enum pen_status rnn_any_build(struct build *b);

/* The range of a state, and of 0. Begins as zeros. */
struct rnn_range {
    float low, high;
};
/* The 256 steps over a range, and which of them is 0, as DynamicQuantizeLinear has them. scale 0: the range is 0 alone. */
struct rnn_steps {
    float scale, zero;
};
struct rnn_steps rnn_range_steps(const struct rnn_range *r);
void rnn_range_add(struct rnn_range *r, const float *x, size_t n);
/* x to bytes over the range and back: DynamicQuantizeLinear. */
void rnn_range_round(const struct rnn_range *r, float *x, size_t n);

#endif
