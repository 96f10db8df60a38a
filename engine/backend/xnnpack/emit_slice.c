#include "backend/xnnpack/box.h"
#include "backend/xnnpack/emitters.h"

/* Slice: the result's shape is known; starts and steps may be computed, so they are read and clamped on every run. */
struct slice {
    struct shape x, y;
    size_t size;
    int64_t count; /* axes named */
    bool wide;     /* parameters are i64 */
};

static bool parameter(const struct graph *g, const struct node *n, uint32_t index, enum pen_dtype dtype)
{
    const struct value *v = node_in(g, n, index);
    return v == NULL || v->dtype == dtype;
}

static bool slice_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *starts = node_in(g, n, 1);
    if (x == NULL || pen_dtype_bits(x->dtype) < 8 ||
        (!dtype_is(starts, PEN_DTYPE_I64) && !dtype_is(starts, PEN_DTYPE_I32))) {
        return refuse(ret_reason, "not for these types");
    }
    return (parameter(g, n, 2, starts->dtype) && parameter(g, n, 3, starts->dtype) &&
            parameter(g, n, 4, starts->dtype)) ||
           refuse(ret_reason, "parameters of different types");
}

static int64_t item(const struct slice *q, const void *items, int64_t i, int64_t def)
{
    return items == NULL ? def : q->wide ? ((const int64_t *)items)[i] : ((const int32_t *)items)[i];
}

/* One axis: first element and step. False when it reaches outside of x. */
static bool axis_read(const struct slice *q, int64_t start, int64_t step, int32_t axis, int64_t *ret_first)
{
    int64_t dim = q->x.dim[axis], n = q->y.dim[axis];
    start = start < 0 ? start + dim : start;
    int64_t low = 0, high = step > 0 ? dim : dim - 1;
    start = start < low ? low : start > high ? high : start;
    *ret_first = start;
    if (step == 0 || step < -dim - 1) {
        step = step == 0 ? 0 : -dim - 1;
    }
    step = step > dim + 1 ? dim + 1 : step;
    int64_t last = start + (n - 1) * step;
    return step != 0 && start < dim && last >= 0 && last < dim;
}

static enum pen_status slice_run(struct step *s, struct run *r)
{
    const struct slice *q = s->state;
    const void *starts = s->in[1], *axes = s->n->in_count > 3 ? s->in[3] : NULL,
               *steps = s->n->in_count > 4 ? s->in[4] : NULL;
    struct box b = {.rank = q->x.rank, .size = q->size};
    ptrdiff_t x_run = 1, y_run = 1, x_at = 0;
    for (int32_t d = q->x.rank - 1; d >= 0; d--) {
        b.dim[d] = (size_t)q->y.dim[d];
        b.x_step[d] = x_run;
        b.y_step[d] = y_run;
        x_run *= (ptrdiff_t)q->x.dim[d];
        y_run *= (ptrdiff_t)q->y.dim[d];
    }
    bool seen[PEN_MAX_RANK] = {false};
    for (int64_t i = 0; i < q->count; i++) {
        int32_t axis = shape_axis(item(q, axes, i, i), q->x.rank);
        int64_t step = item(q, steps, i, 1), first = 0;
        if (axis < 0 || seen[axis] || !axis_read(q, item(q, starts, i, 0), step, axis, &first)) {
            return pen_error_set(r->error, PEN_ERR_INVALID,
                                 "node %s (Slice): starts, axes or steps do not fit the shape", s->n->name);
        }
        seen[axis] = true;
        x_at += (ptrdiff_t)first * b.x_step[axis];
        b.x_step[axis] *= q->y.dim[axis] > 1 ? (ptrdiff_t)step : 1;
    }
    box_finish(&b);
    box_copy(&b, (const uint8_t *)s->in[0] + x_at * (ptrdiff_t)q->size, s->out[0], r);
    return PEN_OK;
}

static enum pen_status slice_build(struct build *b)
{
    struct slice *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const struct fact *starts = build_in(b, 1);
    q->x = build_in(b, 0)->shape;
    q->y = build_out(b, 0)->shape;
    q->size = pen_dtype_bits(build_in(b, 0)->dtype) / 8;
    q->count = shape_elements(&starts->shape);
    q->wide = starts->dtype == PEN_DTYPE_I64;
    for (uint32_t i = 3; i < b->n->in_count; i++) {
        if (build_in(b, i) != NULL && shape_elements(&build_in(b, i)->shape) != q->count) {
            return build_fail(b, PEN_ERR_SHAPE, "axes or steps differ in number from starts");
        }
    }
    bool same = q->x.rank == q->y.rank && q->count <= q->x.rank;
    bool named[PEN_MAX_RANK] = {false};
    const struct fact *axes = build_in(b, 3);
    for (int64_t i = 0; i < q->count && same && (axes == NULL || axes->data != NULL); i++) {
        int32_t axis = shape_axis(item(q, axes == NULL ? NULL : axes->data, i, i), q->x.rank);
        same = axis >= 0;
        named[same ? axis : 0] = true;
    }
    for (int32_t d = 0; d < q->x.rank && same; d++) {
        same = q->y.dim[d] <= q->x.dim[d] &&
               (named[d] || (axes != NULL && axes->data == NULL) || q->y.dim[d] == q->x.dim[d]);
    }
    if (!same) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output do not fit each other");
    }
    b->step->state = q;
    b->step->run = slice_run;
    return PEN_OK;
}

const struct emitter emit_slice = {slice_supports, NULL, slice_build};
