#include "backend/xnnpack/winograd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/isa.h"
#include "graph/lifetime.h"

#define EDGE       4  /* of an output tile */
#define SPAN       6  /* of an input tile */
#define POINTS     36 /* numbers of a turned tile */
#define IN_MIN     12 /* channels: fewer do not pay for the turning */
#define OUT_MIN    16
#define PACKED_MAX ((size_t)10 << 20) /* bytes of turned weights: 256 x 256 channels */
#define BLOCK_MAX  ((size_t)4 << 20)  /* bytes of one thread's turned tiles */
#define ROW_PAD    16                 /* floats between rows: no power of two, or all rows meet in one cache set */

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static size_t turned_floats(const struct filter *f)
{
    return POINTS * dense_packed_floats(f->in, f->out);
}

size_t winograd_packed_bytes(const struct filter *f)
{
    return ((turned_floats(f) + f->out) * sizeof(float) + LIFETIME_PAD + 63) / 64 * 64;
}

/* Rows that the product computes for m of them. */
static size_t rows_computed(size_t m)
{
    const size_t mr = isa_own()->gemm_mr, left = m % mr;
    return m - left + (left > mr / 2 ? mr : left > 1 ? mr / 2 : left);
}

bool winograd_wants(const struct window *w, const struct filter *f)
{
    const size_t tiles = w->batch * divide_up(w->out[0], EDGE) * divide_up(w->out[1], EDGE);
    const bool plain = isa_own()->lanes >= 8 && f->groups == 1 && w->kernel[0] == 3 && w->kernel[1] == 3 &&
                       w->stride[0] == 1 && w->stride[1] == 1 && w->dilation[0] == 1 && w->dilation[1] == 1;
    /* At least 1.5 times fewer products, and not a few rows that stream all weights. */
    return plain && f->in >= IN_MIN && f->out >= OUT_MIN && tiles > isa_own()->gemm_mr / 2 &&
           POINTS * rows_computed(tiles) * 3 <= 9 * rows_computed(w->batch * w->out[0] * w->out[1]) * 2 &&
           turned_floats(f) * sizeof(float) <= PACKED_MAX;
}

/* What a weight counts in each of the 36 numbers of a turned filter G g G'. */
static void shares_make(double shares[POINTS][9])
{
    static const double a = 0.625, b = 1.5;
    const double na = 2 * a * a * (a * a - b * b), nb = 2 * b * b * (b * b - a * a);
    const double rows[SPAN][3] = {{1 / (a * a * b * b), 0, 0},   {1 / na, a / na, a * a / na},
                                  {1 / na, -a / na, a * a / na}, {1 / nb, b / nb, b * b / nb},
                                  {1 / nb, -b / nb, b * b / nb}, {0, 0, 1}};
    for (size_t k = 0; k < POINTS; k++) {
        for (size_t i = 0; i < 9; i++) {
            shares[k][i] = rows[k / SPAN][i / 3] * rows[k % SPAN][i % 3];
        }
    }
}

/* One point of all filters of one output channel: [9][in] -> [in]. */
static void filters_turn(const float *g, const double share[9], size_t in, float *u)
{
    for (size_t c = 0; c < in; c++) {
        double sum = 0.0;
        for (size_t i = 0; i < 9; i++) {
            sum += share[i] * (double)g[i * in + c];
        }
        u[c] = (float)sum;
    }
}

bool winograd_pack(const struct filter *f, const float *ohwi, const float *bias, float *packed)
{
    const size_t plane = f->in * f->out, panels = dense_packed_floats(f->in, f->out);
    double shares[POINTS][9];
    float *turned = malloc(plane * sizeof *turned + 64); /* [out][in] of one point */
    if (turned == NULL) {
        return false;
    }
    shares_make(shares);
    for (size_t k = 0; k < POINTS; k++) {
        for (size_t o = 0; o < f->out; o++) {
            filters_turn(ohwi + o * 9 * f->in, shares[k], f->in, turned + o * f->in);
        }
        dense_pack_into(packed + k * panels, turned, 1, f->in, f->in, f->out);
    }
    free(turned);
    for (size_t i = 0; i < f->out; i++) {
        packed[turned_floats(f) + i] = bias != NULL ? bias[i] : 0.0f;
    }
    return true;
}

/* Turned tiles of a block: rows of the product, for each point. */
static size_t row_in(const struct winograd *q)
{
    return q->in + ROW_PAD;
}

static size_t row_out(const struct winograd *q)
{
    return q->cols_block + ROW_PAD;
}

/* A thread's: zeros for what lies outside of the picture, turned inputs, products. */
static size_t thread_floats(const struct winograd *q)
{
    return (q->in + ROW_PAD + POINTS * q->tiles_block * (row_in(q) + row_out(q)) + 63) / 16 * 16;
}

size_t winograd_scratch_bytes(const struct winograd *q, size_t threads)
{
    return thread_floats(q) * sizeof(float) * (threads > 0 ? threads : 1);
}

/*
 * As many tiles that their turned numbers stay in the second cache beside small weights; with larger weights, which stream through once for each block, more.
 */
static void blocks_choose(struct winograd *q, size_t weights, size_t threads)
{
    const size_t mr = isa_own()->gemm_mr, tile = POINTS * (row_in(q) + q->out + ROW_PAD) * sizeof(float);
    size_t bytes = weights > isa_l2_bytes() ? weights / 2 : isa_l2_bytes() / 2;
    bytes = bytes > BLOCK_MAX ? BLOCK_MAX : bytes;
    size_t blocks = divide_up(q->tiles, bytes / tile > mr ? bytes / tile / mr * mr : mr);
    blocks = blocks < threads && q->tiles >= threads * mr ? threads : blocks;
    q->tiles_block = divide_up(divide_up(q->tiles, blocks), mr) * mr;
    blocks = divide_up(q->tiles, q->tiles_block);
    const size_t nr = isa_own()->gemm_nr, panels = divide_up(q->out, nr);
    const size_t cuts = threads > 1 && blocks < 2 * threads ? (panels < 2 ? 1 : 2) : 1;
    q->cols_block = divide_up(panels, cuts) * nr;
}

void winograd_init(struct winograd *q, const struct window *w, const struct filter *f, const struct act *act,
                   size_t threads)
{
    *q = (struct winograd){.w = *w, .act = *act, .in = f->in, .out = f->out};
    q->tiles_h = divide_up(w->out[0], EDGE);
    q->tiles_w = divide_up(w->out[1], EDGE);
    q->tiles = w->batch * q->tiles_h * q->tiles_w;
    blocks_choose(q, turned_floats(f) * sizeof(float), threads);
}

struct winograd_job {
    const struct winograd *q;
    const float *packed, *x, *sum;
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
    return (struct place){tile / all, tile % all / q->tiles_w * EDGE, tile % q->tiles_w * EDGE};
}

static void tile_in(const struct winograd_job *j, size_t tile, const float *zeros, float *v, size_t step)
{
    const struct winograd *q = j->q;
    const struct window *w = &q->w;
    const struct place p = place_of(q, tile);
    struct winograd_in t = {.v = v, .step = step, .channels = q->in};
    const float *image = j->x + p.image * w->in[0] * w->in[1] * j->x_pixel;
    for (size_t i = 0; i < POINTS; i++) { /* beyond the padding in front these wrap around: outside, too */
        const size_t row = p.row + i / SPAN - w->begin[0], col = p.col + i % SPAN - w->begin[1];
        t.pixels[i] = row < w->in[0] && col < w->in[1] ? image + (row * w->in[1] + col) * j->x_pixel : zeros;
    }
    isa_own()->winograd_in(&t);
}

/* One point's product for the tiles of a block: [tiles, in] x [in, cols]. */
static void point_run(const struct winograd_job *j, const float *v, float *m, size_t point, size_t tiles, size_t col,
                      size_t cols)
{
    const struct winograd *q = j->q;
    const size_t mr = isa_own()->gemm_mr, nr = isa_own()->gemm_nr, panels = dense_packed_floats(q->in, q->out);
    for (size_t k0 = 0; k0 < q->in; k0 += GEMM_KC) {
        const size_t kc = q->in - k0 < GEMM_KC ? q->in - k0 : GEMM_KC;
        for (size_t c = 0; c < cols; c += nr) {
            const float *weights = j->packed + point * panels + (col + c) * q->in + k0 * nr;
            for (size_t r = 0; r < tiles; r += mr) {
                const struct gemm_tile t = {.x = v + r * row_in(q) + k0,
                                            .w = weights,
                                            .next = weights + kc * nr,
                                            .y = m + r * row_out(q) + c,
                                            .x_stride = row_in(q),
                                            .y_stride = row_out(q),
                                            .m = tiles - r < mr ? tiles - r : mr,
                                            .n = cols - c < nr ? cols - c : nr,
                                            .k = kc,
                                            .bands = 1,
                                            .first = k0 == 0,
                                            .min = -INFINITY,
                                            .max = INFINITY};
                isa_own()->gemm(&t);
            }
        }
    }
}

static void tile_out(const struct winograd_job *j, size_t tile, const float *m, size_t step, size_t col, size_t cols)
{
    const struct winograd *q = j->q;
    const struct window *w = &q->w;
    const struct place p = place_of(q, tile);
    const size_t pixel = (p.image * w->out[0] + p.row) * w->out[1] + p.col;
    float *y = j->y + pixel * j->y_pixel + col;
    struct winograd_out t = {.m = m,
                             .step = step,
                             .y = y,
                             .sum = j->sum != NULL ? j->sum + pixel * q->out + col : NULL,
                             .bias = j->packed + POINTS * dense_packed_floats(q->in, q->out) + col,
                             .y_row = w->out[1] * j->y_pixel,
                             .y_pixel = j->y_pixel,
                             .sum_row = w->out[1] * q->out,
                             .sum_pixel = q->out,
                             .rows = w->out[0] - p.row < EDGE ? w->out[0] - p.row : EDGE,
                             .cols = w->out[1] - p.col < EDGE ? w->out[1] - p.col : EDGE,
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
    float *zeros = j->scratch + team_self() * thread_floats(q), *v = zeros + q->in + ROW_PAD;
    const size_t in_step = q->tiles_block * row_in(q), out_step = q->tiles_block * row_out(q);
    float *m = v + POINTS * in_step;
    memset(zeros, 0, q->in * sizeof *zeros); /* scratch is shared with other steps */
    for (size_t i = 0; i < tiles; i++) {
        tile_in(j, first + i, zeros, v + i * row_in(q), in_step);
    }
    for (size_t point = 0; point < POINTS; point++) {
        point_run(j, v + point * in_step, m + point * out_step, point, tiles, col, cols);
    }
    for (size_t i = 0; i < tiles; i++) {
        tile_out(j, first + i, m + i * row_out(q), out_step, col, cols);
    }
}

void winograd_run(const struct winograd *q, const float *packed, const struct step *s, const float *sum, struct run *r)
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
    parallel(r, unit_run, &j, divide_up(q->tiles, q->tiles_block) * j.col_blocks);
}
