/* Debug modes: NaN and infinity are named where they arise, what deviates from the reference is found, profiles have a row per step. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/internal.h"
#include "numbers.h"

static struct written w;

static void close_written(void)
{
    written_close(&w);
}

TestSuite(debug, .fini = close_written);

static void open_on(const char *backend, bool numerics, bool compare)
{
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = backend;
    options.check_numerics = numerics ? PEN_CHECK_FAIL : PEN_CHECK_OFF;
    options.compare_reference = compare;
    numbers_open(&w, &options);
}

Test(debug, nan_and_infinity_are_named_on_the_reference)
{
    open_on("reference", true, false);
    cr_assert_eq(numbers_run(&w, 2, 2), PEN_OK, "%s", w.error.text);
    cr_assert_eq(numbers_run(&w, -1, 2), PEN_ERR_INVALID);
    cr_assert(strstr(w.error.text, "Log") != NULL && strstr(w.error.text, "element 2") != NULL, "%s", w.error.text);
    cr_assert_eq(numbers_run(&w, 2, 0), PEN_ERR_INVALID);
    cr_assert(strstr(w.error.text, "Div") != NULL && strstr(w.error.text, "element 2") != NULL, "%s", w.error.text);
    cr_assert_eq(numbers_run(&w, 3, 3), PEN_OK, "a refused run left the session unusable");
}

/* y = x * w, 4 x 64 by 64 x 8: with products of 16-bit numbers it is off by some thousandths, which no f32 kernel may be. */
Test(debug, a_narrow_precision_is_held_to_its_own_bound)
{
    static float w_data[64 * 8], x[4 * 64], y[4 * 8];
    float largest = 0;
    struct pen_engine_options options;
    struct onnx_writer *g = onnx_writer_new("product");
    pen_engine_options_init(&options);
    options.compare_reference = true;
    options.precision = PEN_PRECISION_BF16;
    for (size_t i = 0; i < 64 * 8; i++)
        w_data[i] = 0.37f + 0.001f * (float)(i % 61);
    w_data[0] = 1.0038f;
    for (size_t i = 0; i < 4 * 64; i++)
        x[i] = 0.53f + 0.0007f * (float)(i % 37);
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, WRITTEN_DIMS(4, 64), NULL);
    onnx_writer_constant(g, "w", PEN_DTYPE_F32, 2, WRITTEN_DIMS(64, 8), w_data, sizeof w_data);
    onnx_writer_node(g, "MatMul", ONNX_LIST("x", "w"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, WRITTEN_DIMS(4, 8), NULL);
    struct pen_engine *engine = NULL;
    if (pen_engine_new(&options, &engine, &w.error) != PEN_OK) {
        onnx_writer_free(g);
        cr_skip_test("no bf16 here: %s", w.error.text);
    }
    pen_engine_free(engine);
    written_open(&w, g, &options);
    struct pen_tensor in = written_tensor(PEN_DTYPE_F32, 2, WRITTEN_DIMS(4, 64), x, sizeof x);
    cr_expect_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    for (size_t i = 0; i < 4 * 8; i++) {
        for (size_t k = 0; k < 64; k++)
            y[i] += x[i / 8 * 64 + k] * w_data[k * 8 + i % 8];
        largest = fmaxf(largest, fabsf(((const float *)w.out[0].data)[i] - y[i]) / y[i]);
    }
    cr_expect_gt(largest, 2e-4f, "else the case says nothing");
    memset(x, 0, sizeof x); /* one factor each, rounded as far as 16-bit numbers of that form are */
    x[0] = 1.0038f;
    cr_expect_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    cr_expect_gt(fabsf(((const float *)w.out[0].data)[0] - x[0] * w_data[0]), 3.2e-3f, "%g",
                 (double)fabsf(((const float *)w.out[0].data)[0] - x[0] * w_data[0]));
    cr_expect_gt(pen_session_compared(w.session), 0u);
}

Test(debug, infinity_is_named_on_other_backends)
{
    open_on("xnnpack", true, false);
    cr_assert_eq(numbers_run(&w, 2, 2), PEN_OK, "%s", w.error.text);
    cr_assert_eq(numbers_run(&w, 3e38f, 2), PEN_ERR_INVALID);
    cr_assert(strstr(w.error.text, "infinity at element 2") != NULL, "%s", w.error.text);
}

/* y = log of the elements that are not zero: its length is known only in the run. */
Test(debug, nan_is_named_where_the_data_decide_shapes)
{
    struct pen_engine_options options;
    struct onnx_writer *g = onnx_writer_new("some");
    pen_engine_options_init(&options);
    options.check_numerics = PEN_CHECK_FAIL;
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_node(g, "NonZero", ONNX_LIST("x"), ONNX_LIST("at"), NULL);
    onnx_writer_node(g, "Gather", ONNX_LIST("x", "at"), ONNX_LIST("some"), NULL);
    onnx_writer_node(g, "Log", ONNX_LIST("some"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, WRITTEN_DIMS(1, -1), NULL);
    written_open(&w, g, &options);
    struct pen_tensor in = WRITTEN_F32(1, WRITTEN_DIMS(4), 1, 0, 1, 1);
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 2, WRITTEN_DIMS(1, 3), WRITTEN_FLOATS(0, 0, 0));
    in = WRITTEN_F32(1, WRITTEN_DIMS(4), 1, 0, 1, -1);
    cr_assert_eq(written_run(&w, &in, 1), PEN_ERR_INVALID);
    cr_assert(strstr(w.error.text, "(Log) produced NaN at element 2") != NULL, "%s", w.error.text);
}

Test(debug, without_the_mode_they_are_results)
{
    open_on("reference", false, false);
    cr_assert_eq(numbers_run(&w, -1, 2), PEN_OK);
    cr_assert(isnan(((const float *)w.out[0].data)[2]));
    cr_assert_eq(pen_session_compared(w.session), 0u);
}

/* ---- deviations ------------------------------------------------------------------------------------------------------------------- */

static const struct backend_ops *right;
static struct backend_ops wrong;
static struct {
    const char *value;
    size_t element;
    float by; /* added */
} spoil;

/* The backend's own, then one element of one value is put out. */
static enum pen_status spoiled_wait(struct exec *exec, struct pen_error *reterr)
{
    enum pen_status status = right->exec_wait(exec, reterr);
    const struct graph *g = w.model->graph;
    struct bucket *b = w.session->bound;
    for (uint32_t v = 0; spoil.value != NULL && v < g->value_count; v++) {
        if (g->values[v].name != NULL && strcmp(g->values[v].name, spoil.value) == 0) {
            ((float *)b->values[v].data)[spoil.element] += spoil.by;
        }
    }
    return status;
}

static void open_spoiled(void)
{
    open_on("xnnpack", false, true);
    struct placement *placement = w.model->program->placement;
    right = placement->backends[0].ops;
    wrong = *right;
    wrong.exec_wait = spoiled_wait;
    placement->backends[0].ops = &wrong;
}

static void close_spoiled(void)
{
    w.model->program->placement->backends[0].ops = right;
    written_close(&w);
}

TestSuite(deviation, .init = open_spoiled, .fini = close_spoiled);

static enum pen_status run_spoiled(const char *value, size_t element, float by)
{
    spoil.value = value;
    spoil.element = element;
    spoil.by = by;
    return numbers_run(&w, 2, 2);
}

Test(deviation, a_right_backend_is_compared_node_by_node)
{
    cr_assert_eq(numbers_run(&w, 2, 2), PEN_OK, "%s", w.error.text);
    uint64_t once = pen_session_compared(w.session);
    cr_assert_geq(once, 2u);
    cr_assert_eq(numbers_run(&w, 2, 5), PEN_OK, "%s", w.error.text);
    cr_assert_eq(pen_session_compared(w.session), 2 * once);
    cr_assert_eq(numbers_run(&w, INFINITY, 5), PEN_OK, "an infinity that both have is no deviation: %s", w.error.text);
    cr_assert_eq(numbers_run(&w, -1, 5), PEN_OK, "nor is a NaN: %s", w.error.text);
}

Test(deviation, the_wrong_element_and_its_node_are_named)
{
    cr_assert_eq(run_spoiled("z", 1, 0.5f), PEN_ERR_INTERNAL);
    cr_assert(strstr(w.error.text, "xnnpack") != NULL && strstr(w.error.text, "element 1 ") != NULL, "%s",
              w.error.text);
    cr_assert_eq(run_spoiled(NULL, 0, 0), PEN_OK, "a refused run left the session unusable: %s", w.error.text);
}

/* z[1] = 5, z[2] = 8: the bound is 1e-5 + 1e-4 * 5 + 1e-5 * 8 = 5.9e-4 for the first. */
Test(deviation, what_is_within_the_bound_is_no_deviation)
{
    cr_assert_eq(run_spoiled("z", 1, 5.0e-4f), PEN_OK, "%s", w.error.text);
    cr_assert_eq(run_spoiled("z", 1, -5.0e-4f), PEN_OK, "%s", w.error.text);
    cr_assert_eq(run_spoiled("z", 1, 7.0e-4f), PEN_ERR_INTERNAL);
    cr_assert_eq(run_spoiled("z", 1, -7.0e-4f), PEN_ERR_INTERNAL);
    cr_assert_eq(run_spoiled("z", 2, NAN), PEN_ERR_INTERNAL, "only one of both is NaN");
    cr_assert_eq(run_spoiled("z", 2, INFINITY), PEN_ERR_INTERNAL);
}

/* A device that ends a run without a word. */
static enum pen_status silent_wait(struct exec *exec, struct pen_error *reterr)
{
    (void)exec;
    (void)reterr;
    return PEN_ERR_DEVICE_LOST;
}

Test(deviation, a_failure_without_a_sentence_gets_one)
{
    wrong.exec_wait = silent_wait;
    cr_assert_eq(numbers_run(&w, 2, 2), PEN_ERR_DEVICE_LOST);
    cr_assert_str_eq(w.error.text, "cannot run the model (DEVICE_LOST)");
    wrong.exec_wait = spoiled_wait;
    cr_assert_eq(run_spoiled(NULL, 0, 0), PEN_OK, "%s", w.error.text);
}

/* ---- profiles ------------------------------------------------------------------------------------------------------------------- */

Test(debug, a_profile_has_the_runs_since_it_was_switched_on)
{
    size_t count = 7;
    uint64_t total = 0;
    open_on("reference", false, false);
    cr_assert_null(pen_session_profile_rows(w.session, &count));
    cr_assert_eq(count, 0u);
    pen_session_profile(w.session, true);
    cr_assert_eq(numbers_run(&w, 2, 2), PEN_OK);
    pen_session_profile(w.session, true); /* again: what it has stays */
    cr_assert_eq(numbers_run(&w, 2, 3), PEN_OK);
    const struct pen_profile_row *rows = pen_session_profile_rows(w.session, &count);
    cr_assert_geq(count, 1u);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(rows[i].runs, 2u);
        cr_assert(rows[i].node != NULL && rows[i].op != NULL && rows[i].backend != NULL);
        cr_assert_lt(rows[i].total_ns, 10000000000u, "a time that was measured");
        total += rows[i].total_ns;
    }
    cr_assert_gt(total, 0u);
    pen_session_profile(w.session, false);
    cr_assert_null(pen_session_profile_rows(w.session, &count));
}

/* -x alone, or with a second node behind it. */
static const char *profiled_op(bool two, size_t *ret_rows)
{
    static char op[64];
    struct onnx_writer *g = onnx_writer_new("profiled");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), NULL);
    onnx_writer_node(g, "Neg", ONNX_LIST("x"), ONNX_LIST(two ? "n" : "y"), NULL);
    if (two) {
        onnx_writer_node(g, "Abs", ONNX_LIST("n"), ONNX_LIST("y"), NULL);
    }
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), NULL);
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = "xnnpack";
    options.strict = true;
    written_open(&w, g, &options);
    pen_session_profile(w.session, true);
    const struct pen_tensor in = WRITTEN_F32(1, WRITTEN_DIMS(2), 1, 2);
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    const struct pen_profile_row *rows = pen_session_profile_rows(w.session, ret_rows);
    snprintf(op, sizeof op, "%s", *ret_rows > 0 ? rows[0].op : "");
    return op;
}

Test(debug, a_partition_of_one_node_has_the_nodes_name)
{
    size_t rows = 0;
    cr_assert_str_eq(profiled_op(false, &rows), "Neg");
    cr_assert_eq(rows, 1u);
    written_close(&w);
    cr_assert_str_eq(profiled_op(true, &rows), "partition");
    cr_assert_eq(rows, 1u);
}
