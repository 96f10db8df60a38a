#include <string.h>

#include "backend/xnnpack/emitters.h"

/* Gather: x is [outer, axis, inner], y is [outer, indices, inner]. Indices are checked on every run. */
struct gather {
    size_t outer, axis, inner, count; /* inner in bytes; in elements when bits is not 0 */
    size_t bits;                      /* of elements that do not fill bytes, else 0 */
    bool wide;                        /* indices are i64 */
};

struct gather_job {
    const struct gather *q;
    const uint8_t *x;
    const void *indices;
    uint8_t *y;
    size_t unit_rows;
};

static bool gather_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *indices = node_in(g, n, 1);
    if (x == NULL || (!dtype_is(indices, PEN_DTYPE_I64) && !dtype_is(indices, PEN_DTYPE_I32))) {
        return refuse(ret_reason, "not for these types");
    }
    return (x->shape.rank > 0 && shape_axis(node_int(n, ATTR_axis, 0), x->shape.rank) >= 0) ||
           refuse(ret_reason, "axis out of range");
}

static int64_t index_at(const struct gather *q, const void *indices, size_t i)
{
    int64_t v = q->wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
    return v < 0 ? v + (int64_t)q->axis : v;
}

/* Elements of less than a byte, one by one: the results of one index begin within a byte. */
static void bits_copy(const struct gather_job *j)
{
    const struct gather *q = j->q;
    memset(j->y, 0, (q->outer * q->count * q->inner * q->bits + 7) / 8);
    for (size_t i = 0; i < q->outer * q->count * q->inner; i++) {
        size_t row = i / q->inner, at = (size_t)index_at(q, j->indices, row % q->count);
        size_t from = ((row / q->count * q->axis + at) * q->inner + i % q->inner) * q->bits, to = i * q->bits;
        unsigned item = (unsigned)j->x[from / 8] >> (from % 8) & ((1u << q->bits) - 1u);
        j->y[to / 8] = (uint8_t)(j->y[to / 8] | item << (to % 8));
    }
}

static void gather_task(void *context, size_t unit)
{
    const struct gather_job *j = context;
    const struct gather *q = j->q;
    for (size_t row = unit * j->unit_rows; row < (unit + 1) * j->unit_rows && row < q->outer * q->count; row++) {
        size_t o = row / q->count, at = (size_t)index_at(q, j->indices, row % q->count);
        memcpy(j->y + row * q->inner, j->x + (o * q->axis + at) * q->inner, q->inner);
    }
}

static enum pen_status gather_run(struct step *s, struct run *r)
{
    const struct gather *q = s->state;
    for (size_t i = 0; i < q->count; i++) {
        int64_t v = index_at(q, s->in[1], i);
        if (v < 0 || v >= (int64_t)q->axis) {
            return pen_error_set(r->error, PEN_ERR_INVALID,
                                 "node %s (Gather): index %lld (number %zu of them) is outside of an axis of %zu",
                                 s->n->name, (long long)(v < 0 ? v - (int64_t)q->axis : v), i, q->axis);
        }
    }
    struct gather_job j = {q, s->in[0], s->in[1], s->out[0], 65536 / (q->inner + 1) + 1};
    if (q->bits > 0) {
        bits_copy(&j);
        return PEN_OK;
    }
    parallel(r, gather_task, &j, (q->outer * q->count + j.unit_rows - 1) / j.unit_rows);
    return PEN_OK;
}

static enum pen_status gather_build(struct build *b)
{
    const struct fact *x = build_in(b, 0), *indices = build_in(b, 1);
    struct gather *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, 0), x->shape.rank);
    size_t bits = pen_dtype_bits(x->dtype), elements = 1;
    q->outer = 1;
    for (int32_t d = 0; d < axis; d++) {
        q->outer *= (size_t)x->shape.dim[d];
    }
    for (int32_t d = axis + 1; d < x->shape.rank; d++) {
        elements *= (size_t)x->shape.dim[d];
    }
    q->axis = (size_t)x->shape.dim[axis];
    q->bits = bits < 8 && elements * bits % 8 != 0 ? bits : 0;
    q->inner = q->bits > 0 ? elements : elements * bits / 8;
    q->count = (size_t)shape_elements(&indices->shape);
    q->wide = indices->dtype == PEN_DTYPE_I64;
    if (shape_elements(&build_out(b, 0)->shape) != (int64_t)(q->outer * q->count * elements)) {
        return build_fail(b, PEN_ERR_SHAPE, "the result has another size");
    }
    b->step->state = q;
    b->step->run = gather_run;
    return PEN_OK;
}

const struct emitter emit_gather = {gather_supports, NULL, gather_build};
