#include "backend/xnnpack/winograd.h"

#include <math.h>
#include <string.h>

#include "backend/xnnpack/isa.h"

#define IN_MIN    12 /* channels: fewer do not pay for the turning */
#define OUT_MIN   16
#define K_BLOCK   128 /* channels whose weights are turned at a time: 576 KiB of 32 columns, in the second cache */
#define TILES_MIN 56  /* of a block, where there are so many: they pay for the turning of weights */
#define COLS_STEP 64  /* columns whose products a thread holds */
#define BLOCK_MAX ((size_t)4 << 20) /* bytes of one thread's turned tiles */
#define ROW_PAD   16                /* floats between rows: no power of two, or all rows meet in one cache set */

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static size_t points_of(size_t edge)
{
    return (edge + 2) * (edge + 2);
}

/* Rows that the product computes for m of them. */
static size_t rows_computed(size_t m)
{
    const size_t mr = isa_own()->gemm_mr;
    size_t rows = 0;
    for (size_t next; m > 0; m -= next) {
        next = m >= 2 * mr ? m / mr * mr - mr : gemm_rows_next(mr, m);
        rows += next > mr ? next : gemm_rows(mr, next);
    }
    return rows;
}

static bool filter_fits(const struct filter *f)
{
    return isa_own()->wide && f->groups == 1 && f->kernel_h == 3 && f->kernel_w == 3 && f->in >= IN_MIN &&
           f->out >= OUT_MIN;
}

bool winograd_takes(const struct window *w, const struct filter *f)
{
    return filter_fits(f) && w->stride[0] == 1 && w->stride[1] == 1 && w->dilation[0] == 1 && w->dilation[1] == 1;
}

static bool all_ones(const struct node *n, enum attr_key key)
{
    uint32_t count = 0;
    const int64_t *items = node_ints(n, key, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (items[i] != 1) {
            return false;
        }
    }
    return true;
}

bool winograd_may_take(const struct node *n, const struct filter *f)
{
    return filter_fits(f) && all_ones(n, ATTR_strides) && all_ones(n, ATTR_dilations);
}

size_t winograd_cost_of_product(const struct window *w)
{
    return 9 * rows_computed(w->batch * w->out[0] * w->out[1]);
}

/* Turning weights takes as long as some four rows do, once for each block of tiles; turning a pixel or a result as long as some six columns of a row. */
size_t winograd_cost(const struct window *w, const struct filter *f, size_t edge)
{
    const size_t tiles = w->batch * divide_up(w->out[0], edge) * divide_up(w->out[1], edge);
    const size_t rows = rows_computed(tiles) + 4 * divide_up(tiles, 2 * TILES_MIN);
    return points_of(edge) * (rows + tiles * 6 / f->in + tiles * 6 / f->out);
}

/* Turned tiles of a block: rows of the product, for each point. */
static size_t row_in(const struct winograd *q)
{
    return (q->in + ROW_PAD - 1) / ROW_PAD * ROW_PAD + ROW_PAD;
}

static size_t row_out(const struct winograd *q)
{
    return q->cols_step + ROW_PAD;
}

/* Turned weights of one point: a block of a panel. */
static size_t point_step(const struct winograd *q)
{
    return q->k_block * isa_own()->gemm_nr + ROW_PAD;
}

/* A thread's: zeros for what lies outside of the picture, turned weights, turned inputs, products. */
static size_t thread_floats(const struct winograd *q)
{
    return (row_in(q) + q->points * (point_step(q) + q->tiles_block * (row_in(q) + row_out(q))) + 63) / 16 * 16;
}

size_t winograd_scratch_bytes(const struct winograd *q, size_t threads)
{
    return thread_floats(q) * sizeof(float) * (threads > 0 ? threads : 1);
}

/* As many tiles that their turned numbers stay in the second cache, but enough to pay for the weights that are turned once for each block. */
static void blocks_choose(struct winograd *q, size_t threads)
{
    const size_t mr = isa_own()->gemm_mr, tile = q->points * (row_in(q) + row_out(q)) * sizeof(float);
    size_t most = isa_l2_bytes() / 2 / tile;
    most = most < TILES_MIN ? TILES_MIN : most;
    most = most > BLOCK_MAX / tile ? BLOCK_MAX / tile : most;
    size_t blocks = divide_up(q->tiles, most > mr ? most / mr * mr : mr);
    blocks = blocks < threads && q->tiles >= threads * TILES_MIN ? threads : blocks;
    q->tiles_block = divide_up(divide_up(q->tiles, blocks), mr) * mr;
    blocks = divide_up(q->tiles, q->tiles_block);
    const size_t nr = isa_own()->gemm_nr, panels = divide_up(q->out, nr);
    const size_t cuts = threads > 1 && blocks < 2 * threads ? (panels < threads ? panels : threads) : 1;
    q->cols_block = divide_up(panels, cuts) * nr;
}

void winograd_init(struct winograd *q, const struct window *w, const struct filter *f, size_t edge,
                   const struct act *act, size_t threads)
{
    const size_t nr = isa_own()->gemm_nr, blocks = divide_up(f->in, K_BLOCK);
    *q = (struct winograd){.w = *w, .act = *act, .in = f->in, .out = f->out, .edge = edge, .points = points_of(edge)};
    q->tiles_h = divide_up(w->out[0], edge);
    q->tiles_w = divide_up(w->out[1], edge);
    q->tiles = w->batch * q->tiles_h * q->tiles_w;
    q->cols_step = COLS_STEP / nr * nr;
    q->k_block = divide_up(f->in, blocks);
    blocks_choose(q, threads);
}

struct winograd_job {
    const struct winograd *q;
    const struct dense_weights *packed;
    const float *x, *sum;
    void *const *in;
    float *y, *scratch;
    size_t col_blocks, x_pixel, y_pixel; /* floats between pixels */
};

/* Where a tile lies: its image, and its first output row and column. */
struct place {
    size_t image, row, col;
};

static struct place place_of(const struct winograd *q, size_t tile)
{
    const size_t all = q->tiles_h * q->tiles_w;
    return (struct place){tile / all, tile % all / q->tiles_w * q->edge, tile % q->tiles_w * q->edge};
}

static void tile_in(const struct winograd_job *j, size_t tile, const float *zeros, float *v, size_t step)
{
    const struct winograd *q = j->q;
    const struct window *w = &q->w;
    const struct place p = place_of(q, tile);
    const size_t span = q->edge + 2;
    struct winograd_in t = {.v = v, .step = step, .edge = q->edge, .channels = q->in};
    const float *image = j->x + p.image * w->in[0] * w->in[1] * j->x_pixel;
    for (size_t i = 0; i < q->points; i++) { /* beyond the padding in front these wrap around: outside, too */
        const size_t row = p.row + i / span - w->begin[0], col = p.col + i % span - w->begin[1];
        t.pixels[i] = row < w->in[0] && col < w->in[1] ? image + (row * w->in[1] + col) * j->x_pixel : zeros;
    }
    isa_own()->winograd_in(&t);
}

/* The turned numbers of a panel's weights: channels [k0, k0 + kc) of columns [col, col + nr). */
static void weights_turn(const struct winograd_job *j, size_t col, size_t k0, size_t kc, float *u)
{
    const struct winograd *q = j->q;
    const size_t nr = isa_own()->gemm_nr;
    const struct winograd_filters t = {.w = j->packed->data + (col * 9 * q->in) + k0 * nr,
                                       .u = u,
                                       .place = q->in * nr,
                                       .step = point_step(q),
                                       .count = kc * nr,
                                       .edge = q->edge};
    isa_own()->winograd_filters(&t);
}

/* One point's product for the tiles of a block and a panel's columns: [tiles, kc] x [kc, cols], added to what earlier channels gave. */
static void point_run(const struct winograd_job *j, const float *u, const float *v, float *m, size_t tiles, size_t cols,
                      size_t kc, bool first)
{
    const struct winograd *q = j->q;
    const size_t mr = isa_own()->gemm_mr;
    for (size_t r = 0, rows; r < tiles; r += rows) {
        rows = gemm_rows_next(mr, tiles - r);
        const struct gemm_tile t = {.x = v + r * row_in(q),
                                    .w = u,
                                    .next = u + point_step(q),
                                    .fetch = 16,
                                    .y = m + r * row_out(q),
                                    .x_stride = row_in(q),
                                    .y_stride = row_out(q),
                                    .m = rows,
                                    .n = cols,
                                    .k = kc,
                                    .bands = 1,
                                    .first = first,
                                    .min = -INFINITY,
                                    .max = INFINITY};
        isa_own()->gemm(&t);
    }
}

/* All points' products of some columns. */
static void products_run(const struct winograd_job *j, float *u, const float *v, float *m, size_t tiles, size_t col,
                         size_t cols)
{
    const struct winograd *q = j->q;
    const size_t nr = isa_own()->gemm_nr, in_step = q->tiles_block * row_in(q), out_step = q->tiles_block * row_out(q);
    for (size_t c = 0; c < cols; c += nr) {
        for (size_t k0 = 0; k0 < q->in; k0 += q->k_block) {
            const size_t kc = q->in - k0 < q->k_block ? q->in - k0 : q->k_block;
            weights_turn(j, col + c, k0, kc, u);
            for (size_t point = 0; point < q->points; point++) {
                point_run(j, u + point * point_step(q), v + point * in_step + k0, m + point * out_step + c, tiles,
                          cols - c < nr ? cols - c : nr, kc, k0 == 0);
            }
        }
    }
}

static void tile_out(const struct winograd_job *j, size_t tile, const float *m, size_t step, size_t col, size_t cols)
{
    const struct winograd *q = j->q;
    const struct window *w = &q->w;
    const float *bias = dense_bias(j->packed);
    const struct place p = place_of(q, tile);
    const size_t pixel = (p.image * w->out[0] + p.row) * w->out[1] + p.col;
    float *y = j->y + pixel * j->y_pixel + col;
    struct winograd_out t = {.m = m,
                             .step = step,
                             .y = y,
                             .sum = j->sum != NULL ? j->sum + pixel * q->out + col : NULL,
                             .bias = bias != NULL ? bias + col : NULL,
                             .y_row = w->out[1] * j->y_pixel,
                             .y_pixel = j->y_pixel,
                             .sum_row = w->out[1] * q->out,
                             .sum_pixel = q->out,
                             .rows = w->out[0] - p.row < q->edge ? w->out[0] - p.row : q->edge,
                             .cols = w->out[1] - p.col < q->edge ? w->out[1] - p.col : q->edge,
                             .edge = q->edge,
                             .channels = cols,
                             .min = q->act.min,
                             .max = q->act.max};
    isa_own()->winograd_out(&t);
    const bool whole = cols == j->y_pixel;
    const size_t pieces = whole ? 1 : t.cols, n = whole ? t.cols * cols : cols;
    for (size_t i = 0; i < t.rows * pieces && (q->act.fn != UNARY_NONE || q->after != NULL); i++) {
        const size_t row = i / pieces, x = i % pieces;
        float *to = y + row * t.y_row + x * t.y_pixel;
        if (q->act.fn != UNARY_NONE) {
            isa_own()->unary(q->act.fn, to, to, n, q->act.a, 0.0f);
        }
        if (q->after != NULL) {
            epilogue_run(q->after, j->in, to, (pixel + row * w->out[1] + x) * q->out + col, n);
        }
    }
}

static void unit_run(void *context, size_t unit)
{
    const struct winograd_job *j = context;
    const struct winograd *q = j->q;
    const size_t first = unit / j->col_blocks * q->tiles_block, col = unit % j->col_blocks * q->cols_block;
    const size_t tiles = q->tiles - first < q->tiles_block ? q->tiles - first : q->tiles_block;
    const size_t cols = q->out - col < q->cols_block ? q->out - col : q->cols_block;
    float *zeros = j->scratch + team_self() * thread_floats(q), *u = zeros + row_in(q);
    float *v = u + q->points * point_step(q);
    const size_t in_step = q->tiles_block * row_in(q), out_step = q->tiles_block * row_out(q);
    float *m = v + q->points * in_step;
    memset(zeros, 0, q->in * sizeof *zeros); /* scratch is shared with other steps */
    for (size_t i = 0; i < tiles; i++) {
        tile_in(j, first + i, zeros, v + i * row_in(q), in_step);
    }
    for (size_t c = 0; c < cols; c += q->cols_step) {
        const size_t some = cols - c < q->cols_step ? cols - c : q->cols_step;
        products_run(j, u, v, m, tiles, col + c, some);
        for (size_t i = 0; i < tiles; i++) {
            tile_out(j, first + i, m + i * row_out(q), out_step, col + c, some);
        }
    }
}

void winograd_run(const struct winograd *q, const struct dense_weights *packed, const struct step *s, const float *sum,
                  struct run *r)
{
    struct winograd_job j = {.q = q,
                             .packed = packed,
                             .x = s->in[0],
                             .sum = sum,
                             .in = s->in,
                             .y = s->out[0],
                             .scratch = s->scratch,
                             .x_pixel = s->in_row[0],
                             .y_pixel = s->out_row};
    j.col_blocks = divide_up(q->out, q->cols_block);
    parallel_macs(r, unit_run, &j, divide_up(q->tiles, q->tiles_block) * j.col_blocks,
                  q->tiles * q->points * q->in * q->out);
}
