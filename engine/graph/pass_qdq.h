/*
 * pass_qdq.h - what the pass over quantised operators shares: the parameters of a tensor of bytes, and functions of one byte as tables.
 *
 * Threads: one-at-a-time.
 */
#ifndef PASS_QDQ_H
#define PASS_QDQ_H

#include "graph/pass_internal.h"

/* The parameters of a tensor: scale and zero point are constants of one element (per_channel: the scale may have more). */
struct params {
    uint32_t value, scale, zero; /* ids; value = the bytes */
    enum pen_dtype dtype;
    float step; /* the scale, of the first channel */
    int32_t point;
};

struct qdq {
    struct rewrite r;
    uint32_t count;
};

/* Gives p a zero point of one element where it has none, or several that are equal. False after a failure. */
bool qdq_fill_zero(struct qdq *q, struct params *p);
/* The bytes behind a float value that a DequantizeLinear makes. scales: how many the scale may have besides one. */
bool qdq_bytes_behind(struct qdq *q, uint32_t value, int64_t scales, struct params *ret);
/* A new node in the place of `last` (its QuantizeLinear), with the attributes of `from`. */
bool qdq_put(struct qdq *q, enum op op, uint32_t from, uint32_t last, const uint32_t *in, uint32_t in_count);
/* The bias as 32-bit sums: already so (scale = input scale * weight scale), or a float constant divided by that. VALUE_NONE: none is given. */
bool qdq_bias_sums(struct qdq *q, uint32_t bias, const struct params *x, const struct params *w, int64_t channels,
                   uint32_t *ret);
/* A ConvTranspose: a convolution whose channels are the phases of the stride. */
bool qdq_deconv(struct qdq *q, uint32_t node, uint32_t last, struct params *y);
/*
 * When what `last`, a QuantizeLinear, rounds are functions of the elements of one tensor of bytes, a table of the 256 results takes its place. False when
 * not.
 */
bool qdq_table(struct qdq *q, uint32_t last);
/* The same for quantised operators on bytes: sums and products of one tensor with itself, with its functions or with numbers, and functions in a row. */
void qdq_join_tables(struct qdq *q);

#endif
