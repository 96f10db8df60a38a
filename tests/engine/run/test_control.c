/* Control flow: branches with captures, loops that count or ask, scans along any axis and direction, values of every kind that are carried. */
#include <criterion/criterion.h>
#include <string.h>

#include "written.h"

static const int64_t two[] = {2};
static struct written w;

static void close_written(void)
{
    written_close(&w);
}

TestSuite(control, .fini = close_written);

static struct pen_tensor flag(const bool *value)
{
    return written_tensor(PEN_DTYPE_BOOL, 0, two, value, 1);
}

static struct pen_tensor number(const int64_t *value)
{
    return written_tensor(PEN_DTYPE_I64, 0, two, value, sizeof *value);
}

/* ---- If ------------------------------------------------------------------------------------------------------------------------------ */

/* (first, second) of the two values that it captures: their sum and difference, or the other way round. */
static struct onnx_writer *branch(const char *a, const char *b, const char *first, const char *second)
{
    struct onnx_writer *g = onnx_writer_new("branch");
    onnx_writer_node(g, first, ONNX_LIST(a, b), ONNX_LIST("p"), NULL);
    onnx_writer_node(g, second, ONNX_LIST(a, b), ONNX_LIST("q"), NULL);
    onnx_writer_output(g, "p", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_output(g, "q", PEN_DTYPE_F32, 1, two, NULL);
    return g;
}

static void if_open(const char *const *outputs)
{
    struct onnx_writer *g = onnx_writer_new("if"), *yes = branch("a", "b", "Add", "Sub"),
                       *no = branch("b", "c", "Sub", "Mul");
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_GRAPH, .name = "then_branch", .graph = yes},
                                      {.type = ONNX_ATTR_GRAPH, .name = "else_branch", .graph = no},
                                      {0}};
    onnx_writer_input(g, "cond", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_input(g, "a", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_input(g, "b", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_input(g, "c", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_node(g, "If", ONNX_LIST("cond"), outputs, attrs);
    for (size_t i = 0; outputs[i] != NULL; i++) {
        if (*outputs[i] != '\0') {
            onnx_writer_output(g, outputs[i], PEN_DTYPE_F32, 1, two, NULL);
        }
    }
    onnx_writer_free(yes);
    onnx_writer_free(no);
    written_open(&w, g, NULL);
}

static void if_run(bool cond)
{
    const struct pen_tensor in[] = {flag(&cond), WRITTEN_F32(1, two, 10, 20), WRITTEN_F32(1, two, 3, 4),
                                    WRITTEN_F32(1, two, 5, 7)};
    cr_assert_eq(written_run(&w, in, 4), PEN_OK, "%s", w.error.text);
}

Test(control, a_branch_gets_its_own_captures_and_gives_its_outputs_in_order)
{
    if_open(ONNX_LIST("x", "y"));
    for (int round = 0; round < 2; round++) {
        if_run(true);
        written_expect(&w, 0, 1, two, WRITTEN_FLOATS(13, 24));
        written_expect(&w, 1, 1, two, WRITTEN_FLOATS(7, 16));
        if_run(false);
        written_expect(&w, 0, 1, two, WRITTEN_FLOATS(-2, -3));
        written_expect(&w, 1, 1, two, WRITTEN_FLOATS(15, 28));
    }
}

Test(control, an_output_of_a_branch_may_be_unwanted)
{
    if_open(ONNX_LIST("", "y"));
    if_run(true);
    written_expect(&w, 0, 1, two, WRITTEN_FLOATS(7, 16));
    if_run(false);
    written_expect(&w, 0, 1, two, WRITTEN_FLOATS(15, 28));
}

/* ---- Loop ---------------------------------------------------------------------------------------------------------------------------- */

/* v = v + step (captured); goes on while the first element is below `limit`; gathers the turn's v and twice its number. */
static struct onnx_writer *counting_body(void)
{
    static const float two_f = 2.0f;
    static const int64_t zero = 0;
    struct onnx_writer *g = onnx_writer_new("body");
    onnx_writer_input(g, "i", PEN_DTYPE_I64, 0, NULL, NULL);
    onnx_writer_input(g, "go", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_input(g, "v", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_constant(g, "factor", PEN_DTYPE_F32, 0, NULL, &two_f, sizeof two_f);
    onnx_writer_constant(g, "at", PEN_DTYPE_I64, 0, NULL, &zero, sizeof zero);
    onnx_writer_node(g, "Add", ONNX_LIST("v", "step"), ONNX_LIST("v_next"), NULL);
    onnx_writer_node(g, "Gather", ONNX_LIST("v_next", "at"), ONNX_LIST("first"), NULL);
    onnx_writer_node(g, "Less", ONNX_LIST("first", "limit"), ONNX_LIST("go_on"), NULL);
    onnx_writer_node(g, "Identity", ONNX_LIST("v"), ONNX_LIST("seen"), NULL);
    onnx_writer_node(g, "Cast", ONNX_LIST("i"), ONNX_LIST("turn"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "to", .i = PEN_DTYPE_F32}, {0}});
    onnx_writer_node(g, "Mul", ONNX_LIST("turn", "factor"), ONNX_LIST("doubled"), NULL);
    onnx_writer_output(g, "go_on", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_output(g, "v_next", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_output(g, "seen", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_output(g, "doubled", PEN_DTYPE_F32, 0, NULL, NULL);
    return g;
}

static void loop_open(const char *trips, const char *cond, const char *const *outputs)
{
    struct onnx_writer *g = onnx_writer_new("loop"), *body = counting_body();
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_GRAPH, .name = "body", .graph = body}, {0}};
    onnx_writer_input(g, "trips", PEN_DTYPE_I64, 0, NULL, NULL);
    onnx_writer_input(g, "cond", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_input(g, "step", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_input(g, "limit", PEN_DTYPE_F32, 0, NULL, NULL);
    onnx_writer_node(g, "Loop", ONNX_LIST(trips, cond, "x"), outputs, attrs);
    for (size_t i = 0; outputs[i] != NULL; i++) {
        if (*outputs[i] != '\0') {
            onnx_writer_output(g, outputs[i], PEN_DTYPE_F32,
                               i == 0   ? 1
                               : i == 1 ? 2
                                        : 1,
                               i == 1 ? WRITTEN_DIMS(-1, 2) : WRITTEN_DIMS(i == 0 ? 2 : -1), NULL);
        }
    }
    onnx_writer_free(body);
    written_open(&w, g, NULL);
}

static void loop_run(int64_t trips, bool cond, float limit)
{
    const struct pen_tensor in[] = {number(&trips), flag(&cond), WRITTEN_F32(1, two, 1, 2),
                                    WRITTEN_F32(1, two, 10, 100),
                                    written_tensor(PEN_DTYPE_F32, 0, two, &limit, sizeof limit)};
    cr_assert_eq(written_run(&w, in, 5), PEN_OK, "%s", w.error.text);
}

#define ALL_OF_A_LOOP ONNX_LIST("v", "seen", "turns")

Test(control, a_loop_runs_its_count_and_gathers_every_turn)
{
    loop_open("trips", "cond", ALL_OF_A_LOOP);
    for (int round = 0; round < 2; round++) {
        loop_run(3, true, 1e9f);
        written_expect(&w, 0, 1, two, WRITTEN_FLOATS(31, 302));
        written_expect(&w, 1, 2, WRITTEN_DIMS(3, 2), WRITTEN_FLOATS(1, 2, 11, 102, 21, 202));
        written_expect(&w, 2, 1, WRITTEN_DIMS(3), WRITTEN_FLOATS(0, 2, 4));
    }
}

Test(control, a_loop_ends_when_its_body_says_so)
{
    loop_open("trips", "cond", ALL_OF_A_LOOP);
    loop_run(50, true, 15.0f);
    written_expect(&w, 0, 1, two, WRITTEN_FLOATS(21, 202));
    written_expect(&w, 2, 1, WRITTEN_DIMS(2), WRITTEN_FLOATS(0, 2));
}

Test(control, a_loop_without_a_turn_gives_what_it_got_and_empty_stacks)
{
    loop_open("trips", "cond", ALL_OF_A_LOOP);
    for (int round = 0; round < 2; round++) {
        loop_run(round == 0 ? 0 : 5, round == 0, 1e9f);
        written_expect(&w, 0, 1, two, WRITTEN_FLOATS(1, 2));
        written_expect(&w, 1, 2, WRITTEN_DIMS(0, 2), NULL);
        written_expect(&w, 2, 1, WRITTEN_DIMS(0), NULL);
    }
}

Test(control, a_loop_without_a_count_goes_on_while_the_condition_holds)
{
    loop_open("", "cond", ALL_OF_A_LOOP);
    loop_run(1, true, 25.0f);
    written_expect(&w, 0, 1, two, WRITTEN_FLOATS(31, 302));
}

Test(control, a_loop_without_a_condition_begins)
{
    loop_open("trips", "", ALL_OF_A_LOOP);
    loop_run(2, false, 1e9f);
    written_expect(&w, 0, 1, two, WRITTEN_FLOATS(21, 202));
}

Test(control, outputs_of_a_loop_may_be_unwanted)
{
    loop_open("trips", "cond", ONNX_LIST("", "", "turns"));
    loop_run(3, true, 1e9f);
    written_expect(&w, 0, 1, WRITTEN_DIMS(3), WRITTEN_FLOATS(0, 2, 4));
}

/* v doubles its length in every turn. */
static void growing_open(bool gathers, int32_t dtype)
{
    struct onnx_writer *g = onnx_writer_new("loop"), *body = onnx_writer_new("body");
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_GRAPH, .name = "body", .graph = body}, {0}};
    onnx_writer_input(body, "i", PEN_DTYPE_I64, 0, NULL, NULL);
    onnx_writer_input(body, "go", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_input(body, "v", dtype, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_node(body, "Identity", ONNX_LIST("go"), ONNX_LIST("go_on"), NULL);
    onnx_writer_node(body, "Concat", ONNX_LIST("v", "v"), ONNX_LIST("v_next"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "axis", .i = 0}, {0}});
    onnx_writer_node(body, "Identity", ONNX_LIST("v"), ONNX_LIST("seen"), NULL);
    onnx_writer_output(body, "go_on", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_output(body, "v_next", dtype, 1, WRITTEN_DIMS(-1), NULL);
    if (gathers) {
        onnx_writer_output(body, "seen", dtype, 1, WRITTEN_DIMS(-1), NULL);
    }
    onnx_writer_input(g, "trips", PEN_DTYPE_I64, 0, NULL, NULL);
    onnx_writer_input(g, "x", dtype, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_node(g, "Loop", ONNX_LIST("trips", "", "x"), gathers ? ONNX_LIST("y", "all") : ONNX_LIST("y"), attrs);
    onnx_writer_output(g, "y", dtype, 1, WRITTEN_DIMS(-1), NULL);
    if (gathers) {
        onnx_writer_output(g, "all", dtype, 2, WRITTEN_DIMS(-1, -1), NULL);
    }
    onnx_writer_free(body);
    written_open(&w, g, NULL);
}

Test(control, a_carried_value_may_grow_but_not_a_gathered_one)
{
    int64_t trips = 3;
    const struct pen_tensor in[] = {number(&trips), WRITTEN_F32(1, WRITTEN_DIMS(1), 7)};
    growing_open(false, PEN_DTYPE_F32);
    cr_assert_eq(written_run(&w, in, 2), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 1, WRITTEN_DIMS(8), WRITTEN_FLOATS(7, 7, 7, 7, 7, 7, 7, 7));
    written_close(&w);
    growing_open(true, PEN_DTYPE_F32);
    cr_assert_eq(written_run(&w, in, 2), PEN_ERR_SHAPE);
    cr_assert(strstr(w.error.text, "changes its shape") != NULL, "%s", w.error.text);
    trips = 1;
    cr_assert_eq(written_run(&w, in, 2), PEN_OK, "a refused run left the session unusable: %s", w.error.text);
    written_expect(&w, 1, 2, WRITTEN_DIMS(1, 1), WRITTEN_FLOATS(7));
}

/* The count is a constant, so shapes are planned; the body declares no size. */
Test(control, a_loop_whose_count_is_the_constant_zero_gives_empty_stacks)
{
    static const int64_t none = 0;
    struct onnx_writer *g = onnx_writer_new("loop"), *body = onnx_writer_new("body");
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_GRAPH, .name = "body", .graph = body}, {0}};
    const struct pen_tensor in[] = {WRITTEN_F32(1, two, 7, 8)};
    onnx_writer_input(body, "i", PEN_DTYPE_I64, 0, NULL, NULL);
    onnx_writer_input(body, "go", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_input(body, "v", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_node(body, "Identity", ONNX_LIST("go"), ONNX_LIST("go_on"), NULL);
    onnx_writer_node(body, "Neg", ONNX_LIST("v"), ONNX_LIST("v_next"), NULL);
    onnx_writer_node(body, "Identity", ONNX_LIST("v"), ONNX_LIST("seen"), NULL);
    onnx_writer_output(body, "go_on", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_output(body, "v_next", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_output(body, "seen", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_constant(g, "none", PEN_DTYPE_I64, 0, NULL, &none, sizeof none);
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_node(g, "Loop", ONNX_LIST("none", "", "x"), ONNX_LIST("y", "all"), attrs);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_output(g, "all", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, -1), NULL);
    onnx_writer_free(body);
    written_open(&w, g, NULL);
    cr_assert_eq(written_run(&w, in, 1), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 1, two, WRITTEN_FLOATS(7, 8));
    written_expect(&w, 1, 2, WRITTEN_DIMS(0, 2), NULL);
}

Test(control, texts_are_carried_and_gathered)
{
    static const char ab[] = "\2\0\0\0ab", empty[] = "\2\0\0\0ab\2\0\0\0ab";
    int64_t trips = 1;
    const struct pen_tensor in[] = {number(&trips),
                                    written_tensor(PEN_DTYPE_STRING, 1, WRITTEN_DIMS(1), ab, sizeof ab - 1)};
    growing_open(true, ONNX_STRING);
    cr_assert_eq(written_run(&w, in, 2), PEN_OK, "%s", w.error.text);
    cr_assert(w.out[0].dtype == PEN_DTYPE_STRING && w.out[0].dims[0] == 2 && w.out[0].bytes == sizeof empty - 1);
    cr_assert_eq(memcmp(w.out[0].data, empty, sizeof empty - 1), 0);
    cr_assert(w.out[1].rank == 2 && w.out[1].bytes == sizeof ab - 1);
    cr_assert_eq(memcmp(w.out[1].data, ab, sizeof ab - 1), 0);
}

/* A sequence that gets the turn's value each time; at the end its parts stand side by side. */
Test(control, sequences_are_carried)
{
    struct onnx_writer *g = onnx_writer_new("loop"), *body = onnx_writer_new("body");
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_GRAPH, .name = "body", .graph = body}, {0}};
    onnx_writer_input(body, "i", PEN_DTYPE_I64, 0, NULL, NULL);
    onnx_writer_input(body, "go", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_sequence(body, "s", PEN_DTYPE_F32);
    onnx_writer_input(body, "v", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_node(body, "Identity", ONNX_LIST("go"), ONNX_LIST("go_on"), NULL);
    onnx_writer_node(body, "SequenceInsert", ONNX_LIST("s", "v"), ONNX_LIST("s_next"), NULL);
    onnx_writer_node(body, "Neg", ONNX_LIST("v"), ONNX_LIST("n"), NULL);
    onnx_writer_node(body, "Add", ONNX_LIST("n", "n"), ONNX_LIST("v_next"), NULL);
    onnx_writer_output(body, "go_on", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_output(body, "s_next", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_output(body, "v_next", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_input(g, "trips", PEN_DTYPE_I64, 0, NULL, NULL);
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_node(g, "SequenceEmpty", ONNX_LIST(NULL), ONNX_LIST("none"), NULL);
    onnx_writer_node(g, "Loop", ONNX_LIST("trips", "", "none", "x"), ONNX_LIST("parts", "y"), attrs);
    onnx_writer_node(g, "ConcatFromSequence", ONNX_LIST("parts"), ONNX_LIST("all"),
                     (struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "axis", .i = 0}, {0}});
    onnx_writer_output(g, "all", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_free(body);
    written_open(&w, g, NULL);
    int64_t trips = 4;
    const struct pen_tensor in[] = {number(&trips), WRITTEN_F32(1, two, 1, 5)};
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(written_run(&w, in, 2), PEN_OK, "%s", w.error.text);
        written_expect(&w, 0, 1, WRITTEN_DIMS(8), WRITTEN_FLOATS(1, 5, -2, -10, 4, 20, -8, -40));
        written_expect(&w, 1, 1, two, WRITTEN_FLOATS(16, 80));
    }
}

/* ---- Scan ---------------------------------------------------------------------------------------------------------------------------- */

/* s = s + a * b of each turn's slices; gathers the product. a: [2] slices, b: scalars that are spread. */
static void scan_open(const int64_t *in_axes, const int64_t *in_directions, int64_t out_axis, int64_t out_direction)
{
    struct onnx_writer *g = onnx_writer_new("scan"), *body = onnx_writer_new("body");
    const struct onnx_attr attrs[] = {
        {.type = ONNX_ATTR_GRAPH, .name = "body", .graph = body},
        {.type = ONNX_ATTR_INT, .name = "num_scan_inputs", .i = 2},
        {.type = ONNX_ATTR_INTS, .name = "scan_input_axes", .ints = in_axes, .count = 2},
        {.type = ONNX_ATTR_INTS, .name = "scan_input_directions", .ints = in_directions, .count = 2},
        {.type = ONNX_ATTR_INTS, .name = "scan_output_axes", .ints = &out_axis, .count = 1},
        {.type = ONNX_ATTR_INTS, .name = "scan_output_directions", .ints = &out_direction, .count = 1},
        {0}};
    onnx_writer_input(body, "s", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_input(body, "a_part", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_input(body, "b_part", PEN_DTYPE_F32, 1, WRITTEN_DIMS(1), NULL);
    onnx_writer_node(body, "Mul", ONNX_LIST("a_part", "b_part"), ONNX_LIST("product"), NULL);
    onnx_writer_node(body, "Add", ONNX_LIST("s", "product"), ONNX_LIST("s_next"), NULL);
    onnx_writer_output(body, "s_next", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_output(body, "product", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_input(g, "s", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_input(g, "a", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, -1), NULL);
    onnx_writer_input(g, "b", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, -1), NULL);
    onnx_writer_node(g, "Scan", ONNX_LIST("s", "a", "b"), ONNX_LIST("sum", "products"), attrs);
    onnx_writer_output(g, "sum", PEN_DTYPE_F32, 1, two, NULL);
    onnx_writer_output(g, "products", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, -1), NULL);
    onnx_writer_free(body);
    written_open(&w, g, NULL);
}

/* The columns of a, from the last to the first, with the rows of b; the products are stacked along axis 1, the last turn first. */
Test(control, a_scan_takes_any_axis_and_direction)
{
    scan_open(WRITTEN_DIMS(1, 0), WRITTEN_DIMS(1, 0), 1, 1);
    const struct pen_tensor in[] = {WRITTEN_F32(1, two, 1000, 2000),
                                    WRITTEN_F32(2, WRITTEN_DIMS(2, 3), 1, 2, 3, 4, 5, 6),
                                    WRITTEN_F32(2, WRITTEN_DIMS(3, 1), 1, 10, 100)};
    cr_assert_eq(written_run(&w, in, 3), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 1, two, WRITTEN_FLOATS(1000 + 3 + 20 + 100, 2000 + 6 + 50 + 400));
    written_expect(&w, 1, 2, WRITTEN_DIMS(2, 3), WRITTEN_FLOATS(100, 20, 3, 400, 50, 6));
}

Test(control, a_scan_goes_forward_along_the_first_axis)
{
    scan_open(WRITTEN_DIMS(0, -1), WRITTEN_DIMS(0, 0), 0, 0);
    const struct pen_tensor in[] = {WRITTEN_F32(1, two, 0, 0), WRITTEN_F32(2, WRITTEN_DIMS(3, 2), 1, 2, 3, 4, 5, 6),
                                    WRITTEN_F32(2, WRITTEN_DIMS(1, 3), 1, 10, 100)};
    cr_assert_eq(written_run(&w, in, 3), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 1, two, WRITTEN_FLOATS(531, 642));
    written_expect(&w, 1, 2, WRITTEN_DIMS(3, 2), WRITTEN_FLOATS(1, 2, 30, 40, 500, 600));
}

Test(control, a_scan_of_nothing_keeps_its_state)
{
    scan_open(WRITTEN_DIMS(0, 0), WRITTEN_DIMS(0, 0), 0, 0);
    const struct pen_tensor in[] = {WRITTEN_F32(1, two, 8, 9),
                                    written_tensor(PEN_DTYPE_F32, 2, WRITTEN_DIMS(0, 2), NULL, 0),
                                    written_tensor(PEN_DTYPE_F32, 2, WRITTEN_DIMS(0, 1), NULL, 0)};
    cr_assert_eq(written_run(&w, in, 3), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 1, two, WRITTEN_FLOATS(8, 9));
    written_expect(&w, 1, 2, WRITTEN_DIMS(0, 2), NULL);
}

/* Each turn's slice times k plus c, both captured: they are the same in every turn. */
Test(control, a_scan_reads_its_captures_in_every_turn)
{
    static const int64_t one = 1;
    struct onnx_writer *g = onnx_writer_new("scan"), *body = onnx_writer_new("body");
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_GRAPH, .name = "body", .graph = body},
                                      {.type = ONNX_ATTR_INT, .name = "num_scan_inputs", .i = 1},
                                      {.type = ONNX_ATTR_INTS, .name = "scan_output_axes", .ints = &one, .count = 1},
                                      {0}};
    onnx_writer_input(body, "e", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_node(body, "Mul", ONNX_LIST("e", "k"), ONNX_LIST("m"), NULL);
    onnx_writer_node(body, "Add", ONNX_LIST("m", "c"), ONNX_LIST("f"), NULL);
    onnx_writer_output(body, "f", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, -1), NULL);
    onnx_writer_input(g, "k", PEN_DTYPE_F32, 1, WRITTEN_DIMS(1), NULL);
    onnx_writer_input(g, "c", PEN_DTYPE_F32, 1, WRITTEN_DIMS(1), NULL);
    onnx_writer_node(g, "Scan", ONNX_LIST("x"), ONNX_LIST("y"), attrs);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, WRITTEN_DIMS(-1, -1), NULL);
    onnx_writer_free(body);
    written_open(&w, g, NULL);
    struct pen_tensor in[] = {WRITTEN_F32(2, WRITTEN_DIMS(4, 2), 1, 2, 3, 4, 5, 6, 7, 8),
                              WRITTEN_F32(1, WRITTEN_DIMS(1), 10), WRITTEN_F32(1, WRITTEN_DIMS(1), 0.5f)};
    cr_assert_eq(written_run(&w, in, 3), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 2, WRITTEN_DIMS(2, 4),
                   WRITTEN_FLOATS(10.5f, 30.5f, 50.5f, 70.5f, 20.5f, 40.5f, 60.5f, 80.5f));
    in[0] = written_tensor(PEN_DTYPE_F32, 2, WRITTEN_DIMS(3, 0), NULL, 0);
    cr_assert_eq(written_run(&w, in, 3), PEN_OK, "%s", w.error.text);
    written_expect(&w, 0, 2, WRITTEN_DIMS(0, 3), NULL);
}

Test(control, scan_inputs_of_unlike_lengths_are_refused)
{
    scan_open(WRITTEN_DIMS(0, 0), WRITTEN_DIMS(0, 0), 0, 0);
    const struct pen_tensor in[] = {WRITTEN_F32(1, two, 0, 0), WRITTEN_F32(2, WRITTEN_DIMS(2, 2), 1, 2, 3, 4),
                                    WRITTEN_F32(2, WRITTEN_DIMS(3, 1), 1, 10, 100)};
    cr_assert_eq(written_run(&w, in, 3), PEN_ERR_SHAPE);
    cr_assert(strstr(w.error.text, "unlike lengths") != NULL, "%s", w.error.text);
}
