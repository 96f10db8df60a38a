#include "backend/vulkan/selftest.h"

#include <math.h>
#include <string.h>

#include "backend/vulkan/ops/product.h"
#include "backend/vulkan/single.h"
#include "graph/kept.h"

/* y[ROWS, OUTS] = x[ROWS, DEPTH] w[DEPTH, OUTS]: sizes with tails on every side. */
#define ROWS  37
#define DEPTH 301
#define OUTS  45

/* by_out: the weights of an output are neighbours, as those of a convolution are. */
static double error_of(const float *x, const float *w, bool by_out, const float *y)
{
    double worst = 0.0;
    for (size_t m = 0; m < ROWS; m++) {
        for (size_t n = 0; n < OUTS; n++) {
            double sum = 0.0;
            for (size_t k = 0; k < DEPTH; k++) {
                sum += (double)x[m * DEPTH + k] * (double)w[by_out ? n * DEPTH + k : k * OUTS + n];
            }
            double d = fabs((double)y[m * OUTS + n] - sum);
            worst = d > worst || isnan(d) ? d : worst;
        }
    }
    return worst;
}

/* An exec and one run. */
static enum pen_status run(const struct vk_single *s, const float *x, float *y, struct pen_error *reterr)
{
    struct exec *exec = NULL;
    const struct buffer_view in = {.data = (void *)(uintptr_t)x,
                                   .bytes = ROWS * DEPTH * sizeof *x,
                                   .shape = s->facts[s->in[0]].shape,
                                   .dtype = PEN_DTYPE_F32},
                             out = {.data = y,
                                    .bytes = ROWS * OUTS * sizeof *y,
                                    .shape = s->facts[s->out].shape,
                                    .dtype = PEN_DTYPE_F32};
    enum pen_status status = vk_exec_make(s->plan, &s->env, &exec, reterr);
    if (status == PEN_OK) {
        status = vk_exec_submit(exec, &in, &out, NULL, reterr);
    }
    if (status == PEN_OK) {
        status = vk_exec_wait(exec, reterr);
    }
    vk_exec_free(exec);
    return status;
}

/* Bounds of the sum of DEPTH products of numbers within 0.5: f32, stored as f16, multiplied as f16. */
static double bound_of(const struct vk_device *d)
{
    static const double bounds[] = {1e-4, 2e-2, 4e-2};
    _Static_assert(sizeof bounds / sizeof bounds[0] == SHADER_FORMS, "each form of a shader has a bound");
    return bounds[d->form];
}

static enum pen_status family_test(struct backend *b, const struct vk_single *s, struct pen_error *reterr)
{
    float x[ROWS * DEPTH], y[ROWS * OUTS];
    vk_single_fill(x, ROWS * DEPTH, 7);
    memset(y, 0xFF, sizeof y); /* NaN: what is not written is seen */
    enum pen_status status = run(s, x, y, reterr);
    double bound = bound_of(b->device),
           error = status == PEN_OK ? error_of(x, vk_single_weights(s), !KEPT(vulkan_MatMul), y) : 0.0;
    if (status == PEN_OK && !(error <= bound)) {
        status = pen_error_set(
            reterr, PEN_ERR_UNAVAILABLE,
            "the Vulkan device \"%s\" computes wrong: its self-test of kernels '%s' is off by %g, more than %g",
            b->device->info.name, vk_family_name(b->kernels.only), error, bound);
    }
    return status;
}

/* The family asked for, or every one that the rules may choose here. */
enum pen_status vk_selftest(struct backend *b, struct pen_error *reterr)
{
    const enum vk_family only = b->kernels.only;
    const struct vk_product_shape shape = {VK_PRODUCT_MATRIX, ROWS, OUTS, DEPTH, 1};
    const struct window point = vk_matrix_window(ROWS, DEPTH);
    struct vk_single s;
    if (!KEPT(vulkan_MatMul) && !KEPT(vulkan_Conv)) {
        return PEN_OK; /* a build without products */
    }
    enum pen_status status =
        KEPT(vulkan_MatMul) ? vk_single_product(b, &shape, &s, reterr) : vk_single_conv(b, &point, 1, OUTS, &s, reterr);
    if (status != PEN_OK) {
        return status;
    }
    if (only != VK_FAMILY_AUTO) {
        status = family_test(b, &s, reterr);
    }
    for (uint32_t f = VK_FAMILY_SIMPLE; only == VK_FAMILY_AUTO && f < VK_FAMILY_COUNT && status == PEN_OK; f++) {
        bool wanted = f == VK_FAMILY_SIMPLE || b->kernels.device != VK_CLASS_SOFTWARE;
        if (wanted && vk_family_fits(&b->kernels, (enum vk_family)f, &shape)) {
            b->kernels.only = (enum vk_family)f;
            status = family_test(b, &s, reterr);
        }
    }
    b->kernels.only = only;
    vk_single_fini(&s);
    return status;
}
