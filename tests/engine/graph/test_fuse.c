/* Fusion: each pattern leaves the operators it should, and the same numbers. */
#include <criterion/criterion.h>

#include "build.h"
#include "graph/annotate.h"
#include "graph/pass.h"

#define BOUND 2e-6

/* Runs before and after the fusion; the number of nodes left. */
static uint32_t fuse(struct graph *g)
{
    struct pen_error error = {0};
    struct shape_env *before = run_graph(g);
    cr_assert_eq(pass_fuse(g, 0, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(graph_verify(g, &error), PEN_OK, "%s", error.text);
    struct shape_env *after = run_graph(g);
    double difference = compare_outputs(before, after);
    cr_assert_leq(difference, BOUND, "differs by %g", difference);
    shape_env_free(before);
    shape_env_free(after);
    return g->node_count;
}

static uint32_t batch_norm(struct graph *g, uint32_t x, int64_t channels)
{
    uint32_t var = build_weights(g, 9, 1, &channels), one = build_scalar(g, 1.5f);
    struct shape_env *env;
    uint32_t positive = build_node(g, OP_Add, IDS(var, one)), id;
    cr_assert_eq(shape_env_new(g, NULL, NULL, true, &env, NULL), PEN_OK);
    cr_assert_eq(graph_constant(g, NULL, PEN_DTYPE_F32, &env->facts[positive].shape, env->facts[positive].data,
                                env->facts[positive].bytes, true, &id),
                 PEN_OK);
    shape_env_free(env);
    graph_kill(g, maker(g, positive));
    return build_node(g, OP_BatchNormalization,
                      IDS(x, build_weights(g, 6, 1, &channels), build_weights(g, 7, 1, &channels),
                          build_weights(g, 8, 1, &channels), id));
}

Test(fuse, batch_norm_and_relu6_into_a_convolution)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2, 4, 6, 6)),
             y = build_node(g, OP_Conv, IDS(x, build_weights(g, 1, DIMS(6, 2, 3, 3))));
    graph_attr_int(g, maker(g, y), ATTR_group, 2);
    y = batch_norm(g, y, 6);
    build_output(g, build_node(g, OP_Clip, IDS(y, build_scalar(g, 0), build_scalar(g, 6))));
    cr_assert_eq(fuse(g), 1);
    cr_assert_eq(node_int(&g->nodes[0], ATTR_act, ACT_NONE), ACT_CLAMP);
    cr_assert_float_eq(node_float(&g->nodes[0], ATTR_act_max, 0), 6, 0);
    graph_free(g);
}

Test(fuse, batch_norm_into_a_transposed_convolution_and_a_gemm)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 4, 3, 3));
    uint32_t y =
        build_node(g, OP_ConvTranspose, IDS(x, build_weights(g, 1, DIMS(4, 3, 2, 2)), build_weights(g, 2, DIMS(6))));
    graph_attr_int(g, maker(g, y), ATTR_group, 2);
    build_output(g, batch_norm(g, y, 6));
    uint32_t m = build_input(g, "m", DIMS(3, 5)),
             z = build_node(g, OP_Gemm, IDS(m, build_weights(g, 3, DIMS(5, 4)), build_weights(g, 4, DIMS(4))));
    graph_attr_float(g, maker(g, z), ATTR_beta, 0.5f);
    graph_attr_float(g, maker(g, z), ATTR_alpha, 2.0f);
    build_output(g, batch_norm(g, z, 4));
    cr_assert_eq(fuse(g), 2);
    graph_free(g);
}

Test(fuse, a_lone_batch_norm_is_a_multiplication_and_an_addition)
{
    struct graph *g = build_graph();
    build_output(g, batch_norm(g, build_input(g, "x", DIMS(1, 4, 3, 3)), 4));
    cr_assert_eq(fuse(g), 2);
    cr_assert_eq(count_op(g, OP_BatchNormalization), 0);
    graph_free(g);
}

Test(fuse, a_shared_convolution_is_left_alone)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 4, 5, 5)),
             y = build_node(g, OP_Conv, IDS(x, build_weights(g, 1, DIMS(4, 4, 1, 1))));
    build_output(g, build_node(g, OP_Relu, IDS(y)));
    build_output(g, build_node(g, OP_Sigmoid, IDS(y)));
    cr_assert_eq(fuse(g), 3);
    graph_free(g);
}

Test(fuse, channel_biases_and_scales_enter_the_weights)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 4, 5, 5)),
             y = build_node(g, OP_Conv, IDS(x, build_weights(g, 1, DIMS(8, 4, 3, 3))));
    y = build_node(g, OP_Mul, IDS(y, build_weights(g, 2, DIMS(8, 1, 1))));
    y = build_node(g, OP_Add, IDS(build_weights(g, 3, DIMS(1, 8, 1, 1)), y));
    build_output(g, build_node(g, OP_Add, IDS(y, build_scalar(g, 0.25f))));
    cr_assert_eq(fuse(g), 1);
    graph_free(g);
}

/* TensorFlow's filters: channels come last, also where each channel has a multiplier. */
Test(fuse, scales_and_biases_enter_filters_whose_channels_come_last)
{
    static const int64_t filters[][4] = {{3, 2, 4, 6}, {3, 2, 3, 2}};
    for (int depthwise = 0; depthwise < 2; depthwise++) {
        struct graph *g = build_graph();
        uint32_t x = build_input(g, "x", DIMS(1, 7, 5, depthwise ? 3 : 4)),
                 y = build_node(g, OP_Conv, IDS(x, build_weights(g, 1, 4, filters[depthwise])));
        graph_attr_int(g, maker(g, y), ATTR_layout, LAYOUT_NHWC);
        graph_attr_int(g, maker(g, y), ATTR_weight_layout, depthwise ? WEIGHT_HWIM : WEIGHT_HWIO);
        graph_attr_int(g, maker(g, y), ATTR_group, depthwise ? 3 : 1);
        y = build_node(g, OP_Mul, IDS(y, build_weights(g, 2, DIMS(6))));
        y = build_node(g, OP_Add, IDS(y, build_weights(g, 3, DIMS(1, 1, 1, 6))));
        build_output(g, build_node(g, OP_Relu, IDS(y)));
        cr_assert_eq(fuse(g), 1);
        graph_free(g);
    }
}

Test(fuse, an_addition_along_another_axis_is_no_bias)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 4, 8, 8)),
             y = build_node(g, OP_Conv, IDS(x, build_weights(g, 1, DIMS(8, 4, 1, 1))));
    build_output(g, build_node(g, OP_Add, IDS(y, build_weights(g, 2, DIMS(8)))));
    cr_assert_eq(fuse(g), 2);
    graph_free(g);
}

Test(fuse, pads_enter_convolutions_and_average_pools)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 4, 6, 6)), pads = build_list(g, DIMS(0, 0, 1, 0, 0, 0, 2, 1));
    uint32_t c =
        build_node(g, OP_Conv, IDS(build_node(g, OP_Pad, IDS(x, pads)), build_weights(g, 1, DIMS(4, 4, 3, 3))));
    uint32_t p = build_node(g, OP_AveragePool, IDS(build_node(g, OP_Pad, IDS(x, pads))));
    graph_attr_ints(g, maker(g, p), ATTR_kernel_shape, (int64_t[]){2, 2}, 2);
    build_output(g, c);
    build_output(g, p);
    cr_assert_eq(fuse(g), 2);
    graph_free(g);
}

Test(fuse, a_pad_of_ones_or_of_channels_stays)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 4, 6, 6)), w = build_weights(g, 1, DIMS(4, 4, 3, 3));
    uint32_t ones = build_node(g, OP_Pad, IDS(x, build_list(g, DIMS(0, 0, 1, 1, 0, 0, 1, 1)), build_scalar(g, 1)));
    build_output(g, build_node(g, OP_Conv, IDS(ones, w)));
    uint32_t less = build_node(g, OP_Pad, IDS(x, build_list(g, DIMS(0, 0, -1, 0, 0, 0, 0, 0))));
    build_output(g, build_node(g, OP_Conv, IDS(less, w)));
    cr_assert_eq(fuse(g), 4);
    graph_free(g);
}

Test(fuse, matrix_product_and_row_become_gemm)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(3, 5)), y = build_node(g, OP_MatMul, IDS(x, build_weights(g, 1, DIMS(5, 7))));
    build_output(g, build_node(g, OP_Relu, IDS(build_node(g, OP_Add, IDS(build_weights(g, 2, DIMS(7)), y)))));
    cr_assert_eq(fuse(g), 1);
    cr_assert_eq(g->nodes[0].op, OP_Gemm);
    graph_free(g);
}

Test(fuse, gated_activations_are_recognised)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2, 9)), six = build_scalar(g, 6), zero = build_scalar(g, 0);
    build_output(g, build_node(g, OP_Mul, IDS(x, build_node(g, OP_Sigmoid, IDS(x)))));
    uint32_t gate = build_node(g, OP_Clip, IDS(build_node(g, OP_Add, IDS(x, build_scalar(g, 3))), zero, six));
    build_output(g, build_node(g, OP_Div, IDS(build_node(g, OP_Mul, IDS(x, gate)), six)));
    uint32_t gate2 = build_node(g, OP_Clip, IDS(build_node(g, OP_Add, IDS(build_scalar(g, 3), x)), zero, six));
    build_output(g, build_node(g, OP_Mul, IDS(build_node(g, OP_Mul, IDS(gate2, build_scalar(g, 1.0f / 6.0f))), x)));
    cr_assert_eq(fuse(g), 3);
    cr_assert_eq(count_op(g, OP_Swish), 1);
    cr_assert_eq(count_op(g, OP_HardSwish), 2);
    graph_free(g);
}

static uint32_t erf_term(struct graph *g, uint32_t x)
{
    uint32_t e = build_node(g, OP_Erf, IDS(build_node(g, OP_Div, IDS(x, build_scalar(g, 1.41421356f)))));
    return build_node(g, OP_Add, IDS(e, build_scalar(g, 1)));
}

Test(fuse, the_three_spellings_of_gelu)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(4, 9)), half = build_scalar(g, 0.5f);
    build_output(g, build_node(g, OP_Mul, IDS(build_node(g, OP_Mul, IDS(x, erf_term(g, x))), half)));
    build_output(g, build_node(g, OP_Mul, IDS(build_node(g, OP_Mul, IDS(x, half)), erf_term(g, x))));
    build_output(g, build_node(g, OP_Mul, IDS(x, build_node(g, OP_Mul, IDS(half, erf_term(g, x))))));
    (void)fuse(g);
    cr_assert_eq(count_op(g, OP_Gelu), 3);
    cr_assert_eq(count_op(g, OP_Erf), 0);
    graph_free(g);
}

/* 1 + tanh(sqrt(2 / pi) (x + factor x^3)) */
static uint32_t tanh_term(struct graph *g, uint32_t x, float factor)
{
    uint32_t cube = build_node(g, OP_Pow, IDS(x, build_scalar(g, 3)));
    uint32_t sum = build_node(g, OP_Add, IDS(x, build_node(g, OP_Mul, IDS(build_scalar(g, factor), cube))));
    uint32_t inner = build_node(g, OP_Mul, IDS(sum, build_scalar(g, 0.79788456f)));
    return build_node(g, OP_Add, IDS(build_scalar(g, 1), build_node(g, OP_Tanh, IDS(inner))));
}

Test(fuse, gelu_by_tanh_and_what_only_looks_like_it)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(4, 9)), half = build_scalar(g, 0.5f);
    build_output(g, build_node(g, OP_Mul, IDS(build_node(g, OP_Mul, IDS(half, x)), tanh_term(g, x, 0.044715f))));
    build_output(g, build_node(g, OP_Mul, IDS(build_node(g, OP_Mul, IDS(x, half)), tanh_term(g, x, 0.05f))));
    (void)fuse(g);
    cr_assert_eq(count_op(g, OP_Gelu), 1);
    cr_assert(node_text_is(&g->nodes[g->values[g->outputs[0]].producer], ATTR_approximate, "tanh", false));
    graph_free(g);
}

/* A scalar that is written with more dims than what it meets. */
static uint32_t build_wide_scalar(struct graph *g, float item)
{
    const struct shape s = {.rank = 4, .dim = {1, 1, 1, 1}};
    uint32_t id;
    cr_assert_eq(graph_constant(g, NULL, PEN_DTYPE_F32, &s, &item, sizeof item, true, &id), PEN_OK);
    return id;
}

Test(fuse, scalars_that_give_the_result_more_dims_keep_formulas)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(4, 9)), half = build_wide_scalar(g, 0.5f);
    build_output(g, build_node(g, OP_Mul, IDS(build_node(g, OP_Mul, IDS(x, erf_term(g, x))), half)));
    uint32_t gate = build_node(g, OP_Add, IDS(x, build_wide_scalar(g, 3)));
    gate = build_node(g, OP_Clip, IDS(gate, build_scalar(g, 0), build_scalar(g, 6)));
    build_output(g, build_node(g, OP_Div, IDS(build_node(g, OP_Mul, IDS(x, gate)), build_scalar(g, 6))));
    uint32_t mean = build_node(g, OP_ReduceMean, IDS(build_node(g, OP_Mul, IDS(x, x)), build_list(g, DIMS(-1))));
    uint32_t root = build_node(g, OP_Sqrt, IDS(build_node(g, OP_Add, IDS(mean, build_wide_scalar(g, 1e-3f)))));
    uint32_t norm = build_node(g, OP_Div, IDS(x, root));
    build_output(g, build_node(g, OP_Mul, IDS(norm, build_weights(g, 1, DIMS(9)))));
    (void)fuse(g);
    cr_assert_eq(count_op(g, OP_Gelu) + count_op(g, OP_HardSwish) + count_op(g, OP_RMSNormalization), 0);
    graph_free(g);
}

Test(fuse, a_spelled_out_layer_norm)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2, 3, 8)), axes = build_list(g, DIMS(-1));
    uint32_t d = build_node(g, OP_Sub, IDS(x, build_node(g, OP_ReduceMean, IDS(x, axes))));
    uint32_t v = build_node(g, OP_ReduceMean, IDS(build_node(g, OP_Pow, IDS(d, build_scalar(g, 2))), axes));
    uint32_t s = build_node(g, OP_Sqrt, IDS(build_node(g, OP_Add, IDS(v, build_scalar(g, 1e-5f)))));
    uint32_t n = build_node(g, OP_Mul, IDS(build_node(g, OP_Div, IDS(d, s)), build_weights(g, 1, DIMS(8))));
    build_output(g, build_node(g, OP_Add, IDS(n, build_weights(g, 2, DIMS(8)))));
    cr_assert_eq(fuse(g), 1);
    cr_assert_eq(g->nodes[0].op, OP_LayerNormalization);
    graph_free(g);
}

enum norm_form { BIAS, NO_BIAS, NO_BIAS_NEGATED, DIFFERENCE, NORM_FORMS, OTHER_MEAN = NORM_FORMS, WRONG_SIGN, FORMS };

/* x * factor + (bias - mean * factor), factor = gain / sqrt(mean((x - mean)^2) + epsilon), as TensorFlow's converters write it. */
static uint32_t factor_norm(struct graph *g, enum norm_form form, uint32_t x, uint32_t gain)
{
    uint32_t axes = build_list(g, DIMS(-1)), mean = build_node(g, OP_ReduceMean, IDS(x, axes));
    uint32_t d = build_node(g, OP_Sub, IDS(x, mean));
    uint32_t v = build_node(g, OP_ReduceMean, IDS(build_node(g, OP_Mul, IDS(d, d)), axes));
    uint32_t root = build_node(g, OP_Sqrt, IDS(build_node(g, OP_Add, IDS(v, build_scalar(g, 1e-3f)))));
    uint32_t factor = build_node(g, OP_Mul, IDS(build_node(g, OP_Reciprocal, IDS(root)), gain));
    uint32_t product = build_node(g, OP_Mul, IDS(x, factor));
    if (form == OTHER_MEAN)
        mean = build_node(g, OP_ReduceMean, IDS(d, axes));
    uint32_t negated = build_node(g, OP_Neg, IDS(mean));
    switch (form) {
    case NO_BIAS:
        return build_node(g, OP_Add, IDS(build_node(g, OP_Mul, IDS(negated, factor)), product));
    case NO_BIAS_NEGATED:
        return build_node(g, OP_Add,
                          IDS(product, build_node(g, OP_Neg, IDS(build_node(g, OP_Mul, IDS(factor, mean))))));
    case DIFFERENCE:
        return build_node(g, OP_Sub, IDS(product, build_node(g, OP_Mul, IDS(mean, factor))));
    case WRONG_SIGN:
        return build_node(g, OP_Add, IDS(product, build_node(g, OP_Mul, IDS(mean, factor))));
    default:
        return build_node(
            g, OP_Add,
            IDS(product,
                build_node(g, OP_Sub, IDS(build_weights(g, 2, DIMS(8)), build_node(g, OP_Mul, IDS(mean, factor))))));
    }
}

Test(fuse, a_layer_norm_as_tensorflow_spells_it)
{
    for (enum norm_form form = BIAS; form < FORMS; form++) {
        for (int ranks = 0; ranks < 2; ranks++) {
            struct graph *g = build_graph();
            uint32_t x = build_input(g, "x", DIMS(2, 3, 8));
            uint32_t gain = ranks ? build_weights(g, 1, DIMS(1, 1, 8)) : build_weights(g, 1, DIMS(8));
            build_output(g, factor_norm(g, form, x, gain));
            struct shape_env *before = run_graph(g);
            (void)fuse(g);
            struct shape_env *after = run_graph(g);
            cr_assert_eq(count_op(g, OP_LayerNormalization), form < NORM_FORMS, "form %d", (int)form);
            cr_assert_lt(compare_outputs(before, after), 1e-5, "form %d", (int)form);
            shape_env_free(before);
            shape_env_free(after);
            graph_free(g);
        }
    }
}

/* 1 / sqrt(mean(x^2) + epsilon) as a product or a quotient of x; behind x - mean(x) it is a layer norm's. */
Test(fuse, a_spelled_out_rms_norm)
{
    for (int form = 0; form < 4; form++) {
        struct graph *g = build_graph();
        uint32_t x = build_input(g, "x", DIMS(2, 3, 8)), axes = build_list(g, DIMS(-1));
        x = form == 3 ? build_node(g, OP_Sub, IDS(x, build_node(g, OP_ReduceMean, IDS(x, axes)))) : x;
        uint32_t square = build_node(g, OP_Pow, IDS(x, build_scalar(g, 2)));
        uint32_t mean = build_node(g, OP_ReduceMean, IDS(square, axes));
        uint32_t root = build_node(g, OP_Sqrt, IDS(build_node(g, OP_Add, IDS(mean, build_scalar(g, 1e-6f)))));
        uint32_t one = build_scalar(g, 1), y;
        if (form == 0)
            y = build_node(g, OP_Mul, IDS(x, build_node(g, OP_Reciprocal, IDS(root))));
        else if (form == 1)
            y = build_node(g, OP_Mul, IDS(build_node(g, OP_Div, IDS(one, root)), x));
        else
            y = build_node(g, OP_Div, IDS(x, root));
        build_output(g, build_node(g, OP_Mul, IDS(build_weights(g, 1, DIMS(8)), y)));
        struct shape_env *before = run_graph(g);
        (void)fuse(g);
        struct shape_env *after = run_graph(g);
        cr_assert_eq(count_op(g, OP_RMSNormalization), form < 3);
        cr_assert_lt(compare_outputs(before, after), 1e-5);
        shape_env_free(before);
        shape_env_free(after);
        graph_free(g);
    }
}

Test(fuse, two_clamps_are_one)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(3, 5)), y = build_node(g, OP_Add, IDS(x, build_input(g, "z", DIMS(3, 5))));
    y = build_node(g, OP_Relu, IDS(y));
    build_output(g, build_node(g, OP_Clip, IDS(y, build_scalar(g, -1), build_scalar(g, 0.5f))));
    cr_assert_eq(fuse(g), 1);
    cr_assert_float_eq(node_float(&g->nodes[0], ATTR_act_min, -9), 0, 0);
    cr_assert_float_eq(node_float(&g->nodes[0], ATTR_act_max, -9), 0.5, 0);
    graph_free(g);
}

/* Products spelled as Einsum: the same numbers, and no Einsum left. */
static void einsum_check(const char *equation, int32_t a_rank, const int64_t *a, int32_t b_rank, const int64_t *b,
                         uint32_t left)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "a", a_rank, a), y = build_input(g, "b", b_rank, b);
    uint32_t out = build_node(g, OP_Einsum, IDS(x, y));
    cr_assert_eq(graph_attr_text(g, maker(g, out), ATTR_equation, equation), PEN_OK);
    build_output(g, out);
    struct shape_env *before = run_graph(g);
    struct pass_report report = {0};
    cr_assert_eq(pass_fuse(g, 0, &report, NULL), PEN_OK);
    cr_assert_eq(count_op(g, OP_Einsum), left, "%s", equation);
    struct shape_env *after = run_graph(g);
    cr_assert_lt(compare_outputs(before, after), 1e-6, "%s", equation);
    shape_env_free(before);
    shape_env_free(after);
    graph_free(g);
}

Test(fuse, products_spelled_as_einsum)
{
    einsum_check("ij,jk->ik", DIMS(3, 4), DIMS(4, 5), 0);
    einsum_check("ij,kj->ki", DIMS(3, 4), DIMS(5, 4), 0);
    einsum_check("bhqd,bhkd->bhqk", DIMS(2, 3, 4, 5), DIMS(2, 3, 6, 5), 0);
    einsum_check("bqhd,bkhd->bhqk", DIMS(2, 4, 3, 5), DIMS(2, 6, 3, 5), 0);
    einsum_check("...ji,...jk->...ik", DIMS(2, 3, 4, 5), DIMS(2, 3, 4, 6), 0);
    einsum_check(" b i j , b j k -> b k i ", DIMS(2, 3, 4), DIMS(2, 4, 5), 0);
    einsum_check("ij,j->i", DIMS(3, 4), 1, (int64_t[]){4}, 0);            /* a vector */
    einsum_check("i,i->", 1, (int64_t[]){4}, 1, (int64_t[]){4}, 0);       /* two of them */
    einsum_check("abc,cbd->ad", DIMS(2, 3, 4), DIMS(4, 3, 5), 0);         /* two labels summed over */
    einsum_check("abcx,xcbd->da", DIMS(2, 3, 4, 2), DIMS(2, 4, 3, 5), 0); /* three */
    einsum_check("ij,jk->ijk", DIMS(3, 4), DIMS(4, 5), 0);                /* nothing summed over */
    einsum_check("ij,ij->ji", DIMS(3, 4), DIMS(3, 4), 0);                 /* all in both */
    einsum_check("binh,tnh->bnit", DIMS(2, 3, 4, 5), DIMS(6, 4, 5), 0);   /* two that one operand has */
    einsum_check("td,dnh->tnh", DIMS(2, 3), DIMS(3, 4, 5), 0);            /* two that the other has */
    einsum_check("...ij,jk->...ik", DIMS(2, 3, 4), DIMS(4, 5), 0);        /* leading dims of one operand */
    einsum_check("iij,jk->ik", DIMS(3, 3, 4), DIMS(4, 5), 1);             /* a diagonal */
    einsum_check("aij,jk->ik", DIMS(2, 3, 4), DIMS(4, 5), 1);             /* a sum of one operand alone */
}

/* An Einsum of any number of operands. */
static void einsum_many(const char *equation, uint32_t count, const uint32_t *dims)
{
    struct graph *g = build_graph();
    uint32_t in[3];
    for (uint32_t i = 0; i < count; i++)
        in[i] = build_input(g, (const char *[]){"a", "b", "c"}[i], 2, (int64_t[]){dims[2 * i], dims[2 * i + 1]});
    uint32_t out = build_node(g, OP_Einsum, count, in);
    cr_assert_eq(graph_attr_text(g, maker(g, out), ATTR_equation, equation), PEN_OK);
    build_output(g, out);
    struct shape_env *before = run_graph(g);
    for (int turn = 0; turn < 3; turn++)
        cr_assert_eq(pass_fuse(g, 0, &(struct pass_report){0}, NULL), PEN_OK);
    cr_assert_eq(count_op(g, OP_Einsum), 0, "%s", equation);
    struct shape_env *after = run_graph(g);
    cr_assert_lt(compare_outputs(before, after), 1e-6, "%s", equation);
    shape_env_free(before);
    shape_env_free(after);
    graph_free(g);
}

Test(fuse, einsum_of_one_operand_and_of_three)
{
    einsum_many("ij->ji", 1, (uint32_t[]){3, 4});
    einsum_many("ij->j", 1, (uint32_t[]){3, 4});
    einsum_many("...j->...", 1, (uint32_t[]){3, 4});
    einsum_many("bi,ij,bj->b", 3, (uint32_t[]){2, 3, 3, 4, 2, 4});
    einsum_many("ij,jk,kl->il", 3, (uint32_t[]){2, 3, 3, 4, 4, 5});
}

/* ---- sequences -------------------------------------------------------------------------------------------------------- */

static void sequence_check(struct graph *g)
{
    struct shape_env *before = run_graph(g);
    uint32_t gone = 0;
    cr_assert_eq(pass_dead(g, &gone), PEN_OK);
    cr_expect_eq(count_op(g, OP_SequenceAt) + count_op(g, OP_SplitToSequence) + count_op(g, OP_SequenceConstruct) +
                     count_op(g, OP_ConcatFromSequence),
                 0);
    struct shape_env *after = run_graph(g);
    if (before && shape_known(&before->facts[g->outputs[0]].shape))
        cr_expect_lt(compare_outputs(before, after), 1e-6);
    shape_env_free(before);
    shape_env_free(after);
    graph_free(g);
}

static uint32_t element(struct graph *g, uint32_t sequence, int64_t index)
{
    uint32_t at;
    cr_assert_eq(graph_constant_i64(g, &index, 1, true, &at), PEN_OK);
    return build_node(g, OP_SequenceAt, IDS(sequence, at));
}

Test(sequence, parts_of_a_split_are_slices)
{
    for (int form = 0; form < 4; form++) {
        struct graph *g = build_graph();
        uint32_t x = build_input(g, "x", DIMS(7, 2)), lengths = build_list(g, 3, (int64_t[]){1, 4, 2});
        int64_t three = 3;
        if (form == 1)
            cr_assert_eq(graph_constant_i64(g, &three, 1, true, &lengths), PEN_OK);
        uint32_t s = build_node(g, OP_SplitToSequence, form < 2 ? 2 : 1, (uint32_t[]){x, lengths});
        cr_assert_eq(graph_attr_int(g, maker(g, s), ATTR_keepdims, form != 3), PEN_OK);
        uint32_t y = element(g, s, form == 3 ? 2 : -1);
        build_output(g, y);
        static const int64_t rows[] = {2, 1, 1, 2};
        cr_assert_eq(graph_annotate(g, NULL), PEN_OK);
        cr_assert_eq(pass_dead(g, NULL), PEN_OK);
        cr_expect_eq(count_op(g, OP_Slice), 1);
        cr_expect_eq(count_op(g, OP_SplitToSequence), 0);
        struct shape_env *env = run_graph(g);
        cr_expect_eq(env->facts[g->outputs[0]].shape.dim[0], rows[form], "form %d", form);
        cr_expect_eq(env->facts[g->outputs[0]].shape.rank, form == 3 ? 1 : 2);
        shape_env_free(env);
        graph_free(g);
    }
}

Test(sequence, what_is_put_together_is_taken_or_joined)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(3, 2)), y = build_input(g, "y", DIMS(3, 2));
    uint32_t s = build_node(g, OP_SequenceConstruct, IDS(x, y));
    build_output(g, build_node(g, OP_Relu, IDS(element(g, s, 1))));
    sequence_check(g);
    g = build_graph();
    x = build_input(g, "x", DIMS(3, 2));
    y = build_input(g, "y", DIMS(3, 2));
    uint32_t all = build_node(g, OP_ConcatFromSequence, IDS(build_node(g, OP_SequenceConstruct, IDS(x, y))));
    cr_assert_eq(graph_attr_int(g, maker(g, all), ATTR_axis, 1), PEN_OK);
    cr_assert_eq(graph_attr_int(g, maker(g, all), ATTR_new_axis, 1), PEN_OK);
    build_output(g, all);
    sequence_check(g);
}

Test(sequence, an_element_that_is_not_there_stays_for_the_run_to_refuse)
{
    struct graph *g = build_graph();
    uint32_t s = build_node(g, OP_SplitToSequence, IDS(build_input(g, "x", DIMS(7, 2))));
    build_output(g, element(g, s, 7));
    cr_assert_eq(pass_dead(g, NULL), PEN_OK);
    cr_expect_eq(count_op(g, OP_SequenceAt), 1);
    graph_free(g);
}
