/* Values, nodes, attributes, rewriting, order; shapes; the operator table. */
#include <criterion/criterion.h>
#include <string.h>

#include "build.h"
#include "graph/rules.h"

Test(shape, elements_and_bytes_are_checked_for_overflow)
{
    struct shape huge = shape_of(DIMS(1LL << 40, 1LL << 40));
    struct shape empty = shape_of(DIMS(1LL << 40, 0, 1LL << 40));
    size_t bytes = 1;
    cr_assert_eq(shape_elements(&huge), -1);
    cr_assert_eq(shape_bytes(&huge, PEN_DTYPE_F32, 0, &bytes), PEN_ERR_TOO_LARGE);
    cr_assert_eq(shape_elements(&empty), 0);
    cr_assert_eq(shape_bytes(&empty, PEN_DTYPE_F32, 0, &bytes), PEN_OK);
    cr_assert_eq(bytes, 0);
    cr_assert_eq(shape_bytes(&empty, PEN_DTYPE_F32, 1 << 30, &bytes),
                 PEN_ERR_TOO_LARGE); /* whoever goes through its rows never ends */
    struct shape odd = shape_of(DIMS(3));
    cr_assert_eq(shape_bytes(&odd, PEN_DTYPE_I4, 0, &bytes), PEN_OK);
    cr_assert_eq(bytes, 2);
    cr_assert_eq(shape_bytes(&odd, PEN_DTYPE_F32, 11, &bytes), PEN_ERR_TOO_LARGE);
}

Test(shape, text_says_what_is_unknown)
{
    char text[64];
    struct shape s = shape_of(DIMS(1, SHAPE_DIM_UNKNOWN, 3));
    cr_assert_str_eq(shape_text(&s, text, sizeof text), "1x?x3");
    s = shape_scalar();
    cr_assert_str_eq(shape_text(&s, text, sizeof text), "scalar");
    s = shape_unknown();
    cr_assert_str_eq(shape_text(&s, text, sizeof text), "unknown");
    s = shape_of(DIMS(123456, 123456, 123456));
    shape_text(&s, text, 8);
    cr_assert_eq(strlen(text), 7);
}

Test(shape, broadcasting_follows_numpy)
{
    struct shape a = shape_of(DIMS(4, 1, 3)), b = shape_of(DIMS(5, 1)), out;
    cr_assert(shape_broadcast(&a, &b, &out));
    struct shape want = shape_of(DIMS(4, 5, 3));
    cr_assert(shape_equal(&out, &want));
    b = shape_of(DIMS(2, 3));
    a = shape_of(DIMS(4, 3));
    cr_assert_not(shape_broadcast(&a, &b, &out));
    a = shape_of(DIMS(SHAPE_DIM_UNKNOWN, 3));
    b = shape_of(DIMS(1, 3));
    cr_assert(shape_broadcast(&a, &b, &out));
    cr_assert_eq(out.dim[0], SHAPE_DIM_UNKNOWN);
}

Test(op, every_row_is_found_by_its_name)
{
    for (unsigned op = OP_NONE + 1; op < OP_COUNT; op++) {
        const struct op_def *def = op_def((enum op)op);
        cr_assert_eq(op_find(def->name), (enum op)op, "%s", def->name);
        cr_assert_leq(def->min_in, def->max_in, "%s", def->name);
        cr_assert_leq(def->min_out, def->max_out, "%s", def->name);
        cr_assert_not_null((void *)(uintptr_t)infer_rule_of((enum op)op), "%s", def->name);
    }
    cr_assert_eq(op_find("NoSuchOperator"), OP_NONE);
    cr_assert_eq(attr_find("kernel_shape"), ATTR_kernel_shape);
    cr_assert_eq(attr_find("act"), ATTR_NONE, "our own keys are never read from a file");
}

Test(graph, arity_and_double_outputs_are_refused)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2)), y = build_node(g, OP_Relu, IDS(x));
    uint32_t in[3] = {x, x, x};
    cr_assert_eq(graph_node(g, OP_Add, NULL, in, 1, &y, 1, NULL), PEN_ERR_INVALID);
    cr_assert_eq(graph_node(g, OP_Add, NULL, in, 2, &y, 1, NULL), PEN_ERR_INVALID, "y has a maker already");
    cr_assert_eq(graph_node(g, OP_Relu, NULL, in, 3, &y, 1, NULL), PEN_ERR_INVALID);
    graph_free(g);
}

Test(graph, attributes_are_replaced_and_have_defaults)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2)), node = maker(g, build_node(g, OP_LeakyRelu, IDS(x))), count;
    cr_assert_eq(node_int(&g->nodes[node], ATTR_axis, 7), 7);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(graph_attr_int(g, node, ATTR_axis, i), PEN_OK);
    cr_assert_eq(node_int(&g->nodes[node], ATTR_axis, 7), 2);
    cr_assert_eq(g->nodes[node].attr_count, 1);
    cr_assert_eq(graph_attr_ints(g, node, ATTR_pads, (int64_t[]){1, 2}, 2), PEN_OK);
    cr_assert_eq(node_ints(&g->nodes[node], ATTR_pads, &count)[1], 2);
    cr_assert_null(node_ints(&g->nodes[node], ATTR_axis, &count), "another type reads as absent");
    cr_assert_eq(graph_attr_text(g, node, ATTR_mode, "edge"), PEN_OK);
    cr_assert(node_text_is(&g->nodes[node], ATTR_mode, "edge", false));
    graph_attr_drop(g, node, ATTR_mode);
    cr_assert_not(node_text_is(&g->nodes[node], ATTR_mode, "edge", false));
    graph_free(g);
}

Test(graph, compact_drops_what_no_output_needs_and_sorts)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2)), mid;
    cr_assert_eq(graph_value(g, "mid", &mid), PEN_OK);
    uint32_t y = build_node(g, OP_Relu, IDS(mid)); /* before its maker */
    (void)build_node(g, OP_Abs, IDS(x));           /* unused */
    cr_assert_eq(graph_node(g, OP_Neg, "neg", &x, 1, &mid, 1, NULL), PEN_OK);
    build_output(g, y);
    cr_assert_eq(graph_compact(g), PEN_OK);
    cr_assert_eq(g->node_count, 2);
    cr_assert_eq(g->nodes[0].op, OP_Neg);
    cr_assert_eq(maker(g, y), 1);
    cr_assert_eq(g->values[mid].producer, 0);
    graph_free(g);
}

Test(graph, replace_reaches_consumers_and_outputs)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(2)), a = build_node(g, OP_Relu, IDS(x)), b = build_node(g, OP_Add, IDS(a, a));
    build_output(g, a);
    build_output(g, b);
    cr_assert_eq(graph_uses(g, a), 3);
    cr_assert_eq(graph_replace(g, a, x), PEN_OK);
    cr_assert_eq(graph_uses(g, a), 0);
    cr_assert_eq(graph_uses(g, x), 4, "the Relu still reads x");
    cr_assert_eq(g->outputs[0], x);
    graph_free(g);
}

Test(graph, use_lists_follow_every_rewrite)
{
    struct graph *g = build_graph();
    struct uses u;
    uint32_t x = build_input(g, "x", DIMS(2)), a = build_node(g, OP_Relu, IDS(x)), b = build_node(g, OP_Neg, IDS(a));
    build_output(g, b);
    cr_assert_eq(uses_init(&u, g), PEN_OK);
    cr_assert_eq(uses_single(&u, a), maker(g, b));
    cr_assert_eq(uses_single(&u, b), NODE_NONE, "a graph output is no node");
    cr_assert_eq(uses_count(&u, b), 1);
    uint32_t c = build_node(g, OP_Abs, IDS(a));
    cr_assert_eq(uses_add(&u, maker(g, c)), PEN_OK);
    cr_assert_eq(uses_single(&u, a), NODE_NONE);
    cr_assert_eq(uses_replace(&u, a, x), PEN_OK);
    cr_assert_eq(uses_count(&u, a), 0);
    cr_assert_eq(uses_count(&u, x), 3);
    uses_kill(&u, maker(g, a));
    cr_assert_eq(uses_count(&u, x), 2);
    uses_fini(&u);
    graph_free(g);
}

Test(graph, limits_on_nodes_and_values_hold)
{
    struct graph_limits limits = graph_limits_default();
    struct graph *g = NULL;
    uint32_t id, out;
    limits.values = 3;
    limits.nodes = 1;
    cr_assert_eq(graph_new(&limits, &g), PEN_OK);
    cr_assert_eq(graph_value(g, "a", &id), PEN_OK);
    cr_assert_eq(graph_value(g, "b", &out), PEN_OK);
    cr_assert_eq(graph_node(g, OP_Relu, NULL, &id, 1, &out, 1, NULL), PEN_OK);
    cr_assert_eq(graph_value(g, "c", &out), PEN_OK);
    cr_assert_eq(graph_node(g, OP_Relu, NULL, &id, 1, &out, 1, NULL), PEN_ERR_TOO_LARGE);
    cr_assert_eq(graph_value(g, "d", &out), PEN_ERR_TOO_LARGE);
    graph_free(g);
}

Test(graph, a_constant_must_fit_its_shape)
{
    struct graph *g = build_graph();
    struct shape s = shape_of(DIMS(3));
    float items[3] = {1, 2, 3};
    uint32_t id;
    cr_assert_eq(graph_constant(g, "c", PEN_DTYPE_F32, &s, items, 8, true, &id), PEN_ERR_SHAPE);
    cr_assert_eq(graph_constant(g, "c", PEN_DTYPE_F32, &s, items, 12, false, &id), PEN_OK);
    cr_assert_eq(g->values[id].data, items, "borrowed, not copied");
    graph_free(g);
}
