/* ONNX files that mean harm, whole through the engine: published path traversals, sizes that are only claimed. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hostile.h"

/* ---- external data ------------------------------------------------------------------------------------------------------ */

/* y = x + w, w [3] in a file of its own. */
static void external_write(const char *location)
{
    struct onnx_writer *w = onnx_writer_new("external");
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 1, (int64_t[]){3}, NULL);
    onnx_writer_external(w, "w", PEN_DTYPE_F32, 1, (int64_t[]){3}, location);
    onnx_writer_node(w, "Add", ONNX_LIST("x", "w"), ONNX_LIST("y"), NULL);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 1, (int64_t[]){3}, NULL);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
}

/* The right bytes lie inside, outside, and behind links: what is refused is refused for where it lies. */
static void secrets_write(void)
{
    static const float three[3] = {1, 2, 3};
    static const char *const places[] = {"secret.bin", "inside/w.bin", "inside/sub/w.bin"};
    char at[sizeof path], to[sizeof path];
    snprintf(at, sizeof at, "%s/inside/sub", folder);
    folder_make(at);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(at, sizeof at, "%s/%s", folder, places[i]);
        file_write(at, three, sizeof three);
    }
    snprintf(at, sizeof at, "%s/inside/link.bin", folder);
    snprintf(to, sizeof to, "%s/secret.bin", folder);
    cr_assert_eq(symlink(to, at), 0);
    snprintf(at, sizeof at, "%s/inside/door", folder);
    cr_assert_eq(symlink(folder, at), 0);
}

static void refuse_all(const char *const *locations)
{
    struct pen_model *model = NULL;
    secrets_write();
    external_write("sub/w.bin");
    cr_assert_eq(load(&model), PEN_OK, "the honest one: %s", error.text);
    pen_model_free(model);
    for (; *locations != NULL; locations++) {
        external_write(*locations);
        cr_assert_neq(load(&model), PEN_OK, "'%s' was read", *locations);
        cr_assert(strstr(error.text, "external data"), "'%s': %s", *locations, error.text);
    }
}

TestSuite(hostile, .init = setup, .fini = teardown, .timeout = 100);

/* A location that climbs out of the model's folder. */
Test(hostile, cve_2022_25882_external_data_above_the_folder)
{
    refuse_all(ONNX_LIST("../secret.bin", "../../../../../../../../etc/passwd", "../inside/w.bin", ".."));
}

/* What the first remedy let through: climbing after a harmless beginning, absolute paths, links. */
Test(hostile, cve_2024_27318_external_data_by_another_road)
{
    char absolute[sizeof path];
    snprintf(absolute, sizeof absolute, "%s/secret.bin", folder);
    refuse_all(ONNX_LIST("sub/../../secret.bin", "sub//../../secret.bin", "./../secret.bin", "sub/./../../secret.bin",
                         "link.bin", "door/secret.bin", "door/inside/w.bin", absolute, "/etc/passwd",
                         "sub\\..\\..\\secret.bin"));
}

/* ---- sizes that are only claimed ------------------------------------------------------------------------------------------- */

#define HUGE (INT64_C(1) << 40)

/* One operator whose result is as large as a small input says. */
struct claim {
    const char *op;
    const char *const *inputs; /* of big (int64), x [1, 1, 2, 2] f32, one, scales, values and the empty name */
    size_t count;              /* of big */
    int64_t big[4];
};

static const struct claim claims[] = {
    {"ConstantOfShape", (const char *const[]){"big", NULL}, 2, {HUGE, HUGE}},
    {"ConstantOfShape", (const char *const[]){"big", NULL}, 1, {HUGE}},
    {"ConstantOfShape", (const char *const[]){"big", NULL}, 4, {65536, 65536, 65536, 65536}},
    {"Expand", (const char *const[]){"x", "big", NULL}, 4, {HUGE, 1, 2, 2}},
    {"Tile", (const char *const[]){"x", "big", NULL}, 4, {HUGE, HUGE, 1, 1}},
    {"Tile", (const char *const[]){"x", "big", NULL}, 4, {1, 1, 1, HUGE}},
    {"Range", (const char *const[]){"zero", "bound", "step", NULL}, 0, {0}},
    {"Pad", (const char *const[]){"x", "pads", NULL}, 0, {0}},
    {"Resize", (const char *const[]){"x", "", "scales", NULL}, 0, {0}},
    {"Resize", (const char *const[]){"x", "", "", "big", NULL}, 4, {1, 1, HUGE, 2}},
    {"OneHot", (const char *const[]){"one", "bound", "values", NULL}, 0, {0}},
    {"Reshape", (const char *const[]){"x", "big", NULL}, 2, {HUGE, HUGE}},
};

static struct onnx_writer *claim_begin(const struct claim *c, bool constant)
{
    static const float x[4] = {1, 2, 3, 4}, scales[4] = {1, 1, 3e8f, 3e8f}, values[2] = {0, 1};
    static const int64_t pads[8] = {0, 0, 0, 0, HUGE, 0, 0, HUGE}, zero = 0, step = 1, bound = HUGE, one[1] = {1};
    const int64_t count = (int64_t)c->count;
    struct onnx_writer *w = onnx_writer_new("claim");
    onnx_writer_constant(w, "x", PEN_DTYPE_F32, 4, (int64_t[]){1, 1, 2, 2}, x, sizeof x);
    onnx_writer_constant(w, "scales", PEN_DTYPE_F32, 1, (int64_t[]){4}, scales, sizeof scales);
    onnx_writer_constant(w, "values", PEN_DTYPE_F32, 1, (int64_t[]){2}, values, sizeof values);
    onnx_writer_constant(w, "pads", PEN_DTYPE_I64, 1, (int64_t[]){8}, pads, sizeof pads);
    onnx_writer_constant(w, "zero", PEN_DTYPE_I64, 0, NULL, &zero, sizeof zero);
    onnx_writer_constant(w, "step", PEN_DTYPE_I64, 0, NULL, &step, sizeof step);
    onnx_writer_constant(w, "one", PEN_DTYPE_I64, 1, (int64_t[]){1}, one, sizeof one);
    if (constant) {
        onnx_writer_constant(w, "big", PEN_DTYPE_I64, 1, &count, c->big, c->count * sizeof *c->big);
        onnx_writer_constant(w, "bound", PEN_DTYPE_I64, 0, NULL, &bound, sizeof bound);
    } else {
        onnx_writer_input(w, "big", PEN_DTYPE_I64, 1, &count, NULL);
        onnx_writer_input(w, "bound", PEN_DTYPE_I64, 0, NULL, NULL);
    }
    return w;
}

/* y = sum(op(...)), so that the claimed value stands between nodes. */
static void claim_write(const struct claim *c, bool constant)
{
    struct onnx_writer *w = claim_begin(c, constant);
    const char *y = onnx_writer_step(w, c->op, c->inputs, NULL);
    const struct onnx_attr flat[] = {{.type = ONNX_ATTR_INT, .name = "keepdims", .i = 0}, {0}};
    const bool integers = strcmp(c->op, "Range") == 0;
    onnx_writer_node(w, "ReduceMax", ONNX_LIST(y), ONNX_LIST("y"), flat);
    onnx_writer_output(w, "y", integers ? PEN_DTYPE_I64 : PEN_DTYPE_F32, 0, NULL, NULL);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
}

static enum pen_status claim_run(struct pen_model *model, const struct claim *c)
{
    static const int64_t bound = HUGE;
    struct pen_session *session = NULL;
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    const struct pen_tensor in[2] = {
        {.name = "big",
         .dtype = PEN_DTYPE_I64,
         .rank = 1,
         .dims = {(int64_t)c->count},
         .data = c->big,
         .bytes = c->count * 8},
        {.name = "bound", .dtype = PEN_DTYPE_I64, .rank = 0, .data = &bound, .bytes = sizeof bound}};
    size_t inputs = 0;
    (void)pen_model_inputs(model, &inputs);
    cr_assert_eq(pen_session_new(model, &session, &error), PEN_OK);
    enum pen_status status = pen_session_run(session, in, inputs, NULL, &out, &count, &error);
    pen_session_free(session);
    return status;
}

static void check_claims(bool constant)
{
    uint64_t before = peak_bytes();
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        struct pen_model *model = NULL;
        claim_write(&claims[i], constant);
        enum pen_status status = load(&model);
        if (status == PEN_OK) {
            status = claim_run(model, &claims[i]);
        }
        cr_assert_neq(status, PEN_OK, "%s, row %zu, was run", claims[i].op, i);
        cr_assert_gt(strlen(error.text), 10u, "%s, row %zu: a sentence says why", claims[i].op, i);
        pen_model_free(model);
    }
    cr_assert_lt(peak_bytes() - before, 64u << 20, "nothing of that size was allocated");
}

Test(hostile, claimed_sizes_in_the_file_take_no_memory)
{
    check_claims(true);
}

Test(hostile, claimed_sizes_in_the_inputs_take_no_memory)
{
    check_claims(false);
}

/* ---- small files that would be large once folded ------------------------------------------------------------------------- */

#define FILL (INT64_C(1) << 28) /* a gibibyte of floats: allowed as a tensor, but not made at the load */

static const struct claim fills[] = {
    {"ConstantOfShape", (const char *const[]){"big", NULL}, 1, {FILL}},
    {"Expand", (const char *const[]){"x", "big", NULL}, 4, {FILL / 4, 1, 2, 2}},
    {"Tile", (const char *const[]){"x", "big", NULL}, 4, {FILL / 4, 1, 1, 1}},
    {"Range", (const char *const[]){"zero", "many", "step", NULL}, 0, {0}},
    {"Pad", (const char *const[]){"x", "sides", NULL}, 0, {0}},
    {"Resize", (const char *const[]){"x", "", "", "big", NULL}, 4, {1, 1, 16384, 16384}},
    {"OneHot", (const char *const[]){"one", "most", "values", NULL}, 0, {0}},
    {"EyeLike", (const char *const[]){"square", NULL}, 2, {16384, 16384}},
};

/* y = max(op(...) * op(...)), four times over: what one fill may not take, many may not either. */
static void fill_write(const struct claim *c)
{
    static const int64_t most = FILL, many = FILL / 2, sides[8] = {0, 0, 0, 0, 0, 0, 16382, 16382};
    struct onnx_writer *w = claim_begin(c, true);
    const struct onnx_attr flat[] = {{.type = ONNX_ATTR_INT, .name = "keepdims", .i = 0}, {0}};
    const bool integers = strcmp(c->op, "Range") == 0;
    onnx_writer_constant(w, "many", PEN_DTYPE_I64, 0, NULL, &many, sizeof many);
    onnx_writer_constant(w, "most", PEN_DTYPE_I64, 0, NULL, &most, sizeof most);
    onnx_writer_constant(w, "sides", PEN_DTYPE_I64, 1, (int64_t[]){8}, sides, sizeof sides);
    if (strcmp(c->op, "EyeLike") == 0) {
        onnx_writer_node(w, "ConstantOfShape", ONNX_LIST("big"), ONNX_LIST("square"), NULL);
    }
    const char *y = onnx_writer_step(w, c->op, c->inputs, NULL);
    for (int i = 0; i < 4; i++) {
        const char *again = onnx_writer_step(w, c->op, c->inputs, NULL);
        y = onnx_writer_step(w, "Mul", ONNX_LIST(y, again), NULL);
    }
    onnx_writer_node(w, "ReduceMax", ONNX_LIST(y), ONNX_LIST("y"), flat);
    onnx_writer_output(w, "y", integers ? PEN_DTYPE_I64 : PEN_DTYPE_F32, 0, NULL, NULL);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
}

/* They load at once and small; the run is then the session's to refuse, by its own limit. */
Test(hostile, what_is_large_once_folded_is_left_to_the_run)
{
    struct pen_engine_options options;
    uint64_t before = peak_bytes();
    pen_engine_free(engine);
    pen_engine_options_init(&options);
    options.backend = "reference";
    options.budget_bytes = (UINT64_C(3) << 30) / 2;
    options.fold_bytes = 16u << 20;
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_OK, "%s", error.text);
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
        struct pen_model *model = NULL;
        uint64_t begin = now_us();
        fill_write(&fills[i]);
        cr_assert_eq(load(&model), PEN_OK, "%s: %s", fills[i].op, error.text);
        cr_expect_lt(now_us() - begin, 2000000u, "%s: %llu us to load", fills[i].op,
                     (unsigned long long)(now_us() - begin));
        cr_expect_lt(pen_model_bytes(model), 32u << 20, "%s: %llu bytes", fills[i].op,
                     (unsigned long long)pen_model_bytes(model));
        cr_expect_eq(claim_run(model, &fills[i]), PEN_ERR_TOO_LARGE, "%s: %s", fills[i].op, error.text);
        cr_expect(strstr(error.text, "a session of this model may hold"), "%s: %s", fills[i].op, error.text);
        pen_model_free(model);
    }
    cr_expect_lt(peak_bytes() - before, 128u << 20, "%llu bytes at most", (unsigned long long)(peak_bytes() - before));
}

/* The option is what decides: with more, the same is folded. */
Test(hostile, the_budget_of_folding_is_an_option)
{
    const struct claim small = {"ConstantOfShape", (const char *const[]){"big", NULL}, 1, {1 << 20}};
    uint64_t bytes[2];
    for (size_t i = 0; i < 2; i++) {
        struct pen_engine_options options;
        struct pen_model *model = NULL;
        pen_engine_free(engine);
        pen_engine_options_init(&options);
        options.backend = "reference";
        options.fold_bytes = i == 0 ? 1u << 20 : 64u << 20;
        cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_OK, "%s", error.text);
        struct onnx_writer *w = claim_begin(&small, true);
        const char *fill = onnx_writer_step(w, "ConstantOfShape", ONNX_LIST("big"), NULL);
        onnx_writer_input(w, "z", PEN_DTYPE_F32, 1, (int64_t[]){1}, NULL);
        onnx_writer_node(w, "Add", ONNX_LIST(fill, "z"), ONNX_LIST("y"), NULL);
        onnx_writer_output(w, "y", PEN_DTYPE_F32, 1, (int64_t[]){1 << 20}, NULL);
        onnx_writer_save(w, 17, path);
        onnx_writer_free(w);
        cr_assert_eq(load(&model), PEN_OK, "%s", error.text);
        bytes[i] = pen_model_bytes(model);
        pen_model_free(model);
    }
    cr_expect(bytes[0] < 1u << 20 && bytes[1] >= 4u << 20, "%llu and %llu bytes", (unsigned long long)bytes[0],
              (unsigned long long)bytes[1]);
}

Test(hostile, dims_whose_product_overflows_are_refused)
{
    static const int64_t rows[][4] = {{HUGE, HUGE, 1, 1},
                                      {INT64_MAX, 2, 1, 1},
                                      {INT64_C(1) << 32, INT64_C(1) << 32, 1, 1},
                                      {INT64_C(1) << 62, 4, 1, 1},
                                      {3037000500, 3037000500, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pen_model *model = NULL;
        struct onnx_writer *w = onnx_writer_new("overflow");
        onnx_writer_constant(w, "w", PEN_DTYPE_F32, 4, rows[i], "", 0);
        onnx_writer_node(w, "Identity", ONNX_LIST("w"), ONNX_LIST("y"), NULL);
        onnx_writer_output(w, "y", PEN_DTYPE_F32, 4, rows[i], NULL);
        onnx_writer_save(w, 17, path);
        onnx_writer_free(w);
        cr_assert_neq(load(&model), PEN_OK, "row %zu", i);
        cr_assert_gt(strlen(error.text), 10u);
    }
}

#define NESTED 40 /* the limit is 32 */

Test(hostile, branches_nested_without_end_are_refused)
{
    static const uint8_t yes = 1;
    struct onnx_writer *inner = onnx_writer_new("innermost");
    struct pen_model *model = NULL;
    onnx_writer_node(inner, "Identity", ONNX_LIST("x"), ONNX_LIST("r"), NULL);
    onnx_writer_output(inner, "r", PEN_DTYPE_F32, 1, (int64_t[]){1}, NULL);
    for (int depth = 0; depth < NESTED; depth++) {
        struct onnx_writer *outer = onnx_writer_new("branch");
        const struct onnx_attr branches[] = {{.type = ONNX_ATTR_GRAPH, .name = "then_branch", .graph = inner},
                                             {.type = ONNX_ATTR_GRAPH, .name = "else_branch", .graph = inner},
                                             {0}};
        bool last = depth + 1 == NESTED;
        if (last || depth > 12) { /* both branches as deep would double the file each time */
            struct onnx_writer *flat = onnx_writer_new("flat");
            onnx_writer_node(flat, "Identity", ONNX_LIST("x"), ONNX_LIST("r"), NULL);
            onnx_writer_output(flat, "r", PEN_DTYPE_F32, 1, (int64_t[]){1}, NULL);
            const struct onnx_attr one[] = {
                branches[0], {.type = ONNX_ATTR_GRAPH, .name = "else_branch", .graph = flat}, {0}};
            onnx_writer_node(outer, "If", ONNX_LIST("yes"), ONNX_LIST("r"), one);
            onnx_writer_free(flat);
        } else {
            onnx_writer_node(outer, "If", ONNX_LIST("yes"), ONNX_LIST("r"), branches);
        }
        if (last) {
            onnx_writer_input(outer, "x", PEN_DTYPE_F32, 1, (int64_t[]){1}, NULL);
            onnx_writer_constant(outer, "yes", PEN_DTYPE_BOOL, 0, NULL, &yes, 1);
        }
        onnx_writer_output(outer, "r", PEN_DTYPE_F32, 1, (int64_t[]){1}, NULL);
        onnx_writer_free(inner);
        inner = outer;
    }
    onnx_writer_save(inner, 17, path);
    onnx_writer_free(inner);
    cr_assert_neq(load(&model), PEN_OK);
    cr_assert(strstr(error.text, "deep"), "%s", error.text);
}

/* Small constants, but 2^40 steps: folding them would take half an hour. Loading is quick, and the run on the same plain kernels ends at its deadline. */
Test(hostile, work_that_is_only_claimed_is_not_done_at_load)
{
    static const float x[4] = {1, 2, 3, 4};
    const int64_t kernel[2] = {1024, 1024}, pads[4] = {1023, 1023, 1023, 1023};
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_INTS, .name = "kernel_shape", .ints = kernel, .count = 2},
                                      {.type = ONNX_ATTR_INTS, .name = "pads", .ints = pads, .count = 4},
                                      {0}};
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    struct pen_stop *stop = pen_stop_new();
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    struct onnx_writer *w = onnx_writer_new("work");
    pen_engine_free(engine);
    engine_open("reference");
    onnx_writer_constant(w, "x", PEN_DTYPE_F32, 4, (int64_t[]){1, 1, 2, 2}, x, sizeof x);
    onnx_writer_node(w, "LpPool", ONNX_LIST("x"), ONNX_LIST("y"), attrs);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 4, (int64_t[]){1, 1, 1025, 1025}, NULL);
    onnx_writer_save(w, 18, path);
    onnx_writer_free(w);
    uint64_t start = now_us();
    cr_assert_eq(load(&model), PEN_OK, "%s", error.text);
    cr_assert_lt(now_us() - start, 10000000u);
    cr_assert_eq(pen_session_new(model, &session, &error), PEN_OK);
    pen_stop_arm(stop, now_us() + 50000);
    cr_assert_eq(pen_session_run(session, NULL, 0, stop, &out, &count, &error), PEN_ERR_DEADLINE, "%s", error.text);
    pen_session_free(session);
    pen_model_free(model);
    pen_stop_free(stop);
}

Test(hostile, an_input_that_is_no_tensor_is_refused_in_words)
{
    static const float x[2] = {1, 2};
    static const int64_t zero = 0;
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    struct onnx_writer *w = onnx_writer_new("sequence");
    onnx_writer_sequence(w, "s", PEN_DTYPE_F32);
    onnx_writer_constant(w, "zero", PEN_DTYPE_I64, 0, NULL, &zero, sizeof zero);
    onnx_writer_node(w, "SequenceAt", ONNX_LIST("s", "zero"), ONNX_LIST("y"), NULL);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 1, (int64_t[]){-1}, NULL);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
    cr_assert_eq(load(&model), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_session_new(model, &session, &error), PEN_OK);
    struct pen_tensor in = {.name = "s", .dtype = PEN_DTYPE_F32, .rank = 1, .dims = {2}, .data = x, .bytes = sizeof x};
    cr_assert_eq(pen_session_run(session, &in, 1, NULL, &out, &count, &error), PEN_ERR_UNSUPPORTED);
    cr_assert(strstr(error.text, "sequence"), "%s", error.text);
    pen_session_free(session);
    pen_model_free(model);
}

/* ---- the model file itself ------------------------------------------------------------------------------------------------- */

/* A pipe is refused at once, a link out of the folder where the folder is named; whoever names a link by hand means it. */
Test(hostile, a_model_file_is_regular_and_lies_in_its_folder, .timeout = 20)
{
    struct pen_model *model = NULL;
    char link[sizeof path], home[sizeof path];
    secrets_write();
    external_write("w.bin");
    snprintf(home, sizeof home, "%s/inside/sub", folder);
    snprintf(link, sizeof link, "%s/inside/sub/model.onnx", folder);
    cr_assert_eq(mkfifo(link, 0600), 0);
    cr_expect_eq(pen_model_load(engine, link, &model, &error), PEN_ERR_IO);
    cr_expect(strstr(error.text, "is not a regular file"), "%s", error.text);
    cr_assert(unlink(link) == 0 && symlink(path, link) == 0);
    cr_expect_eq(pen_model_load_beneath(engine, link, home, &model, &error), PEN_ERR_IO);
    cr_expect(strstr(error.text, "leads out of the model's folder"), "%s", error.text);
    snprintf(home, sizeof home, "%s/inside/sub/w.bin", folder); /* data is looked for beside the link */
    cr_expect(access(home, F_OK) == 0);
    cr_assert_eq(pen_model_load(engine, link, &model, &error), PEN_OK, "%s", error.text);
    pen_model_free(model);
}
