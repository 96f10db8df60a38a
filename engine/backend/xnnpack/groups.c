#include "backend/xnnpack/groups.h"

#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/after.h"
#include "backend/xnnpack/isa.h"

#define BAND_FLOATS ((size_t)12 << 10) /* of copied rows: 48 KiB */
#define UNITS_EACH  4                  /* units for each thread */
#define LINE        16                 /* floats */

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* ---- weights ---- */

bool groups_takes(const struct node *n, const struct filter *f)
{
    uint32_t count = 0;
    const int64_t *dilations = node_ints(n, ATTR_dilations, &count);
    const bool apart = count > 0 && dilations[count - 1] > 1 && f->kernel_w > 1;
    return isa_own()->wide && f->groups > 1 && !filter_is_depthwise(f) && f->kernel_h * f->kernel_w > 1 && !apart;
}

static struct filter merged_of(const struct filter *f, size_t *ret_merged)
{
    struct filter all = *f;
    *ret_merged = filter_merge(&all, isa_own()->lanes, SIZE_MAX);
    return all;
}

size_t groups_packed_bytes(const struct filter *f)
{
    size_t merged;
    const struct filter all = merged_of(f, &merged);
    return filter_packed_bytes(&all, GEMM_F32);
}

/* [out][h][w][in] of merged groups from the same of each: weights from one of them to another are zero. */
static void spread(const struct filter *f, size_t merged, const float *ohwi, float *to)
{
    const size_t pixels = f->kernel_h * f->kernel_w, out = f->out / f->groups, wide = f->in * merged;
    memset(to, 0, f->out * pixels * wide * sizeof *to);
    for (size_t o = 0; o < f->out; o++) {
        const size_t place = o / out % merged * f->in;
        for (size_t p = 0; p < pixels; p++) {
            memcpy(to + (o * pixels + p) * wide + place, ohwi + (o * pixels + p) * f->in, f->in * sizeof *to);
        }
    }
}

enum pen_status groups_pack(const struct filter *f, const float *w, const float *bias, uint8_t *packed)
{
    size_t merged;
    const struct filter all = merged_of(f, &merged);
    float *ohwi = malloc((filter_floats(f) + filter_floats(&all)) * sizeof *ohwi + 64), *wide;
    if (ohwi == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    wide = ohwi + filter_floats(f);
    filter_to_ohwi(f, w, ohwi);
    spread(f, merged, ohwi, wide);
    filter_pack(&all, wide, bias, packed);
    free(ohwi);
    return PEN_OK;
}

/* ---- units of work ---- */

/* Rows of the padded image under `rows` of the output. */
static size_t rows_under(const struct window *w, size_t rows)
{
    return (rows - 1) * w->stride[0] + (w->kernel[0] - 1) * w->dilation[0] + 1;
}

void groups_init(struct groups *q, const struct window *w, const struct filter *f, const struct act *act,
                 size_t threads)
{
    *q = (struct groups){.w = *w, .act = *act};
    q->f = merged_of(f, &q->merged);
    q->pitch = ((w->out[1] - 1) * w->stride[1] + w->kernel[1]) * q->f.in;
    size_t rows = 1;
    while (rows < w->out[0] && rows_under(w, rows + 1) * q->pitch <= BAND_FLOATS) {
        rows++;
    }
    q->bands = w->out[0] > 0 ? divide_up(w->out[0], rows) : 1;
    q->band_rows = divide_up(w->out[0], q->bands);
    const size_t bands = w->batch > 0 ? w->batch * q->bands : 1, wanted = threads > 1 ? UNITS_EACH * threads : 1;
    const size_t cuts = bands < wanted ? divide_up(wanted, bands) : 1;
    q->chunk = divide_up(q->f.groups, cuts < q->f.groups ? cuts : q->f.groups);
    q->chunks = divide_up(q->f.groups, q->chunk);
}

/* The copied rows, and what a tile reads behind the last one. */
static size_t thread_floats(const struct groups *q)
{
    const size_t behind = isa_own()->gemm_mr * q->w.stride[1] * q->f.in;
    return (rows_under(&q->w, q->band_rows) * q->pitch + behind + LINE - 1) / LINE * LINE;
}

size_t groups_scratch_bytes(const struct groups *q, size_t threads)
{
    return thread_floats(q) * sizeof(float) * (threads > 0 ? threads : 1);
}

struct job {
    const struct groups *q;
    const struct step *s;
    const uint8_t *packed;
    const float *x, *sum;
    float *y, *scratch;
    size_t x_pixel, y_pixel; /* floats between pixels */
};

/* Channels of some pixels, which lie `pixel` floats apart, next to each other. */
static void pixels_copy(float *to, const float *from, size_t pixel, size_t count, size_t channels)
{
    if (isa_bytes() != NULL) {
        isa_bytes()->copy((uint8_t *)to, (const uint8_t *)from, channels * sizeof *to, count, pixel * sizeof *to, 0);
        return;
    }
    for (size_t i = 0; i < count; i++, to += channels, from += pixel) {
        memcpy(to, from, channels * sizeof *to);
    }
}

/* One row of a group, between what pads it. */
static void row_copy(const struct job *j, const float *row, float *to)
{
    const struct window *w = &j->q->w;
    const size_t channels = j->q->f.in, width = j->q->pitch / channels;
    const size_t before = w->begin[1] < width ? w->begin[1] : width;
    const size_t there = width - before < w->in[1] ? width - before : w->in[1], behind = width - before - there;
    memset(to, 0, before * channels * sizeof *to);
    pixels_copy(to + before * channels, row, j->x_pixel, there, channels);
    memset(to + (before + there) * channels, 0, behind * channels * sizeof *to);
}

/* Rows of group g under those of the output from `first` on. */
static void rows_copy(const struct job *j, size_t image, size_t g, size_t first, size_t rows, float *to)
{
    const struct groups *q = j->q;
    const struct window *w = &q->w;
    for (size_t r = 0; r < rows_under(w, rows); r++, to += q->pitch) {
        const size_t at = first * w->stride[0] + r - w->begin[0]; /* above the image: wraps, and is past its end */
        if (at < w->in[0]) {
            row_copy(j, j->x + (image * w->in[0] + at) * w->in[1] * j->x_pixel + g * q->f.in, to);
        } else {
            memset(to, 0, q->pitch * sizeof *to);
        }
    }
}

/* One row of the output against one panel: x is the row's first window. */
static void row_run(const struct job *j, const float *x, struct gemm_tile t)
{
    const struct groups *q = j->q;
    const size_t mr = isa_own()->gemm_mr, step = q->w.stride[1] * q->f.in;
    for (size_t left = q->w.out[1]; left > 0; left -= t.m) {
        t.m = gemm_rows_next(mr, left);
        t.x = x;
        isa_own()->gemm(&t);
        x += t.m * step;
        t.y += t.m * t.y_stride;
        t.sum += t.sum != NULL ? t.m * t.sum_stride : 0;
    }
}

/* One group of a band: all rows against one panel after the other. */
static void group_run(const struct job *j, size_t image, size_t g, size_t first, size_t rows, float *room)
{
    const struct groups *q = j->q;
    const struct window *w = &q->w;
    const size_t n = q->f.out / q->f.groups, nr = isa_own()->gemm_nr, k = w->kernel[0] * w->kernel[1] * q->f.in;
    const size_t pixel = (image * w->out[0] + first) * w->out[1];
    const struct dense_weights *weights = filter_group(&q->f, j->packed, g);
    const float *bias = dense_bias(weights);
    rows_copy(j, image, g, first, rows, room);
    for (size_t c = 0; c < n; c += nr) {
        struct gemm_tile t = {.w = weights->data + c * k,
                              .bias = bias != NULL ? bias + c : NULL,
                              .n = n - c < nr ? n - c : nr,
                              .k = w->kernel[1] * q->f.in,
                              .bands = w->kernel[0],
                              .band_stride = w->dilation[0] * q->pitch,
                              .x_stride = w->stride[1] * q->f.in,
                              .y_stride = j->y_pixel,
                              .sum_stride = q->f.out,
                              .first = true,
                              .last = true,
                              .min = q->act.min,
                              .max = q->act.max};
        t.next = t.w;
        for (size_t r = 0; r < rows; r++) {
            const size_t at = pixel + r * w->out[1];
            t.y = j->y + at * j->y_pixel + g * n + c;
            t.sum = j->sum != NULL ? j->sum + at * q->f.out + g * n + c : NULL;
            row_run(j, room + r * w->stride[0] * q->pitch, t);
        }
    }
}

static void task(void *context, size_t unit)
{
    const struct job *j = context;
    const struct groups *q = j->q;
    const struct window *w = &q->w;
    const size_t chunk = unit % q->chunks, band = unit / q->chunks, image = band / q->bands;
    const size_t first = band % q->bands * q->band_rows, g0 = chunk * q->chunk, n = q->f.out / q->f.groups;
    const size_t rows = w->out[0] - first < q->band_rows ? w->out[0] - first : q->band_rows;
    const size_t groups = q->f.groups - g0 < q->chunk ? q->f.groups - g0 : q->chunk;
    const size_t pixel = (image * w->out[0] + first) * w->out[1];
    for (size_t g = g0; g < g0 + groups; g++) {
        group_run(j, image, g, first, rows, j->scratch + team_self() * thread_floats(q));
    }
    const struct after_rows done = {.y = j->y + pixel * j->y_pixel + g0 * n,
                                    .y_stride = j->y_pixel,
                                    .at = pixel * q->f.out + g0 * n,
                                    .at_stride = q->f.out,
                                    .rows = rows * w->out[1],
                                    .cols = groups * n};
    after_run(&q->act, q->after, j->s->in, &done);
}

void groups_run(const struct groups *q, const uint8_t *packed, const struct step *s, const float *sum, struct run *r)
{
    struct job j = {.q = q,
                    .s = s,
                    .packed = packed,
                    .x = s->in[0],
                    .sum = sum,
                    .y = s->out[0],
                    .scratch = s->scratch,
                    .x_pixel = s->in_row[0],
                    .y_pixel = s->out_row};
    const size_t outputs = q->w.batch * q->w.out[0] * q->w.out[1] * q->f.out;
    parallel_macs(r, task, &j, q->w.batch * q->bands * q->chunks, outputs * q->w.kernel[0] * q->w.kernel[1] * q->f.in);
}
