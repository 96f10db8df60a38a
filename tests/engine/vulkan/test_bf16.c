/* Products in bf16: operands rounded to nearest even, sums of f32; plain loops stand in for the matrices where the device has none of bf16. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "../xnnpack/cross.h"
#include "backend/vulkan/plan.h"
#include "backend/vulkan/selftest.h"
#include "backend/vulkan/single.h"
#include "device.h"

#define GRID 0.0625f /* floats of so few bits that nothing is rounded */

static struct backend *opened(void)
{
    return device_open(PEN_PRECISION_BF16, "cm");
}

/* Against plain C on rounded operands; true: it ran by this family. */
static bool right_by(struct backend *b, enum vk_family family, const struct vk_product_shape *shape)
{
    const unsigned before = vk_backend_products(b, family);
    struct pen_error error = {0};
    double worst = 0.0;
    b->kernels.only = family;
    cr_assert_eq(vk_selftest_shape(b, shape, "bf16", &worst, &error), PEN_OK, "%s", error.text);
    cr_expect_leq(worst, 1e-4, "%s of %zu x %zu x %zu", vk_family_name(family), shape->rows, shape->outs, shape->depth);
    return vk_backend_products(b, family) > before;
}

/* Several tiles each way, tails on every side, rows in whole eights and rows that begin anywhere, batches, the depth in pieces. */
Test(vulkan_bf16, products_are_those_of_rounded_operands, .timeout = 300)
{
    static const struct vk_product_shape shapes[] = {
        {VK_PRODUCT_MATRIX, 135, 70, 72, 1}, {VK_PRODUCT_MATRIX, 128, 128, 64, 1}, {VK_PRODUCT_MATRIX, 37, 45, 301, 1},
        {VK_PRODUCT_MATRIX, 1, 9, 7, 1},     {VK_PRODUCT_BATCH, 70, 64, 64, 2},    {VK_PRODUCT_BATCH, 33, 45, 20, 3},
    };
    struct backend *b = opened();
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        cr_expect(right_by(b, VK_FAMILY_CM, &shapes[i]), "%zu", i);
    }
    b->kernels.splits = 3;
    cr_expect(right_by(b, VK_FAMILY_CM, &shapes[2]));
    b->kernels.splits = 0;
    b->kernels.tile = 10; /* 32 x 64 */
    cr_expect(right_by(b, VK_FAMILY_CM, &shapes[0]));
    device_close(b);
}

/* Where rows are few other kernels run: they read the same weights, of two bytes, and round nothing more. */
Test(vulkan_bf16, other_families_read_rounded_weights, .timeout = 300)
{
    static const struct vk_product_shape shapes[] = {{VK_PRODUCT_MATRIX, 3, 45, 301, 1},
                                                     {VK_PRODUCT_MATRIX, 70, 68, 304, 1}};
    static const enum vk_family families[] = {VK_FAMILY_SIMPLE, VK_FAMILY_TILED, VK_FAMILY_GEMV, VK_FAMILY_SPLIT};
    struct backend *b = opened();
    for (size_t i = 0; i < 8; i++) {
        cr_expect(right_by(b, families[i / 2], &shapes[i % 2]), "%zu", i);
    }
    device_close(b);
}

/* {n, h, w, in, out, kh, kw, stride, dilation, pad before, pad after, groups, act} */
static const struct cross_conv rows[] = {
    {2, 9, 9, 16, 33, 3, 3, 1, 1, 1, 1, 1, ACT_NONE},  {1, 15, 13, 3, 24, 3, 3, 2, 1, 1, 1, 1, ACT_CLAMP},
    {1, 8, 8, 32, 64, 3, 3, 1, 2, 1, 1, 2, ACT_LEAKY}, {1, 14, 14, 32, 64, 1, 1, 1, 1, 0, 0, 1, ACT_CLAMP},
    {1, 9, 9, 12, 12, 3, 3, 1, 1, 1, 1, 12, ACT_NONE}, {1, 9, 9, 16, 20, 3, 3, 1, 1, 1, 1, 1, ACT_HARDSWISH},
};

Test(vulkan_bf16, convolutions, .timeout = 300)
{
    struct backend *b = opened();
    const unsigned before = vk_backend_products(b, VK_FAMILY_CM), others = vk_backend_products(b, VK_FAMILY_SIMPLE);
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    cross_ask(PEN_PRECISION_BF16, PEN_ISA_ANY, GRID);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cross_conv_check(&rows[i], true, true);
    }
    cr_expect_eq(vk_backend_products(b, VK_FAMILY_CM), before + 5, "channels alone are no product");
    cr_expect_eq(vk_backend_products(b, VK_FAMILY_SIMPLE), others);
    cross_conv_check(&rows[0], false, true);
    cr_expect_gt(vk_backend_products(b, VK_FAMILY_SIMPLE), others, "weights that are computed stay f32");
    device_close(b);
}

#define SIDE 16

/* x times the identity: what comes out is what x was rounded to. */
static void rounds(struct backend *b, const float *x, size_t count)
{
    float identity[SIDE * SIDE] = {0}, y[8 * SIDE];
    const struct shape square = shape_of(2, (int64_t[]){SIDE, SIDE}),
                       all = shape_of(2, (int64_t[]){(int64_t)(count / SIDE), SIDE});
    const struct vk_single_value in[2] = {{PEN_DTYPE_F32, all, NULL}, {PEN_DTYPE_F32, square, identity}},
                                 out = {PEN_DTYPE_F32, all, NULL};
    const void *data = x;
    struct vk_single single;
    struct pen_error error = {0};
    for (size_t i = 0; i < SIDE; i++) {
        identity[i * SIDE + i] = 1.0f;
    }
    cr_assert_leq(count, sizeof y / sizeof y[0]);
    cr_assert_eq(vk_single_node(b, OP_MatMul, in, 2, &out, NULL, &single, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(vk_single_run(&single, &data, y, &error), PEN_OK, "%s", error.text);
    vk_single_fini(&single);
    for (size_t i = 0; i < count; i++) {
        const float wanted = pen_bf16_to_f32(pen_f32_to_bf16(x[i]));
        cr_expect(isnan(x[i / SIDE * SIDE]) ? isnan(y[i]) : y[i] == wanted, "%a became %a, not %a", (double)x[i],
                  (double)y[i], (double)wanted);
    }
}

/* Ties and their neighbours, numbers far beyond f16; a row that begins with NaN is NaN. */
Test(vulkan_bf16, rows_are_rounded_to_nearest_even, .timeout = 100)
{
    static const uint32_t nan = 0x7F800001u; /* whose upper half is an infinity's */
    float x[8 * SIDE];
    struct backend *b = opened();
    for (uint32_t i = 0; i < 8 * SIDE; i++) {
        const uint32_t bits = 0x3F800000u + (i * 0x01370000u) % 0x3F000000u +
                              (i % 4 == 0   ? 0x8000u
                               : i % 4 == 1 ? 0x7FFFu
                               : i % 4 == 2 ? 0x8001u
                                            : 0x18000u);
        memcpy(&x[i], &bits, sizeof bits);
        x[i] = i % 3 == 0 ? -x[i] : x[i];
    }
    memcpy(&x[7 * SIDE], &nan, sizeof nan);
    rounds(b, x, 8 * SIDE);
    device_close(b);
}

Test(vulkan_bf16, weights_take_two_bytes, .timeout = 100)
{
    uint64_t bytes[2];
    struct pen_error error = {0};
    const struct vk_product_shape shape = {VK_PRODUCT_MATRIX, 8, 512, 512, 1};
    for (int i = 0; i < 2; i++) {
        struct backend *b = i == 0 ? opened() : device_open(PEN_PRECISION_F32, "simple");
        struct vk_single single;
        struct vk_weights *w = NULL;
        cr_assert_eq(vk_single_product(b, &shape, &single, &error), PEN_OK, "%s", error.text);
        cr_assert_eq(vk_plan_weights(single.plan, &w, &error), PEN_OK, "%s", error.text);
        bytes[i] = w->packed[0][0].slice.bytes;
        vk_weights_release(w);
        vk_single_fini(&single);
        device_close(b);
    }
    cr_expect_eq(2 * bytes[0], bytes[1]);
}

/* The projection of Microsoft's Attention is a product like others; attention itself computes in f32. */
Test(vulkan_bf16, projections_of_attention, .timeout = 300)
{
    struct backend *b = opened();
    cross_backend(&backend_vulkan, b, 2e-2, 2e-2);
    struct cross *c = cross_new(OP_MsAttention);
    cross_range(c, -0.5f, 0.5f);
    cross_input(c, PEN_DTYPE_F32, 3, (int64_t[]){2, 20, 32}, false);
    cross_input(c, PEN_DTYPE_F32, 2, (int64_t[]){32, 3 * 32}, true);
    cross_input(c, PEN_DTYPE_F32, 1, (int64_t[]){3 * 32}, true);
    cross_int(c, ATTR_num_heads, 2);
    cross_check(c);
    cr_expect_eq(vk_backend_products(b, VK_FAMILY_CM), 1);
    device_close(b);
}

/* The stand-in is for tests that ask for it by name; a device without the matrices does not offer the precision. */
Test(vulkan_bf16, it_is_refused_where_there_are_no_matrices)
{
    struct backend_config config = device_config(PEN_PRECISION_BF16, "auto");
    struct backend_caps caps;
    struct backend *b = NULL;
    struct pen_error error = {0};
    device_close(device_open(PEN_PRECISION_F32, "simple"));
    cr_assert_eq(backend_vulkan.probe(&config, &caps), PEN_OK);
    if ((caps.precisions & 1u << PEN_PRECISION_BF16) != 0) {
        cr_skip_test("this device has matrices of bf16");
    }
    cr_expect_eq(backend_vulkan.open(&config, &b, &error), PEN_ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(error.text, "has not what this precision needs"), "%s", error.text);
}
