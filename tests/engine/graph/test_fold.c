/* Folding, simplification and common subexpressions. */
#include <criterion/criterion.h>
#include <string.h>

#include "build.h"
#include "graph/pass.h"

static const struct pass_options fold_only = {.fold = true};

static struct pass_report optimise(struct graph *g, struct pass_options options)
{
    struct pass_report report = {0};
    struct pen_error error = {0};
    cr_assert_eq(pass_run(g, &options, &report, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(graph_verify(g, &error), PEN_OK, "%s", error.text);
    return report;
}

Test(fold, constants_are_computed_once)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2, 3)), w = build_weights(g, 1, DIMS(3)), v = build_weights(g, 2, DIMS(3));
    uint32_t sum = build_node(g, OP_Add, IDS(w, v)), y = build_node(g, OP_Mul, IDS(x, sum));
    build_output(g, y);
    struct pass_report report = optimise(g, fold_only);
    cr_assert_eq(g->node_count, 1);
    cr_assert_eq(report.folded, 1);
    const float *a = g->values[w].data, *b = g->values[v].data, *s = g->values[g->nodes[0].in[1]].data;
    for (int i = 0; i < 3; i++)
        cr_assert_float_eq(s[i], a[i] + b[i], 1e-6);
    graph_free(g);
}

Test(fold, an_output_that_folds_keeps_its_name)
{
    struct graph *g = build_graph();
    uint32_t y, x = build_scalar(g, -3);
    cr_assert_eq(graph_value(g, "answer", &y), PEN_OK);
    cr_assert_eq(graph_node(g, OP_Abs, NULL, &x, 1, &y, 1, NULL), PEN_OK);
    build_output(g, y);
    (void)optimise(g, fold_only);
    cr_assert_eq(g->node_count, 0);
    cr_assert_str_eq(g->values[g->outputs[0]].name, "answer");
    cr_assert_float_eq(*(const float *)g->values[y].data, 3, 0);
    graph_free(g);
}

Test(fold, random_values_are_never_folded_and_mark_the_graph)
{
    struct graph *g = build_graph();
    uint32_t y;
    cr_assert_eq(graph_value(g, "noise", &y), PEN_OK);
    cr_assert_eq(graph_node(g, OP_RandomNormal, NULL, NULL, 0, &y, 1, NULL), PEN_OK);
    graph_attr_ints(g, 0, ATTR_shape, (int64_t[]){3}, 1);
    build_output(g, y);
    (void)optimise(g, fold_only);
    cr_assert_eq(g->node_count, 1);
    cr_assert(g->stochastic);
    graph_free(g);
}

Test(simplify, identities_and_views_of_views_go)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2, 3, 4)), a = build_node(g, OP_Identity, IDS(x));
    uint32_t b = build_node(g, OP_Reshape, IDS(a, build_list(g, DIMS(6, 4))));
    uint32_t c = build_node(g, OP_Reshape, IDS(b, build_list(g, DIMS(24))));
    uint32_t d = build_node(g, OP_Relu, IDS(build_node(g, OP_Identity, IDS(c)))), y;
    cr_assert_eq(graph_value(g, "y", &y), PEN_OK);
    cr_assert_eq(graph_node(g, OP_Identity, NULL, &d, 1, &y, 1, NULL), PEN_OK);
    build_output(g, y);
    struct shape_env *before = run_graph(g);
    (void)optimise(g, fold_only);
    struct shape_env *after = run_graph(g);
    cr_assert_eq(g->node_count, 2, "a Reshape and a Relu");
    cr_assert_str_eq(g->values[g->outputs[0]].name, "y");
    cr_assert_leq(compare_outputs(before, after), 0);
    shape_env_free(before);
    shape_env_free(after);
    graph_free(g);
}

Test(simplify, an_identity_between_input_and_output_stays)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2)), y = build_node(g, OP_Identity, IDS(x));
    build_output(g, y);
    (void)optimise(g, (struct pass_options){.fold = true, .fuse = true, .nhwc = true});
    cr_assert_eq(g->node_count, 1);
    cr_assert_eq(g->outputs[0], y);
    graph_free(g);
}

Test(simplify, transposes_join_and_cancel)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2, 3, 4)), a = build_node(g, OP_Transpose, IDS(x)),
             b = build_node(g, OP_Transpose, IDS(a));
    graph_attr_ints(g, maker(g, a), ATTR_perm, (int64_t[]){2, 0, 1}, 3);
    graph_attr_ints(g, maker(g, b), ATTR_perm, (int64_t[]){1, 2, 0}, 3);
    build_output(g, build_node(g, OP_Relu, IDS(b)));
    (void)optimise(g, fold_only);
    cr_assert_eq(count_op(g, OP_Transpose), 0);
    graph_free(g);
}

Test(simplify, a_softmax_over_the_last_axis_needs_no_matrix_view)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(-1, 10)), shape = build_node(g, OP_Shape, IDS(x)),
             f = build_node(g, OP_Flatten, IDS(x));
    uint32_t s = build_node(g, OP_Softmax, IDS(f));
    build_output(g, build_node(g, OP_Reshape, IDS(s, shape)));
    (void)optimise(g, fold_only);
    cr_assert_eq(g->node_count, 1);
    cr_assert_eq(g->nodes[0].op, OP_Softmax);
    graph_free(g);
}

/* The batch is open: what is copied, named or left over is what was there; a number that the input does not promise may be another one. */
Test(simplify, a_reshape_of_an_open_batch_to_itself_goes)
{
    static const struct {
        int64_t to[3];
        bool goes;
    } rows[] = {{{-1, 4, 6}, true},  {{0, 4, 6}, true},  {{0, -1, 6}, true},  {{0, 0, 0}, true},
                {{-1, 6, 4}, false}, {{2, 4, 6}, false}, {{-1, 4, 24}, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct graph *g = build_graph();
        uint32_t x = build_input(g, "x", DIMS(-1, 4, 6)), a = build_node(g, OP_Relu, IDS(x));
        uint32_t b = build_node(g, OP_Reshape, IDS(a, build_list(g, 3, rows[i].to)));
        build_output(g, build_node(g, OP_Tanh, IDS(b)));
        (void)optimise(g, fold_only);
        cr_expect_eq(count_op(g, OP_Reshape), rows[i].goes ? 0 : 1, "row %zu", i);
        graph_free(g);
    }
}

Test(common, equal_nodes_are_computed_once)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(4)), count = 0;
    uint32_t a = build_node(g, OP_Mul, IDS(x, build_scalar(g, 2))),
             b = build_node(g, OP_Mul, IDS(x, build_scalar(g, 2)));
    uint32_t c = build_node(g, OP_Mul, IDS(x, build_scalar(g, 3)));
    build_output(g, build_node(g, OP_Sum, IDS(a, b, c)));
    struct shape_env *before = run_graph(g);
    cr_assert_eq(pass_common(g, &count), PEN_OK);
    cr_assert_eq(count, 1);
    cr_assert_eq(count_op(g, OP_Mul), 2);
    struct shape_env *after = run_graph(g);
    cr_assert_leq(compare_outputs(before, after), 0);
    shape_env_free(before);
    shape_env_free(after);
    graph_free(g);
}
