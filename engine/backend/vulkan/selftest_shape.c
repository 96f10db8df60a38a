#include "backend/vulkan/selftest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/ops/product.h"
#include "backend/vulkan/single.h"
#include "backend/vulkan/verdicts.h"
#include "graph/kept.h"

/* x, w, y of one shape. */
struct trial {
    const struct vk_product_shape *shape;
    struct vk_single single;
    float *x, *w, *y; /* w: of a batch; NULL: the graph has it */
    bool by_out;      /* the weights of an output are neighbours, as those of a convolution are */
};

static void trial_fini(struct trial *t)
{
    vk_single_fini(&t->single);
    free(t->x);
    free(t->w);
    free(t->y);
}

static enum pen_status trial_init(struct backend *b, const struct vk_product_shape *s, struct trial *t,
                                  struct pen_error *reterr)
{
    const struct window point = vk_matrix_window(s->rows, s->depth);
    const size_t x = s->groups * s->rows * s->depth, w = s->groups * s->depth * s->outs,
                 y = s->groups * s->rows * s->outs;
    *t = (struct trial){.shape = s, .by_out = !KEPT(vulkan_MatMul)};
    enum pen_status status = KEPT(vulkan_MatMul) ? vk_single_product(b, s, &t->single, reterr)
                                                 : vk_single_conv(b, &point, 1, s->outs, &t->single, reterr);
    t->x = malloc(x * sizeof *t->x);
    t->w = malloc(w * sizeof *t->w);
    t->y = malloc(y * sizeof *t->y);
    if (status == PEN_OK && (t->x == NULL || t->w == NULL || t->y == NULL)) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a self-test");
    }
    if (status != PEN_OK) {
        trial_fini(t);
        return status;
    }
    vk_single_fill(t->x, x, 7);
    vk_single_fill(t->w, w, 11);          /* what the graph's constant has, too */
    memset(t->y, 0xFF, y * sizeof *t->y); /* NaN: what is not written is seen */
    return PEN_OK;
}

static double sum_of(const struct trial *t, size_t g, size_t m, size_t n)
{
    const struct vk_product_shape *s = t->shape;
    const float *x = t->x + (g * s->rows + m) * s->depth, *w = t->w + g * s->depth * s->outs;
    double sum = 0.0;
    for (size_t k = 0; k < s->depth; k++) {
        sum += (double)x[k] * (double)w[t->by_out ? n * s->depth + k : k * s->outs + n];
    }
    return sum;
}

static double error_of(const struct trial *t)
{
    const struct vk_product_shape *s = t->shape;
    double worst = 0.0;
    for (size_t i = 0; i < s->groups * s->rows * s->outs; i++) {
        double d = fabs((double)t->y[i] - sum_of(t, i / (s->rows * s->outs), i / s->outs % s->rows, i % s->outs));
        worst = d > worst || isnan(d) ? d : worst;
    }
    return worst;
}

/* As the kernels multiply them in precision bf16: packed weights rounded, by matrices rows and both sides of a batch, too. */
static void operands_round(const struct backend *b, struct trial *t)
{
    const struct vk_product_shape *s = t->shape;
    const bool matrices = b->kernels.only == VK_FAMILY_CM;
    if (b->device->bf16 && matrices) {
        vk_single_round(t->x, s->groups * s->rows * s->depth);
    }
    if (b->device->bf16 && (matrices || s->kind != VK_PRODUCT_BATCH)) {
        vk_single_round(t->w, s->groups * s->depth * s->outs);
    }
}

enum pen_status vk_selftest_shape(struct backend *b, const struct vk_product_shape *s, const char *name, double *worst,
                                  struct pen_error *reterr)
{
    struct trial t;
    bool ran = false;
    enum pen_status status = trial_init(b, s, &t, reterr);
    if (status != PEN_OK) {
        return status;
    }
    const void *in[] = {t.x, t.w};
    status = vk_selftest_run(b, &t.single, name, in, t.y, s->groups * s->rows * s->outs * sizeof *t.y, &ran, reterr);
    if (status == PEN_OK) {
        operands_round(b, &t);
        const double error = ran ? error_of(&t) : INFINITY;
        *worst = error > *worst || isnan(error) ? error : *worst;
    }
    trial_fini(&t);
    return status;
}
