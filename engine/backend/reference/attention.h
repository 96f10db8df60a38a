/*
 * attention.h - scaled dot-product attention over heads, for Attention, MultiHeadAttention and com.microsoft's Attention.
 *
 * Threads: any.
 */
#ifndef ATTENTION_H
#define ATTENTION_H

#include "backend/reference/kernels.h"

/* Rows of one head of one batch entry: element (t, i) is at batch * batch_stride + head * head_stride + t * row + i. */
struct heads {
    const double *items;
    int64_t heads, length, size;
    int64_t batch_stride, head_stride, row;
};

/* Reads a [batch, heads, length, size] or [batch, length, heads * size] tensor. */
void heads_of(const double *items, const struct shape *s, int64_t heads, struct heads *ret);

struct attention {
    int64_t batch;
    struct heads q, k, v;
    double scale, softcap;
    bool causal;
    int64_t causal_offset;       /* query i sees keys j <= i + offset */
    const int64_t *valid;        /* [batch] keys that count, or NULL */
    const struct rt_value *mask; /* broadcast to [batch, heads, queries, keys] (the last dim may be shorter), or NULL */
    double mask_false;           /* added where a bool mask is false */
    int64_t
        scores_stage; /* which scores the caller wants: 0 raw, 1 after the cap, 2 after the bias, 3 probabilities; -1 none */
    struct rt_value *scores; /* [batch, heads, queries, keys] */
    struct rt_value *y;      /* written through y_at */
    struct heads y_at;       /* items unused */
};

enum pen_status attention_run(struct kernel_call *k, const struct attention *a);

#endif
