/*
 * rnn_bytes.h - products of recurrent cells whose data is rounded to bytes, by weights that are codes of 8 bits (codes.h): gates = scale * sum of bytes + bias.
 *
 * Threads: packed weights are shared by any; scratch belongs to one call.
 */
#ifndef XNNPACK_RNN_BYTES_H
#define XNNPACK_RNN_BYTES_H

#include "backend/xnnpack/codes.h"
#include "backend/xnnpack/rnn_any.h"

/* w: [directions, rows, k]. */
bool rnn_bytes_are(const struct value *w);
size_t rnn_bytes_packed(const struct value *w); /* of one direction; a multiple of 64 */
/* Direction d. False without memory. */
bool rnn_bytes_pack(const struct value *w, size_t d, uint8_t *to);

struct rnn_bytes {
    struct filter f;
    struct qdense dense;
};

/* x is [m, k], gates [m, rows]; bias a row for all, or gates itself with a stride of `rows`: what was there is added to. */
struct rnn_rows {
    const float *x, *bias;
    float *gates;
    size_t bias_stride;
};
void rnn_bytes_init(struct rnn_bytes *q, size_t m, size_t rows, size_t k, size_t threads);
size_t rnn_bytes_scratch(const struct rnn_bytes *q, size_t threads);
void rnn_bytes_run(const struct rnn_bytes *q, const uint8_t *packed, const struct rnn_rows *rows, uint8_t *scratch,
                   struct run *r);

#endif
