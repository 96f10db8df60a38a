/* Loops that become their turns, and lists that become their items. */
#include <criterion/criterion.h>

#include "build.h"
#include "graph/pass.h"

static const struct pass_options every_pass = {.fold = true, .fuse = true};

/* A body's head: turn, condition; the condition goes on as it came. */
static struct graph *body_new(struct graph *g)
{
    struct graph *body = NULL;
    cr_assert_eq(graph_new_child(g, &body), PEN_OK);
    uint32_t turn = build_typed_input(body, "turn", PEN_DTYPE_I64, 0, NULL);
    uint32_t go = build_typed_input(body, "go", PEN_DTYPE_BOOL, 0, NULL);
    cr_assert_neq(turn, go);
    build_output(body, build_node(body, OP_Identity, IDS(go)));
    return body;
}

static uint32_t number(struct graph *g, int64_t n)
{
    uint32_t value = VALUE_NONE;
    cr_assert_eq(graph_constant_i64(g, &n, 1, true, &value), PEN_OK);
    return value;
}

static uint32_t joined(struct graph *g, uint32_t a, uint32_t b)
{
    uint32_t y = build_node(g, OP_Concat, IDS(a, b));
    cr_assert_eq(graph_attr_int(g, maker(g, y), ATTR_axis, 0), PEN_OK);
    return y;
}

static void body_set(struct graph *g, uint32_t node, enum attr_key key, struct graph *body)
{
    const struct attr a = {.key = key, .type = ATTR_GRAPH, .graph = body};
    cr_assert_eq(graph_attr_set(g, node, &a), PEN_OK);
}

/* A Loop that carries `start` and reads x; *ret_items is what it collects. Gives what it carried. */
static uint32_t loop(struct graph *g, struct graph *body, int64_t turns, uint32_t start, uint32_t x,
                     uint32_t *ret_items)
{
    uint32_t out[2] = {VALUE_NONE, VALUE_NONE}, node = NODE_NONE;
    const uint32_t in[] = {number(g, turns), VALUE_NONE, start, x};
    for (uint32_t i = 0; i < body->output_count - 1; i++)
        cr_assert_eq(graph_value(g, NULL, &out[i]), PEN_OK);
    cr_assert_eq(graph_node(g, OP_Loop, "loop", in, 4, out, body->output_count - 1, &node), PEN_OK);
    cr_assert_eq(graph_attr_int(g, node, ATTR_carried, 1), PEN_OK);
    body_set(g, node, ATTR_body, body);
    g->values[out[0]].kind = g->values[start].kind;
    *ret_items = out[1];
    return out[0];
}

static void passes(struct graph *g)
{
    struct pen_error error = {0};
    cr_assert_eq(pass_run(g, &every_pass, NULL, &error), PEN_OK, "%s", error.text);
}

static void expect_same(struct graph *g, struct graph *by_hand)
{
    struct shape_env *a = run_graph(g), *b = run_graph(by_hand);
    cr_expect_lt(compare_outputs(a, b), 1e-6);
    shape_env_free(a);
    shape_env_free(b);
    graph_free(by_hand);
    graph_free(g);
}

/* a grows by x on every turn; the first number of each turn's a is collected, times the turn. */
static struct graph *growing(int64_t turns)
{
    struct graph *g = build_graph(), *body = body_new(g);
    uint32_t a = build_input(body, "a", SHAPE_RANK_UNKNOWN, NULL), x = build_input(body, "x", DIMS(2));
    uint32_t turn = build_node(body, OP_Cast, IDS(body->inputs[0])), items;
    cr_assert_eq(graph_attr_int(body, maker(body, turn), ATTR_to, PEN_DTYPE_F32), PEN_OK);
    uint32_t first = build_node(body, OP_Gather, IDS(a, number(body, 0)));
    build_output(body, joined(body, x, a));
    build_output(body, build_node(body, OP_Mul, IDS(first, turn)));
    uint32_t start = build_input(g, "start", DIMS(3));
    uint32_t y = loop(g, body, turns, start, build_input(g, "outer", DIMS(2)), &items);
    build_output(g, y);
    build_output(g, items);
    return g;
}

Test(unroll, turns_with_shapes_of_their_own_stand_one_behind_the_other)
{
    struct graph *g = growing(3), *h = build_graph();
    passes(g);
    cr_expect_eq(count_op(g, OP_Loop), 0u);
    cr_expect_eq(g->values[g->outputs[0]].shape.dim[0], 9);
    uint32_t start = build_input(h, "start", DIMS(3)), x = build_input(h, "outer", DIMS(2)), zero = number(h, 0);
    uint32_t first =
        build_node(h, OP_Reshape, IDS(build_node(h, OP_Gather, IDS(x, zero)), build_list(h, 1, (int64_t[]){1})));
    uint32_t none = build_node(h, OP_Mul, IDS(first, build_scalar(h, 0.0f)));
    build_output(h, joined(h, x, joined(h, x, joined(h, x, start))));
    build_output(h, joined(h, none, joined(h, first, build_node(h, OP_Mul, IDS(first, build_scalar(h, 2.0f))))));
    expect_same(g, h);
}

Test(unroll, many_turns_stay_a_loop)
{
    struct graph *g = growing(33);
    passes(g);
    cr_expect_eq(count_op(g, OP_Loop), 1u);
    graph_free(g);
}

Test(unroll, turns_that_are_alike_stay_a_loop)
{
    struct graph *g = build_graph(), *body = body_new(g);
    uint32_t a = build_input(body, "a", DIMS(2)), x = build_input(body, "x", DIMS(2)), none;
    build_output(body, build_node(body, OP_Add, IDS(a, x)));
    uint32_t start = build_input(g, "start", DIMS(2));
    build_output(g, loop(g, body, 3, start, build_input(g, "outer", DIMS(2)), &none));
    passes(g);
    cr_expect_eq(count_op(g, OP_Loop), 1u);
    graph_free(g);
}

static struct graph *side(struct graph *g, enum op op)
{
    struct graph *branch = NULL;
    cr_assert_eq(graph_new_child(g, &branch), PEN_OK);
    uint32_t x = build_input(branch, "x", DIMS(2));
    build_output(branch, build_node(branch, op, IDS(x)));
    return branch;
}

/* Each turn has branches of its own: the condition differs from turn to turn. */
Test(unroll, each_turn_takes_its_own_branch)
{
    struct graph *g = build_graph(), *h = build_graph(), *body = body_new(g);
    uint32_t a = build_input(body, "a", SHAPE_RANK_UNKNOWN, NULL), x = build_input(body, "x", DIMS(2)), y, none;
    uint32_t odd = build_node(body, OP_Equal, IDS(body->inputs[0], number(body, 1))), node;
    const uint32_t in[] = {odd, x, x};
    cr_assert_eq(graph_value(body, NULL, &y), PEN_OK);
    cr_assert_eq(graph_node(body, OP_If, "if", in, 3, &y, 1, &node), PEN_OK);
    body_set(body, node, ATTR_then_branch, side(body, OP_Neg));
    body_set(body, node, ATTR_else_branch, side(body, OP_Exp));
    build_output(body, joined(body, a, y));
    uint32_t start = build_input(g, "start", DIMS(3));
    build_output(g, loop(g, body, 3, start, build_input(g, "outer", DIMS(2)), &none));
    passes(g);
    cr_expect_eq(count_op(g, OP_Loop) + count_op(g, OP_If), 0u);
    start = build_input(h, "start", DIMS(3));
    x = build_input(h, "outer", DIMS(2));
    uint32_t e = build_node(h, OP_Exp, IDS(x)), n = build_node(h, OP_Neg, IDS(x));
    build_output(h, joined(h, joined(h, joined(h, start, e), n), e));
    expect_same(g, h);
}

/* A list to which each turn adds a longer piece of x. */
Test(unroll, lists_of_pieces_are_tensors_behind_it)
{
    struct graph *g = build_graph(), *h = build_graph(), *body = body_new(g);
    uint32_t list = build_input(body, "list", SHAPE_RANK_UNKNOWN, NULL), x = build_input(body, "x", DIMS(4)), none;
    body->values[list].kind = VALUE_SEQUENCE;
    uint32_t end = build_node(body, OP_Add, IDS(body->inputs[0], build_list(body, 1, (int64_t[]){1})));
    uint32_t zero = build_list(body, 1, (int64_t[]){0});
    uint32_t more = build_node(body, OP_SequenceInsert, IDS(list, build_node(body, OP_Slice, IDS(x, zero, end, zero))));
    body->values[more].kind = VALUE_SEQUENCE;
    build_output(body, more);
    uint32_t empty = build_node(g, OP_SequenceEmpty, 0, NULL);
    g->values[empty].kind = VALUE_SEQUENCE;
    uint32_t all = loop(g, body, 3, empty, build_input(g, "outer", DIMS(4)), &none);
    uint32_t y = build_node(g, OP_ConcatFromSequence, IDS(all));
    cr_assert_eq(graph_attr_int(g, maker(g, y), ATTR_axis, 0), PEN_OK);
    build_output(g, y);
    build_output(g, build_node(g, OP_Mul, IDS(build_node(g, OP_SequenceLength, IDS(all)), number(g, 2))));
    passes(g);
    cr_expect_eq(count_op(g, OP_Loop) + count_op(g, OP_SequenceInsert) + count_op(g, OP_ConcatFromSequence), 0u);
    x = build_input(h, "outer", DIMS(4));
    uint32_t piece[4];
    for (int64_t i = 1; i < 4; i++) {
        uint32_t from = build_list(h, 1, (int64_t[]){0}), to = build_list(h, 1, (int64_t[]){i});
        piece[i] = build_node(h, OP_Slice, IDS(x, from, to, from));
    }
    build_output(h, joined(h, piece[1], joined(h, piece[2], piece[3])));
    build_output(h, build_node(h, OP_Identity, IDS(number(h, 6))));
    expect_same(g, h);
}

/* The pieces of x, of which the last but one goes and in front of which y comes; then its length, an element and the rest. */
Test(lists, items_known_one_by_one_may_come_and_go)
{
    struct graph *g = build_graph(), *h = build_graph();
    uint32_t x = build_input(g, "x", DIMS(3, 2)), y = build_input(g, "y", DIMS(2));
    uint32_t list = build_node(g, OP_SplitToSequence, IDS(x));
    cr_assert_eq(graph_attr_int(g, maker(g, list), ATTR_keepdims, 0), PEN_OK);
    list = build_node(g, OP_SequenceErase, IDS(list, number(g, -2)));
    list = build_node(g, OP_SequenceInsert, IDS(list, y, number(g, 0)));
    uint32_t all = build_node(g, OP_ConcatFromSequence, IDS(list));
    cr_assert_eq(graph_attr_int(g, maker(g, all), ATTR_axis, 0), PEN_OK);
    cr_assert_eq(graph_attr_int(g, maker(g, all), ATTR_new_axis, 1), PEN_OK);
    build_output(g, all);
    build_output(g, build_node(g, OP_SequenceAt, IDS(list, number(g, 1))));
    passes(g);
    cr_expect_eq(count_op(g, OP_SplitToSequence) + count_op(g, OP_SequenceErase) + count_op(g, OP_SequenceInsert) +
                     count_op(g, OP_SequenceAt) + count_op(g, OP_ConcatFromSequence),
                 0u);
    x = build_input(h, "x", DIMS(3, 2));
    y = build_node(h, OP_Unsqueeze, IDS(build_input(h, "y", DIMS(2)), build_list(h, 1, (int64_t[]){0})));
    uint32_t rows = build_node(h, OP_Gather, IDS(x, build_list(h, 2, (int64_t[]){0, 2})));
    build_output(h, joined(h, y, rows));
    build_output(h, build_node(h, OP_Gather, IDS(x, number(h, 0))));
    expect_same(g, h);
}

Test(lists, pieces_side_by_side_are_what_was_split)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(4, 2)), lengths = build_list(g, 2, (int64_t[]){1, 3});
    uint32_t list = build_node(g, OP_SplitToSequence, IDS(x, lengths)),
             y = build_node(g, OP_ConcatFromSequence, IDS(list));
    cr_assert_eq(graph_attr_int(g, maker(g, y), ATTR_axis, 0), PEN_OK);
    build_output(g, build_node(g, OP_Neg, IDS(y)));
    passes(g);
    cr_expect_eq(count_op(g, OP_SplitToSequence) + count_op(g, OP_ConcatFromSequence), 0u);
    graph_free(g);
}
