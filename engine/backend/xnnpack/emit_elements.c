#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"

/* GatherElements: y[.., i, ..] = x[.., index[.., i, ..], ..] along one axis. Any dtype of whole bytes. Indices are checked on every run. */
struct elements {
    struct shape y;
    int32_t axis;
    int64_t limit;                /* of the axis in x */
    int64_t x_step[PEN_MAX_RANK]; /* elements */
    size_t size, count, rows;     /* rows of `inner` elements */
    size_t inner;
    bool wide; /* i64 indices */
};

struct elements_job {
    const struct elements *q;
    const uint8_t *x;
    const void *index;
    uint8_t *y;
    atomic_bool outside;
};

static bool elements_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *index = node_in(g, n, 1), *y = node_out(g, n, 0);
    if (x == NULL || pen_dtype_bits(x->dtype) < 8 || y->dtype != x->dtype ||
        !(dtype_is(index, PEN_DTYPE_I64) || dtype_is(index, PEN_DTYPE_I32))) {
        return refuse(ret_reason, "not for these types");
    }
    bool axis = x->shape.rank > 0 && shape_axis(node_int(n, ATTR_axis, 0), x->shape.rank) >= 0;
    return (axis && index->shape.rank == x->shape.rank) || refuse(ret_reason, "ranks or axis that do not fit");
}

static void elements_task(void *context, size_t row)
{
    struct elements_job *j = context;
    const struct elements *q = j->q;
    int64_t base = 0;
    size_t rest = row;
    int32_t last = q->y.rank - 1;
    for (int32_t d = last - 1; d >= 0; d--) {
        base += d == q->axis ? 0 : (int64_t)(rest % (size_t)q->y.dim[d]) * q->x_step[d];
        rest /= (size_t)q->y.dim[d];
    }
    for (size_t i = 0; i < q->inner; i++) {
        size_t at = row * q->inner + i;
        int64_t index = q->wide ? ((const int64_t *)j->index)[at] : ((const int32_t *)j->index)[at];
        index += index < 0 ? q->limit : 0;
        if (index < 0 || index >= q->limit) {
            atomic_store(&j->outside, true);
            return;
        }
        int64_t from = base + index * q->x_step[q->axis] + (q->axis == last ? 0 : (int64_t)i * q->x_step[last]);
        memcpy(j->y + at * q->size, j->x + (size_t)from * q->size, q->size);
    }
}

static enum pen_status elements_run(struct step *s, struct run *r)
{
    const struct elements *q = s->state;
    struct elements_job j = {.q = q, .x = s->in[0], .index = s->in[1], .y = s->out[0]};
    atomic_init(&j.outside, false);
    parallel(r, elements_task, &j, q->rows);
    return atomic_load(&j.outside)
               ? pen_error_set(r->error, PEN_ERR_INVALID,
                               "xnnpack: node %s: an index is not within the %" PRId64 " positions of axis %d",
                               s->n->name, q->limit, (int)q->axis)
               : PEN_OK;
}

static enum pen_status elements_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape, *index = &build_in(b, 1)->shape, *y = &build_out(b, 0)->shape;
    struct elements *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->axis = shape_axis(node_int(b->n, ATTR_axis, 0), x->rank);
    q->y = *y;
    q->limit = x->dim[q->axis];
    q->size = pen_dtype_bits(build_in(b, 0)->dtype) / 8;
    q->inner = (size_t)y->dim[y->rank - 1];
    q->count = (size_t)shape_elements(y);
    q->rows = q->inner > 0 ? q->count / q->inner : 0;
    q->wide = build_in(b, 1)->dtype == PEN_DTYPE_I64;
    int64_t run = 1;
    bool fits = shape_equal(index, y);
    for (int32_t d = x->rank - 1; d >= 0; d--) {
        q->x_step[d] = run;
        run *= x->dim[d];
        fits = fits && (d == q->axis || y->dim[d] <= x->dim[d]);
    }
    b->step->state = q;
    b->step->run = elements_run;
    return fits ? PEN_OK : build_fail(b, PEN_ERR_SHAPE, "indices do not fit the data");
}

const struct emitter emit_elements = {elements_supports, NULL, elements_build};
