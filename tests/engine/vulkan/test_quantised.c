#include <criterion/criterion.h>
#include <math.h>

#include "backend/vulkan/plan.h"
#include "device.h"
#include "quantised.h"

/* ---- products ---- */

struct conv {
    int64_t in, out, groups, kernel, stride, dilation;
    enum pen_dtype x, w, y;
    bool per_channel, w_zeros, bias;
    int64_t h, w_; /* of the image; 0 = 11 x 9 */
};

static void conv(const struct conv *v)
{
    struct cross *c = cross_new(OP_QLinearConv);
    int64_t scales = v->per_channel ? v->out : 1;
    cross_input(c, v->x, 4, (int64_t[]){2, v->h > 0 ? v->h : 11, v->w_ > 0 ? v->w_ : 9, v->in}, false);
    scale(c, 1, 0.01f, 0.02f);
    zero(c, v->x, 1);
    cross_input(c, v->w, 4, (int64_t[]){v->out, v->in / v->groups, v->kernel, v->kernel}, true);
    scale(c, scales, 0.001f, 0.02f);
    if (v->w_zeros) {
        zero(c, v->w, scales);
    } else {
        cross_data(c, v->w, 0, NULL, "", true);
    }
    scale(c, 1, 0.02f, 0.2f);
    zero(c, v->y, 1);
    if (v->bias) {
        cross_input(c, I32, 1, (int64_t[]){v->out}, true);
    }
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_int(c, ATTR_group, v->groups);
    cross_ints(c, ATTR_strides, 2, (int64_t[]){v->stride, v->stride});
    cross_ints(c, ATTR_dilations, 2, (int64_t[]){v->dilation, v->dilation});
    cross_ints(c, ATTR_pads, 4, (int64_t[]){v->kernel / 2, 0, v->kernel / 2, v->kernel / 2});
    cross_check(c);
}

/* What any kernel may meet. */
static void conv_rows(void)
{
    const struct conv rows[] = {
        {12, 18, 3, 3, 1, 1, U8, I8, I8, true, false, true, 0, 0},
        {64, 33, 1, 3, 1, 2, I8, U8, I8, true, true, true, 0, 0},
        {64, 68, 1, 1, 1, 1, I8, I8, I8, true, false, true, 16, 18},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        conv(&rows[i]);
    }
}

static void conv_more_rows(void)
{
    const struct conv rows[] = {
        {3, 24, 1, 3, 2, 1, U8, U8, U8, false, true, true, 0, 0},
        {58, 58, 1, 1, 1, 1, U8, I8, U8, false, false, true, 0, 0},
        {16, 70, 1, 1, 1, 1, I8, I8, I8, true, false, false, 13, 17},
        {58, 58, 58, 3, 1, 1, U8, U8, U8, false, true, true, 0, 0},
        {300, 300, 300, 3, 2, 1, I8, I8, I8, true, true, true, 0, 0},
        {12, 24, 12, 3, 1, 1, U8, I8, U8, true, false, true, 0, 0},
        {144, 144, 144, 5, 2, 1, U8, U8, U8, false, true, true, 0, 0},
        {24, 24, 24, 3, 2, 2, I8, I8, I8, true, false, false, 0, 0},
        {70, 3, 1, 5, 1, 1, I8, U8, U8, true, true, true, 5, 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        conv(&rows[i]);
    }
}

/* Every family, by plain kernels and by those that multiply four bytes at once. */
static void families(void (*rows)(void))
{
    static const char *const names[] = {"simple", "tiled", "gemv"};
    for (size_t i = 0; i < 2 * sizeof names / sizeof names[0]; i++) {
        struct backend *b = device_open(PEN_PRECISION_F32, names[i / 2]);
        bool dot = i % 2 != 0, there = vk_backend_bytes_dot(b, dot);
        cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
        if (there == dot) {
            rows();
            cr_expect_gt(vk_backend_bytes_products(b, dot), 0);
            cr_expect_eq(vk_backend_bytes_products(b, !dot), 0);
        }
        device_close(b);
    }
}

Test(vulkan_quantised, convolutions, .timeout = 300)
{
    families(conv_rows);
    device_f32(conv_more_rows);
}

/* Biases of channels that nothing reads may be as large as 32 bits go: the sum is one of 33. */
static void bias_rows(void)
{
    for (int i = 0; i < 2; i++) {
        const int32_t bias[4] = {INT32_MAX, INT32_MIN, INT32_MAX - 3, 5};
        struct cross *c = cross_new(OP_QLinearConv);
        cross_input(c, U8, 4, (int64_t[]){1, 3, 3, 40}, false);
        number(c, 0.5f);
        cross_data(c, U8, 0, NULL, i == 0 ? "" : "\xff", true);
        cross_input(c, I8, 4, (int64_t[]){4, 40, 1, 1}, true);
        number(c, 2.5e-8f);
        zero(c, I8, 1);
        number(c, 0.25f);
        zero(c, I8, 1);
        cross_data(c, I32, 1, (int64_t[]){4}, bias, true);
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_check(c);
    }
}

Test(vulkan_quantised, large_biases)
{
    device_f32(bias_rows);
}

/* Where floats are stored as f16 bytes are the same. */
static void conv_once(void)
{
    conv(&(struct conv){12, 18, 3, 3, 1, 1, U8, I8, I8, true, false, true, 0, 0});
    conv(&(struct conv){24, 24, 24, 3, 2, 2, I8, I8, I8, true, true, true, 0, 0});
}

Test(vulkan_quantised, beside_halves, .timeout = 300)
{
    device_each(conv_once);
}

static void matmul(enum op op, int64_t m, int64_t k, int64_t n, enum pen_dtype a, enum pen_dtype b, bool per_column)
{
    struct cross *c = cross_new(op);
    bool gemm = op == OP_QGemm;
    cross_input(c, a, gemm ? 2 : 3, gemm ? (int64_t[]){m, k} : (int64_t[]){2, m, k}, false);
    scale(c, 1, 0.01f, 0.02f);
    zero(c, a, 1);
    cross_input(c, b, 2, (int64_t[]){k, n}, true);
    scale(c, per_column ? n : 1, 0.001f, 0.02f);
    zero(c, b, per_column ? n : 1);
    if (gemm) {
        cross_input(c, I32, 1, (int64_t[]){n}, true);
    }
    scale(c, 1, 0.02f, 0.4f);
    zero(c, a, 1);
    cross_check(c);
}

/* Scales that make ties between two results. */
static void ties(float w_scale, float y_scale)
{
    struct cross *c = cross_new(OP_QGemm);
    cross_input(c, I8, 2, (int64_t[]){40, 9}, false);
    number(c, 0.5f);
    zero(c, I8, 1);
    cross_input(c, I8, 2, (int64_t[]){9, 30}, true);
    number(c, w_scale);
    zero(c, I8, 30);
    cross_input(c, I32, 1, (int64_t[]){30}, true);
    number(c, y_scale);
    zero(c, I8, 1);
    cross_check(c);
}

static void matmul_rows(void)
{
    for (int i = 0; i < 4; i++) {
        matmul(i & 1 ? OP_QGemm : OP_QLinearMatMul, cross_pick(1, 70), cross_pick(1, 300), cross_pick(2, 90),
               i & 2 ? U8 : I8, i & 2 ? U8 : I8, (i & 2) != 0);
    }
    matmul(OP_QLinearMatMul, 1, 1024, 200, U8, I8, true);
}

static void tie_rows(void)
{
    ties(0.25f, 64.0f);
    ties(0.75f, 96.0f);
    ties(0.1f, 3.0f);
    ties(3.0f, 700.0f);
}

Test(vulkan_quantised, matrices, .timeout = 300)
{
    families(matmul_rows);
    device_f32(tie_rows);
}

/* Family `cm`, or the loops that stand in for the matrices: every product of these rows. */
static void by_matrices(const uint32_t *tiles, size_t count, void (*rows)(void))
{
    struct backend *b = device_open(PEN_PRECISION_F32, "cm");
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    for (size_t i = 0; i < count; i++) {
        b->kernels.tile = tiles[i] + 1;
        rows();
        cr_expect_gt(vk_backend_bytes_matrices(b), i);
        cr_expect_eq(vk_backend_bytes_products(b, false) + vk_backend_bytes_products(b, true), 0);
    }
    device_close(b);
}

/* Channels in whole sixteens and steps; windows, groups and zero points of weights; more than one tile each way. */
static void sixteen_rows(void)
{
    const struct conv rows[] = {
        {96, 132, 2, 3, 1, 2, U8, U8, U8, true, true, true, 9, 8},
        {64, 68, 1, 1, 1, 1, I8, I8, I8, true, false, true, 16, 18},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        conv(&rows[i]);
    }
}

static void odd_rows(void)
{
    conv(&(struct conv){10, 21, 1, 3, 2, 1, I8, U8, I8, true, true, true, 0, 0});
    conv(&(struct conv){12, 18, 3, 3, 1, 1, U8, I8, I8, true, false, true, 0, 0});
    matmul(OP_QGemm, 70, 130, 67, U8, I8, true);
}

static void integer_rows(void)
{
    for (int i = 0; i < 2; i++) {
        struct cross *c = cross_new(OP_MatMulInteger);
        cross_input(c, U8, 2, (int64_t[]){35, 66}, false);
        cross_input(c, I8, 2, (int64_t[]){66, 41}, true);
        cross_input(c, U8, 0, NULL, i == 0); /* else a zero point that is computed */
        zero(c, I8, 41);
        cross_check(c);
    }
}

Test(vulkan_quantised, cooperative_matrices, .timeout = 600)
{
    by_matrices((uint32_t[]){8, 7}, 2, sixteen_rows);
    by_matrices((uint32_t[]){8, 9}, 2, odd_rows);
    by_matrices((uint32_t[]){8}, 1, integer_rows);
}

/* The depth in pieces, of which the last may have nothing: windows, groups, zero points of weights and of x that are computed, each way of rounding. */
Test(vulkan_quantised, pieces_of_the_depth, .timeout = 600)
{
    struct backend *b = device_open(PEN_PRECISION_F32, "cm");
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    for (uint32_t splits = 2; splits <= 7; splits += 5) {
        b->kernels.splits = splits;
        sixteen_rows();
        odd_rows();
        integer_rows();
    }
    cr_expect_eq(vk_backend_bytes_matrices(b), 2 * 7);
    device_close(b);
}

static void sum_rows(void)
{
    for (int i = 0; i < 8; i++) {
        struct cross *c = cross_new(OP_MatMulInteger);
        cross_input(c, i & 1 ? U8 : I8, 2, (int64_t[]){19, 130}, false);
        cross_input(c, i & 2 ? U8 : I8, 2, (int64_t[]){130, 41}, (i & 4) != 0);
        cross_input(c, i & 1 ? U8 : I8, 0, NULL, (i & 3) != 3); /* a zero point that is computed */
        zero(c, i & 2 ? U8 : I8, 41);
        cross_check(c);
    }
    for (int i = 0; i < 4; i++) {
        struct cross *c = cross_new(OP_ConvInteger);
        cross_input(c, U8, 4, (int64_t[]){1, 8, 8, 6}, false);
        cross_input(c, U8, 4, (int64_t[]){i & 2 ? 6 : 10, i & 2 ? 1 : 6, 3, 3}, true);
        cross_input(c, U8, 0, NULL, i == 0);
        if (i & 1) {
            zero(c, U8, 1);
        }
        cross_int(c, ATTR_group, i & 2 ? 6 : 1);
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_ints(c, ATTR_pads, 4, (int64_t[]){1, 1, 1, 1});
        cross_check(c);
    }
}

/* Both sides computed, batches that broadcast. */
static void computed_rows(void)
{
    struct cross *c = cross_new(OP_MatMulInteger);
    cross_input(c, U8, 4, (int64_t[]){2, 1, 3, 40}, false);
    cross_input(c, I8, 3, (int64_t[]){3, 40, 19}, false);
    cross_input(c, U8, 0, NULL, false);
    cross_check(c);
    for (int i = 0; i < 3; i++) {
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        c = cross_new(OP_QLinearMatMul);
        cross_input(c, dtype, 3, (int64_t[]){2, 13, 70}, false);
        number(c, 0.011f);
        zero(c, dtype, 1);
        cross_input(c, I8, 3, (int64_t[]){2, 70, 18}, false);
        scale(c, i == 2 ? 18 : 1, 0.01f, 0.03f);
        cross_input(c, I8, i == 2, (int64_t[]){18}, i == 2);
        number(c, 0.09f);
        zero(c, dtype, 1);
        cross_check(c);
    }
}

static void sums_all(void)
{
    sum_rows();
    computed_rows();
}

Test(vulkan_quantised, sums, .timeout = 300)
{
    device_f32(sums_all);
}

Test(vulkan_quantised, what_it_leaves_to_others)
{
    struct backend *b = device_open(PEN_PRECISION_F32, "simple");
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    struct cross *c = cross_new(OP_QLinearConv); /* computed weights */
    cross_input(c, U8, 4, (int64_t[]){1, 5, 5, 3}, false);
    number(c, 0.1f);
    zero(c, U8, 1);
    cross_input(c, U8, 4, (int64_t[]){4, 3, 3, 3}, false);
    number(c, 0.1f);
    zero(c, U8, 1);
    number(c, 0.1f);
    zero(c, U8, 1);
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_refused(c);
    c = cross_new(OP_QLinearAdd); /* a scale that is computed */
    cross_input(c, U8, 1, (int64_t[]){4}, false);
    cross_input(c, F32, 0, NULL, false);
    zero(c, U8, 1);
    cross_input(c, U8, 1, (int64_t[]){4}, false);
    number(c, 0.1f);
    zero(c, U8, 1);
    number(c, 0.1f);
    zero(c, U8, 1);
    cross_refused(c);
    device_close(b);
}

/* ---- to and from bytes ---- */

static void crossing_rows(void)
{
    for (int i = 0; i < 12; i++) {
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        int64_t axis = i / 2 % 3, dims[3] = {5, 13, 31};
        bool one = i >= 6;
        struct cross *c = cross_new(OP_QuantizeLinear);
        cross_range(c, -30.0f, 30.0f);
        cross_input(c, F32, 3, dims, false);
        scale(c, one ? 1 : dims[axis], 0.05f, 0.3f);
        zero(c, dtype, one ? 1 : dims[axis]);
        cross_int(c, ATTR_axis, axis);
        cross_check(c);
        c = cross_new(OP_DequantizeLinear);
        cross_input(c, i % 3 == 2 ? I32 : dtype, 3, dims, false);
        cross_range(c, 0.05f, 0.3f);
        cross_input(c, F32, one ? 0 : 1, &dims[axis], i % 4 == 0);
        if (i != 7) {
            zero(c, i % 3 == 2 ? I32 : dtype, one ? 1 : dims[axis]);
        }
        cross_int(c, ATTR_axis, axis);
        cross_check(c);
    }
    struct cross *c = cross_new(OP_QuantizeLinear);
    cross_input(c, F32, 2, (int64_t[]){4, 8}, false);
    cross_range(c, 0.01f, 0.1f);
    cross_input(c, F32, 2, (int64_t[]){4, 2}, true);
    cross_int(c, ATTR_axis, 1);
    cross_int(c, ATTR_block_size, 4);
    cross_check(c);
}

/* Ties, quotients that round to one, the ends of the range, what is no number. */
static void edge_rows(void)
{
    const float x[16] = {0.25f,    0.75f,  1.25f,     -0.25f, -0.75f,  1000.0f, -1000.0f, 63.75f,
                         INFINITY, 1e-40f, -INFINITY, 0.0f,   3.3e38f, -0.0f,   1e-30f,   NAN};
    const float scales[] = {0.5f, 0.1f, 1e-3f, 3.0f, 1e-20f, 1e20f};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        struct cross *c = cross_new(OP_QuantizeLinear);
        cross_data(c, F32, 1, (int64_t[]){16}, x, false);
        number(c, scales[i]);
        cross_data(c, U8, 0, NULL, "\x03", true);
        cross_check(c);
    }
    static float many[4096];
    for (int i = 0; i < 4096; i++) { /* products of a scale and halves: each is a tie, or next to one */
        many[i] = ((float)(i % 512) * 0.5f - 64.0f) * 0.0173f * (1.0f + (float)(i / 512 - 4) * 0x1p-23f);
    }
    struct cross *c = cross_new(OP_QuantizeLinear);
    cross_data(c, F32, 1, (int64_t[]){4096}, many, false);
    number(c, 0.0173f);
    cross_data(c, I8, 0, NULL, "\x05", true);
    cross_check(c);
}

static void dynamic_rows(void)
{
    const float ranges[][2] = {{-1.0f, 2.0f}, {0.5f, 3.0f}, {-3.0f, -1.0f}, {0.0f, 0.0f}, {-127.5f, 127.5f}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        struct cross *c = cross_new(OP_DynamicQuantizeLinear);
        cross_range(c, ranges[i][0], ranges[i][1]);
        cross_input(c, F32, 3, (int64_t[]){3, i == 0 ? 7001 : 17, 3}, false);
        cross_outputs(c, 3);
        cross_check(c);
    }
}

static void to_bytes_all(void)
{
    crossing_rows();
    edge_rows();
    dynamic_rows();
}

Test(vulkan_quantised, to_and_from_bytes, .timeout = 300)
{
    device_f32(to_bytes_all);
}
