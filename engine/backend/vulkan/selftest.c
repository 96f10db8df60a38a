#include "backend/vulkan/selftest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/plan.h"
#include "graph/infer.h"

/* y[ROWS, OUTS] = x[ROWS, DEPTH] w[DEPTH, OUTS]: sizes with tails on every side. */
#define ROWS  37
#define DEPTH 301
#define OUTS  45

static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 16777216.0f - 0.5f;
    }
}

static enum pen_status graph_make(struct graph *g, const float *w, uint32_t *ret_x, uint32_t *ret_y, uint32_t *ret_node)
{
    struct shape ws = shape_of(2, (int64_t[]){DEPTH, OUTS});
    uint32_t in[2] = {0};
    enum pen_status status = graph_value(g, "x", &in[0]);
    if (status == PEN_OK) {
        status = graph_constant(g, "w", PEN_DTYPE_F32, &ws, w, DEPTH * OUTS * sizeof *w, false, &in[1]);
    }
    if (status == PEN_OK) {
        status = graph_value(g, "y", ret_y);
    }
    if (status == PEN_OK) {
        status = graph_node(g, OP_MatMul, "self-test", in, 2, ret_y, 1, ret_node);
    }
    *ret_x = in[0];
    return status;
}

static double error_of(const float *x, const float *w, const float *y)
{
    double worst = 0.0;
    for (size_t m = 0; m < ROWS; m++) {
        for (size_t n = 0; n < OUTS; n++) {
            double sum = 0.0;
            for (size_t k = 0; k < DEPTH; k++) {
                sum += (double)x[m * DEPTH + k] * (double)w[k * OUTS + n];
            }
            double d = fabs((double)y[m * OUTS + n] - sum);
            worst = d > worst || isnan(d) ? d : worst;
        }
    }
    return worst;
}

/* Plan, exec and one run of a graph of one node. */
static enum pen_status run(struct backend *b, const struct graph *g, uint32_t x, uint32_t y, uint32_t node,
                           struct buffer_view *in, struct buffer_view *out, struct pen_error *reterr)
{
    struct partition part = {&node, 1, &x, 1, &y, 1};
    struct fact *facts = calloc(g->value_count, sizeof *facts);
    struct plan *plan = NULL;
    struct exec *exec = NULL;
    if (facts == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a self-test");
    }
    for (uint32_t v = 0; v < g->value_count; v++) {
        const struct value *value = &g->values[v];
        facts[v] =
            (struct fact){.dtype = PEN_DTYPE_F32, .shape = value->shape, .data = value->data, .bytes = value->bytes};
    }
    facts[x].shape = in->shape;
    facts[y].shape = out->shape;
    struct shape_env env = {.g = g, .facts = facts};
    enum pen_status status = vk_plan_new(b, g, &part, &plan, reterr);
    if (status == PEN_OK) {
        status = vk_exec_new(plan, &env, &exec, reterr);
    }
    if (status == PEN_OK) {
        status = vk_exec_submit(exec, in, out, NULL, reterr);
    }
    if (status == PEN_OK) {
        status = vk_exec_wait(exec, reterr);
    }
    vk_exec_free(exec);
    vk_plan_free(plan);
    free(facts);
    return status;
}

struct test {
    const struct graph *g;
    uint32_t x, y, node;
    struct buffer_view *in, *out;
};

/* Bounds of the sum of DEPTH products of numbers within 0.5: f32, stored as f16, multiplied as f16. */
static double bound_of(const struct vk_device *d)
{
    static const double bounds[SHADER_FORMS] = {1e-4, 2e-2, 4e-2};
    return bounds[d->form];
}

static enum pen_status family_test(struct backend *b, const struct test *t, struct pen_error *reterr)
{
    memset(t->out->data, 0xFF, t->out->bytes); /* NaN: what is not written is seen */
    enum pen_status status = run(b, t->g, t->x, t->y, t->node, t->in, t->out, reterr);
    const float *x = t->in->data, *w = x + ROWS * DEPTH;
    double bound = bound_of(b->device), error = status == PEN_OK ? error_of(x, w, t->out->data) : 0.0;
    if (status == PEN_OK && !(error <= bound)) {
        status = pen_error_set(
            reterr, PEN_ERR_UNAVAILABLE,
            "the Vulkan device \"%s\" computes wrong: its self-test of kernels '%s' is off by %g, more than %g",
            b->device->info.name, vk_family_name(b->kernels.only), error, bound);
    }
    return status;
}

/* The family asked for, or every one that the rules may choose here. */
static enum pen_status families_test(struct backend *b, const struct test *t, struct pen_error *reterr)
{
    const enum vk_family only = b->kernels.only;
    const struct vk_product_shape shape = {VK_PRODUCT_MATRIX, ROWS, OUTS, DEPTH, 1};
    enum pen_status status = only != VK_FAMILY_AUTO ? family_test(b, t, reterr) : PEN_OK;
    for (uint32_t f = VK_FAMILY_SIMPLE; only == VK_FAMILY_AUTO && f < VK_FAMILY_COUNT && status == PEN_OK; f++) {
        bool wanted = f == VK_FAMILY_SIMPLE || b->kernels.device != VK_CLASS_SOFTWARE;
        if (wanted && vk_family_fits(&b->kernels, (enum vk_family)f, &shape)) {
            b->kernels.only = (enum vk_family)f;
            status = family_test(b, t, reterr);
        }
    }
    b->kernels.only = only;
    return status;
}

enum pen_status vk_selftest(struct backend *b, struct pen_error *reterr)
{
    struct graph *g = NULL;
    float *x = calloc(ROWS * DEPTH + DEPTH * OUTS + ROWS * OUTS, sizeof *x), *w = x + ROWS * DEPTH,
          *y = w + DEPTH * OUTS;
    uint32_t xv = 0, yv = 0, node = 0;
    enum pen_status status = x != NULL ? graph_new(NULL, &g) : PEN_ERR_NO_MEMORY;
    if (status == PEN_OK) {
        fill(x, ROWS * DEPTH + DEPTH * OUTS, 7);
        status = graph_make(g, w, &xv, &yv, &node);
    }
    if (status != PEN_OK) {
        pen_error_set(reterr, status, "no memory for a self-test");
        goto out;
    }
    struct buffer_view in = {.data = x,
                             .bytes = ROWS * DEPTH * sizeof *x,
                             .shape = shape_of(2, (int64_t[]){ROWS, DEPTH}),
                             .dtype = PEN_DTYPE_F32};
    struct buffer_view result = {.data = y,
                                 .bytes = ROWS * OUTS * sizeof *y,
                                 .shape = shape_of(2, (int64_t[]){ROWS, OUTS}),
                                 .dtype = PEN_DTYPE_F32};
    struct test t = {.g = g, .x = xv, .y = yv, .node = node, .in = &in, .out = &result};
    status = families_test(b, &t, reterr);
out:
    graph_free(g);
    free(x);
    return status;
}
