/* Shapes that a session keeps ready and those that it lets go, and inputs that do not have the shape that the model declares. */
#include <criterion/criterion.h>
#include <string.h>

#include "run/internal.h"
#include "written.h"

static struct written w;
static float values[64];

static void close_written(void)
{
    written_close(&w);
}

TestSuite(shapes, .fini = close_written);

/* y = -x over float32 [first, 2]. */
static void open_neg(int64_t first)
{
    struct onnx_writer *g = onnx_writer_new("neg");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, WRITTEN_DIMS(first, 2), NULL);
    onnx_writer_node(g, "Neg", ONNX_LIST("x"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, WRITTEN_DIMS(first, 2), NULL);
    written_open(&w, g, NULL);
}

static enum pen_status run_rows(int64_t rows)
{
    const struct pen_tensor in =
        written_tensor(PEN_DTYPE_F32, 2, WRITTEN_DIMS(rows, 2), values, rows < 0 ? 0 : (size_t)rows * 8);
    return written_run(&w, &in, 1);
}

/* How many shapes were made ready by this run: 0 or 1. */
static uint64_t prepares(int64_t rows)
{
    uint64_t before = pen_session_prepared(w.session);
    cr_assert_eq(run_rows(rows), PEN_OK, "%s", w.error.text);
    return pen_session_prepared(w.session) - before;
}

Test(shapes, the_least_recently_used_one_goes)
{
    open_neg(-1);
    for (int64_t rows = 1; rows <= RUNNER_BUCKETS; rows++) {
        cr_assert_eq(prepares(rows), 1u);
        cr_assert_eq(prepares(rows), 0u, "it is ready");
    }
    cr_assert_eq(prepares(1), 0u);
    cr_assert_eq(prepares(3), 0u);
    cr_assert_eq(prepares(RUNNER_BUCKETS + 1), 1u);
    cr_assert_eq(prepares(1), 0u, "it was used since");
    cr_assert_eq(prepares(3), 0u);
    cr_assert_eq(prepares(RUNNER_BUCKETS), 0u);
    cr_assert_eq(prepares(2), 1u, "it was the oldest");
    cr_assert_eq(prepares(4), 1u, "and then this one");
    cr_assert_eq(prepares(2), 0u);
}

Test(shapes, what_the_passes_may_do_follows_the_options)
{
    open_neg(-1);
    cr_assert(!engine_source_options(w.engine).nhwc && engine_source_options(w.engine).optimise);
    w.engine->options.optimise = false;
    cr_assert(!engine_source_options(w.engine).optimise);
}

/* y = op(x), then a Cast to `to` (0: none). */
static enum pen_precision precision_of_model(const char *op, int32_t from, int32_t to, const char *second)
{
    struct onnx_writer *g = onnx_writer_new("typed");
    const struct onnx_attr cast[] = {{.type = ONNX_ATTR_INT, .name = "to", .i = to}, {0}};
    onnx_writer_input(g, "x", from, 2, WRITTEN_DIMS(2, 2), NULL);
    if (second != NULL) {
        onnx_writer_input(g, second, from, 2, WRITTEN_DIMS(2, 2), NULL);
    }
    onnx_writer_node(g, op, second != NULL ? ONNX_LIST("x", second) : ONNX_LIST("x"), ONNX_LIST(to != 0 ? "m" : "y"),
                     NULL);
    if (to != 0) {
        onnx_writer_node(g, "Cast", ONNX_LIST("m"), ONNX_LIST("y"), cast);
    }
    onnx_writer_output(g, "y", to != 0 ? to : from, 2, WRITTEN_DIMS(2, 2), NULL);
    written_open(&w, g, NULL);
    enum pen_precision precision = pen_model_precision(w.model);
    written_close(&w);
    return precision;
}

Test(shapes, a_model_of_integers_says_so)
{
    cr_assert_eq(precision_of_model("Neg", PEN_DTYPE_F32, 0, NULL), PEN_PRECISION_F32);
    cr_assert_eq(precision_of_model("Neg", PEN_DTYPE_I32, 0, NULL), PEN_PRECISION_INT8);
    cr_assert_eq(precision_of_model("Neg", PEN_DTYPE_I32, PEN_DTYPE_F32, NULL), PEN_PRECISION_F32, "a float comes out");
    cr_assert_eq(precision_of_model("MatMulInteger", PEN_DTYPE_U8, PEN_DTYPE_F32, "b"), PEN_PRECISION_INT8,
                 "every product is of integers");
    cr_assert_eq(precision_of_model("MatMul", PEN_DTYPE_F32, PEN_DTYPE_I32, "b"), PEN_PRECISION_F32);
    open_neg(-1);
}

/* The places of what is true and of what is not are the only numbers there. */
Test(shapes, a_models_only_integers_may_be_a_second_output)
{
    struct onnx_writer *g = onnx_writer_new("truths");
    onnx_writer_input(g, "x", PEN_DTYPE_BOOL, 1, WRITTEN_DIMS(3), NULL);
    onnx_writer_node(g, "Unique", ONNX_LIST("x"), ONNX_LIST("y", "places"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_BOOL, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_output(g, "places", PEN_DTYPE_I64, 1, WRITTEN_DIMS(-1), NULL);
    written_open(&w, g, NULL);
    cr_expect_eq(pen_model_precision(w.model), PEN_PRECISION_INT8);
    written_close(&w);
    open_neg(-1);
}

Test(shapes, every_bucket_is_counted_and_given_back)
{
    struct pen_memory memory;
    open_neg(-1);
    for (int64_t rows = 1; rows <= 3 * RUNNER_BUCKETS; rows++) {
        prepares(rows % 30 + 1);
        pen_memory(&memory);
        cr_assert(memory.buckets >= 1 && memory.buckets <= RUNNER_BUCKETS && memory.sessions == 1);
    }
    pen_session_free(w.session);
    w.session = NULL;
    pen_memory(&memory);
    cr_assert(memory.buckets == 0 && memory.sessions == 0 && memory.arena_bytes == 0 && memory.models == 1);
}

Test(shapes, what_the_model_declares_holds)
{
    open_neg(3);
    cr_assert_eq(run_rows(3), PEN_OK, "%s", w.error.text);
    static const int64_t wrong[] = {2, 4, 0, -1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_assert_eq(run_rows(wrong[i]), PEN_ERR_SHAPE, "%lld rows", (long long)wrong[i]);
        cr_assert(strstr(w.error.text, "'x' must be") != NULL, "%s", w.error.text);
    }
    const struct pen_tensor flat = written_tensor(PEN_DTYPE_F32, 1, WRITTEN_DIMS(6), values, 24);
    cr_assert_eq(written_run(&w, &flat, 1), PEN_ERR_SHAPE);
    struct pen_tensor deep = written_tensor(PEN_DTYPE_F32, 2, WRITTEN_DIMS(3, 2), values, 24);
    deep.rank = PEN_MAX_RANK + 1;
    cr_assert_eq(written_run(&w, &deep, 1), PEN_ERR_SHAPE);
    cr_assert(strstr(w.error.text, "over the limit") != NULL, "%s", w.error.text);
    written_close(&w);
    open_neg(-1);
    cr_assert_eq(run_rows(-1), PEN_ERR_SHAPE, "a free dimension is not a negative one");
    cr_assert_eq(run_rows(0), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 2, WRITTEN_DIMS(0, 2), NULL);
}
