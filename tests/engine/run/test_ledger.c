/* What models and sessions hold is counted, whichever backend holds it, and stays within the budget however shapes change. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"

#define WIDTH  256
#define BUDGET (budget_mib << 20)

static uint64_t budget_mib = 8;

TestSuite(ledger, .init = setup, .fini = teardown, .timeout = 120);

/* y = sigmoid(softmax(x * w)): both dims of y but the last are the caller's, and values stand between the nodes. */
static void product_write(void)
{
    static float w[WIDTH * WIDTH];
    struct onnx_writer *writer = onnx_writer_new("product");
    for (size_t i = 0; i < WIDTH * WIDTH; i++)
        w[i] = (float)(i % 7) / 16;
    onnx_writer_input(writer, "x", PEN_DTYPE_F32, 2, (int64_t[]){-1, WIDTH}, (const char *const[]){"n"});
    onnx_writer_constant(writer, "w", PEN_DTYPE_F32, 2, (int64_t[]){WIDTH, WIDTH}, w, sizeof w);
    const char *product = onnx_writer_step(writer, "MatMul", ONNX_LIST("x", "w"), NULL);
    const char *soft = onnx_writer_step(writer, "Softmax", ONNX_LIST(product), NULL);
    onnx_writer_node(writer, "Sigmoid", ONNX_LIST(soft), ONNX_LIST("y"), NULL);
    onnx_writer_output(writer, "y", PEN_DTYPE_F32, 2, (int64_t[]){-1, WIDTH}, (const char *const[]){"n"});
    onnx_writer_save(writer, 17, path);
    onnx_writer_free(writer);
}

/* False: this host has no such device. */
static bool open_with_budget(const char *backend)
{
    struct pen_engine_options options;
    pen_engine_free(engine);
    engine = NULL;
    pen_engine_options_init(&options);
    options.backend = backend;
    options.budget_bytes = BUDGET;
    options.vulkan.allow_software = true;
    return pen_engine_new(&options, &engine, &error) == PEN_OK;
}

static enum pen_status run_rows(struct pen_session *session, int64_t rows)
{
    const struct pen_tensor *out = NULL;
    size_t count = 0, bytes = (size_t)rows * WIDTH * sizeof(float);
    float *x = calloc(1, bytes);
    struct pen_tensor in = {
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {rows, WIDTH}, .data = x, .bytes = bytes};
    error = (struct pen_error){0};
    enum pen_status status = pen_session_run(session, &in, 1, NULL, &out, &count, &error);
    free(x);
    return status;
}

static struct pen_memory memory_now(void)
{
    struct pen_memory memory;
    pen_memory(&memory);
    return memory;
}

static void nothing_is_held(const char *what)
{
    struct pen_memory m = memory_now();
    cr_expect(m.models + m.sessions + m.buckets + m.weights_bytes + m.arena_bytes == 0,
              "%s: models=%llu sessions=%llu buckets=%llu weights=%llu arenas=%llu", what, (unsigned long long)m.models,
              (unsigned long long)m.sessions, (unsigned long long)m.buckets, (unsigned long long)m.weights_bytes,
              (unsigned long long)m.arena_bytes);
}

/* Ever larger shapes on two sessions until one is refused; what is held never passes the budget. */
static void grow(const char *backend, struct pen_model *model, struct pen_session *const sessions[2])
{
    enum pen_status status = PEN_OK;
    int64_t rows = 1;
    for (size_t i = 0; status == PEN_OK && rows < 100000; i++, rows += rows / 4 + 1) {
        uint64_t before = memory_now().arena_bytes;
        status = run_rows(sessions[i % 2], rows);
        struct pen_memory m = memory_now();
        cr_expect(status != PEN_OK || i > 0 || m.arena_bytes > before, "%s: a bucket has no bytes", backend);
        cr_expect_eq(pen_model_memory(model), m.weights_bytes + m.arena_bytes, "%s: the model is all there is",
                     backend);
        cr_expect_leq(pen_model_memory(model), BUDGET, "%s: %lld rows", backend, (long long)rows);
    }
    cr_expect_eq(status, PEN_ERR_TOO_LARGE, "%s: %lld rows: %s", backend, (long long)rows, error.text);
    cr_expect(strstr(error.text, "a session of this model may hold"), "%s: %s", backend, error.text);
    cr_expect_eq(run_rows(sessions[0], 3), PEN_OK, "%s: after a refusal: %s", backend, error.text);
}

/* Shapes that change for ever and fit one by one are all run: those before give way. */
static void change(const char *backend, struct pen_session *session)
{
    for (int64_t i = 0; i < 60; i++) {
        cr_expect_eq(run_rows(session, 200 + i), PEN_OK, "%s: %s", backend, error.text);
        cr_expect_leq(memory_now().weights_bytes + memory_now().arena_bytes, BUDGET, "%s", backend);
    }
    cr_expect_lt(memory_now().buckets, 16u, "%s: memory, not their number, decided", backend);
}

static void check_backend(const char *backend)
{
    struct pen_model *model = NULL;
    struct pen_session *sessions[2] = {NULL, NULL};
    if (!open_with_budget(backend))
        cr_skip_test("%s", error.text);
    product_write();
    cr_assert_eq(load(&model), PEN_OK, "%s", error.text);
    for (size_t i = 0; i < 2; i++)
        cr_assert_eq(pen_session_new(model, &sessions[i], &error), PEN_OK);
    grow(backend, model, sessions);
    change(backend, sessions[1]);
    /* what 16 bits hold exactly may stay at two bytes */
    cr_expect_geq(memory_now().weights_bytes, WIDTH * WIDTH * sizeof(uint16_t), "%s: weights are counted", backend);
    for (size_t i = 0; i < 2; i++)
        pen_session_free(sessions[i]);
    cr_expect_eq(memory_now().arena_bytes + memory_now().buckets, 0, "%s: sessions are gone", backend);
    pen_model_free(model);
    nothing_is_held(backend);
}

Test(ledger, on_reference_shapes_stay_within_the_budget)
{
    check_backend("reference");
}

Test(ledger, on_xnnpack_shapes_stay_within_the_budget)
{
    check_backend("xnnpack");
}

Test(ledger, on_vulkan_shapes_stay_within_the_budget)
{
    budget_mib = 12; /* the staging memory of weights is 4 MiB */
    check_backend("vulkan");
}

/* What is warm stays so: a shape that would cost another its memory is refused while models are warmed. */
Test(ledger, what_was_warmed_is_not_dropped_for_the_next_that_is_warmed)
{
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    cr_assert(open_with_budget("reference"));
    product_write();
    cr_assert(load(&model) == PEN_OK && pen_session_new(model, &session, &error) == PEN_OK, "%s", error.text);
    enum pen_status status = PEN_OK;
    uint64_t buckets = 0;
    for (int64_t rows = 500; status == PEN_OK && rows < 510; rows++) {
        struct pen_tensor in = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {rows, WIDTH}};
        buckets = memory_now().buckets;
        status = pen_session_warm(session, &in, 1, NULL, NULL, &error);
    }
    cr_expect_eq(status, PEN_ERR_TOO_LARGE, "%s", error.text);
    cr_expect(strstr(error.text, "that are to stay ready need"), "%s", error.text);
    cr_expect(buckets >= 1 && memory_now().buckets == buckets, "those before are still there");
    pen_session_free(session);
    pen_model_free(model);
    nothing_is_held("warm");
}

/* Shapes that the data decides run in an arena of blocks: it is counted and bounded alike. */
Test(ledger, the_arena_of_what_cannot_be_planned_is_counted_and_bounded)
{
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    struct onnx_writer *w = onnx_writer_new("positions");
    cr_assert(open_with_budget("reference"));
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 2, (int64_t[]){-1, WIDTH}, (const char *const[]){"n"});
    const char *ones = onnx_writer_step(w, "Cos", ONNX_LIST("x"), NULL); /* of zeros: none is zero */
    const char *found = onnx_writer_step(w, "NonZero", ONNX_LIST(ones), NULL);
    onnx_writer_node(w, "Abs", ONNX_LIST(found), ONNX_LIST("y"), NULL);
    onnx_writer_output(w, "y", PEN_DTYPE_I64, 2, (int64_t[]){2, -1}, (const char *const[]){"found"});
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
    cr_assert(load(&model) == PEN_OK && pen_session_new(model, &session, &error) == PEN_OK, "%s", error.text);
    enum pen_status status = PEN_OK;
    for (int64_t rows = 1; status == PEN_OK && rows < 100000; rows += rows / 2 + 1) {
        status = run_rows(session, rows);
        cr_expect_leq(pen_model_memory(model), BUDGET, "%lld rows", (long long)rows);
    }
    cr_expect_eq(status, PEN_ERR_TOO_LARGE, "%s", error.text);
    cr_expect(strstr(error.text, "a session of this model may hold"), "%s", error.text);
    cr_expect_eq(run_rows(session, 3), PEN_OK, "%s", error.text);
    pen_session_free(session);
    pen_model_free(model);
    nothing_is_held("positions");
}

/* A branch: two operators on what lies outside of it. */
static struct onnx_writer *branch_new(const char *op)
{
    struct onnx_writer *w = onnx_writer_new(op);
    const char *y = onnx_writer_step(w, op, ONNX_LIST("x"), NULL);
    onnx_writer_node(w, "Softmax", ONNX_LIST(y), ONNX_LIST("r"), NULL);
    onnx_writer_output(w, "r", PEN_DTYPE_F32, 2, (int64_t[]){-1, WIDTH}, (const char *const[]){"n"});
    return w;
}

/* y = yes ? softmax(exp(x)) : softmax(neg(x)) */
static void branches_write(void)
{
    struct onnx_writer *w = onnx_writer_new("branches"), *then = branch_new("Exp"), *otherwise = branch_new("Neg");
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_GRAPH, .name = "then_branch", .graph = then},
                                      {.type = ONNX_ATTR_GRAPH, .name = "else_branch", .graph = otherwise},
                                      {0}};
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 2, (int64_t[]){-1, WIDTH}, (const char *const[]){"n"});
    onnx_writer_input(w, "yes", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_node(w, "If", ONNX_LIST("yes"), ONNX_LIST("y"), attrs);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 2, (int64_t[]){-1, WIDTH}, (const char *const[]){"n"});
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
    onnx_writer_free(then);
    onnx_writer_free(otherwise);
}

static enum pen_status run_branch(struct pen_session *session, int64_t rows, bool yes)
{
    const struct pen_tensor *out = NULL;
    size_t count = 0, bytes = (size_t)rows * WIDTH * sizeof(float);
    float *x = calloc(1, bytes);
    const struct pen_tensor in[2] = {
        {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {rows, WIDTH}, .data = x, .bytes = bytes},
        {.name = "yes", .dtype = PEN_DTYPE_BOOL, .rank = 0, .data = &yes, .bytes = 1}};
    error = (struct pen_error){0};
    enum pen_status status = pen_session_run(session, in, 2, NULL, &out, &count, &error);
    for (int64_t i = 0; status == PEN_OK && i < rows * WIDTH; i++)
        if (((const float *)out[0].data)[i] != 1.0f / WIDTH)
            status = PEN_ERR_CORRUPT; /* something was freed that a run still read */
    free(x);
    return status;
}

/* Buckets of subgraphs and variants of a model count like the others, and give way like them. */
static void check_branches(const char *backend)
{
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    cr_assert(open_with_budget(backend));
    branches_write();
    cr_assert(load(&model) == PEN_OK && pen_session_new(model, &session, &error) == PEN_OK, "%s", error.text);
    for (int64_t i = 0; i < 120; i++) {
        uint64_t before = memory_now().arena_bytes;
        cr_expect_eq(run_branch(session, 100 + 3 * i, i % 3 != 0), PEN_OK, "%s, %lld: %s", backend, (long long)i,
                     error.text);
        cr_expect(i > 0 || memory_now().arena_bytes > before, "%s: nothing was counted", backend);
        cr_expect_leq(pen_model_memory(model), BUDGET, "%s, %lld", backend, (long long)i);
    }
    cr_expect_eq(run_branch(session, 50000, true), PEN_ERR_TOO_LARGE, "%s", error.text);
    pen_session_free(session);
    pen_model_free(model);
    nothing_is_held(backend);
}

Test(ledger, branches_on_reference_stay_within_the_budget)
{
    check_branches("reference");
}

Test(ledger, variants_on_xnnpack_stay_within_the_budget)
{
    check_branches("xnnpack");
}
