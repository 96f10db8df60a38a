#include <math.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"

/*
 * Operators that walk along one axis: x is [outer, axis, inner]. CumSum, CumProd (f32, i32, i64; the axis is read on every run), Hardmax and
 * LpNormalization (f32). Blocks of inner columns go by row by row, so that memory is read in order; floats are summed in double.
 */
#define COLUMNS 64

struct lanes {
    enum op op;
    enum pen_dtype dtype;
    struct shape shape;
    int32_t axis; /* of Hardmax and LpNormalization */
    bool exclusive, reverse, wide_axis, first_power;
};

struct lanes_job {
    const struct lanes *q;
    size_t axis, inner, blocks;
    const uint8_t *x;
    uint8_t *y;
};

static bool cumulates(enum op op)
{
    return op == OP_CumSum || op == OP_CumProd;
}

static bool lanes_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *axis = node_in(g, n, 1);
    if (cumulates(n->op)) {
        bool number = dtype_is(x, PEN_DTYPE_F32) || dtype_is(x, PEN_DTYPE_I32) || dtype_is(x, PEN_DTYPE_I64);
        return (number && x->shape.rank > 0 && (dtype_is(axis, PEN_DTYPE_I64) || dtype_is(axis, PEN_DTYPE_I32))) ||
               refuse(ret_reason, "only f32, i32 and i64");
    }
    return (dtype_is(x, PEN_DTYPE_F32) && shape_axis(node_int(n, ATTR_axis, -1), x->shape.rank) >= 0) ||
           refuse(ret_reason, "only f32");
}

/* y_j = x_0 + ... + x_j (or the product); exclusive leaves x_j out, reverse starts at the end. */
#define CUMULATE(name, type, sum_type)                                                                                 \
    static void name(const struct lanes_job *j, size_t from, size_t n)                                                 \
    {                                                                                                                  \
        const struct lanes *q = j->q;                                                                                  \
        const type *x = (const type *)(const void *)j->x + from;                                                       \
        type *y = (type *)(void *)j->y + from;                                                                         \
        bool product = q->op == OP_CumProd;                                                                            \
        sum_type sum[COLUMNS];                                                                                         \
        for (size_t i = 0; i < n; i++) {                                                                               \
            sum[i] = (sum_type)(product ? 1 : 0);                                                                      \
        }                                                                                                              \
        for (size_t a = 0; a < j->axis; a++) {                                                                         \
            size_t at = (q->reverse ? j->axis - 1 - a : a) * j->inner;                                                 \
            for (size_t i = 0; i < n; i++) {                                                                           \
                sum_type before = sum[i], v = (sum_type)x[at + i];                                                     \
                sum[i] = product ? before * v : before + v;                                                            \
                y[at + i] = (type)(q->exclusive ? before : sum[i]);                                                    \
            }                                                                                                          \
        }                                                                                                              \
    }

CUMULATE(cumulate_f32, float, double)
CUMULATE(cumulate_i32, int32_t, uint32_t)
CUMULATE(cumulate_i64, int64_t, uint64_t)

/* 1 at the first maximum, 0 elsewhere. */
static void hardmax(const struct lanes_job *j, size_t from, size_t n)
{
    const float *x = (const float *)(const void *)j->x + from;
    float *y = (float *)(void *)j->y + from, best[COLUMNS];
    size_t at[COLUMNS] = {0};
    memcpy(best, x, n * sizeof *best);
    for (size_t a = 1; a < j->axis; a++) {
        for (size_t i = 0; i < n; i++) {
            float v = x[a * j->inner + i];
            if (v > best[i]) {
                best[i] = v;
                at[i] = a;
            }
        }
    }
    for (size_t a = 0; a < j->axis; a++) {
        for (size_t i = 0; i < n; i++) {
            y[a * j->inner + i] = at[i] == a ? 1.0f : 0.0f;
        }
    }
}

/* x / (sum of |x|), or x / sqrt(sum of x^2); 0 where the norm is 0. */
static void lp_norm(const struct lanes_job *j, size_t from, size_t n)
{
    const float *x = (const float *)(const void *)j->x + from;
    float *y = (float *)(void *)j->y + from;
    double norm[COLUMNS] = {0};
    for (size_t a = 0; a < j->axis; a++) {
        for (size_t i = 0; i < n; i++) {
            double v = (double)x[a * j->inner + i];
            norm[i] += j->q->first_power ? fabs(v) : v * v;
        }
    }
    for (size_t i = 0; i < n; i++) {
        norm[i] = j->q->first_power ? norm[i] : sqrt(norm[i]);
    }
    for (size_t a = 0; a < j->axis; a++) {
        for (size_t i = 0; i < n; i++) {
            y[a * j->inner + i] = norm[i] == 0.0 ? 0.0f : (float)((double)x[a * j->inner + i] / norm[i]);
        }
    }
}

static void lanes_task(void *context, size_t unit)
{
    const struct lanes_job *j = context;
    size_t o = unit / j->blocks, first = unit % j->blocks * COLUMNS;
    size_t n = j->inner - first < COLUMNS ? j->inner - first : COLUMNS, from = o * j->axis * j->inner + first;
    if (j->q->op == OP_Hardmax) {
        hardmax(j, from, n);
    } else if (j->q->op == OP_LpNormalization) {
        lp_norm(j, from, n);
    } else if (j->q->dtype == PEN_DTYPE_F32) {
        cumulate_f32(j, from, n);
    } else if (j->q->dtype == PEN_DTYPE_I32) {
        cumulate_i32(j, from, n);
    } else {
        cumulate_i64(j, from, n);
    }
}

static enum pen_status lanes_run(struct step *s, struct run *r)
{
    const struct lanes *q = s->state;
    struct lanes_job j = {.q = q, .x = s->in[0], .y = s->out[0], .inner = 1};
    int32_t axis = q->axis;
    size_t outer = 1;
    if (cumulates(q->op)) {
        int64_t given = q->wide_axis ? *(const int64_t *)s->in[1] : *(const int32_t *)s->in[1];
        axis = shape_axis(given, q->shape.rank);
        if (axis < 0) {
            return pen_error_set(r->error, PEN_ERR_INVALID, "xnnpack: node %s: there is no axis %lld", s->n->name,
                                 (long long)given);
        }
    }
    for (int32_t d = 0; d < q->shape.rank; d++) {
        outer *= d < axis ? (size_t)q->shape.dim[d] : 1;
        j.inner *= d > axis ? (size_t)q->shape.dim[d] : 1;
    }
    j.axis = (size_t)q->shape.dim[axis];
    j.blocks = (j.inner + COLUMNS - 1) / COLUMNS;
    parallel(r, lanes_task, &j, outer * j.blocks);
    return PEN_OK;
}

static enum pen_status lanes_build(struct build *b)
{
    struct lanes *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->op = b->n->op;
    q->dtype = build_in(b, 0)->dtype;
    q->shape = build_in(b, 0)->shape;
    q->axis = cumulates(q->op) ? 0 : shape_axis(node_int(b->n, ATTR_axis, -1), q->shape.rank);
    q->exclusive = node_int(b->n, ATTR_exclusive, 0) != 0;
    q->reverse = node_int(b->n, ATTR_reverse, 0) != 0;
    q->first_power = node_int(b->n, ATTR_p, 2) == 1;
    if (cumulates(q->op)) {
        q->wide_axis = build_in(b, 1)->dtype == PEN_DTYPE_I64;
        if (shape_elements(&build_in(b, 1)->shape) != 1) {
            return build_fail(b, PEN_ERR_SHAPE, "the axis is not one number");
        }
    }
    b->step->state = q;
    b->step->run = lanes_run;
    return PEN_OK;
}

const struct emitter emit_lanes = {lanes_supports, NULL, lanes_build};
