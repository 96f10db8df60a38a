#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"

/*
 * Softmax and LogSoftmax over any axis: x is [outer, axis, inner]. inner = 1: row by row. Otherwise blocks of inner columns are walked row by row, so that
 * memory is read in order: the running maximum, then exp and the running sum, then the scaling.
 */
#define COLUMNS    256
#define SHORT_AXIS 16
#define SHORT_ROWS 64 /* at a time */

struct softmax {
    size_t outer, axis, inner;
    bool log;
};

struct softmax_job {
    const struct softmax *q;
    const float *x;
    float *y;
    size_t blocks;
};

static bool softmax_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (!all_f32(g, n)) {
        return refuse(ret_reason, "only f32");
    }
    int32_t rank = node_in(g, n, 0)->shape.rank;
    return (rank > 0 && shape_axis(node_int(n, ATTR_axis, -1), rank) >= 0) || refuse(ret_reason, "axis out of range");
}

static void row_softmax(const struct softmax *q, const float *x, float *y)
{
    const struct own *own = isa_own();
    float max = own->fold(FOLD_MAX, x, q->axis);
    if (q->log) {
        float sum = own->exp_sum(x, y, q->axis, max);
        own->unary(UNARY_LOG, &sum, &sum, 1, 0.0f, 0.0f);
        own->affine(x, y, q->axis, max, 1.0f, NULL, NULL);
        own->binary(BINARY_SUB, y, 1, &sum, 0, y, q->axis);
        return;
    }
    float scale = 1.0f / own->exp_sum(x, y, q->axis, max);
    own->affine(y, y, q->axis, 0.0f, scale, NULL, NULL);
}

static void columns_softmax(const struct softmax *q, const float *x, float *y, size_t n)
{
    const struct own *own = isa_own();
    float max[COLUMNS], sum[COLUMNS], e[COLUMNS];
    own->fold_rows(FOLD_MAX, x, q->inner, q->axis, max, n);
    for (size_t i = 0; i < n; i++) {
        sum[i] = 0.0f;
    }
    for (size_t a = 0; a < q->axis; a++) {
        float *to = y + a * q->inner;
        own->binary(BINARY_SUB, x + a * q->inner, 1, max, 1, to, n);
        own->unary(UNARY_EXP, to, e, n, 0.0f, 0.0f);
        own->binary(BINARY_ADD, sum, 1, e, 1, sum, n);
        if (!q->log) {
            own->unary(UNARY_ABS, e, to, n, 0.0f, 0.0f); /* a copy: e >= 0 */
        }
    }
    if (q->log) {
        own->unary(UNARY_LOG, sum, sum, n, 0.0f, 0.0f);
    }
    for (size_t a = 0; a < q->axis; a++) {
        own->binary(q->log ? BINARY_SUB : BINARY_DIV, y + a * q->inner, 1, sum, 1, y + a * q->inner, n);
    }
}

/* Rows that are shorter than a vector or so: they are turned, and many are computed side by side. */
static void short_rows(const struct softmax *q, const float *x, float *y, size_t rows)
{
    float from[SHORT_AXIS * SHORT_ROWS], to[SHORT_AXIS * SHORT_ROWS];
    for (size_t r = 0; r < rows; r += SHORT_ROWS) {
        const size_t count = rows - r < SHORT_ROWS ? rows - r : SHORT_ROWS;
        const struct softmax turned = {.outer = 1, .axis = q->axis, .inner = count, .log = q->log};
        isa_own()->transpose((const uint32_t *)(const void *)(x + r * q->axis), q->axis, (uint32_t *)(void *)from,
                             count, count, q->axis);
        columns_softmax(&turned, from, to, count);
        isa_own()->transpose((const uint32_t *)(const void *)to, count, (uint32_t *)(void *)(y + r * q->axis), q->axis,
                             q->axis, count);
    }
}

static void softmax_task(void *context, size_t unit)
{
    const struct softmax_job *j = context;
    const struct softmax *q = j->q;
    if (q->inner == 1) {
        size_t rows = CHUNK / q->axis + 1;
        if (q->axis <= SHORT_AXIS) {
            const size_t first = unit * rows, left = q->outer - first;
            short_rows(q, j->x + first * q->axis, j->y + first * q->axis, left < rows ? left : rows);
            return;
        }
        for (size_t r = unit * rows; r < (unit + 1) * rows && r < q->outer; r++) {
            row_softmax(q, j->x + r * q->axis, j->y + r * q->axis);
        }
        return;
    }
    size_t from = unit % j->blocks * COLUMNS, at = unit / j->blocks * q->axis * q->inner + from;
    columns_softmax(q, j->x + at, j->y + at, q->inner - from < COLUMNS ? q->inner - from : COLUMNS);
}

static enum pen_status softmax_run(struct step *s, struct run *r)
{
    const struct softmax *q = s->state;
    struct softmax_job j = {q, s->in[0], s->out[0], (q->inner + COLUMNS - 1) / COLUMNS};
    size_t rows = CHUNK / q->axis + 1;
    parallel(r, softmax_task, &j, q->inner == 1 ? (q->outer + rows - 1) / rows : q->outer * j.blocks);
    return PEN_OK;
}

static enum pen_status softmax_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    struct softmax *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (!shape_equal(x, &build_out(b, 0)->shape)) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output differ in shape");
    }
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, -1), x->rank);
    q->outer = q->inner = 1;
    for (int32_t d = 0; d < x->rank; d++) {
        if (d == axis) {
            q->axis = (size_t)x->dim[d];
        } else if (d < axis) {
            q->outer *= (size_t)x->dim[d];
        } else {
            q->inner *= (size_t)x->dim[d];
        }
    }
    q->log = b->n->op == OP_LogSoftmax;
    b->inplace = q->log ? 0 : q->inner == 1; /* the logarithm reads x again after y is written */
    b->step->state = q;
    b->step->run = softmax_run;
    return PEN_OK;
}

const struct emitter emit_softmax = {softmax_supports, NULL, softmax_build};
