/* ONNX files that mean harm: loops that never end, and how they are stopped. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "hostile.h"

/* Loop without a count whose condition stays true; v is carried, and gathered in every turn when asked. */
static void loop_write(bool gather)
{
    static const uint8_t yes = 1;
    struct onnx_writer *body = onnx_writer_new("body"), *w = onnx_writer_new("endless");
    onnx_writer_input(body, "i", PEN_DTYPE_I64, 0, NULL, NULL);
    onnx_writer_input(body, "go", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_input(body, "v", PEN_DTYPE_F32, 1, (int64_t[]){4}, NULL);
    onnx_writer_node(body, "Identity", ONNX_LIST("go"), ONNX_LIST("go_on"), NULL);
    onnx_writer_node(body, "Neg", ONNX_LIST("v"), ONNX_LIST("v_next"), NULL);
    onnx_writer_output(body, "go_on", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_output(body, "v_next", PEN_DTYPE_F32, 1, (int64_t[]){4}, NULL);
    if (gather) {
        onnx_writer_node(body, "Identity", ONNX_LIST("v"), ONNX_LIST("seen"), NULL);
        onnx_writer_output(body, "seen", PEN_DTYPE_F32, 1, (int64_t[]){4}, NULL);
    }
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_GRAPH, .name = "body", .graph = body}, {0}};
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 1, (int64_t[]){4}, NULL);
    onnx_writer_constant(w, "yes", PEN_DTYPE_BOOL, 0, NULL, &yes, 1);
    onnx_writer_node(w, "Loop", ONNX_LIST("", "yes", "x"), gather ? ONNX_LIST("y", "all") : ONNX_LIST("y"), attrs);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 1, (int64_t[]){4}, NULL);
    if (gather) {
        onnx_writer_output(w, "all", PEN_DTYPE_F32, 2, (int64_t[]){-1, 4}, NULL);
    }
    onnx_writer_save(w, 17, path);
    onnx_writer_free(body);
    onnx_writer_free(w);
}

/* Four numbers, of which a branch makes five. */
static void branches_write(void)
{
    static const int64_t five = 5;
    struct onnx_writer *yes = onnx_writer_new("yes"), *no = onnx_writer_new("no"), *w = onnx_writer_new("branches");
    onnx_writer_node(yes, "Neg", ONNX_LIST("x"), ONNX_LIST("p"), NULL);
    onnx_writer_output(yes, "p", PEN_DTYPE_F32, 1, (int64_t[]){-1}, NULL);
    onnx_writer_node(no, "Neg", ONNX_LIST("x"), ONNX_LIST("turned"), NULL);
    onnx_writer_node(no, "Reshape", ONNX_LIST("turned", "five"), ONNX_LIST("q"), NULL);
    onnx_writer_output(no, "q", PEN_DTYPE_F32, 1, (int64_t[]){-1}, NULL);
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_GRAPH, .name = "then_branch", .graph = yes},
                                      {.type = ONNX_ATTR_GRAPH, .name = "else_branch", .graph = no},
                                      {0}};
    onnx_writer_input(w, "cond", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 1, (int64_t[]){4}, NULL);
    onnx_writer_constant(w, "five", PEN_DTYPE_I64, 1, (int64_t[]){1}, &five, sizeof five);
    onnx_writer_node(w, "If", ONNX_LIST("cond"), ONNX_LIST("y"), attrs);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 1, (int64_t[]){-1}, NULL);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(yes);
    onnx_writer_free(no);
    onnx_writer_free(w);
}

/* s = sum of a long row by Scan, a turn per element. */
#define SCANNED 4000000

static void scan_write(void)
{
    static const float zero = 0.0f;
    struct onnx_writer *body = onnx_writer_new("body"), *w = onnx_writer_new("scan");
    onnx_writer_input(body, "s", PEN_DTYPE_F32, 0, NULL, NULL);
    onnx_writer_input(body, "e", PEN_DTYPE_F32, 0, NULL, NULL);
    onnx_writer_node(body, "Add", ONNX_LIST("s", "e"), ONNX_LIST("s_next"), NULL);
    onnx_writer_output(body, "s_next", PEN_DTYPE_F32, 0, NULL, NULL);
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_GRAPH, .name = "body", .graph = body},
                                      {.type = ONNX_ATTR_INT, .name = "num_scan_inputs", .i = 1},
                                      {0}};
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 1, (int64_t[]){-1}, NULL);
    onnx_writer_constant(w, "zero", PEN_DTYPE_F32, 0, NULL, &zero, sizeof zero);
    onnx_writer_node(w, "Scan", ONNX_LIST("zero", "x"), ONNX_LIST("y"), attrs);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 0, NULL, NULL);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(body);
    onnx_writer_free(w);
}

static float row[SCANNED];

/* Runs the model on `count` ones; stop may be NULL. Gives the first output's first float. */
static enum pen_status run_row(int64_t count, struct pen_stop *stop, float *ret_first)
{
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    const struct pen_tensor *out = NULL;
    size_t outputs = 0;
    for (int64_t i = 0; i < count; i++) {
        row[i] = 1.0f;
    }
    struct pen_tensor in = {
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {count}, .data = row, .bytes = (size_t)count * 4};
    cr_assert_eq(load(&model), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_session_new(model, &session, &error), PEN_OK);
    if (stop != NULL) {
        pen_stop_arm(stop, now_us() + 150000);
    }
    error = (struct pen_error){0};
    enum pen_status status = pen_session_run(session, &in, 1, stop, &out, &outputs, &error);
    if (status == PEN_OK && ret_first != NULL) {
        *ret_first = ((const float *)out[0].data)[0];
    }
    pen_session_free(session);
    pen_model_free(model);
    return status;
}

Test(hostile, a_loop_without_end_stops_at_its_deadline_in_constant_memory)
{
    struct pen_stop *stop = pen_stop_new();
    loop_write(false);
    uint64_t before = peak_bytes(), start = now_us();
    cr_assert_eq(run_row(4, stop, NULL), PEN_ERR_DEADLINE, "%s", error.text);
    cr_assert_lt(now_us() - start, 20000000u, "not long after");
    cr_assert_lt(peak_bytes() - before, 24u << 20, "turns give their memory back");
    pen_stop_free(stop);
}

Test(hostile, a_scan_over_a_long_row_stops_at_its_deadline)
{
    struct pen_stop *stop = pen_stop_new();
    scan_write();
    cr_assert_eq(run_row(SCANNED, stop, NULL), PEN_ERR_DEADLINE, "%s", error.text);
    pen_stop_free(stop);
}

Test(hostile, a_scan_gives_the_right_sum_when_its_memory_is_used_again)
{
    float sum = 0.0f;
    scan_write();
    cr_assert_eq(run_row(3001, NULL, &sum), PEN_OK, "%s", error.text);
    cr_assert_float_eq(sum, 3001.0f, 0.0f);
}

static void *stop_soon(void *stop)
{
    struct timespec soon = {.tv_nsec = 30000000};
    nanosleep(&soon, NULL);
    pen_stop_now(stop);
    return NULL;
}

Test(hostile, a_loop_without_end_is_stopped_by_another_thread)
{
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    struct pen_stop *stop = pen_stop_new();
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    pthread_t thread;
    loop_write(true);
    cr_assert_eq(load(&model), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_session_new(model, &session, &error), PEN_OK);
    struct pen_tensor in = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {4}, .data = row, .bytes = 16};
    pen_stop_arm(stop, UINT64_MAX);
    cr_assert_eq(pthread_create(&thread, NULL, stop_soon, stop), 0);
    cr_assert_eq(pen_session_run(session, &in, 1, stop, &out, &count, &error), PEN_ERR_CANCELLED, "%s", error.text);
    pthread_join(thread, NULL);
    pen_session_free(session);
    pen_model_free(model);
    pen_stop_free(stop);
}

/* Without a deadline the turns run out. */
Test(hostile, a_loop_without_end_and_deadline_hits_the_cap_of_turns)
{
    loop_write(false);
    uint64_t before = peak_bytes();
    cr_assert_eq(run_row(4, NULL, NULL), PEN_ERR_TOO_LARGE, "%s", error.text);
    cr_assert(strstr(error.text, "turned"), "%s", error.text);
    cr_assert_lt(peak_bytes() - before, 24u << 20);
}

Test(hostile, a_branch_that_contradicts_itself_is_refused_with_its_node)
{
    struct pen_model *model = NULL;
    branches_write();
    cr_assert_eq(load(&model), PEN_ERR_SHAPE, "%s", error.text);
    cr_assert(strstr(error.text, "(Reshape)") != NULL, "%s", error.text);
}
