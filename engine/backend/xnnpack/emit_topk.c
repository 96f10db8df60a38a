#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"

/* TopK along one axis: x [outer, axis, inner] of f32, i32 or i64. Among equals the lower index comes first; NaN is above every number. */
struct key {
    int64_t order; /* of the value, falling or rising as wanted: the smallest comes first */
    size_t at;
};

struct topk {
    enum pen_dtype dtype;
    size_t outer, axis, inner, k, units;
    bool largest, sorted;
};

struct topk_job {
    const struct topk *q;
    const void *x;
    void *y;
    int64_t *index;
    struct key *keys; /* [units][axis] */
    size_t lanes_unit;
};

static bool topk_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    bool number = dtype_is(x, PEN_DTYPE_F32) || dtype_is(x, PEN_DTYPE_I32) || dtype_is(x, PEN_DTYPE_I64);
    return (number && x->shape.rank > 0 && shape_axis(node_int(n, ATTR_axis, -1), x->shape.rank) >= 0) ||
           refuse(ret_reason, "only f32, i32 and i64");
}

/* An integer that is larger where the value is. */
static int64_t order_of(const struct topk *q, const void *x, size_t at)
{
    if (q->dtype == PEN_DTYPE_I64) {
        return ((const int64_t *)x)[at];
    }
    if (q->dtype == PEN_DTYPE_I32) {
        return ((const int32_t *)x)[at];
    }
    float v = ((const float *)x)[at];
    int32_t bits;
    if (v != v) {
        return INT64_MAX;
    }
    v = v == 0.0f ? 0.0f : v; /* both zeros are equal */
    memcpy(&bits, &v, sizeof bits);
    return bits >= 0 ? bits : (int64_t)INT32_MIN - bits;
}

static int by_order(const void *a, const void *b)
{
    const struct key *p = a, *q = b;
    return p->order != q->order ? (p->order > q->order) - (p->order < q->order) : (p->at > q->at) - (p->at < q->at);
}

static int by_place(const void *a, const void *b)
{
    const struct key *p = a, *q = b;
    return (p->at > q->at) - (p->at < q->at);
}

/* The k first of n keys come to the front, in no order: a binary heap of the k best, the worst of them on top. */
static void select_first(struct key *keys, size_t n, size_t k)
{
    for (size_t start = k / 2; start-- > 0;) {
        for (size_t i = start, child = 2 * i + 1; child < k; i = child, child = 2 * i + 1) {
            child += child + 1 < k && by_order(&keys[child + 1], &keys[child]) > 0 ? 1 : 0;
            if (by_order(&keys[i], &keys[child]) >= 0) {
                break;
            }
            struct key swap = keys[i];
            keys[i] = keys[child];
            keys[child] = swap;
        }
    }
    for (size_t next = k; next < n; next++) {
        if (by_order(&keys[next], &keys[0]) >= 0) {
            continue;
        }
        keys[0] = keys[next];
        for (size_t i = 0, child = 1; child < k; i = child, child = 2 * i + 1) {
            child += child + 1 < k && by_order(&keys[child + 1], &keys[child]) > 0 ? 1 : 0;
            if (by_order(&keys[i], &keys[child]) >= 0) {
                break;
            }
            struct key swap = keys[i];
            keys[i] = keys[child];
            keys[child] = swap;
        }
    }
}

static void lane_run(const struct topk_job *j, size_t lane, struct key *keys)
{
    const struct topk *q = j->q;
    size_t size = pen_dtype_bits(q->dtype) / 8, o = lane / q->inner, i = lane % q->inner;
    size_t from = o * q->axis * q->inner + i, to = o * q->k * q->inner + i;
    for (size_t a = 0; a < q->axis; a++) {
        int64_t order = order_of(q, j->x, from + a * q->inner);
        keys[a] = (struct key){q->largest ? -1 - order : order, a}; /* ~order: no overflow */
    }
    select_first(keys, q->axis, q->k);
    qsort(keys, q->k, sizeof *keys, q->sorted ? by_order : by_place);
    for (size_t k = 0; k < q->k; k++) {
        memcpy((uint8_t *)j->y + (to + k * q->inner) * size,
               (const uint8_t *)j->x + (from + keys[k].at * q->inner) * size, size);
        if (j->index != NULL) {
            j->index[to + k * q->inner] = (int64_t)keys[k].at;
        }
    }
}

static void topk_task(void *context, size_t unit)
{
    const struct topk_job *j = context;
    size_t lanes = j->q->outer * j->q->inner;
    for (size_t lane = unit * j->lanes_unit; lane < (unit + 1) * j->lanes_unit && lane < lanes; lane++) {
        lane_run(j, lane, j->keys + unit * j->q->axis);
    }
}

static enum pen_status topk_run(struct step *s, struct run *r)
{
    const struct topk *q = s->state;
    struct topk_job j = {.q = q, .x = s->in[0], .y = s->out[0], .keys = s->scratch};
    j.index = s->n->out_count > 1 ? s->out[1] : NULL;
    j.lanes_unit = (q->outer * q->inner + q->units - 1) / q->units;
    parallel(r, topk_task, &j, q->units);
    return PEN_OK;
}

static enum pen_status topk_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape, *y = &build_out(b, 0)->shape;
    struct topk *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, -1), x->rank);
    q->dtype = build_in(b, 0)->dtype;
    q->outer = q->inner = 1;
    bool fits = y->rank == x->rank;
    for (int32_t d = 0; d < x->rank; d++) {
        if (d != axis) {
            *(d < axis ? &q->outer : &q->inner) *= (size_t)x->dim[d];
            fits = fits && y->dim[d] == x->dim[d];
        }
    }
    q->axis = (size_t)x->dim[axis];
    q->k = fits ? (size_t)y->dim[axis] : 0;
    q->largest = node_int(b->n, ATTR_largest, 1) != 0;
    q->sorted = node_int(b->n, ATTR_sorted, 1) != 0;
    size_t lanes = q->outer * q->inner, most = 4 * (size_t)build_threads(b);
    q->units = lanes < most ? lanes : most;
    q->units = q->units > 0 ? q->units : 1;
    if (!fits || q->k > q->axis || q->axis > SIZE_MAX / sizeof(struct key) / q->units) {
        return build_fail(b, PEN_ERR_SHAPE, "more are wanted than there are");
    }
    b->step->scratch_bytes = q->units * q->axis * sizeof(struct key);
    b->step->state = q;
    b->step->run = topk_run;
    return PEN_OK;
}

const struct emitter emit_topk = {topk_supports, NULL, topk_build};
