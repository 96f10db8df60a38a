#include <inttypes.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"

/*
 * ScatterElements and ScatterND: y is a copy of x, then updates are put where indices say, in their order (a place may be written twice). Any type of
 * whole bytes; sums, products, maxima and minima of f32, i32 and i64. Indices are checked on every run.
 */
enum scatter_how { SCATTER_PUT, SCATTER_ADD, SCATTER_MUL, SCATTER_MAX, SCATTER_MIN };

struct scatter {
    enum scatter_how how;
    enum pen_dtype dtype;
    bool wide, by_tuple;
    struct shape x, index; /* of the indices */
    int64_t step[PEN_MAX_RANK];
    int32_t axis, depth;            /* depth: length of a tuple of ScatterND */
    size_t size, bytes, count, run; /* count of updates, each of `run` elements */
};

static bool scatter_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *index = node_in(g, n, 1), *updates = node_in(g, n, 2);
    bool number = dtype_is(x, PEN_DTYPE_F32) || dtype_is(x, PEN_DTYPE_I32) || dtype_is(x, PEN_DTYPE_I64);
    bool fits = x != NULL && pen_dtype_bits(x->dtype) >= 8 && dtype_is(updates, x->dtype) &&
                (dtype_is(index, PEN_DTYPE_I64) || dtype_is(index, PEN_DTYPE_I32)) &&
                (number || node_text_is(n, ATTR_reduction, "none", true));
    if (!fits) {
        return refuse(ret_reason, "not for these types");
    }
    bool ranks = n->op == OP_ScatterND ? index->shape.rank >= 1
                                       : x->shape.rank > 0 && index->shape.rank == x->shape.rank &&
                                             shape_axis(node_int(n, ATTR_axis, 0), x->shape.rank) >= 0;
    return ranks || refuse(ret_reason, "ranks or axis that do not fit");
}

#define COMBINE(type, wide_type)                                                                                       \
    {                                                                                                                  \
        type *to = (type *)y, from = *(const type *)u;                                                                 \
        *to = how == SCATTER_ADD   ? (type)((wide_type)*to + (wide_type)from)                                          \
              : how == SCATTER_MUL ? (type)((wide_type)*to * (wide_type)from)                                          \
              : how == SCATTER_MAX ? (from > *to ? from : *to)                                                         \
                                   : (from < *to ? from : *to);                                                        \
    }                                                                                                                  \
    break

static void combine(enum scatter_how how, enum pen_dtype dtype, void *y, const void *u)
{
    switch (dtype) {
    case PEN_DTYPE_F32:
        COMBINE(float, float);
    case PEN_DTYPE_I32:
        COMBINE(int32_t, uint32_t);
    default:
        COMBINE(int64_t, uint64_t);
    }
}

static int64_t index_at(const struct scatter *q, const void *indices, size_t i, int64_t dim)
{
    int64_t v = q->wide ? ((const int64_t *)indices)[i] : ((const int32_t *)indices)[i];
    v += v < 0 ? dim : 0;
    return v >= 0 && v < dim ? v : -1;
}

/* Where update `i` goes, -1 when an index is outside. at: the coordinates of element i of the indices (ScatterElements). */
static int64_t place_of(const struct scatter *q, const void *indices, size_t i, const int64_t *at)
{
    int64_t to = 0;
    for (int32_t d = 0; q->by_tuple && d < q->depth; d++) {
        int64_t v = index_at(q, indices, i * (size_t)q->depth + (size_t)d, q->x.dim[d]);
        if (v < 0) {
            return -1;
        }
        to += v * q->step[d];
    }
    for (int32_t d = 0; !q->by_tuple && d < q->x.rank; d++) {
        int64_t v = d == q->axis ? index_at(q, indices, i, q->x.dim[d]) : at[d];
        if (v < 0) {
            return -1;
        }
        to += v * q->step[d];
    }
    return to;
}

static enum pen_status scatter_run(struct step *s, struct run *r)
{
    const struct scatter *q = s->state;
    uint8_t *y = s->out[0];
    const uint8_t *updates = s->in[2];
    int64_t at[PEN_MAX_RANK] = {0};
    if (y != s->in[0]) {
        memcpy(y, s->in[0], q->bytes);
    }
    for (size_t i = 0; i < q->count; i++) {
        int64_t to = place_of(q, s->in[1], i, at);
        if (to < 0) {
            return pen_error_set(r->error, PEN_ERR_INVALID,
                                 "xnnpack: node %s: an index of update %zu is outside of the data", s->n->name, i);
        }
        const uint8_t *from = updates + i * q->run * q->size;
        uint8_t *place = y + (size_t)to * q->size;
        if (q->how == SCATTER_PUT) {
            memcpy(place, from, q->run * q->size);
        }
        for (size_t k = 0; q->how != SCATTER_PUT && k < q->run; k++) {
            combine(q->how, q->dtype, place + k * q->size, from + k * q->size);
        }
        for (int32_t d = q->index.rank - 1; !q->by_tuple && d >= 0 && ++at[d] == q->index.dim[d]; d--) {
            at[d] = 0;
        }
    }
    return PEN_OK;
}

static bool scatter_fits(struct build *b, struct scatter *q)
{
    const struct shape *updates = &build_in(b, 2)->shape;
    int64_t run = 1, tuples = 1;
    if (!shape_equal(&build_out(b, 0)->shape, &q->x)) {
        return false;
    }
    if (!q->by_tuple) {
        bool fits = shape_equal(updates, &q->index);
        for (int32_t d = 0; d < q->x.rank; d++) {
            fits = fits && (d == q->axis || q->index.dim[d] <= q->x.dim[d]);
        }
        q->count = (size_t)shape_elements(&q->index);
        q->run = 1;
        return fits;
    }
    int64_t depth = q->index.dim[q->index.rank - 1];
    if (depth < 0 || depth > q->x.rank) {
        return false;
    }
    q->depth = (int32_t)depth;
    for (int32_t d = 0; d < q->index.rank - 1; d++) {
        tuples *= q->index.dim[d];
    }
    for (int32_t d = q->depth; d < q->x.rank; d++) {
        run *= q->x.dim[d];
    }
    q->count = (size_t)tuples;
    q->run = (size_t)run;
    return shape_elements(updates) == tuples * run;
}

static enum pen_status scatter_build(struct build *b)
{
    struct scatter *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->dtype = build_in(b, 0)->dtype;
    q->how = node_text_is(b->n, ATTR_reduction, "add", false)   ? SCATTER_ADD
             : node_text_is(b->n, ATTR_reduction, "mul", false) ? SCATTER_MUL
             : node_text_is(b->n, ATTR_reduction, "max", false) ? SCATTER_MAX
             : node_text_is(b->n, ATTR_reduction, "min", false) ? SCATTER_MIN
                                                                : SCATTER_PUT;
    q->x = build_in(b, 0)->shape;
    q->index = build_in(b, 1)->shape;
    q->wide = build_in(b, 1)->dtype == PEN_DTYPE_I64;
    q->by_tuple = b->n->op == OP_ScatterND;
    q->size = pen_dtype_bits(q->dtype) / 8;
    q->bytes = (size_t)shape_elements(&q->x) * q->size;
    q->axis = q->by_tuple ? 0 : shape_axis(node_int(b->n, ATTR_axis, 0), q->x.rank);
    int64_t step = 1;
    for (int32_t d = q->x.rank - 1; d >= 0; d--) {
        q->step[d] = step;
        step *= q->x.dim[d];
    }
    b->step->state = q;
    b->step->run = scatter_run;
    return scatter_fits(b, q) ? PEN_OK : build_fail(b, PEN_ERR_SHAPE, "indices or updates do not fit the data");
}

const struct emitter emit_scatter = {scatter_supports, NULL, scatter_build};
