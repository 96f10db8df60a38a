/* The blocks of a product: rows and columns of a unit of work, and which rows are copied. */
#include <math.h>
#include <stdlib.h>

#include "backend/xnnpack/dense.h"
#include "backend/xnnpack/dense_paired.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_tiles.h"
#include "backend/xnnpack/patches.h"

#define ROWS_BLOCK   224 /* rows that share one pass over the weights: of 256 floats they have 229 KiB of L2 */
#define TILES_BLOCK  16  /* and at most so many tiles */
#define PANELS_LEAST 4   /* of a unit: its rows are copied for at least so many */
#define TILES_DEPTH                                                                                                    \
    192 /* terms of a block: 32 rows, 32 columns and those that are fetched ahead fit the first cache together */
#define ROWS_DEPTH 256 /* the same of 32 rows alone, where columns are read from the second cache anyway */
#define TILES_ROWS 5   /* fewer are sooner multiplied without tiles, which take 16 at a time */

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

size_t dense_panel_at(const struct dense *d, size_t c, size_t k0)
{
    switch (d->form) {
    case GEMM_F16:
    case GEMM_BF16:
        return (c * d->k + k0 * d->nr) / 2;
    case GEMM_PAIRS:
        return c * dense_pairs(d->k) + k0 / 2 * d->nr;
    case GEMM_F32:
    default:
        return c * d->k + k0 * d->nr;
    }
}

/* Row tiles of one block. */
static size_t tiles_block(const struct dense *d)
{
    const size_t tiles = ROWS_BLOCK / d->mr;
    return tiles < TILES_BLOCK ? tiles : TILES_BLOCK;
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
    const size_t mr = d->mr, most = tiles_block(d);
    size_t tiles = divide_up(d->m, mr), panels = divide_up(d->n, d->nr);
    d->rows_outer = dense_panel_at(d, panels * d->nr, 0) * sizeof(float) <= isa_l2_bytes() / 2 && tiles >= threads;
    d->cols_block = panels * d->nr;
    if (d->rows_outer) {
        size_t unit = tiles / 16;
        d->rows_block = (unit < 1 ? 1 : unit > most ? most : unit) * mr;
        return;
    }
    size_t blocks = divide_up(tiles, most), cuts = 1;
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
                        .depth = GEMM_KC,
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

/* Blocks of about the same depth, of whole tiles. */
static size_t even_depth(size_t k, size_t most)
{
    const size_t whole = 2 * OWN_TILES_K, blocks = divide_up(k, most);
    return blocks > 0 ? divide_up(divide_up(k, blocks), whole) * whole : whole;
}

void dense_form_set(struct dense *d, enum gemm_form form, size_t threads)
{
    d->form = form;
    d->banded = d->banded && form != GEMM_PAIRS;
    d->depth = form == GEMM_PAIRS ? (size_t)2 * GEMM_KC : GEMM_KC; /* pairs take half the room */
#ifdef OWN_X86
    d->tiles = OWN_KEPT_PAIRS && form == GEMM_PAIRS && isa_tiles() && d->m >= TILES_ROWS;
    if (d->tiles) {
        d->mr = OWN_TILES_MR;
        dense_paired_init(d);
    }
#endif
    blocks_choose(d, threads);
    if (d->tiles) {
        d->depth = d->paired.in_place ? d->k : even_depth(d->k, d->rows_outer ? ROWS_DEPTH : TILES_DEPTH);
    }
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

size_t dense_thread_bytes(const struct dense *d)
{
    size_t rows = d->rows_block;
    return (rows * GEMM_LDX * sizeof(float) + rows * sizeof(struct patch_origin) + 127) / 64 * 64;
}

size_t dense_paired_bytes(const struct dense *d)
{
    return (d->paired.words * sizeof(float) + 63) / 64 * 64;
}

size_t dense_scratch_bytes(const struct dense *d, size_t threads)
{
    return dense_thread_bytes(d) * (threads > 0 ? threads : 1) + dense_paired_bytes(d);
}
