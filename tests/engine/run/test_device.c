/* Runs on a device, played by the test (played.h). */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "played.h"
#include "run/session_device.h"
#include "run/session_values.h"
#include "written.h"

static struct written w;
static const float two[] = {1, 2};

static void end(void)
{
    written_close(&w);
    cr_expect(played.plans == 0 && played.execs == 0 && played.kept == 0, "%u plans, %u execs, %u values are left",
              played.plans, played.execs, played.kept);
}

TestSuite(device, .fini = end);

static struct onnx_writer *begin(void)
{
    struct onnx_writer *g = onnx_writer_new("played");
    memset(&played, 0, sizeof played);
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    return g;
}

static void graph_open(struct onnx_writer *g, const char *const *outputs)
{
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = "device";
    options.compare_reference = played.compare;
    for (size_t i = 0; outputs[i] != NULL; i++) {
        onnx_writer_output(g, outputs[i], PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    }
    written_open(&w, g, &options);
}

static void negation_add(struct onnx_writer *g)
{
    onnx_writer_node(g, "Neg", ONNX_LIST("x"), ONNX_LIST("y"), NULL);
    graph_open(g, ONNX_LIST("y"));
}

/* y = -x */
static void negation_open(void)
{
    negation_add(begin());
}

static struct pen_tensor input(const float *values)
{
    return written_tensor(PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), values, 2 * sizeof *values);
}

static void bind_values(float first, float second)
{
    const struct pen_tensor in = input(two);
    size_t bytes = 0;
    cr_assert_eq(pen_session_bind(w.session, &in, 1, &w.error), PEN_OK, "%s", w.error.text);
    float *x = pen_session_input(w.session, 0, &bytes);
    cr_assert(x != NULL && bytes == sizeof two);
    x[0] = first;
    x[1] = second;
}

static enum pen_status submit(float first, float second)
{
    bind_values(first, second);
    w.error = (struct pen_error){.status = PEN_OK};
    return pen_session_submit(w.session, NULL, &w.error);
}

static enum pen_status await(uint64_t timeout_us)
{
    w.error = (struct pen_error){.status = PEN_OK};
    return pen_session_await(w.session, timeout_us, &w.out, &w.out_count, &w.error);
}

/* ---- several runs on their way ---- */

Test(device, takes_as_many_runs_as_its_window_and_gives_them_back_in_order)
{
    negation_open();
    bind_values(1, 2);
    cr_expect_eq(played.bound, 0u, "more than one run may be on its way");
    for (unsigned round = 0; round < 3; round++) { /* the ring goes round */
        for (unsigned i = 0; i < PLAYED_WINDOW; i++) {
            cr_assert_eq(submit((float)i, 5), PEN_OK, "%s", w.error.text);
            cr_expect(pen_session_in_flight(w.session) == i + 1 && pen_session_window(w.session) == PLAYED_WINDOW);
        }
        cr_expect_eq(submit(9, 9), PEN_ERR_BUSY);
        cr_expect(strstr(w.error.text, "3 runs are on their way") != NULL, "%s", w.error.text);
        const struct pen_tensor in = input(two);
        cr_expect_eq(written_run(&w, &in, 1), PEN_ERR_BUSY);
        played_calls_are(round == 0 ? "nsss" : "sss");
        for (unsigned i = 0; i < PLAYED_WINDOW; i++) {
            cr_assert_eq(await(7), PEN_OK, "%s", w.error.text);
            written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(-(float)i, -5));
            cr_expect_eq(pen_session_in_flight(w.session), PLAYED_WINDOW - 1 - i);
            cr_expect_eq(played.timeout_ns, 7000u);
        }
        played_calls_are("dwdwdw");
    }
    cr_expect_eq(await(7), PEN_ERR_INVALID);
}

Test(device, a_run_that_is_not_done_in_time_stays_on_its_way)
{
    negation_open();
    cr_assert_eq(submit(3, 4), PEN_OK);
    played.slow = true;
    cr_expect_eq(await(UINT64_MAX / 1000 - 1), PEN_ERR_TIMEOUT);
    cr_expect_eq(played.timeout_ns, (UINT64_MAX / 1000 - 1) * 1000);
    cr_expect_eq(await(UINT64_MAX / 1000), PEN_ERR_TIMEOUT);
    cr_expect_eq(played.timeout_ns, UINT64_MAX, "as long as it takes");
    cr_expect_eq(pen_session_in_flight(w.session), 1u);
    played.slow = false;
    cr_assert_eq(await(0), PEN_OK);
    written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(-3, -4));
    played_calls_are("nsdddw");
}

Test(device, a_run_that_it_does_not_take_or_that_fails_has_its_sentence)
{
    negation_open();
    played.submit = PEN_ERR_DEVICE_LOST;
    cr_expect_eq(submit(3, 4), PEN_ERR_DEVICE_LOST);
    cr_expect_str_eq(w.error.text, "the device did not take it");
    cr_expect_eq(pen_session_in_flight(w.session), 0u);
    cr_assert_eq(submit(3, 4), PEN_OK);
    cr_assert_eq(submit(5, 6), PEN_OK);
    played.wait = PEN_ERR_DEVICE_LOST;
    cr_expect_eq(await(0), PEN_ERR_DEVICE_LOST);
    cr_expect_str_eq(w.error.text, "the device failed");
    cr_expect_eq(await(0), PEN_OK, "each has its own end");
    written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(-5, -6));
    played_calls_are("nSssdWdw");
}

Test(device, has_one_run_at_a_time_where_its_inputs_are_read_later_or_a_profile_is_made)
{
    struct onnx_writer *g = begin();
    onnx_writer_node(g, "Neg", ONNX_LIST("x"), ONNX_LIST("n"), NULL);
    onnx_writer_node(g, "Mul", ONNX_LIST("n", "x"), ONNX_LIST("y"), NULL);
    graph_open(g, ONNX_LIST("y"));
    bind_values(3, 4);
    cr_expect_eq(pen_session_window(w.session), 1u, "the next run's inputs would have taken the place of x");
    cr_assert_eq(submit(3, 4), PEN_OK);
    cr_expect_eq(pen_session_submit(w.session, NULL, &w.error), PEN_ERR_BUSY);
    played_calls_are("n");
    cr_assert_eq(await(0), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(-9, -16));
    cr_expect_eq(played.bound, 1u);
    end();
    negation_open();
    pen_session_profile(w.session, true);
    bind_values(3, 4);
    cr_expect_eq(pen_session_window(w.session), 1u);
    pen_session_profile(w.session, false);
    cr_expect_eq(pen_session_window(w.session), (uint32_t)PLAYED_WINDOW);
}

/* ---- other steps while it computes ---- */

/* n = -x on the device; e = exp(x) does not read it; y = n + e does. */
static void beside_open(void)
{
    struct onnx_writer *g = begin();
    onnx_writer_node(g, "Neg", ONNX_LIST("x"), ONNX_LIST("n"), NULL);
    onnx_writer_node(g, "NonZero", ONNX_LIST("x"), ONNX_LIST("e"), NULL);
    onnx_writer_node(g, "Cast", ONNX_LIST("e"), ONNX_LIST("c"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "to", .i = PEN_DTYPE_F32}, {.name = NULL}});
    onnx_writer_node(g, "ReduceSum", ONNX_LIST("c"), ONNX_LIST("s"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "keepdims", .i = 0}, {.name = NULL}});
    onnx_writer_node(g, "Add", ONNX_LIST("n", "s"), ONNX_LIST("y"), NULL);
    graph_open(g, ONNX_LIST("y"));
}

Test(device, computes_while_steps_run_that_do_not_read_its_result)
{
    beside_open();
    const struct pen_tensor in = input(WRITTEN_FLOATS(3, 4));
    uint64_t before = session_steps_beside(w.session);
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(-3 + 1, -4 + 1)); /* indices 0 and 1 add up to 1 */
    cr_expect_gt(session_steps_beside(w.session), before);
    played_calls_are("nsw");
    pen_session_profile(w.session, true);
    before = session_steps_beside(w.session);
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK);
    cr_expect_eq(session_steps_beside(w.session), before, "who measures steps waits for each");
    played_calls_are("sw");
    size_t count = 0;
    const struct pen_profile_row *row = pen_session_profile_rows(w.session, &count);
    cr_expect_geq(count, 4u);
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        found |= strcmp(row[i].backend, "device") == 0 && strcmp(row[i].op, "Neg") == 0 && row[i].runs == 1;
    }
    cr_expect(found, "a partition of one node has the node's name");
}

/* h, which the device reads, is needed by nobody else, and s would fit in its place. */
Test(device, has_its_inputs_left_alone_while_other_steps_run)
{
    struct onnx_writer *g = begin();
    onnx_writer_node(g, "Abs", ONNX_LIST("x"), ONNX_LIST("h"), NULL);
    onnx_writer_node(g, "Floor", ONNX_LIST("x"), ONNX_LIST("f"), NULL);
    onnx_writer_node(g, "Neg", ONNX_LIST("h"), ONNX_LIST("n"), NULL);
    onnx_writer_node(g, "NonZero", ONNX_LIST("f"), ONNX_LIST("e"), NULL);
    onnx_writer_node(g, "Cast", ONNX_LIST("e"), ONNX_LIST("c"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "to", .i = PEN_DTYPE_F32}, {.name = NULL}});
    onnx_writer_node(g, "ReduceSum", ONNX_LIST("c"), ONNX_LIST("s"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "keepdims", .i = 0}, {.name = NULL}});
    onnx_writer_node(g, "Abs", ONNX_LIST("s"), ONNX_LIST("t"), NULL);
    onnx_writer_node(g, "Add", ONNX_LIST("n", "t"), ONNX_LIST("y"), NULL);
    graph_open(g, ONNX_LIST("y"));
    const struct pen_tensor in = input(WRITTEN_FLOATS(3, 4));
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(-3 + 1, -4 + 1));
    cr_expect_gt(session_steps_beside(w.session), 0u, "%s", pen_model_placement(w.model));
    cr_expect_eq(played.bound, 1u);
}

Test(device, is_waited_for_when_another_step_fails_and_the_first_error_stays)
{
    beside_open();
    const struct pen_tensor in = input(WRITTEN_FLOATS(3, 4));
    played.wait = PEN_ERR_DEVICE_LOST;
    cr_expect_eq(written_run(&w, &in, 1), PEN_ERR_DEVICE_LOST);
    cr_expect_str_eq(w.error.text, "the device failed");
    played_calls_are("nsW");
    struct pen_stop *stop = pen_stop_new();
    pen_stop_now(stop); /* seen before the executor's first node, when the device has begun */
    played.wait = PEN_ERR_DEVICE_LOST;
    cr_expect_eq(pen_session_run(w.session, &in, 1, stop, &w.out, &w.out_count, &w.error), PEN_ERR_CANCELLED);
    played_calls_are("sW");
    pen_stop_free(stop);
    cr_assert_eq(written_run(&w, &in, 1), PEN_OK, "%s", w.error.text);
    played_calls_are("sw");
}

/* ---- results that stay there ---- */

static enum pen_status start(struct device_value *value, const float *values)
{
    const struct pen_tensor in = input(values);
    struct device_value *const on_device[] = {value};
    w.error = (struct pen_error){.status = PEN_OK};
    enum pen_status status = pen_session_bind(w.session, &in, 1, &w.error);
    status = status == PEN_OK ? session_device_inputs(w.session, on_device, &w.error) : status;
    return status == PEN_OK ? pen_session_submit(w.session, NULL, &w.error) : status;
}

Test(device, keeps_a_result_and_reads_it_in_the_next_run)
{
    struct device_value *first = NULL, *second = NULL;
    float values[2] = {0};
    negation_open();
    cr_assert_eq(submit(3, 4), PEN_OK);
    session_device_want(w.session);
    cr_assert_eq(await(0), PEN_OK);
    cr_assert_eq(session_device_keep(w.session, 0, &first, &w.error), PEN_OK);
    session_device_clear(w.session);
    cr_assert(first != NULL && first->bytes == sizeof values);
    played_calls_are("nsdwk");
    cr_assert_eq(start(first, two), PEN_OK, "%s", w.error.text);
    cr_assert_eq(await(0), PEN_OK);
    cr_assert_eq(session_device_keep(w.session, 0, &second, &w.error), PEN_OK);
    written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(3, 4)); /* minus minus; nobody wanted it left there */
    session_device_clear(w.session);
    played_calls_are("sdwk");
    cr_expect_eq(device_value_read(first, values, &w.error), PEN_OK);
    cr_expect(values[0] == -3 && values[1] == -4);
    cr_expect_eq(device_value_hold(second), second);
    device_value_drop(first);
    device_value_drop(second);
    played_calls_are("rf");
    cr_expect_eq(played.kept, 1u, "it is held");
    device_value_drop(second);
    device_value_drop(NULL);
    cr_assert_eq(submit(5, 6), PEN_OK);
    cr_assert_eq(await(0), PEN_OK);
    written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(-5, -6)); /* its inputs lie on the host again */
}

Test(device, values_are_read_to_the_host_where_the_model_is_more_than_one_step)
{
    struct device_value *value = NULL, *none = NULL;
    negation_open();
    cr_assert_eq(submit(3, 4), PEN_OK);
    cr_assert_eq(await(0), PEN_OK);
    cr_assert_eq(session_device_keep(w.session, 0, &value, &w.error), PEN_OK);
    session_device_clear(w.session);
    struct written other = w;
    struct onnx_writer *g = onnx_writer_new("two steps");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_node(g, "Neg", ONNX_LIST("x"), ONNX_LIST("n"), NULL);
    onnx_writer_node(g, "Exp", ONNX_LIST("n"), ONNX_LIST("y"), NULL);
    graph_open(g, ONNX_LIST("y"));
    played_calls_are("nsdwk");
    cr_assert_eq(start(value, two), PEN_OK, "%s", w.error.text);
    session_device_want(w.session);
    cr_assert_eq(await(0), PEN_OK);
    cr_assert_eq(session_device_keep(w.session, 0, &none, &w.error), PEN_OK);
    cr_expect_null(none);
    session_device_clear(w.session);
    written_expect(&w, 0, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(20.0855369f, 54.5981500f));
    cr_expect_eq(played.calls[0], 'n');
    cr_expect_not_null(strchr(played.calls, 'r'));
    device_value_drop(value);
    written_close(&other);
}

/* ---- compared with the reference ---- */

/* The bound of f32: 1e-5, a ten-thousandth of what is expected, and 1e-5 of the largest. */
Test(device, is_told_from_the_reference_beyond_the_bound_and_not_within)
{
    static const struct {
        float x[2], off[2];
        const char *text; /* NULL: it is no deviation */
    } cases[] = {
        {{1, 2}, {0, 0}, NULL},
        {{1, 2}, {1.2e-4f, 0}, NULL},
        {{1, 2}, {1.4e-4f, 0}, "element 0 is -0.99985"},
        {{1, 2}, {0, -2.2e-4f}, NULL},
        {{1, 2}, {0, -2.4e-4f}, "element 1 is -2.00024"},
        {{1, 2}, {1, 1}, "element 0 is 0, expected -1; 2 of 2 are off"},
        {{0, 100}, {1.0e-3f, 0}, NULL}, /* 1e-5 of the largest */
        {{0, 100}, {1.1e-3f, 0}, "element 0 is 0.0010999"},
        {{INFINITY, 1}, {0, 1.0e-4f}, NULL},
        {{INFINITY, 1}, {0, 1.3e-4f}, "element 1 is -0.99987"}, /* what is infinite is not the largest */
        {{NAN, 1}, {0, 0}, NULL},
        {{1, 2}, {NAN, 0}, "element 0 is nan, expected -1; 1 of 2 are off"},
        {{NAN, 1}, {0, 1}, "element 1 is 0, expected -1; 1 of 2 are off"},
    };
    struct onnx_writer *g = begin();
    played.compare = true;
    negation_add(g);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct pen_tensor in = input(cases[i].x);
        uint64_t before = pen_session_compared(w.session);
        memcpy(played.off, cases[i].off, sizeof played.off);
        enum pen_status status = written_run(&w, &in, 1);
        cr_expect_eq(status, cases[i].text != NULL ? PEN_ERR_INTERNAL : PEN_OK, "case %zu: %s", i, w.error.text);
        cr_expect(cases[i].text == NULL || strstr(w.error.text, cases[i].text) != NULL, "case %zu: %s", i,
                  w.error.text);
        cr_expect(cases[i].text == NULL || strstr(w.error.text, "is the first on device that deviates from reference"));
        cr_expect_eq(pen_session_compared(w.session), before + 1);
    }
}
