#include "backend/xnnpack/qband.h"

#include <stdatomic.h>
#include <string.h>

#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/qtake.h"

#define BAND_BYTES  ((size_t)96 << 10)  /* copied rows stay in the second cache */
#define BAND_MOST   ((size_t)384 << 10) /* of the rows of one window */
#define WIDTH_TILES 16 /* and AMX tiles take rows of several output rows together where these are shorter */
#define WIDTH_LEAST 4  /* output pixels in a row: fewer leave most of a tile empty */
#define SLACK_BYTES 64 /* read behind the last row */

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Rows of the image under `rows` of the output. */
static size_t rows_under(const struct dense_image *i, size_t rows)
{
    return (rows - 1) * i->stride_h + (i->kernel_h - 1) * i->dilation_h + 1;
}

/* Runs of a window: its rows, or its pixels where these do not lie side by side; their words must be whole then, as weights are packed by rows. */
static bool runs_set(struct qdense *d)
{
    const struct dense_image *i = &d->image;
    struct qband *b = &d->band;
    const bool dilated = i->dilation_w > 1 && i->kernel_w > 1;
    const size_t along = dilated ? i->kernel_w : 1, runs = i->kernel_h * along;
    if (runs > QBAND_RUNS || (dilated && i->channels % 4 != 0)) {
        return false;
    }
    b->runs = runs;
    b->run_words = dilated ? i->channels / 4 : d->run_words;
    for (size_t r = 0; r < runs; r++) {
        size_t at = r / along * i->dilation_h * b->pitch + r % along * i->dilation_w * i->channels;
        b->offsets[r] = (uint32_t)at;
    }
    return true;
}

void qband_init(struct qdense *d, size_t panels, size_t threads)
{
    const struct dense_image *i = &d->image;
    struct qband *b = &d->band;
    size_t units = i->batch * i->out_h, share = divide_up(units, 2 * threads);
    const size_t least =
        d->tiles && panels > 1 ? WIDTH_TILES : WIDTH_LEAST; /* copies of windows pay for several panels alone */
    if (isa_bytes() == NULL || i->kernel_h * i->kernel_w == 1 || i->out_w < least ||
        (threads > 1 && units * panels < 2 * threads)) {
        return;
    }
    b->pitch = ((i->out_w - 1) * i->stride_w + (i->kernel_w - 1) * i->dilation_w + 1) * i->channels;
    if (b->pitch > BAND_MOST / rows_under(i, 1) || !runs_set(d)) {
        return;
    }
    b->rows = 1;
    while (b->rows < i->out_h && rows_under(i, b->rows + 1) * b->pitch <= BAND_BYTES) {
        b->rows++;
    }
    b->rows = threads > 1 && b->rows > share ? share : b->rows;
    size_t bands = i->batch * divide_up(i->out_h, b->rows);
    size_t cuts = threads > 1 && bands < 2 * threads ? divide_up(2 * threads, bands) : 1;
    b->cols_block = divide_up(panels, cuts < panels ? cuts : panels);
}

/* The copied rows, then sums of windows. */
static size_t copied_bytes(const struct qdense *d)
{
    return (rows_under(&d->image, d->band.rows) * d->band.pitch + SLACK_BYTES + 63) / 64 * 64;
}

size_t qband_bytes(const struct qdense *d)
{
    size_t sums = d->band.rows * d->image.out_w * sizeof(int32_t);
    return d->band.rows == 0 ? 0 : copied_bytes(d) + (sums + 63) / 64 * 64;
}

struct job {
    const struct qdense *d;
    const struct qgroups *groups;
    const uint8_t *x;
    void *y;
    uint8_t *scratch;
    size_t thread_bytes, bands, col_blocks; /* bands: of one image */
    atomic_size_t next;
};

/* What one unit works on. */
struct band {
    const struct job *j;
    struct qweights w; /* of group g */
    size_t g, image, first, rows;
};

/* One row of the image: its group of channels, between what pads it. */
static void row_copy(const struct qdense *d, const uint8_t *row, uint8_t *to)
{
    const struct dense_image *i = &d->image;
    const int zero = (d->x_zero & 0xff) ^ d->flip;
    size_t width = d->band.pitch / i->channels, before = i->pad_left < width ? i->pad_left : width;
    size_t there = width - before < i->in_w ? width - before : i->in_w, c = i->channels;
    memset(to, zero, before * c);
    if (i->pixel_stride == c) {
        isa_bytes()->copy(to + before * c, row, there * c, 1, 0, d->flip);
    } else {
        isa_bytes()->copy(to + before * c, row, c, there, i->pixel_stride, d->flip);
    }
    memset(to + (before + there) * c, zero, (width - before - there) * c);
}

static void rows_copy(const struct band *b, uint8_t *to)
{
    const struct qdense *d = b->j->d;
    const struct dense_image *i = &d->image;
    const uint8_t *x = b->j->x + b->g * i->channels;
    for (size_t r = 0; r < rows_under(i, b->rows); r++, to += d->band.pitch) {
        size_t at = b->first * i->stride_h + r - i->pad_top; /* above the image: wraps, and is past its end */
        if (at < i->in_h) {
            row_copy(d, x + (b->image * i->in_h + at) * i->in_w * i->pixel_stride, to);
        } else {
            memset(to, (d->x_zero & 0xff) ^ d->flip, d->band.pitch);
        }
    }
}

/* Of each window of one row of the output. */
static void windows_sum(const struct qdense *d, const uint8_t *x, int32_t *sums)
{
    const struct dense_image *i = &d->image;
    for (size_t p = 0; p < i->out_w; p++) {
        sums[p] = 0;
        for (size_t r = 0; r < d->band.runs; r++) {
            const uint8_t *run = x + d->band.offsets[r] + p * i->stride_w * i->channels;
            sums[p] += isa_bytes()->sum(run, i->kernel_h * i->kernel_w * i->channels / d->band.runs);
        }
    }
}

/* A row of results is multiplied at a time. */
static bool band_tiles(const struct qdense *d)
{
    return qdense_tiles(d->image.out_w, d->band.runs, d->band.run_words, d->m * d->k * d->n);
}

/* All rows of a band against one panel. */
static void panel_run(const struct band *b, size_t panel, const uint8_t *x, const int32_t *sums)
{
    const struct job *j = b->j;
    const struct qdense *d = j->d;
    const struct dense_image *i = &d->image;
    const size_t col = panel * isa_product()->nr, group = b->g * d->n;
    const bool takes = qtake_needed(d, &b->w);
    struct int_tile t = qdense_tile(d, &b->w, panel);
    t.offsets = d->band.offsets;
    t.runs = d->band.runs;
    t.run_words = d->band.run_words;
    t.x_stride = i->stride_w * i->channels;
    t.m = i->out_w;
    for (size_t r = 0; r < b->rows; r++) {
        const size_t row0 = (b->image * i->out_h + b->first + r) * i->out_w;
        const struct qtaker taker = {d, &b->w, j->y, group, row0, col, sums + r * i->out_w};
        t.x = x + r * i->stride_h * d->band.pitch;
        if (takes) {
            qtake_from(&t, &taker);
        } else {
            t.y = (uint8_t *)j->y + row0 * d->y_stride + group + col;
            t.row_sum = taker.row_sums;
        }
        qdense_tile_run(band_tiles(d), &t);
    }
}

static void band_run(const struct job *j, size_t unit, uint8_t *scratch)
{
    const struct qdense *d = j->d;
    const struct dense_image *i = &d->image;
    const size_t each = j->bands * i->batch * j->col_blocks, band = unit % each / j->col_blocks;
    const size_t first = band % j->bands * d->band.rows;
    const struct band b = {.j = j,
                           .w = qgroups_weights(j->groups, unit / each),
                           .g = unit / each,
                           .image = band / j->bands,
                           .first = first,
                           .rows = i->out_h - first < d->band.rows ? i->out_h - first : d->band.rows};
    int32_t *sums = (int32_t *)(void *)(scratch + copied_bytes(d));
    rows_copy(&b, scratch);
    for (size_t r = 0; b.w.w_zero_any && r < b.rows; r++) {
        windows_sum(d, scratch + r * i->stride_h * d->band.pitch, sums + r * i->out_w);
    }
    size_t panel = unit % j->col_blocks * d->band.cols_block;
    for (const size_t last = panel + d->band.cols_block; panel < last && panel * isa_product()->nr < d->n; panel++) {
        panel_run(&b, panel, scratch, sums);
    }
}

/* One task per thread, each with its own piece of scratch; units are taken as they come. */
static void task(void *context, size_t thread)
{
    struct job *j = context;
    size_t units = j->groups->count * j->bands * j->d->image.batch * j->col_blocks;
    qdense_tiles_hold(band_tiles(j->d));
    for (size_t u = atomic_fetch_add(&j->next, 1); u < units; u = atomic_fetch_add(&j->next, 1)) {
        band_run(j, u, j->scratch + thread * j->thread_bytes);
    }
    qdense_tiles_leave(band_tiles(j->d));
}

void qband_run(const struct qdense *d, const struct qgroups *groups, const uint8_t *x, void *y, uint8_t *scratch,
               size_t thread_bytes, struct run *r)
{
    struct job j = {.d = d, .groups = groups, .x = x, .y = y, .scratch = scratch, .thread_bytes = thread_bytes};
    j.bands = divide_up(d->image.out_h, d->band.rows);
    j.col_blocks = divide_up(divide_up(d->n, isa_product()->nr), d->band.cols_block);
    atomic_init(&j.next, 0);
    parallel(r, task, &j, team_threads(r->team));
}
