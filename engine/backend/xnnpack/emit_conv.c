#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/depthwise.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/filter.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/plan.h"
#include "backend/xnnpack/window.h"
#include "backend/xnnpack/winograd.h"
#include "backend/xnnpack/xnn_compat.h"

/*
 * Conv, NHWC. Three ways:
 * - our matrix product (dense.h) for everything that is wide enough: weights are packed once per plan and shared by all execs, and it is faster than XNNPACK's
 *   (README.md); also the only way when weights are computed;
 * - our depthwise loops (depthwise.h) where each group has one channel in and out, and the processor has AVX2;
 * - XNNPACK for narrow groups and depthwise ones with several channels out, and for all where the processor has no AVX2. Output channels are cut into slices whose weights fit the second
 *   cache: XNNPACK does not block over them and would stream all weights again for every few rows. Slices are bit-identical to the whole.
 */
struct conv {
    struct window w;
    struct act act;
    struct filter f;
    bool repack;        /* weights are computed: pack on every run */
    float *ohwi;        /* scratch of repack */
    uint8_t *packed;    /* dense: [groups] of dense_weights; shared unless repack */
    struct dense dense; /* of group 0 */
    struct depthwise depthwise;
    struct winograd winograd;
    struct epilogue after; /* nodes behind it, as far as the kernel does not do them itself */
    uint32_t sum;          /* input that the product adds; UINT32_MAX = none */
    float *framed;         /* a copy of the input within its padding, for few channels; NULL = none */
    struct xc_op *ops;     /* XNNPACK: one per slice */
    size_t slices, slice;  /* slice: output channels of one, or groups when there are groups */
    bool
        by_rows; /* slices are bands of output rows instead: depthwise, so that a thread reads the rows it wrote before */
    float *x_padded; /* a constant input, copied: XNNPACK reads past the end */
};

static bool wants_dense(const struct filter *f)
{
    return isa_own()->lanes >= 8 && (f->groups == 1 || (f->out / f->groups >= 16 && f->in >= 4));
}

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

static enum pen_status no_memory(const struct node *n, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for the weights of node %s", n->name);
}

static enum pen_status pack_depthwise(const struct node *n, const struct filter *f, const struct value *w,
                                      const float *bias, void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    void *packed = packed_alloc(depthwise_packed_bytes(f));
    float *ohwi = malloc(filter_floats(f) * sizeof *ohwi + 64);
    if (packed == NULL || ohwi == NULL) {
        free(packed);
        free(ohwi);
        return no_memory(n, reterr);
    }
    filter_to_ohwi(f, w->data, ohwi);
    depthwise_pack(f, ohwi, bias, packed);
    free(ohwi);
    *ret_packed = packed;
    *ret_bytes = depthwise_packed_bytes(f);
    return PEN_OK;
}

static enum pen_status pack_dense(const struct node *n, const struct filter *f, const struct value *w,
                                  const float *bias, void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    uint8_t *packed = packed_alloc(filter_packed_bytes(f));
    float *scratch = filter_is_ohwi(f) ? NULL : malloc(filter_turn_floats(f) * sizeof *scratch + 64);
    if (packed == NULL || (scratch == NULL && !filter_is_ohwi(f))) {
        free(packed);
        free(scratch);
        return no_memory(n, reterr);
    }
    if (scratch != NULL) {
        filter_pack_turned(f, w->data, bias, scratch, packed);
    } else {
        filter_pack(f, w->data, bias, packed);
    }
    free(scratch);
    *ret_packed = packed;
    *ret_bytes = filter_packed_bytes(f);
    return PEN_OK;
}

static void batch_assume(struct shape *s)
{
    s->dim[0] = s->dim[0] == SHAPE_DIM_UNKNOWN ? 1 : s->dim[0];
}

/* Are its weights packed for winograd.h? What the graph knows of its picture decides, so that build and pack agree. */
static bool is_turned(const struct graph *g, const struct node *n, const struct filter *f)
{
    struct shape x = node_in(g, n, 0)->shape, y = node_out(g, n, 0)->shape;
    struct window w;
    if (x.rank != 4 || y.rank != 4 || !dims_known(node_in(g, n, 0), 1, 4) || !dims_known(node_out(g, n, 0), 1, 4)) {
        return false;
    }
    batch_assume(&x);
    batch_assume(&y);
    return window_read_exact(n, &x, &y, f->kernel, &w) && winograd_wants(&w, f);
}

static enum pen_status pack_turned(const struct node *n, const struct filter *f, const struct value *w,
                                   const float *bias, void **ret_packed, size_t *ret_bytes, struct pen_error *reterr)
{
    void *packed = packed_alloc(winograd_packed_bytes(f));
    float *ohwi = malloc(filter_floats(f) * sizeof *ohwi + 64);
    bool done = packed != NULL && ohwi != NULL;
    if (done) {
        filter_to_ohwi(f, w->data, ohwi);
        done = winograd_pack(f, ohwi, bias, packed);
    }
    free(ohwi);
    if (!done) {
        free(packed);
        return no_memory(n, reterr);
    }
    *ret_packed = packed;
    *ret_bytes = winograd_packed_bytes(f);
    return PEN_OK;
}

static enum pen_status conv_pack(const struct graph *g, const struct node *n, void **ret_packed, size_t *ret_bytes,
                                 struct pen_error *reterr)
{
    struct filter f;
    const struct value *w = node_in(g, n, 1), *bias = node_in(g, n, 2);
    if (w->data == NULL || (bias != NULL && bias->data == NULL) || !filter_read(n, &w->shape, &f)) {
        return PEN_OK;
    }
    const float *b = bias != NULL ? bias->data : NULL;
    return depthwise_takes(&f)   ? pack_depthwise(n, &f, w, b, ret_packed, ret_bytes, reterr)
           : is_turned(g, n, &f) ? pack_turned(n, &f, w, b, ret_packed, ret_bytes, reterr)
           : wants_dense(&f)     ? pack_dense(n, &f, w, b, ret_packed, ret_bytes, reterr)
                                 : PEN_OK;
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
    depthwise_init(&c->depthwise, &c->w, &c->act, c->f.out);
    c->depthwise.after = after ? &c->after : NULL;
    b->rows_in = 1;
    b->rows_out = true;
    b->step->run = run_depthwise;
    b->step->kernel = "own depthwise";
    b->step->why = "depthwise with one channel in and out for each window";
    return PEN_OK;
}

/* ---- our matrix product ---- */

#define FRAMED_CHANNELS 4 /* an image of up to so many channels is copied sooner than patches that cross its edges */

struct frame_job {
    const struct conv *c;
    const float *x;
};

/* One row of an image. */
static void frame_task(void *context, size_t unit)
{
    const struct frame_job *j = context;
    const struct window *w = &j->c->w;
    const struct dense_image *g = &j->c->dense.image;
    size_t image = unit / w->in[0], row = unit % w->in[0];
    memcpy(j->c->framed + ((image * g->in_h + w->begin[0] + row) * g->in_w + w->begin[1]) * w->channels,
           j->x + unit * w->in[1] * w->channels, w->in[1] * w->channels * sizeof(float));
}

/* The picture with its padding as part of the image; false without memory. */
static bool frame_make(struct build *b, struct conv *c, struct dense_image *image)
{
    const struct window *w = &c->w;
    image->in_h = w->begin[0] + w->in[0] + w->end[0];
    image->in_w = w->begin[1] + w->in[1] + w->end[1];
    image->pad_top = image->pad_left = 0;
    size_t slack = isa_own()->gemm_mr * image->stride_w * image->channels;
    c->framed = build_alloc(b, (image->batch * image->in_h * image->in_w * image->channels + slack) * sizeof(float));
    return c->framed != NULL;
}

static bool wants_frame(const struct conv *c)
{
    const struct window *w = &c->w;
    return c->f.groups == 1 && c->f.in <= FRAMED_CHANNELS && c->f.kernel_h * c->f.kernel_w * c->f.in <= GEMM_KC &&
           w->dilation[1] == 1 && dense_wide(w->out[1]) && w->begin[0] + w->end[0] + w->begin[1] + w->end[1] > 0;
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

static enum pen_status run_dense(struct step *s, struct run *r)
{
    struct conv *c = s->state;
    const struct filter *f = &c->f;
    if (c->repack) {
        filter_to_ohwi(f, s->in[1], c->ohwi);
        filter_pack(f, c->ohwi, s->n->in_count > 2 ? s->in[2] : NULL, c->packed);
    }
    const float *x = s->in[0];
    if (c->framed != NULL) {
        struct frame_job j = {c, x};
        parallel(r, frame_task, &j, c->w.batch * c->w.in[0]);
        x = c->framed;
    }
    size_t group_out = f->out / f->groups;
    struct dense d = c->dense;
    rows_take(&d, s, c->framed != NULL);
    const float *sum = c->sum != UINT32_MAX ? s->in[c->sum] : NULL;
    for (size_t g = 0; g < f->groups; g++) {
        const struct dense_weights *w = filter_group(f, c->packed, g);
        struct dense_item item = {.x = x + g * f->in,
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

/* ---- 3 x 3 by tiles ---- */

static enum pen_status run_winograd(struct step *s, struct run *r)
{
    const struct conv *c = s->state;
    const float *sum = c->sum != UINT32_MAX ? s->in[c->sum] : NULL;
    winograd_run(&c->winograd, (const float *)(const void *)c->packed, s, sum, r);
    return PEN_OK;
}

static enum pen_status build_winograd(struct build *b, struct conv *c)
{
    c->packed = (uint8_t *)(uintptr_t)b->packed; /* read only */
    const struct epilogue *after = epilogue_take(b, c, true);
    winograd_init(&c->winograd, &c->w, &c->f, &c->act, build_threads(b));
    c->winograd.after = after;
    b->rows_in = 1;
    b->rows_out = true;
    b->step->scratch_bytes = winograd_scratch_bytes(&c->winograd, build_threads(b));
    b->step->run = run_winograd;
    b->step->kernel = c->sum != UINT32_MAX ? "own Winograd F(4, 3) that adds" : "own Winograd F(4, 3)";
    b->step->why = "3 x 3 of stride 1 with enough channels and pixels: a quarter of the multiplications";
    return PEN_OK;
}

/* ---- our matrix product, built ---- */

static enum pen_status build_dense(struct build *b, struct conv *c)
{
    struct dense_image image = dense_image_of_window(&c->w, c->f.in);
    c->packed = (uint8_t *)(uintptr_t)b->packed; /* read only unless repack */
    if (b->packed == NULL) {
        c->repack = true;
        uint8_t *memory = build_alloc(b, filter_packed_bytes(&c->f) + 64);
        c->ohwi = build_alloc(b, filter_floats(&c->f) * sizeof(float));
        if (memory == NULL || c->ohwi == NULL) {
            return build_fail(b, PEN_ERR_NO_MEMORY, "no memory to pack weights");
        }
        c->packed = memory + (64 - (uintptr_t)memory % 64) % 64;
    }
    if (wants_frame(c) && !frame_make(b, c, &image)) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory for the input within its padding");
    }
    dense_init(&c->dense, &image, c->f.kernel_h * c->f.kernel_w * c->f.in, c->f.out / c->f.groups, build_threads(b));
    c->dense.after = epilogue_take(b, c, c->dense.k <= GEMM_KC && !c->repack);
    c->dense.y_stride = c->f.out;
    c->dense.sum_stride = c->f.out;
    c->dense.min = c->act.min;
    c->dense.max = c->act.max;
    c->dense.act = c->act;
    c->dense.slack = c->framed != NULL ? isa_own()->gemm_mr * image.stride_w * image.channels : 0;
    b->rows_in = c->framed == NULL;
    b->rows_out = true;
    b->step->scratch_bytes = dense_scratch_bytes(&c->dense, build_threads(b));
    b->step->run = run_dense;
    b->step->kernel = c->repack                                 ? "own gemm, weights packed each run"
                      : c->sum != UINT32_MAX && c->dense.direct ? "own gemm that adds"
                      : c->sum != UINT32_MAX                    ? "own gemm over patches that adds"
                      : c->dense.direct                         ? "own gemm"
                                                                : "own gemm over patches";
    b->step->why = c->repack         ? "its weights are computed"
                   : c->f.groups > 1 ? "its groups are wide enough for the vectors"
                   : c->dense.direct ? "a 1 x 1 window: its pixels are the rows of a matrix"
                                     : "one group, and vectors of 8 floats or more: patches are the rows of a matrix";
    return PEN_OK;
}

/* ---- XNNPACK ---- */

static enum pen_status xnn_fail(const struct step *s, struct run *r, const char *what, enum xnn_status status)
{
    return pen_error_set(r->error, status == xnn_status_out_of_memory ? PEN_ERR_NO_MEMORY : PEN_ERR_INTERNAL,
                         "xnnpack: node %s: %s failed with status %d", s->n->name, what, (int)status);
}

/* Band i of the output's rows: the input rows it reads, and how much of its window lies in the padding. */
struct band {
    size_t out, in, in_rows, pad_top, pad_bottom;
};

static struct band band_of(const struct conv *c, size_t i)
{
    const struct window *w = &c->w;
    size_t first = w->out[0] * i / c->slices, end = w->out[0] * (i + 1) / c->slices;
    size_t top = first * w->stride[0],
           bottom = (end - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dilation[0] + 1; /* with pad_top rows above */
    size_t in = top > w->begin[0] ? top - w->begin[0] : 0;
    size_t in_end = bottom > w->begin[0] ? bottom - w->begin[0] : 0;
    size_t rows_end = in_end < w->in[0] ? in_end : w->in[0];
    return (struct band){.out = first,
                         .in = in,
                         .in_rows = rows_end > in ? rows_end - in : 0,
                         .pad_top = top > w->begin[0] ? 0 : w->begin[0] - top,
                         .pad_bottom = in_end - rows_end};
}

/* Bands for all threads, unless one would read nothing but padding. */
static bool bands_choose(struct conv *c, size_t threads)
{
    c->slices = 2 * threads;
    bool fits = threads > 1 && c->f.groups > 1 && c->w.batch == 1 && c->w.out[0] >= c->slices;
    for (size_t i = 0; fits && i < c->slices; i++) {
        fits = band_of(c, i).in_rows > 0;
    }
    return fits;
}

static enum pen_status bind_bands(struct step *s, struct run *r)
{
    struct conv *c = s->state;
    const float *x = c->x_padded != NULL ? c->x_padded : s->in[0];
    for (size_t i = 0; i < c->slices; i++) {
        struct band band = band_of(c, i);
        enum xnn_status status =
            xc_conv_bind(&c->ops[i], 1, band.in_rows, c->w.in[1], x + band.in * c->w.in[1] * c->w.channels,
                         (float *)s->out[0] + band.out * c->w.out[1] * c->f.out);
        if (status != xnn_status_success) {
            return xnn_fail(s, r, "setting up a band of a convolution", status);
        }
    }
    return PEN_OK;
}

static enum pen_status bind_xnn(struct step *s, struct run *r)
{
    struct conv *c = s->state;
    const float *x = c->x_padded != NULL ? c->x_padded : s->in[0];
    bool grouped = c->f.groups > 1;
    if (c->by_rows) {
        return bind_bands(s, r);
    }
    for (size_t i = 0; i < c->slices; i++) {
        size_t first = i * c->slice;
        const float *from = x + (grouped ? first * c->f.in : 0);
        float *to = (float *)s->out[0] + first * (grouped ? c->f.out / c->f.groups : 1);
        enum xnn_status status = xc_conv_bind(&c->ops[i], c->w.batch, c->w.in[0], c->w.in[1], from, to);
        if (status != xnn_status_success) {
            return xnn_fail(s, r, "setting up a convolution", status);
        }
    }
    return PEN_OK;
}

struct slices_job {
    const struct conv *c;
    atomic_int status;
};

static void slice_task(void *context, size_t unit)
{
    struct slices_job *j = context;
    enum xnn_status status = xc_run(&j->c->ops[unit]);
    if (status != xnn_status_success) {
        atomic_store(&j->status, (int)status);
    }
}

static enum pen_status run_xnn(struct step *s, struct run *r)
{
    struct conv *c = s->state;
    struct slices_job j = {.c = c};
    atomic_init(&j.status, (int)xnn_status_success);
    parallel(r, slice_task, &j, c->slices);
    if (atomic_load(&j.status) != (int)xnn_status_success) {
        return xnn_fail(s, r, "a convolution", (enum xnn_status)atomic_load(&j.status));
    }
    act_run(&c->act, s->out[0], c->w.batch * c->w.out[0] * c->w.out[1] * c->f.out, r);
    return PEN_OK;
}

static void fini_xnn(struct step *s)
{
    struct conv *c = s->state;
    for (size_t i = 0; c != NULL && c->ops != NULL && i < c->slices; i++) {
        xc_free(&c->ops[i]);
    }
}

/*
 * Output channels of a slice, or groups. Half of the second cache for its weights, the rest for rows (few rows stream the weights once anyway); and enough
 * slices for all threads, whole vectors each.
 */
static size_t slice_units(const struct conv *c, size_t threads)
{
    size_t units = c->f.groups > 1 ? c->f.groups : c->f.out;
    size_t bytes = c->f.kernel_h * c->f.kernel_w * c->f.in * c->f.out / units * sizeof(float);
    size_t rows = c->w.out[0] * c->w.out[1] * c->w.batch, most = units;
    if (bytes * units > isa_l2_bytes() / 2 && rows > 8) {
        most = isa_l2_bytes() / 2 / bytes;
    }
    if (threads > 1 && units / (2 * threads) + 1 < most) {
        most = units / (2 * threads) + 1;
    }
    most = (most + 15) / 16 * 16;
    return most < units ? most : units;
}

static struct xc_conv slice_of(const struct conv *c, size_t first, const float *ohwi, const float *bias)
{
    const struct window *w = &c->w;
    const struct filter *f = &c->f;
    bool grouped = f->groups > 1;
    size_t units = grouped ? f->groups : f->out, count = units - first < c->slice ? units - first : c->slice;
    size_t out = first * (grouped ? f->out / f->groups : 1); /* first output channel */
    return (struct xc_conv){.pad_top = (uint32_t)w->begin[0],
                            .pad_right = (uint32_t)w->end[1],
                            .pad_bottom = (uint32_t)w->end[0],
                            .pad_left = (uint32_t)w->begin[1],
                            .kernel_h = (uint32_t)w->kernel[0],
                            .kernel_w = (uint32_t)w->kernel[1],
                            .stride_h = (uint32_t)w->stride[0],
                            .stride_w = (uint32_t)w->stride[1],
                            .dilation_h = (uint32_t)w->dilation[0],
                            .dilation_w = (uint32_t)w->dilation[1],
                            .groups = (uint32_t)(grouped ? count : 1),
                            .group_in = f->in,
                            .group_out = grouped ? f->out / f->groups : count,
                            .in_stride = w->channels,
                            .out_stride = f->out,
                            .kernel = ohwi + out * f->kernel_h * f->kernel_w * f->in,
                            .bias = bias != NULL ? bias + out : NULL,
                            .min = c->act.min,
                            .max = c->act.max};
}

static enum pen_status build_xnn(struct build *b, struct conv *c, const struct fact *bias)
{
    struct filter *f = &c->f;
    float *ohwi = malloc(filter_floats(f) * sizeof *ohwi + 4);
    size_t units = f->groups > 1 ? f->groups : f->out;
    c->by_rows = bands_choose(c, build_threads(b));
    c->slice = c->by_rows ? units : slice_units(c, build_threads(b));
    size_t slices = c->by_rows ? c->slices : (units + c->slice - 1) / c->slice;
    c->slices = slices;
    c->ops = build_alloc(b, slices * sizeof *c->ops);
    if (ohwi == NULL || c->ops == NULL) {
        free(ohwi);
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory for weights");
    }
    filter_to_ohwi(f, build_in(b, 1)->data, ohwi);
    b->step->fini = fini_xnn;
    b->step->bind = bind_xnn;
    b->step->run = run_xnn;
    b->step->kernel = c->by_rows   ? "XNNPACK direct, bands of rows"
                      : slices > 1 ? "XNNPACK direct, slices of channels"
                                   : "XNNPACK direct";
    b->step->why = f->groups > 1 ? "depthwise, or groups too narrow for a matrix product"
                                 : "this processor has no vectors of 8 floats";
    enum xnn_status status = xnn_status_success;
    for (size_t i = 0; i < slices && status == xnn_status_success; i++) {
        struct xc_conv x = slice_of(c, c->by_rows ? 0 : i * c->slice, ohwi, bias != NULL ? bias->data : NULL);
        if (c->by_rows) {
            struct band band = band_of(c, i);
            x.pad_top = (uint32_t)band.pad_top;
            x.pad_bottom = (uint32_t)band.pad_bottom;
        }
        status = xc_conv_create(&x, &c->ops[i]);
    }
    free(ohwi);
    return status == xnn_status_success ? PEN_OK
                                        : build_fail(b, PEN_ERR_UNSUPPORTED, "XNNPACK refuses this convolution");
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
    if (b->packed != NULL && is_turned(b->g, b->n, &c->f)) {
        return build_winograd(b, c);
    }
    if (b->packed != NULL || !constant || wants_dense(&c->f)) {
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
    return build_xnn(b, c, bias);
}

/* XNNPACK's kernels do nothing but convolve. */
bool conv_joins(const struct graph *g, const struct node *n)
{
    struct filter f;
    const struct value *w = node_in(g, n, 1);
    return conv_supports(g, n, NULL) && filter_read(n, &w->shape, &f) &&
           ((in_constant(g, n, 1) && depthwise_takes(&f)) || wants_dense(&f));
}

const struct emitter emit_conv = {conv_supports, conv_pack, conv_build};
