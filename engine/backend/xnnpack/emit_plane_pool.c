#include <math.h>

#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/planes.h"
#include "backend/xnnpack/window.h"

/* MaxPool (with indices), AveragePool and LpPool of f32 over planes. */
enum plane_kind { PLANE_MAX, PLANE_AVERAGE, PLANE_LP };

struct plane_pool {
    struct planes p;
    struct act act;
    enum plane_kind kind;
    bool include_pad, column_major;
    float power;
};

struct plane_pool_job {
    const struct plane_pool *q;
    const float *x;
    float *y;
    int64_t *index;
};

static bool pool_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    return (dtype_is(x, PEN_DTYPE_F32) && x->shape.rank >= 3 && node_attr(n, ATTR_kernel_shape) != NULL) ||
           refuse(ret_reason, "only f32 with a kernel_shape");
}

/* Taps of the window at `o` that lie inside, along each dim; false when there are none. *ret_padded: those inside of the padding too. */
static bool taps_inside(const struct planes *p, const int64_t *o, int64_t *first, int64_t *count, int64_t *ret_padded)
{
    bool any = true;
    *ret_padded = 1;
    for (int32_t d = 0; d < p->dims; d++) {
        int64_t start = o[d] * p->stride[d] - p->begin[d], padded = 0;
        first[d] = count[d] = 0;
        for (int64_t k = 0; k < p->kernel[d]; k++) {
            int64_t at = start + k * p->dilation[d];
            if (at >= 0 && at < p->in[d]) {
                first[d] = count[d] == 0 ? k : first[d];
                count[d]++;
            }
            padded += at < p->in[d] + p->end[d] ? 1 : 0;
        }
        *ret_padded *= padded;
        any = any && count[d] > 0;
    }
    return any;
}

struct fold {
    double sum;
    float best;
    int64_t best_at[PLANES_DIMS], taps;
};

static void fold_tap(const struct plane_pool *q, struct fold *f, float v, const int64_t *at)
{
    if (q->kind == PLANE_AVERAGE) {
        f->sum += (double)v;
    } else if (q->kind == PLANE_LP) {
        double a = fabs((double)v);
        f->sum += q->power == 2.0f ? a * a : q->power == 1.0f ? a : pow(a, (double)q->power);
    } else if (f->taps == 0 || v > f->best || v != v) {
        f->best = v;
        for (int32_t d = 0; d < q->p.dims; d++) {
            f->best_at[d] = at[d];
        }
    }
    f->taps++;
}

static struct fold window_fold(const struct plane_pool *q, const float *x, const int64_t *o, int64_t *ret_padded)
{
    const struct planes *p = &q->p;
    struct fold f = {.best = -INFINITY};
    int64_t first[PLANES_DIMS], count[PLANES_DIMS], tap[PLANES_DIMS] = {0}, at[PLANES_DIMS];
    if (!taps_inside(p, o, first, count, ret_padded)) {
        return f;
    }
    do {
        int64_t offset = 0;
        for (int32_t d = 0; d < p->dims; d++) {
            at[d] = o[d] * p->stride[d] - p->begin[d] + (first[d] + tap[d]) * p->dilation[d];
            offset += at[d] * p->in_step[d];
        }
        fold_tap(q, &f, x[offset], at);
    } while (planes_next(tap, count, p->dims));
    return f;
}

/* Place of the maximum, counted over the whole tensor in NCHW order. */
static int64_t index_of(const struct plane_pool *q, size_t plane, const struct fold *f)
{
    const struct planes *p = &q->p;
    int64_t at = 0;
    for (int32_t d = 0; d < p->dims; d++) {
        int32_t e = q->column_major ? p->dims - 1 - d : d;
        at = at * p->in[e] + f->best_at[e];
    }
    return (int64_t)(plane * p->in_size) + at;
}

static void pool_task(void *context, size_t plane)
{
    const struct plane_pool_job *j = context;
    const struct plane_pool *q = j->q;
    const struct planes *p = &q->p;
    size_t b = plane / p->in_channels, c = plane % p->in_channels, to = planes_out_at(p, b, c);
    const float *x = j->x + planes_in_at(p, b, c);
    int64_t o[PLANES_DIMS] = {0};
    do {
        int64_t padded = 0, offset = 0;
        struct fold f = window_fold(q, x, o, &padded);
        for (int32_t d = 0; d < p->dims; d++) {
            offset += o[d] * p->out_step[d];
        }
        int64_t divisor = q->include_pad ? padded : f.taps;
        float *y = j->y + to + offset;
        *y = q->kind == PLANE_MAX       ? f.best
             : q->kind == PLANE_AVERAGE ? (divisor > 0 ? (float)(f.sum / (double)divisor) : 0.0f)
                                        : (float)pow(f.sum, 1.0 / (double)q->power);
        if (j->index != NULL) {
            j->index[to + (size_t)offset] = f.taps > 0 ? index_of(q, plane, &f) : 0;
        }
    } while (planes_next(o, p->out, p->dims));
}

static enum pen_status pool_run(struct step *s, struct run *r)
{
    const struct plane_pool *q = s->state;
    struct plane_pool_job j = {.q = q, .x = s->in[0], .y = s->out[0]};
    j.index = q->kind == PLANE_MAX && s->n->out_count > 1 ? s->out[1] : NULL;
    parallel(r, pool_task, &j, q->p.batch * q->p.in_channels);
    act_all(&q->act, s->out[0], q->p.batch * q->p.out_channels * q->p.out_size, r);
    return PEN_OK;
}

static enum pen_status pool_build(struct build *b)
{
    struct plane_pool *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->kind = b->n->op == OP_MaxPool ? PLANE_MAX : b->n->op == OP_AveragePool ? PLANE_AVERAGE : PLANE_LP;
    q->include_pad = node_int(b->n, ATTR_count_include_pad, 0) != 0;
    q->column_major = node_int(b->n, ATTR_storage_order, 0) != 0;
    q->power = (float)node_int(b->n, ATTR_p, 2);
    q->act = act_read(b->n);
    if (!planes_read(b->n, &build_in(b, 0)->shape, &build_out(b, 0)->shape, NULL, false, &q->p) ||
        q->p.in_channels != q->p.out_channels) {
        return build_fail(b, PEN_ERR_SHAPE, "input and output do not fit the window");
    }
    b->step->state = q;
    b->step->run = pool_run;
    b->step->kernel = "own loop, plane by plane";
    b->step->why = "its data is not NHWC with one or two spatial dims";
    return PEN_OK;
}

static const struct plane_form form = {&emit_pool, pool_supports, pool_build};

static bool either_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return n->op == OP_LpPool ? pool_supports(g, n, ret_reason) : plane_form_supports(&form, g, n, ret_reason);
}

static enum pen_status either_build(struct build *b)
{
    return b->n->op == OP_LpPool ? pool_build(b) : plane_form_build(&form, b);
}

const struct emitter emit_pool_either = {either_supports, NULL, either_build};
