/* Plausible sizes for dynamic dims: what the constants of a model say about its inputs. */
#include <criterion/criterion.h>

#include "backend/backend.h"
#include "build.h"
#include "graph/annotate.h"
#include "graph/pass.h"

/* The shape that the trial finds for a value. */
static void expect_trial(struct graph *g, uint32_t value, int32_t rank, const int64_t *dims)
{
    const struct shape want = shape_of(rank, dims);
    char got_text[64], want_text[64];
    cr_assert_eq(graph_annotate(g, NULL), PEN_OK);
    struct shape_env *env = NULL;
    cr_assert_eq(trial_env_new(g, &env, NULL), PEN_OK);
    shape_text(&env->facts[value].shape, got_text, sizeof got_text);
    shape_text(&want, want_text, sizeof want_text);
    cr_expect_str_eq(got_text, want_text);
    shape_env_free(env);
    graph_free(g);
}

Test(trial, channels_are_those_of_the_first_filter)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(-1, -1, -1, -1)), w = build_weights(g, 1, DIMS(4, 3, 1, 1));
    uint32_t y = build_node(g, OP_Conv, IDS(build_node(g, OP_Relu, IDS(x)), w));
    build_output(g, y);
    expect_trial(g, y, DIMS(1, 4, 1, 1));
}

Test(trial, channels_are_followed_through_transposes)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(-1, -1, -1, -1)), w = build_weights(g, 1, DIMS(4, 6, 1, 1));
    uint32_t t = build_node(g, OP_Transpose, IDS(x));
    cr_assert_eq(graph_attr_ints(g, maker(g, t), ATTR_perm, (int64_t[]){0, 3, 1, 2}, 4), PEN_OK);
    build_output(g, build_node(g, OP_Conv, IDS(t, w)));
    expect_trial(g, x, DIMS(1, 1, 1, 6));
}

Test(trial, features_are_those_of_a_product_or_a_bias)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(-1, -1, -1));
    build_output(g, build_node(g, OP_MatMul, IDS(x, build_weights(g, 1, DIMS(7, 5)))));
    expect_trial(g, x, DIMS(1, 1, 7));
    g = build_graph();
    x = build_input(g, "x", DIMS(-1, -1, -1));
    build_output(g, build_node(g, OP_Add, IDS(x, build_weights(g, 1, DIMS(9)))));
    expect_trial(g, x, DIMS(1, 1, 9));
}

/* An image of patches of 4, with stored positions for 6 x 6 of them and a class. */
Test(trial, sides_suit_stored_positions)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(-1, -1, -1, -1)), w = build_weights(g, 1, DIMS(5, 3, 4, 4));
    uint32_t patches = build_node(g, OP_Conv, IDS(x, w));
    cr_assert_eq(graph_attr_ints(g, maker(g, patches), ATTR_strides, (int64_t[]){4, 4}, 2), PEN_OK);
    uint32_t flat = build_node(g, OP_Reshape, IDS(patches, build_list(g, 3, (int64_t[]){0, 5, -1})));
    uint32_t rows = build_node(g, OP_Transpose, IDS(flat));
    cr_assert_eq(graph_attr_ints(g, maker(g, rows), ATTR_perm, (int64_t[]){0, 2, 1}, 3), PEN_OK);
    build_output(g, build_node(g, OP_Add, IDS(rows, build_weights(g, 2, DIMS(1, 36, 5)))));
    expect_trial(g, x, DIMS(1, 3, 24, 24));
}

Test(trial, dims_of_one_name_have_one_size_and_sums_are_sums)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(-1, -1)), y = build_input(g, "y", DIMS(-1, -1));
    g->values[x].symbol[1] = g->values[y].symbol[1] = "features";
    build_output(g, build_node(g, OP_MatMul, IDS(x, build_weights(g, 1, DIMS(7, 5)))));
    build_output(g, build_node(g, OP_Relu, IDS(y)));
    expect_trial(g, y, DIMS(1, 7));
    g = build_graph();
    x = build_input(g, "x", DIMS(-1, -1));
    g->values[x].symbol[1] = "past_length + length";
    build_output(g, build_node(g, OP_Relu, IDS(x)));
    expect_trial(g, x, DIMS(1, 2));
}
