/* Runs between submit and await where the backend computes on the processor: one at a time, begun when it is awaited. */
#include <criterion/criterion.h>
#include <string.h>

#include "written.h"

static struct written w;
static const float values[] = {1, 2};

/* y = x + x */
static void open_double(void)
{
    struct onnx_writer *g = onnx_writer_new("double");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_node(g, "Add", ONNX_LIST("x", "x"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    written_open(&w, g, NULL);
}

static void close_double(void)
{
    written_close(&w);
}

TestSuite(flights, .init = open_double, .fini = close_double);

static void bind_values(float first)
{
    const struct pen_tensor in = written_tensor(PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), values, sizeof values);
    size_t bytes = 0;
    cr_assert_eq(pen_session_bind(w.session, &in, 1, &w.error), PEN_OK, "%s", w.error.text);
    float *x = pen_session_input(w.session, 0, &bytes);
    cr_assert(x != NULL && bytes == sizeof values);
    x[0] = first;
    x[1] = 7;
}

static enum pen_status await(uint64_t timeout_us)
{
    w.error = (struct pen_error){0};
    return pen_session_await(w.session, timeout_us, &w.out, &w.out_count, &w.error);
}

Test(flights, a_submitted_run_is_awaited_once)
{
    cr_assert_eq(await(0), PEN_ERR_INVALID, "nothing was submitted");
    cr_assert_eq(pen_session_submit(w.session, NULL, &w.error), PEN_ERR_INVALID, "nothing is bound");
    cr_assert_eq(pen_session_window(w.session), 1u);
    for (int round = 0; round < 6; round++) { /* more than the ring has places */
        bind_values((float)round);
        cr_assert_eq(pen_session_in_flight(w.session), 0u);
        cr_assert_eq(pen_session_submit(w.session, NULL, &w.error), PEN_OK, "%s", w.error.text);
        cr_assert_eq(pen_session_in_flight(w.session), 1u);
        cr_assert_eq(pen_session_window(w.session), 1u);
        cr_assert_eq(await(0), PEN_OK, "%s", w.error.text);
        written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(2 * (float)round, 14));
        cr_assert_eq(await(UINT64_MAX), PEN_ERR_INVALID);
    }
}

Test(flights, other_calls_wait_for_the_await)
{
    const struct pen_tensor in = written_tensor(PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), values, sizeof values);
    bind_values(3);
    cr_assert_eq(pen_session_submit(w.session, NULL, &w.error), PEN_OK);
    cr_assert_eq(pen_session_submit(w.session, NULL, &w.error), PEN_ERR_BUSY);
    cr_assert_eq(pen_session_bind(w.session, &in, 1, &w.error), PEN_ERR_BUSY);
    cr_assert_eq(pen_session_warm(w.session, &in, 1, NULL, NULL, &w.error), PEN_ERR_BUSY);
    cr_assert_eq(written_run(&w, &in, 1), PEN_ERR_BUSY);
    cr_assert_gt(strlen(w.error.text), 10u);
    cr_assert_eq(pen_session_run_bound(w.session, NULL, &w.out, &w.out_count, &w.error), PEN_ERR_BUSY);
    cr_assert_eq(await(UINT64_MAX), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(6, 14));
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(2, 4));
}

Test(flights, a_stop_counts_when_the_run_is_awaited)
{
    struct pen_stop *stop = pen_stop_new();
    bind_values(1);
    pen_stop_arm(stop, UINT64_MAX);
    cr_assert_eq(pen_session_submit(w.session, stop, &w.error), PEN_OK);
    pen_stop_now(stop);
    cr_assert_eq(await(UINT64_MAX), PEN_ERR_CANCELLED);
    cr_assert(strstr(w.error.text, "cancelled") != NULL, "%s", w.error.text);
    bind_values(1);
    pen_stop_arm(stop, 1);
    cr_assert_eq(pen_session_submit(w.session, stop, &w.error), PEN_OK);
    cr_assert_eq(await(UINT64_MAX), PEN_ERR_DEADLINE);
    cr_assert(strstr(w.error.text, "deadline") != NULL, "%s", w.error.text);
    pen_stop_free(stop);
}

Test(flights, nothing_runs_before_it_is_bound)
{
    size_t bytes = 5;
    cr_assert_eq(pen_session_run_bound(w.session, NULL, &w.out, &w.out_count, &w.error), PEN_ERR_INVALID);
    cr_assert(strstr(w.error.text, "bind") != NULL, "%s", w.error.text);
    cr_assert_null(pen_session_input(w.session, 0, &bytes));
    bind_values(1);
    cr_assert_null(pen_session_input(w.session, 1, &bytes), "there is no second input");
}
