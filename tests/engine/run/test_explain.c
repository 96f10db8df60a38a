/* What an engine chose and why: a row per choice, and the row changes when the choice does. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "graph/explain.h"
#include "graph/pass.h"
#include "written.h"

static struct written w;
static struct pen_explain *rows;

static void begin(void)
{
    rows = pen_explain_new();
}

static void end(void)
{
    written_close(&w);
    pen_explain_free(rows);
}

TestSuite(explain, .init = begin, .fini = end);

static const struct pen_explain_row *row_find(enum pen_choice about, const char *subject, const char *scope)
{
    size_t count = 0;
    const struct pen_explain_row *row = pen_explain_rows(rows, &count, NULL), *found = NULL;
    for (size_t i = 0; i < count; i++) {
        bool fits = row[i].about == about && strstr(row[i].subject, subject) != NULL && strstr(row[i].scope, scope);
        found = fits ? &row[i] : found; /* the last */
    }
    return found;
}

static size_t rows_of(enum pen_choice about)
{
    size_t count = 0, found = 0;
    const struct pen_explain_row *row = pen_explain_rows(rows, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        found += row[i].about == about;
    }
    return found;
}

static void expect(enum pen_choice about, const char *subject, const char *choice, const char *reason)
{
    const struct pen_explain_row *row = row_find(about, subject, "");
    cr_assert_not_null(row, "no row of %s about %s", pen_choice_name(about), subject);
    cr_assert(strstr(row->choice, choice) != NULL, "%s: '%s', not '%s'", subject, row->choice, choice);
    cr_assert(strstr(row->reason, reason) != NULL, "%s: '%s', not '%s'", subject, row->reason, reason);
}

struct asked {
    const char *backend;
    enum pen_precision precision;
    uint32_t threads;
    const char *skip;
};

static struct pen_engine_options options_of(const struct asked *a)
{
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = a->backend;
    options.precision = a->precision;
    options.threads = a->threads > 0 ? a->threads : options.threads;
    options.skip_passes = a->skip;
    options.explain = rows;
    return options;
}

#define SIDE 6
/* y = relu(batch_norm(conv(x))): 1x2x6x6 -> 1x3x4x4; depthwise: two groups, 1x2x4x4. */
static void convolution_open(const struct asked *a, bool depthwise)
{
    static const float weights[3 * 2 * 9] = {0.5f, -1, 2, 0.25f}, ones[3] = {1, 2, 3}, zeros[3] = {0};
    const int64_t outs = depthwise ? 2 : 3;
    struct onnx_writer *g = onnx_writer_new("explained");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 4, WRITTEN_DIMS(-1, 2, SIDE, SIDE), NULL);
    onnx_writer_constant(g, "w", PEN_DTYPE_F32, 4, WRITTEN_DIMS(outs, depthwise ? 1 : 2, 3, 3), weights,
                         (size_t)outs * (depthwise ? 9 : 18) * sizeof *weights);
    const char *const names[] = {"scale", "shift", "mean", "variance"};
    for (int i = 0; i < 4; i++) {
        onnx_writer_constant(g, names[i], PEN_DTYPE_F32, 1, WRITTEN_DIMS(outs), i == 0 || i == 3 ? ones : zeros,
                             (size_t)outs * sizeof *ones);
    }
    onnx_writer_node(
        g, "Conv", ONNX_LIST("x", "w"), ONNX_LIST("c"),
        (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "group", .i = depthwise ? 2 : 1}, {.name = NULL}});
    onnx_writer_node(g, "BatchNormalization", ONNX_LIST("c", "scale", "shift", "mean", "variance"), ONNX_LIST("n"),
                     NULL);
    onnx_writer_node(g, "Relu", ONNX_LIST("n"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 4, WRITTEN_DIMS(-1, outs, SIDE - 2, SIDE - 2), NULL);
    struct pen_engine_options options = options_of(a);
    written_open(&w, g, &options);
}

static void convolution_run(int64_t batch)
{
    static const float x[4 * 2 * SIDE * SIDE] = {1, 2, 3};
    struct pen_tensor in = written_tensor(PEN_DTYPE_F32, 4, WRITTEN_DIMS(batch, 2, SIDE, SIDE), x,
                                          (size_t)batch * 2 * SIDE * SIDE * sizeof *x);
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
}

static const struct pen_explain_row *pass(const char *name)
{
    const struct pen_explain_row *row = row_find(PEN_CHOICE_PASS, name, "");
    cr_assert_not_null(row, "%s", name);
    return row;
}

Test(explain, a_pass_that_is_left_out_says_so_and_the_node_is_there)
{
    convolution_open(&(struct asked){.backend = "xnnpack"}, false);
    cr_assert_str_eq(pass("batch_norm")->choice, "fired");
    cr_assert_str_eq(pass("activation")->choice, "fired");
    cr_assert_str_eq(pass("layout")->choice, "fired");
    cr_assert_str_eq(pass("quantise")->choice, "did not fire");
    cr_assert_str_eq(pass("pad")->reason, "the model has no Pad");
    cr_assert_null(row_find(PEN_CHOICE_PLACEMENT, "(BatchNormalization)", ""));
    end();
    begin();
    convolution_open(&(struct asked){.backend = "xnnpack", .skip = "batch_norm"}, false);
    cr_assert_str_eq(pass("batch_norm")->choice, "left out");
    cr_assert_str_eq(pass("activation")->choice, "did not fire");
    cr_assert(strncmp(pass("activation")->reason, "1 activations stay", 18) == 0, "%s", pass("activation")->reason);
    cr_assert_not_null(row_find(PEN_CHOICE_PLACEMENT, "(BatchNormalization)", ""), "the pass ran all the same");
}

/* Each pass on a model that it changes: it fires, and left out it leaves the nodes that it would have taken. */
Test(explain, each_pass_can_be_left_out)
{
    for (unsigned p = 0; p < PASS_COUNT; p++) {
        convolution_open(&(struct asked){.backend = "xnnpack", .skip = pass_name((enum pass_id)p)}, false);
        for (unsigned other = 0; other < PASS_COUNT; other++) {
            bool out = strcmp(pass(pass_name((enum pass_id)other))->choice, "left out") == 0;
            cr_assert_eq(out, other == p, "%s without %s", pass_name((enum pass_id)other), pass_name((enum pass_id)p));
        }
        convolution_run(1);
        end();
        begin();
    }
    convolution_open(&(struct asked){.backend = "xnnpack"}, false);
}

Test(explain, an_unknown_pass_is_refused_with_the_list)
{
    struct pen_engine *engine = NULL;
    struct pen_error error = {0};
    struct pen_engine_options options = options_of(&(struct asked){.backend = "reference", .skip = "magic"});
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "'magic'") != NULL && strstr(error.text, "batch_norm") != NULL, "%s", error.text);
    convolution_open(&(struct asked){.backend = "reference"}, false); /* for end() */
}

Test(explain, a_backend_by_name_and_one_by_priority)
{
    convolution_open(&(struct asked){.backend = "reference"}, false);
    expect(PEN_CHOICE_BACKEND, "reference", "chosen", "by name");
    expect(PEN_CHOICE_PLACEMENT, "(Conv)", "reference", "the first backend takes it");
    expect(PEN_CHOICE_PASS, "layout", "left out", "as they lie");
    end();
    begin();
    convolution_open(&(struct asked){.backend = "auto"}, false);
    expect(PEN_CHOICE_BACKEND, pen_engine_backend(w.engine), "chosen", "highest priority");
    expect(PEN_CHOICE_BACKEND, "reference", "behind it", "those before it cannot");
    expect(PEN_CHOICE_PLACEMENT, "(Conv)", pen_engine_backend(w.engine), "the first backend takes it");
}

/* Unique's length is data; a string is nobody's. A node that xnnpack refuses says why. */
Test(explain, a_node_that_goes_elsewhere_says_who_refused_it_and_why)
{
    struct onnx_writer *g = onnx_writer_new("elsewhere");
    struct pen_engine_options options = options_of(&(struct asked){.backend = "xnnpack"});
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, WRITTEN_DIMS(3, 3), NULL);
    onnx_writer_node(g, "Det", ONNX_LIST("x"), ONNX_LIST("d"), NULL);
    onnx_writer_node(g, "NonZero", ONNX_LIST("x"), ONNX_LIST("n"), NULL);
    onnx_writer_output(g, "d", PEN_DTYPE_F32, 0, NULL, NULL);
    onnx_writer_output(g, "n", PEN_DTYPE_I64, 2, WRITTEN_DIMS(2, -1), NULL);
    written_open(&w, g, &options);
    expect(PEN_CHOICE_PLACEMENT, "(Det)", "reference", "xnnpack: ");
    expect(PEN_CHOICE_PLACEMENT, "(NonZero)", "executor", "depend on data");
    struct pen_tensor in = WRITTEN_F32(2, WRITTEN_DIMS(3, 3), 1, 0, 0, 0, 2, 0, 0, 0, 3);
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    expect(PEN_CHOICE_KERNEL, "(Det)", "reference: plain C", "double");
    expect(PEN_CHOICE_KERNEL, "(NonZero)", "executor: ", "node by node");
}

Test(explain, kernels_differ_by_what_the_convolution_is)
{
    convolution_open(&(struct asked){.backend = "xnnpack"}, false);
    cr_assert_eq(rows_of(PEN_CHOICE_KERNEL), 0u, "no shapes, no kernels");
    convolution_run(1);
    const struct pen_explain_row *row = row_find(PEN_CHOICE_KERNEL, "(Conv)", "");
    cr_assert(row != NULL && strstr(row->choice, "own gemm over patches") != NULL, "%s", row ? row->choice : "none");
    end();
    begin();
    convolution_open(&(struct asked){.backend = "xnnpack"}, true);
    convolution_run(1);
    expect(PEN_CHOICE_KERNEL, "(Conv)", "xnnpack: ", "depthwise"); /* our loops, or XNNPACK's without AVX2 */
    cr_assert_null(strstr(row_find(PEN_CHOICE_KERNEL, "(Conv)", "")->choice, "gemm"));
    end();
    begin();
    convolution_open(&(struct asked){.backend = "xnnpack", .skip = "layout"}, false);
    convolution_run(1);
    expect(PEN_CHOICE_KERNEL, "(Conv)", "plane by plane", "not NHWC");
}

Test(explain, a_bucket_is_prepared_once_and_then_ready)
{
    convolution_open(&(struct asked){.backend = "xnnpack"}, false);
    convolution_run(1);
    expect(PEN_CHOICE_BUCKET, "the session", "1x2x6x6", "prepared");
    size_t kernels = rows_of(PEN_CHOICE_KERNEL);
    convolution_run(1);
    expect(PEN_CHOICE_BUCKET, "the session", "1x2x6x6", "ready");
    cr_assert_eq(rows_of(PEN_CHOICE_KERNEL), kernels, "a ready bucket chose again");
    convolution_run(3);
    expect(PEN_CHOICE_BUCKET, "the session", "3x2x6x6", "1 beside it");
    cr_assert_gt(rows_of(PEN_CHOICE_KERNEL), kernels);
}

/* What the shapes of a run decide is computed before it: no kernel runs there. */
Test(explain, a_node_that_is_folded_has_no_kernel)
{
    static const int64_t first = 0, rest = -1;
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    struct onnx_writer *g = onnx_writer_new("folded");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 3, WRITTEN_DIMS(-1, -1, -1), NULL);
    onnx_writer_constant(g, "first", PEN_DTYPE_I64, 1, WRITTEN_DIMS(1), &first, sizeof first);
    onnx_writer_constant(g, "rest", PEN_DTYPE_I64, 1, WRITTEN_DIMS(1), &rest, sizeof rest);
    onnx_writer_node(g, "Exp", ONNX_LIST("x"), ONNX_LIST("e"), NULL);
    onnx_writer_node(g, "Shape", ONNX_LIST("x"), ONNX_LIST("dims"), NULL);
    onnx_writer_node(g, "Gather", ONNX_LIST("dims", "first"), ONNX_LIST("batch"), NULL);
    onnx_writer_node(g, "Concat", ONNX_LIST("batch", "rest"), ONNX_LIST("to"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "axis", .i = 0}, {.name = NULL}});
    onnx_writer_node(g, "Reshape", ONNX_LIST("e", "to"), ONNX_LIST("y"), NULL);
    onnx_writer_node(g, "NonZero", ONNX_LIST("x"), ONNX_LIST("z"),
                     NULL); /* as many as there are: no backend plans that */
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, -1), NULL);
    onnx_writer_output(g, "z", PEN_DTYPE_I64, 2, WRITTEN_DIMS(-1, -1), NULL);
    struct pen_engine_options options = options_of(&(struct asked){.backend = "reference"});
    written_open(&w, g, &options);
    struct pen_tensor in = written_tensor(PEN_DTYPE_F32, 3, WRITTEN_DIMS(1, 2, 3), x, sizeof x);
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    cr_assert(w.out[0].rank == 2 && w.out[0].dims[0] == 1 && w.out[0].dims[1] == 6);
    expect(PEN_CHOICE_KERNEL, "(Exp)", "", "");
    expect(PEN_CHOICE_KERNEL, "(Reshape)", "", "");
    expect(PEN_CHOICE_KERNEL, "(NonZero)", "plain C", "no backend plans it");
    cr_expect_null(row_find(PEN_CHOICE_KERNEL, "(Shape)", ""));
    cr_expect_null(row_find(PEN_CHOICE_KERNEL, "(Gather)", ""));
    cr_expect_null(row_find(PEN_CHOICE_KERNEL, "(Concat)", ""));
}

Test(explain, threads_and_precision_say_whether_they_were_asked)
{
    convolution_open(&(struct asked){.backend = "xnnpack", .threads = 2, .precision = PEN_PRECISION_F32}, false);
    expect(PEN_CHOICE_THREADS, "each session", "2", "asked for");
    expect(PEN_CHOICE_PRECISION, "the engine", "f32", "it was asked");
    expect(PEN_CHOICE_PRECISION, "the model", "f32", "floats");
    end();
    begin();
    convolution_open(&(struct asked){.backend = "xnnpack"}, false);
    expect(PEN_CHOICE_THREADS, "each session", "1", "nothing was asked");
    expect(PEN_CHOICE_PRECISION, "the engine", "f32", "nothing was asked");
}

Test(explain, a_model_of_integers_is_int8_whatever_was_asked)
{
    static const int8_t weights[4] = {1, 2, 3, 4};
    struct onnx_writer *g = onnx_writer_new("integers");
    struct pen_engine_options options = options_of(&(struct asked){.backend = "reference"});
    onnx_writer_input(g, "x", PEN_DTYPE_I8, 2, WRITTEN_DIMS(2, 2), NULL);
    onnx_writer_constant(g, "w", PEN_DTYPE_I8, 2, WRITTEN_DIMS(2, 2), weights, sizeof weights);
    onnx_writer_node(g, "MatMulInteger", ONNX_LIST("x", "w"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_I32, 2, WRITTEN_DIMS(2, 2), NULL);
    written_open(&w, g, &options);
    expect(PEN_CHOICE_PRECISION, "the model", "int8", "all of integers");
}

/* y = x[a : b]: each pair of bounds has a graph of its own, and its choices stand under its name. */
Test(explain, choices_of_a_variant_stand_under_its_name)
{
    struct onnx_writer *g = onnx_writer_new("bounds");
    struct pen_engine_options options = options_of(&(struct asked){.backend = "xnnpack"});
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, WRITTEN_DIMS(8), NULL);
    onnx_writer_input(g, "a", PEN_DTYPE_I64, 1, WRITTEN_DIMS(1), NULL);
    onnx_writer_input(g, "b", PEN_DTYPE_I64, 1, WRITTEN_DIMS(1), NULL);
    onnx_writer_node(g, "Slice", ONNX_LIST("x", "a", "b"), ONNX_LIST("part"), NULL);
    onnx_writer_node(g, "Exp", ONNX_LIST("part"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    written_open(&w, g, &options);
    cr_assert_null(row_find(PEN_CHOICE_PLACEMENT, "(Exp)", "variant"));
    const int64_t bounds[] = {1, 4};
    const float x[8] = {0};
    struct pen_tensor in[] = {written_tensor(PEN_DTYPE_F32, 1, WRITTEN_DIMS(8), x, sizeof x),
                              written_tensor(PEN_DTYPE_I64, 1, WRITTEN_DIMS(1), &bounds[0], 8),
                              written_tensor(PEN_DTYPE_I64, 1, WRITTEN_DIMS(1), &bounds[1], 8)};
    cr_assert_eq(written_run(&w, in, 3), PEN_OK, "%s", w.error.text);
    const struct pen_explain_row *row = row_find(PEN_CHOICE_PLACEMENT, "(Exp)", "variant 1");
    cr_assert(row != NULL && strcmp(row->choice, "xnnpack") == 0, "%s", row ? row->choice : "no row");
    expect(PEN_CHOICE_BUCKET, "the model", "variant 1", "first time");
    row = row_find(PEN_CHOICE_PASS, "layout", "variant 1");
    cr_assert(row != NULL && strcmp(row->choice, "did not fire") == 0,
              "a variant's graph goes through the passes, too");
}

Test(explain, a_log_has_a_cap_and_nobody_writes_without_one)
{
    size_t count = 0;
    uint64_t lost = 0;
    for (int i = 0; i < 100003; i++) {
        explain_say(rows, PEN_CHOICE_BUCKET, "s", "c", "%d", i);
    }
    const struct pen_explain_row *row = pen_explain_rows(rows, &count, &lost);
    cr_assert_eq(count, 100000u);
    cr_assert_eq(lost, 3u);
    cr_assert_str_eq(row[99999].reason, "99999");
    explain_say(NULL, PEN_CHOICE_BUCKET, "s", "c", "nobody");
    explain_scope(NULL, "nothing");
    cr_assert_str_eq(explain_scope_now(NULL), "");
    pen_explain_free(rows);
    rows = NULL;
    convolution_open(&(struct asked){.backend = "xnnpack"}, false);
    convolution_run(1);
}
