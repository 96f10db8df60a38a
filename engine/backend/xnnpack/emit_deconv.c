#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/conv.h"
#include "backend/xnnpack/deconv_rows.h"
#include "backend/xnnpack/deconv_tiles.h"
#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/window.h"
#include "backend/xnnpack/xnn_compat.h"

/*
 * ConvTranspose, NHWC, constant weights [in, out / groups, kh, kw]: our product where windows lie side by side (deconv_tiles.h) or channels fill vectors
 * (deconv_rows.h), else XNNPACK's deconvolution, which wants [groups, out, kh, kw, in].
 */
struct deconv {
    struct xc_op op;
    size_t batch, in_h, in_w, out_count;
    uint32_t extra_h, extra_w; /* rows and columns of output that the formula leaves open */
    struct act act;
};

static enum pen_status deconv_bind(struct step *s, struct run *r)
{
    struct deconv *d = s->state;
    enum xnn_status status =
        xc_deconv_bind(&d->op, d->batch, d->in_h, d->in_w, d->extra_h, d->extra_w, s->in[0], s->out[0]);
    return status == xnn_status_success
               ? PEN_OK
               : pen_error_set(r->error, PEN_ERR_INTERNAL, "xnnpack: node %s: setting up failed (%d)", s->n->name,
                               (int)status);
}

static enum pen_status deconv_run(struct step *s, struct run *r)
{
    struct deconv *d = s->state;
    enum xnn_status status = xc_run(&d->op);
    if (status != xnn_status_success) {
        return pen_error_set(r->error, PEN_ERR_INTERNAL, "xnnpack: node %s: status %d", s->n->name, (int)status);
    }
    act_run(&d->act, s->out[0], d->out_count, r);
    return PEN_OK;
}

static void deconv_fini(struct step *s)
{
    struct deconv *d = s->state;
    if (d != NULL) {
        xc_free(&d->op);
    }
}

/* [in, group_out, kh, kw] -> [groups, group_out, kh, kw, group_in]. */
static void kernel_turn(const float *w, size_t groups, size_t group_in, size_t group_out, size_t pixels, float *to)
{
    for (size_t g = 0; g < groups; g++) {
        for (size_t o = 0; o < group_out; o++) {
            for (size_t p = 0; p < pixels; p++) {
                for (size_t i = 0; i < group_in; i++) {
                    *to++ = w[((g * group_in + i) * group_out + o) * pixels + p];
                }
            }
        }
    }
}

static size_t item_of(const struct node *n, enum attr_key key, int32_t index)
{
    const int64_t item = node_item(n, key, index, 0);
    return item > 0 ? (size_t)item : 0;
}

/*
 * Padding of one dim from the output's size: out = (in - 1) * stride + reach + output_padding - pads. What the padding at the end cannot take of
 * output_padding stays as extra rows, fewer than a stride. False when no padding gives the size.
 */
static bool dim_fit(const struct node *n, const struct window *w, int at, size_t padding, uint32_t *ret_begin,
                    uint32_t *ret_end, uint32_t *ret_extra)
{
    size_t reach = (w->kernel[at] - 1) * w->dilation[at] + 1;
    size_t whole = (w->in[at] - 1) * w->stride[at] + reach;
    size_t begin = w->begin[at], end = w->end[at];
    bool same = !node_text_is(n, ATTR_auto_pad, "NOTSET", true) && !node_text_is(n, ATTR_auto_pad, "VALID", false);
    if (same || node_attr(n, ATTR_output_shape) != NULL) {
        size_t total = whole + padding > w->out[at] ? whole + padding - w->out[at] : 0;
        begin = node_text_is(n, ATTR_auto_pad, "SAME_UPPER", false) ? total / 2 : total - total / 2;
        end = total - begin;
        end = end > padding ? end - padding : 0;
    }
    if (begin + end > whole || w->out[at] < whole - begin - end ||
        w->out[at] - (whole - begin - end) >= w->stride[at]) {
        return false;
    }
    *ret_begin = (uint32_t)begin;
    *ret_end = (uint32_t)end;
    *ret_extra = (uint32_t)(w->out[at] - (whole - begin - end));
    return true;
}

/* Everything about a node whose shapes are concrete. */
static bool geometry(const struct node *n, const struct shape *x, const struct shape *y, const struct shape *weights,
                     struct window *w, struct deconv *d, struct xc_conv *c)
{
    int64_t groups = node_int(n, ATTR_group, 1);
    if (groups < 1 || x->rank < 3 || y->rank != x->rank || weights->rank != x->rank || weights->dim[0] % groups != 0 ||
        x->dim[x->rank - 1] != weights->dim[0] || y->dim[y->rank - 1] != weights->dim[1] * groups) {
        return false;
    }
    int32_t first = x->rank - 4; /* one dim: its numbers are those of the width */
    return window_read(n, x, y, weights->dim + 2, w) &&
           dim_fit(n, w, 0, item_of(n, ATTR_output_padding, first), &c->pad_top, &c->pad_bottom, &d->extra_h) &&
           dim_fit(n, w, 1, item_of(n, ATTR_output_padding, first + 1), &c->pad_left, &c->pad_right, &d->extra_w);
}

/* While sizes are open only what cannot fail for any size is taken. */
static bool any_size_fits(const struct node *n, int32_t spatial)
{
    if (node_attr(n, ATTR_output_shape) != NULL) {
        return false;
    }
    for (int32_t i = 0; i < spatial; i++) {
        size_t stride = item_of(n, ATTR_strides, i), kernel = item_of(n, ATTR_kernel_shape, i);
        size_t pads = item_of(n, ATTR_pads, i) + item_of(n, ATTR_pads, i + spatial);
        if (item_of(n, ATTR_output_padding, i) >= (stride > 0 ? stride : 1) || pads > (kernel > 0 ? kernel : 1)) {
            return false;
        }
    }
    return true;
}

static bool deconv_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *w = node_in(g, n, 1), *bias = node_in(g, n, 2), *x = node_in(g, n, 0), *y = node_out(g, n, 0);
    if (!all_f32(g, n) || !window_supports(g, n, w, ret_reason)) {
        return refuse(ret_reason, "only f32 in NHWC with one or two spatial dims");
    }
    if (w->data == NULL || (bias != NULL && bias->data == NULL) || x->data != NULL) {
        return refuse(ret_reason, "weights or bias are not constant");
    }
    if (node_int(n, ATTR_weight_layout, WEIGHT_OIHW) != WEIGHT_OIHW) {
        return refuse(ret_reason, "weights in another layout");
    }
    struct window window;
    struct deconv d = {0};
    struct xc_conv c = {0};
    bool known = dims_known(x, 1, x->shape.rank) && dims_known(y, 1, y->shape.rank);
    struct shape xs = x->shape, ys = y->shape;
    xs.dim[0] = ys.dim[0] = 1; /* the batch decides nothing */
    bool fits = known ? geometry(n, &xs, &ys, &w->shape, &window, &d, &c) : any_size_fits(n, x->shape.rank - 2);
    return fits || refuse(ret_reason, "this combination of padding, strides and output shape");
}

static enum pen_status create(struct build *b, struct deconv *d, struct xc_conv *c, size_t in, const struct fact *bias)
{
    size_t pixels = (size_t)c->kernel_h * c->kernel_w;
    float *turned = malloc(in * c->group_out * pixels * sizeof *turned);
    if (turned == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory for weights");
    }
    kernel_turn(build_in(b, 1)->data, c->groups, c->group_in, c->group_out, pixels, turned);
    c->kernel = turned;
    c->bias = bias != NULL ? bias->data : NULL;
    b->step->fini = deconv_fini;
    enum xnn_status status = xc_deconv_create(c, &d->op);
    free(turned);
    return status == xnn_status_success
               ? PEN_OK
               : build_fail(b, PEN_ERR_UNSUPPORTED, "XNNPACK refuses this transposed convolution");
}

static enum pen_status pack_form(const struct graph *g, const struct node *n, enum gemm_form form, void **ret_packed,
                                 size_t *ret_bytes, struct pen_error *reterr)
{
    if (deconv_tiles_takes(g, n)) {
        return deconv_tiles_pack(g, n, form, ret_packed, ret_bytes, reterr);
    }
    return deconv_rows_takes(g, n) ? deconv_rows_pack(g, n, form, ret_packed, ret_bytes, reterr) : PEN_OK;
}

static enum pen_status deconv_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                   struct pen_error *reterr)
{
    return pack_form(g, n, GEMM_F32, ret_packed, ret_bytes, reterr);
}

enum pen_status deconv_pack_bf16(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                 struct pen_error *reterr)
{
    return pack_form(g, n, dense_form_bf16(), ret_packed, ret_bytes, reterr);
}

static enum pen_status build_rows(struct build *b, const struct window *w, const struct xc_conv *c, size_t groups)
{
    const struct deconv_place place = {.batch = w->batch,
                                       .groups = groups,
                                       .in = {w->in[0], w->in[1]},
                                       .out = {w->out[0], w->out[1]},
                                       .kernel = {w->kernel[0], w->kernel[1]},
                                       .stride = {w->stride[0], w->stride[1]},
                                       .dilation = {w->dilation[0], w->dilation[1]},
                                       .begin = {c->pad_top, c->pad_left}};
    return deconv_rows_build(b, &place);
}

static enum pen_status deconv_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape, *y = &build_out(b, 0)->shape, *ws = &build_in(b, 1)->shape;
    const struct fact *bias = build_in(b, 2);
    struct deconv *d = build_alloc(b, sizeof *d);
    struct window w;
    int64_t groups = node_int(b->n, ATTR_group, 1);
    if (d == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    b->step->state = d;
    int64_t in = ws->dim[0], out = ws->dim[1] * groups;
    struct xc_conv c = {0};
    if (!geometry(b->n, x, y, ws, &w, d, &c) || (bias != NULL && shape_elements(&bias->shape) != out)) {
        return build_fail(b, PEN_ERR_UNSUPPORTED, "this combination of padding, strides and output shape");
    }
    if (b->packed != NULL && deconv_tiles_takes(b->g, b->n)) {
        return deconv_tiles_build(b);
    }
    if (b->packed != NULL) {
        return build_rows(b, &w, &c, (size_t)groups);
    }
    d->act = act_read(b->n);
    d->batch = w.batch;
    d->in_h = w.in[0];
    d->in_w = w.in[1];
    d->out_count = (size_t)shape_elements(y);
    c.kernel_h = (uint32_t)w.kernel[0];
    c.kernel_w = (uint32_t)w.kernel[1];
    c.stride_h = (uint32_t)w.stride[0];
    c.stride_w = (uint32_t)w.stride[1];
    c.dilation_h = (uint32_t)w.dilation[0];
    c.dilation_w = (uint32_t)w.dilation[1];
    c.groups = (uint32_t)groups;
    c.group_in = (size_t)(in / groups);
    c.group_out = (size_t)(out / groups);
    c.in_stride = (size_t)in;
    c.out_stride = (size_t)out;
    c.min = d->act.min;
    c.max = d->act.max;
    b->step->bind = deconv_bind;
    b->step->run = deconv_run;
    b->step->kernel = "XNNPACK transposed convolution";
    return create(b, d, &c, (size_t)in, bias);
}

const struct emitter emit_deconv = {deconv_supports, deconv_pack, deconv_build};
