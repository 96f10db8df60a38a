#include <stdatomic.h>
#include <stdlib.h>

#include "backend/xnnpack/conv.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/xnn_compat.h"

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

enum pen_status conv_build_xnn(struct build *b, struct conv *c, const struct fact *bias)
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
