#include "backend/xnnpack/deconv_rows.h"

#include <string.h>

#include "backend/xnnpack/deconv_weights.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/own_kept.h"
#include "backend/xnnpack/own_tiles.h"
#include "backend/xnnpack/small_product.h"
#include "backend/xnnpack/window.h"

#define SUMS_BYTES     ((size_t)256 << 10) /* of a unit */
#define WIDTH_MAX      64                  /* of a kernel */
#define CHANNELS_LEAST 8                   /* of a group in, and of a row of the kernel out */

struct rows {
    struct deconv_place at;
    struct small_product product;
    struct act act;
    struct deconv_weights weights;
    size_t block, units;              /* rows of results of one phase that a unit makes; units of one phase */
    size_t piece, pieces;             /* results of a row that a unit makes; less than all of them only of one row */
    size_t sums_floats, pixels_words; /* scratch of one thread */
    const void *packed;               /* the bias of each group is that of its first row of the kernel */
};

static size_t columns_of(const struct rows *q)
{
    return deconv_weights_columns(&q->weights);
}

static const struct dense_weights *weights_at(const struct rows *q, size_t group, size_t row)
{
    return deconv_weights_at(&q->weights, q->product.form, q->packed, group, row);
}

bool deconv_rows_takes(const struct graph *g, const struct node *n)
{
    const struct value *w = node_in(g, n, 1), *bias = node_in(g, n, 2);
    const bool constant = w != NULL && w->data != NULL && (bias == NULL || bias->data != NULL);
    const int64_t groups = node_int(n, ATTR_group, 1);
    if (!isa_own()->wide || !constant || groups < 1 || w->dtype != PEN_DTYPE_F32 ||
        (w->shape.rank != 3 && w->shape.rank != 4) || w->shape.dim[0] % groups != 0 ||
        node_int(n, ATTR_layout, LAYOUT_NCHW) != LAYOUT_NHWC ||
        node_int(n, ATTR_weight_layout, WEIGHT_OIHW) != WEIGHT_OIHW) {
        return false;
    }
    const int64_t width = w->shape.dim[w->shape.rank - 1];
    return w->shape.dim[0] / groups >= CHANNELS_LEAST && w->shape.dim[1] * width >= CHANNELS_LEAST &&
           width <= WIDTH_MAX;
}

static struct deconv_weights weights_of(const struct shape *w, size_t groups)
{
    return deconv_weights_of(w, groups, true);
}

enum pen_status deconv_rows_pack(const struct graph *g, const struct node *n, enum gemm_form form, void **ret_packed,
                                 size_t *ret_bytes, struct pen_error *reterr)
{
    const struct deconv_weights d = weights_of(&node_in(g, n, 1)->shape, (size_t)node_int(n, ATTR_group, 1));
    return deconv_weights_pack(g, n, &d, form, ret_packed, ret_bytes, reterr);
}

/* ---- running ---- */

/* What one unit makes: rows first, first + stride, ... of the results of one picture. */
struct unit {
    const struct rows *q;
    const struct step *s;
    size_t batch, group, first, count;
    size_t left, right;   /* results [left, right) of each row, */
    size_t pixel, width;  /* which these pixels of a row of the picture meet */
    float *sums, *pixels; /* [count * width][columns]; rows of pixels as a product takes them */
};

/* The row of the picture that row `row` of the kernel meets for the unit's first row of results; may lie outside. False: it meets none. */
static bool row_meets(const struct unit *u, size_t row, ptrdiff_t *ret_first)
{
    const struct deconv_place *a = &u->q->at;
    const ptrdiff_t away = (ptrdiff_t)(u->first + a->begin[0]) - (ptrdiff_t)(row * a->dilation[0]);
    const ptrdiff_t stride = (ptrdiff_t)a->stride[0];
    *ret_first = away >= 0 ? away / stride : -(-away / stride);
    return away % stride == 0;
}

/* Pixels of `count` rows of the picture from `row` on: where they lie, or a copy that a whole call may read. */
static const float *pixels_take(const struct unit *u, size_t row, size_t pixels, size_t *ret_stride)
{
    const struct rows *q = u->q;
    const size_t pitch = u->s->in_row[0], mr = small_product_rows(&q->product);
    const float *x = (const float *)u->s->in[0] + ((u->batch * q->at.in[0] + row) * q->at.in[1] + u->pixel) * pitch +
                     u->group * q->weights.in;
    if (q->product.form != GEMM_PAIRS && pixels % mr == 0) {
        *ret_stride = pitch;
        return x;
    }
    const size_t words = small_product_words(&q->product, q->weights.in);
    for (size_t i = 0; i < pixels; i++, x += pitch) {
        float *to = u->pixels + i * words;
#ifdef OWN_PAIRS
        if (OWN_KEPT_PAIRS && q->product.form == GEMM_PAIRS) {
            const size_t pairs = (q->weights.in + 1) / 2;
            own_pairs_make(x, (uint32_t *)(void *)to, q->weights.in);
            memset(to + pairs, 0, (words - pairs) * sizeof *to);
            continue;
        }
#endif
        memcpy(to, x, q->weights.in * sizeof *to);
    }
    *ret_stride = words;
    return u->pixels;
}

/* All products of the unit. */
static void sums_make(const struct unit *u)
{
    const struct rows *q = u->q;
    const size_t width = u->width, columns = columns_of(q);
    memset(u->sums, 0, u->count * width * columns * sizeof *u->sums);
    for (size_t row = 0; row < q->at.kernel[0]; row++) {
        ptrdiff_t first;
        if (!row_meets(u, row, &first)) {
            continue;
        }
        const size_t skip = first < 0 ? (size_t)-first : 0; /* rows of results above the picture */
        const size_t from = first < 0 ? 0 : (size_t)first;
        if (skip >= u->count || from >= q->at.in[0]) {
            continue;
        }
        const size_t left = q->at.in[0] - from, count = u->count - skip < left ? u->count - skip : left;
        struct gemm_tile t = {.w = weights_at(q, u->group, row)->data,
                              .k = small_product_words(&q->product, q->weights.in),
                              .n = columns,
                              .m = count * width,
                              .y = u->sums + skip * width * columns,
                              .y_stride = columns};
        t.x = pixels_take(u, from, t.m, &t.x_stride);
        small_product_run(&q->product, &t);
    }
}

/* One row of results from its sums. */
static void row_make(const struct unit *u, const float *sums, float *y)
{
    const struct rows *q = u->q;
    const struct deconv_place *a = &q->at;
    const size_t pitch = u->s->out_row, columns = columns_of(q);
    const float *taps[1 + WIDTH_MAX];
    for (size_t x = u->left; x < u->right; x++) {
        size_t count = 0;
        taps[count++] = dense_bias(weights_at(q, u->group, 0));
        for (size_t k = 0; k < a->kernel[1]; k++) {
            const size_t away = x + a->begin[1] - k * a->dilation[1]; /* left of the picture: wraps */
            const size_t pixel = away / a->stride[1];
            if (away <= x + a->begin[1] && away % a->stride[1] == 0 && pixel < a->in[1]) {
                taps[count++] = sums + (pixel - u->pixel) * columns + k * q->weights.out;
            }
        }
        isa_own()->pool_sum(taps, count, y + x * pitch, q->weights.out, 1.0f);
        if (pitch != q->weights.out) {
            act_piece(&q->act, y + x * pitch, q->weights.out);
        }
    }
    if (pitch == q->weights.out) {
        act_piece(&q->act, y + u->left * pitch, (u->right - u->left) * pitch);
    }
}

/* The pixels that results [left, right) of a row meet. */
static void pixels_find(struct unit *u)
{
    const struct deconv_place *a = &u->q->at;
    const size_t reach = (a->kernel[1] - 1) * a->dilation[1], from = u->left + a->begin[1];
    const size_t end = (u->right - 1 + a->begin[1]) / a->stride[1] + 1;
    u->pixel = from > reach ? (from - reach + a->stride[1] - 1) / a->stride[1] : 0;
    u->pixel = u->pixel < a->in[1] ? u->pixel : a->in[1];
    u->width = (end < a->in[1] ? end : a->in[1]) - u->pixel;
    if (u->q->pieces == 1) { /* rows follow each other */
        u->pixel = 0;
        u->width = a->in[1];
    }
}

static void unit_run(const struct rows *q, const struct step *s, size_t index)
{
    const struct deconv_place *a = &q->at;
    const size_t stride = a->stride[0], piece = index % q->pieces;
    index /= q->pieces;
    const size_t phase = index / q->units % stride, block = index % q->units * q->block;
    struct unit u = {.q = q,
                     .s = s,
                     .batch = index / q->units / stride % a->batch,
                     .group = index / q->units / stride / a->batch,
                     .first = phase + block * stride,
                     .left = piece * q->piece};
    u.right = u.left + q->piece < a->out[1] ? u.left + q->piece : a->out[1];
    u.count = u.first < a->out[0] ? (a->out[0] - u.first + stride - 1) / stride : 0;
    u.count = u.count < q->block ? u.count : q->block;
    u.sums = (float *)s->scratch + team_self() * (q->sums_floats + q->pixels_words);
    u.pixels = u.sums + q->sums_floats;
    if (u.count == 0 || u.left >= u.right) {
        return;
    }
    pixels_find(&u);
    sums_make(&u);
    for (size_t i = 0; i < u.count; i++) {
        const size_t row = u.batch * a->out[0] + u.first + i * stride;
        row_make(&u, u.sums + i * u.width * columns_of(q),
                 (float *)s->out[0] + row * a->out[1] * s->out_row + u.group * q->weights.out);
    }
}

static void task(void *context, size_t index)
{
    const struct step *s = context;
    const struct rows *q = s->state;
#ifdef OWN_X86
    if (OWN_KEPT_PAIRS && q->product.tiles) {
        own_tiles_begin();
        unit_run(q, s, index);
        own_tiles_end();
        return;
    }
#endif
    unit_run(q, s, index);
}

static enum pen_status rows_run(struct step *s, struct run *r)
{
    const struct rows *q = s->state;
    parallel(r, task, s, q->at.groups * q->at.batch * q->at.stride[0] * q->units * q->pieces);
    return PEN_OK;
}

/*
 * Rows of results of a unit: as many as keep its sums in the cache, and units enough for all threads. A single row that is too long for that, as sound has,
 * is cut in pieces; what two pieces both meet is multiplied for each of them.
 */
static void blocks_choose(struct rows *q, size_t threads)
{
    const struct deconv_place *a = &q->at;
    const size_t phase = (a->out[0] + a->stride[0] - 1) / a->stride[0], pixel = columns_of(q) * sizeof(float);
    const size_t fit = SUMS_BYTES / pixel > 0 ? SUMS_BYTES / pixel : 1; /* pixels */
    const size_t others = a->groups * a->batch * a->stride[0], wanted = threads > 1 ? 4 * threads : 1;
    const size_t shares = others < wanted ? (wanted + others - 1) / others : 1;
    const size_t rows = a->in[1] > 0 && fit / a->in[1] > 0 ? fit / a->in[1] : 1, even = (phase + shares - 1) / shares;
    q->block = rows < even ? rows : even;
    q->block = q->block > 0 ? q->block : 1;
    q->units = (phase + q->block - 1) / q->block;
    const size_t both = (a->kernel[1] - 1) * a->dilation[1] / a->stride[1] + 2; /* pixels that two pieces meet */
    size_t pixels = q->block * a->in[1];
    q->piece = a->out[1];
    if (q->block == 1 && (pixels > fit || q->units < shares)) {
        const size_t cuts = q->units < shares ? (shares + q->units - 1) / q->units : 1;
        const size_t share = (a->out[1] + cuts - 1) / cuts, most = (fit > 2 * both ? fit - both : both) * a->stride[1];
        q->piece = share < most ? share : most;
        q->piece = q->piece > both * a->stride[1] ? q->piece : both * a->stride[1];
        q->piece = q->piece < a->out[1] ? q->piece : a->out[1];
        pixels = q->piece / a->stride[1] + both;
    }
    q->pieces = q->piece > 0 ? (a->out[1] + q->piece - 1) / q->piece : 1;
    pixels = (q->pieces == 1 ? q->block * a->in[1] : pixels) + small_product_rows(&q->product);
    q->sums_floats = (pixels * columns_of(q) + 31) / 16 * 16;
    q->pixels_words = (pixels * small_product_words(&q->product, q->weights.in) + 31) / 16 * 16;
}

enum pen_status deconv_rows_build(struct build *b, const struct deconv_place *place)
{
    const struct shape *w = &build_in(b, 1)->shape;
    struct rows *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const struct dense_weights *first = b->packed;
    *q = (struct rows){.at = *place,
                       .product = small_product_of(first->form),
                       .act = act_read(b->n),
                       .weights = weights_of(w, place->groups),
                       .packed = b->packed};
    blocks_choose(q, build_threads(b));
    b->rows_in = 1;
    b->rows_out = true;
    b->step->scratch_bytes = build_threads(b) * (q->sums_floats + q->pixels_words) * sizeof(float);
    b->step->state = q;
    b->step->run = rows_run;
    b->step->kernel = q->product.tiles            ? "own gemm of rows, bf16 in AMX tiles"
                      : first->form == GEMM_PAIRS ? "own gemm of rows, bf16 by its instruction"
                      : first->form == GEMM_BF16  ? "own gemm of rows, weights of bf16"
                                                  : "own gemm of rows";
    b->step->why = "its windows overlap: sums of all positions of the kernel meet in the results";
    return PEN_OK;
}
