/* What a product computes with its results: bias, activation and residual leave in its own dispatch, on every family; and nothing that somebody else reads is hidden. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../graph/build.h"
#include "backend/vulkan/loader.h"
#include "backend/vulkan/plan.h"
#include "device.h"

#define INPUTS_MAX 3
extern const struct backend_ops backend_reference;

struct net {
    struct graph *g;
    struct shape shapes[INPUTS_MAX];
    uint32_t in[INPUTS_MAX], in_count;
    struct shape_env *env;
};

static uint32_t input(struct net *n, int32_t rank, const int64_t *dims)
{
    static const char *const names[INPUTS_MAX] = {"x", "r", "z"};
    n->shapes[n->in_count] = shape_of(rank, dims);
    n->in[n->in_count] = build_input(n->g, names[n->in_count], rank, dims);
    return n->in[n->in_count++];
}

static uint32_t act(struct net *n, enum op op, bool tanh_form, uint32_t x)
{
    uint32_t y = build_node(n->g, op, IDS(x));
    if (tanh_form) {
        cr_assert_eq(graph_attr_text(n->g, maker(n->g, y), ATTR_approximate, "tanh"), PEN_OK);
    }
    return y;
}

static uint32_t product(struct net *n, uint32_t x, int64_t k, int64_t outs, unsigned seed)
{
    return build_node(n->g, OP_MatMul, IDS(x, build_weights(n->g, seed, DIMS(k, outs))));
}

/* bias, Gelu and residual of a MatMul of two or three dims */
static void transformer(struct net *n, int64_t rows, int64_t outs, bool tanh_form)
{
    uint32_t x = input(n, DIMS(2, rows, 64)), r = input(n, DIMS(2, rows, outs));
    uint32_t sum = build_node(n->g, OP_Add, IDS(build_weights(n->g, 5, DIMS(outs)), product(n, x, 64, outs, 3)));
    build_output(n->g, build_node(n->g, OP_Add, IDS(r, act(n, OP_Gelu, tanh_form, sum))));
}

static void odd(struct net *n)
{
    transformer(n, 18, 45, false);
}

static void even(struct net *n)
{
    transformer(n, 33, 64, true);
}

static void few(struct net *n)
{
    transformer(n, 1, 10, true);
}

/* The residual before the activation; a bias that the product has itself. */
static void gemm(struct net *n)
{
    uint32_t x = input(n, DIMS(37, 300)), r = input(n, DIMS(37, 20));
    uint32_t y =
        build_node(n->g, OP_Gemm, IDS(x, build_weights(n->g, 3, DIMS(300, 20)), build_weights(n->g, 4, DIMS(20))));
    build_output(n->g, act(n, OP_Relu, false, build_node(n->g, OP_Add, IDS(y, r))));
}

/* Of both products one computes the sum. */
static void both(struct net *n)
{
    uint32_t x = input(n, DIMS(20, 48)), z = input(n, DIMS(20, 32));
    uint32_t y = build_node(n->g, OP_Add, IDS(product(n, x, 48, 24, 3), product(n, z, 32, 24, 4)));
    build_output(n->g, act(n, OP_Sigmoid, false, y));
}

/* Both sides computed, the right one the same for three of the batch: bias and Gelu, and the residual behind them. */
static void batch_behind(struct net *n)
{
    uint32_t x = input(n, DIMS(2, 3, 18, 40)), r = input(n, DIMS(2, 3, 18, 45)), z = input(n, DIMS(2, 1, 40, 45));
    uint32_t sum =
        build_node(n->g, OP_Add, IDS(build_node(n->g, OP_MatMul, IDS(x, z)), build_weights(n->g, 5, DIMS(45))));
    build_output(n->g, build_node(n->g, OP_Add, IDS(act(n, OP_Gelu, false, sum), r)));
}

/* The residual before the activation, in whole eights of outputs. */
static void batch_before(struct net *n)
{
    uint32_t x = input(n, DIMS(3, 37, 64)), r = input(n, DIMS(3, 37, 72)), z = input(n, DIMS(3, 64, 72));
    uint32_t sum =
        build_node(n->g, OP_Add, IDS(build_node(n->g, OP_MatMul, IDS(x, z)), build_weights(n->g, 5, DIMS(72))));
    build_output(n->g, act(n, OP_Relu, false, build_node(n->g, OP_Add, IDS(sum, r))));
}

/* A residual that broadcasts is a node of its own. */
static void batch_broadcast(struct net *n)
{
    uint32_t x = input(n, DIMS(3, 20, 32)), r = input(n, DIMS(1, 20, 24)), z = input(n, DIMS(3, 32, 24));
    build_output(n->g, build_node(n->g, OP_Add, IDS(build_node(n->g, OP_MatMul, IDS(x, z)), r)));
}

static void convolution(struct net *n)
{
    uint32_t x = input(n, DIMS(1, 9, 7, 16)), r = input(n, DIMS(1, 9, 7, 20));
    uint32_t y =
        build_node(n->g, OP_Conv, IDS(x, build_weights(n->g, 3, DIMS(20, 3, 3, 16)), build_weights(n->g, 4, DIMS(20))));
    uint32_t conv = maker(n->g, y);
    cr_assert_eq(graph_attr_int(n->g, conv, ATTR_layout, LAYOUT_NHWC), PEN_OK);
    cr_assert_eq(graph_attr_int(n->g, conv, ATTR_weight_layout, WEIGHT_OHWI), PEN_OK);
    cr_assert_eq(graph_attr_ints(n->g, conv, ATTR_pads, (int64_t[]){1, 1, 1, 1}, 4), PEN_OK);
    build_output(n->g, act(n, OP_Relu, false, build_node(n->g, OP_Add, IDS(y, r))));
}

/* The sum before Gelu leaves, too: Gelu cannot be computed with the product, the bias can. */
static void read_twice(struct net *n)
{
    uint32_t x = input(n, DIMS(20, 48));
    uint32_t sum = build_node(n->g, OP_Add, IDS(product(n, x, 48, 24, 3), build_weights(n->g, 5, DIMS(24))));
    build_output(n->g, act(n, OP_Gelu, false, sum));
    build_output(n->g, sum);
}

/* What is added is a column, not a row. */
static void column(struct net *n)
{
    uint32_t x = input(n, DIMS(24, 48));
    build_output(n->g, build_node(n->g, OP_Add, IDS(product(n, x, 48, 24, 3), build_weights(n->g, 5, DIMS(24, 1)))));
}

/* Two activations: the second is a node of its own. */
static void twice(struct net *n)
{
    uint32_t x = input(n, DIMS(20, 48));
    build_output(n->g, act(n, OP_Tanh, false, act(n, OP_Gelu, false, product(n, x, 48, 24, 3))));
}

/* A product's result added to itself. */
static void doubled(struct net *n)
{
    uint32_t y = product(n, input(n, DIMS(20, 48)), 48, 24, 3);
    build_output(n->g, build_node(n->g, OP_Add, IDS(y, y)));
}

#define CODED_OUTS   21
#define CODED_BLOCKS 3

/* A MatMulNBits of 96 inputs; bias: its own, VALUE_NONE = none. */
static uint32_t coded(struct net *n, uint32_t x, uint32_t bias)
{
    uint8_t codes[CODED_OUTS * CODED_BLOCKS * 16];
    float scales[CODED_OUTS * CODED_BLOCKS];
    uint32_t of_codes = VALUE_NONE, of_scales = VALUE_NONE;
    for (size_t i = 0; i < sizeof codes; i++) {
        codes[i] = (uint8_t)(i * 37 + 11);
    }
    for (int i = 0; i < CODED_OUTS * CODED_BLOCKS; i++) {
        scales[i] = 0.002f + 0.0002f * (float)(i % 40);
    }
    const struct shape words = shape_of(3, (int64_t[]){CODED_OUTS, CODED_BLOCKS, 16}),
                       all = shape_of(1, (int64_t[]){CODED_OUTS * CODED_BLOCKS});
    cr_assert_eq(graph_constant(n->g, NULL, PEN_DTYPE_U8, &words, codes, sizeof codes, true, &of_codes), PEN_OK);
    cr_assert_eq(graph_constant(n->g, NULL, PEN_DTYPE_F32, &all, scales, sizeof scales, true, &of_scales), PEN_OK);
    uint32_t y = build_node(n->g, OP_MatMulNBits, IDS(x, of_codes, of_scales, VALUE_NONE, VALUE_NONE, bias));
    uint32_t node = maker(n->g, y);
    cr_assert_eq(graph_attr_int(n->g, node, ATTR_K, 96), PEN_OK);
    cr_assert_eq(graph_attr_int(n->g, node, ATTR_N, CODED_OUTS), PEN_OK);
    cr_assert_eq(graph_attr_int(n->g, node, ATTR_bits, 4), PEN_OK);
    cr_assert_eq(graph_attr_int(n->g, node, ATTR_block_size, 32), PEN_OK);
    return y;
}

/* Codes of few bits: a bias that the next node adds, Gelu, the residual behind it. */
static void codes_behind(struct net *n)
{
    uint32_t x = input(n, DIMS(2, 18, 96)), r = input(n, DIMS(2, 18, CODED_OUTS));
    uint32_t sum = build_node(n->g, OP_Add, IDS(coded(n, x, VALUE_NONE), build_weights(n->g, 5, DIMS(CODED_OUTS))));
    build_output(n->g, build_node(n->g, OP_Add, IDS(r, act(n, OP_Gelu, false, sum))));
}

/* A bias of its own; the residual before the activation. */
static void codes_before(struct net *n)
{
    uint32_t x = input(n, DIMS(3, 96)), r = input(n, DIMS(3, CODED_OUTS));
    uint32_t y = coded(n, x, build_weights(n->g, 5, DIMS(CODED_OUTS)));
    build_output(n->g, act(n, OP_Relu, false, build_node(n->g, OP_Add, IDS(y, r))));
}

/* Behind a bias of its own, a row that is added is a node of its own. */
static void codes_rows(struct net *n)
{
    uint32_t y = coded(n, input(n, DIMS(20, 96)), build_weights(n->g, 5, DIMS(CODED_OUTS)));
    build_output(n->g, build_node(n->g, OP_Add, IDS(y, build_weights(n->g, 6, DIMS(CODED_OUTS)))));
}

static const struct {
    const char *name;
    void (*make)(struct net *n);
    uint32_t kernels; /* products and what is left of element-wise work */
} rows[] = {
    /* the first ten on every family */
    {"odd", odd, 1},
    {"even", even, 1},
    {"few", few, 1},
    {"gemm", gemm, 1},
    {"both", both, 2},
    {"convolution", convolution, 1},
    {"batch_behind", batch_behind, 1},
    {"batch_before", batch_before, 1},
    {"codes_behind", codes_behind, 1},
    {"codes_before", codes_before, 1},
    {"codes_rows", codes_rows, 2},
    {"batch_broadcast", batch_broadcast, 2},
    {"column", column, 2},
    {"read_twice", read_twice, 2},
    {"twice", twice, 2},
    {"doubled", doubled, 2},
};

static void net_make(struct net *n, void (*make)(struct net *n))
{
    struct pen_error error = {0};
    memset(n, 0, sizeof *n);
    n->g = build_graph();
    make(n);
    cr_assert_eq(shape_env_new(n->g, n->shapes, NULL, false, &n->env, &error), PEN_OK, "%s", error.text);
    for (uint32_t v = 0; v < n->g->value_count; v++) { /* what annotations know */
        n->g->values[v].kind = VALUE_TENSOR;
        n->g->values[v].dtype = n->env->facts[v].dtype;
        n->g->values[v].shape = n->env->facts[v].shape;
    }
}

static struct buffer_view view_new(const struct net *n, uint32_t value)
{
    const struct fact *f = &n->env->facts[value];
    struct buffer_view v = {.shape = f->shape, .dtype = f->dtype, .bytes = (size_t)shape_elements(&f->shape) * 4};
    float *x = calloc(1, v.bytes + 64);
    cr_assert_not_null(x);
    for (size_t i = 0; i < v.bytes / 4; i++) {
        x[i] = sinf((float)(i * 7 + value));
    }
    v.data = x;
    return v;
}

/* Outputs into out[]; gives the dispatches between the boundaries. */
static uint32_t net_run(const struct net *n, const struct backend_ops *ops, struct backend *b,
                        const struct buffer_view *in, const struct buffer_view *out)
{
    uint32_t nodes[16], kernels = 0;
    struct plan *plan = NULL;
    struct exec *exec = NULL;
    struct pen_error error = {0};
    for (uint32_t i = 0; i < n->g->node_count; i++) {
        nodes[i] = i;
        cr_assert(ops->supports(b, n->g, &n->g->nodes[i], NULL));
    }
    const struct partition part = {nodes, n->g->node_count, n->in, n->in_count, n->g->outputs, n->g->output_count};
    cr_assert_eq(ops->plan_new(b, n->g, &part, &plan, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(ops->exec_new(plan, n->env, &exec, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(ops->exec_submit(exec, in, out, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(ops->exec_wait(exec, &error), PEN_OK, "%s", error.text);
    for (uint32_t i = 0; ops == &backend_vulkan && i < exec->work_count; i++) {
        const struct vk_work *w = &exec->works[i];
        kernels += w->node != UINT32_MAX && w->kind == VK_WORK_DISPATCH && w->key.shader != SHADER_split_sum;
    }
    ops->exec_free(exec);
    ops->plan_free(plan);
    return kernels;
}

static void row_check(size_t row, struct backend *b, struct backend *reference, double bound, const char *where)
{
    struct net n;
    struct buffer_view in[INPUTS_MAX], out[2], expected[2];
    net_make(&n, rows[row].make);
    for (uint32_t i = 0; i < n.in_count; i++) {
        in[i] = view_new(&n, n.in[i]);
    }
    for (uint32_t o = 0; o < n.g->output_count; o++) {
        out[o] = view_new(&n, n.g->outputs[o]);
        expected[o] = view_new(&n, n.g->outputs[o]);
    }
    uint32_t kernels = net_run(&n, &backend_vulkan, b, in, out);
    net_run(&n, &backend_reference, reference, in, expected);
    cr_expect_eq(kernels, rows[row].kernels, "%s on %s: %u dispatches, not %u", rows[row].name, where, kernels,
                 rows[row].kernels);
    for (uint32_t o = 0; o < n.g->output_count; o++) {
        size_t wrong = 0;
        for (size_t i = 0; i < out[o].bytes / 4; i++) {
            double x = (double)((float *)out[o].data)[i], y = (double)((float *)expected[o].data)[i];
            wrong += !(fabs(x - y) <= bound + 5.0 * bound * fabs(y));
        }
        cr_expect_eq(wrong, 0, "%s on %s: %zu of %zu are wrong", rows[row].name, where, wrong, out[o].bytes / 4);
        free(out[o].data);
        free(expected[o].data);
    }
    for (uint32_t i = 0; i < n.in_count; i++) {
        free(in[i].data);
    }
    shape_env_free(n.env);
    graph_free(n.g);
}

Test(vulkan_epilogue, a_product_computes_what_follows_it, .timeout = 280)
{
    static const struct {
        enum pen_precision precision;
        const char *kernels;
        double bound;
    } all[] = {{PEN_PRECISION_F32, "simple", 2e-5},       {PEN_PRECISION_F32, "tiled", 2e-5},
               {PEN_PRECISION_F32, "gemv", 2e-5},         {PEN_PRECISION_F32, "split", 2e-5},
               {PEN_PRECISION_F16_STORAGE, "auto", 3e-2}, {PEN_PRECISION_F16_MATH, "cm", 3e-2},
               {PEN_PRECISION_F16_MATH, "cm2", 3e-2},     {PEN_PRECISION_BF16, "cm", 3e-2}};
    const struct backend_config config = {.precision = PEN_PRECISION_F32, .threads = 1};
    struct backend *reference = NULL;
    struct pen_error error = {0};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct backend *b = device_open(all[i].precision, all[i].kernels);
        if (reference == NULL) {
            cr_assert_eq(backend_reference.open(&config, &reference, &error), PEN_OK, "%s", error.text);
        }
        for (size_t row = 0; row < (i == 0 ? sizeof rows / sizeof rows[0] : 10); row++) {
            row_check(row, b, reference, all[i].bound, all[i].kernels);
        }
        device_close(b);
    }
    backend_reference.close(reference);
}
