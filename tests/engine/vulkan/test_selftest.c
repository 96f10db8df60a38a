#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "../xnnpack/cross.h"
#include "backend/vulkan/loader.h"
#include "backend/vulkan/plan.h"
#include "backend/vulkan/verdicts.h"
#include "device.h"

/* What the self-test says of each family, and what becomes of one that a driver computes wrong: results are spoilt as they come from the device. */

static const char *spoilt[2]; /* kernels whose results are wrong */

static void spoil(const char *kernels, void *result, size_t bytes)
{
    for (size_t i = 0; i < 2; i++) {
        const bool all = spoilt[i] != NULL && spoilt[i][strlen(spoilt[i]) - 1] == '_'; /* of that beginning */
        if (spoilt[i] != NULL &&
            (all ? strncmp(kernels, spoilt[i], strlen(spoilt[i])) : strcmp(kernels, spoilt[i])) == 0) {
            ((uint8_t *)result)[bytes - 1] ^= 0x40; /* of the last element only */
        }
    }
}

static struct facts {
    char text[4096];
} facts;

static void fact_add(void *context, const char *name, const char *value)
{
    struct facts *f = context;
    size_t used = strlen(f->text);
    snprintf(f->text + used, sizeof f->text - used, "%s=%s\n", name, value);
}

static bool said(const char *name, const char *value)
{
    char line[120];
    snprintf(line, sizeof line, "selftest.vulkan.%s=%s", name, value);
    return strstr(facts.text, line) != NULL;
}

static enum pen_status open_spoilt(enum pen_precision precision, const char *kernels, const char *first,
                                   const char *second, struct backend **ret_backend)
{
    struct backend_config config = device_config(precision, kernels);
    struct pen_error error = {0};
    spoilt[0] = first;
    spoilt[1] = second;
    facts.text[0] = '\0';
    vk_selftest_seam(true, spoil);
    enum pen_status status = backend_vulkan.open(&config, ret_backend, &error);
    vk_selftest_seam(false, NULL);
    if (status == PEN_OK) {
        backend_vulkan.describe(*ret_backend, fact_add, &facts);
    } else {
        cr_expect(strstr(error.text, "computes wrong") != NULL || strstr(error.text, "do not run") != NULL, "%s",
                  error.text);
    }
    return status;
}

static void device_needed(void)
{
    device_close(device_open(PEN_PRECISION_F32, "simple"));
}

/* True when the device multiplies four bytes at once. */
static bool device_has_dot(enum pen_precision precision)
{
    struct backend *b = device_open(precision, "simple");
    bool dot = vk_backend_bytes_dot(b, true);
    device_close(b);
    return dot;
}

static const char *const floats[] = {"simple",       "tiled",       "gemv",         "split",     "window_simple",
                                     "window_tiled", "window_gemv", "window_split", "depthwise", "pools",
                                     "nbits_simple", "nbits_tiled", "nbits_gemv"};
static const char *const bytes[] = {"bytes_simple",     "bytes_tiled",     "bytes_gemv",
                                    "bytes_simple_dot", "bytes_tiled_dot", "bytes_gemv_dot",
                                    "bytes_depthwise",  "bytes_rounding",  "bytes_cm"};

Test(vulkan_selftest, every_family_is_tried_in_every_precision, .timeout = 300)
{
    static const enum pen_precision precisions[] = {PEN_PRECISION_F32, PEN_PRECISION_F16_STORAGE,
                                                    PEN_PRECISION_F16_MATH, PEN_PRECISION_INT8};
    for (size_t p = 0; p < sizeof precisions / sizeof precisions[0]; p++) {
        bool dot = device_has_dot(precisions[p]);
        struct backend *b = NULL;
        cr_assert_eq(open_spoilt(precisions[p], "auto", NULL, NULL, &b), PEN_OK);
        for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
            cr_expect(said(floats[i], "ok"), "%s in\n%s", floats[i], facts.text);
        }
        cr_expect_eq(said("winograd", "ok"), p == 0 || p == 3, "it is for f32:\n%s", facts.text);
        for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
            bool there = dot || strstr(bytes[i], "dot") == NULL;
            bool halves = p == 1 || p == 2; /* rounding is tried where floats are f32 */
            there = there && !(halves && strcmp(bytes[i], "bytes_rounding") == 0);
            there = there && (b->kernels.cm_bytes || strcmp(bytes[i], "bytes_cm") != 0);
            cr_expect_eq(said(bytes[i], "ok"), there, "%s in\n%s", bytes[i], facts.text);
        }
        device_close(b);
    }
}

Test(vulkan_selftest, a_wrong_family_is_left_out_and_said, .timeout = 300)
{
    static const struct {
        enum pen_precision precision;
        const char *family;
    } rows[] = {{PEN_PRECISION_F32, "tiled"}, {PEN_PRECISION_F16_MATH, "cm"}, {PEN_PRECISION_BF16, "cm"}};
    struct backend *b = NULL;
    device_needed();
    cr_assert_eq(open_spoilt(PEN_PRECISION_F32, "auto", "tiled", NULL, &b), PEN_OK);
    cr_expect(said("tiled", "wrong, not used: off by "), "%s", facts.text);
    cr_expect(said("simple", "ok") && said("gemv", "ok") && said("split", "ok"));
    device_close(b);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) { /* asked for by name */
        cr_assert_eq(open_spoilt(rows[i].precision, rows[i].family, NULL, NULL, &b), PEN_OK);
        cr_expect(said(rows[i].family, "ok") && strstr(facts.text, "not used") == NULL, "%s", facts.text);
        device_close(b);
        cr_expect_eq(open_spoilt(rows[i].precision, rows[i].family, rows[i].family, NULL, &b), PEN_ERR_UNAVAILABLE);
    }
    cr_expect_eq(open_spoilt(PEN_PRECISION_F16_STORAGE, "auto", "simple", NULL, &b), PEN_ERR_UNAVAILABLE);
}

static const char *failing; /* kernels that do not run */

static enum pen_status fails(const char *kernels)
{
    return strcmp(kernels, failing) == 0 ? PEN_ERR_INTERNAL : PEN_OK;
}

/* What a driver does not compile is left out like what it computes wrong; without the simple family there is nothing. */
Test(vulkan_selftest, a_family_that_does_not_run_is_left_out_and_said, .timeout = 300)
{
    struct backend *b = NULL;
    device_needed();
    failing = "tiled";
    vk_selftest_faults(fails);
    cr_assert_eq(open_spoilt(PEN_PRECISION_F32, "auto", NULL, NULL, &b), PEN_OK);
    cr_expect(said("tiled", "wrong, not used: the driver does not run them"), "%s", facts.text);
    cr_expect(said("simple", "ok") && said("gemv", "ok") && said("split", "ok"), "%s", facts.text);
    device_close(b);
    failing = "simple";
    cr_expect_neq(open_spoilt(PEN_PRECISION_F32, "auto", NULL, NULL, &b), PEN_OK);
    vk_selftest_faults(NULL);
}

static const char *const never_run[] = {"window_tiled", "depthwise",       "pools",         "nbits_gemv",
                                        "bytes_tiled",  "bytes_tiled_dot", "bytes_rounding"};

static enum pen_status several_fail(const char *kernels)
{
    for (size_t i = 0; i < sizeof never_run / sizeof never_run[0]; i++) {
        if (strcmp(kernels, never_run[i]) == 0) {
            return PEN_ERR_INTERNAL;
        }
    }
    return PEN_OK;
}

/* Windows, pools, codes and bytes are no different. */
Test(vulkan_selftest, operators_that_do_not_run_are_left_out_and_said, .timeout = 300)
{
    const bool dot = device_has_dot(PEN_PRECISION_F32);
    struct backend *b = NULL;
    vk_selftest_faults(several_fail);
    cr_assert_eq(open_spoilt(PEN_PRECISION_F32, "auto", NULL, NULL, &b), PEN_OK);
    for (size_t i = 0; i < sizeof never_run / sizeof never_run[0]; i++) {
        cr_expect(said(never_run[i], "wrong, not used: the driver does not run them") ||
                      (!dot && strstr(never_run[i], "dot") != NULL),
                  "%s in\n%s", never_run[i], facts.text);
    }
    cr_expect(said("window_simple", "ok") && said("nbits_simple", "ok") && said("bytes_simple", "ok"), "%s",
              facts.text);
    cr_expect_eq(b->kernels.windows_off, 1u << VK_FAMILY_TILED);
    cr_expect_eq(b->kernels.codes_off, 1u << VK_FAMILY_GEMV);
    cr_expect_eq(b->kernels.ops_off, (uint32_t)(VK_OFF_DEPTHWISE | VK_OFF_POOLS));
    cr_expect(b->bytes_wrong && (b->kernels.bytes_off & vk_bytes_bit(VK_FAMILY_TILED, false)) != 0);
    device_close(b);
    vk_selftest_faults(NULL);
}

static enum pen_status codes_lose(const char *kernels)
{
    return strcmp(kernels, "nbits_tiled") == 0 ? PEN_ERR_DEVICE_LOST : PEN_OK;
}

/* Without that family codes are tested all the same: it is not opened again and again. */
Test(vulkan_selftest, a_device_that_is_lost_again_is_refused, .timeout = 300)
{
    struct backend *b = NULL;
    device_needed();
    vk_selftest_faults(codes_lose);
    cr_expect_eq(open_spoilt(PEN_PRECISION_F32, "auto", NULL, NULL, &b), PEN_ERR_DEVICE_LOST);
    vk_selftest_faults(NULL);
}

/* The device is lost whenever tiles are tested; a family that comes later is lost with it once. */
static enum pen_status tiles_lose(const char *kernels)
{
    static bool once;
    const bool split = strcmp(kernels, "split") == 0, now = strcmp(kernels, "tiled") == 0 || (split && !once);
    once = once || split;
    return now ? PEN_ERR_DEVICE_LOST : PEN_OK;
}

/* It is opened again without the families whose kernels it does not survive; when one was asked for by name it is refused. */
Test(vulkan_selftest, a_device_that_is_lost_in_a_test_is_used_without_that_family, .timeout = 300)
{
    struct backend *b = NULL;
    device_needed();
    vk_selftest_faults(tiles_lose);
    cr_assert_eq(open_spoilt(PEN_PRECISION_F32, "auto", NULL, NULL, &b), PEN_OK);
    cr_expect(said("split", "wrong, not used: the device was lost in its test"), "%s", facts.text);
    cr_expect(said("tiled", "wrong, not used: the device was lost in its test"), "%s", facts.text);
    cr_expect(said("simple", "ok") && said("gemv", "ok"), "%s", facts.text);
    cr_expect_eq(b->kernels.families_off, 1u << VK_FAMILY_TILED | 1u << VK_FAMILY_SPLIT);
    device_close(b);
    cr_expect_neq(open_spoilt(PEN_PRECISION_F32, "tiled", NULL, NULL, &b), PEN_OK);
    vk_selftest_faults(NULL);
}

/* Family `cm2`: one tile is left out and named, the others stay; where all are wrong the family goes, and is refused when it was asked for. */
Test(vulkan_selftest, a_wrong_tile_is_left_out_and_said, .timeout = 300)
{
    struct backend *b = NULL;
    device_close(device_open(PEN_PRECISION_F16_MATH, "cm2"));
    cr_assert_eq(open_spoilt(PEN_PRECISION_F16_MATH, "cm2", NULL, NULL, &b), PEN_OK);
    cr_expect(said("cm2", "ok") && strstr(facts.text, "cm2_") == NULL, "%s", facts.text);
    cr_expect_eq(b->kernels.cm2_off, 0u);
    const bool several = b->kernels.cm2_side_most > 64; /* one tile alone where matrices of a subgroup stand in */
    device_close(b);
    if (several) {
        cr_assert_eq(open_spoilt(PEN_PRECISION_F16_MATH, "cm2", "cm2_64x64x64", NULL, &b), PEN_OK);
        cr_expect(said("cm2_64x64x64", "wrong, not used: off by "), "%s", facts.text);
        cr_expect(said("cm2", "ok") && b->kernels.cm2_off == 1u << 5, "%s", facts.text);
        device_close(b);
    }
    cr_expect_eq(open_spoilt(PEN_PRECISION_F16_MATH, "cm2", several ? "cm2_" : "cm2_16x32x8", NULL, &b),
                 PEN_ERR_UNAVAILABLE);
}

static void conv(int64_t kernel, int64_t groups, bool refused)
{
    struct cross *c = cross_new(OP_Conv);
    cross_input(c, PEN_DTYPE_F32, 4, (int64_t[]){1, 12, 10, 8}, false);
    cross_input(c, PEN_DTYPE_F32, 4, (int64_t[]){8, kernel, kernel, 8 / groups}, true);
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_int(c, ATTR_weight_layout, WEIGHT_OHWI);
    cross_int(c, ATTR_group, groups);
    cross_ints(c, ATTR_pads, 4, (int64_t[]){1, 1, 1, 1});
    (refused ? cross_refused : cross_check)(c);
}

static void pooled(enum op op, bool refused)
{
    struct cross *c = cross_new(op);
    cross_input(c, PEN_DTYPE_F32, 4, (int64_t[]){1, 9, 9, 6}, false);
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_ints(c, ATTR_kernel_shape, 2, (int64_t[]){2, 2});
    (refused ? cross_refused : cross_check)(c);
}

static void few_bits(bool refused)
{
    static float scales[24];
    struct cross *c = cross_new(OP_MatMulNBits);
    for (int i = 0; i < 24; i++) {
        scales[i] = 0.01f * (float)(i + 1);
    }
    cross_input(c, PEN_DTYPE_F32, 2, (int64_t[]){2, 64}, false);
    cross_input(c, PEN_DTYPE_U8, 3, (int64_t[]){12, 2, 16}, true);
    cross_data(c, PEN_DTYPE_F32, 1, (int64_t[]){24}, scales, true);
    cross_int(c, ATTR_K, 64);
    cross_int(c, ATTR_N, 12);
    cross_int(c, ATTR_bits, 4);
    cross_int(c, ATTR_block_size, 32);
    (refused ? cross_refused : cross_check)(c);
}

static struct backend *open_wrong(const char *name)
{
    struct backend *b = NULL;
    cr_assert_eq(open_spoilt(PEN_PRECISION_F32, "auto", name, NULL, &b), PEN_OK);
    cr_expect(said(name, "wrong, not used: off by "), "%s in\n%s", name, facts.text);
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    return b;
}

/* An operator that a device computes wrong by every kernel is another backend's; of several kernels the others run it. */
Test(vulkan_selftest, wrong_operators_go_another_way, .timeout = 300)
{
    static const char *const plain[] = {"window_simple", "depthwise", "pools", "nbits_simple"};
    device_needed();
    for (int i = 0; i < 4; i++) {
        struct backend *b = open_wrong(plain[i]);
        conv(3, 1, i == 0);
        conv(3, 8, i == 1);
        pooled(OP_MaxPool, i == 2);
        pooled(OP_AveragePool, i == 2);
        few_bits(i == 3);
        device_close(b);
    }
}

Test(vulkan_selftest, wrong_kernels_leave_others, .timeout = 300)
{
    const struct vk_product_shape window = {VK_PRODUCT_WINDOW, 128, 128, 256, 1},
                                  matrix = {VK_PRODUCT_MATRIX, 128, 128, 256, 1};
    device_needed();
    struct backend *b = open_wrong("window_tiled");
    b->kernels.device = VK_CLASS_NVIDIA;
    cr_expect_eq(vk_choose(&b->kernels, &window).family, VK_FAMILY_SIMPLE);
    cr_expect_eq(vk_choose(&b->kernels, &matrix).family, VK_FAMILY_TILED, "products of matrices are right");
    device_close(b);
    b = open_wrong("nbits_gemv");
    b->kernels.only = VK_FAMILY_GEMV;
    few_bits(false);
    cr_expect_eq(b->kernels.codes_off, 1u << VK_FAMILY_GEMV);
    device_close(b);
    b = open_wrong("winograd");
    b->kernels.conv = VK_CONV_WINOGRAD;
    conv(3, 1, false);
    cr_expect_eq(vk_backend_winograds(b), 0u);
    b->kernels.ops_off = 0;
    conv(3, 1, false);
    cr_expect_gt(vk_backend_winograds(b), 0u);
    device_close(b);
}

static void product_of_bytes(bool refused)
{
    static const float scale = 0.02f;
    struct cross *c = cross_new(OP_QLinearMatMul);
    cross_input(c, PEN_DTYPE_U8, 2, (int64_t[]){20, 30}, false);
    for (int i = 0; i < 3; i++) {
        cross_data(c, PEN_DTYPE_F32, 0, NULL, &scale, true);
        cross_data(c, PEN_DTYPE_U8, 0, NULL, "\x05", true);
        if (i == 0) {
            cross_input(c, PEN_DTYPE_U8, 2, (int64_t[]){30, 9}, true);
        }
    }
    (refused ? cross_refused : cross_check)(c);
}

Test(vulkan_selftest, wrong_matrices_of_codes_leave_others, .timeout = 600)
{
    struct backend *b = NULL;
    device_needed();
    for (int wrong = 0; wrong < 2; wrong++) {
        cr_assert_eq(open_spoilt(PEN_PRECISION_F16_MATH, "cm", wrong ? "nbits_cm" : NULL, NULL, &b), PEN_OK);
        cr_expect(said("nbits_cm", wrong ? "wrong, not used: off by " : "ok"), "%s", facts.text);
        cross_backend(&backend_vulkan, b, 2e-3, 5e-2);
        few_bits(false);
        cr_expect_eq(vk_backend_products(b, VK_FAMILY_CM), wrong ? 0 : 1);
        device_close(b);
    }
}

static void one_attention(void)
{
    struct cross *c = cross_new(OP_Attention);
    for (int i = 0; i < 3; i++) {
        cross_input(c, PEN_DTYPE_F32, 4, (int64_t[]){1, 2, 20, 16}, false);
    }
    cross_check(c);
}

/* Attention by matrices that is wrong, or does not run, leaves the kernel without them. */
Test(vulkan_selftest, wrong_attention_leaves_the_kernel_without_matrices, .timeout = 600)
{
    static const char *const words[] = {"ok", "wrong, not used: off by ",
                                        "wrong, not used: the driver does not run them"};
    struct backend *b = NULL;
    device_needed();
    failing = "attention_cm";
    for (int wrong = 0; wrong < 3; wrong++) {
        vk_selftest_faults(wrong == 2 ? fails : NULL);
        cr_assert_eq(open_spoilt(PEN_PRECISION_F16_MATH, "cm", wrong == 1 ? "attention_cm" : NULL, NULL, &b), PEN_OK);
        cr_expect(said("attention_cm", words[wrong]), "%s", facts.text);
        cross_backend(&backend_vulkan, b, 2e-3, 5e-2);
        one_attention();
        cr_expect_eq(vk_backend_attention_matrices(b), wrong ? 0 : 1);
        device_close(b);
    }
    vk_selftest_faults(NULL);
}

/* By the loops that stand in for the matrices, which only who asks for them has. */
Test(vulkan_selftest, wrong_matrices_of_bytes_leave_others, .timeout = 600)
{
    const struct vk_product_shape shape = {VK_PRODUCT_MATRIX, 128, 128, 256, 1};
    struct backend *b = NULL;
    struct vk_kernels k;
    device_needed();
    cr_assert_eq(open_spoilt(PEN_PRECISION_INT8, "cm", NULL, NULL, &b), PEN_OK);
    cr_expect(said("bytes_cm", "ok"), "%s", facts.text);
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    product_of_bytes(false);
    cr_expect_gt(vk_backend_bytes_matrices(b), 0);
    b->kernels.device = VK_CLASS_NVIDIA;
    b->kernels.only = VK_FAMILY_AUTO;
    b->kernels.cm2 = true;
    vk_kernels_of_bytes(b, &k);
    cr_expect_eq(vk_choose(&k, &shape).family, VK_FAMILY_CM);
    cr_expect_not(k.cm2, "matrices of a workgroup are of floats");
    device_close(b);
    cr_assert_eq(open_spoilt(PEN_PRECISION_INT8, "cm", "bytes_cm", NULL, &b), PEN_OK);
    cr_expect(said("bytes_cm", "wrong, not used: "), "%s", facts.text);
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    product_of_bytes(false);
    cr_expect_eq(vk_backend_bytes_matrices(b), 0);
    b->kernels.device = VK_CLASS_NVIDIA;
    b->kernels.only = VK_FAMILY_AUTO;
    vk_kernels_of_bytes(b, &k);
    cr_expect_eq(vk_choose(&k, &shape).family, VK_FAMILY_TILED);
    device_close(b);
}

/* Rules go on to the next family. */
Test(vulkan_selftest, rules_pass_by_what_is_left_out)
{
    const struct vk_product_shape shape = {VK_PRODUCT_MATRIX, 128, 128, 256, 1};
    struct vk_kernels k = {.device = VK_CLASS_NVIDIA};
    cr_expect_eq(vk_choose(&k, &shape).family, VK_FAMILY_TILED);
    k.families_off = 1u << VK_FAMILY_TILED;
    cr_expect_eq(vk_choose(&k, &shape).family, VK_FAMILY_SIMPLE);
    k.tuned[vk_class_of(&shape)] = VK_FAMILY_TILED;
    cr_expect_eq(vk_choose(&k, &shape).family, VK_FAMILY_SIMPLE, "a table from another driver");
}

Test(vulkan_selftest, wrong_products_of_bytes_go_another_way, .timeout = 300)
{
    struct backend *b = NULL;
    bool dot = device_has_dot(PEN_PRECISION_F32);
    if (dot) { /* plain kernels stand in */
        cr_assert_eq(open_spoilt(PEN_PRECISION_INT8, "auto", "bytes_simple_dot", NULL, &b), PEN_OK);
        cr_expect(said("bytes_simple_dot", "wrong, not used: "), "%s", facts.text);
        cr_expect(said("bytes_simple", "ok"));
        cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
        product_of_bytes(false);
        cr_expect_eq(vk_backend_bytes_products(b, true), 0);
        cr_expect_gt(vk_backend_bytes_products(b, false), 0);
        device_close(b);
    }
    cr_assert_eq(open_spoilt(PEN_PRECISION_F32, "auto", "bytes_simple_dot", "bytes_simple", &b), PEN_OK);
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    product_of_bytes(true); /* another backend's */
    device_close(b);
    cr_expect_eq(open_spoilt(PEN_PRECISION_INT8, "auto", "bytes_simple_dot", "bytes_simple", &b), PEN_ERR_UNAVAILABLE);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(open_spoilt(PEN_PRECISION_INT8, "auto", i == 0 ? "bytes_depthwise" : "bytes_rounding", NULL, &b),
                     PEN_ERR_UNAVAILABLE);
    }
}

/* What is not offered is not in the list of precisions either. */
Test(vulkan_selftest, a_wrong_precision_is_not_offered)
{
    struct backend_config config = device_config(PEN_PRECISION_ANY, "auto");
    struct backend_caps caps = {0};
    device_needed();
    spoilt[0] = "bytes_simple_dot";
    spoilt[1] = "bytes_simple";
    vk_selftest_seam(false, spoil);
    cr_assert_eq(backend_vulkan.probe(&config, &caps), PEN_OK);
    vk_selftest_seam(false, NULL);
    cr_expect_eq(caps.precisions & 1u << PEN_PRECISION_INT8, 0);
    cr_expect_neq(caps.precisions & 1u << PEN_PRECISION_F16_STORAGE, 0);
    cr_assert_eq(backend_vulkan.probe(&config, &caps), PEN_OK);
    cr_expect_neq(caps.precisions & 1u << PEN_PRECISION_INT8, 0);
}
