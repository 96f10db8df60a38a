#include "backend/reference/broadcast.h"

#include <string.h>

static void input_strides(struct broadcast_input *in, const struct rt_value *v, const struct shape *out)
{
    int64_t own[PEN_MAX_RANK];
    in->v = v;
    dims_strides(&v->shape, own);
    for (int32_t d = 0; d < out->rank; d++) {
        int32_t e = d - (out->rank - v->shape.rank);
        in->stride[d] = e < 0 || v->shape.dim[e] == 1 ? 0 : own[e];
    }
}

/* Drops dims of size 1 and joins neighbours that every input walks without a gap. */
static void merge(struct broadcast *b)
{
    struct shape *m = &b->merged;
    m->rank = 0;
    for (int32_t d = 0; d < b->shape.rank; d++) {
        int64_t dim = b->shape.dim[d];
        if (dim == 1) {
            continue;
        }
        bool join = m->rank > 0;
        for (uint32_t i = 0; i < b->count && join; i++) {
            join = b->in[i].stride[m->rank - 1] == b->in[i].stride[d] * dim;
        }
        int32_t at = join ? m->rank - 1 : m->rank++;
        m->dim[at] = join ? m->dim[at] * dim : dim;
        for (uint32_t i = 0; i < b->count; i++) {
            b->in[i].stride[at] = b->in[i].stride[d];
        }
    }
    if (m->rank == 0) {
        m->rank = 1;
        m->dim[0] = 1;
        for (uint32_t i = 0; i < b->count; i++) {
            b->in[i].stride[0] = 0;
        }
    }
}

enum pen_status broadcast_init(struct kernel_call *k, uint32_t first, uint32_t count, struct broadcast *b)
{
    memset(b, 0, sizeof *b);
    b->count = count;
    b->in = kernel_scratch(k, count * sizeof *b->in);
    if (b->in == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room to broadcast %u inputs", count);
    }
    memset(b->in, 0, count * sizeof *b->in);
    b->shape = k->in[first].shape;
    for (uint32_t i = 1; i < count; i++) {
        struct shape joined;
        if (!shape_broadcast(&b->shape, &k->in[first + i].shape, &joined)) {
            char x[96], y[96];
            return kernel_fail(k, PEN_ERR_SHAPE, "shapes %s and %s do not broadcast",
                               shape_text(&b->shape, x, sizeof x), shape_text(&k->in[first + i].shape, y, sizeof y));
        }
        b->shape = joined;
    }
    for (uint32_t i = 0; i < count; i++) {
        input_strides(&b->in[i], &k->in[first + i], &b->shape);
    }
    b->total = shape_elements(&b->shape);
    merge(b);
    return PEN_OK;
}

bool broadcast_next(struct broadcast *b, int64_t *ret_first, int64_t *ret_count)
{
    int32_t last = b->merged.rank - 1;
    if (b->at >= b->total) {
        return false;
    }
    int64_t left = b->merged.dim[last] - b->index[last];
    int64_t n = left < ELEMENT_BLOCK ? left : ELEMENT_BLOCK;
    for (uint32_t i = 0; i < b->count; i++) {
        b->in[i].step = b->in[i].stride[last];
        b->in[i].offset = 0;
        for (int32_t d = 0; d <= last; d++) {
            b->in[i].offset += b->index[d] * b->in[i].stride[d];
        }
    }
    *ret_first = b->at;
    *ret_count = n;
    b->at += n;
    b->index[last] += n;
    for (int32_t d = last; d > 0 && b->index[d] == b->merged.dim[d]; d--) {
        b->index[d] = 0;
        b->index[d - 1]++;
    }
    return true;
}
