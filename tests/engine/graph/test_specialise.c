/* Which inputs decide shapes by their contents. */
#include <criterion/criterion.h>

#include "backend/backend.h"
#include "build.h"
#include "graph/annotate.h"
#include "graph/pass.h"
#include "graph/specialise.h"

static struct specialise found_in(struct graph *g)
{
    struct specialise s = {0};
    cr_assert_eq(graph_annotate(g, NULL), PEN_OK);
    struct shape_env *env = NULL;
    cr_assert_eq(trial_env_new(g, &env, NULL), PEN_OK);
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
    struct specialise s = found_in(g);
    cr_assert(!specialise_useful(&s));
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
    cr_assert(!specialise_useful(&s));
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
    cr_assert_eq(specialise_apply(g, &s, shapes, data), PEN_OK);
    struct shape_env *env = NULL;
    cr_assert_eq(shape_env_new(g, NULL, NULL, false, &env, NULL), PEN_OK);
    cr_assert_eq(env->facts[y].shape.dim[0], 3);
    cr_assert_eq(env->facts[y].shape.dim[1], 8);
    cr_assert_eq(g->input_count, 2u, "the signature stays");
    shape_env_free(env);
    specialise_fini(&s);
    graph_free(g);
}

/* An If over `captured` whose branches scale it differently. */
static uint32_t branches(struct graph *g, uint32_t condition, uint32_t captured)
{
    uint32_t node, out, in[3] = {condition, captured, captured};
    cr_assert_eq(graph_value(g, "chosen", &out), PEN_OK);
    cr_assert_eq(graph_node(g, OP_If, NULL, in, 3, &out, 1, &node), PEN_OK);
    for (int k = 0; k < 2; k++) {
        struct graph *body = NULL;
        cr_assert_eq(graph_new_child(g, &body), PEN_OK);
        uint32_t x = build_input(body, "x", g->values[captured].shape.rank, g->values[captured].shape.dim);
        build_output(body, build_node(body, OP_Mul, IDS(x, build_scalar(body, k == 0 ? 2.0f : 3.0f))));
        struct attr a = {.key = k == 0 ? ATTR_then_branch : ATTR_else_branch, .type = ATTR_GRAPH, .graph = body};
        cr_assert_eq(graph_attr_set(g, node, &a), PEN_OK);
    }
    return out;
}

Test(specialise, branches_that_shapes_decide_wait_for_them)
{
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(-1, 4));
    uint32_t rows = build_node(g, OP_Gather, IDS(build_node(g, OP_Shape, IDS(x)), build_list(g, 1, (int64_t[]){0})));
    uint32_t y = branches(g, build_node(g, OP_Equal, IDS(rows, build_list(g, 1, (int64_t[]){3}))), x);
    build_output(g, build_node(g, OP_Relu, IDS(y)));
    struct specialise s = found_in(g);
    cr_assert(s.shapes && s.count == 0, "no contents are wanted");
    cr_assert(s.node[maker(g, y)] && !s.node[maker(g, rows)]);
    const struct shape shapes[] = {shape_of(2, (int64_t[]){3, 4})};
    cr_assert_eq(specialise_apply(g, &s, shapes, (const void *[]){NULL}), PEN_OK);
    const struct pass_options options = {.fold = true};
    struct pass_report report = {0};
    cr_assert_eq(pass_run(g, &options, &report, NULL), PEN_OK);
    cr_assert_eq(report.branches, 1u);
    cr_assert_eq(count_op(g, OP_If), 0u);
    cr_assert_eq(graph_verify(g, NULL), PEN_OK);
    specialise_fini(&s);
    graph_free(g);
}

Test(branch, a_known_condition_leaves_the_branch_it_takes)
{
    for (int taken = 0; taken < 2; taken++) {
        struct graph *g = build_graph();
        uint32_t x = build_input(g, "x", DIMS(5, 4)), condition;
        const uint8_t yes = (uint8_t)taken;
        const struct shape scalar = shape_scalar();
        cr_assert_eq(graph_constant(g, NULL, PEN_DTYPE_BOOL, &scalar, &yes, 1, true, &condition), PEN_OK);
        build_output(g, branches(g, condition, x)); /* the graph's own output: its name stays */
        const struct pass_options options = {.fold = true, .fuse = true};
        struct pass_report report = {0};
        cr_assert_eq(pass_run(g, &options, &report, NULL), PEN_OK);
        cr_assert_eq(count_op(g, OP_If), 0u);
        cr_assert_str_eq(g->values[g->outputs[0]].name, "chosen");
        struct shape_env *after = run_graph(g);
        struct graph *plain = build_graph();
        uint32_t same = build_input(plain, "x", DIMS(5, 4));
        build_output(plain, build_node(plain, OP_Mul, IDS(same, build_scalar(plain, taken ? 2.0f : 3.0f))));
        struct shape_env *want = run_graph(plain);
        cr_assert_eq(compare_outputs(want, after), 0.0);
        shape_env_free(want);
        graph_free(plain);
        shape_env_free(after);
        graph_free(g);
    }
}
