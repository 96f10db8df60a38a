/* A hundred thousand runs of one exec, three of them on the device at a time: neither the process nor the device takes more memory. By `tests/run.sh --full`. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "../xnnpack/cross.h"
#include "backend/vulkan/plan.h"
#include "device.h"
#include "graph/infer.h"

#define RUNS   100000
#define WINDOW 3

static long resident_pages(void)
{
    long whole = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    cr_assert_not_null(f);
    cr_assert_eq(fscanf(f, "%ld %ld", &whole, &resident), 2);
    fclose(f);
    return resident;
}

Test(vulkan_long, a_hundred_thousand_runs_take_no_memory, .timeout = 1700)
{
    struct backend_config config = device_config(PEN_PRECISION_F32, "simple");
    struct backend *b = NULL;
    struct pen_error error = {0};
    struct graph *g = NULL;
    uint32_t x = 0, y = 0, node = 0;
    device_close(device_open(PEN_PRECISION_F32, "simple")); /* skips without a device */
    config.vulkan.validate = false;                         /* the layer keeps notes of its own */
    config.vulkan.in_flight = WINDOW;
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(graph_new(NULL, &g), PEN_OK);
    cr_assert_eq(graph_value(g, "x", &x), PEN_OK);
    cr_assert_eq(graph_value(g, "y", &y), PEN_OK);
    cr_assert_eq(graph_node(g, OP_Sigmoid, "only", &x, 1, &y, 1, &node), PEN_OK);
    struct shape shape = shape_of(1, (int64_t[]){16});
    struct fact facts[2] = {{.dtype = PEN_DTYPE_F32, .shape = shape}, {.dtype = PEN_DTYPE_F32, .shape = shape}};
    struct shape_env env = {.g = g, .facts = facts};
    struct partition part = {&node, 1, &x, 1, &y, 1};
    struct plan *plan = NULL;
    struct exec *exec = NULL;
    float in[32] = {0}, out[WINDOW][32] = {0};
    struct buffer_view from = {.data = in, .bytes = 64, .shape = shape, .dtype = PEN_DTYPE_F32}, to[WINDOW];
    for (int i = 0; i < WINDOW; i++) {
        to[i] = (struct buffer_view){.data = out[i], .bytes = 64, .shape = shape, .dtype = PEN_DTYPE_F32};
    }
    cr_assert_eq(backend_vulkan.plan_new(b, g, &part, &plan, &error), PEN_OK);
    cr_assert_eq(backend_vulkan.exec_new(plan, &env, &exec, &error), PEN_OK);
    long before = 0;
    uint64_t bytes = 0;
    for (int i = 0; i < RUNS + WINDOW - 1; i++) {
        in[0] = (float)(i % 7);
        if (i < RUNS) {
            cr_assert_eq(backend_vulkan.exec_submit(exec, &from, &to[i % WINDOW], NULL, &error), PEN_OK, "%s",
                         error.text);
        }
        if (i < WINDOW - 1) {
            continue;
        }
        const float *got = out[(i - WINDOW + 1) % WINDOW];
        cr_assert_eq(backend_vulkan.exec_wait(exec, &error), PEN_OK, "%s", error.text);
        cr_assert_float_eq(got[0], 1.0f / (1.0f + expf(-(float)((i - WINDOW + 1) % 7))), 1e-6f);
        cr_assert_float_eq(got[1], 0.5f, 1e-6f);
        if (i == RUNS / 2) {
            before = resident_pages();
            bytes = vk_backend_bytes(b);
        }
    }
    cr_assert_leq(resident_pages(), before + 256, "%ld pages, %ld before", resident_pages(), before);
    cr_assert_eq(vk_backend_bytes(b), bytes);
    cr_assert_eq(vk_backend_in_flight_most(b), WINDOW);
    backend_vulkan.exec_free(exec);
    backend_vulkan.plan_free(plan);
    backend_vulkan.close(b);
    graph_free(g);
}

static void product_of_floats(void)
{
    struct cross *c = cross_new(OP_MatMul);
    cross_range(c, -0.3f, 0.3f);
    cross_input(c, PEN_DTYPE_F32, 2, (int64_t[]){270, 72}, false);
    cross_input(c, PEN_DTYPE_F32, 2, (int64_t[]){72, 264}, true);
    cross_check(c);
}

static void product_of_bytes(void)
{
    struct cross *c = cross_new(OP_MatMulInteger);
    cross_input(c, PEN_DTYPE_U8, 2, (int64_t[]){270, 144}, false);
    cross_input(c, PEN_DTYPE_I8, 2, (int64_t[]){144, 264}, true);
    cross_input(c, PEN_DTYPE_U8, 0, NULL, true);
    cross_input(c, PEN_DTYPE_I8, 1, (int64_t[]){264}, true);
    cross_check(c);
}

static void product_of_codes(void)
{
    struct cross *c = cross_new(OP_MatMulNBits);
    cross_input(c, PEN_DTYPE_F32, 2, (int64_t[]){270, 72}, false);
    cross_input(c, PEN_DTYPE_U8, 3, (int64_t[]){264, 3, 16}, true);
    cross_range(c, 0.0002f, 0.001f);
    cross_input(c, PEN_DTYPE_F32, 1, (int64_t[]){264 * 3}, true);
    cross_int(c, ATTR_K, 72);
    cross_int(c, ATTR_N, 264);
    cross_int(c, ATTR_bits, 4);
    cross_int(c, ATTR_block_size, 32);
    cross_check(c);
}

/* With plain loops in the matrices' place: tails on all sides, bands of workgroups. test_tiles.c has those that compile sooner. */
static void every_tile(enum vk_family family, enum vk_weights_of weights, void (*product)(void), uint32_t least)
{
    struct backend *b = device_open(PEN_PRECISION_F16_MATH, vk_family_name(family));
    struct vk_kernels k = b->kernels;
    uint32_t ran = 0;
    k.weights = weights;
    cross_backend(&backend_vulkan, b, 2e-3, 5e-2);
    for (uint32_t i = 0; i < vk_tiles_of(family); i++) {
        if (vk_tile_fits(&k, family, i)) {
            b->kernels.tile = i + 1;
            product();
            ran++;
        }
    }
    cr_assert_geq(ran, least);
    cr_assert_eq(weights == VK_WEIGHTS_BYTES ? vk_backend_bytes_matrices(b) : vk_backend_products(b, family), ran);
    device_close(b);
}

Test(vulkan_long, every_tile_of_cooperative_matrices, .timeout = 1700)
{
    every_tile(VK_FAMILY_CM, VK_WEIGHTS_FLOATS, product_of_floats, 7);
    every_tile(VK_FAMILY_CM2, VK_WEIGHTS_FLOATS, product_of_floats,
               1); /* one alone where matrices of a subgroup stand in */
}

Test(vulkan_long, every_tile_of_bytes, .timeout = 1700)
{
    every_tile(VK_FAMILY_CM, VK_WEIGHTS_BYTES, product_of_bytes, 7);
}

Test(vulkan_long, every_tile_of_codes, .timeout = 1700)
{
    every_tile(VK_FAMILY_CM, VK_WEIGHTS_CODES, product_of_codes, 7);
}
