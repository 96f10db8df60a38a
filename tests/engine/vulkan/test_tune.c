/* The table of tuned kernels: kept per device and precision, checked, and heard when a device is opened. The tool's side is in tests/e2e/test_vulkan.c. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../xnnpack/cross.h"
#include "backend/vulkan/plan.h"
#include "backend/vulkan/tune.h"
#include "device.h"

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
    uint8_t bad[2000], read[VK_CLASSES];
    memset(bad, VK_FAMILY_COUNT, sizeof bad);
    cr_assert(vk_cache_write(dir, VK_CACHE_TUNING, &key, bad, sizeof bad)); /* as long as no table is */
    cr_assert_str_eq(vk_tune_load(dir, &key, PEN_PRECISION_F32, read), "corrupt");
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
