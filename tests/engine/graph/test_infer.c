/* Shape rules: a table of cases per family, value propagation, budgets, and the sentences of contradictions. */
#include <criterion/criterion.h>
#include <string.h>

#include "backend/reference/evaluate.h"

#include "build.h"

/* Infers and checks the text of the only output's shape. */
static void expect(struct graph *g, uint32_t out, const char *want)
{
    struct shape_env *env;
    struct pen_error error = {0};
    char text[96];
    cr_assert_eq(shape_env_new(g, NULL, NULL, false, &env, &error), PEN_OK, "%s", error.text);
    cr_assert_str_eq(shape_text(&env->facts[out].shape, text, sizeof text), want, "%s gives %s, not %s",
                     g->nodes[maker(g, out)].origin, text, want);
    shape_env_free(env);
}

static void expect_failure(struct graph *g, const char *phrase)
{
    struct shape_env *env;
    struct pen_error error = {0};
    cr_assert_neq(shape_env_new(g, NULL, NULL, false, &env, &error), PEN_OK);
    cr_assert(strstr(error.text, phrase), "'%s' does not say '%s'", error.text, phrase);
    graph_free(g);
}

static const int64_t two[2] = {2, 2};

Test(infer, convolutions)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(-1, 3, 224, 224)), w = build_weights(g, 1, DIMS(16, 3, 3, 3));
    uint32_t y = build_node(g, OP_Conv, IDS(x, w)), node = maker(g, y);
    expect(g, y, "?x16x222x222");
    graph_attr_ints(g, node, ATTR_strides, two, 2);
    graph_attr_ints(g, node, ATTR_pads, (int64_t[]){1, 1, 1, 1}, 4);
    expect(g, y, "?x16x112x112");
    graph_attr_text(g, node, ATTR_auto_pad, "SAME_UPPER");
    expect(g, y, "?x16x112x112");
    graph_attr_drop(g, node, ATTR_auto_pad);
    graph_attr_ints(g, node, ATTR_dilations, two, 2);
    expect(g, y, "?x16x111x111");
    uint32_t up = build_node(g, OP_ConvTranspose, IDS(y, build_weights(g, 2, DIMS(16, 4, 2, 2))));
    graph_attr_ints(g, maker(g, up), ATTR_strides, two, 2);
    expect(g, up, "?x4x222x222");
    graph_free(g);
}

Test(infer, channels_last_convolutions_and_pools)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 8, 9, 3)), w = build_weights(g, 1, DIMS(16, 3, 3, 3));
    uint32_t y = build_node(g, OP_Conv, IDS(x, w));
    graph_attr_int(g, maker(g, y), ATTR_layout, LAYOUT_NHWC);
    expect(g, y, "1x6x7x16");
    uint32_t p = build_node(g, OP_MaxPool, IDS(y));
    graph_attr_int(g, maker(g, p), ATTR_layout, LAYOUT_NHWC);
    graph_attr_ints(g, maker(g, p), ATTR_kernel_shape, two, 2);
    graph_attr_ints(g, maker(g, p), ATTR_strides, two, 2);
    expect(g, p, "1x3x3x16");
    graph_attr_int(g, maker(g, p), ATTR_ceil_mode, 1);
    expect(g, p, "1x3x4x16");
    uint32_t one =
        build_node(g, OP_MaxPool, IDS(build_input(g, "row", DIMS(1, 1, 5, 3)))); /* rounded up from less than 0 */
    graph_attr_int(g, maker(g, one), ATTR_layout, LAYOUT_NHWC);
    graph_attr_ints(g, maker(g, one), ATTR_kernel_shape, two, 2);
    graph_attr_ints(g, maker(g, one), ATTR_strides, two, 2);
    graph_attr_int(g, maker(g, one), ATTR_ceil_mode, 1);
    expect(g, one, "1x1x3x3");
    uint32_t a = build_node(g, OP_GlobalAveragePool, IDS(p));
    graph_attr_int(g, maker(g, a), ATTR_layout, LAYOUT_NHWC);
    expect(g, a, "1x1x1x16");
    graph_free(g);
}

Test(infer, views_and_joins)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(-1, 64, 1, 1)), r;
    r = build_node(g, OP_Reshape, IDS(x, build_list(g, DIMS(0, -1))));
    expect(g, r, "?x64");
    expect(g, build_node(g, OP_Flatten, IDS(x)), "?x64");
    expect(g, build_node(g, OP_Squeeze, IDS(x, build_list(g, DIMS(2, 3)))), "?x64");
    expect(g, build_node(g, OP_Unsqueeze, IDS(r, build_list(g, DIMS(-1)))), "?x64x1");
    uint32_t t = build_node(g, OP_Transpose, IDS(x));
    expect(g, t, "1x1x64x?");
    graph_attr_ints(g, maker(g, t), ATTR_perm, (int64_t[]){0, 2, 3, 1}, 4);
    expect(g, t, "?x1x1x64");
    uint32_t c = build_node(g, OP_Concat, IDS(x, x, x));
    graph_attr_int(g, maker(g, c), ATTR_axis, 1);
    expect(g, c, "?x192x1x1");
    expect(g, build_node(g, OP_Pad, IDS(x, build_list(g, DIMS(0, 0, 1, 2, 0, 0, 3, 4)))), "?x64x5x7");
    expect(g, build_node(g, OP_Tile, IDS(r, build_list(g, DIMS(1, 2)))), "?x128");
    expect(g, build_node(g, OP_Expand, IDS(r, build_list(g, DIMS(5, 1, 64)))), "5x?x64");
    graph_free(g);
}

Test(infer, slices_count_as_numpy_does)
{
    static const struct {
        int64_t start, end, step;
        const char *want;
    } rows[] = {{0, 10, 1, "10"}, {2, 100, 3, "3"},         {-3, INT64_MAX, 1, "3"}, {9, -11, -1, "10"},
                {5, 2, 1, "0"},   {-1, INT64_MIN, -2, "5"}, {100, 0, -4, "3"},       {0, 0, -1, "0"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct graph *g = build_graph();
        uint32_t x = build_input(g, "x", DIMS(10));
        uint32_t y = build_node(g, OP_Slice,
                                IDS(x, build_list(g, 1, &rows[i].start), build_list(g, 1, &rows[i].end),
                                    build_list(g, DIMS(0)), build_list(g, 1, &rows[i].step)));
        expect(g, y, rows[i].want);
        graph_free(g);
    }
}

Test(infer, matrices_reductions_and_picking)
{
    struct graph *g = build_graph();
    uint32_t a = build_input(g, "a", DIMS(2, 1, 3, 4)), b = build_input(g, "b", DIMS(5, 4, 6)),
             v = build_input(g, "v", DIMS(4));
    uint32_t idx = build_typed_input(g, "i", PEN_DTYPE_I64, DIMS(7, 2));
    expect(g, build_node(g, OP_MatMul, IDS(a, b)), "2x5x3x6");
    expect(g, build_node(g, OP_MatMul, IDS(a, v)), "2x1x3");
    uint32_t m = build_node(g, OP_ReduceMean, IDS(a, build_list(g, DIMS(-1, 1))));
    expect(g, m, "2x1x3x1");
    graph_attr_int(g, maker(g, m), ATTR_keepdims, 0);
    expect(g, m, "2x3");
    uint32_t gather = build_node(g, OP_Gather, IDS(a, idx));
    graph_attr_int(g, maker(g, gather), ATTR_axis, 2);
    expect(g, gather, "2x1x7x2x4");
    expect(g, build_node(g, OP_GatherND, IDS(a, idx)), "7x3x4");
    uint32_t gemm = build_node(g, OP_Gemm, IDS(build_input(g, "m", DIMS(-1, 8)), build_weights(g, 3, DIMS(5, 8))));
    graph_attr_int(g, maker(g, gemm), ATTR_transB, 1);
    expect(g, gemm, "?x5");
    uint32_t e = build_node(g, OP_Einsum, IDS(a, b));
    graph_attr_text(g, maker(g, e), ATTR_equation, "...ij,...jk->...ik");
    expect(g, e, "2x5x3x6");
    graph_free(g);
}

Test(infer, shape_arithmetic_resolves_before_anything_runs)
{
    struct graph *g = build_graph();
    struct shape concrete = shape_of(DIMS(4, 3, 5, 7));
    uint32_t x = build_input(g, "x", DIMS(-1, 3, -1, -1));
    uint32_t shape = build_node(g, OP_Shape, IDS(x)),
             first = build_node(g, OP_Gather, IDS(shape, build_list(g, DIMS(0))));
    uint32_t target = build_node(g, OP_Concat, IDS(first, build_list(g, DIMS(-1))));
    uint32_t y = build_node(g, OP_Reshape, IDS(x, target));
    build_output(g, y);
    expect(g, y, "?x?");
    struct shape_env *env;
    char text[96];
    cr_assert_eq(shape_env_new(g, &concrete, NULL, false, &env, NULL), PEN_OK);
    cr_assert_str_eq(shape_text(&env->facts[y].shape, text, sizeof text), "4x105");
    cr_assert(shape_env_folded(env, &g->nodes[maker(g, target)]));
    cr_assert_not(shape_env_folded(env, &g->nodes[maker(g, y)]));
    shape_env_free(env);
    graph_free(g);
}

Test(infer, inputs_that_do_not_fit_the_model_are_refused_by_name)
{
    struct graph *g = build_graph();
    struct pen_error error = {0};
    struct shape_env *env;
    struct shape wrong = shape_of(DIMS(1, 4));
    uint32_t x = build_input(g, "pixels", DIMS(-1, 3));
    build_output(g, build_node(g, OP_Relu, IDS(x)));
    cr_assert_eq(shape_env_new(g, &wrong, NULL, false, &env, &error), PEN_ERR_SHAPE);
    cr_assert_str_eq(error.text, "input 'pixels' has shape 1x4, the model takes ?x3");
    graph_free(g);
}

Test(infer, contradictions_name_the_node)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 5, 8, 8));
    (void)build_node(g, OP_Conv, IDS(x, build_weights(g, 1, DIMS(4, 3, 3, 3))));
    expect_failure(g, "node Conv_0 (Conv): the input has 5 channels");
    g = build_graph();
    x = build_input(g, "x", DIMS(2, 3));
    (void)build_node(g, OP_Add, IDS(x, build_input(g, "y", DIMS(2, 4))));
    expect_failure(g, "shapes 2x3 and 2x4 do not broadcast");
    g = build_graph();
    x = build_input(g, "x", DIMS(2, 3));
    (void)build_node(g, OP_Reshape, IDS(x, build_list(g, DIMS(4, -1))));
    expect_failure(g, "2x3 does not reshape to 4x?");
}

Test(infer, zero_strides_and_groups_are_refused)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1, 3, 8, 8)),
             y = build_node(g, OP_Conv, IDS(x, build_weights(g, 1, DIMS(4, 3, 3, 3))));
    graph_attr_ints(g, maker(g, y), ATTR_strides, (int64_t[]){0, 1}, 2);
    expect_failure(g, "strides");
    g = build_graph();
    x = build_input(g, "x", DIMS(1, 3, 8, 8));
    y = build_node(g, OP_Conv, IDS(x, build_weights(g, 1, DIMS(4, 3, 3, 3))));
    graph_attr_int(g, maker(g, y), ATTR_group, 0);
    expect_failure(g, "group is 0");
}

Test(infer, no_tensor_exceeds_the_budget_and_none_is_allocated_for_it)
{
    struct graph *g = build_graph();
    int64_t huge[2] = {1LL << 31, 1LL << 31};
    (void)build_node(g, OP_ConstantOfShape, IDS(build_list(g, 2, huge)));
    expect_failure(g, "exceeds the budget");
    g = build_graph();
    (void)build_node(g, OP_Range, IDS(build_scalar(g, 0), build_scalar(g, 1), build_scalar(g, 0)));
    expect_failure(g, "has no end");
}

Test(infer, what_is_too_large_to_fold_is_left_to_the_run)
{
    struct graph_limits limits = graph_limits_default();
    struct graph *g = NULL;
    struct shape_env *env;
    limits.folded_bytes = 1000;
    reference_evaluator_register();
    cr_assert_eq(graph_new(&limits, &g), PEN_OK);
    uint32_t y = build_node(g, OP_ConstantOfShape, IDS(build_list(g, DIMS(1000))));
    cr_assert_eq(shape_env_new(g, NULL, NULL, true, &env, NULL), PEN_OK);
    cr_assert_null(env->facts[y].data);
    cr_assert_leq(env->folded_bytes, 1000);
    shape_env_free(env);
    graph_free(g);
}
