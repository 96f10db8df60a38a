#include <criterion/criterion.h>

#include "../xnnpack/cross.h"
#include "device.h"

#define F32 PEN_DTYPE_F32

struct shape_row {
    int64_t batch, h, w, c, out, kernel_h, kernel_w, groups, stride, pad, dilation;
    bool bias, constant;
    int64_t layout; /* of the weights */
};

static const struct shape_row rows[] = {
    {1, 9, 8, 3, 8, 3, 3, 1, 2, 1, 1, true, true, WEIGHT_OIHW},
    {2, 7, 7, 16, 24, 1, 1, 1, 1, 0, 1, true, true, WEIGHT_OHWI},
    {1, 30, 33, 32, 70, 1, 1, 1, 1, 0, 1, false, true, WEIGHT_HWIO},
    {1, 12, 11, 20, 36, 3, 3, 1, 1, 1, 2, true, true, WEIGHT_OIHW},
    {1, 10, 10, 12, 18, 3, 2, 3, 1, 1, 1, true, true, WEIGHT_OIHW},
    {1, 11, 9, 16, 16, 3, 3, 16, 1, 1, 1, true, true, WEIGHT_OIHW},
    {2, 11, 9, 13, 13, 5, 3, 13, 2, 1, 1, false, true, WEIGHT_OIHW},
    {1, 8, 8, 8, 16, 3, 3, 8, 1, 1, 1, true, true, WEIGHT_OIHW},
    {1, 9, 9, 8, 12, 3, 3, 1, 1, 1, 1, true, false, WEIGHT_OIHW},
    {1, 9, 9, 6, 6, 3, 3, 6, 1, 1, 1, true, false, WEIGHT_OIHW},
    {1, 7, 6, 40, 20, 3, 3, 1, 1, 1, 1, true, true, WEIGHT_OIHW}, /* deep: split has pieces of 360 */
    {1, 6, 6, 66, 38, 3, 3, 2, 2, 1, 1, true, true, WEIGHT_OIHW},
    {1, 13, 12, 16, 136, 3, 3, 1, 1, 1, 1, true, true, WEIGHT_OIHW}, /* large tiles of family cm, windows and */
    {1, 13, 12, 96, 72, 1, 1, 1, 1, 0, 1, true, true, WEIGHT_OIHW},  /* rows */
    {1, 5, 5, 70, 3, 5, 5, 1, 1, 0, 1, false, true, WEIGHT_OHWI},    /* one pixel, few outputs */
};

static void conv(const struct shape_row *r)
{
    int64_t in = r->c / r->groups;
    const int64_t oihw[4] = {r->out, in, r->kernel_h, r->kernel_w}, ohwi[4] = {r->out, r->kernel_h, r->kernel_w, in},
                  hwio[4] = {r->kernel_h, r->kernel_w, in, r->out};
    struct cross *c = cross_new(OP_Conv);
    cross_input(c, F32, 4, (int64_t[]){r->batch, r->h, r->w, r->c}, false);
    cross_range(c, -0.3f, 0.3f);
    cross_input(c, F32, 4, r->layout == WEIGHT_OHWI ? ohwi : r->layout == WEIGHT_HWIO ? hwio : oihw, r->constant);
    if (r->bias) {
        cross_input(c, F32, 1, (int64_t[]){r->out}, r->constant);
    }
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_int(c, ATTR_weight_layout, r->layout);
    cross_int(c, ATTR_group, r->groups);
    cross_ints(c, ATTR_strides, 2, (int64_t[]){r->stride, r->stride});
    cross_ints(c, ATTR_dilations, 2, (int64_t[]){r->dilation, r->dilation});
    cross_ints(c, ATTR_pads, 4, (int64_t[]){r->pad, r->pad, r->pad, r->pad});
    cross_int(c, ATTR_act, ACT_CLAMP);
    cross_float(c, ATTR_act_min, 0.0f);
    cross_float(c, ATTR_act_max, 6.0f);
    cross_check(c);
}

static void conv_rows(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        conv(&rows[i]);
    }
}

Test(vulkan_conv, shapes_layouts_groups, .timeout = 300)
{
    device_products(conv_rows);
}

/* Even and odd sizes, images smaller than a tile, wide padding, fours or not, a batch that runs in pieces; then those that it does not take. */
static void winograd_rows(struct backend *b)
{
    static const struct shape_row taken[] = {
        {1, 8, 8, 8, 16, 3, 3, 1, 1, 1, 1, true, true, WEIGHT_OIHW},
        {2, 7, 9, 5, 7, 3, 3, 1, 1, 1, 1, true, true, WEIGHT_OHWI},
        {3, 5, 4, 3, 70, 3, 3, 1, 1, 0, 1, false, true, WEIGHT_HWIO},
        {1, 3, 3, 1, 1, 3, 3, 1, 1, 0, 1, true, true, WEIGHT_OIHW},
        {1, 1, 1, 12, 4, 3, 3, 1, 1, 2, 1, true, true, WEIGHT_OIHW},
        {1, 13, 12, 66, 130, 3, 3, 1, 1, 1, 1, true, true, WEIGHT_OIHW},
        {9, 32, 32, 512, 4, 3, 3, 1, 1, 1, 1, true, true, WEIGHT_OIHW},
    };
    static const struct shape_row others[] = {
        {1, 9, 8, 3, 8, 3, 3, 1, 2, 1, 1, true, true, WEIGHT_OIHW},
        {1, 12, 11, 20, 36, 3, 3, 1, 1, 1, 2, true, true, WEIGHT_OIHW},
        {1, 8, 8, 8, 16, 3, 3, 8, 1, 1, 1, true, true, WEIGHT_OIHW},
        {1, 9, 9, 8, 12, 3, 3, 1, 1, 1, 1, true, false, WEIGHT_OIHW},
        {1, 11, 9, 16, 16, 3, 3, 16, 1, 1, 1, true, true, WEIGHT_OIHW},
        {1, 10, 10, 12, 18, 3, 2, 1, 1, 1, 1, true, true, WEIGHT_OIHW},
    };
    unsigned before = vk_backend_winograds(b);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        conv(&taken[i]);
        cr_expect_gt(vk_backend_winograds(b), before, "row %zu", i);
        before = vk_backend_winograds(b);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        conv(&others[i]);
        cr_expect_eq(vk_backend_winograds(b), before, "row %zu is done otherwise", i);
    }
}

Test(vulkan_conv, winograd, .timeout = 300)
{
    device_convs("winograd", winograd_rows);
}

static void gemm_rows(void)
{
    static const int64_t sizes[][3] = {{1, 33, 50},   {5, 64, 10},   {70, 40, 68},
                                       {130, 17, 33}, {1, 1000, 41}, {66, 300, 3}};
    for (size_t i = 0; i < 4 * sizeof sizes / sizeof sizes[0]; i++) {
        const int64_t *s = sizes[i / 4];
        bool ta = i & 1, tb = i & 2;
        struct cross *c = cross_new(OP_Gemm);
        cross_range(c, s[1] > 100 ? -0.3f : -1.0f, s[1] > 100 ? 0.3f : 1.0f); /* operands rounded to f16 add up */
        cross_input(c, F32, 2, (int64_t[]){ta ? s[1] : s[0], ta ? s[0] : s[1]}, false);
        cross_input(c, F32, 2, (int64_t[]){tb ? s[2] : s[1], tb ? s[1] : s[2]}, i % 3 != 0);
        cross_input(c, F32, 2, (int64_t[]){i % 4 == 3 ? s[0] : 1, s[2]}, i % 4 != 2);
        cross_int(c, ATTR_transA, ta);
        cross_int(c, ATTR_transB, tb);
        cross_float(c, ATTR_alpha, 0.5f);
        cross_float(c, ATTR_beta, i % 2 ? 2.0f : 1.0f);
        cross_check(c);
    }
}

Test(vulkan_conv, gemm, .timeout = 300)
{
    device_products(gemm_rows);
}

static void matmul_rows(void)
{
    static const struct {
        int32_t ra, rb;
        int64_t a[4], b[4];
    } s[] = {
        {2, 2, {7, 20}, {20, 9}},
        {3, 2, {2, 40, 20}, {20, 33}},
        {3, 3, {3, 40, 33}, {3, 33, 50}},
        {4, 4, {2, 1, 66, 17}, {1, 3, 17, 70}},
        {4, 3, {2, 2, 5, 8}, {2, 8, 4}},
        {1, 2, {12}, {12, 6}},
        {2, 1, {6, 12}, {12}},
        {1, 1, {12}, {12}},
        {1, 3, {8}, {2, 8, 5}},
    };
    for (size_t i = 0; i < 2 * sizeof s / sizeof s[0]; i++) {
        size_t k = i / 2;
        struct cross *c = cross_new(OP_MatMul);
        cross_input(c, F32, s[k].ra, s[k].a, false);
        cross_input(c, F32, s[k].rb, s[k].b, i % 2);
        cross_check(c);
    }
}

Test(vulkan_conv, matmul, .timeout = 300)
{
    device_products(matmul_rows);
}
