/* What verification refuses, and that it says where. */
#include <criterion/criterion.h>
#include <string.h>

#include "build.h"

static void refuse(struct graph *g, const char *phrase)
{
    struct pen_error error = {0};
    cr_assert_neq(graph_verify(g, &error), PEN_OK);
    cr_assert(strstr(error.text, phrase), "'%s' does not say '%s'", error.text, phrase);
    graph_free(g);
}

Test(verify, a_cycle_is_named)
{
    struct graph *g = build_graph();
    uint32_t a, b;
    cr_assert_eq(graph_value(g, "a", &a), PEN_OK);
    cr_assert_eq(graph_value(g, "b", &b), PEN_OK);
    cr_assert_eq(graph_node(g, OP_Relu, "first", &a, 1, &b, 1, NULL), PEN_OK);
    cr_assert_eq(graph_node(g, OP_Relu, "second", &b, 1, &a, 1, NULL), PEN_OK);
    build_output(g, a);
    refuse(g, "depends on its own output");
}

Test(verify, names_are_unique)
{
    struct graph *g = build_graph();
    (void)build_input(g, "x", DIMS(1));
    build_output(g, build_input(g, "x", DIMS(1)));
    refuse(g, "two values are named 'x'");
}

Test(verify, a_value_that_nothing_gives_is_named)
{
    struct graph *g = build_graph();
    uint32_t lost;
    cr_assert_eq(graph_value(g, "lost", &lost), PEN_OK);
    build_output(g, build_node(g, OP_Relu, IDS(lost)));
    refuse(g, "'lost', which nothing gives");
}

Test(verify, a_required_input_is_not_omitted)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1));
    build_output(g, build_node(g, OP_Add, IDS(x, VALUE_NONE)));
    refuse(g, "omits an input");
}

Test(verify, ids_are_in_range)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1)), y = build_node(g, OP_Relu, IDS(x));
    build_output(g, y);
    g->nodes[0].in[0] = 99;
    refuse(g, "does not exist");
}

Test(verify, a_graph_input_has_no_maker)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1)), y = build_node(g, OP_Relu, IDS(x));
    cr_assert_eq(graph_input_add(g, y), PEN_OK);
    build_output(g, y);
    refuse(g, "also the output of a node");
}

static struct graph *with_if(uint32_t extra_outputs)
{
    struct graph *g = build_graph(), *yes, *no;
    uint32_t cond = build_typed_input(g, "cond", PEN_DTYPE_BOOL, 0, (int64_t[]){0}),
             out = build_node(g, OP_If, IDS(cond));
    uint32_t node = maker(g, out);
    cr_assert_eq(graph_new_child(g, &yes), PEN_OK);
    cr_assert_eq(graph_new_child(g, &no), PEN_OK);
    build_output(yes, build_scalar(yes, 1));
    for (uint32_t i = 0; i <= extra_outputs; i++)
        build_output(no, build_scalar(no, 2));
    struct attr then_attr = {.key = ATTR_then_branch, .type = ATTR_GRAPH, .graph = yes};
    struct attr else_attr = {.key = ATTR_else_branch, .type = ATTR_GRAPH, .graph = no};
    cr_assert_eq(graph_attr_set(g, node, &then_attr), PEN_OK);
    cr_assert_eq(graph_attr_set(g, node, &else_attr), PEN_OK);
    build_output(g, out);
    return g;
}

Test(verify, branches_give_what_their_node_gives)
{
    struct graph *g = with_if(0);
    cr_assert_eq(graph_verify(g, NULL), PEN_OK);
    graph_free(g);
    refuse(with_if(1), "another number of outputs");
}

/* An attribute whose type is another than what its readers take for granted. */
Test(verify, lists_texts_and_bodies_have_their_type)
{
    static const struct {
        enum op op;
        enum attr_key key;
    } wrong[] = {{OP_Neg, ATTR_strides},   {OP_Neg, ATTR_perm},     {OP_Neg, ATTR_activations},
                 {OP_Neg, ATTR_equation},  {OP_Neg, ATTR_body},     {OP_Neg, ATTR_keys_strings},
                 {OP_Scaler, ATTR_offset}, {OP_Scaler, ATTR_scale}, {OP_TfIdfVectorizer, ATTR_weights}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct graph *g = build_graph();
        uint32_t x = build_input(g, "x", DIMS(1, 1, 1)), y = build_node(g, wrong[i].op, IDS(x));
        build_output(g, y);
        cr_assert_eq(graph_attr_int(g, maker(g, y), wrong[i].key, 7), PEN_OK);
        refuse(g, "has another type than it needs");
    }
}

Test(verify, nodes_are_sorted_and_the_order_of_a_sorted_graph_is_kept)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(1)), mid;
    cr_assert_eq(graph_value(g, "mid", &mid), PEN_OK);
    build_output(g, build_node(g, OP_Relu, IDS(mid)));
    cr_assert_eq(graph_node(g, OP_Neg, NULL, &x, 1, &mid, 1, NULL), PEN_OK);
    cr_assert_eq(graph_verify(g, NULL), PEN_OK);
    cr_assert_eq(g->nodes[0].op, OP_Neg);
    cr_assert_eq(graph_verify(g, NULL), PEN_OK);
    cr_assert_eq(g->nodes[0].op, OP_Neg);
    graph_free(g);
}
