#include <string.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/onehot.h"

/* OneHot: y is [outer, depth, inner], indices [outer, inner]; an index outside of the depth makes a row of off values. Values are 1 to 8 bytes each. */
struct one_hot {
    size_t outer, depth, inner, size;
    enum pen_dtype dtype;
};

static bool one_hot_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *indices = node_in(g, n, 0), *values = node_in(g, n, 2);
    unsigned bits = values != NULL ? pen_dtype_bits(values->dtype) : 0;
    bool read =
        dtype_is(indices, PEN_DTYPE_I64) || dtype_is(indices, PEN_DTYPE_I32) || dtype_is(indices, PEN_DTYPE_F32);
    if (!read || bits < 8 || bits > 64) {
        return refuse(ret_reason, "not for these types");
    }
    return shape_axis(node_int(n, ATTR_axis, -1), indices->shape.rank + 1) >= 0 ||
           refuse(ret_reason, "axis out of range");
}

size_t one_hot_row(enum pen_dtype dtype, const void *indices, size_t i, size_t rows)
{
    int64_t depth = (int64_t)rows, v = depth;
    if (dtype == PEN_DTYPE_F32) {
        float f = ((const float *)indices)[i];
        v = f > -(float)depth - 1.0f && f < (float)depth ? (int64_t)f : depth; /* towards zero */
    } else {
        v = dtype == PEN_DTYPE_I64 ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
    }
    v = v < 0 && v >= -depth ? v + depth : v;
    return v >= 0 && v < depth ? (size_t)v : rows;
}

struct one_hot_job {
    const struct one_hot *q;
    const void *indices;
    const uint8_t *values; /* off, on */
    uint8_t *y;
};

static void one_hot_task(void *context, size_t o)
{
    const struct one_hot_job *j = context;
    const struct one_hot *q = j->q;
    uint8_t *y = j->y + o * q->depth * q->inner * q->size;
    for (size_t i = 0; i < q->depth * q->inner; i++) {
        memcpy(y + i * q->size, j->values, q->size);
    }
    for (size_t i = 0; i < q->inner; i++) {
        size_t at = one_hot_row(q->dtype, j->indices, o * q->inner + i, q->depth);
        if (at < q->depth) {
            memcpy(y + (at * q->inner + i) * q->size, j->values + q->size, q->size);
        }
    }
}

static enum pen_status one_hot_run(struct step *s, struct run *r)
{
    const struct one_hot *q = s->state;
    struct one_hot_job j = {q, s->in[0], s->in[2], s->out[0]};
    parallel(r, one_hot_task, &j, q->outer);
    return PEN_OK;
}

static enum pen_status one_hot_build(struct build *b)
{
    const struct fact *indices = build_in(b, 0), *values = build_in(b, 2);
    const struct shape *y = &build_out(b, 0)->shape;
    struct one_hot *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, -1), y->rank);
    q->outer = q->inner = 1;
    for (int32_t d = 0; d < y->rank; d++) {
        if (d != axis) {
            *(d < axis ? &q->outer : &q->inner) *= (size_t)y->dim[d];
        }
    }
    if (axis < 0 || y->rank != indices->shape.rank + 1 ||
        shape_elements(&indices->shape) != (int64_t)(q->outer * q->inner) || shape_elements(&values->shape) != 2) {
        return build_fail(b, PEN_ERR_SHAPE, "indices, values and result do not fit each other");
    }
    q->depth = (size_t)y->dim[axis];
    q->size = pen_dtype_bits(values->dtype) / 8;
    q->dtype = indices->dtype;
    b->step->state = q;
    b->step->run = one_hot_run;
    return PEN_OK;
}

const struct emitter emit_one_hot = {one_hot_supports, NULL, one_hot_build};
