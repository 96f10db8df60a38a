#include "backend/xnnpack/depthwise.h"

#include "backend/xnnpack/isa.h"

#define UNIT_MACS 20000 /* fewer are done before another thread has begun */

bool depthwise_takes(const struct filter *f)
{
    return isa_own()->wide && filter_is_depthwise(f);
}

static size_t blocks_of(size_t channels)
{
    return (channels + isa_own()->lanes - 1) / isa_own()->lanes;
}

/* The first channel of a block. */
static size_t block_first(size_t channels, size_t block)
{
    size_t lanes = isa_own()->lanes;
    return channels < lanes ? 0 : (block + 1) * lanes <= channels ? block * lanes : channels - lanes;
}

/* Floats of one block: a bias and the taps, a vector each. */
static size_t block_floats(size_t taps)
{
    return (taps + 1) * isa_own()->lanes;
}

size_t depthwise_packed_bytes(const struct filter *f)
{
    size_t bytes = blocks_of(f->out) * block_floats(f->kernel_h * f->kernel_w) * sizeof(float);
    return (bytes + 63) / 64 * 64;
}

void depthwise_pack(const struct filter *f, const float *ohwi, const float *bias, float *packed)
{
    const size_t lanes = isa_own()->lanes, taps = f->kernel_h * f->kernel_w;
    for (size_t block = 0; block < blocks_of(f->out); block++) {
        float *to = packed + block * block_floats(taps);
        for (size_t i = 0; i < lanes; i++) {
            size_t channel = block_first(f->out, block) + i;
            bool there = channel < f->out;
            to[i] = there && bias != NULL ? bias[channel] : 0.0f;
            for (size_t t = 0; t < taps; t++) {
                to[(t + 1) * lanes + i] = there ? ohwi[channel * taps + t] : 0.0f;
            }
        }
    }
}

/* Outputs of this dimension whose windows lie inside of the input: [*ret_from, *ret_to). */
static void inside_find(const struct window *w, int dim, size_t *ret_from, size_t *ret_to)
{
    size_t span = (w->kernel[dim] - 1) * w->dilation[dim] + 1, last = w->in[dim] + w->begin[dim];
    size_t from = (w->begin[dim] + w->stride[dim] - 1) / w->stride[dim];
    size_t to = last >= span ? (last - span) / w->stride[dim] + 1 : 0;
    to = to < w->out[dim] ? to : w->out[dim];
    *ret_from = from < to ? from : 0;
    *ret_to = from < to ? to : 0;
}

/* Results of a unit stay in the second cache; there are some units for each thread where they are worth a thread's coming. */
static size_t rows_of_unit(const struct window *w, size_t channels, size_t threads)
{
    const size_t row = w->out[1] * channels, rows = w->batch * w->out[0];
    const size_t worth = rows * row * w->kernel[0] * w->kernel[1] / UNIT_MACS;
    const size_t units = threads < 2 ? 1 : worth < 4 * threads ? worth : 4 * threads;
    const size_t most = row > 0 && row < CHUNK ? CHUNK / row : 1, even = units > 0 ? (rows + units - 1) / units : rows;
    return even < 1 ? 1 : even < most ? even : most;
}

void depthwise_init(struct depthwise *d, const struct window *w, const struct act *act, size_t channels, size_t threads)
{
    *d = (struct depthwise){.w = *w, .act = *act, .channels = channels};
    d->rows_unit = rows_of_unit(w, channels, threads);
    inside_find(w, 1, &d->inside_from, &d->inside_to);
}

struct depthwise_job {
    const struct depthwise *d;
    const float *packed, *x;
    void *const *in;
    float *y;
    size_t x_pixel, y_pixel; /* floats between pixels */
};

/* Output row `row` of all images. */
static void row_run(const struct depthwise_job *j, size_t row)
{
    const struct depthwise *d = j->d;
    const struct window *w = &d->w;
    const size_t taps = w->kernel[0] * w->kernel[1], oy = row % w->out[0];
    const float *image = j->x + row / w->out[0] * w->in[0] * w->in[1] * j->x_pixel;
    size_t ky = 0, end = w->kernel[0];
    ptrdiff_t top = (ptrdiff_t)(oy * w->stride[0]) - (ptrdiff_t)w->begin[0], step = (ptrdiff_t)w->dilation[0];
    while (ky < end && top + (ptrdiff_t)ky * step < 0) {
        ky++;
    }
    while (end > ky && top + (ptrdiff_t)(end - 1) * step >= (ptrdiff_t)w->in[0]) {
        end--;
    }
    size_t y0 = ky < end ? (size_t)(top + (ptrdiff_t)ky * step) : 0;
    struct depthwise_row r = {.x = image + y0 * w->in[1] * j->x_pixel,
                              .w = j->packed + (1 + ky * w->kernel[1]) * isa_own()->lanes,
                              .bias = j->packed,
                              .y = j->y + row * w->out[1] * j->y_pixel,
                              .x_row = w->dilation[0] * w->in[1] * j->x_pixel,
                              .x_pixel = j->x_pixel,
                              .y_pixel = j->y_pixel,
                              .kernel_h = end - ky,
                              .kernel_w = w->kernel[1],
                              .in_w = w->in[1],
                              .out_w = w->out[1],
                              .stride = w->stride[1],
                              .dilation = w->dilation[1],
                              .pad = w->begin[1],
                              .inside_from = d->inside_from,
                              .inside_to = d->inside_to,
                              .channels = d->channels,
                              .block = block_floats(taps),
                              .min = d->act.min,
                              .max = d->act.max};
    isa_own()->depthwise(&r);
}

/* The activation and the nodes behind it, over n results from a pixel on. */
static void results_finish(const struct depthwise_job *j, size_t pixel, size_t n)
{
    const struct depthwise *d = j->d;
    float *y = j->y + pixel * j->y_pixel;
    if (d->act.fn != UNARY_NONE) {
        isa_own()->unary(d->act.fn, y, y, n, d->act.a, 0.0f);
    }
    if (d->after != NULL) {
        epilogue_run(d->after, j->in, y, pixel * d->channels, n);
    }
}

/* Some rows, then the activation while they are in the cache. */
static void unit_run(void *context, size_t unit)
{
    const struct depthwise_job *j = context;
    const struct depthwise *d = j->d;
    const size_t all = d->w.batch * d->w.out[0], row = d->w.out[1] * d->channels, first = unit * d->rows_unit;
    const size_t end = first + d->rows_unit < all ? first + d->rows_unit : all;
    for (size_t i = first; i < end; i++) {
        row_run(j, i);
    }
    if (j->y_pixel == d->channels) {
        results_finish(j, first * d->w.out[1], (end - first) * row);
        return;
    }
    for (size_t i = first * d->w.out[1]; i < end * d->w.out[1]; i++) {
        results_finish(j, i, d->channels);
    }
}

void depthwise_run(const struct depthwise *d, const float *packed, const struct step *s, struct run *r)
{
    struct depthwise_job j = {d, packed, s->in[0], s->in, s->out[0], s->in_row[0], s->out_row};
    parallel(r, unit_run, &j, (d->w.batch * d->w.out[0] + d->rows_unit - 1) / d->rows_unit);
}
