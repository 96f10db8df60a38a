#include "backend/xnnpack/rnn_bytes.h"

#include <math.h>
#include <string.h>

#include "backend/xnnpack/isa.h"

static struct filter matrix(size_t rows, size_t k)
{
    return (struct filter){
        .groups = 1, .out = rows, .in = k, .kernel_h = 1, .kernel_w = 1, .out_step = k, .in_step = 1, .kernel = {1, 1}};
}

/* Scales of direction d, and how many. Weights say one of all, one of each direction, or one of each row of the only direction. */
static const float *scales_of(const struct value *w, size_t d, size_t *ret_count)
{
    const struct quant *q = &w->quant;
    const bool rows = q->axis == 1 && w->shape.dim[0] == 1;
    *ret_count = q->count > 1 && rows ? q->count : 1;
    return q->scale + (q->count > 1 && !rows ? d : 0);
}

bool rnn_bytes_are(const struct value *w)
{
    if (w == NULL || w->data == NULL || w->quant.count == 0 || w->shape.rank != 3) {
        return false;
    }
    const size_t directions = (size_t)w->shape.dim[0], rows = (size_t)w->shape.dim[1], k = (size_t)w->shape.dim[2];
    const struct filter f = matrix(rows, k);
    bool good = k <= QDENSE_K_MAX && (w->quant.count == 1 || (w->quant.axis == 0 && w->quant.count == directions) ||
                                      (w->quant.axis == 1 && directions == 1 && w->quant.count == rows));
    for (size_t d = 0; d < directions && good; d++) {
        size_t count;
        const float *scales = scales_of(w, d, &count);
        good = codes_are(&f, (const float *)w->data + d * rows * k, scales, count);
    }
    return good;
}

size_t rnn_bytes_packed(const struct value *w)
{
    const struct filter f = matrix((size_t)w->shape.dim[1], (size_t)w->shape.dim[2]);
    return qdense_packed_bytes(&f);
}

bool rnn_bytes_pack(const struct value *w, size_t d, uint8_t *to)
{
    const size_t rows = (size_t)w->shape.dim[1], k = (size_t)w->shape.dim[2];
    const struct filter f = matrix(rows, k);
    size_t count;
    const float *scales = scales_of(w, d, &count);
    return codes_pack(&f, (const float *)w->data + d * rows * k, scales, count, to);
}

void rnn_bytes_init(struct rnn_bytes *q, size_t m, size_t rows, size_t k, size_t threads)
{
    const struct dense_image image = dense_image_of_rows(m, k, k);
    const uint8_t zero = 0;
    const struct qparams p = {
        .x_dtype = PEN_DTYPE_U8, .w_dtype = PEN_DTYPE_I8, .y_dtype = PEN_DTYPE_F32, .x_zero = &zero};
    q->f = matrix(rows, k);
    qdense_init(&q->dense, &image, &q->f, threads);
    qdense_zeros(&q->dense, &p);
}

static size_t bytes_of(const struct rnn_bytes *q)
{
    return (q->dense.m * q->dense.k + 127) / 64 * 64;
}

size_t rnn_bytes_scratch(const struct rnn_bytes *q, size_t threads)
{
    return bytes_of(q) + qdense_scratch_bytes(&q->dense, threads);
}

void rnn_bytes_run(const struct rnn_bytes *q, const uint8_t *packed, const struct rnn_rows *rows, uint8_t *scratch,
                   struct run *r)
{
    struct qdense dense = q->dense;
    struct rnn_range range = {0.0f, 0.0f};
    rnn_range_add(&range, rows->x, dense.m * dense.k);
    const struct rnn_steps steps = rnn_range_steps(&range);
    if (!(steps.scale > 0.0f)) {
        for (size_t i = 0; i < dense.m; i++) {
            memmove(rows->gates + i * q->f.out, rows->bias + i * rows->bias_stride, q->f.out * sizeof(float));
        }
        return;
    }
    const int32_t zero = (int32_t)steps.zero;
    const struct qfloats floats = {.x_scale = &steps.scale,
                                   .x_zero = &zero,
                                   .bias = rows->bias,
                                   .bias_stride = rows->bias_stride,
                                   .min = -INFINITY,
                                   .max = INFINITY};
    const struct qweights w = qdense_group(&q->f, packed, 0);
    isa_int()->quantise(rows->x, steps.scale, -steps.zero, 255.0f - steps.zero, zero, scratch, dense.m * dense.k);
    dense.floats = &floats;
    qdense_run(&dense, &w, scratch, rows->gates, scratch + bytes_of(q), r);
}
