#include "device.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "../xnnpack/cross.h"
#include "backend/reference/evaluate.h"
#include "run/internal.h"

struct backend_config device_config(enum pen_precision precision, const char *kernels)
{
    return (struct backend_config){.precision = precision,
                                   .threads = 1,
                                   .vulkan = {.allow_software = true,
                                              .kernels = kernels,
                                              .f16_trial = "off",
                                              .validate = getenv("OPS_NO_VALIDATION") == NULL}};
}

struct backend *device_open(enum pen_precision precision, const char *kernels)
{
    struct backend_config config = device_config(precision, kernels);
    struct backend_caps caps;
    struct backend *b = NULL;
    struct pen_error error = {0};
    reference_evaluator_register();
    cr_assert_eq(backend_vulkan.probe(&config, &caps), PEN_OK);
    if (!caps.available || (caps.precisions & 1u << precision) == 0) {
        cr_skip_test("no Vulkan device for this test: %s", caps.reason);
    }
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    return b;
}

struct backend *device_of(const struct pen_engine *engine)
{
    cr_assert_str_eq(engine->backends[0].ops->name, "vulkan");
    return engine->backends[0].self;
}

void device_close(struct backend *b)
{
    cr_assert_eq(vk_backend_messages(b), 0, "%u messages of the validation layer", vk_backend_messages(b));
    backend_vulkan.close(b);
}

static void on(enum pen_precision precision, const char *kernels, void (*rows)(void))
{
    static const struct {
        double absolute, relative;
    } bounds[] = {[PEN_PRECISION_F32] = {1e-5, 1e-4},
                  [PEN_PRECISION_F16_STORAGE] = {2e-3, 1e-2},
                  [PEN_PRECISION_F16_MATH] = {2e-3, 5e-2},
                  [PEN_PRECISION_BF16] = {2e-2, 1e-2}}; /* the reference rounds no operands; test_bf16.c does */
    struct backend *b = device_open(precision, kernels);
    cross_backend(&backend_vulkan, b, bounds[precision].absolute, bounds[precision].relative);
    rows();
    device_close(b);
}

void device_convs(const char *conv, void (*rows)(struct backend *b))
{
    struct backend_config config = device_config(PEN_PRECISION_F32, "auto");
    struct backend *b = device_open(PEN_PRECISION_F32, "auto");
    struct pen_error error = {0};
    device_close(b); /* there is a device */
    config.vulkan.conv = conv;
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    cross_backend(&backend_vulkan, b, 1e-5, 1e-4);
    rows(b);
    device_close(b);
}

void device_f32(void (*rows)(void))
{
    on(PEN_PRECISION_F32, "simple", rows);
}

void device_floats(void (*rows)(void), void (*few)(void))
{
    on(PEN_PRECISION_F32, "auto", rows);
    on(PEN_PRECISION_F16_STORAGE, "auto", few);
}

void device_each(void (*rows)(void))
{
    on(PEN_PRECISION_F32, "simple", rows);
    on(PEN_PRECISION_F32, "tiled", rows);
    on(PEN_PRECISION_F16_STORAGE, "simple", rows);
}

void device_products(void (*rows)(void))
{
    static const struct {
        enum pen_precision precision;
        const char *kernels;
    } all[] = {
        {PEN_PRECISION_F32, "simple"},      {PEN_PRECISION_F32, "tiled"},        {PEN_PRECISION_F32, "gemv"},
        {PEN_PRECISION_F32, "split"},       {PEN_PRECISION_F16_STORAGE, "gemv"}, {PEN_PRECISION_F16_STORAGE, "split"},
        {PEN_PRECISION_F16_MATH, "simple"}, {PEN_PRECISION_F16_MATH, "cm"},      {PEN_PRECISION_F16_MATH, "cm2"},
        {PEN_PRECISION_BF16, "cm"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        on(all[i].precision, all[i].kernels, rows);
    }
}
