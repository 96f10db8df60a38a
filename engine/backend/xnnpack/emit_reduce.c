#include <math.h>
#include <string.h>

#include "backend/xnnpack/emitters.h"
#include "graph/axes.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/window.h"

/*
 * Reductions over any axes. Neighbouring axes of one kind are merged, so that x is [outer, reduced, inner] once or a few times over: each turn folds the last
 * reduced group, from x into scratch and at last into y. Global pooling is the same over the spatial dims.
 */
#define COLUMNS 256
#define ROWS    128 /* summed apart, then together: keeps rounding errors small */

struct turn {
    size_t outer, axis, inner;
    enum fold_fn fn;
};

struct reduce {
    struct turn turns[PEN_MAX_RANK];
    uint32_t count;
    size_t in_count, out_count;
    enum unary_fn after; /* over all of y */
    float scale;         /* 1 / n for means */
    bool log_sum_exp;
    struct act act;
    size_t half[2]; /* offsets of two scratch buffers */
};

/* Constant axes without a kept one between them. Without axes all go, or none. */
static bool neighbours(const struct value *axes, int32_t rank)
{
    int64_t count = axes != NULL ? shape_elements(&axes->shape) : 0;
    int32_t low = rank, high = -1;
    uint32_t seen = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t axis = shape_axis(((const int64_t *)axes->data)[i], rank);
        if (axis >= 0) {
            seen |= 1u << axis;
            low = axis < low ? axis : low;
            high = axis > high ? axis : high;
        }
    }
    for (int32_t d = low; d <= high; d++) {
        if ((seen & 1u << d) == 0) {
            return false;
        }
    }
    return true;
}

static bool reduce_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *y = node_out(g, n, 0), *axes = node_in(g, n, 1);
    bool integers = reduce_int_takes(x, y, n->op);
    if (!integers && (!dtype_is(x, PEN_DTYPE_F32) || !dtype_is(y, PEN_DTYPE_F32))) {
        return refuse(ret_reason, "not of this type");
    }
    if (x->shape.rank < 0) {
        return refuse(ret_reason, "unknown rank");
    }
    if (axes != NULL && (axes->data == NULL || axes->dtype != PEN_DTYPE_I64)) {
        return refuse(ret_reason, "axes are not constant");
    }
    return n->op != OP_ReduceLogSumExp || neighbours(axes, x->shape.rank) ||
           refuse(ret_reason, "log-sum-exp over axes that are not neighbours");
}

static void fn_read(enum op op, struct reduce *q, enum fold_fn *first, enum fold_fn *then)
{
    *first = *then = FOLD_SUM;
    q->after = UNARY_NONE;
    switch (op) {
    case OP_ReduceL1:
        *first = FOLD_ABS;
        break;
    case OP_ReduceL2:
        *first = FOLD_SQUARE;
        q->after = UNARY_SQRT;
        break;
    case OP_ReduceSumSquare:
        *first = FOLD_SQUARE;
        break;
    case OP_ReduceLogSum:
        q->after = UNARY_LOG;
        break;
    case OP_ReduceMax:
    case OP_GlobalMaxPool:
        *first = *then = FOLD_MAX;
        break;
    case OP_ReduceMin:
        *first = *then = FOLD_MIN;
        break;
    case OP_ReduceProd:
        *first = *then = FOLD_PROD;
        break;
    default:
        break;
    }
}

/* Groups of axes, last first. */
static void turns_make(struct reduce *q, const struct shape *x, const bool *gone, enum fold_fn first, enum fold_fn then)
{
    size_t dims[PEN_MAX_RANK] = {0};
    bool kind[PEN_MAX_RANK] = {false};
    int32_t groups = 0;
    for (int32_t d = 0; d < x->rank; d++) {
        if (x->dim[d] == 1) {
            continue;
        }
        if (groups > 0 && kind[groups - 1] == gone[d]) {
            dims[groups - 1] *= (size_t)x->dim[d];
        } else {
            kind[groups] = gone[d];
            dims[groups++] = (size_t)x->dim[d];
        }
    }
    size_t inner = 1;
    for (int32_t i = groups - 1; i >= 0; i--) {
        if (!kind[i]) {
            inner *= dims[i];
            continue;
        }
        struct turn *t = &q->turns[q->count++];
        *t = (struct turn){.outer = 1, .axis = dims[i], .inner = inner, .fn = q->count == 1 ? first : then};
        for (int32_t k = 0; k < i; k++) {
            t->outer *= dims[k];
        }
    }
    if (q->count == 0) { /* nothing to fold: every element is its own group */
        q->turns[q->count++] = (struct turn){.outer = 1, .axis = 1, .inner = q->in_count, .fn = first};
    }
}

struct fold_job {
    struct turn t;
    const float *x;
    float *y;
    size_t blocks;
};

static void columns_fold(const struct turn *t, const float *x, float *y, size_t n)
{
    const struct own *own = isa_own();
    static const enum binary_fn meet[FOLD_COUNT] = {BINARY_ADD, BINARY_MAX, BINARY_MIN,
                                                    BINARY_MUL, BINARY_ADD, BINARY_ADD};
    float part[COLUMNS];
    own->fold_rows(t->fn, x, t->inner, t->axis < ROWS ? t->axis : ROWS, y, n);
    for (size_t r = ROWS; r < t->axis; r += ROWS) {
        own->fold_rows(t->fn, x + r * t->inner, t->inner, t->axis - r < ROWS ? t->axis - r : ROWS, part, n);
        own->binary(meet[t->fn], y, 1, part, 1, y, n);
    }
}

static void fold_task(void *context, size_t unit)
{
    const struct fold_job *j = context;
    const struct turn *t = &j->t;
    if (t->inner == 1) {
        size_t rows = CHUNK / t->axis + 1;
        for (size_t r = unit * rows; r < (unit + 1) * rows && r < t->outer; r++) {
            j->y[r] = isa_own()->fold(t->fn, j->x + r * t->axis, t->axis);
        }
        return;
    }
    size_t o = unit / j->blocks, from = unit % j->blocks * COLUMNS;
    columns_fold(t, j->x + o * t->axis * t->inner + from, j->y + o * t->inner + from,
                 t->inner - from < COLUMNS ? t->inner - from : COLUMNS);
}

static void fold_run(const struct turn *t, const float *x, float *y, struct run *r)
{
    struct fold_job j = {*t, x, y, (t->inner + COLUMNS - 1) / COLUMNS};
    size_t rows = CHUNK / t->axis + 1;
    parallel(r, fold_task, &j, t->inner == 1 ? (t->outer + rows - 1) / rows : t->outer * j.blocks);
}

static void turns_run(const struct reduce *q, const struct step *s, const float *x, float *y, struct run *r)
{
    for (uint32_t i = 0; i < q->count; i++) {
        float *to = i + 1 == q->count ? y : (float *)(void *)((uint8_t *)s->scratch + q->half[i % 2]);
        fold_run(&q->turns[i], x, to, r);
        x = to;
    }
}

/* ln sum exp x = max + ln sum exp(x - max); one reduced group only (build). */
static void log_sum_exp(const struct reduce *q, const float *x, float *y)
{
    const struct own *own = isa_own();
    const struct turn *t = &q->turns[0];
    for (size_t o = 0; o < t->outer; o++) {
        for (size_t i = 0; i < t->inner; i++) {
            const float *from = x + o * t->axis * t->inner + i;
            float max = -INFINITY, sum = 0.0f;
            for (size_t a = 0; a < t->axis; a++) {
                float v = from[a * t->inner];
                max = v > max || v != v ? v : max;
            }
            for (size_t a = 0; a < t->axis; a++) {
                sum += expf(from[a * t->inner] - (isinf(max) ? 0.0f : max));
            }
            own->unary(UNARY_LOG, &sum, &sum, 1, 0.0f, 0.0f);
            y[o * t->inner + i] = sum + (isinf(max) ? 0.0f : max);
        }
    }
}

static enum pen_status reduce_run(struct step *s, struct run *r)
{
    const struct reduce *q = s->state;
    const struct own *own = isa_own();
    float *y = s->out[0];
    if (q->log_sum_exp) {
        log_sum_exp(q, s->in[0], y);
        return PEN_OK;
    }
    turns_run(q, s, s->in[0], y, r);
    if (q->scale != 1.0f) {
        own->binary(BINARY_MUL, y, 1, &q->scale, 0, y, q->out_count);
    }
    if (q->after != UNARY_NONE) {
        own->unary(q->after, y, y, q->out_count, 0.0f, 0.0f);
    }
    act_all(&q->act, y, q->out_count, r);
    return PEN_OK;
}

static enum pen_status reduce_build(struct build *b)
{
    if (build_in(b, 0)->dtype != PEN_DTYPE_F32) {
        return reduce_int_build(b);
    }
    const struct shape *x = &build_in(b, 0)->shape;
    struct reduce *q = build_alloc(b, sizeof *q);
    bool gone[PEN_MAX_RANK];
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    if (!reduced_axes_of(b->n, build_in(b, 1), x->rank, gone)) {
        return build_fail(b, PEN_ERR_SHAPE, "an axis is out of range");
    }
    enum fold_fn first, then;
    fn_read(b->n->op, q, &first, &then);
    q->in_count = (size_t)shape_elements(x);
    q->out_count = (size_t)shape_elements(&build_out(b, 0)->shape);
    if (q->in_count == 0) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "a reduction of nothing");
    }
    turns_make(q, x, gone, first, then);
    const struct turn *last = &q->turns[q->count - 1];
    if (last->outer * last->inner != q->out_count) {
        return build_fail(b, PEN_ERR_SHAPE, "the result has another size");
    }
    bool mean = b->n->op == OP_ReduceMean || b->n->op == OP_GlobalAveragePool;
    q->scale = mean ? (float)q->out_count / (float)q->in_count : 1.0f;
    q->log_sum_exp = b->n->op == OP_ReduceLogSumExp;
    if (q->log_sum_exp && q->count > 1) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "log-sum-exp over axes that are not neighbours");
    }
    q->act = act_read(b->n);
    size_t half = ((q->turns[0].outer * q->turns[0].inner) * sizeof(float) + 127) / 64 * 64;
    q->half[1] = half;
    b->step->scratch_bytes = q->count > 1 ? 2 * half : 0;
    b->step->state = q;
    b->step->run = reduce_run;
    return PEN_OK;
}

const struct emitter emit_reduce = {reduce_supports, NULL, reduce_build};
