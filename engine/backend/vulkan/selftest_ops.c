#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/selftest.h"
#include "backend/vulkan/single.h"
#include "backend/vulkan/verdicts.h"
#include "backend/window.h"
#include "graph/kept.h"

/* Windows by each family, Winograd's method, depthwise filters, pools and products with codes of few bits, against plain C. */

/* x and y of one node, and what y should be. */
struct trial {
    struct vk_single single;
    float *x, *y;
    double *right;
    size_t x_count, y_count;
};

static void trial_fini(struct trial *t)
{
    vk_single_fini(&t->single);
    free(t->x);
    free(t->y);
    free(t->right);
}

static enum pen_status trial_init(struct trial *t, size_t x_count, size_t y_count, struct pen_error *reterr)
{
    *t = (struct trial){.x = malloc(x_count * sizeof *t->x),
                        .y = malloc(y_count * sizeof *t->y),
                        .right = calloc(y_count, sizeof *t->right),
                        .x_count = x_count,
                        .y_count = y_count};
    if (t->x == NULL || t->y == NULL || t->right == NULL) {
        trial_fini(t);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a self-test");
    }
    vk_single_fill(t->x, x_count, 7);
    memset(t->y, 0xFF, y_count * sizeof *t->y); /* NaN: what is not written is seen */
    return PEN_OK;
}

/* Runs it; *worst grows to its error. */
static enum pen_status trial_run(struct backend *b, struct trial *t, const char *name, double *worst,
                                 struct pen_error *reterr)
{
    const void *in[] = {t->x};
    bool ran = false;
    enum pen_status status = vk_selftest_run(b, &t->single, name, in, t->y, t->y_count * sizeof *t->y, &ran, reterr);
    *worst = status == PEN_OK && !ran ? INFINITY : *worst;
    for (size_t i = 0; ran && i < t->y_count; i++) {
        double d = fabs((double)t->y[i] - t->right[i]);
        *worst = d > *worst || isnan(d) ? d : *worst;
    }
    return status;
}

/* True: right. */
static bool noted(struct backend *b, const char *name, double worst)
{
    char wrong[80];
    const bool right = worst <= vk_selftest_bound(b);
    vk_selftest_text(worst, vk_selftest_bound(b), wrong, sizeof wrong);
    vk_selftest_note(b, name, right ? NULL : wrong);
    return right;
}

/* ---- windows ---- */

struct sample {
    size_t batch, channels, in[2], kernel[2], stride[2], dilation[2], begin[2], groups, outs;
};
/* Strides, dilations, padding, groups, tails on every side; a depth that is cut in pieces; rows enough for each tile. */
static const struct sample windows[] = {
    {2, 8, {9, 7}, {3, 3}, {2, 1}, {1, 2}, {1, 2}, 1, 20},    {1, 32, {6, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 37},
    {1, 12, {5, 30}, {1, 5}, {1, 2}, {1, 1}, {0, 2}, 3, 18},  {3, 5, {8, 8}, {2, 2}, {2, 2}, {1, 1}, {0, 0}, 1, 9},
    {1, 16, {25, 24}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 40},
};
static const struct sample squares[] = {/* what Winograd's method does */
                                        {2, 8, {9, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 20},
                                        {1, 19, {6, 12}, {3, 3}, {1, 1}, {1, 1}, {0, 1}, 1, 9}};
static const struct sample channels[] = {{2, 7, {9, 7}, {3, 3}, {2, 1}, {1, 2}, {1, 2}, 7, 7},
                                         {1, 16, {6, 11}, {5, 3}, {1, 1}, {1, 1}, {2, 1}, 16, 16}};

static struct window window_of(const struct sample *s)
{
    struct window w = {.batch = s->batch, .channels = s->channels};
    for (int i = 0; i < 2; i++) {
        w.in[i] = s->in[i];
        w.kernel[i] = s->kernel[i];
        w.stride[i] = s->stride[i];
        w.dilation[i] = s->dilation[i];
        w.begin[i] = w.end[i] = s->begin[i];
        w.out[i] = (s->in[i] + 2 * s->begin[i] - s->dilation[i] * (s->kernel[i] - 1) - 1) / s->stride[i] + 1;
    }
    return w;
}

/* Pixel `at` of the output, tap `tap`: where it lies in x, in pixels; false in the padding. */
static bool tap_find(const struct window *w, size_t at, size_t tap, size_t *ret_pixel)
{
    const size_t row = at / w->out[1] % w->out[0], column = at % w->out[1], image = at / (w->out[0] * w->out[1]);
    const size_t y = row * w->stride[0] + tap / w->kernel[1] * w->dilation[0],
                 x = column * w->stride[1] + tap % w->kernel[1] * w->dilation[1];
    *ret_pixel = (image * w->in[0] + y - w->begin[0]) * w->in[1] + x - w->begin[1];
    return y >= w->begin[0] && x >= w->begin[1] && y - w->begin[0] < w->in[0] && x - w->begin[1] < w->in[1];
}

/* weights [output][tap][channel of the group] */
static double conv_right(const struct window *w, const struct sample *s, const float *x, const float *weights,
                         size_t index)
{
    const size_t at = index / s->outs, o = index % s->outs, in = s->channels / s->groups,
                 group = o / (s->outs / s->groups), taps = s->kernel[0] * s->kernel[1];
    double sum = 0.0;
    for (size_t tap = 0; tap < taps; tap++) {
        size_t pixel = 0;
        const bool there = tap_find(w, at, tap, &pixel);
        for (size_t c = 0; there && c < in; c++) {
            sum += (double)x[pixel * s->channels + group * in + c] * (double)weights[(o * taps + tap) * in + c];
        }
    }
    return sum;
}

/* As the kernels multiply them in precision bf16; channels alone and Winograd's method round nothing. */
static void operands_round(const struct backend *b, const struct sample *s, struct trial *t, float *weights,
                           size_t count)
{
    if (b->device->bf16 && b->kernels.conv != VK_CONV_WINOGRAD && s->groups < s->channels) {
        vk_single_round(weights, count);
        vk_single_round(t->x, b->kernels.only == VK_FAMILY_CM ? t->x_count : 0);
    }
}

static enum pen_status conv_try(struct backend *b, const struct sample *s, const char *name, double *worst,
                                struct pen_error *reterr)
{
    const struct window w = window_of(s);
    const size_t count = s->outs * s->kernel[0] * s->kernel[1] * (s->channels / s->groups);
    float *weights = malloc(count * sizeof *weights);
    struct trial t;
    enum pen_status status =
        trial_init(&t, w.batch * w.in[0] * w.in[1] * w.channels, w.batch * w.out[0] * w.out[1] * s->outs, reterr);
    if (status != PEN_OK || weights == NULL) {
        free(weights);
        return status != PEN_OK ? status : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a self-test");
    }
    vk_single_fill(weights, count, 11); /* what the graph's constant has, too */
    operands_round(b, s, &t, weights, count);
    for (size_t i = 0; i < t.y_count; i++) {
        t.right[i] = conv_right(&w, s, t.x, weights, i);
    }
    vk_single_fill(t.x, t.x_count, 7);
    status = vk_single_conv(b, &w, s->groups, s->outs, &t.single, reterr);
    if (status == PEN_OK) {
        status = trial_run(b, &t, name, worst, reterr);
    }
    trial_fini(&t);
    free(weights);
    return status;
}

static struct vk_product_shape shape_of_sample(const struct sample *s)
{
    const struct window w = window_of(s);
    return (struct vk_product_shape){VK_PRODUCT_WINDOW, w.batch * w.out[0] * w.out[1], s->outs / s->groups,
                                     s->kernel[0] * s->kernel[1] * s->channels / s->groups, s->groups};
}

static enum pen_status windows_test(struct backend *b, enum vk_family family, struct pen_error *reterr)
{
    const struct vk_kernels kept = b->kernels;
    char name[24];
    double worst = 0.0;
    bool tried = false;
    enum pen_status status = PEN_OK;
    snprintf(name, sizeof name, "window_%s", vk_family_name(family));
    for (size_t i = 0; status == PEN_OK && i < sizeof windows / sizeof windows[0]; i++) {
        const struct vk_product_shape shape = shape_of_sample(&windows[i]);
        if (vk_family_fits(&kept, family, &shape)) {
            b->kernels.only = family;
            b->kernels.conv = VK_CONV_AUTO;
            b->kernels.device = VK_CLASS_SOFTWARE; /* small products have large tiles, too */
            status = conv_try(b, &windows[i], name, &worst, reterr);
            b->kernels = kept;
            tried = true;
        }
    }
    if (status == PEN_OK && tried && !noted(b, name, worst)) {
        b->kernels.windows_off |= 1u << family;
        b->kernels.ops_off |= family == VK_FAMILY_SIMPLE ? VK_OFF_WINDOWS : 0;
    }
    return status;
}

/* *ret_right is false when the device computes one of the samples wrong. */
static enum pen_status samples_test(struct backend *b, const struct sample *samples, size_t count, const char *name,
                                    bool *ret_right, struct pen_error *reterr)
{
    double worst = 0.0;
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < count; i++) {
        status = conv_try(b, &samples[i], name, &worst, reterr);
    }
    *ret_right = status != PEN_OK || noted(b, name, worst);
    return status;
}

static enum pen_status winograd_test(struct backend *b, struct pen_error *reterr)
{
    const enum vk_conv conv = b->kernels.conv;
    bool right = true;
    b->kernels.conv = VK_CONV_WINOGRAD;
    enum pen_status status = samples_test(b, squares, sizeof squares / sizeof squares[0], "winograd", &right, reterr);
    b->kernels.conv = conv;
    b->kernels.ops_off |= right ? 0 : VK_OFF_WINOGRAD;
    return status;
}

static enum pen_status depthwise_test(struct backend *b, struct pen_error *reterr)
{
    bool right = true;
    enum pen_status status =
        samples_test(b, channels, sizeof channels / sizeof channels[0], "depthwise", &right, reterr);
    b->kernels.ops_off |= right ? 0 : VK_OFF_DEPTHWISE;
    return status;
}

/* ---- pools ---- */

static const struct sample pools[] = {{2, 7, {9, 7}, {3, 2}, {2, 1}, {1, 1}, {1, 1}, 1, 7},
                                      {1, 8, {6, 11}, {2, 3}, {1, 2}, {1, 1}, {0, 1}, 1, 8}};
static const struct sample *pool; /* while its node is made */

static enum pen_status pool_attrs(struct graph *g, uint32_t node)
{
    const int64_t kernel[] = {(int64_t)pool->kernel[0], (int64_t)pool->kernel[1]},
                  strides[] = {(int64_t)pool->stride[0], (int64_t)pool->stride[1]},
                  pads[] = {(int64_t)pool->begin[0], (int64_t)pool->begin[1], (int64_t)pool->begin[0],
                            (int64_t)pool->begin[1]};
    bool ok = graph_attr_int(g, node, ATTR_layout, LAYOUT_NHWC) == PEN_OK &&
              graph_attr_ints(g, node, ATTR_kernel_shape, kernel, 2) == PEN_OK &&
              graph_attr_ints(g, node, ATTR_strides, strides, 2) == PEN_OK &&
              graph_attr_ints(g, node, ATTR_pads, pads, 4) == PEN_OK;
    return ok ? PEN_OK : PEN_ERR_NO_MEMORY;
}

/* The largest of the window, or the mean of what is no padding. */
static double pool_right(const struct window *w, bool largest, const float *x, size_t index)
{
    const size_t at = index / w->channels, c = index % w->channels;
    double most = -HUGE_VAL, sum = 0.0;
    size_t count = 0;
    for (size_t tap = 0; tap < w->kernel[0] * w->kernel[1]; tap++) {
        size_t pixel = 0;
        if (tap_find(w, at, tap, &pixel)) {
            most = fmax(most, (double)x[pixel * w->channels + c]);
            sum += (double)x[pixel * w->channels + c];
            count++;
        }
    }
    return largest ? most : sum / (double)count;
}

static enum pen_status pool_try(struct backend *b, enum op op, const struct sample *s, double *worst,
                                struct pen_error *reterr)
{
    const struct window w = window_of(s);
    const struct vk_single_value in = {PEN_DTYPE_F32,
                                       shape_of(4, (int64_t[]){(int64_t)w.batch, (int64_t)w.in[0], (int64_t)w.in[1],
                                                               (int64_t)w.channels}),
                                       NULL},
                                 out = {PEN_DTYPE_F32,
                                        shape_of(4, (int64_t[]){(int64_t)w.batch, (int64_t)w.out[0], (int64_t)w.out[1],
                                                                (int64_t)w.channels}),
                                        NULL};
    struct trial t;
    enum pen_status status =
        trial_init(&t, w.batch * w.in[0] * w.in[1] * w.channels, w.batch * w.out[0] * w.out[1] * w.channels, reterr);
    if (status != PEN_OK) {
        return status;
    }
    for (size_t i = 0; i < t.y_count; i++) {
        t.right[i] = pool_right(&w, op == OP_MaxPool, t.x, i);
    }
    pool = s;
    status = vk_single_node(b, op, &in, 1, &out, pool_attrs, &t.single, reterr);
    if (status == PEN_OK) {
        status = trial_run(b, &t, "pools", worst, reterr);
    }
    trial_fini(&t);
    return status;
}

static enum pen_status pools_test(struct backend *b, struct pen_error *reterr)
{
    double worst = 0.0;
    enum pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < 2 * (sizeof pools / sizeof pools[0]); i++) {
        const bool kept = i % 2 == 0 ? KEPT(vulkan_MaxPool) : KEPT(vulkan_AveragePool);
        status = kept ? pool_try(b, i % 2 == 0 ? OP_MaxPool : OP_AveragePool, &pools[i / 2], &worst, reterr) : PEN_OK;
    }
    if (status == PEN_OK && !noted(b, "pools", worst)) {
        b->kernels.ops_off |= VK_OFF_POOLS;
    }
    return status;
}

/* ---- codes of few bits ---- */

#define DEPTH  80 /* the last block is half full */
#define OUTS   37
#define BLOCK  32
#define BLOCKS 3

static enum pen_status codes_attrs(struct graph *g, uint32_t node, int64_t bits)
{
    bool ok = graph_attr_int(g, node, ATTR_K, DEPTH) == PEN_OK && graph_attr_int(g, node, ATTR_N, OUTS) == PEN_OK &&
              graph_attr_int(g, node, ATTR_bits, bits) == PEN_OK &&
              graph_attr_int(g, node, ATTR_block_size, BLOCK) == PEN_OK;
    return ok ? PEN_OK : PEN_ERR_NO_MEMORY;
}

static enum pen_status four_attrs(struct graph *g, uint32_t node)
{
    return codes_attrs(g, node, 4);
}

static enum pen_status eight_attrs(struct graph *g, uint32_t node)
{
    return codes_attrs(g, node, 8);
}

/* Without zero points the middle code is 0. */
static double code_value(const uint8_t *codes, const float *scales, size_t bits, size_t o, size_t k)
{
    const size_t at = o * BLOCKS * BLOCK + k;
    const int code = bits == 8 ? codes[at] : codes[at / 2] >> (at % 2 * 4) & 15;
    return (double)(code - (1 << (bits - 1))) * (double)scales[o * BLOCKS + k / BLOCK];
}

static enum pen_status codes_try(struct backend *b, size_t rows, size_t bits, const char *name, double *worst,
                                 struct pen_error *reterr)
{
    uint8_t codes[OUTS * BLOCKS * BLOCK];
    float scales[OUTS * BLOCKS];
    uint32_t seed = 3;
    struct trial t;
    enum pen_status status = trial_init(&t, rows * DEPTH, rows * OUTS, reterr);
    if (status != PEN_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof codes; i++) {
        codes[i] = (uint8_t)(vk_single_next(&seed) * 256.0f);
    }
    for (size_t i = 0; i < OUTS * BLOCKS; i++) {
        scales[i] = (0.2f + vk_single_next(&seed)) * (bits == 8 ? 0.003f : 0.05f);
    }
    for (size_t i = 0; i < rows * OUTS; i++) {
        for (size_t k = 0; k < DEPTH; k++) {
            t.right[i] += (double)t.x[i / OUTS * DEPTH + k] * code_value(codes, scales, bits, i % OUTS, k);
        }
    }
    const struct vk_single_value in[] = {
        {PEN_DTYPE_F32, shape_of(2, (int64_t[]){(int64_t)rows, DEPTH}), NULL},
        {PEN_DTYPE_U8, shape_of(3, (int64_t[]){OUTS, BLOCKS, (int64_t)(BLOCK * bits / 8)}), codes},
        {PEN_DTYPE_F32, shape_of(1, (int64_t[]){OUTS * BLOCKS}), scales}};
    const struct vk_single_value out = {PEN_DTYPE_F32, shape_of(2, (int64_t[]){(int64_t)rows, OUTS}), NULL};
    status = vk_single_node(b, OP_MatMulNBits, in, 3, &out, bits == 8 ? eight_attrs : four_attrs, &t.single, reterr);
    if (status == PEN_OK) {
        status = trial_run(b, &t, name, worst, reterr);
    }
    trial_fini(&t);
    return status;
}

/* By each tile of cooperative matrices that the rules may choose; several of them next to each other. */
static enum pen_status code_tiles_try(struct backend *b, const char *name, double *worst, struct pen_error *reterr)
{
    struct vk_kernels k = b->kernels;
    enum pen_status status = PEN_OK;
    k.weights = VK_WEIGHTS_CODES;
    for (uint32_t i = 0; status == PEN_OK && i < 2 * vk_cm_tiles(); i++) {
        b->kernels.tile = i / 2 + 1;
        status = vk_cm_tile_tried(&k, i / 2) ? codes_try(b, 270, i % 2 == 0 ? 4 : 8, name, worst, reterr) : PEN_OK;
    }
    return status;
}

static enum pen_status codes_test(struct backend *b, enum vk_family family, struct pen_error *reterr)
{
    static const size_t rows[] = {1, 3, 37, 70};
    const size_t count = family == VK_FAMILY_CM ? 0 : sizeof rows / sizeof rows[0];
    const struct vk_kernels kept = b->kernels;
    char name[24];
    double worst = 0.0;
    enum pen_status status = PEN_OK;
    snprintf(name, sizeof name, "nbits_%s", vk_family_name(family));
    b->kernels.only = family;
    b->kernels.codes_off = 0;
    for (size_t i = 0; status == PEN_OK && i < 2 * count; i++) {
        status = codes_try(b, rows[i / 2], i % 2 == 0 ? 4 : 8, name, &worst, reterr);
    }
    if (count == 0) {
        status = code_tiles_try(b, name, &worst, reterr);
    }
    b->kernels = kept;
    if (status == PEN_OK && !noted(b, name, worst)) {
        b->kernels.codes_off |= 1u << family;
        b->kernels.ops_off |= family == VK_FAMILY_SIMPLE ? VK_OFF_CODES : 0;
    }
    return status;
}

/* ---- all ---- */

static enum pen_status convs_test(struct backend *b, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (uint32_t f = VK_FAMILY_SIMPLE; f < VK_FAMILY_COUNT && status == PEN_OK; f++) {
        status = windows_test(b, (enum vk_family)f, reterr);
    }
    if (status == PEN_OK) {
        status = depthwise_test(b, reterr);
    }
    return status == PEN_OK && !b->device->f16 ? winograd_test(b, reterr) : status;
}

enum pen_status vk_selftest_ops(struct backend *b, struct pen_error *reterr)
{
    static const enum vk_family families[] = {VK_FAMILY_SIMPLE, VK_FAMILY_TILED, VK_FAMILY_GEMV, VK_FAMILY_CM};
    enum pen_status status = PEN_OK;
    if (!vk_selftest_all(b)) {
        return PEN_OK;
    }
    if (KEPT(vulkan_Conv)) {
        status = convs_test(b, reterr);
    }
    if (status == PEN_OK && (KEPT(vulkan_MaxPool) || KEPT(vulkan_AveragePool))) {
        status = pools_test(b, reterr);
    }
    for (int i = 0; i < (b->kernels.cm && b->device->f16 ? 4 : 3) && status == PEN_OK && KEPT(vulkan_MatMulNBits);
         i++) {
        status = codes_test(b, families[i], reterr);
    }
    return status;
}
