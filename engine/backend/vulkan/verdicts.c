#include "backend/vulkan/verdicts.h"

#include <math.h>
#include <stdio.h>

#include "backend/vulkan/plan.h"

static struct {
    bool all;
    void (*tamper)(const char *kernels, void *result, size_t bytes);
    enum pen_status (*fault)(const char *kernels);
} seam;

void vk_selftest_seam(bool all, void (*tamper)(const char *kernels, void *result, size_t bytes))
{
    seam.all = all;
    seam.tamper = tamper;
}

void vk_selftest_faults(enum pen_status (*fault)(const char *kernels))
{
    seam.fault = fault;
}

enum pen_status vk_selftest_fault(const char *kernels)
{
    return seam.fault != NULL ? seam.fault(kernels) : PEN_OK;
}

bool vk_selftest_all(const struct backend *b)
{
    return seam.all || b->kernels.device != VK_CLASS_SOFTWARE;
}

void vk_selftest_spoil(const char *kernels, void *result, size_t bytes)
{
    if (seam.tamper != NULL) {
        seam.tamper(kernels, result, bytes);
    }
}

/* f32, stored as f16, multiplied as f16. In bf16 plain C rounds the same operands, but what units add up in may be less exact than f32. */
double vk_selftest_bound(const struct backend *b)
{
    static const double bounds[] = {1e-4, 2e-2, 4e-2};
    _Static_assert(sizeof bounds / sizeof bounds[0] == SHADER_FORMS, "each form of a shader has a bound");
    return b->device->bf16 ? 1e-3 : bounds[b->device->form];
}

void vk_selftest_text(double worst, double bound, char *text, size_t bytes)
{
    if (isinf(worst)) {
        snprintf(text, bytes, "the driver does not run them");
    } else {
        snprintf(text, bytes, "off by %g, more than %g", worst, bound);
    }
}

void vk_selftest_note(struct backend *b, const char *name, const char *wrong)
{
    struct vk_verdict *v = &b->verdicts[b->verdict_count < VK_VERDICTS_MAX ? b->verdict_count : VK_VERDICTS_MAX - 1];
    b->verdict_count += b->verdict_count < VK_VERDICTS_MAX;
    snprintf(v->name, sizeof v->name, "%s", name);
    snprintf(v->text, sizeof v->text, "%s%s", wrong != NULL ? "wrong, not used: " : "ok", wrong != NULL ? wrong : "");
}

enum pen_status vk_selftest_refuse(const struct backend *b, const char *name, const char *wrong,
                                   struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_UNAVAILABLE,
                         "the Vulkan device \"%s\" computes wrong: its self-test of kernels '%s' is %s",
                         b->device->info.name, name, wrong);
}

void vk_selftest_say(const struct backend *b, void (*say)(void *context, const char *name, const char *value),
                     void *context)
{
    for (uint32_t i = 0; i < b->verdict_count; i++) {
        char name[sizeof b->verdicts[i].name + sizeof "selftest.vulkan."];
        snprintf(name, sizeof name, "selftest.vulkan.%s", b->verdicts[i].name);
        say(context, name, b->verdicts[i].text);
    }
}
