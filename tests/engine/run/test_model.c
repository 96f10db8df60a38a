/* What a model says of its inputs and outputs, the steps of its program, and an engine whose flags were changed beside one that was opened with them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "run/internal.h"
#include "written.h"

static struct written w;

static void end(void)
{
    written_close(&w);
}

TestSuite(model, .fini = end);

static void signature(const struct pen_tensor *got, const char *name, enum pen_dtype dtype, uint32_t rank,
                      const int64_t *dims)
{
    cr_expect_str_eq(got->name, name);
    cr_expect_eq(got->dtype, dtype, "%s", name);
    cr_assert_eq(got->rank, rank, "%s has rank %u", name, got->rank);
    for (uint32_t d = 0; d < rank; d++) {
        cr_expect_eq(got->dims[d], dims[d], "%s, dimension %u is %lld", name, d, (long long)got->dims[d]);
    }
}

/* Files declare what they like: what follows from the inputs counts. */
Test(model, outputs_have_the_dims_that_follow_from_the_inputs)
{
    static const int64_t none = 0, one = 1;
    static const float two[2] = {1, 2};
    struct onnx_writer *g = onnx_writer_new("signature");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, 3), NULL);
    onnx_writer_input(g, "s", PEN_DTYPE_I64, 0, NULL, NULL);
    onnx_writer_constant(g, "none", PEN_DTYPE_I64, 1, WRITTEN_DIMS(1), &none, sizeof none);
    onnx_writer_constant(g, "one", PEN_DTYPE_I64, 1, WRITTEN_DIMS(1), &one, sizeof one);
    onnx_writer_constant(g, "two", PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), two, sizeof two);
    onnx_writer_node(g, "Exp", ONNX_LIST("x"), ONNX_LIST("batch"), NULL);
    onnx_writer_node(g, "ReduceMax", ONNX_LIST("x"), ONNX_LIST("scalar"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "keepdims", .i = 0}, {.name = NULL}});
    onnx_writer_node(g, "Slice", ONNX_LIST("x", "none", "none", "one"), ONNX_LIST("empty"), NULL);
    onnx_writer_node(g, "NonZero", ONNX_LIST("x"), ONNX_LIST("some"), NULL);
    onnx_writer_output(g, "batch", PEN_DTYPE_F32, 2, WRITTEN_DIMS(1, 3), NULL);
    onnx_writer_output(g, "scalar", PEN_DTYPE_F32, 0, NULL, NULL);
    onnx_writer_output(g, "empty", PEN_DTYPE_F32, 2, WRITTEN_DIMS(1, 0), NULL);
    onnx_writer_output(g, "some", PEN_DTYPE_I64, 2, WRITTEN_DIMS(2, 5), NULL);
    onnx_writer_output(g, "two", PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), NULL);
    written_open(&w, g, NULL);
    size_t count = 0;
    const struct pen_tensor *in = pen_model_inputs(w.model, &count);
    cr_assert_eq(count, 2u);
    signature(&in[0], "x", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, 3));
    signature(&in[1], "s", PEN_DTYPE_I64, 0, NULL);
    const struct pen_tensor *out = pen_model_outputs(w.model, &count);
    cr_assert_eq(count, 5u);
    signature(&out[0], "batch", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, 3));
    signature(&out[1], "scalar", PEN_DTYPE_F32, 0, NULL);
    signature(&out[2], "empty", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, 0));
    signature(&out[3], "some", PEN_DTYPE_I64, 2, WRITTEN_DIMS(2, -1));
    signature(&out[4], "two", PEN_DTYPE_F32, 1, WRITTEN_DIMS(2));
}

/* Three steps: xnnpack, the executor, xnnpack; and a chain of shape arithmetic that nobody runs. */
Test(model, a_program_marks_the_nodes_of_all_its_steps)
{
    static const int64_t rest = -1;
    struct onnx_writer *g = onnx_writer_new("steps");
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = "xnnpack";
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, 3), NULL);
    onnx_writer_constant(g, "rest", PEN_DTYPE_I64, 1, WRITTEN_DIMS(1), &rest, sizeof rest);
    onnx_writer_node(g, "Exp", ONNX_LIST("x"), ONNX_LIST("e"), NULL);
    onnx_writer_node(g, "NonZero", ONNX_LIST("e"), ONNX_LIST("n"), NULL);
    onnx_writer_node(g, "Abs", ONNX_LIST("e"), ONNX_LIST("a"), NULL);
    onnx_writer_node(g, "Shape", ONNX_LIST("x"), ONNX_LIST("dims"), NULL);
    onnx_writer_node(g, "Reshape", ONNX_LIST("a", "dims"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "n", PEN_DTYPE_I64, 2, WRITTEN_DIMS(2, -1), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, 3), NULL);
    written_open(&w, g, &options);
    const struct program *p = w.model->program;
    uint32_t listed = 0, marked = 0;
    for (uint32_t s = 0; s < p->placement->step_count; s++) {
        const struct placed *step = &p->placement->steps[s];
        for (uint32_t k = 0; k < step->part.node_count; k++) {
            cr_expect(p->in_step[step->part.nodes[k]], "node %u of step %u", k, s);
            listed++;
        }
    }
    for (uint32_t n = 0; n < p->g->node_count; n++) {
        marked += p->in_step[n];
    }
    cr_expect_eq(marked, listed);
    cr_expect_geq(p->placement->step_count, 2u);
    cr_expect_eq(p->child_count, 0u);
}

/* ---- an engine whose flags change ---- */

static void same_engine(const struct pen_engine *changed, const struct pen_engine *fresh, const char *what)
{
    cr_assert_eq(changed->backend_count, fresh->backend_count, "%s", what);
    for (uint32_t b = 0; b < fresh->backend_count; b++) {
        cr_expect_eq(changed->backends[b].ops, fresh->backends[b].ops, "%s", what);
        cr_expect_not_null(changed->backends[b].self, "%s", what);
    }
    cr_expect_eq(changed->passes_off, fresh->passes_off, "%s", what);
    cr_expect_eq(memcmp(&changed->limits, &fresh->limits, sizeof fresh->limits), 0, "%s: limits", what);
    cr_expect_str_eq(changed->caps.device, fresh->caps.device, "%s", what);
    cr_expect_str_eq(changed->caps.library, fresh->caps.library, "%s", what);
    cr_expect_eq(changed->caps.precisions, fresh->caps.precisions, "%s", what);
    cr_expect_eq(changed->options.strict, fresh->options.strict, "%s", what);
    cr_expect_eq(changed->options.threads, fresh->options.threads, "%s", what);
    cr_expect_eq(changed->options.precision, fresh->options.precision, "%s", what);
    cr_expect_str_eq(changed->options.backend, fresh->options.backend, "%s", what);
    cr_expect_str_eq(pen_env_get(changed->env, "backend"), pen_env_get(fresh->env, "backend"));
    cr_expect_str_eq(pen_engine_isa(changed), pen_engine_isa(fresh));
}

static struct pen_engine *opened(const char *const flags[][2], size_t count)
{
    struct pen_env *env = NULL;
    struct pen_engine *engine = NULL;
    struct pen_error error = {0};
    cr_assert_eq(pen_env_new(&env, &error), PEN_OK);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(pen_env_set(env, flags[i][0], flags[i][1], PEN_ORIGIN_FLAG, "a test", &error), PEN_OK, "%s",
                     error.text);
    }
    cr_assert_eq(pen_engine_open(env, &engine, &error), PEN_OK, "%s", error.text);
    pen_env_free(env);
    return engine;
}

Test(engine, with_changed_flags_is_as_one_that_was_opened_with_them)
{
    static const char *const flags[][2] = {
        {"backend", "reference"},   {"backend", "xnnpack"},  {"skip_passes", "pad,layout"},
        {"budget_bytes", "100000"}, {"fold_bytes", "20000"}, {"threads", "3"},
        {"placement", "strict"},    {"skip_passes", ""},     {"backend", "reference"}};
    struct pen_error error = {0};
    struct pen_engine *changed = opened(flags, 1);
    for (size_t i = 1; i < sizeof flags / sizeof *flags; i++) {
        cr_assert_eq(pen_engine_set(changed, flags[i][0], flags[i][1], PEN_ORIGIN_FLAG, "a test", &error), PEN_OK, "%s",
                     error.text);
        struct pen_engine *fresh = opened(flags, i + 1);
        same_engine(changed, fresh, flags[i][0]);
        pen_engine_free(fresh);
    }
    pen_engine_free(changed);
}

Test(engine, budgets_bound_what_a_model_may_take)
{
    static const struct {
        const char *budget, *fold;
        uint64_t whole, folded; /* 0: the default */
    } cases[] = {{"0", "0", 0, 0},
                 {"0", "5000", 0, 5000},
                 {"100000", "0", 100000, 100000},
                 {"100000", "5000", 100000, 5000},
                 {"5000", "100000", 5000, 5000},
                 {"1", "1", 1, 1}};
    const struct graph_limits by_default = graph_limits_default();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const flags[][2] = {
            {"backend", "reference"}, {"budget_bytes", cases[i].budget}, {"fold_bytes", cases[i].fold}};
        struct pen_engine *engine = opened(flags, 3);
        const struct graph_limits *limits = &engine->limits;
        cr_expect_eq(limits->model_bytes, cases[i].whole ? cases[i].whole : by_default.model_bytes, "case %zu", i);
        cr_expect_eq(limits->tensor_bytes, cases[i].whole ? cases[i].whole : by_default.tensor_bytes, "case %zu", i);
        cr_expect_eq(limits->arena_bytes, cases[i].whole ? cases[i].whole : by_default.arena_bytes, "case %zu", i);
        cr_expect_eq(limits->folded_bytes, cases[i].folded ? cases[i].folded : by_default.folded_bytes, "case %zu", i);
        pen_engine_free(engine);
    }
}
