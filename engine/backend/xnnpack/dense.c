#include "backend/xnnpack/dense.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/after.h"
#include "backend/xnnpack/dense_paired.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_tiles.h"
#include "backend/xnnpack/patches.h"
#include "graph/lifetime.h"

#define ALONE_MACS  60000 /* a smaller product is done before another thread has begun */
#define LINE_FLOATS 16

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

struct job {
    const struct dense *d;
    const struct dense_item *items;
    size_t count, row_blocks, col_blocks;
    uint8_t *scratch;
};

/* What one unit works on, for one block of k. */
struct block {
    const struct dense *d;
    const struct dense_item *item;
    size_t row0, rows, col0, cols, k0, kc;
    float *copy;                        /* [rows][GEMM_LDX]: patches, or the rows of a last tile that is not full */
    const struct patch_origin *origins; /* of its rows; NULL where none is looked at */
};

/* Rows that a kernel reads for a tile of m rows. */
static size_t rows_read(const struct dense *d, size_t m)
{
    return d->tiles ? d->mr : gemm_rows(d->mr, m);
}

/* Rows of the tile that begins with row r. */
static size_t rows_of(const struct block *b, size_t r)
{
    const size_t mr = b->d->mr, left = b->rows - r;
    return b->d->tiles ? (left < mr ? left : mr) : gemm_rows_next(mr, left);
}

/* Of a patch inside of an image whose pixels lie side by side. */
static const float *patch_at(const struct dense_image *g, const struct patch_origin *o)
{
    return o->image + ((size_t)o->y * g->in_w + (size_t)o->x) * g->channels;
}

/* Rows from r on, up to m of them, that are patches of one output row. */
static size_t segment_rows(const struct block *b, size_t r, size_t m)
{
    const size_t width = b->d->image.out_w, left = width - (b->row0 + r) % width;
    return left < m ? left : m;
}

/* Patches of one output row, all inside of the image, are equally far apart where they lie; the kernel may read some more, which must be there too. */
static bool segment_in_place(const struct block *b, size_t r, size_t m)
{
    const struct dense_image *g = &b->d->image;
    const struct patch_origin *first = &b->origins[r];
    if (!patch_inside(g, first) || !patch_inside(g, &b->origins[r + m - 1])) {
        return false;
    }
    const size_t x = (size_t)first->x + (rows_read(b->d, m) - 1) * g->stride_w + g->kernel_w;
    const size_t y = (size_t)first->y + (g->kernel_h - 1) * g->dilation_h;
    const size_t end = (size_t)(first->image - b->item->x) + (y * g->in_w + x) * g->channels;
    return end <= g->batch * g->in_h * g->in_w * g->channels + b->d->slack;
}

/* No row of the tile from r on is copied. */
static bool tile_in_place(const struct block *b, size_t r)
{
    if (!b->d->banded) {
        return false;
    }
    const size_t end = r + rows_of(b, r);
    for (size_t at = r; at < end; at += segment_rows(b, at, end - at)) {
        if (!segment_in_place(b, at, segment_rows(b, at, end - at))) {
            return false;
        }
    }
    return true;
}

void dense_tile(enum gemm_form form, bool tiles, const struct gemm_tile *t)
{
    if (form == GEMM_F32 || !OWN_KEPT_HALVES) {
        isa_own()->gemm(t);
#ifdef OWN_X86
    } else if (OWN_KEPT_PAIRS && tiles) {
        own_gemm_tiles(t);
#endif
#ifdef OWN_PAIRS
    } else if (OWN_KEPT_PAIRS && form == GEMM_PAIRS) {
        own_gemm_pairs(t);
#endif
    } else {
        isa_own()->gemm_half(t, form);
    }
    (void)tiles;
}

/* The tile in pieces of one output row each, its bands of weights one kernel row after the other. */
static void segments_run(const struct block *b, size_t r, struct gemm_tile t)
{
    const struct dense_image *g = &b->d->image;
    t.x_stride = g->stride_w * g->channels;
    t.k = g->kernel_w * g->channels;
    t.bands = g->kernel_h;
    t.band_stride = g->dilation_h * g->in_w * g->channels;
    for (size_t left = t.m; left > 0; left -= t.m, r += t.m) {
        const struct patch_origin *o = &b->origins[r];
        t.m = segment_rows(b, r, left);
        t.x = patch_at(g, o);
        dense_tile(b->d->form, b->d->tiles, &t);
        t.y += t.m * t.y_stride;
        t.sum += t.sum != NULL ? t.m * t.sum_stride : 0;
    }
}

/* Of a block: floats, or pairs. What fills a tile's rows is 0. */
static size_t block_words(const struct dense *d, size_t kc)
{
    return d->form != GEMM_PAIRS ? kc : d->tiles ? divide_up(kc, 2 * OWN_TILES_K) * OWN_TILES_K : divide_up(kc, 2);
}

/* Rows of tiles: in the image of pairs, where windows begin with each result, or those that were copied. */
static void tile_rows(const struct block *b, size_t r, struct gemm_tile *t)
{
    const struct dense *d = b->d;
    t->split = OWN_TILES_MR / 2;
    t->more = t->x + t->split * t->x_stride;
    if (d->paired.in_place) {
        const struct dense_image *g = &d->image;
        const struct patch_origin *o = &b->origins[r];
        t->split = g->out_w < t->split ? g->out_w : t->split;
        t->x = patch_at(g, o);
        t->more = t->m > t->split ? patch_at(g, o + t->split) : t->x;
        t->x_stride = g->stride_w * g->channels;
        t->k = g->kernel_w * g->channels;
        t->bands = g->kernel_h;
        t->band_stride = g->dilation_h * g->in_w * g->channels;
    }
}

/* What a tile fetches while it computes: a line for each k, from `at` on, `step` floats apart; by own_gemm_tiles `step` lines for each of its steps. */
struct ahead {
    const float *at;
    size_t step;
};

static void tile_run(const struct block *b, size_t r, size_t c, struct ahead ahead)
{
    const struct dense *d = b->d;
    const struct dense_item *i = b->item;
    const size_t row = b->row0 + r, m = rows_of(b, r);
    const bool onto = i->sum == i->y && i->bias == NULL; /* y += x * w */
    struct gemm_tile t = {.w = i->panels + dense_panel_at(d, c, b->k0),
                          .next = ahead.at,
                          .fetch = ahead.step,
                          .bias = i->bias != NULL ? i->bias + c : NULL,
                          .m = m,
                          .k = block_words(d, b->kc),
                          .bands = 1,
                          .n = d->n - c < d->nr ? d->n - c : d->nr,
                          .y = i->y + row * d->y_stride + c,
                          .y_stride = d->y_stride,
                          .sum_stride = d->sum_stride,
                          .sum = i->sum != NULL && !onto ? i->sum + row * d->sum_stride + c : NULL,
                          .first = b->k0 == 0 && !onto,
                          .last = b->k0 + b->kc == d->k,
                          .min = d->min,
                          .max = d->max};
    bool copied = !d->direct || d->apart || d->form == GEMM_PAIRS || row + rows_read(d, m) > d->m;
    t.x = copied ? b->copy + r * GEMM_LDX : i->x + row * d->image.pixel_stride + b->k0;
    t.x_stride = copied ? GEMM_LDX : d->image.pixel_stride;
    if (tile_in_place(b, r)) {
        segments_run(b, r, t);
        return;
    }
    if (d->tiles) {
        tile_rows(b, r, &t);
    }
    dense_tile(d->form, d->tiles, &t);
}

/* What the panel of column c is followed by: the next one, the first one of the next block of k, or that of the next unit. */
static const float *panel_behind(const struct block *b, size_t c)
{
    const struct dense *d = b->d;
    const size_t end = b->col0 + b->cols, depth = b->k0 + b->kc;
    const size_t at = c + d->nr < end    ? dense_panel_at(d, c + d->nr, b->k0)
                      : depth < d->k     ? dense_panel_at(d, b->col0, depth)
                      : c + d->nr < d->n ? dense_panel_at(d, c + d->nr, 0)
                                         : 0;
    return b->item->panels + at;
}

/* Of tile `tile` of a block: all tiles share the panel that follows, so that memory is never waited for at once. */
static struct ahead ahead_of(const struct block *b, const float *next, size_t tile)
{
    const struct dense *d = b->d;
    const size_t words = block_words(d, b->kc); /* of each column */
    if (d->tiles) {
        const size_t panel = words * d->nr / LINE_FLOATS, steps = words / OWN_TILES_K;
        const size_t lines = divide_up(panel, steps * divide_up(b->rows, d->mr)), from = tile * steps * lines;
        return from < panel ? (struct ahead){next + from * LINE_FLOATS, lines} : (struct ahead){next, 0};
    }
    const bool half = d->form == GEMM_F16 || d->form == GEMM_BF16;
    const size_t row = half ? d->nr / 2 : d->nr, tiles = divide_up(b->rows, d->mr), even = divide_up(row, tiles);
    const size_t step = even > LINE_FLOATS ? LINE_FLOATS : even, from = tile * words * step;
    return from < words * row ? (struct ahead){next + from, step} : (struct ahead){next, 0};
}

/* Panel after panel: each stays in the first cache for all rows. */
static void panels_run(const struct block *b)
{
    const struct dense *d = b->d;
    for (size_t c = b->col0; c < b->col0 + b->cols; c += d->nr) {
        const float *next = panel_behind(b, c);
        for (size_t r = 0, tile = 0; r < b->rows; r += rows_of(b, r), tile++) {
            tile_run(b, r, c, ahead_of(b, next, tile));
        }
    }
}

static void copy_rows(const struct block *b, const struct patch_origin *origins, size_t r, size_t rows)
{
    for (size_t i = r; i < r + rows && i < b->rows; i++) {
        patch_copy(&b->d->image, &origins[i], b->k0, b->kc, b->copy + i * GEMM_LDX);
    }
}

/* Rows as pairs of bf16. */
static void copy_pairs(const struct block *b, const struct patch_origin *origins, size_t r, size_t rows)
{
#ifdef OWN_PAIRS
    const struct dense *d = b->d;
    float room[2 * GEMM_KC];
    for (size_t i = r; i < r + rows && i < b->rows && !d->paired.in_place; i++) {
        const float *from = b->item->x + (b->row0 + i) * d->image.pixel_stride + b->k0;
        float *to = b->copy + i * GEMM_LDX;
        if (d->paired.words > 0) {
            patch_copy(&d->image, &origins[i], b->k0 / 2, b->kc / 2, to);
        } else {
            if (!d->direct) {
                patch_copy(&d->image, &origins[i], b->k0, b->kc, room);
                from = room;
            }
            own_pairs_make(from, (uint32_t *)(void *)to, b->kc);
        }
        for (size_t pair = divide_up(b->kc, 2); pair < block_words(d, b->kc); pair++) {
            to[pair] = 0.0f;
        }
    }
#else
    (void)b, (void)origins, (void)r, (void)rows;
#endif
}

/* A direct product copies only a last tile that is not full, or rows whose lines would push each other out of the cache. */
static void copy_needed(const struct block *b, const struct patch_origin *origins, size_t r, size_t rows)
{
    if (b->d->form == GEMM_PAIRS) {
        copy_pairs(b, origins, r, rows);
        return;
    }
    const bool direct = b->d->direct && !b->d->apart;
    for (size_t at = r; at < r + rows && at < b->rows; at += rows_of(b, at)) {
        const size_t m = rows_of(b, at);
        if (direct ? b->row0 + at + rows_read(b->d, m) > b->d->m : !tile_in_place(b, at)) {
            copy_rows(b, origins, at, m);
        }
    }
}

/* The activation and the nodes behind it over rows that are done. */
static void act_rows(const struct block *b, size_t r, size_t rows)
{
    const struct dense *d = b->d;
    const struct after_rows done = {.y = b->item->y + (b->row0 + r) * d->y_stride + b->col0,
                                    .y_stride = d->y_stride,
                                    .at = b->item->y_at + (b->row0 + r) * d->sum_stride + b->col0,
                                    .at_stride = d->sum_stride,
                                    .rows = b->rows - r < rows ? b->rows - r : rows,
                                    .cols = d->n - b->col0 < b->cols ? d->n - b->col0 : b->cols};
    after_run(&d->act, d->after, b->item->in, &done);
}

/* One row whose pairs fit what a block may copy. */
static bool is_row(const struct dense *d)
{
    const bool pairs = OWN_KEPT_PAIRS && d->form == GEMM_PAIRS && divide_up(d->k, 2) <= d->rows_block * GEMM_LDX;
    return d->m == 1 && d->direct && (d->form == GEMM_F32 || pairs);
}

static void row_call(const struct block *b, struct gemm_row *t)
{
#ifdef OWN_PAIRS
    if (OWN_KEPT_PAIRS && b->d->form == GEMM_PAIRS) {
        own_pairs_make(t->x, (uint32_t *)(void *)b->copy, t->k);
        t->x = b->copy;
        t->k = divide_up(t->k, 2);
        own_gemm_row_pairs(t);
        return;
    }
#endif
    (void)b;
    isa_own()->gemm_row(t);
}

/* One row: the whole depth at once, panels side by side. */
static void row_run(const struct block *b)
{
    const struct dense *d = b->d;
    const struct dense_item *i = b->item;
    const bool onto = i->sum == i->y && i->bias == NULL; /* y += x * w */
    const size_t c = b->col0;
    struct gemm_row t = {.x = i->x,
                         .w = i->panels + dense_panel_at(d, c, 0),
                         .start = onto              ? i->y + c
                                  : i->bias != NULL ? i->bias + c
                                                    : NULL,
                         .sum = i->sum != NULL && !onto ? i->sum + c : NULL,
                         .y = i->y + c,
                         .panel = dense_panel_at(d, d->nr, 0),
                         .k = d->k,
                         .n = d->n - c < b->cols ? d->n - c : b->cols,
                         .min = d->min,
                         .max = d->max};
    row_call(b, &t);
    act_rows(b, 0, 1);
}

static void unit_run(const struct job *j, size_t unit, uint8_t *scratch)
{
    const struct dense *d = j->d;
    const struct dense_item *item = &j->items[unit / (j->row_blocks * j->col_blocks)];
    const size_t mr = d->mr;
    unit %= j->row_blocks * j->col_blocks;
    struct block b = {.d = d,
                      .item = item,
                      .row0 = unit / j->col_blocks * d->rows_block,
                      .col0 = unit % j->col_blocks * d->cols_block};
    b.rows = d->m - b.row0 < d->rows_block ? d->m - b.row0 : d->rows_block;
    b.cols = d->n - b.col0 < d->cols_block ? d->n - b.col0 : d->cols_block;
    b.copy = (float *)(void *)scratch;
    if (is_row(d)) {
        row_run(&b);
        return;
    }
    const size_t depth = d->depth;
    struct patch_origin *origins = (struct patch_origin *)(void *)(scratch + d->rows_block * GEMM_LDX * sizeof(float));
    if (!d->direct || d->apart || b.rows % mr != 0) {
        patches_find(&d->image, item->x, b.row0, b.rows, origins);
        b.origins = origins;
    }
    for (size_t r = 0, rows; r < b.rows; r += rows) {
        struct block part = b;
        rows = d->rows_outer ? rows_of(&b, r) : b.rows;
        for (part.k0 = 0; part.k0 < d->k; part.k0 += depth) {
            part.kc = d->k - part.k0 < depth ? d->k - part.k0 : depth;
            copy_needed(&part, origins, r, rows);
            if (!d->rows_outer) {
                panels_run(&part);
                continue;
            }
            for (size_t c = b.col0; c < b.col0 + b.cols; c += d->nr) {
                const float *next = item->panels + dense_panel_at(d, c + d->nr < d->n ? c + d->nr : 0, part.k0);
                tile_run(&part, r, c,
                         (struct ahead){next, d->tiles ? (d->paired.in_place ? OWN_TILES_K : 0) : LINE_FLOATS});
            }
        }
        act_rows(&b, r, rows);
    }
}

/* Each thread has its own piece of scratch. */
static void task(void *context, size_t unit)
{
    struct job *j = context;
    uint8_t *scratch = j->scratch + team_self() * dense_thread_bytes(j->d);
#ifdef OWN_X86
    if (OWN_KEPT_PAIRS && j->d->tiles) {
        own_tiles_begin();
        unit_run(j, unit, scratch);
        own_tiles_end();
        return;
    }
#endif
    unit_run(j, unit, scratch);
}

/* Nothing to multiply: the bias and the sum alone. */
static void empty_run(const struct dense *d, const struct dense_item *i)
{
    for (size_t r = 0; r < d->m; r++) {
        for (size_t c = 0; c < d->n; c++) {
            float v = (i->bias != NULL ? i->bias[c] : 0.0f) + (i->sum != NULL ? i->sum[r * d->sum_stride + c] : 0.0f);
            i->y[r * d->y_stride + c] = fminf(fmaxf(v, d->min), d->max);
        }
    }
}

static void items_run(const struct dense *d, const struct dense_item *items, size_t count, void *scratch, struct run *r)
{
    const size_t macs = d->m * d->k * d->n * count;
    struct run alone = {.error = r->error};
    struct job j = {.d = d, .items = items, .count = count, .scratch = scratch};
    j.row_blocks = (d->m + d->rows_block - 1) / d->rows_block;
    j.col_blocks = (d->n + d->cols_block - 1) / d->cols_block;
    const size_t units = count * j.row_blocks * j.col_blocks;
    parallel_macs(macs < ALONE_MACS ? &alone : r, task, &j, units, macs);
}

/* Windows of an image that is made of pairs first. */
static void paired_run(const struct dense *d, struct dense_item item, uint8_t *scratch, struct run *r)
{
    struct dense own = *d;
    float *image = (float *)(void *)scratch;
    dense_paired_fill(d, item.x, image, r);
    own.image = d->paired.image;
    item.x = image;
    items_run(&own, &item, 1, scratch + dense_paired_bytes(d), r);
}

void dense_run(const struct dense *d, const struct dense_item *items, size_t count, void *scratch, struct run *r)
{
    for (size_t i = 0; i < count && (d->k == 0 || d->paired.words > 0); i++) {
        if (d->k == 0) {
            empty_run(d, &items[i]);
        } else {
            paired_run(d, items[i], scratch, r);
        }
    }
    if (d->k > 0 && d->paired.words == 0) {
        items_run(d, items, count, scratch, r);
    }
}
