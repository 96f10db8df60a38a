#include "backend/xnnpack/dense.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_kept.h"
#include "graph/lifetime.h"

#define TILES_BLOCK  16    /* row tiles that share one pass over the weights: 224 rows of 256 floats = 229 KiB of L2 */
#define PANELS_LEAST 4     /* of a unit: its rows are copied for at least so many */
#define ALONE_MACS   60000 /* a smaller product is done before another thread has begun */
#define SHORT_MACS   1000000 /* one that is short beside a time slice (team_run_short) */

/* Where a row's patch starts in the image; may lie outside by the padding. */
struct origin {
    const float *image; /* of its batch element */
    ptrdiff_t y, x;
};

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* Floats from the beginning of the panels to row k0 of the panel that begins with column c. */
static size_t panel_at(const struct dense *d, size_t c, size_t k0)
{
    switch (d->form) {
    case GEMM_F16:
    case GEMM_BF16:
        return (c * d->k + k0 * d->nr) / 2;
    case GEMM_PAIRS:
        return c * divide_up(d->k, 2) + k0 / 2 * d->nr;
    case GEMM_F32:
    default:
        return c * d->k + k0 * d->nr;
    }
}

/* Panels of a unit: its results are read and written once for each block of k, and stay in an eighth of the second cache meanwhile. */
static size_t panels_kept(const struct dense *d)
{
    const size_t fit = isa_l2_bytes() / 8 / (d->rows_block * d->nr * sizeof(float));
    return fit < PANELS_LEAST ? PANELS_LEAST : fit;
}

/*
 * Weights that fit half of the second cache stay there: a unit is a few tiles of rows times all columns, and results are written row after row. Larger weights
 * stream through once for each block of rows: a unit is many rows times some columns, panel after panel. Patches are copied once for all columns.
 */
static void blocks_choose(struct dense *d, size_t threads)
{
    const size_t mr = isa_own()->gemm_mr;
    size_t tiles = divide_up(d->m, mr), panels = divide_up(d->n, d->nr);
    d->rows_outer = panel_at(d, panels * d->nr, 0) * sizeof(float) <= isa_l2_bytes() / 2 && tiles >= threads;
    d->cols_block = panels * d->nr;
    if (d->rows_outer) {
        size_t unit = tiles / 16;
        d->rows_block = (unit < 1 ? 1 : unit > TILES_BLOCK ? TILES_BLOCK : unit) * mr;
        return;
    }
    size_t blocks = divide_up(tiles, TILES_BLOCK), cuts = 1;
    d->rows_block = divide_up(tiles, blocks) * mr; /* even blocks */
    if (d->direct && d->k > GEMM_KC) {
        cuts = divide_up(panels, panels_kept(d));
    }
    if (blocks * cuts < 4 * threads && threads > 1) { /* not enough units for everybody: cut the columns further */
        cuts = divide_up(4 * threads, blocks);
    }
    d->cols_block = divide_up(panels, cuts < panels ? cuts : panels) * d->nr;
}

/* More lines of a tile's rows than half of a set's ways would meet in one set of the first cache: 64 sets of 64 bytes, as most processors have. */
static bool rows_collide(size_t rows, size_t stride)
{
    size_t mr = isa_own()->gemm_mr, most = 0;
    uint8_t lines[64] = {0};
    for (size_t r = 0; r < rows && r < mr; r++) {
        const size_t set = r * stride * sizeof(float) / 64 % 64;
        most = ++lines[set] > most ? lines[set] : most;
    }
    return most > 4;
}

bool dense_is_wide(size_t out_w)
{
    return out_w >= 2 * isa_own()->gemm_mr || out_w % isa_own()->gemm_mr == 0;
}

void dense_init(struct dense *d, const struct dense_image *image, size_t k, size_t n, size_t threads)
{
    *d = (struct dense){.image = *image,
                        .k = k,
                        .n = n,
                        .nr = isa_own()->gemm_nr,
                        .mr = isa_own()->gemm_mr,
                        .y_stride = n,
                        .sum_stride = n,
                        .min = -INFINITY,
                        .max = INFINITY};
    d->m = image->batch * image->out_h * image->out_w;
    d->direct = image->kernel_h == 1 && image->kernel_w == 1 && image->stride_h == 1 && image->stride_w == 1 &&
                image->pad_top == 0 && image->pad_left == 0 && image->out_h == image->in_h &&
                image->out_w == image->in_w;
    d->apart = d->direct && rows_collide(d->m, image->pixel_stride);
    d->banded = !d->direct && k <= GEMM_KC && dense_is_wide(image->out_w) && image->dilation_w == 1 &&
                image->pixel_stride == image->channels;
    blocks_choose(d, threads);
}

void dense_form_set(struct dense *d, enum gemm_form form, size_t threads)
{
    d->form = form;
    d->banded = d->banded && form != GEMM_PAIRS;
    blocks_choose(d, threads);
}

struct dense_image dense_image_of_window(const struct window *w, size_t channels)
{
    return (struct dense_image){.batch = w->batch,
                                .in_h = w->in[0],
                                .in_w = w->in[1],
                                .channels = channels,
                                .pixel_stride = w->channels,
                                .out_h = w->out[0],
                                .out_w = w->out[1],
                                .kernel_h = w->kernel[0],
                                .kernel_w = w->kernel[1],
                                .stride_h = w->stride[0],
                                .stride_w = w->stride[1],
                                .dilation_h = w->dilation[0],
                                .dilation_w = w->dilation[1],
                                .pad_top = w->begin[0],
                                .pad_left = w->begin[1]};
}

struct dense_image dense_image_of_rows(size_t rows, size_t k, size_t stride)
{
    return (struct dense_image){.batch = rows,
                                .in_h = 1,
                                .in_w = 1,
                                .channels = k,
                                .pixel_stride = stride,
                                .out_h = 1,
                                .out_w = 1,
                                .kernel_h = 1,
                                .kernel_w = 1,
                                .stride_h = 1,
                                .stride_w = 1,
                                .dilation_h = 1,
                                .dilation_w = 1};
}

void dense_init_matrix(struct dense *d, size_t m, size_t k, size_t n, size_t x_stride, size_t threads)
{
    struct dense_image image = dense_image_of_rows(m, k, x_stride);
    dense_init(d, &image, k, n, threads);
}

static size_t thread_bytes(const struct dense *d)
{
    size_t rows = d->rows_block;
    return (rows * GEMM_LDX * sizeof(float) + rows * sizeof(struct origin) + 127) / 64 * 64;
}

size_t dense_scratch_bytes(const struct dense *d, size_t threads)
{
    return thread_bytes(d) * (threads > 0 ? threads : 1);
}

struct job {
    const struct dense *d;
    const struct dense_item *items;
    size_t count, row_blocks, col_blocks;
    uint8_t *scratch;
};

static void origins_find(const struct dense_image *g, const float *x, size_t first, size_t count, struct origin *o)
{
    size_t pixels = g->out_h * g->out_w;
    size_t image_floats = g->in_h * g->in_w * g->pixel_stride;
    size_t b = first / pixels, oy = first % pixels / g->out_w, ox = first % g->out_w;
    for (size_t i = 0; i < count; i++) {
        o[i].image = x + b * image_floats;
        o[i].y = (ptrdiff_t)(oy * g->stride_h) - (ptrdiff_t)g->pad_top;
        o[i].x = (ptrdiff_t)(ox * g->stride_w) - (ptrdiff_t)g->pad_left;
        if (++ox == g->out_w) {
            ox = 0;
            if (++oy == g->out_h) {
                oy = 0;
                b++;
            }
        }
    }
}

/* Rows of a few floats, as first layers have them, are sooner copied in place than a call of memcpy finds out how long they are. */
static inline void floats_copy(float *to, const float *from, size_t count)
{
    if (count > 16) {
        memcpy(to, from, count * sizeof *to);
    } else if (count >= 8) {
        float a[8], b[8]; /* the halves overlap */
        memcpy(a, from, sizeof a);
        memcpy(b, from + count - 8, sizeof b);
        memcpy(to, a, sizeof a);
        memcpy(to + count - 8, b, sizeof b);
    } else if (count >= 4) {
        float a[4], b[4];
        memcpy(a, from, sizeof a);
        memcpy(b, from + count - 4, sizeof b);
        memcpy(to, a, sizeof a);
        memcpy(to + count - 4, b, sizeof b);
    } else {
        for (size_t i = 0; i < count; i++) {
            to[i] = from[i];
        }
    }
}

/* `count` floats of kernel row ky from its element `from` on (an element is kernel column * channels + channel), zeros outside of the image. */
static void kernel_row_copy(const struct dense_image *g, const struct origin *o, size_t ky, size_t from, size_t count,
                            float *to)
{
    ptrdiff_t y = o->y + (ptrdiff_t)(ky * g->dilation_h);
    if (y < 0 || y >= (ptrdiff_t)g->in_h) {
        memset(to, 0, count * sizeof *to);
        return;
    }
    const float *row = o->image + (size_t)y * g->in_w * g->pixel_stride;
    bool dense = g->dilation_w == 1 && g->pixel_stride == g->channels;
    if (dense && o->x >= 0 && o->x + (ptrdiff_t)g->kernel_w <= (ptrdiff_t)g->in_w) {
        floats_copy(to, row + (size_t)o->x * g->channels + from, count);
        return;
    }
    while (count > 0) {
        size_t kx = from / g->channels, c = from % g->channels;
        size_t run = g->channels - c < count ? g->channels - c : count;
        ptrdiff_t x = o->x + (ptrdiff_t)(kx * g->dilation_w);
        if (x < 0 || x >= (ptrdiff_t)g->in_w) {
            memset(to, 0, run * sizeof *to);
        } else {
            floats_copy(to, row + (size_t)x * g->pixel_stride + c, run);
        }
        to += run;
        from += run;
        count -= run;
    }
}

/* The whole patch lies within the image and its rows in one piece. */
static bool patch_inside(const struct dense_image *g, const struct origin *o)
{
    return g->dilation_w == 1 && g->pixel_stride == g->channels && o->x >= 0 && o->y >= 0 &&
           o->x + (ptrdiff_t)g->kernel_w <= (ptrdiff_t)g->in_w &&
           o->y + (ptrdiff_t)((g->kernel_h - 1) * g->dilation_h) < (ptrdiff_t)g->in_h;
}

/* Elements [k0, k0 + count) of a row of x. */
static void row_copy(const struct dense_image *g, const struct origin *o, size_t k0, size_t count, float *to)
{
    size_t width = g->kernel_w * g->channels;
    if (count == g->kernel_h * width && patch_inside(g, o)) {
        const size_t step = g->dilation_h * g->in_w * g->channels;
        const float *from = o->image + ((size_t)o->y * g->in_w + (size_t)o->x) * g->channels;
        for (size_t ky = 0; ky < g->kernel_h; ky++, from += step, to += width) {
            floats_copy(to, from, width);
        }
        return;
    }
    while (count > 0) {
        size_t from = k0 % width;
        size_t run = width - from < count ? width - from : count;
        kernel_row_copy(g, o, k0 / width, from, run, to);
        to += run;
        k0 += run;
        count -= run;
    }
}

/* What one unit works on, for one block of k. */
struct block {
    const struct dense *d;
    const struct dense_item *item;
    size_t row0, rows, col0, cols, k0, kc;
    float *copy;                  /* [rows][GEMM_LDX]: patches, or the rows of a last tile that is not full */
    const struct origin *origins; /* of its rows; NULL where none is looked at */
};

/* Rows that a kernel reads for a tile of m rows. */
static size_t rows_read(const struct dense *d, size_t m)
{
    const size_t mr = d->mr;
    return m > mr / 2 ? mr : m > 1 ? mr / 2 : 1;
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
    const struct origin *first = &b->origins[r];
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
    const size_t mr = b->d->mr, end = b->rows - r < mr ? b->rows : r + mr;
    for (size_t at = r; at < end; at += segment_rows(b, at, end - at)) {
        if (!segment_in_place(b, at, segment_rows(b, at, end - at))) {
            return false;
        }
    }
    return true;
}

static void tile_call(enum gemm_form form, const struct gemm_tile *t)
{
    if (form == GEMM_F32 || !OWN_KEPT_HALVES) {
        isa_own()->gemm(t);
#ifdef OWN_PAIRS
    } else if (OWN_KEPT_PAIRS && form == GEMM_PAIRS) {
        own_gemm_pairs(t);
#endif
    } else {
        isa_own()->gemm_half(t, form);
    }
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
        const struct origin *o = &b->origins[r];
        t.m = segment_rows(b, r, left);
        t.x = o->image + ((size_t)o->y * g->in_w + (size_t)o->x) * g->channels;
        tile_call(b->d->form, &t);
        t.y += t.m * t.y_stride;
        t.sum += t.sum != NULL ? t.m * t.sum_stride : 0;
    }
}

static void tile_run(const struct block *b, size_t r, size_t c, const float *next)
{
    const struct dense *d = b->d;
    const struct dense_item *i = b->item;
    const size_t mr = d->mr, row = b->row0 + r, m = b->rows - r < mr ? b->rows - r : mr;
    const bool onto = i->sum == i->y && i->bias == NULL; /* y += x * w */
    struct gemm_tile t = {.w = i->panels + panel_at(d, c, b->k0),
                          .next = next,
                          .bias = i->bias != NULL ? i->bias + c : NULL,
                          .m = m,
                          .k = d->form == GEMM_PAIRS ? divide_up(b->kc, 2) : b->kc,
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
    tile_call(d->form, &t);
}

/* What the panel of column c is followed by: the next one, the first one of the next block of k, or that of the next unit. */
static const float *panel_behind(const struct block *b, size_t c)
{
    const struct dense *d = b->d;
    const size_t end = b->col0 + b->cols, depth = b->k0 + b->kc;
    const size_t at = c + d->nr < end    ? panel_at(d, c + d->nr, b->k0)
                      : depth < d->k     ? panel_at(d, b->col0, depth)
                      : c + d->nr < d->n ? panel_at(d, c + d->nr, 0)
                                         : 0;
    return b->item->panels + at;
}

/* Panel after panel: each stays in the first cache for all rows; the first two tiles fetch the next one. */
static void panels_run(const struct block *b)
{
    const struct dense *d = b->d;
    for (size_t c = b->col0; c < b->col0 + b->cols; c += d->nr) {
        const float *next = panel_behind(b, c);
        /* tiles whose prefetches, a line for each k, cover a panel */
        const size_t fetching = d->form == GEMM_F16 || d->form == GEMM_BF16 ? 1 : 2;
        const size_t lines = d->form == GEMM_PAIRS ? divide_up(b->kc, 2) : b->kc;
        for (size_t r = 0, tile = 0; r < b->rows; r += d->mr, tile++) {
            tile_run(b, r, c, tile < fetching ? next + tile * lines * 16 : b->item->panels);
        }
    }
}

static void copy_rows(const struct block *b, const struct origin *origins, size_t r, size_t rows)
{
    for (size_t i = r; i < r + rows && i < b->rows; i++) {
        row_copy(&b->d->image, &origins[i], b->k0, b->kc, b->copy + i * GEMM_LDX);
    }
}

/* Rows as pairs of bf16. */
static void copy_pairs(const struct block *b, const struct origin *origins, size_t r, size_t rows)
{
#ifdef OWN_PAIRS
    const struct dense *d = b->d;
    float room[2 * GEMM_KC];
    for (size_t i = r; i < r + rows && i < b->rows; i++) {
        const float *from = b->item->x + (b->row0 + i) * d->image.pixel_stride + b->k0;
        if (!d->direct) {
            row_copy(&d->image, &origins[i], b->k0, b->kc, room);
            from = room;
        }
        own_pairs_make(from, (uint32_t *)(void *)(b->copy + i * GEMM_LDX), b->kc);
    }
#else
    (void)b, (void)origins, (void)r, (void)rows;
#endif
}

/* A direct product copies only a last tile that is not full, or rows whose lines would push each other out of the cache. */
static void copy_needed(const struct block *b, const struct origin *origins, size_t r, size_t rows)
{
    const size_t mr = b->d->mr, last = b->rows / mr * mr;
    if (b->d->form == GEMM_PAIRS) {
        copy_pairs(b, origins, r, rows);
        return;
    }
    const bool direct = b->d->direct && !b->d->apart;
    for (size_t at = r; !direct && at < r + rows && at < b->rows; at += mr) {
        if (!tile_in_place(b, at)) {
            copy_rows(b, origins, at, mr);
        }
    }
    if (direct && last < b->rows && r + rows > last) {
        copy_rows(b, origins, last, mr);
    }
}

#define ROOM 256 /* results of narrow rows that are next to each other for an activation */

/* Rows of a few results each, apart from each other: a function of vectors takes them together. */
static void act_narrow(const struct act *act, float *y, size_t stride, size_t rows, size_t cols)
{
    float room[ROOM];
    const size_t most = ROOM / cols;
    for (size_t r = 0; r < rows; r += most) {
        const size_t count = rows - r < most ? rows - r : most;
        for (size_t i = 0; i < count; i++) {
            memcpy(room + i * cols, y + (r + i) * stride, cols * sizeof *y);
        }
        isa_own()->unary(act->fn, room, room, count * cols, act->a, 0.0f);
        for (size_t i = 0; i < count; i++) {
            memcpy(y + (r + i) * stride, room + i * cols, cols * sizeof *y);
        }
    }
}

/* The activation and the nodes behind it over rows that are done. */
static void act_rows(const struct block *b, size_t r, size_t rows)
{
    const struct dense *d = b->d;
    const struct act *act = &d->act;
    if (act->fn == UNARY_NONE && d->after == NULL) {
        return;
    }
    rows = b->rows - r < rows ? b->rows - r : rows;
    size_t cols = d->n - b->col0 < b->cols ? d->n - b->col0 : b->cols;
    bool whole = cols == d->y_stride;
    const size_t n = whole ? rows * cols : cols;
    float *y = b->item->y + (b->row0 + r) * d->y_stride + b->col0;
    size_t at = b->item->y_at + (b->row0 + r) * d->sum_stride + b->col0; /* in what is as large as the result */
    const bool narrow = !whole && cols < isa_own()->lanes && act->fn != UNARY_NONE;
    if (narrow) {
        act_narrow(act, y, d->y_stride, rows, cols);
    }
    for (size_t i = 0; i < (whole ? 1 : rows) && (!narrow || d->after != NULL);
         i++, y += d->y_stride, at += d->sum_stride) {
        if (act->fn != UNARY_NONE && !narrow) {
            isa_own()->unary(act->fn, y, y, n, act->a, 0.0f);
        }
        if (d->after != NULL) {
            epilogue_run(d->after, b->item->in, y, at, n);
        }
    }
}

/* One row: the whole depth at once, panels side by side. */
static void row_run(const struct block *b)
{
    const struct dense *d = b->d;
    const struct dense_item *i = b->item;
    const bool onto = i->sum == i->y && i->bias == NULL; /* y += x * w */
    const size_t c = b->col0;
    struct gemm_row t = {.x = i->x,
                         .w = i->panels + panel_at(d, c, 0),
                         .start = onto              ? i->y + c
                                  : i->bias != NULL ? i->bias + c
                                                    : NULL,
                         .sum = i->sum != NULL && !onto ? i->sum + c : NULL,
                         .y = i->y + c,
                         .panel = d->nr * d->k,
                         .k = d->k,
                         .n = d->n - c < b->cols ? d->n - c : b->cols,
                         .min = d->min,
                         .max = d->max};
    isa_own()->gemm_row(&t);
    act_rows(b, 0, 1);
}

/* k of one block: pairs take half the room. */
static size_t block_depth(const struct dense *d)
{
    return d->form == GEMM_PAIRS ? (size_t)2 * GEMM_KC : GEMM_KC;
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
    if (d->m == 1 && d->direct && d->form == GEMM_F32) {
        row_run(&b);
        return;
    }
    const size_t depth = block_depth(d);
    struct origin *origins = (struct origin *)(void *)(scratch + d->rows_block * GEMM_LDX * sizeof(float));
    if (!d->direct || d->apart || b.rows % mr != 0) {
        origins_find(&d->image, item->x, b.row0, b.rows, origins);
        b.origins = origins;
    }
    for (size_t r = 0; r < b.rows; r += d->rows_outer ? mr : b.rows) {
        struct block part = b;
        for (part.k0 = 0; part.k0 < d->k; part.k0 += depth) {
            part.kc = d->k - part.k0 < depth ? d->k - part.k0 : depth;
            copy_needed(&part, origins, r, d->rows_outer ? mr : b.rows);
            if (!d->rows_outer) {
                panels_run(&part);
                continue;
            }
            for (size_t c = b.col0; c < b.col0 + b.cols; c += d->nr) {
                tile_run(&part, r, c, item->panels + panel_at(d, c + d->nr < d->n ? c + d->nr : 0, part.k0));
            }
        }
        act_rows(&b, r, d->rows_outer ? mr : b.rows);
    }
}

/* Each thread has its own piece of scratch. */
static void task(void *context, size_t unit)
{
    struct job *j = context;
    unit_run(j, unit, j->scratch + team_self() * thread_bytes(j->d));
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

void dense_run(const struct dense *d, const struct dense_item *items, size_t count, void *scratch, struct run *r)
{
    if (d->k == 0) {
        for (size_t i = 0; i < count; i++) {
            empty_run(d, &items[i]);
        }
        return;
    }
    const size_t macs = d->m * d->k * d->n * count;
    struct run alone = {.error = r->error};
    struct job j = {.d = d, .items = items, .count = count, .scratch = scratch};
    j.row_blocks = (d->m + d->rows_block - 1) / d->rows_block;
    j.col_blocks = (d->n + d->cols_block - 1) / d->cols_block;
    const size_t units = count * j.row_blocks * j.col_blocks;
    if (macs < SHORT_MACS) {
        parallel_short(macs < ALONE_MACS ? &alone : r, task, &j, units);
    } else {
        parallel(r, task, &j, units);
    }
}
