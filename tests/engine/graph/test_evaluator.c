/* The table that folds: without one shapes stay unknown and a sentence says why, with the reference's they are known, with a part of it the operator is named. */
#include <criterion/criterion.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "build.h"
#include "graph/evaluator.h"

static const struct evaluator *whole;

static bool has_no_gather(enum op op)
{
    return op != OP_Gather && whole->has(op);
}

static bool supports_whole(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return whole->supports(g, n, ret_reason);
}

static enum pen_status run_whole(struct evaluation *e)
{
    return whole->run(e);
}

/* x [6, 4] as Reshape(x, Concat(Gather(Shape(x), 1), [-1])), read back by hand: no helper of build.h registers anything. */
static struct graph *chain(uint32_t *ret_y)
{
    struct graph *g = NULL;
    const struct shape x_shape = shape_of(DIMS(6, 4)), scalar_list = shape_of(DIMS(1));
    const int64_t one = 1, rest = -1;
    uint32_t x, index, tail;
    cr_assert_eq(graph_new(NULL, &g), PEN_OK);
    x = build_typed_input(g, "x", PEN_DTYPE_F32, x_shape.rank, x_shape.dim);
    cr_assert_eq(graph_constant(g, "i", PEN_DTYPE_I64, &scalar_list, &one, sizeof one, true, &index), PEN_OK);
    cr_assert_eq(graph_constant(g, "t", PEN_DTYPE_I64, &scalar_list, &rest, sizeof rest, true, &tail), PEN_OK);
    uint32_t gathered = build_node(g, OP_Gather, IDS(build_node(g, OP_Shape, IDS(x)), index));
    uint32_t sizes = build_node(g, OP_Concat, IDS(gathered, tail));
    graph_attr_int(g, maker(g, sizes), ATTR_axis, 0);
    *ret_y = build_node(g, OP_Reshape, IDS(x, sizes));
    build_output(g, *ret_y);
    return g;
}

/* The shape of the chain's end as text, and the sentence about what was not folded. */
static const char *inferred(char *sentence, size_t bytes)
{
    static char text[96];
    struct shape_env *env = NULL;
    struct pen_error error = {0};
    uint32_t y = 0;
    struct graph *g = chain(&y);
    cr_assert_eq(shape_env_new(g, NULL, NULL, false, &env, &error), PEN_OK, "%s", error.text);
    sentence[0] = '\0';
    cr_assert_eq(shape_env_unfolded(env, sentence, bytes), sentence[0] != '\0');
    shape_text(&env->facts[y].shape, text, sizeof text);
    shape_env_free(env);
    graph_free(g);
    return text;
}

Test(evaluator, without_a_table_shapes_stay_unknown_and_a_sentence_says_why)
{
    char sentence[192];
    cr_assert_null(evaluator_get());
    cr_assert_str_eq(inferred(sentence, sizeof sentence), "?x?", "of what rank the list says");
    cr_assert_str_eq(sentence,
                     "1 node with known inputs is not folded, the first is Gather: no kernels are registered to fold "
                     "with");
}

Test(evaluator, the_reference_folds)
{
    char sentence[192];
    reference_evaluator_register();
    reference_evaluator_register();
    cr_assert_str_eq(inferred(sentence, sizeof sentence), "4x6");
    cr_assert_str_eq(sentence, "");
}

Test(evaluator, an_operator_without_a_kernel_is_named)
{
    static const struct evaluator part = {.has = has_no_gather, .supports = supports_whole, .run = run_whole};
    char sentence[192];
    reference_evaluator_register();
    whole = evaluator_get();
    evaluator_register(&part);
    cr_assert_str_eq(inferred(sentence, sizeof sentence), "?x?");
    cr_assert_not_null(strstr(sentence, "the first is Gather: this build has no kernel for it"), "%s", sentence);
}
