/* Operators on bytes that are no products: tables of functions, pools, resizing. */
#include <criterion/criterion.h>
#include <math.h>

#include "device.h"
#include "quantised.h"

/* ---- tables ---- */

/* Dims of which some are 1, as many as `mask` says: every form of broadcasting. */
static void shrunk(const int64_t *dims, unsigned mask, int64_t *ret)
{
    for (unsigned d = 0; d < 4; d++) {
        ret[d] = mask >> d & 1 ? 1 : dims[d];
    }
}

static void pair_rows(void)
{
    static const float scales[][3] = {{0.5f, 0.25f, 0.5f},   {0.0625f, 0.5f, 1.0f}, {0.02f, 0.03f, 0.04f},
                                      {9.0f, 8.0f, 1e-4f},   {1e-6f, 1e-7f, 1.0f},  {0.1f, -0.2f, 0.3f},
                                      {1e30f, 1e30f, 1e-30f}};
    for (unsigned i = 0; i < 256; i += i < 32 ? 1 : 7) {
        const float *f = scales[i % (sizeof scales / sizeof *scales)];
        const int64_t dims[4] = {cross_pick(2, 3), cross_pick(2, 9), cross_pick(2, 12), cross_pick(2, 30)};
        int64_t a[4], b[4];
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        struct cross *c = cross_new(i >> 1 & 1 ? OP_QLinearAdd : OP_QLinearMul);
        shrunk(dims, i >> 2 & 7, a);
        shrunk(dims, i >> 4 & 15, b);
        cross_input(c, dtype, 4, a, false);
        number(c, f[0]);
        zero(c, dtype, 1);
        cross_input(c, dtype, 4, b, false);
        number(c, f[1]);
        zero(c, dtype, 1);
        number(c, f[2]);
        zero(c, dtype, 1);
        cross_int(c, ATTR_fixed_point, i >> 1 & i >> 2 & 1);
        cross_check(c);
    }
}

static struct cross *qlinear(enum op op, enum pen_dtype dtype, int32_t rank, const int64_t *dims, float step)
{
    struct cross *c = cross_new(op);
    cross_input(c, dtype, rank, dims, false);
    scale(c, 1, 0.02f, 0.06f);
    zero(c, dtype, 1);
    scale(c, 1, step, step * 1.5f);
    zero(c, dtype, 1);
    return c;
}

static void table_rows(void)
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
    }
    for (int64_t n = 1; n < 7000; n = n * 3 + 1) {
        struct cross *c = cross_new(OP_ByteTable);
        cross_input(c, n & 1 ? U8 : I8, 1, &n, false);
        cross_input(c, n & 2 ? U8 : I8, 1, (int64_t[]){256}, true);
        cross_check(c);
    }
}

/* Equal bytes: results that lie between two; a row of one; many. */
static void softmax_ties(void)
{
    static const uint8_t same[512];
    static const int64_t counts[] = {1, 2, 3, 64, 170, 512};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct cross *c = cross_new(OP_QLinearSoftmax);
        cross_data(c, U8, 2, (int64_t[]){1, counts[i]}, same, false);
        number(c, 0.1f);
        zero(c, U8, 1);
        number(c, 0.00390625f);
        cross_data(c, U8, 0, NULL, "", true);
        cross_check(c);
    }
}

static void concat_rows(void)
{
    for (int i = 0; i < 4; i++) {
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        struct cross *c = cross_new(OP_QLinearConcat);
        number(c, 0.05f);
        zero(c, dtype, 1);
        for (int64_t k = 0; k < 3; k++) {
            int64_t dims[3] = {3, 5, 7};
            dims[i % 3] += k;
            cross_input(c, dtype, 3, dims, false);
            number(c, k == 1 ? 0.05f : 0.031f);
            zero(c, dtype, 1);
        }
        cross_int(c, ATTR_axis, i % 3);
        cross_check(c);
    }
}

static void tables_all(void)
{
    pair_rows();
    table_rows();
    softmax_ties();
    concat_rows();
}

Test(vulkan_byte_tables, tables, .timeout = 300)
{
    device_f32(tables_all);
}

/* ---- pools, resizing ---- */

static void window(struct cross *c, int i)
{
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_ints(c, ATTR_kernel_shape, 2, (int64_t[]){3, 4});
    cross_ints(c, ATTR_strides, 2, (int64_t[]){2, 1});
    cross_ints(c, ATTR_pads, 4, (int64_t[]){1, 2, 1, 0});
    cross_int(c, ATTR_count_include_pad, i & 2 ? 1 : 0);
    cross_int(c, ATTR_ceil_mode, i & 4 ? 1 : 0);
}

/* Means with as many halves as may be: both scales alike, or twice each other. */
static void mean_ties(enum pen_dtype dtype, float x_scale, float y_scale)
{
    struct cross *c = cross_new(OP_QLinearAveragePool);
    cross_input(c, dtype, 4, (int64_t[]){1, 12, 12, 9}, false);
    number(c, x_scale);
    zero(c, dtype, 1);
    number(c, y_scale);
    zero(c, dtype, 1);
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_ints(c, ATTR_kernel_shape, 2, (int64_t[]){2, 3});
    cross_check(c);
}

static void pool_rows(void)
{
    for (int i = 0; i < 8; i++) {
        enum pen_dtype dtype = i & 1 ? U8 : I8;
        struct cross *c = qlinear(OP_QLinearGlobalAveragePool, dtype, 4, (int64_t[]){2, 7, 9, 33}, 0.01f);
        if (i & 2) {
            cross_int(c, ATTR_layout, LAYOUT_NHWC);
        }
        cross_check(c);
        c = qlinear(OP_QLinearAveragePool, dtype, 4, (int64_t[]){2, 11, 9, 33}, 0.02f);
        window(c, i);
        cross_check(c);
        c = cross_new(OP_MaxPool);
        cross_input(c, dtype, 4, (int64_t[]){2, 12, 13, 21}, false);
        window(c, i & ~2);
        cross_check(c);
    }
    mean_ties(U8, 0.1f, 0.1f);
    mean_ties(I8, 0.013f, 0.026f);
    mean_ties(I8, 0.75f, 0.5f);
}

static void resize_rows(void)
{
    static const char *const modes[] = {"asymmetric", "half_pixel", "align_corners"};
    for (int i = 0; i < 6; i++) {
        struct cross *c = cross_new(OP_Resize);
        cross_input(c, i & 1 ? U8 : I8, 4, (int64_t[]){2, 5, 7, 3}, false);
        cross_omit(c);
        cross_omit(c);
        cross_i64(c, 4, (int64_t[]){2, 11, 4, 3});
        cross_text(c, ATTR_mode, "linear");
        cross_text(c, ATTR_coordinate_transformation_mode, modes[i / 2]);
        cross_int(c, ATTR_fixed_point, 1);
        cross_check(c);
        c = cross_new(OP_Resize);
        cross_input(c, i == 0 ? I64 : i == 1 ? I32 : U8, 4, (int64_t[]){2, 5, 7, 3}, false);
        cross_omit(c);
        cross_omit(c);
        cross_i64(c, 4, (int64_t[]){2, 11, 4, 3});
        cross_text(c, ATTR_mode, "nearest");
        cross_text(c, ATTR_coordinate_transformation_mode, modes[i / 2]);
        cross_check(c);
    }
}

static void largest_rows(void)
{
    for (int i = 0; i < 4; i++) {
        struct cross *c = cross_new(i & 1 ? OP_ArgMin : OP_ArgMax);
        cross_input(c, i & 2 ? U8 : I8, 3, (int64_t[]){3, 50, 7}, false);
        cross_int(c, ATTR_axis, 1);
        cross_int(c, ATTR_select_last_index, i & 1);
        cross_check(c);
    }
}

static void pools_all(void)
{
    largest_rows();
    pool_rows();
    resize_rows();
}

Test(vulkan_byte_tables, pools_and_sizes, .timeout = 300)
{
    device_f32(pools_all);
}
