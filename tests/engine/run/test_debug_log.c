/* Debug mode: a row per node with what ran it, bad numbers by name, distance from the reference; a text with the firsts. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "run/internal.h"
#include "numbers.h"

static struct written w;

static void close_written(void)
{
    written_close(&w);
}

TestSuite(debug_log, .fini = close_written);

static void open_on(const char *backend, bool debug, bool numerics)
{
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = backend;
    options.mode = debug ? PEN_MODE_DEBUG : PEN_MODE_DEFAULT;
    options.check_numerics = numerics ? PEN_CHECK_FAIL : PEN_CHECK_WARN;
    numbers_open(&w, &options);
}

static const struct pen_debug_row *row_of(const char *op)
{
    size_t count = 0;
    const struct pen_debug_row *rows = pen_session_debug_rows(w.session, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].op, op) == 0) {
            return &rows[i];
        }
    }
    cr_assert_fail("no row of %s among %zu", op, count);
    return NULL;
}

static const char *text(void)
{
    static char all[16384];
    size_t used = pen_session_debug_text(w.session, all, sizeof all);
    cr_assert_eq(used, strlen(all));
    return all;
}

static void expect_text(const char *part)
{
    cr_assert(strstr(text(), part) != NULL, "no '%s' in: %s", part, text());
}

Test(debug_log, each_node_has_a_row_on_each_backend)
{
    static const char *const backends[] = {"reference", "xnnpack"};
    for (size_t i = 0; i < 2; i++) {
        open_on(backends[i], true, false);
        cr_assert_eq(numbers_run(&w, 2, 2), PEN_OK, "%s", w.error.text);
        const struct pen_debug_row *row = row_of("Div");
        cr_assert_str_eq(row->backend, backends[i]);
        cr_assert_str_eq(row->shapes, "3, 3 -> 3");
        cr_assert_eq(row->bytes, 36u);
        cr_assert_gt(row->ns, 0u);
        cr_assert_gt(strlen(row->kernel), 0u);
        cr_assert_null(row->output);
        cr_assert_eq(row->compared, i == 0 ? PEN_COMPARED_NOT : PEN_COMPARED_WITHIN);
        cr_assert_eq(strlen(row->note) > 0, i == 0);
        size_t count = 0;
        pen_session_debug_rows(w.session, &count, NULL);
        cr_assert_eq(count, 4u, "%zu rows", count);
        cr_assert_eq(numbers_run(&w, 2, 3), PEN_OK);
        pen_session_debug_rows(w.session, &count, NULL);
        cr_assert_eq(count, 4u, "rows are those of the last run");
        expect_text("no NaN and no infinity\n");
        if (i == 0) {
            written_close(&w);
        }
    }
}

Test(debug_log, the_first_bad_number_is_named_and_the_run_goes_on)
{
    open_on("xnnpack", true, false);
    cr_assert_eq(numbers_run(&w, -1, 0), PEN_OK, "%s", w.error.text);
    const struct pen_debug_row *log = row_of("Log"), *div = row_of("Div");
    cr_assert_str_eq(log->output, "l");
    cr_assert_eq(log->index, 2);
    cr_assert(isnan(log->value) && log->nan == 1 && log->infinite == 0);
    cr_assert(div->nan == 1 && div->compared == PEN_COMPARED_WITHIN, "a NaN that both have is no deviation");
    expect_text("first NaN or infinity: node ");
    expect_text("(Log) on xnnpack, output l, element 2 is ");
    cr_assert_eq(numbers_run(&w, 1e6f, 2), PEN_OK);
    const struct pen_debug_row *mul = row_of("Mul");
    cr_assert(mul->beyond_f16 == 1 && mul->index == 2 && mul->value == 3e6 && mul->nan == 0);
    expect_text("first value beyond f16 (65504): node ");
    expect_text("(Mul) on xnnpack, output t, element 2 is 3e+06; 1 in all");
}

Test(debug_log, numerics_that_are_to_fail_end_the_run_behind_the_row)
{
    static const char *const backends[] = {"reference", "xnnpack"};
    for (size_t i = 0; i < 2; i++) {
        open_on(backends[i], true, true);
        cr_assert_eq(numbers_run(&w, -1, 2), PEN_ERR_INVALID);
        cr_assert(strstr(w.error.text, "(Log)") && strstr(w.error.text, "NaN at element 2"), "%s", w.error.text);
        cr_assert_eq(row_of("Log")->nan, 1u);
        cr_assert_eq(numbers_run(&w, 2, 2), PEN_OK, "%s", w.error.text);
        if (i == 0) {
            written_close(&w);
        }
    }
}

Test(debug_log, without_the_mode_there_is_none)
{
    size_t count = 7;
    open_on("xnnpack", false, false);
    cr_assert_eq(numbers_run(&w, 2, 2), PEN_OK);
    cr_assert_null(pen_session_debug_rows(w.session, &count, NULL));
    cr_assert_eq(count, 0u);
}

Test(debug_log, a_short_text_keeps_the_sentences)
{
    char little[500];
    open_on("xnnpack", true, false);
    cr_assert_eq(numbers_run(&w, -1, 2), PEN_OK);
    size_t used = pen_session_debug_text(w.session, little, sizeof little);
    cr_assert(used < sizeof little && used == strlen(little));
    cr_assert(strstr(little, " more\n") != NULL && strstr(little, "first NaN or infinity") != NULL, "%s", little);
    cr_assert(strstr(little, "compared nodes is beyond its tolerance\n") != NULL, "%s", little);
    cr_assert_eq(pen_session_debug_text(w.session, little, 0), 0u);
    cr_assert_eq(pen_session_debug_text(w.session, little, 10), strlen(little));
}

/* The executor's nodes, and those of a loop's body as often as it turns. */
Test(debug_log, nodes_of_the_executor_have_rows)
{
    struct pen_engine_options options;
    struct onnx_writer *g = onnx_writer_new("some");
    pen_engine_options_init(&options);
    options.mode = PEN_MODE_DEBUG;
    options.check_numerics = PEN_CHECK_WARN;
    options.backend = "xnnpack";
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_node(g, "NonZero", ONNX_LIST("x"), ONNX_LIST("at"), NULL);
    onnx_writer_node(g, "Gather", ONNX_LIST("x", "at"), ONNX_LIST("some"), NULL);
    onnx_writer_node(g, "Log", ONNX_LIST("some"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, WRITTEN_DIMS(1, -1), NULL);
    written_open(&w, g, &options);
    struct pen_tensor in = WRITTEN_F32(1, WRITTEN_DIMS(4), 1, 0, 1, -1);
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    cr_assert_str_eq(row_of("NonZero")->backend, "executor");
    cr_assert_str_eq(row_of("Log")->shapes, "1x3 -> 1x3");
    cr_assert_eq(row_of("Log")->nan, 1u);
}

/* ---- deviations ---- */

static const struct backend_ops *right;
static struct backend_ops wrong;

/* The backend's own, then one element of z is put out. */
static enum pen_status spoiled_wait(struct exec *exec, struct pen_error *reterr)
{
    enum pen_status status = right->exec_wait(exec, reterr);
    const struct graph *g = w.model->graph;
    for (uint32_t v = 0; v < g->value_count; v++) {
        if (g->values[v].name != NULL && strcmp(g->values[v].name, "z") == 0) {
            ((float *)w.session->bound->values[v].data)[1] += 0.5f;
        }
    }
    return status;
}

Test(debug_log, the_first_deviation_is_named_and_the_run_goes_on)
{
    open_on("xnnpack", true, false);
    struct placement *placement = w.model->program->placement;
    right = placement->backends[0].ops;
    wrong = *right;
    wrong.exec_wait = spoiled_wait;
    placement->backends[0].ops = &wrong;
    enum pen_status status = numbers_run(&w, 2, 2);
    const struct pen_debug_row *row = row_of("Add");
    placement->backends[0].ops = right;
    cr_assert_eq(status, PEN_OK, "%s", w.error.text);
    cr_assert_eq(row->compared, PEN_COMPARED_BEYOND);
    cr_assert_str_eq(row->deviating, "z");
    cr_assert(row->deviating_index == 1 && row->deviating_count == 1 && row->got == 5.5 && row->expected == 5.0);
    cr_assert_float_eq(row->largest, 0.5, 1e-6);
    cr_assert_eq(row_of("Mul")->compared, PEN_COMPARED_WITHIN);
    expect_text("first deviation from the reference: node ");
    expect_text("output z, element 1 is 5.5, expected 5; 1 are off, by at most 0.5");
}
