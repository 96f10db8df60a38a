#include <string.h>

#include "backend/xnnpack/emitters.h"

/*
 * GatherND: of x [batch, positions..., inner] the pieces that tuples of `depth` indices name: y [batch, rows, inner]. Indices are checked on every run,
 * before anything is written.
 */
struct gather_nd {
    size_t batch, rows, depth, inner; /* rows: tuples of one batch entry; inner in bytes */
    int64_t dim[PEN_MAX_RANK];        /* [depth] */
    size_t step[PEN_MAX_RANK];        /* bytes */
    size_t batch_step;
    bool wide; /* indices are i64 */
};

static bool gather_nd_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *indices = node_in(g, n, 1);
    bool typed = x != NULL && pen_dtype_bits(x->dtype) >= 8 &&
                 (dtype_is(indices, PEN_DTYPE_I64) || dtype_is(indices, PEN_DTYPE_I32));
    if (!typed) {
        return refuse(ret_reason, "not for these types");
    }
    int64_t batch = node_int(n, ATTR_batch_dims, 0);
    return (batch >= 0 && indices->shape.rank > batch && x->shape.rank >= batch) ||
           refuse(ret_reason, "more batch dims than indices have");
}

static int64_t index_at(const struct gather_nd *q, const void *indices, size_t row, size_t d)
{
    size_t at = row * q->depth + d;
    int64_t v = q->wide ? ((const int64_t *)indices)[at] : ((const int32_t *)indices)[at];
    return v < 0 ? v + q->dim[d] : v;
}

static enum pen_status gather_nd_run(struct step *s, struct run *r)
{
    const struct gather_nd *q = s->state;
    const void *indices = s->in[1];
    for (size_t i = 0; i < q->batch * q->rows * q->depth; i++) {
        int64_t v = index_at(q, indices, i / q->depth, i % q->depth);
        if (v < 0 || v >= q->dim[i % q->depth]) {
            const int64_t dim = q->dim[i % q->depth];
            return pen_error_set(
                r->error, PEN_ERR_INVALID,
                "node %s (GatherND): index %lld (number %zu of tuple %zu) is outside of an axis of %lld", s->n->name,
                (long long)(v < 0 ? v - dim : v), i % q->depth, i / q->depth, (long long)dim);
        }
    }
    for (size_t row = 0; row < q->batch * q->rows; row++) {
        const uint8_t *x = (const uint8_t *)s->in[0] + row / q->rows * q->batch_step;
        for (size_t d = 0; d < q->depth; d++) {
            x += (size_t)index_at(q, indices, row, d) * q->step[d];
        }
        memcpy((uint8_t *)s->out[0] + row * q->inner, x, q->inner);
    }
    return PEN_OK;
}

static enum pen_status gather_nd_build(struct build *b)
{
    const struct fact *x = build_in(b, 0), *indices = build_in(b, 1);
    struct gather_nd *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    int32_t batch = (int32_t)node_int(b->n, ATTR_batch_dims, 0), tuple = indices->shape.rank - 1;
    int64_t depth = indices->shape.dim[tuple];
    if (depth < 1 || batch + depth > x->shape.rank) {
        return build_fail(b, PEN_ERR_SHAPE, "tuples of more indices than the data has dims");
    }
    *q = (struct gather_nd){.batch = 1, .rows = 1, .depth = (size_t)depth, .wide = indices->dtype == PEN_DTYPE_I64};
    q->inner = pen_dtype_bits(x->dtype) / 8;
    for (int32_t d = x->shape.rank - 1; d >= batch + (int32_t)depth; d--) {
        q->inner *= (size_t)x->shape.dim[d];
    }
    q->batch_step = q->inner;
    for (int32_t d = (int32_t)depth - 1; d >= 0; d--) {
        q->dim[d] = x->shape.dim[batch + d];
        q->step[d] = q->batch_step;
        q->batch_step *= (size_t)q->dim[d];
    }
    for (int32_t d = 0; d < tuple; d++) {
        *(d < batch ? &q->batch : &q->rows) *= (size_t)indices->shape.dim[d];
        if (d < batch && indices->shape.dim[d] != x->shape.dim[d]) {
            return build_fail(b, PEN_ERR_SHAPE, "batch dims of data and indices differ");
        }
    }
    size_t bytes = (size_t)shape_elements(&build_out(b, 0)->shape) * (pen_dtype_bits(x->dtype) / 8);
    if (bytes != q->batch * q->rows * q->inner) {
        return build_fail(b, PEN_ERR_SHAPE, "the result has another size");
    }
    b->step->state = q;
    b->step->run = gather_nd_run;
    return PEN_OK;
}

const struct emitter emit_gather_nd = {gather_nd_supports, NULL, gather_nd_build};
