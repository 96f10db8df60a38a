/* Channels-last: transposes only at the edges, and the same numbers. */
#include <criterion/criterion.h>

#include "build.h"
#include "graph/pass.h"

/* Runs before and after; gives the transposes left. */
static uint32_t turn(struct graph *g)
{
    struct pen_error error = {0};
    struct shape_env *before = run_graph(g);
    cr_assert_eq(pass_layout(g, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(graph_verify(g, &error), PEN_OK, "%s", error.text);
    struct shape_env *after = run_graph(g);
    double difference = compare_outputs(before, after);
    cr_assert_leq(difference, 1e-6, "differs by %g", difference);
    shape_env_free(before);
    shape_env_free(after);
    return count_op(g, OP_Transpose);
}

static uint32_t conv(struct graph *g, uint32_t x, unsigned seed, int64_t in, int64_t out)
{
    return build_node(g, OP_Conv, IDS(x, build_weights(g, seed, DIMS(out, in, 1, 1))));
}

Test(layout, a_classifier_keeps_one_transpose_at_its_input)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2, 3, 8, 8)), a = conv(g, x, 1, 3, 4), b = conv(g, a, 2, 4, 4);
    uint32_t sum = build_node(g, OP_Relu, IDS(build_node(g, OP_Add, IDS(a, b))));
    sum = build_node(g, OP_Mul, IDS(sum, build_weights(g, 3, DIMS(4, 1, 1))));
    uint32_t p = build_node(g, OP_GlobalAveragePool, IDS(sum));
    uint32_t f = build_node(g, OP_Flatten, IDS(p));
    build_output(g, build_node(g, OP_Gemm, IDS(f, build_weights(g, 4, DIMS(4, 5)))));
    cr_assert_eq(turn(g), 1);
    graph_free(g);
}

/* Scales and zero points among the inputs have no layout; the data between them have. */
Test(layout, operators_on_bytes_stay_within_the_turned_part)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2, 3, 8, 8)), s = build_scalar(g, 0.02f), out = build_scalar(g, 0.04f);
    uint32_t a = build_node(g, OP_QuantizeLinear, IDS(conv(g, x, 1, 3, 4), s));
    uint32_t b = build_node(g, OP_QuantizeLinear, IDS(conv(g, x, 2, 3, 4), s));
    uint32_t zero = VALUE_NONE, sum = build_node(g, OP_QLinearAdd, IDS(a, s, zero, b, s, zero, out));
    uint32_t mean = build_node(g, OP_QLinearGlobalAveragePool, IDS(sum, out, zero, out));
    mean = build_node(g, OP_QLinearSigmoid, IDS(mean, out, zero, s));
    uint32_t gated = build_node(g, OP_QLinearMul, IDS(mean, s, zero, sum, out, zero, out));
    uint32_t all = build_node(g, OP_QLinearConcat, IDS(out, zero, gated, out, zero, a, s, zero));
    graph_attr_int(g, maker(g, all), ATTR_axis, 1);
    uint32_t real = build_node(g, OP_DequantizeLinear, IDS(all, out));
    build_output(g, build_node(g, OP_Flatten, IDS(build_node(g, OP_GlobalAveragePool, IDS(real)))));
    cr_assert_eq(turn(g), 1);
    graph_free(g);
}

Test(layout, the_files_own_transposes_cancel)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 8, 8, 3)), t = build_node(g, OP_Transpose, IDS(x));
    graph_attr_ints(g, maker(g, t), ATTR_perm, (int64_t[]){0, 3, 1, 2}, 4);
    uint32_t c = conv(g, t, 1, 3, 4), back = build_node(g, OP_Transpose, IDS(c));
    graph_attr_ints(g, maker(g, back), ATTR_perm, (int64_t[]){0, 2, 3, 1}, 4);
    build_output(g, build_node(g, OP_Reshape, IDS(back, build_list(g, DIMS(1, -1, 4)))));
    cr_assert_eq(turn(g), 0);
    graph_free(g);
}

Test(layout, axes_pads_slices_and_sizes_are_remapped)
{
    struct graph *g = build_graph();
    float scale[4] = {1, 1, 2, 3};
    uint32_t scales, x = build_input(g, "x", DIMS(1, 3, 6, 8)), a = conv(g, x, 1, 3, 4), b = conv(g, x, 2, 3, 2);
    cr_assert_eq(graph_constant_f32(g, scale, 4, false, &scales), PEN_OK);
    uint32_t c = build_node(g, OP_Concat, IDS(a, b));
    graph_attr_int(g, maker(g, c), ATTR_axis, 1);
    c = build_node(g, OP_Pad, IDS(c, build_list(g, DIMS(0, 1, 2, 0, 0, 0, 0, 3))));
    c = build_node(g, OP_Slice,
                   IDS(c, build_list(g, DIMS(1, 2)), build_list(g, DIMS(6, 9)), build_list(g, DIMS(1, -1))));
    c = build_node(g, OP_Resize, IDS(c, VALUE_NONE, scales));
    c = build_node(g, OP_Softmax, IDS(c));
    graph_attr_int(g, maker(g, c), ATTR_axis, 1);
    uint32_t m = build_node(g, OP_ReduceMax, IDS(c, build_list(g, DIMS(2, -1))));
    graph_attr_int(g, maker(g, m), ATTR_keepdims, 0);
    build_output(g, m);
    cr_assert_eq(turn(g), 1);
    graph_free(g);
}

Test(layout, an_output_in_the_middle_is_turned_back_for_it_alone)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 3, 4, 5)), a = conv(g, x, 1, 3, 4), r = build_node(g, OP_Relu, IDS(a));
    build_output(g, r);
    build_output(g, conv(g, r, 2, 4, 2));
    cr_assert_eq(turn(g), 3);
    cr_assert_eq(g->outputs[0], r);
    graph_free(g);
}

Test(layout, the_shape_of_a_turned_value_is_that_of_the_file)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 3, 4, 5)), a = conv(g, x, 1, 3, 6),
             shape = build_node(g, OP_Shape, IDS(a));
    build_output(g, build_node(g, OP_Identity, IDS(shape)));
    build_output(g, build_node(g, OP_Reshape, IDS(conv(g, a, 2, 6, 3), build_list(g, DIMS(-1)))));
    (void)turn(g);
    graph_free(g);
}

Test(layout, depth_to_space_and_split)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 3, 4, 5)), a = conv(g, x, 1, 3, 8),
             d = build_node(g, OP_DepthToSpace, IDS(a)), parts[2];
    graph_attr_int(g, maker(g, d), ATTR_blocksize, 2);
    cr_assert_eq(graph_value(g, NULL, &parts[0]), PEN_OK);
    cr_assert_eq(graph_value(g, NULL, &parts[1]), PEN_OK);
    uint32_t node;
    cr_assert_eq(graph_node(g, OP_Split, NULL, &d, 1, parts, 2, &node), PEN_OK);
    graph_attr_int(g, node, ATTR_axis, 1);
    build_output(g, build_node(g, OP_Sub, IDS(parts[0], parts[1])));
    cr_assert_eq(turn(g), 1, "the way back has one channel: a view");
    graph_free(g);
}

Test(layout, a_channel_shuffle_stays_within_the_turned_part)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2, 3, 4, 5)), a = conv(g, x, 1, 3, 6);
    uint32_t wide = build_node(g, OP_Reshape, IDS(a, build_list(g, DIMS(2, 3, 2, 4, 5)))),
             t = build_node(g, OP_Transpose, IDS(wide));
    graph_attr_ints(g, maker(g, t), ATTR_perm, (int64_t[]){0, 2, 1, 3, 4}, 5);
    uint32_t back = build_node(g, OP_Reshape, IDS(t, build_list(g, DIMS(2, -1, 4, 5))));
    build_output(g, build_node(g, OP_GlobalAveragePool, IDS(conv(g, back, 2, 6, 3))));
    cr_assert_eq(turn(g), 2, "at the input, and the shuffle itself");
    graph_free(g);
}

Test(layout, a_graph_without_space_is_not_touched)
{
    struct graph *g = build_graph();
    build_output(g, build_node(g, OP_Relu, IDS(build_input(g, "x", DIMS(1, 2, 3, 4)))));
    cr_assert_eq(turn(g), 0);
    cr_assert_eq(g->node_count, 1);
    graph_free(g);
}
