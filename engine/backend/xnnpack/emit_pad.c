#include <string.h>

#include "backend/xnnpack/box.h"
#include "backend/xnnpack/emitters.h"

#define SHORT 16 /* elements: what is written one by one */

/*
 * Pad, any dtype of whole bytes. Constant: what is around the kept part is filled, then that is copied. Edge, reflect and wrap: every axis gets a table from output
 * position to input position, and rows are gathered.
 */
struct pad {
    struct shape x, y;
    size_t size;
    int64_t begin[PEN_MAX_RANK]; /* negative = cropped */
    int64_t *from[PEN_MAX_RANK]; /* [y.dim]; NULL in constant mode */
    struct box kept;
    size_t x_at, y_at;
    int64_t first[PEN_MAX_RANK], count[PEN_MAX_RANK]; /* of y's positions in each dim: those that x has */
    int32_t padded;                                   /* the last dim that y has more of than x; -1 = none */
    bool empty;
};

static bool pad_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *value = node_in(g, n, 2), *axes = node_in(g, n, 3);
    unsigned bits = pen_dtype_bits(x->dtype);
    if (bits < 8 || bits > 64 || (value != NULL && value->dtype != x->dtype)) {
        return refuse(ret_reason, "not for these types");
    }
    if (!dtype_is(node_in(g, n, 1), PEN_DTYPE_I64) || (axes != NULL && axes->dtype != PEN_DTYPE_I64)) {
        return refuse(ret_reason, "pads are not i64");
    }
    return x->shape.rank > 0 || refuse(ret_reason, "a scalar");
}

static void pattern_fill(uint8_t *y, size_t count, const void *value, size_t size)
{
    static const uint8_t zeros[8] = {0};
    const uint8_t *from = value != NULL ? value : zeros;
    if (size == 1 || memcmp(from, zeros, size) == 0) {
        memset(y, from[0], count * size);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(y + i * size, from, size);
    }
}

/* Elements that y has more on both sides of `count` rows. */
static void sides_fill(uint8_t *y, size_t row, size_t count, const size_t side[2], const void *value, size_t size)
{
    static const uint32_t zero = 0;
    for (int k = 0; k < 2; k++) {
        uint8_t *to = y + (k == 0 ? 0 : row - side[1] * size);
        if (size == 4 && side[k] <= SHORT) {
            const void *from = value != NULL ? value : &zero;
            for (size_t r = 0; r < count; r++, to += row) {
                for (size_t i = 0; i < side[k]; i++) {
                    memcpy(to + i * 4, from, 4);
                }
            }
            continue;
        }
        for (size_t r = 0; r < count && side[k] > 0; r++, to += row) {
            pattern_fill(to, side[k], value, size);
        }
    }
}

/* What y has more than x from dim d on. */
static void outside_fill(const struct pad *q, int32_t d, uint8_t *y, const void *value)
{
    size_t run = q->size;
    for (int32_t k = d + 1; k < q->y.rank; k++) {
        run *= (size_t)q->y.dim[k];
    }
    const size_t first = (size_t)q->first[d], count = (size_t)q->count[d];
    const size_t side[2] = {first, (size_t)q->y.dim[d] - first - count};
    if (d == q->padded) { /* only where no dim before it is there */
        const size_t elements = run / q->size, sides[2] = {side[0] * elements, side[1] * elements};
        sides_fill(y, run * (size_t)q->y.dim[d], 1, sides, value, q->size);
        return;
    }
    pattern_fill(y, side[0] * run / q->size, value, q->size);
    if (d + 1 == q->padded && d + 2 == q->y.rank) {
        const size_t last[2] = {(size_t)q->first[d + 1], (size_t)(q->y.dim[d + 1] - q->first[d + 1] - q->count[d + 1])};
        sides_fill(y + first * run, run, count, last, value, q->size);
    } else {
        for (size_t i = 0; i < count; i++) {
            outside_fill(q, d + 1, y + (first + i) * run, value);
        }
    }
    pattern_fill(y + (first + count) * run, side[1] * run / q->size, value, q->size);
}

static enum pen_status constant_run(struct step *s, struct run *r)
{
    const struct pad *q = s->state;
    const void *value = s->n->in_count > 2 ? s->in[2] : NULL;
    if (q->empty) {
        pattern_fill(s->out[0], (size_t)shape_elements(&q->y), value, q->size);
        return PEN_OK;
    }
    if (q->padded >= 0) {
        outside_fill(q, 0, s->out[0], value);
    }
    box_copy(&q->kept, (const uint8_t *)s->in[0] + q->x_at * q->size, (uint8_t *)s->out[0] + q->y_at * q->size, r);
    return PEN_OK;
}

struct map_job {
    const struct pad *q;
    const uint8_t *x;
    uint8_t *y;
};

/* One row of the output along the last dim. */
static void map_task(void *context, size_t unit)
{
    const struct map_job *j = context;
    const struct pad *q = j->q;
    int32_t last = q->y.rank - 1;
    size_t rest = unit, step = (size_t)q->x.dim[last], at = 0;
    for (int32_t d = last - 1; d >= 0; d--) {
        size_t index = rest % (size_t)q->y.dim[d];
        rest /= (size_t)q->y.dim[d];
        at += (size_t)q->from[d][index] * step;
        step *= (size_t)q->x.dim[d];
    }
    uint8_t *to = j->y + unit * (size_t)q->y.dim[last] * q->size;
    for (int64_t i = 0; i < q->y.dim[last]; i++) {
        memcpy(to + (size_t)i * q->size, j->x + (at + (size_t)q->from[last][i]) * q->size, q->size);
    }
}

static enum pen_status map_run(struct step *s, struct run *r)
{
    const struct pad *q = s->state;
    struct map_job j = {q, s->in[0], s->out[0]};
    parallel(r, map_task, &j, (size_t)(shape_elements(&q->y) / q->y.dim[q->y.rank - 1]));
    return PEN_OK;
}

static int64_t mirrored(int64_t at, int64_t n)
{
    int64_t period = 2 * (n - 1);
    if (period == 0) {
        return 0;
    }
    at = ((at % period) + period) % period;
    return at < n ? at : period - at;
}

static bool tables_make(struct build *b, struct pad *q)
{
    bool edge = node_text_is(b->n, ATTR_mode, "edge", false), wrap = node_text_is(b->n, ATTR_mode, "wrap", false);
    for (int32_t d = 0; d < q->x.rank; d++) {
        int64_t n = q->x.dim[d];
        q->from[d] = n > 0 ? build_alloc(b, (size_t)q->y.dim[d] * sizeof(int64_t)) : NULL;
        if (q->from[d] == NULL) {
            return false;
        }
        for (int64_t i = 0; i < q->y.dim[d]; i++) {
            int64_t at = i - q->begin[d];
            q->from[d][i] = edge ? (at < 0 ? 0 : at >= n ? n - 1 : at) : wrap ? ((at % n) + n) % n : mirrored(at, n);
        }
    }
    return true;
}

static void kept_make(struct pad *q)
{
    ptrdiff_t x_run = 1, y_run = 1;
    q->kept = (struct box){.rank = q->x.rank, .size = q->size};
    q->padded = -1;
    for (int32_t d = q->x.rank - 1; d >= 0; d--) {
        int64_t y0 = q->begin[d] > 0 ? q->begin[d] : 0, x0 = q->begin[d] < 0 ? -q->begin[d] : 0;
        int64_t count = q->x.dim[d] - x0 < q->y.dim[d] - y0 ? q->x.dim[d] - x0 : q->y.dim[d] - y0;
        q->empty = q->empty || count <= 0;
        q->kept.dim[d] = count > 0 ? (size_t)count : 0;
        q->first[d] = y0;
        q->count[d] = count;
        q->padded = q->padded < 0 && count != q->y.dim[d] ? d : q->padded;
        q->kept.x_step[d] = x_run;
        q->kept.y_step[d] = y_run;
        q->x_at += (size_t)(x0 * x_run);
        q->y_at += (size_t)(y0 * y_run);
        x_run *= (ptrdiff_t)q->x.dim[d];
        y_run *= (ptrdiff_t)q->y.dim[d];
    }
    if (!q->empty) {
        box_finish(&q->kept);
    }
}

static bool pads_read(const struct build *b, struct pad *q)
{
    const struct fact *pads = build_in(b, 1), *axes = build_in(b, 3);
    int64_t count = axes != NULL ? shape_elements(&axes->shape) : q->x.rank;
    if (shape_elements(&pads->shape) != 2 * count || q->x.rank != q->y.rank) {
        return false;
    }
    int64_t end[PEN_MAX_RANK] = {0};
    for (int64_t i = 0; i < count; i++) {
        int32_t axis = axes != NULL ? shape_axis(((const int64_t *)axes->data)[i], q->x.rank) : (int32_t)i;
        if (axis < 0) {
            return false;
        }
        q->begin[axis] = ((const int64_t *)pads->data)[i];
        end[axis] = ((const int64_t *)pads->data)[i + count];
    }
    for (int32_t d = 0; d < q->x.rank; d++) {
        if (q->x.dim[d] + q->begin[d] + end[d] != q->y.dim[d]) {
            return false;
        }
    }
    return true;
}

static enum pen_status pad_build(struct build *b)
{
    struct pad *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const struct fact *axes = build_in(b, 3);
    if (build_in(b, 1)->data == NULL || (axes != NULL && axes->data == NULL)) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "pads that neither constants nor shapes give");
    }
    q->x = build_in(b, 0)->shape;
    q->y = build_out(b, 0)->shape;
    q->size = pen_dtype_bits(build_in(b, 0)->dtype) / 8;
    if (!pads_read(b, q)) {
        return build_fail(b, PEN_ERR_SHAPE, "pads do not fit the shapes");
    }
    b->step->state = q;
    if (node_text_is(b->n, ATTR_mode, "constant", true)) {
        kept_make(q);
        b->step->run = constant_run;
        return PEN_OK;
    }
    b->step->run = map_run;
    return tables_make(b, q) ? PEN_OK : build_fail(b, PEN_ERR_UNSUPPORTED, "nothing to repeat, or no memory");
}

const struct emitter emit_pad = {pad_supports, NULL, pad_build};
