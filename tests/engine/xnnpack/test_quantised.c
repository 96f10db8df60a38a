#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32
#define I32 PEN_DTYPE_I32
#define U8  PEN_DTYPE_U8
#define I8  PEN_DTYPE_I8

/* Integer results equal the reference's to the last bit. */

static void scale(struct cross *c, int64_t count, float low, float high, bool constant)
{
    cross_range(c, low, high);
    cross_input(c, F32, count > 1 ? 1 : 0, (int64_t[]){count}, constant);
}

static void zero(struct cross *c, enum pen_dtype dtype, int64_t count, bool constant)
{
    cross_input(c, dtype, count > 1 ? 1 : 0, (int64_t[]){count}, constant);
}

struct conv {
    int64_t in, out, groups, kernel, stride, dilation;
    enum pen_dtype x, w, y;
    bool per_channel, w_zeros, constant, bias;
};

static int64_t high = 11, wide = 9; /* of the images */

static void conv(const struct conv *v)
{
    struct cross *c = cross_new(OP_QLinearConv);
    int64_t scales = v->per_channel ? v->out : 1;
    cross_input(c, v->x, 4, (int64_t[]){2, high, wide, v->in}, false);
    scale(c, 1, 0.01f, 0.02f, v->constant);
    zero(c, v->x, 1, v->constant);
    cross_input(c, v->w, 4, (int64_t[]){v->out, v->in / v->groups, v->kernel, v->kernel}, v->constant);
    scale(c, scales, 0.001f, 0.02f, v->constant);
    if (v->w_zeros) {
        zero(c, v->w, scales, v->constant);
    } else {
        cross_data(c, v->w, 0, NULL, "", v->constant);
    }
    scale(c, 1, 0.02f, 0.2f, v->constant);
    zero(c, v->y, 1, v->constant);
    if (v->bias) {
        cross_input(c, I32, 1, (int64_t[]){v->out}, v->constant);
    }
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_int(c, ATTR_group, v->groups);
    cross_ints(c, ATTR_strides, 2, (int64_t[]){v->stride, v->stride});
    cross_ints(c, ATTR_dilations, 2, (int64_t[]){v->dilation, v->dilation});
    cross_ints(c, ATTR_pads, 4, (int64_t[]){v->kernel / 2, 0, v->kernel / 2, v->kernel / 2});
    cross_check(c);
}

Test(xnnpack_quantised, convolutions)
{
    const struct conv rows[] = {
        {3, 24, 1, 3, 2, 1, U8, U8, U8, false, true, true, true},
        {3, 24, 1, 3, 2, 1, U8, I8, U8, true, false, true, true},
        {58, 58, 1, 1, 1, 1, U8, I8, U8, false, false, true, true},
        {16, 70, 1, 1, 1, 1, I8, I8, I8, true, false, true, false},
        {64, 33, 1, 3, 1, 2, I8, U8, I8, true, true, true, true},
        {58, 58, 58, 3, 1, 1, U8, U8, U8, false, true, true, true},
        {300, 300, 300, 3, 2, 1, I8, I8, I8, true, true, true, true},
        {12, 24, 12, 3, 1, 1, U8, I8, U8, true, false, true, true},
        {12, 18, 3, 3, 1, 1, U8, I8, I8, true, false, true, true},
        {64, 64, 16, 3, 1, 1, I8, I8, I8, true, true, true, true}, /* four groups become one */
        {3, 15, 3, 1, 1, 1, U8, I8, U8, true, false, true,
         true}, /* all groups become one, and a filter is one number */
        {8, 16, 8, 1, 2, 1, I8, U8, I8, false, true, false, true},
        {60, 40, 20, 3, 2, 1, U8, U8, U8, false, true, false, true},
        {24, 40, 1, 3, 1, 2, U8, U8, U8, false, true, true, true}, /* pixels of a window apart */
        {8, 16, 1, 3, 1, 1, I8, I8, U8, true, true, false, true},
        {8, 8, 8, 3, 1, 1, U8, U8, U8, false, true, false, false},
        {133, 133, 133, 3, 1, 1, I8, I8, I8, true, false, true, true}, /* its period has no end in reach */
        {144, 144, 144, 5, 2, 1, U8, U8, U8, false, true, true, true},
        {24, 24, 24, 3, 2, 2, I8, I8, I8, true, false, true, false},
        {3, 3, 3, 7, 1, 1, I8, U8, U8, true, true, true, true},
        {40, 40, 40, 4, 3, 1, U8, I8, I8, true, false, true, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        conv(&rows[i]);
    }
}

Test(xnnpack_quantised, random_convolutions)
{
    for (int i = 0; i < 60; i++) {
        int64_t groups = cross_pick(1, 3), width = cross_pick(1, 20);
        struct conv v = {.in = groups * width,
                         .out = groups * cross_pick(1, 40),
                         .groups = groups,
                         .kernel = cross_pick(1, 4),
                         .stride = cross_pick(1, 2),
                         .dilation = cross_pick(1, 2),
                         .x = cross_pick(0, 1) ? U8 : I8,
                         .w = cross_pick(0, 1) ? U8 : I8,
                         .y = cross_pick(0, 1) ? U8 : I8,
                         .per_channel = cross_pick(0, 1) != 0,
                         .w_zeros = cross_pick(0, 1) != 0,
                         .constant = cross_pick(0, 3) != 0,
                         .bias = cross_pick(0, 1) != 0};
        conv(&v);
    }
}

static void matmul(int64_t m, int64_t k, int64_t n, enum pen_dtype a, enum pen_dtype b, bool per_column, bool constant)
{
    struct cross *c = cross_new(OP_QLinearMatMul);
    cross_input(c, a, 3, (int64_t[]){2, m, k}, false);
    scale(c, 1, 0.01f, 0.02f, constant);
    zero(c, a, 1, constant);
    cross_input(c, b, 2, (int64_t[]){k, n}, constant);
    scale(c, per_column ? n : 1, 0.001f, 0.02f, constant);
    zero(c, b, per_column ? n : 1, constant);
    scale(c, 1, 0.02f, 0.4f, constant);
    zero(c, a, 1, constant);
    cross_check(c);
}

Test(xnnpack_quantised, matrices)
{
    for (int i = 0; i < 40; i++) {
        matmul(cross_pick(1, 70), cross_pick(1, 700), cross_pick(2, 90), i & 1 ? U8 : I8, i & 2 ? U8 : I8, (i & 4) != 0,
               (i & 8) != 0);
    }
    matmul(1, 4096, 1000, U8, I8, true, true);
}

/* Several matrices on the right: beside those on the left, or broadcast as NumPy does. */
static void matrices(int32_t a_rank, const int64_t *a, int32_t b_rank, const int64_t *b, bool constant)
{
    struct cross *c = cross_new(OP_QLinearMatMul);
    cross_input(c, U8, a_rank, a, false);
    scale(c, 1, 0.01f, 0.02f, true);
    zero(c, U8, 1, true);
    cross_input(c, I8, b_rank, b, constant);
    scale(c, 1, 0.001f, 0.02f, true);
    zero(c, I8, 1, true);
    scale(c, 1, 0.02f, 0.4f, true);
    zero(c, U8, 1, true);
    cross_check(c);
}

Test(xnnpack_quantised, matrices_that_are_broadcast)
{
    for (int constant = 0; constant < 2; constant++) {
        matrices(3, (int64_t[]){3, 5, 7}, 3, (int64_t[]){3, 7, 9}, constant);
        matrices(2, (int64_t[]){5, 7}, 3, (int64_t[]){3, 7, 9}, constant);
        matrices(3, (int64_t[]){1, 5, 7}, 4, (int64_t[]){2, 3, 7, 9}, constant);
        matrices(4, (int64_t[]){2, 1, 5, 7}, 4, (int64_t[]){1, 3, 7, 9}, constant);
        matrices(4, (int64_t[]){2, 3, 5, 7}, 3, (int64_t[]){3, 7, 9}, constant);
        matrices(4, (int64_t[]){2, 3, 5, 7}, 4, (int64_t[]){2, 1, 7, 33}, constant);
        matrices(3, (int64_t[]){4, 5, 7}, 3, (int64_t[]){1, 7, 9}, constant);
        matrices(2, (int64_t[]){5, 7}, 4, (int64_t[]){1, 1, 7, 9}, constant);
    }
}

Test(xnnpack_quantised, integer_sums)
{
    for (int i = 0; i < 8; i++) {
        struct cross *c = cross_new(OP_MatMulInteger);
        cross_input(c, i & 1 ? U8 : I8, 2, (int64_t[]){19, 130}, false);
        cross_input(c, i & 2 ? U8 : I8, 2, (int64_t[]){130, 41}, (i & 4) != 0);
        zero(c, i & 1 ? U8 : I8, 1, true);
        zero(c, i & 2 ? U8 : I8, 41, true);
        cross_check(c);
        c = cross_new(OP_ConvInteger);
        cross_input(c, U8, 4, (int64_t[]){1, 8, 8, 6}, false);
        cross_input(c, U8, 4, (int64_t[]){i & 2 ? 6 : 10, i & 2 ? 1 : 6, 3, 3}, (i & 4) != 0);
        zero(c, U8, 1, true);
        if (i & 1) {
            zero(c, U8, 1, true);
        }
        cross_int(c, ATTR_group, i & 2 ? 6 : 1);
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_check(c);
    }
}

Test(xnnpack_quantised, to_and_from_bytes)
{
    for (int i = 0; i < 12; i++) {
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        int64_t axis = i / 2 % 3, dims[3] = {5, 40, 333};
        bool one = i >= 6;
        struct cross *c = cross_new(OP_QuantizeLinear);
        cross_range(c, -30.0f, 30.0f);
        cross_input(c, F32, 3, dims, false);
        scale(c, one ? 1 : dims[axis], 0.05f, 0.3f, true);
        zero(c, dtype, one ? 1 : dims[axis], true);
        cross_int(c, ATTR_axis, axis);
        cross_check(c);
        c = cross_new(OP_DequantizeLinear);
        cross_input(c, i % 3 == 2 ? I32 : dtype, 3, dims, false);
        scale(c, one ? 1 : dims[axis], 0.05f, 0.3f, false);
        if (i != 7) {
            zero(c, i % 3 == 2 ? I32 : dtype, one ? 1 : dims[axis], true);
        }
        cross_int(c, ATTR_axis, axis);
        cross_check(c);
    }
}

Test(xnnpack_quantised, ties_go_to_even)
{
    struct cross *c = cross_new(OP_QuantizeLinear);
    const float x[8] = {0.25f, 0.75f, 1.25f, -0.25f, -0.75f, 1000.0f, -1000.0f, 63.75f}, half = 0.5f;
    cross_data(c, F32, 1, (int64_t[]){8}, x, false);
    cross_data(c, F32, 0, NULL, &half, true);
    cross_data(c, U8, 0, NULL, "\x03", true);
    cross_check(c);
}

Test(xnnpack_quantised, pairs)
{
    for (int i = 0; i < 16; i++) {
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        struct cross *c = cross_new(i & 2 ? OP_QLinearAdd : OP_QLinearMul);
        cross_input(c, dtype, 3, (int64_t[]){7, i & 4 ? 1 : 30, 130}, false);
        scale(c, 1, 0.01f, 0.05f, true);
        zero(c, dtype, 1, true);
        cross_input(c, dtype, i & 8 ? 3 : 1, i & 8 ? (int64_t[]){7, 30, 1} : (int64_t[]){130}, false);
        scale(c, 1, 0.01f, 0.05f, true);
        zero(c, dtype, 1, true);
        scale(c, 1, 0.02f, 0.08f, true);
        zero(c, dtype, 1, true);
        cross_check(c);
    }
}

/* Dims of which some are 1, as many as `mask` says: every form of broadcasting. */
static void shrunk(const int64_t *dims, unsigned mask, int64_t *ret)
{
    for (unsigned d = 0; d < 4; d++) {
        ret[d] = mask >> d & 1 ? 1 : dims[d];
    }
}

/* Scales with many ties between two results, ordinary ones, and those that only double can follow. */
Test(xnnpack_quantised, pairs_in_every_form_of_broadcasting)
{
    static const float scales[][3] = {{0.5f, 0.25f, 0.5f},   {0.0625f, 0.5f, 1.0f},  {0.02f, 0.03f, 0.04f},
                                      {0.013f, 2.7f, 0.05f}, {9.0f, 8.0f, 1e-4f},    {1e-6f, 1e-7f, 1.0f},
                                      {0.1f, -0.2f, 0.3f},   {1e30f, 1e30f, 1e-30f}, {1e-30f, 1e-30f, 1e-8f}};
    for (unsigned i = 0; i < 512; i++) {
        const float *f = scales[i % (sizeof scales / sizeof *scales)];
        const int64_t dims[4] = {cross_pick(1, 3), cross_pick(1, 40), cross_pick(1, 12), cross_pick(1, 70)};
        int64_t a[4], b[4];
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        struct cross *c = cross_new(i >> 1 & 1 ? OP_QLinearAdd : OP_QLinearMul);
        shrunk(dims, i & 4 ? i >> 3 & 15 : 0, a);
        shrunk(dims, i & 4 ? i >> 7 & 1 : i >> 3 & 15, b);
        cross_input(c, dtype, 4, a, false);
        cross_data(c, F32, 0, NULL, &f[0], true);
        zero(c, dtype, 1, true);
        cross_input(c, dtype, 4, b, false);
        cross_data(c, F32, 0, NULL, &f[1], true);
        zero(c, dtype, 1, true);
        cross_data(c, F32, 0, NULL, &f[2], true);
        zero(c, dtype, 1, true);
        cross_check(c);
    }
}

Test(xnnpack_quantised, largest_of_bytes)
{
    for (int i = 0; i < 4; i++) {
        struct cross *c = cross_new(OP_MaxPool);
        cross_input(c, i & 1 ? U8 : I8, 4, (int64_t[]){2, 12, 13, 70}, false);
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_ints(c, ATTR_kernel_shape, 2, (int64_t[]){3, 3});
        cross_ints(c, ATTR_strides, 2, (int64_t[]){2, 1});
        cross_ints(c, ATTR_pads, 4, (int64_t[]){1, 1, 0, 1});
        cross_int(c, ATTR_ceil_mode, i / 2);
        cross_check(c);
    }
}

Test(xnnpack_quantised, sums_of_matrices_that_are_broadcast)
{
    struct cross *c = cross_new(OP_MatMulInteger);
    cross_input(c, U8, 2, (int64_t[]){3, 4}, false);
    cross_input(c, U8, 3, (int64_t[]){2, 4, 5}, false);
    cross_check(c);
}

Test(xnnpack_quantised, several_matrices_and_scales_in_blocks)
{
    struct cross *c = cross_new(OP_MatMulInteger);
    cross_input(c, U8, 3, (int64_t[]){2, 3, 40}, false);
    cross_input(c, U8, 3, (int64_t[]){2, 40, 19}, false);
    cross_check(c);
    c = cross_new(OP_QuantizeLinear);
    cross_input(c, F32, 2, (int64_t[]){4, 8}, false);
    cross_input(c, F32, 2, (int64_t[]){4, 2}, true);
    cross_int(c, ATTR_axis, 1);
    cross_int(c, ATTR_block_size, 4);
    cross_check(c);
}

/* Codes of all widths up to 16 bits, with scales in blocks of either axis or one for all, beside the reference, which computes in double. */
Test(xnnpack_quantised, floats_from_codes_of_any_width)
{
    static const enum pen_dtype types[] = {PEN_DTYPE_I8, PEN_DTYPE_U8, PEN_DTYPE_I16, PEN_DTYPE_U16,
                                           PEN_DTYPE_I4, PEN_DTYPE_U4, PEN_DTYPE_I32};
    static uint8_t codes[4 * 24 * 350], zeros[4 * 24 * 350];
    for (size_t i = 0; i < sizeof codes; i++) {
        codes[i] = (uint8_t)cross_random();
        zeros[i] = (uint8_t)cross_random();
    }
    for (int i = 0; i < 42; i++) {
        const enum pen_dtype type = types[i % 7];
        const int64_t dims[2] = {24, 350}, axis = i / 7 % 2, block = axis == 0 ? 5 : 32;
        const bool one = i >= 28;
        int64_t parts[2] = {24, 350};
        parts[axis] = (dims[axis] + block - 1) / block;
        struct cross *c = cross_new(OP_DequantizeLinear);
        cross_data(c, type, 2, dims, codes, i % 3 == 0);
        cross_range(c, 0.01f, 0.3f);
        cross_input(c, F32, one ? 0 : 2, parts, true);
        if (i / 14 != 1) {
            cross_data(c, type, one ? 0 : 2, parts, zeros, true);
        }
        cross_int(c, ATTR_axis, axis);
        cross_int(c, ATTR_block_size, one ? 0 : block);
        cross_check(c);
    }
}

static struct cross *qlinear(enum op op, enum pen_dtype dtype, int32_t rank, const int64_t *dims, float step)
{
    struct cross *c = cross_new(op);
    cross_input(c, dtype, rank, dims, false);
    scale(c, 1, 0.02f, 0.06f, true);
    zero(c, dtype, 1, true);
    scale(c, 1, step, step * 1.5f, true);
    zero(c, dtype, 1, true);
    return c;
}

Test(xnnpack_quantised, tables_and_lanes)
{
    for (int i = 0; i < 6; i++) {
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        const int64_t dims[3] = {7, 30, 130};
        cross_check(qlinear(OP_QLinearSigmoid, dtype, 3, dims, 0.004f));
        struct cross *c = qlinear(OP_QLinearLeakyRelu, dtype, 3, dims, 0.03f);
        cross_float(c, ATTR_alpha, 0.1f);
        cross_check(c);
        c = qlinear(OP_QLinearSoftmax, dtype, 3, dims, 0.001f);
        cross_int(c, ATTR_axis, i / 2);
        cross_check(c);
        cross_check(
            qlinear(OP_QLinearSoftmax, dtype, 2, (int64_t[]){300, 60 + 50 * i}, 1.0f / 400)); /* ties are near */
    }
}

Test(xnnpack_quantised, tables_of_bytes)
{
    for (int64_t n = 1; n < 70000; n = n * 3 + 1) {
        enum pen_dtype dtype = n & 1 ? U8 : I8;
        struct cross *c = cross_new(OP_ByteTable);
        cross_input(c, dtype, 1, &n, false);
        cross_input(c, n & 2 ? U8 : I8, 1, (int64_t[]){256}, true);
        cross_check(c);
    }
}

Test(xnnpack_quantised, means)
{
    for (int i = 0; i < 8; i++) {
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        struct cross *c = qlinear(OP_QLinearGlobalAveragePool, dtype, 4, (int64_t[]){2, 7, 9, 33}, 0.01f);
        if (i & 2) {
            cross_int(c, ATTR_layout, LAYOUT_NHWC);
        }
        cross_check(c);
        c = qlinear(OP_QLinearGlobalAveragePool, dtype, 4, (int64_t[]){2, 300 + i, 7, 1 + i * 9}, 0.01f);
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_check(c);
        c = qlinear(OP_QLinearAveragePool, dtype, 4, (int64_t[]){2, 11, 9, 33}, 0.02f);
        cross_int(c, ATTR_layout, LAYOUT_NHWC);
        cross_ints(c, ATTR_kernel_shape, 2, (int64_t[]){3, 4});
        cross_ints(c, ATTR_strides, 2, (int64_t[]){2, 1});
        cross_ints(c, ATTR_pads, 4, (int64_t[]){1, 2, 1, 0});
        cross_int(c, ATTR_count_include_pad, i & 2 ? 1 : 0);
        cross_int(c, ATTR_ceil_mode, i & 4 ? 1 : 0);
        cross_check(c);
    }
}

/* A scalar of this value. */
static void number(struct cross *c, float value)
{
    cross_data(c, F32, 0, NULL, &value, true);
}

/* TFLite's sums: factors around one, far below, of either sign, and so small that the shift leaves nothing. */
Test(xnnpack_quantised, sums_in_fixed_point)
{
    static const float scales[][3] = {{0.02f, 0.03f, 0.04f},  {0.5f, 0.001f, 0.3f}, {0.02f, -0.02f, 0.04f},
                                      {-0.7f, -0.9f, 0.011f}, {1e-6f, 1e-7f, 1.0f}, {3e-10f, 1e-11f, 2.0f},
                                      {1e-12f, 0.0f, 4.0f},   {9.0f, 8.0f, 0.05f},  {1e9f, 1.0f, 1e-9f}};
    for (size_t i = 0; i < 4 * sizeof scales / sizeof *scales; i++) {
        const float *f = scales[i / 4];
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        struct cross *c = cross_new(OP_QLinearAdd);
        cross_input(c, dtype, 3, (int64_t[]){3, i & 2 ? 1 : 20, 77}, false);
        number(c, f[0]);
        zero(c, dtype, 1, true);
        cross_input(c, dtype, 3, i & 2 ? (int64_t[]){3, 20, 1} : (int64_t[]){3, 20, 77}, false);
        number(c, f[1]);
        zero(c, dtype, 1, true);
        number(c, f[2]);
        zero(c, dtype, 1, true);
        cross_int(c, ATTR_fixed_point, 1);
        cross_check(c);
    }
}

Test(xnnpack_quantised, resizing_in_fixed_point)
{
    static const char *const modes[] = {"half_pixel", "align_corners", "asymmetric"};
    static const int64_t sizes[][2] = {{12, 14}, {5, 3}, {1, 1}, {23, 7}, {6, 40}};
    for (size_t i = 0; i < 30; i++) {
        struct cross *c = cross_new(OP_Resize);
        cross_input(c, i & 1 ? U8 : I8, 4, (int64_t[]){2, 6, 7, i % 4 == 0 ? 3 : 65}, false);
        cross_omit(c);
        cross_omit(c);
        cross_i64(c, 2, sizes[i % 5]);
        cross_ints(c, ATTR_axes, 2, (int64_t[]){1, 2});
        cross_text(c, ATTR_mode, "linear");
        cross_text(c, ATTR_coordinate_transformation_mode, modes[i % 3]);
        cross_int(c, ATTR_fixed_point, 1);
        cross_check(c);
    }
}

Test(xnnpack_quantised, largest_and_smallest_of_an_axis_of_bytes)
{
    for (int64_t i = 0; i < 24; i++) {
        struct cross *c = cross_new(i % 2 ? OP_ArgMin : OP_ArgMax);
        cross_input(c, i & 4 ? U8 : I8, 3, (int64_t[]){5, i % 3 == 0 ? 60 : 700, 3},
                    false); /* 700: equals are certain */
        cross_int(c, ATTR_axis, i % 3);
        cross_int(c, ATTR_select_last_index, i & 2);
        cross_check(c);
    }
}

/* Parts of other scales, of the result's own, and an empty one, along every axis. */
Test(xnnpack_quantised, parts_are_joined_in_one_scale)
{
    for (int64_t i = 0; i < 12; i++) {
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        int64_t axis = i % 3;
        struct cross *c = cross_new(OP_QLinearConcat);
        number(c, 0.05f);
        cross_data(c, dtype, 0, NULL, "\x07", true);
        for (int64_t part = 0; part < 4; part++) {
            int64_t dims[3] = {3, 17, 70};
            dims[axis] = part == 3 ? 0 : 5 + part;
            cross_input(c, dtype, 3, dims, false);
            number(c, part == 1 ? 0.05f : 0.03f * (float)(part + 1));
            cross_data(c, dtype, 0, NULL, part == 1 ? "\x07" : "\x20", true);
        }
        cross_int(c, ATTR_axis, axis);
        cross_check(c);
    }
}

Test(xnnpack_quantised, clips_of_bytes)
{
    static const char *const limits[] = {"\x05", "\x7d", "\x83"};
    for (size_t i = 0; i < 18; i++) {
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        struct cross *c = cross_new(OP_Clip);
        cross_input(c, dtype, 3, (int64_t[]){3, 5, 77}, false);
        if (i % 3 != 0) {
            cross_data(c, dtype, 0, NULL, limits[i / 6], true);
        } else {
            cross_omit(c);
        }
        cross_data(c, dtype, 0, NULL, limits[(i / 6 + 1) % 3], true);
        cross_check(c);
    }
}

Test(xnnpack_quantised, nearest_elements_of_any_type)
{
    static const enum pen_dtype types[] = {U8, I8, I32, PEN_DTYPE_I64, F32, PEN_DTYPE_BOOL};
    static const char *const modes[] = {"asymmetric", "half_pixel", "align_corners"};
    for (size_t i = 0; i < 18; i++) {
        struct cross *c = cross_new(OP_Resize);
        cross_input(c, types[i % 6], 4, (int64_t[]){2, 5, 6, i % 2 ? 1 : 7}, false);
        cross_omit(c);
        cross_omit(c);
        cross_i64(c, 2, (int64_t[]){i % 4 == 0 ? 3 : 11, 13});
        cross_ints(c, ATTR_axes, 2, (int64_t[]){1, 2});
        cross_text(c, ATTR_mode, "nearest");
        cross_text(c, ATTR_coordinate_transformation_mode, modes[i / 6]);
        cross_text(c, ATTR_nearest_mode, i % 2 ? "floor" : "round_prefer_ceil");
        cross_check(c);
    }
}

/* Rows of results as long as tiles have rows, longer and shorter; runs of a window that fill rows of tiles, or do not. */
Test(xnnpack_quantised, convolutions_with_work_enough_for_tiles)
{
    static const int64_t sizes[][2] = {{5, 37}, {7, 16}, {14, 14}, {3, 56}, {20, 33}};
    static const int64_t channels[] = {64, 16, 24, 3, 65};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        high = sizes[i][0], wide = sizes[i][1];
        for (size_t k = 0; k < sizeof channels / sizeof channels[0]; k++) {
            for (int64_t kernel = 1; kernel <= 3; kernel += 2) {
                struct conv v = {.in = channels[k],
                                 .out = 33 + (int64_t)k,
                                 .groups = 1,
                                 .kernel = kernel,
                                 .stride = i == 4 ? 2 : 1,
                                 .dilation = i == 0 && kernel > 1 ? 2 : 1,
                                 .x = k % 2 == 0 ? U8 : I8,
                                 .w = k % 3 == 0 ? U8 : I8,
                                 .y = k % 2 == 0 ? U8 : I8,
                                 .per_channel = k % 2 == 1,
                                 .w_zeros = k % 3 == 0,
                                 .constant = true,
                                 .bias = i % 2 == 0};
                conv(&v);
            }
        }
    }
}
