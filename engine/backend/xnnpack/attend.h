/*
 * attend.h - the inner part of attention: y = softmax(cap(scale * q k^T) + bias) v, one row of scores at a time.
 *
 * Threads: a call uses the run's team; the struct is read only.
 */
#ifndef XNNPACK_ATTEND_H
#define XNNPACK_ATTEND_H

#include "backend/xnnpack/emit.h"

/* Rows of one head of one batch entry: element (t, i) is at batch * batch_stride + head * head_stride + t * row + i. */
struct attend_side {
    size_t heads, length, size;
    size_t batch_stride, head_stride, row;
};

/* [batch, heads, length, size], or [batch, length, heads * size] when the rank is 3. False when the heads do not divide the rows. */
bool attend_side_init(struct attend_side *s, const struct shape *shape, int64_t heads);

enum attend_mask { ATTEND_MASK_NONE = 0, ATTEND_MASK_F32, ATTEND_MASK_BOOL };
enum attend_stage { ATTEND_RAW = 0, ATTEND_CAPPED, ATTEND_BIASED, ATTEND_SHARES };

struct attend {
    size_t batch;
    struct attend_side q, k, v, y;
    float scale, softcap; /* softcap 0 = none */
    bool causal;
    int64_t causal_offset; /* query i sees keys j <= i + offset */
    int64_t window;        /* with causal: keys that a query sees, the last one included; 0 = all before it */
    bool smooth;           /* one more score that no key has */
    enum attend_mask mask;
    size_t mask_step[4]; /* elements, of batch, head, query, key; 0 = broadcast */
    size_t mask_keys;    /* keys that the mask has a value for; the others are hidden */
    float mask_false;    /* added where a bool mask is false */
    enum attend_stage stage;
    size_t units; /* of work; each has a row of scores in scratch */
};

struct attend_data {
    const float *q, *k, *v;
    const void *mask;
    const int64_t *valid;  /* [batch] keys that count; NULL = all */
    const int64_t *offset; /* [batch] instead of causal_offset; NULL = that */
    const float *sinks;    /* [heads] with smooth: that score; NULL = 0 */
    float *y;
    float *scores; /* [batch, heads, queries, keys] at the stage; NULL = not wanted */
};

/* The mask's shape against [batch, heads, queries, keys]; false when it does not broadcast. */
bool attend_mask_init(struct attend *a, const struct shape *mask, bool boolean);
/* Checks that the sides fit each other and settles the units. */
bool attend_init(struct attend *a, size_t threads);
size_t attend_scratch_bytes(const struct attend *a);
void attend_run(const struct attend *a, const struct attend_data *data, void *scratch, struct run *r);

#endif
