#include "backend/xnnpack/conv.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/planes.h"
#include "backend/xnnpack/window.h"
#include "graph/kept.h"

/*
 * Conv and ConvTranspose of f32 over planes: three and more spatial dims, weights that are computed. One output plane is one unit of work: for each input
 * plane of its group and each tap, rows of one are added to rows of the other.
 */
struct plane_conv {
    struct planes p;
    struct act act;
    size_t groups, group_in, group_out;
    bool transposed; /* weights [in, group_out, taps] instead of [out, group_in, taps] */
};

struct plane_conv_job {
    const struct plane_conv *q;
    const float *x, *w, *bias;
    float *y;
};

static bool conv_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *w = node_in(g, n, 1);
    if (!all_f32(g, n) || x->shape.rank < 3 || w->shape.rank != x->shape.rank) {
        return refuse(ret_reason, "only f32, with weights of the rank of the data");
    }
    if (node_int(n, ATTR_weight_layout, WEIGHT_OIHW) != WEIGHT_OIHW || node_int(n, ATTR_group, 1) < 1) {
        return refuse(ret_reason, "weights in another layout");
    }
    bool plain = n->op == OP_Conv ||
                 (node_attr(n, ATTR_output_shape) == NULL &&
                  (node_text_is(n, ATTR_auto_pad, "NOTSET", true) || node_text_is(n, ATTR_auto_pad, "VALID", false)));
    return plain || refuse(ret_reason, "a transposed convolution padded by its output's shape");
}

/* Positions of the short side (outputs of Conv, inputs of ConvTranspose) along dim d whose tap k meets the long side. */
static void meeting(const struct plane_conv *q, int32_t d, int64_t k, int64_t *ret_first, int64_t *ret_end)
{
    const struct planes *p = &q->p;
    int64_t shorter = q->transposed ? p->in[d] : p->out[d], longer = q->transposed ? p->out[d] : p->in[d];
    int64_t shift = k * p->dilation[d] - p->begin[d], stride = p->stride[d];
    int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    int64_t end = longer - shift <= 0 ? 0 : (longer - shift + stride - 1) / stride;
    *ret_first = first;
    *ret_end = end < shorter ? end : shorter;
}

/* y[i * y_step] += w * x[i * x_step] */
static void row_add(float *y, int64_t y_step, const float *x, int64_t x_step, int64_t n, float w)
{
    if (y_step == 1 && x_step == 1) {
        isa_own()->axpy(y, x, (size_t)n, w);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        y[i * y_step] += w * x[i * x_step];
    }
}

/* One tap of one input plane, over all rows. */
static void tap_add(const struct plane_conv *q, const int64_t *tap, const float *x, float *y, float w)
{
    const struct planes *p = &q->p;
    int32_t last = p->dims - 1;
    int64_t first[PLANES_DIMS], count[PLANES_DIMS], at[PLANES_DIMS] = {0};
    for (int32_t d = 0; d < p->dims; d++) {
        int64_t end = 0;
        meeting(q, d, tap[d], &first[d], &end);
        count[d] = end - first[d];
        if (count[d] <= 0) {
            return;
        }
    }
    do {
        int64_t x_at = 0, y_at = 0;
        for (int32_t d = 0; d < p->dims; d++) {
            int64_t here = first[d] + (d < last ? at[d] : 0);
            int64_t there = here * p->stride[d] + tap[d] * p->dilation[d] - p->begin[d];
            x_at += (q->transposed ? here : there) * p->in_step[d];
            y_at += (q->transposed ? there : here) * p->out_step[d];
        }
        int64_t x_step = p->in_step[last] * (q->transposed ? 1 : p->stride[last]);
        int64_t y_step = p->out_step[last] * (q->transposed ? p->stride[last] : 1);
        row_add(y + y_at, y_step, x + x_at, x_step, count[last], w);
    } while (planes_next(at, count, last));
}

static void plane_task(void *context, size_t unit)
{
    const struct plane_conv_job *j = context;
    const struct plane_conv *q = j->q;
    const struct planes *p = &q->p;
    size_t b = unit / p->out_channels, o = unit % p->out_channels, group = o / q->group_out;
    float *y = j->y + planes_out_at(p, b, o), start = j->bias != NULL ? j->bias[o] : 0.0f;
    size_t step = p->last ? p->out_channels : 1;
    for (size_t i = 0; i < p->out_size; i++) {
        y[i * step] = start;
    }
    for (size_t c = 0; c < q->group_in; c++) {
        size_t in = group * q->group_in + c;
        size_t row = q->transposed ? in * q->group_out + o % q->group_out : o * q->group_in + c;
        const float *x = j->x + planes_in_at(p, b, in), *w = j->w + row * p->taps;
        int64_t tap[PLANES_DIMS] = {0};
        do {
            tap_add(q, tap, x, y, *w++);
        } while (planes_next(tap, p->kernel, p->dims));
    }
}

static enum pen_status conv_run(struct step *s, struct run *r)
{
    const struct plane_conv *q = s->state;
    struct plane_conv_job j = {.q = q, .x = s->in[0], .w = s->in[1], .y = s->out[0]};
    j.bias = s->n->in_count > 2 ? s->in[2] : NULL;
    parallel(r, plane_task, &j, q->p.batch * q->p.out_channels);
    act_all(&q->act, s->out[0], q->p.batch * q->p.out_channels * q->p.out_size, r);
    return PEN_OK;
}

static enum pen_status conv_build(struct build *b)
{
    const struct shape *w = &build_in(b, 1)->shape;
    const struct fact *bias = build_in(b, 2);
    struct plane_conv *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->transposed = b->n->op == OP_ConvTranspose;
    q->groups = (size_t)node_int(b->n, ATTR_group, 1);
    q->act = act_read(b->n);
    if (!planes_read(b->n, &build_in(b, 0)->shape, &build_out(b, 0)->shape, w->dim + 2, q->transposed, &q->p) ||
        q->p.in_channels % q->groups != 0 || q->p.out_channels % q->groups != 0) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "input, weights and output do not fit each other");
    }
    q->group_in = q->p.in_channels / q->groups;
    q->group_out = q->p.out_channels / q->groups;
    bool fits = q->transposed ? (size_t)w->dim[0] == q->p.in_channels && (size_t)w->dim[1] == q->group_out
                              : (size_t)w->dim[0] == q->p.out_channels && (size_t)w->dim[1] == q->group_in;
    if (!fits || (bias != NULL && shape_elements(&bias->shape) != (int64_t)q->p.out_channels)) {
        return build_fail(b, PEN_ERR_SHAPE, "input, weights, bias and output do not fit each other");
    }
    b->step->state = q;
    b->step->run = conv_run;
    b->step->kernel = "own direct, plane by plane";
    b->step->why = "its data is not NHWC with one or two spatial dims";
    return PEN_OK;
}

static const struct plane_form conv_form = {&emit_conv, conv_supports, conv_build};
static const struct plane_form deconv_form = {&emit_deconv, conv_supports, conv_build};

static const struct plane_form *form_of(const struct node *n)
{
    return !KEPT(xnnpack_ConvTranspose) || n->op == OP_Conv ? &conv_form : &deconv_form;
}

static bool either_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return plane_form_supports(form_of(n), g, n, ret_reason);
}

static enum pen_status either_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                   struct pen_error *reterr)
{
    return plane_form_pack(form_of(n), g, n, ret_packed, ret_bytes, reterr);
}

static enum pen_status either_pack_bf16(const struct graph *g, const struct node *n, void **ret_packed,
                                        size_t *ret_bytes, struct pen_error *reterr)
{
    *ret_packed = NULL;
    *ret_bytes = 0;
    if (!form_of(n)->fast->supports(g, n, NULL)) {
        return PEN_OK;
    }
    return form_of(n) == &conv_form ? conv_pack_bf16(g, n, ret_packed, ret_bytes, reterr)
                                    : deconv_pack_bf16(g, n, ret_packed, ret_bytes, reterr);
}

static enum pen_status either_build(struct build *b)
{
    return plane_form_build(form_of(b->n), b);
}

static bool either_joins(const struct graph *g, const struct node *n)
{
    return form_of(n) == &conv_form && conv_joins(g, n);
}

const struct joiner conv_joiner = {either_joins};
const struct emitter emit_conv_either = {either_supports, either_pack, either_build};
const struct emitter emit_conv_bf16 = {either_supports, either_pack_bf16, either_build};
