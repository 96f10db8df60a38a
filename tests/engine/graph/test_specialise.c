/* Which inputs decide shapes by their contents. */
#include <criterion/criterion.h>

#include "backend/backend.h"
#include "build.h"
#include "graph/specialise.h"

static struct specialise found_in(const struct graph *g)
{
    struct specialise s = {0};
    struct shape_env *env = trial_env_new(g);
    cr_assert_not_null(env);
    cr_assert_eq(specialise_find(g, env, &s), PEN_OK);
    shape_env_free(env);
    return s;
}

Test(specialise, a_target_shape_is_followed_back_through_arithmetic)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(6, 4));
    uint32_t rows = build_typed_input(g, "rows", PEN_DTYPE_I64, DIMS(1));
    uint32_t rest = build_list(g, 1, (int64_t[]){-1});
    uint32_t bias = build_input(g, "bias", DIMS(1));
    uint32_t shape = build_node(g, OP_Concat, IDS(rows, rest));
    g->nodes[maker(g, shape)].attr_count = 0;
    cr_assert_eq(graph_attr_int(g, maker(g, shape), ATTR_axis, 0), PEN_OK);
    uint32_t y = build_node(g, OP_Reshape, IDS(x, shape));
    build_output(g, build_node(g, OP_Add, IDS(y, bias)));
    struct specialise s = found_in(g);
    cr_assert_eq(s.count, 1u);
    cr_assert(!s.input[0] && s.input[1] && !s.input[2], "x and bias are data, rows is a parameter");
    cr_assert(s.node[maker(g, shape)] && s.node[maker(g, y)]);
    specialise_fini(&s);
    graph_free(g);
}

Test(specialise, what_large_inputs_decide_stays_data)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(8, 8, 8));
    build_output(g, build_node(g, OP_NonZero, IDS(x)));
    cr_assert(!specialise_possible(g));
    struct specialise s = found_in(g);
    cr_assert_eq(s.count, 0u);
    specialise_fini(&s);
    graph_free(g);
}

Test(specialise, known_shapes_need_no_values)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(8, 8));
    uint32_t index = build_typed_input(g, "index", PEN_DTYPE_I64, DIMS(3));
    build_output(g, build_node(g, OP_Gather, IDS(x, index)));
    struct specialise s = found_in(g);
    cr_assert_eq(s.count, 0u);
    specialise_fini(&s);
    graph_free(g);
}

Test(specialise, constants_take_the_place_of_the_inputs)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(6, 4));
    uint32_t shape = build_typed_input(g, "shape", PEN_DTYPE_I64, DIMS(2));
    uint32_t y = build_node(g, OP_Reshape, IDS(x, shape));
    build_output(g, y);
    struct specialise s = found_in(g);
    cr_assert_eq(s.count, 1u);
    const int64_t wanted[] = {3, 8};
    const struct shape shapes[] = {g->values[x].shape, g->values[shape].shape};
    const void *const data[] = {NULL, wanted};
    cr_assert_eq(specialise_apply(g, s.input, shapes, data), PEN_OK);
    struct shape_env *env = NULL;
    cr_assert_eq(shape_env_new(g, NULL, NULL, false, &env, NULL), PEN_OK);
    cr_assert_eq(env->facts[y].shape.dim[0], 3);
    cr_assert_eq(env->facts[y].shape.dim[1], 8);
    cr_assert_eq(g->input_count, 2u, "the signature stays");
    shape_env_free(env);
    specialise_fini(&s);
    graph_free(g);
}
