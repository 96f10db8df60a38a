#include "backend/xnnpack/deconv_rows.h"

#include <stdlib.h>
#include <string.h>

#include "backend/xnnpack/dense.h"
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
    size_t in, out;                   /* channels of one group */
    size_t block, units;              /* rows of results of one phase that a unit makes; units of one phase */
    size_t sums_floats, pixels_words; /* scratch of one thread */
    const uint8_t *packed; /* [groups][kernel rows] of dense_weights; the bias of each group is that of its first row */
};

static size_t columns_of(const struct rows *q)
{
    return q->at.kernel[1] * q->out;
}

static const struct dense_weights *weights_at(const struct rows *q, size_t group, size_t row)
{
    const size_t one = dense_form_bytes(q->product.form, q->in, columns_of(q));
    return (const void *)(q->packed + (group * q->at.kernel[0] + row) * one);
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

/* ---- packing ---- */

/* The weights of one row of the kernel, [in][kernel column][out], from w [in][out][pixels], and the bias of each column. */
static void row_turn(const struct dense_matrix *to, const float *w, size_t out, size_t pixels, size_t first,
                     const float *bias)
{
    float *turned = (float *)(uintptr_t)to->w, *each = (float *)(uintptr_t)to->bias;
    for (size_t c = 0; c < to->k; c++) {
        for (size_t j = 0; j < to->n; j++) {
            turned[c * to->n + j] = w[(c * out + j % out) * pixels + first + j / out];
        }
    }
    for (size_t j = 0; j < to->n; j++) {
        each[j] = bias != NULL ? bias[j % out] : 0.0f;
    }
}

enum pen_status deconv_rows_pack(const struct graph *g, const struct node *n, enum gemm_form form, void **ret_packed,
                                 size_t *ret_bytes, struct pen_error *reterr)
{
    const struct value *w = node_in(g, n, 1), *bias = node_in(g, n, 2);
    const size_t groups = (size_t)node_int(n, ATTR_group, 1), in = (size_t)w->shape.dim[0] / groups;
    const size_t out = (size_t)w->shape.dim[1], width = (size_t)w->shape.dim[w->shape.rank - 1];
    const size_t height = w->shape.rank == 4 ? (size_t)w->shape.dim[2] : 1, columns = width * out;
    const size_t one = dense_form_bytes(form, in, columns), bytes = groups * height * one;
    uint8_t *packed = packed_alloc(bytes);
    float *turned = malloc((in + 1) * columns * sizeof *turned + 64);
    enum pen_status status = packed != NULL && turned != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
    const struct dense_matrix matrix = {.w = turned,
                                        .bias = turned != NULL ? turned + in * columns : NULL,
                                        .k_stride = columns,
                                        .n_stride = 1,
                                        .k = in,
                                        .n = columns,
                                        .alpha = 1.0f};
    for (size_t i = 0; i < groups * height && status == PEN_OK; i++) {
        const size_t group = i / height;
        row_turn(&matrix, (const float *)w->data + group * in * out * height * width, out, height * width,
                 i % height * width, bias != NULL ? (const float *)bias->data + group * out : NULL);
        status = dense_pack_form((struct dense_weights *)(void *)(packed + i * one), form, &matrix);
    }
    free(turned);
    if (status != PEN_OK) {
        free(packed);
        return pen_error_set(reterr, status, "xnnpack: no memory for the weights of node %s", n->name);
    }
    *ret_packed = packed;
    *ret_bytes = bytes;
    return PEN_OK;
}

/* ---- running ---- */

/* What one unit makes: rows first, first + stride, ... of the results of one picture. */
struct unit {
    const struct rows *q;
    const struct step *s;
    size_t batch, group, first, count;
    float *sums, *pixels; /* [count * in_w][columns]; rows of pixels as a product takes them */
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
    const float *x =
        (const float *)u->s->in[0] + (u->batch * q->at.in[0] + row) * q->at.in[1] * pitch + u->group * q->in;
    if (q->product.form != GEMM_PAIRS && pixels % mr == 0) {
        *ret_stride = pitch;
        return x;
    }
    const size_t words = small_product_words(&q->product, q->in);
    for (size_t i = 0; i < pixels; i++, x += pitch) {
        float *to = u->pixels + i * words;
#ifdef OWN_PAIRS
        if (OWN_KEPT_PAIRS && q->product.form == GEMM_PAIRS) {
            const size_t pairs = (q->in + 1) / 2;
            own_pairs_make(x, (uint32_t *)(void *)to, q->in);
            memset(to + pairs, 0, (words - pairs) * sizeof *to);
            continue;
        }
#endif
        memcpy(to, x, q->in * sizeof *to);
    }
    *ret_stride = words;
    return u->pixels;
}

/* All products of the unit. */
static void sums_make(const struct unit *u)
{
    const struct rows *q = u->q;
    const size_t width = q->at.in[1], columns = columns_of(q);
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
                              .k = small_product_words(&q->product, q->in),
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
    for (size_t x = 0; x < a->out[1]; x++) {
        size_t count = 0;
        taps[count++] = dense_bias(weights_at(q, u->group, 0));
        for (size_t k = 0; k < a->kernel[1]; k++) {
            const size_t away = x + a->begin[1] - k * a->dilation[1]; /* left of the picture: wraps */
            const size_t pixel = away / a->stride[1];
            if (away <= x + a->begin[1] && away % a->stride[1] == 0 && pixel < a->in[1]) {
                taps[count++] = sums + pixel * columns + k * q->out;
            }
        }
        isa_own()->pool_sum(taps, count, y + x * pitch, q->out, 1.0f);
        if (pitch != q->out) {
            act_piece(&q->act, y + x * pitch, q->out);
        }
    }
    if (pitch == q->out) {
        act_piece(&q->act, y, a->out[1] * pitch);
    }
}

static void unit_run(const struct rows *q, const struct step *s, size_t index)
{
    const struct deconv_place *a = &q->at;
    const size_t stride = a->stride[0], phase = index / q->units % stride, block = index % q->units * q->block;
    struct unit u = {.q = q,
                     .s = s,
                     .batch = index / q->units / stride % a->batch,
                     .group = index / q->units / stride / a->batch,
                     .first = phase + block * stride};
    u.count = u.first < a->out[0] ? (a->out[0] - u.first + stride - 1) / stride : 0;
    u.count = u.count < q->block ? u.count : q->block;
    u.sums = (float *)s->scratch + team_self() * (q->sums_floats + q->pixels_words);
    u.pixels = u.sums + q->sums_floats;
    if (u.count == 0) {
        return;
    }
    sums_make(&u);
    for (size_t i = 0; i < u.count; i++) {
        const size_t row = u.batch * a->out[0] + u.first + i * stride;
        row_make(&u, u.sums + i * a->in[1] * columns_of(q),
                 (float *)s->out[0] + row * a->out[1] * s->out_row + u.group * q->out);
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
    parallel(r, task, s, q->at.groups * q->at.batch * q->at.stride[0] * q->units);
    return PEN_OK;
}

/* Rows of results of a unit: as many as keep its sums in the cache, and units enough for all threads. */
static void blocks_choose(struct rows *q, size_t threads)
{
    const struct deconv_place *a = &q->at;
    const size_t phase = (a->out[0] + a->stride[0] - 1) / a->stride[0];
    const size_t row = a->in[1] * columns_of(q) * sizeof(float);
    const size_t fit = row > 0 && SUMS_BYTES / row > 0 ? SUMS_BYTES / row : 1;
    const size_t others = a->groups * a->batch * a->stride[0];
    const size_t wanted = others >= 4 * threads ? 1 : 4 * threads / others;
    const size_t even = (phase + wanted - 1) / wanted;
    q->block = threads > 1 && even < fit ? even : fit;
    q->block = q->block > phase ? phase : q->block;
    q->block = q->block > 0 ? q->block : 1;
    q->units = (phase + q->block - 1) / q->block;
    const size_t mr = small_product_rows(&q->product), pixels = q->block * a->in[1] + mr;
    q->sums_floats = (pixels * columns_of(q) + 31) / 16 * 16;
    q->pixels_words = (pixels * small_product_words(&q->product, q->in) + 31) / 16 * 16;
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
                       .in = (size_t)w->dim[0] / place->groups,
                       .out = (size_t)w->dim[1],
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
