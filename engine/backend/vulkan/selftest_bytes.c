#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/selftest.h"
#include "backend/vulkan/single.h"
#include "backend/vulkan/verdicts.h"
#include "graph/kept.h"

/* Products of bytes and their rounding: every byte must be the one that plain C gives. */

/* x u8 [rows, depth], w i8 [depth, outs] with a scale and a zero point for each column, y u8. */
struct sizes {
    size_t rows, outs, depth;
};
/* Each number of rows of an invocation; the first is all that a device on the CPU runs. */
static const struct sizes sizes[] = {{37, 45, 101}, {3, 45, 64}, {70, 68, 40}, {515, 20, 33}};
#define SIZES (sizeof sizes / sizeof sizes[0])
/* More than one tile of cooperative matrices each way, and several steps; channels in whole sixteens. */
static const struct sizes large = {150, 140, 208};

#define X_SCALE 0.013f
#define Y_SCALE 0.11f
#define X_ZERO  121
#define Y_ZERO  130

struct trial {
    const struct sizes *s;
    uint8_t *x, *y;
    int8_t *w, *w_zero;
    float *w_scale;
};

static void trial_fini(struct trial *t)
{
    free(t->x);
    free(t->y);
    free(t->w);
    free(t->w_zero);
    free(t->w_scale);
}

static uint8_t next_byte(uint32_t *seed)
{
    return (uint8_t)(vk_single_next(seed) * 256.0f);
}

static bool trial_init(const struct sizes *s, struct trial *t)
{
    uint32_t seed = 5;
    *t = (struct trial){.s = s,
                        .x = malloc(s->rows * s->depth),
                        .y = calloc(s->rows * s->outs, 1),
                        .w = malloc(s->depth * s->outs),
                        .w_zero = malloc(s->outs),
                        .w_scale = malloc(s->outs * sizeof *t->w_scale)};
    if (t->x == NULL || t->y == NULL || t->w == NULL || t->w_zero == NULL || t->w_scale == NULL) {
        return false;
    }
    for (size_t i = 0; i < s->rows * s->depth; i++) {
        t->x[i] = next_byte(&seed);
    }
    for (size_t i = 0; i < s->depth * s->outs; i++) {
        t->w[i] = (int8_t)(next_byte(&seed) - 128);
    }
    for (size_t n = 0; n < s->outs; n++) {
        t->w_zero[n] = (int8_t)(next_byte(&seed) / 8 - 16);
        t->w_scale[n] = 0.001f + 0.02f * vk_single_next(&seed);
    }
    return true;
}

static uint8_t rounded(float scaled, int zero)
{
    float v = nearbyintf(scaled) + (float)zero;
    return (uint8_t)(v < 0.0f ? 0.0f : v > 255.0f ? 255.0f : v);
}

/* How many bytes of y are not what they should be. */
static size_t errors_of(const struct trial *t)
{
    size_t wrong = 0;
    for (size_t i = 0; i < t->s->rows * t->s->outs; i++) {
        size_t m = i / t->s->outs, n = i % t->s->outs;
        int32_t sum = 0;
        for (size_t k = 0; k < t->s->depth; k++) {
            sum += (t->x[m * t->s->depth + k] - X_ZERO) * (t->w[k * t->s->outs + n] - t->w_zero[n]);
        }
        wrong += t->y[i] != rounded((float)sum * (X_SCALE * t->w_scale[n] / Y_SCALE), Y_ZERO);
    }
    return wrong;
}

/* A node of one computed input, x, and constants. */
struct tested {
    enum op op;
    const struct vk_single_value *in;
    uint32_t in_count;
    struct vk_single_value out;
    enum pen_status (*attrs)(struct graph *g, uint32_t node);
    const void *x;
    void *y;
    size_t bytes; /* of y */
};
#define NOT_RUN SIZE_MAX /* in place of a number of wrong bytes */

/* *ret_wrong: NOT_RUN where the driver does not run it. */
static enum pen_status node_run(struct backend *b, const struct tested *n, const char *name, size_t *ret_wrong,
                                struct pen_error *reterr)
{
    struct vk_single single;
    bool ran = false;
    enum pen_status status = vk_single_node(b, n->op, n->in, n->in_count, &n->out, n->attrs, &single, reterr);
    if (status == PEN_OK) {
        status = vk_selftest_run(b, &single, name, &n->x, n->y, n->bytes, &ran, reterr);
        vk_single_fini(&single);
    }
    *ret_wrong = status == PEN_OK && !ran ? NOT_RUN : *ret_wrong;
    return status;
}

static enum pen_status product_run(struct backend *b, const struct trial *t, const char *name, size_t *ret_wrong,
                                   struct pen_error *reterr)
{
    static const float x_scale = X_SCALE, y_scale = Y_SCALE;
    static const uint8_t x_zero = X_ZERO, y_zero = Y_ZERO;
    const int64_t m = (int64_t)t->s->rows, k = (int64_t)t->s->depth, n = (int64_t)t->s->outs;
    const struct shape one = shape_scalar(), columns = shape_of(1, &n);
    const struct vk_single_value in[8] = {{PEN_DTYPE_U8, shape_of(2, (int64_t[]){m, k}), NULL},
                                          {PEN_DTYPE_F32, one, &x_scale},
                                          {PEN_DTYPE_U8, one, &x_zero},
                                          {PEN_DTYPE_I8, shape_of(2, (int64_t[]){k, n}), t->w},
                                          {PEN_DTYPE_F32, columns, t->w_scale},
                                          {PEN_DTYPE_I8, columns, t->w_zero},
                                          {PEN_DTYPE_F32, one, &y_scale},
                                          {PEN_DTYPE_U8, one, &y_zero}};
    const struct tested node = {.op = OP_QLinearMatMul,
                                .in = in,
                                .in_count = 8,
                                .out = {PEN_DTYPE_U8, shape_of(2, (int64_t[]){m, n}), NULL},
                                .x = t->x,
                                .y = t->y,
                                .bytes = t->s->rows * t->s->outs};
    return node_run(b, &node, name, ret_wrong, reterr);
}

/* By the kernels that the backend is set to; *ret_wrong: bytes that are not right. */
static enum pen_status sizes_test(struct backend *b, const struct sizes *s, const char *name, size_t *ret_wrong,
                                  struct pen_error *reterr)
{
    struct trial t;
    enum pen_status status =
        trial_init(s, &t) ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a self-test");
    if (status == PEN_OK) {
        status = product_run(b, &t, name, ret_wrong, reterr);
    }
    if (status == PEN_OK && *ret_wrong != NOT_RUN) {
        *ret_wrong = errors_of(&t);
    }
    trial_fini(&t);
    return status;
}

/* Notes what a test gave. True: right. */
static bool noted(struct backend *b, const char *name, size_t wrong)
{
    char text[80];
    if (wrong == NOT_RUN) {
        snprintf(text, sizeof text, VK_NOT_RUN);
    } else {
        snprintf(text, sizeof text, "%zu bytes are not what they should be", wrong);
    }
    vk_selftest_note(b, name, wrong > 0 ? text : NULL);
    return wrong == 0;
}

/* By each tile of cooperative matrices that the rules may choose; the last with the depth in pieces, of which one may have nothing. */
static enum pen_status tiles_test(struct backend *b, const char *name, size_t *ret_wrong, struct pen_error *reterr)
{
    static const struct {
        const struct sizes *sizes;
        uint32_t splits;
    } tried[] = {{&sizes[0], 1}, {&large, 1}, {&large, 3}};
    const uint32_t count = sizeof tried / sizeof tried[0];
    struct vk_kernels k;
    enum pen_status status = PEN_OK;
    vk_kernels_of_bytes(b, &k);
    for (uint32_t i = 0; i < count * vk_cm_tiles() && status == PEN_OK && *ret_wrong == 0; i++) {
        if (vk_cm_tile_tried(&k, i / count)) {
            b->kernels.tile = i / count + 1;
            b->kernels.splits = tried[i % count].splits;
            status = sizes_test(b, tried[i % count].sizes, name, ret_wrong, reterr);
        }
    }
    return status;
}

static enum pen_status family_test(struct backend *b, enum vk_family family, bool dot, bool all,
                                   struct pen_error *reterr)
{
    const size_t by_rule = !all ? 1 : family == VK_FAMILY_CM ? 0 : SIZES;
    const struct vk_kernels kept = b->kernels;
    const uint32_t bit = vk_bytes_bit(family, dot);
    char name[24];
    size_t wrong = 0;
    enum pen_status status = PEN_OK;
    snprintf(name, sizeof name, "bytes_%s%s", vk_family_name(family), dot ? "_dot" : "");
    b->kernels.only = family;
    b->kernels.bytes_off = ~bit; /* no other one steps in */
    for (size_t i = 0; i < by_rule && status == PEN_OK && wrong == 0; i++) {
        status = sizes_test(b, &sizes[i], name, &wrong, reterr);
    }
    if (by_rule == 0) {
        status = tiles_test(b, name, &wrong, reterr);
    }
    b->kernels = kept;
    if (status == PEN_OK && !noted(b, name, wrong)) {
        b->kernels.bytes_off |= bit;
    }
    return status;
}

/* ---- depthwise, and rounding of floats ---- */

#define CHANNELS 7
#define SIDE     5

static enum pen_status depthwise_attrs(struct graph *g, uint32_t node)
{
    bool ok = graph_attr_int(g, node, ATTR_layout, LAYOUT_NHWC) == PEN_OK &&
              graph_attr_int(g, node, ATTR_group, CHANNELS) == PEN_OK &&
              graph_attr_ints(g, node, ATTR_pads, (int64_t[]){1, 1, 1, 1}, 4) == PEN_OK;
    return ok ? PEN_OK : PEN_ERR_NO_MEMORY;
}

/* The window of 3 x 3 around (row, column) of channel c, zero points taken off. */
static int32_t window_sum(const uint8_t *x, const int8_t *w, int row, int column, int c)
{
    int32_t sum = 0;
    for (int t = 0; t < 9; t++) {
        int r = row + t / 3 - 1, q = column + t % 3 - 1;
        if (r >= 0 && q >= 0 && r < SIDE && q < SIDE) {
            sum += (x[(r * SIDE + q) * CHANNELS + c] - X_ZERO) * (w[c * 9 + t] - 3);
        }
    }
    return sum;
}

static enum pen_status depthwise_test(struct backend *b, struct pen_error *reterr)
{
    static const float x_scale = X_SCALE, y_scale = Y_SCALE, w_scale = 0.07f;
    static const uint8_t x_zero = X_ZERO, y_zero = Y_ZERO;
    static const int8_t w_zero = 3;
    uint8_t x[SIDE * SIDE * CHANNELS], y[SIDE * SIDE * CHANNELS] = {0};
    int8_t w[CHANNELS * 9];
    uint32_t seed = 9;
    size_t wrong = 0;
    for (size_t i = 0; i < sizeof x; i++) {
        x[i] = next_byte(&seed);
    }
    for (size_t i = 0; i < sizeof w; i++) {
        w[i] = (int8_t)(next_byte(&seed) - 128);
    }
    const struct shape one = shape_scalar(), image = shape_of(4, (int64_t[]){1, SIDE, SIDE, CHANNELS});
    const struct vk_single_value in[8] = {
        {PEN_DTYPE_U8, image, NULL},    {PEN_DTYPE_F32, one, &x_scale},
        {PEN_DTYPE_U8, one, &x_zero},   {PEN_DTYPE_I8, shape_of(4, (int64_t[]){CHANNELS, 1, 3, 3}), w},
        {PEN_DTYPE_F32, one, &w_scale}, {PEN_DTYPE_I8, one, &w_zero},
        {PEN_DTYPE_F32, one, &y_scale}, {PEN_DTYPE_U8, one, &y_zero}};
    const struct tested node = {OP_QLinearConv, in, 8, {PEN_DTYPE_U8, image, NULL}, depthwise_attrs, x, y, sizeof y};
    enum pen_status status = node_run(b, &node, "bytes_depthwise", &wrong, reterr);
    for (int i = 0; wrong != NOT_RUN && i < SIDE * SIDE * CHANNELS; i++) {
        int pixel = i / CHANNELS;
        float sum = (float)window_sum(x, w, pixel / SIDE, pixel % SIDE, i % CHANNELS);
        wrong += y[i] != rounded(sum * (X_SCALE * w_scale / Y_SCALE), Y_ZERO);
    }
    if (status == PEN_OK && !noted(b, "bytes_depthwise", wrong)) {
        b->bytes_wrong = true;
    }
    return status;
}

#define FLOATS 512

/* Quotients that are ties, and next to ties. */
static enum pen_status rounding_test(struct backend *b, struct pen_error *reterr)
{
    static const float scale = 0.0173f;
    static const uint8_t zero = Y_ZERO;
    const int64_t count = FLOATS;
    float x[FLOATS];
    uint8_t y[FLOATS] = {0};
    size_t wrong = 0;
    for (int i = 0; i < FLOATS; i++) {
        x[i] = ((float)(i % 256) * 0.5f - 64.0f) * scale * (i < 256 ? 1.0f : 1.0f + 0x1p-23f);
    }
    if (b->device->f16) {
        return PEN_OK; /* x itself is rounded there; the same shader is tried where floats are f32 */
    }
    const struct shape one = shape_scalar(), all = shape_of(1, &count);
    const struct vk_single_value in[3] = {
        {PEN_DTYPE_F32, all, NULL}, {PEN_DTYPE_F32, one, &scale}, {PEN_DTYPE_U8, one, &zero}};
    const struct tested node = {OP_QuantizeLinear, in, 3, {PEN_DTYPE_U8, all, NULL}, NULL, x, y, sizeof y};
    enum pen_status status = node_run(b, &node, "bytes_rounding", &wrong, reterr);
    for (int i = 0; wrong != NOT_RUN && i < FLOATS; i++) {
        wrong += y[i] != rounded(x[i] / scale, Y_ZERO);
    }
    if (status == PEN_OK && !noted(b, "bytes_rounding", wrong)) {
        b->bytes_wrong = true;
    }
    return status;
}

/* Those that multiply four bytes at once, then the plain ones: where not all are tried, only if the former are wrong. Matrices have one form. */
static enum pen_status forms_test(struct backend *b, enum vk_family family, bool all, struct pen_error *reterr)
{
    bool right = false;
    enum pen_status status = PEN_OK;
    for (int dot = b->device->dot8 && family != VK_FAMILY_CM; dot >= 0 && status == PEN_OK && (all || !right); dot--) {
        status = family_test(b, family, dot != 0, all, reterr);
        right = (b->kernels.bytes_off & vk_bytes_bit(family, dot != 0)) == 0;
    }
    return status;
}

/* On a device on the CPU the family that its rules choose, else every one. */
static enum pen_status products_test(struct backend *b, bool all, struct pen_error *reterr)
{
    static const enum vk_family families[] = {VK_FAMILY_SIMPLE, VK_FAMILY_TILED, VK_FAMILY_GEMV, VK_FAMILY_CM};
    enum pen_status status = PEN_OK;
    for (int i = 0; i < (b->kernels.cm_bytes ? 4 : 3) && status == PEN_OK; i++) {
        if (all || families[i] == VK_FAMILY_SIMPLE || families[i] == b->kernels.only) {
            status = forms_test(b, families[i], all, reterr);
        }
    }
    const uint32_t simple =
        vk_bytes_bit(VK_FAMILY_SIMPLE, false) | (b->device->dot8 ? vk_bytes_bit(VK_FAMILY_SIMPLE, true) : 0);
    b->bytes_wrong = b->bytes_wrong || (b->kernels.bytes_off & simple) == simple;
    return status;
}

enum pen_status vk_selftest_bytes(struct backend *b, struct pen_error *reterr)
{
    const bool all = vk_selftest_all(b);
    enum pen_status status = PEN_OK;
    if (KEPT(vulkan_QLinearMatMul)) {
        status = products_test(b, all, reterr);
    }
    if (status == PEN_OK && KEPT(vulkan_QLinearConv) && all) {
        status = depthwise_test(b, reterr);
    }
    if (status == PEN_OK && KEPT(vulkan_QuantizeLinear) && all) {
        status = rounding_test(b, reterr);
    }
    if (status == PEN_OK && b->bytes_wrong && b->config.precision == PEN_PRECISION_INT8) {
        status = vk_selftest_refuse(b, "bytes", "not that of plain C", reterr);
    }
    return status;
}
