#include "backend/vulkan/verdicts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/plan.h"
#include "backend/vulkan/single.h"

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

bool vk_selftest_all(const struct backend *b)
{
    return seam.all || b->kernels.device != VK_CLASS_SOFTWARE;
}

static enum pen_status run(struct backend *b, const struct vk_single *s, const char *kernels, const void *const *in,
                           void *out, struct pen_error *reterr)
{
    const enum pen_status fault = seam.fault != NULL ? seam.fault(kernels) : PEN_OK;
    if (fault == PEN_ERR_DEVICE_LOST) {
        atomic_store(&b->device->lost, true);
    }
    return fault == PEN_OK ? vk_single_run(s, in, out, reterr)
                           : pen_error_set(reterr, fault, "kernels %s do not run", kernels);
}

/* Not where all depends on it: simple kernels, memory, the device itself. */
static enum pen_status forgive(struct backend *b, const char *kernels, const struct pen_error *why,
                               struct pen_error *reterr)
{
    const bool lost = atomic_load(&b->device->lost) || why->status == PEN_ERR_DEVICE_LOST,
               all = lost || why->status == PEN_ERR_NO_MEMORY || strcmp(kernels, vk_family_name(VK_FAMILY_SIMPLE)) == 0;
    if (atomic_load(&b->device->lost)) {
        b->lost_in = b->kernels.only;
    }
    return all ? pen_error_set(reterr, why->status, "%s", why->text) : PEN_OK;
}

enum pen_status vk_selftest_run(struct backend *b, const struct vk_single *s, const char *kernels,
                                const void *const *in, void *out, size_t bytes, bool *ret_ran, struct pen_error *reterr)
{
    struct pen_error why = {0};
    *ret_ran = run(b, s, kernels, in, out, &why) == PEN_OK;
    if (!*ret_ran) {
        return forgive(b, kernels, &why, reterr);
    }
    vk_selftest_tamper(kernels, out, bytes);
    return PEN_OK;
}

void vk_selftest_tamper(const char *kernels, void *result, size_t bytes)
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
        snprintf(text, bytes, VK_NOT_RUN);
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
