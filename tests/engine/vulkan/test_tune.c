/* The table of tuned kernels: kept per device and precision, checked, and heard when a device is opened. The tool's side is in tests/e2e/test_vulkan.c. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/vulkan/plan.h"
#include "backend/vulkan/tune.h"
#include "backend/vulkan/verdicts.h"
#include "device.h"
#include "quantised.h"

static char dir[] = "/tmp/penstock-vulkan-tune-XXXXXX";

static void folder_make(void)
{
    cr_assert_not_null(mkdtemp(dir));
}

static void folder_drop(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    cr_assert_eq(system(command), 0);
}
TestSuite(vulkan_tune, .init = folder_make, .fini = folder_drop);

static const struct vk_product_shape shape = {VK_PRODUCT_MATRIX, 3, 40, 300, 1};

static struct vk_cache_key key_of(uint8_t id)
{
    struct vk_device_info info = {.uuid = {id, 2, 3}, .driver = 13, .driver_version = 5, .driver_info = "Mesa 22"};
    return vk_cache_key_of(&info);
}

Test(vulkan_tune, a_table_is_kept_per_device_and_precision)
{
    const struct vk_cache_key key = key_of(1), other = key_of(2);
    uint8_t tuned[VK_CLASSES] = {0}, read[VK_CLASSES];
    cr_assert_str_eq(vk_tune_load(NULL, &key, PEN_PRECISION_F32, read), "off");
    cr_assert_str_eq(vk_tune_load(dir, &key, PEN_PRECISION_F32, read), "none");
    tuned[7] = VK_FAMILY_SPLIT;
    cr_assert(vk_tune_store(dir, &key, PEN_PRECISION_F32, tuned));
    tuned[7] = VK_FAMILY_CM;
    cr_assert(vk_tune_store(dir, &key, PEN_PRECISION_F16_MMA, tuned));
    cr_assert_not(vk_tune_store(dir, &key, PEN_PRECISION_INT8, tuned));
    cr_assert_str_eq(vk_tune_load(dir, &key, PEN_PRECISION_F32, read), "hit");
    cr_assert_eq(read[7], VK_FAMILY_SPLIT, "what another precision has stays");
    cr_assert_str_eq(vk_tune_load(dir, &key, PEN_PRECISION_F16_MMA, read), "hit");
    cr_assert_eq(read[7], VK_FAMILY_CM);
    cr_assert_str_eq(vk_tune_load(dir, &other, PEN_PRECISION_F32, read), "none");
    cr_assert_eq(read[7], VK_FAMILY_AUTO);
}

Test(vulkan_tune, a_table_that_is_not_ours_is_a_miss)
{
    const struct vk_cache_key key = key_of(1), other = key_of(2);
    char path[4096], from[4096];
    uint8_t bad[3000], read[VK_CLASSES];
    memset(bad, VK_FAMILY_COUNT, sizeof bad);
    cr_assert(vk_cache_write(dir, VK_CACHE_TUNING, &key, bad, sizeof bad)); /* as long as no table is */
    cr_assert_str_eq(vk_tune_load(dir, &key, PEN_PRECISION_F32, read), "corrupt");
    const uint32_t classes = 400; /* as tables had before products of bytes were measured */
    memset(bad, 0, sizeof bad);
    memcpy(bad, &classes, sizeof classes);
    cr_assert(vk_cache_write(dir, VK_CACHE_TUNING, &key, bad, 4 + 4 * classes));
    cr_assert_str_eq(vk_tune_load(dir, &key, PEN_PRECISION_F32, read), "corrupt");
    memset(bad, VK_FAMILY_COUNT, sizeof bad);
    size_t bytes = 4 + 4 * VK_CLASSES; /* families that are none */
    cr_assert(vk_cache_write(dir, VK_CACHE_TUNING, &key, bad, bytes));
    cr_assert_str_eq(vk_tune_load(dir, &key, PEN_PRECISION_F32, read), "corrupt");
    for (size_t i = 0; i < VK_CLASSES; i++) {
        cr_assert_eq(read[i], VK_FAMILY_AUTO);
    }
    cr_assert(vk_cache_path(dir, VK_CACHE_TUNING, &key, path, sizeof path));
    cr_assert(vk_cache_path(dir, VK_CACHE_TUNING, &other, from, sizeof from));
    cr_assert_eq(rename(path, from), 0); /* another device's file under our name */
    cr_assert_str_eq(vk_tune_load(dir, &other, PEN_PRECISION_F32, read), "foreign");
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    fputs("broken", f);
    fclose(f);
    cr_assert_str_eq(vk_tune_load(dir, &key, PEN_PRECISION_F32, read), "corrupt");
}

static struct backend *opened(const char *want_tuned)
{
    struct backend_config config = device_config(PEN_PRECISION_F32, "auto");
    struct backend *b = NULL;
    struct pen_error error = {0};
    config.vulkan.cache_dir = dir;
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    cr_assert_str_eq(b->tuned, want_tuned);
    return b;
}

static void product(struct backend *b)
{
    struct cross *c = cross_new(OP_MatMul);
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    cross_range(c, -0.3f, 0.3f);
    cross_input(c, PEN_DTYPE_F32, 2, (int64_t[]){3, 300}, false);
    cross_input(c, PEN_DTYPE_F32, 2, (int64_t[]){300, 40}, true);
    cross_check(c);
}

static unsigned rows_said;
static enum vk_family by_rule; /* of the device that is here */
static uint32_t times_wanted = 4;

static void row_take(void *context, const struct pen_tune_row *row)
{
    (void)context;
    rows_said++;
    cr_assert_str_eq(row->by_rule, vk_family_name(by_rule));
    cr_assert_str_eq(row->shape, "3x40x300 in 1");
    cr_assert_eq(row->time_count, times_wanted);
    for (size_t i = 0; i < row->time_count; i++) {
        cr_assert_gt(row->times[i].us, 0.0);
    }
}

Test(vulkan_tune, a_device_is_opened_with_its_table, .timeout = 300)
{
    uint8_t tuned[VK_CLASSES] = {0};
    bool stored = false;
    struct pen_error error = {0};
    device_close(device_open(PEN_PRECISION_F32, "auto")); /* skips without a device */
    struct backend *b = opened("none");
    const struct vk_cache_key key = vk_cache_key_of(&b->device->info);
    by_rule = vk_choose(&b->kernels, &shape).family;
    cr_assert_eq(by_rule, b->kernels.device == VK_CLASS_SOFTWARE ? VK_FAMILY_SIMPLE : VK_FAMILY_GEMV);
    device_close(b);
    tuned[vk_class_of(&shape)] = VK_FAMILY_TILED;
    cr_assert(vk_tune_store(dir, &key, PEN_PRECISION_F32, tuned));
    b = opened("hit");
    cr_assert_eq(vk_choose(&b->kernels, &shape).family, VK_FAMILY_TILED);
    product(b);
    cr_assert_eq(vk_tune(b, 0, row_take, NULL, &stored, &error), PEN_OK, "%s", error.text);
    cr_assert(stored);
    cr_assert_eq(rows_said, 1, "%u classes are said, one was seen", rows_said);
    device_close(b);
    memset(tuned, VK_FAMILY_COUNT, sizeof tuned);
    cr_assert(vk_tune_store(dir, &key, PEN_PRECISION_F32, tuned));
    b = opened("corrupt");
    cr_assert_eq(vk_choose(&b->kernels, &shape).family, by_rule);
    product(b);
    device_close(b);
}

static void spoil_tiled(const char *kernels, void *result, size_t bytes)
{
    if (strcmp(kernels, "tiled") == 0) {
        ((float *)result)[bytes / sizeof(float) - 1] += 1.0f;
    }
}

static void row_without_tiled(void *context, const struct pen_tune_row *row)
{
    (void)context;
    rows_said++;
    cr_expect_eq(row->time_count, 3);
    for (size_t i = 0; i < row->time_count; i++) {
        cr_expect_str_neq(row->times[i].family, "tiled");
    }
    cr_assert_eq(row->wrong_count, 1);
    cr_expect_str_eq(row->wrong[0], "tiled");
    cr_expect_str_neq(row->chosen, "tiled");
}

Test(vulkan_tune, kernels_that_compute_wrong_are_left_out_and_named, .timeout = 300)
{
    bool stored = false;
    struct pen_error error = {0};
    device_close(device_open(PEN_PRECISION_F32, "auto")); /* skips without a device */
    struct backend *b = opened("none");
    product(b);
    vk_selftest_seam(false, spoil_tiled);
    const enum pen_status status = vk_tune(b, 0, row_without_tiled, NULL, &stored, &error);
    vk_selftest_seam(false, NULL);
    cr_assert_eq(status, PEN_OK, "%s", error.text);
    cr_assert_eq(rows_said, 1);
    device_close(b);
}

Test(vulkan_tune, floats_agree_within_a_share_of_the_largest_and_bytes_to_the_last_bit)
{
    struct vk_device device = {.form = SHADER_F32};
    const struct backend b = {.device = &device};
    const float want[3] = {100.0f, 0.0f, -1.0f};
    float got[3] = {100.0f, 0.009f, -1.0f};
    struct buffer_view floats = {.data = got, .bytes = sizeof got, .dtype = PEN_DTYPE_F32};
    cr_expect(vk_tune_agrees(&b, &floats, want));
    got[1] = 0.011f;
    cr_expect_not(vk_tune_agrees(&b, &floats, want));
    device.form = SHADER_F16;
    cr_expect(vk_tune_agrees(&b, &floats, want), "f16 may be further off");
    got[2] = NAN;
    cr_expect_not(vk_tune_agrees(&b, &floats, want), "kernels that wrote nothing");
    uint8_t bytes[2] = {1, 2};
    const uint8_t same[2] = {1, 2}, other[2] = {1, 3};
    const struct buffer_view u8 = {.data = bytes, .bytes = sizeof bytes, .dtype = PEN_DTYPE_U8};
    cr_expect(vk_tune_agrees(&b, &u8, same));
    cr_expect_not(vk_tune_agrees(&b, &u8, other));
}

static void codes(struct backend *b)
{
    struct cross *c = cross_new(OP_MatMulNBits);
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    cross_input(c, PEN_DTYPE_F32, 2, (int64_t[]){3, 300}, false);
    cross_input(c, PEN_DTYPE_U8, 3, (int64_t[]){40, 10, 16}, true);
    cross_range(c, 0.0002f, 0.001f);
    cross_input(c, PEN_DTYPE_F32, 1, (int64_t[]){400}, true);
    cross_int(c, ATTR_K, 300);
    cross_int(c, ATTR_N, 40);
    cross_int(c, ATTR_bits, 4);
    cross_int(c, ATTR_block_size, 32);
    cross_check(c);
}

/* Products with codes of few bits are a kind of their own: the table's entry for them is heard, and measuring them leaves the others'. */
Test(vulkan_tune, codes_have_classes_of_their_own, .timeout = 300)
{
    const struct vk_product_shape coded = {VK_PRODUCT_CODES, 3, 40, 300, 1};
    uint8_t tuned[VK_CLASSES] = {0};
    bool stored = false;
    struct pen_error error = {0};
    device_close(device_open(PEN_PRECISION_F32, "auto")); /* skips without a device */
    struct backend *b = opened("none");
    const struct vk_cache_key key = vk_cache_key_of(&b->device->info);
    by_rule = vk_choose(&b->kernels, &coded).family;
    device_close(b);
    tuned[vk_class_of(&coded)] = VK_FAMILY_TILED;
    tuned[vk_class_of(&shape)] = VK_FAMILY_SPLIT;
    cr_assert(vk_tune_store(dir, &key, PEN_PRECISION_F32, tuned));
    b = opened("hit");
    codes(b);
    cr_assert_eq(vk_backend_products(b, VK_FAMILY_TILED), 1);
    times_wanted = 3; /* simple, tiled, gemv */
    rows_said = 0;
    cr_assert_eq(vk_tune(b, 0, row_take, NULL, &stored, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(rows_said, 1);
    cr_assert_eq(b->kernels.tuned[vk_class_of(&shape)], VK_FAMILY_SPLIT);
    device_close(b);
}

static void bytes_matrix(struct backend *b)
{
    struct cross *c = cross_new(OP_QLinearMatMul);
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    cross_input(c, U8, 2, (int64_t[]){3, 300}, false);
    number(c, 0.013f);
    zero(c, U8, 1);
    cross_input(c, I8, 2, (int64_t[]){300, 40}, true);
    scale(c, 40, 0.001f, 0.02f);
    zero(c, I8, 40);
    number(c, 0.2f);
    zero(c, U8, 1);
    cross_check(c);
}

/* Grouped, odd, with padding: 12 x 11 pixels. */
static void bytes_window(struct backend *b)
{
    struct cross *c = cross_new(OP_QLinearConv);
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    cross_input(c, I8, 4, (int64_t[]){1, 12, 11, 10}, false);
    number(c, 0.013f);
    zero(c, I8, 1);
    cross_input(c, U8, 4, (int64_t[]){14, 5, 3, 3}, true);
    scale(c, 1, 0.001f, 0.02f);
    zero(c, U8, 1);
    number(c, 0.2f);
    zero(c, I8, 1);
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_int(c, ATTR_group, 2);
    cross_ints(c, ATTR_pads, 4, (int64_t[]){1, 1, 1, 1});
    cross_check(c);
}

static const struct vk_product_shape byte_matrix = {VK_PRODUCT_BYTES, 3, 40, 300, 1},
                                     byte_window = {VK_PRODUCT_BYTE_WINDOWS, 132, 7, 45, 2};

/* A device opened with a table of these two entries, and nothing else in it. */
static struct backend *opened_with(const struct vk_cache_key *key, uint8_t matrix, uint8_t window)
{
    uint8_t tuned[VK_CLASSES] = {0};
    tuned[vk_class_of(&byte_matrix)] = matrix;
    tuned[vk_class_of(&byte_window)] = window;
    cr_assert(vk_tune_store(dir, key, PEN_PRECISION_F32, tuned));
    return opened("hit");
}

static struct vk_cache_key key_here(bool *ret_dot)
{
    device_close(device_open(PEN_PRECISION_F32, "auto")); /* skips without a device */
    struct backend *b = opened("none");
    const struct vk_cache_key key = vk_cache_key_of(&b->device->info);
    *ret_dot = b->device->dot8;
    device_close(b);
    return key;
}

/* The family that the table names runs, in the form that it names, and gives the same bytes. */
Test(vulkan_tune, bytes_run_as_the_table_says, .timeout = 300)
{
    static const enum vk_family families[] = {VK_FAMILY_SIMPLE, VK_FAMILY_TILED, VK_FAMILY_GEMV};
    bool dot = false;
    const struct vk_cache_key key = key_here(&dot);
    for (uint32_t i = 0; i < 6; i++) {
        const uint8_t entry = vk_tuned_of(families[i / 2], i % 2), other = vk_tuned_of(families[(i / 2 + 1) % 3], 0);
        struct backend *b = opened_with(&key, entry, other);
        bytes_matrix(b);
        cr_expect_eq(vk_backend_products(b, families[i / 2]), 1, "%s", vk_family_name(families[i / 2]));
        cr_expect_eq(vk_backend_bytes_products(b, dot && i % 2 == 0), 1, "plain kernels: %u", i % 2);
        bytes_window(b);
        cr_expect_eq(vk_backend_products(b, families[(i / 2 + 1) % 3]), 1);
        device_close(b);
    }
}

/* A tile of cooperative matrices, with plain loops in their place where the device has none. */
Test(vulkan_tune, bytes_run_by_the_tile_that_the_table_has, .timeout = 300)
{
    bool dot = false;
    const struct vk_cache_key key = key_here(&dot);
    struct backend *b = opened_with(&key, vk_tuned_of(VK_FAMILY_CM, 10), vk_tuned_of(VK_FAMILY_CM, 9));
    struct vk_kernels k;
    b->kernels.cm_bytes = true;
    bytes_matrix(b);
    bytes_window(b);
    cr_expect_eq(vk_backend_bytes_matrices(b), 2);
    vk_kernels_of_bytes(b, &k);
    cr_expect_eq(vk_choose(&k, &byte_matrix).tile, 32);
    cr_expect_eq(vk_choose(&k, &byte_window).tile, 64);
    device_close(b);
}

static char said[2][96];
static uint32_t said_count, forms;

static void bytes_take(void *context, const struct pen_tune_row *row)
{
    (void)context;
    cr_assert_lt(said_count, 2);
    snprintf(said[said_count++], sizeof said[0], "%s: %s", row->products, row->shape);
    cr_expect_eq(row->time_count, 3 * forms, "simple, tiled, gemv; each plain, too, where the device multiplies four");
    for (size_t i = 0; i < row->time_count; i++) {
        cr_expect_gt(row->times[i].us, 0.0, "%s", row->times[i].family);
        cr_expect_eq(strstr(row->times[i].family, " plain") != NULL, forms == 2 && i % 2 == 1);
    }
}

/* What was measured is kept, and the device is opened with it. */
Test(vulkan_tune, products_of_bytes_are_measured, .timeout = 300)
{
    bool dot = false, stored = false;
    struct pen_error error = {0};
    const struct vk_cache_key key = key_here(&dot);
    struct backend *b = opened_with(&key, vk_tuned_of(VK_FAMILY_SIMPLE, 1), VK_FAMILY_AUTO);
    forms = dot ? 2 : 1;
    bytes_matrix(b);
    bytes_window(b);
    cr_assert_eq(vk_tune(b, 0, bytes_take, NULL, &stored, &error), PEN_OK, "%s", error.text);
    cr_assert(stored);
    cr_assert_eq(said_count, 2);
    if (dot) { /* one by the table, one by the rules; of each class three by either form, whatever was tuned before */
        cr_expect_eq(vk_backend_bytes_products(b, false), 7);
        cr_expect_eq(vk_backend_bytes_products(b, true), 7);
    }
    cr_expect_str_eq(said[0], "bytes rows 2-8 outs 33-128 depth 256-2047: 3x40x300 in 1");
    cr_expect_str_eq(said[1], "bytes window rows 65-512 outs 5-32 depth 32-255: 132x7x45 in 2");
    const uint8_t matrix = b->kernels.tuned[vk_class_of(&byte_matrix)],
                  window = b->kernels.tuned[vk_class_of(&byte_window)];
    device_close(b);
    cr_expect_neq(matrix, VK_FAMILY_AUTO);
    cr_expect_neq(window, VK_FAMILY_AUTO);
    b = opened("hit");
    cr_expect_eq(b->kernels.tuned[vk_class_of(&byte_matrix)], matrix);
    cr_expect_eq(b->kernels.tuned[vk_class_of(&byte_window)], window);
    bytes_matrix(b);
    bytes_window(b);
    cr_expect_geq(vk_backend_products(b, vk_tuned_family(matrix)), 1);
    cr_expect_geq(vk_backend_products(b, vk_tuned_family(window)), 1);
    device_close(b);
}
