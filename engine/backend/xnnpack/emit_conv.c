#include <string.h>

#include "backend/xnnpack/conv.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/window.h"

/*
 * Conv, NHWC:
 * - our matrix product (dense.h) for everything that is wide enough: weights are packed once per plan and shared by all execs, and it is faster than XNNPACK's
 *   (README.md); also the only way when weights are computed;
 * - products over turned tiles (winograd.h) of the same packed weights, where conv_forms.c finds that quicker;
 * - our depthwise loops (depthwise.h) where each group has one channel in and out, and the processor has AVX2;
 * - products of groups over bands of the image (groups.h) where each group has several channels in or out, and the processor has AVX2;
 * - XNNPACK for narrow groups of 1 x 1 or dilated windows, and for all where the processor has no AVX2. Output channels are cut into slices whose weights fit the second
 *   cache: XNNPACK does not block over them and would stream all weights again for every few rows. Slices are bit-identical to the whole.
 */
static bool conv_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    struct filter f;
    if (!all_f32(g, n)) {
        return refuse(ret_reason, "only f32");
    }
    if (!window_supports(g, n, node_in(g, n, 1), ret_reason)) {
        return false;
    }
    return filter_read(n, &node_in(g, n, 1)->shape, &f) || refuse(ret_reason, "weights do not fit the groups");
}

/* ---- depthwise ---- */

static enum pen_status run_depthwise(struct step *s, struct run *r)
{
    const struct conv *c = s->state;
    depthwise_run(&c->depthwise, (const float *)(const void *)c->packed, s, r);
    return PEN_OK;
}

static enum pen_status build_depthwise(struct build *b, struct conv *c)
{
    c->packed = (uint8_t *)(uintptr_t)b->packed; /* read only */
    bool after = b->chain != NULL && epilogue_init(&c->after, b, &c->act, NULL);
    depthwise_init(&c->depthwise, &c->w, &c->act, c->f.out, build_threads(b));
    c->depthwise.after = after ? &c->after : NULL;
    b->rows_in = 1;
    b->rows_out = true;
    b->step->run = run_depthwise;
    b->step->kernel = "own depthwise";
    b->step->why = "depthwise with one channel in and out for each window";
    return PEN_OK;
}

/* ---- few channels out ---- */

static enum pen_status run_narrow(struct step *s, struct run *r)
{
    const struct conv *c = s->state;
    narrow_run(&c->narrow, (const float *)(const void *)c->packed, s, r);
    return PEN_OK;
}

static enum pen_status build_narrow(struct build *b, struct conv *c)
{
    c->packed = (uint8_t *)(uintptr_t)b->packed; /* read only */
    bool after = b->chain != NULL && epilogue_init(&c->after, b, &c->act, NULL);
    narrow_init(&c->narrow, &c->w, &c->act, &c->f);
    c->narrow.after = after ? &c->after : NULL;
    b->rows_in = 1;
    b->step->scratch_bytes = narrow_scratch_bytes(&c->narrow, build_threads(b));
    b->step->run = run_narrow;
    b->step->kernel = "own sums along the window";
    b->step->why = "few channels out: vectors go along the terms of a sum";
    return PEN_OK;
}

/* ---- our matrix product ---- */

#define FRAMED_CHANNELS 4  /* an image of up to so many channels is copied sooner than patches that cross its edges */
#define FRAMED_WIDTH    64 /* and one of more channels where rows are so short that most tiles would have such patches */

struct frame_job {
    const struct conv *c;
    const float *x; /* the first channel of the group */
    size_t x_pixel; /* floats between pixels */
};

/* One row of an image. */
static void frame_task(void *context, size_t unit)
{
    const struct frame_job *j = context;
    const struct window *w = &j->c->w;
    const struct dense_image *g = &j->c->dense.image;
    size_t image = unit / w->in[0], row = unit % w->in[0];
    const size_t channels = j->c->f.in;
    float *to = j->c->framed + ((image * g->in_h + w->begin[0] + row) * g->in_w + w->begin[1]) * channels;
    const float *from = j->x + unit * w->in[1] * j->x_pixel;
    if (j->x_pixel == channels) {
        memcpy(to, from, w->in[1] * channels * sizeof(float));
        return;
    }
    for (size_t i = 0; i < w->in[1]; i++, to += channels, from += j->x_pixel) {
        memcpy(to, from, channels * sizeof(float));
    }
}

/* The picture with its padding as part of the image; false without memory. */
static bool frame_make(struct build *b, struct conv *c, struct dense_image *image)
{
    const struct window *w = &c->w;
    image->in_h = w->begin[0] + w->in[0] + w->end[0];
    image->in_w = w->begin[1] + w->in[1] + w->end[1];
    image->pad_top = image->pad_left = 0;
    image->pixel_stride = image->channels;
    size_t slack = isa_own()->gemm_mr * image->stride_w * image->channels;
    c->framed = build_alloc(b, (image->batch * image->in_h * image->in_w * image->channels + slack) * sizeof(float));
    return c->framed != NULL;
}

/* An image of pairs has its padding already (dense_paired.h). */
static bool is_paired(const struct build *b, const struct conv *c)
{
    return b->packed != NULL && filter_group(&c->f, b->packed, 0)->form == GEMM_PAIRS && isa_tiles() &&
           c->f.in % 2 == 0;
}

static bool wants_frame(const struct build *b, const struct conv *c)
{
    const struct window *w = &c->w;
    if (is_paired(b, c)) {
        return false;
    }
    if (c->f.groups > 1) { /* else each pixel of a patch is a piece of its own */
        return c->f.kernel_h * c->f.kernel_w > 1;
    }
    const bool few = c->f.in <= FRAMED_CHANNELS, narrow = w->out[1] <= FRAMED_WIDTH && dense_is_wide(w->out[1]);
    return (few || narrow) && c->f.kernel_h * c->f.kernel_w * c->f.in <= GEMM_KC && w->dilation[1] == 1 &&
           w->begin[0] + w->end[0] + w->begin[1] + w->end[1] > 0;
}

/* Pixels may be further apart than they are long, on both sides. */
static void rows_take(struct dense *d, const struct step *s, bool framed)
{
    d->y_stride = s->out_row;
    if (!framed) {
        d->image.pixel_stride = s->in_row[0];
        d->banded = d->banded && d->image.pixel_stride == d->image.channels;
    }
}

static enum pen_status run_product(struct step *s, struct run *r)
{
    struct conv *c = s->state;
    const struct filter *f = &c->f;
    if (c->repack) {
        filter_to_ohwi(f, s->in[1], c->ohwi);
        filter_pack(f, c->ohwi, s->n->in_count > 2 ? s->in[2] : NULL, c->packed);
    }
    size_t group_out = f->out / f->groups;
    struct dense d = c->dense;
    rows_take(&d, s, c->framed != NULL);
    const float *sum = c->sum != UINT32_MAX ? s->in[c->sum] : NULL;
    for (size_t g = 0; g < f->groups; g++) {
        const struct dense_weights *w = filter_group(f, c->packed, g);
        const float *x = (const float *)s->in[0] + g * f->in;
        if (c->framed != NULL) {
            struct frame_job j = {c, x, s->in_row[0]};
            parallel(r, frame_task, &j, c->w.batch * c->w.in[0]);
            x = c->framed;
        }
        struct dense_item item = {.x = x,
                                  .panels = w->data,
                                  .bias = dense_bias(w),
                                  .sum = sum != NULL ? sum + g * group_out : NULL,
                                  .y = (float *)s->out[0] + g * group_out,
                                  .in = s->in,
                                  .y_at = g * group_out};
        dense_run(&d, &item, 1, s->scratch, r);
    }
    return PEN_OK;
}

/*
 * The nodes behind the convolution: an addition and an activation are the product's own work. The result may take the memory of what is added when a tile is
 * done in one go: then nothing of it is written before its place is read.
 */
static const struct epilogue *epilogue_take(struct build *b, struct conv *c, bool one_go)
{
    const struct epilogue *after = b->chain != NULL && epilogue_init(&c->after, b, &c->act, &c->sum) ? &c->after : NULL;
    if (c->sum != UINT32_MAX && one_go && after == NULL) {
        b->inplace = 1u << c->sum;
        b->exclusive = true;
    }
    return after;
}

/* ---- groups ---- */

static enum pen_status run_groups(struct step *s, struct run *r)
{
    const struct conv *c = s->state;
    groups_run(&c->groups, c->packed, s, c->sum != UINT32_MAX ? s->in[c->sum] : NULL, r);
    return PEN_OK;
}

static enum pen_status build_groups(struct build *b, struct conv *c)
{
    c->packed = (uint8_t *)(uintptr_t)b->packed; /* read only */
    const struct epilogue *after = epilogue_take(b, c, true);
    groups_init(&c->groups, &c->w, &c->f, &c->act, build_threads(b));
    c->groups.after = after;
    b->rows_in = 1;
    b->rows_out = true;
    b->step->scratch_bytes = groups_scratch_bytes(&c->groups, build_threads(b));
    b->step->run = run_groups;
    b->step->kernel = c->sum != UINT32_MAX ? "own gemm of groups that adds" : "own gemm of groups";
    b->step->why = c->groups.merged > 1 ? "narrow groups are multiplied several at once, to fill the vectors"
                                        : "each group is a product over bands of the image";
    return PEN_OK;
}

/* ---- our matrix product, built ---- */

static void product_take(struct step *s)
{
    const struct conv *c = s->state;
    s->run = run_product;
    const bool rounded = c->dense.form != GEMM_F32;
    s->kernel = c->repack                                 ? "own gemm, weights packed each run"
                : c->dense.tiles                          ? "own gemm, bf16 in AMX tiles"
                : rounded && c->dense.form == GEMM_PAIRS  ? "own gemm, bf16 by its instruction"
                : rounded                                 ? "own gemm, weights of bf16"
                : c->sum != UINT32_MAX && c->dense.direct ? "own gemm that adds"
                : c->sum != UINT32_MAX                    ? "own gemm over patches that adds"
                : c->dense.direct                         ? "own gemm"
                                                          : "own gemm over patches";
    s->why = c->repack         ? "its weights are computed"
             : c->f.groups > 1 ? "its groups are wide enough for the vectors"
             : c->dense.direct ? "a 1 x 1 window: its pixels are the rows of a matrix"
                               : "one group, and vectors of 8 floats or more: patches are the rows of a matrix";
}

static enum pen_status build_dense(struct build *b, struct conv *c)
{
    struct dense_image image = dense_image_of_window(&c->w, c->f.in);
    c->packed = (uint8_t *)(uintptr_t)b->packed; /* read only unless repack */
    if (b->packed == NULL) {
        c->repack = true;
        uint8_t *memory = build_alloc(b, filter_packed_bytes(&c->f, GEMM_F32) + 64);
        c->ohwi = build_alloc(b, filter_floats(&c->f) * sizeof(float));
        if (memory == NULL || c->ohwi == NULL) {
            return build_fail(b, PEN_ERR_NO_MEMORY, "no memory to pack weights");
        }
        c->packed = memory + (64 - (uintptr_t)memory % 64) % 64;
    }
    if (wants_frame(b, c) && !frame_make(b, c, &image)) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory for the input within its padding");
    }
    dense_init(&c->dense, &image, c->f.kernel_h * c->f.kernel_w * c->f.in, c->f.out / c->f.groups, build_threads(b));
    if (b->packed != NULL) {
        dense_form_set(&c->dense, filter_group(&c->f, b->packed, 0)->form, build_threads(b));
    }
    c->dense.after = epilogue_take(b, c, c->dense.k <= GEMM_KC && !c->repack);
    c->dense.y_stride = c->f.out;
    c->dense.sum_stride = c->f.out;
    c->dense.min = c->act.min;
    c->dense.max = c->act.max;
    c->dense.act = c->act;
    c->dense.slack = c->framed != NULL ? isa_own()->gemm_mr * image.stride_w * image.channels : 0;
    b->rows_in = 1;
    b->rows_out = true;
    b->step->scratch_bytes = dense_scratch_bytes(&c->dense, build_threads(b));
    c->product = product_take;
    product_take(b->step);
    return b->packed != NULL && c->dense.form == GEMM_F32 ? conv_forms_build(b, c) : PEN_OK;
}

static enum pen_status conv_build(struct build *b)
{
    const struct fact *x = build_in(b, 0), *weights = build_in(b, 1), *bias = build_in(b, 2);
    struct conv *c = build_alloc(b, sizeof *c);
    if (c == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    b->step->state = c;
    if (!filter_read(b->n, &weights->shape, &c->f) ||
        !window_read_exact(b->n, &x->shape, &build_out(b, 0)->shape, c->f.kernel, &c->w) ||
        c->w.channels != c->f.in * c->f.groups || build_out(b, 0)->shape.dim[x->shape.rank - 1] != (int64_t)c->f.out) {
        return build_fail(b, PEN_ERR_SHAPE, "input, weights and output do not fit each other");
    }
    if (bias != NULL && shape_elements(&bias->shape) != (int64_t)c->f.out) {
        return build_fail(b, PEN_ERR_SHAPE, "the bias does not have one element per output channel");
    }
    c->act = act_read(b->n);
    c->sum = UINT32_MAX;
    bool constant = weights->data != NULL && (bias == NULL || bias->data != NULL);
    if (b->packed != NULL && depthwise_takes(&c->f)) {
        return build_depthwise(b, c);
    }
    if (b->packed != NULL && narrow_takes(b->n, &c->f)) {
        return build_narrow(b, c);
    }
    if (b->packed != NULL && groups_takes(b->n, &c->f) && filter_group(&c->f, b->packed, 0)->form == GEMM_F32) {
        return build_groups(b, c);
    }
    if (b->packed != NULL || !constant || conv_is_dense(&c->f)) {
        return build_dense(b, c);
    }
    if (x->data != NULL) {
        size_t bytes = (size_t)shape_elements(&x->shape) * sizeof(float);
        c->x_padded = build_alloc(b, bytes);
        if (c->x_padded == NULL) {
            return build_fail(b, PEN_ERR_NO_MEMORY, "no memory for a constant input");
        }
        memcpy(c->x_padded, x->data, bytes);
    }
    return conv_build_xnn(b, c, bias);
}

/* XNNPACK's kernels do nothing but convolve. */
bool conv_joins(const struct graph *g, const struct node *n)
{
    struct filter f;
    const struct value *w = node_in(g, n, 1);
    return conv_supports(g, n, NULL) && filter_read(n, &w->shape, &f) &&
           ((in_constant(g, n, 1) && (depthwise_takes(&f) || groups_takes(n, &f))) || conv_is_dense(&f));
}

const struct emitter emit_conv = {conv_supports, conv_pack, conv_build};
