#include "backend/xnnpack/qdense.h"

#include <stdatomic.h>

#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_tiles.h"
#include "backend/xnnpack/qband.h"
#include "backend/xnnpack/qrow.h"
#include "backend/xnnpack/qtake.h"

#define ROWS_MAX  64
#define TILE_STEP 32 /* rows that tiles take at a time */
#define ROW_CACHE                                                                                                      \
    ((size_t)128 << 10) /* bytes of copied rows of one unit: they stay in the second cache beside a panel */

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Sums of rows against one panel, to y[m][nr]. */
static void sums_run(const struct qdense *d, const uint8_t *x, size_t x_stride, const uint32_t *w, size_t m, int32_t *y)
{
    const uint32_t *rows = (const uint32_t *)(const void *)x;
#ifdef OWN_X86
    if (d->tiles && m >= OWN_TILES_MR / 2) {
        own_int_product_tiles(rows, x_stride / 4, w, d->words, m, y);
        return;
    }
#endif
    isa_product()->run(rows, x_stride / 4, w, d->words, m, y);
}

void qdense_init(struct qdense *d, const struct dense_image *image, const struct filter *f, size_t threads)
{
    size_t m = image->batch * image->out_h * image->out_w;
    *d = (struct qdense){.image = *image, .m = m, .k = qdense_terms(f), .n = f->out / f->groups, .y_stride = f->out};
    d->runs = qdense_runs(f);
    d->run_words = qdense_run_words(f);
    d->words = d->runs * d->run_words;
    d->rows_block = ROW_CACHE / (d->words * 4 + 4);
    d->tiles = qdense_tiles(m, 1, d->words, m * d->k * d->n);
    const size_t step = d->tiles ? TILE_STEP : 12, most = ROWS_MAX / step * step;
    d->rows_block = d->rows_block > most ? most : d->rows_block < step ? step : d->rows_block / step * step;
    d->plain = image->kernel_h * image->kernel_w == 1 && image->stride_h == 1 && image->stride_w == 1 &&
               image->pad_top == 0 && image->pad_left == 0 && image->out_h == image->in_h &&
               image->out_w == image->in_w;
    d->dense = d->plain && image->pixel_stride == d->k && d->k % 4 == 0;
    size_t blocks = divide_up(m, d->rows_block), panels = divide_up(d->n, isa_product()->nr);
    d->panels_block = panels;
    if (threads > 1 && blocks < 2 * threads) { /* not enough rows for everybody: cut the columns too */
        size_t cuts = divide_up(2 * threads, blocks > 0 ? blocks : 1);
        d->panels_block = divide_up(panels, cuts < panels ? cuts : panels);
    }
    qband_init(d, panels, f->groups >= 2 * threads ? 1 : threads); /* groups are units of work themselves */
}

void qdense_zeros(struct qdense *d, const struct qparams *p)
{
    d->x_zero = qdense_zero(p->x_zero, p->x_dtype);
    d->flip = p->x_dtype == PEN_DTYPE_I8 ? 0x80 : 0;
    d->y_dtype = p->y_dtype;
    d->y_zero = p->y_dtype == PEN_DTYPE_I32 || p->y_dtype == PEN_DTYPE_F32 ? 0 : qdense_zero(p->y_zero, p->y_dtype);
    d->direct = d->plain && d->flip == 0 && isa_bytes() != NULL && d->k % 4 == 0;
}

static size_t thread_bytes(const struct qdense *d)
{
    size_t copied = (d->rows_block * (d->words + 1) * 4 + 127) / 64 * 64, band = qband_bytes(d);
    return copied > band ? copied : band;
}

size_t qdense_scratch_bytes(const struct qdense *d, size_t threads)
{
    return threads * thread_bytes(d);
}

struct job {
    const struct qdense *d;
    struct qweights w;
    size_t group; /* columns of the groups before */
    const uint8_t *x;
    void *y;
    uint8_t *scratch;
    size_t row_blocks, col_blocks;
    bool tiles; /* sums are requantised in registers */
    atomic_size_t next;
};

/* Sums that leave as bytes without being written down. */
static void panel_tile(const struct job *j, const uint8_t *x, size_t x_stride, size_t row0, size_t rows, size_t panel,
                       const int32_t *row_sums)
{
    static const uint32_t start[1] = {0};
    const struct qdense *d = j->d;
    struct int_tile t = qdense_tile(d, &j->w, panel);
    t.x = x;
    t.x_stride = x_stride;
    t.row_sum = row_sums;
    t.offsets = start;
    t.runs = 1;
    t.run_words = d->words;
    t.y = (uint8_t *)j->y + row0 * d->y_stride + j->group + panel * isa_product()->nr;
    t.m = rows;
    qdense_tile_run(d->tiles, &t);
}

static void unit_run(const struct job *j, size_t unit, uint8_t *scratch)
{
    const struct qdense *d = j->d;
    const struct int_product *q = isa_product();
    const struct own_bytes *dots = isa_bytes();
    _Alignas(64) int32_t sums[ROWS_MAX * INT_NR_MAX];
    size_t row0 = unit / j->col_blocks * d->rows_block, panel0 = unit % j->col_blocks * d->panels_block;
    size_t rows = d->m - row0 < d->rows_block ? d->m - row0 : d->rows_block, x_stride = d->words * 4;
    int32_t *row_sums = (int32_t *)(void *)((uint32_t *)(void *)scratch + d->rows_block * d->words);
    const uint8_t *x = scratch;
    const bool floats = d->y_dtype == PEN_DTYPE_F32, direct = d->direct && (j->tiles || floats);
    if (direct) {
        x = j->x + row0 * d->image.pixel_stride;
        x_stride = d->image.pixel_stride;
    }
    if (d->dense && j->tiles && !direct) {
        dots->copy(scratch, j->x + row0 * d->k, rows * d->k, 1, 0, d->flip);
    }
    for (size_t r = 0; r < rows && !direct && !(d->dense && j->tiles); r++) {
        qrow_copy(d, j->x, row0 + r, scratch + r * x_stride);
    }
    for (size_t r = 0; r < rows; r++) {
        row_sums[r] = j->w.w_zero_any ? dots->sum(x + r * x_stride, d->words * 4) : 0;
    }
    for (size_t p = panel0; p < panel0 + d->panels_block && p * q->nr < d->n; p++) {
        if (j->tiles) {
            panel_tile(j, x, x_stride, row0, rows, p, row_sums);
            continue;
        }
        const struct qtaker taker = {d, &j->w, j->y, j->group, row0, p * q->nr, row_sums};
        sums_run(d, x, x_stride, j->w.panels + p * q->nr * d->words, rows, sums);
        qtake(&taker, sums, 0, rows);
    }
}

/* One task per thread, each with its own piece of scratch; units are taken as they come. */
static void task(void *context, size_t thread)
{
    struct job *j = context;
    uint8_t *scratch = j->scratch + thread * thread_bytes(j->d);
    size_t units = j->row_blocks * j->col_blocks;
    qdense_tiles_hold(j->d->tiles);
    for (size_t u = atomic_fetch_add(&j->next, 1); u < units; u = atomic_fetch_add(&j->next, 1)) {
        unit_run(j, u, scratch);
    }
    qdense_tiles_leave(j->d->tiles);
}

static void group_run(const struct qdense *d, const struct qgroups *q, size_t g, const uint8_t *x, void *y,
                      void *scratch, struct run *r)
{
    struct job j = {.d = d, .w = qgroups_weights(q, g), .group = g * d->n, .y = y, .scratch = scratch};
    j.x = x + g * d->image.channels;
    j.row_blocks = divide_up(d->m, d->rows_block);
    j.col_blocks = divide_up(divide_up(d->n, isa_product()->nr), d->panels_block);
    j.tiles = isa_bytes() != NULL && !qtake_needed(d, &j.w);
    atomic_init(&j.next, 0);
    parallel(r, task, &j, team_threads(r->team));
}

static void groups_run(const struct qdense *d, const struct qgroups *q, const uint8_t *x, void *y, void *scratch,
                       struct run *r)
{
    if (d->band.rows > 0) {
        qband_run(d, q, x, y, scratch, thread_bytes(d), r);
        return;
    }
    for (size_t g = 0; g < q->count; g++) {
        group_run(d, q, g, x, y, scratch, r);
    }
}

void qdense_run(const struct qdense *d, const struct qweights *w, const uint8_t *x, void *y, void *scratch,
                struct run *r)
{
    groups_run(d, &(struct qgroups){.one = w, .count = 1}, x, y, scratch, r);
}

void qdense_run_groups(const struct qdense *d, const struct filter *f, const uint8_t *packed, const uint8_t *x, void *y,
                       void *scratch, struct run *r)
{
    groups_run(d, &(struct qgroups){.f = f, .packed = packed, .count = f->groups}, x, y, scratch, r);
}
