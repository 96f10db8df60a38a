/*
 * What signatures can say, from client through broker and worker to the engine and back: open dimensions, every element type, scalars, nothing at all, texts;
 * and a model that never ends beside them. Models are written here, on both backends the numbers are the same.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/client.h>

#include "folder.h"
#include "onnx_writer.h"
#include "pool.h"

static char models[FOLDER_PATH_BYTES];
static struct pool pool;
static pen_client *client;
static struct pen_error error;

/* ---- models ------------------------------------------------------------------------------------------------------------ */

/* Into models/NAME/1/model.onnx; frees the writer. */
static void model_save(struct onnx_writer *w, const char *name)
{
    char path[FOLDER_PATH_BYTES + 96];
    snprintf(path, sizeof path, "%s/%s/1", models, name);
    folder_make(path);
    snprintf(path, sizeof path, "%s/%s/1/model.onnx", models, name);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
}

/* y = op(x), both of this type and shape. */
static void unary_write(const char *name, const char *op, int32_t dtype, size_t rank, const int64_t *dims,
                        const char *const *symbols)
{
    struct onnx_writer *w = onnx_writer_new(name);
    onnx_writer_input(w, "x", dtype, rank, dims, symbols);
    onnx_writer_node(w, op, ONNX_LIST("x"), ONNX_LIST("y"), NULL);
    onnx_writer_output(w, "y", dtype, rank, dims, symbols);
    model_save(w, name);
}

/* One matrix product with a batch and a length that only jobs know: y [batch, length, 2] = x [batch, length, 3] w. */
static void symbolic_write(void)
{
    static const float w[6] = {1, 0, 0, 1, 1, 1};
    struct onnx_writer *m = onnx_writer_new("symbolic");
    onnx_writer_input(m, "x", PEN_DTYPE_F32, 3, (int64_t[]){-1, -1, 3}, ONNX_LIST("batch", "length"));
    onnx_writer_constant(m, "w", PEN_DTYPE_F32, 2, (int64_t[]){3, 2}, w, sizeof w);
    onnx_writer_node(m, "MatMul", ONNX_LIST("x", "w"), ONNX_LIST("y"), NULL);
    onnx_writer_output(m, "y", PEN_DTYPE_F32, 3, (int64_t[]){-1, -1, 2}, ONNX_LIST("batch", "length"));
    model_save(m, "symbolic");
}

/* Loop without a count whose condition stays what it was. */
static void endless_write(void)
{
    struct onnx_writer *body = onnx_writer_new("body"), *w = onnx_writer_new("endless");
    onnx_writer_input(body, "i", PEN_DTYPE_I64, 0, NULL, NULL);
    onnx_writer_input(body, "go", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_input(body, "v", PEN_DTYPE_F32, 1, (int64_t[]){4000}, NULL);
    onnx_writer_node(body, "Identity", ONNX_LIST("go"), ONNX_LIST("go_on"), NULL);
    onnx_writer_node(body, "Erf", ONNX_LIST("v"), ONNX_LIST("v_next"), NULL);
    onnx_writer_output(body, "go_on", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_output(body, "v_next", PEN_DTYPE_F32, 1, (int64_t[]){4000}, NULL);
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_GRAPH, .name = "body", .graph = body}, {0}};
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 1, (int64_t[]){4000}, NULL);
    onnx_writer_input(w, "go", PEN_DTYPE_BOOL, 0, NULL, NULL);
    onnx_writer_node(w, "Loop", ONNX_LIST("", "go", "x"), ONNX_LIST("y"), attrs);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 1, (int64_t[]){4000}, NULL);
    onnx_writer_free(body);
    model_save(w, "endless");
}

static void models_write(void)
{
    static const char *const n[] = {"N", NULL};
    const int64_t any[1] = {-1};
    symbolic_write();
    endless_write();
    unary_write("i64", "Abs", PEN_DTYPE_I64, 1, any, n);
    unary_write("u8", "Identity", PEN_DTYPE_U8, 1, any, n);
    unary_write("flag", "Not", PEN_DTYPE_BOOL, 1, any, n);
    unary_write("half", "Neg", PEN_DTYPE_F16, 1, any, n);
    unary_write("double", "Neg", PEN_DTYPE_F64, 1, any, n);
    unary_write("scalar", "Neg", PEN_DTYPE_F32, 0, NULL, NULL);
    unary_write("count", "Abs", PEN_DTYPE_I64, 0, NULL, NULL);
    unary_write("rows", "Relu", PEN_DTYPE_F32, 2, (int64_t[]){-1, -1}, ONNX_LIST("N", "M"));
    unary_write("texts", "Identity", PEN_DTYPE_STRING, 1, any, n);
}

/* ---- the pool ------------------------------------------------------------------------------------------------------------- */

static void types_open(void)
{
    struct pen_client_options options;
    folder_new(models);
    models_write();
    pool_start(&pool, (const char *const[]){"--cache", "none", NULL});
    pool_add_worker(&pool, "xnnpack", models, NULL);
    pool_add_worker(&pool, "reference", models, NULL);
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool.clients;
    cr_assert_eq(pen_client_connect(&options, &client, &error), PEN_OK, "%s", error.text);
}

static void types_close(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    folder_free(models);
}

TestSuite(types, .init = types_open, .fini = types_close, .timeout = 120);

static const char *const backends[] = {"xnnpack", "reference"};

static struct pen_tensor tensor(enum pen_dtype dtype, uint32_t rank, const int64_t *dims, const void *data,
                                size_t bytes)
{
    struct pen_tensor t = {.name = "x", .dtype = dtype, .rank = rank, .data = data, .bytes = bytes};
    for (uint32_t i = 0; i < rank; i++) {
        t.dims[i] = dims[i];
    }
    return t;
}

static enum pen_status try_on(const char *backend, const char *model, const struct pen_tensor *inputs, size_t count,
                              uint64_t deadline_us, pen_result **ret_result)
{
    struct pen_job_options job;
    pen_job_options_init(&job, sizeof job);
    job.model = model;
    job.backend = backend;
    job.inputs = inputs;
    job.inputs_count = count;
    job.deadline_us = deadline_us;
    error = (struct pen_error){0};
    *ret_result = NULL;
    return pen_client_run(client, &job, ret_result, &error);
}

/* The answer to x on each backend has this shape (x's) and these bytes. */
static void expect(const char *model, struct pen_tensor x, const void *want)
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        pen_result *result;
        cr_assert_eq(try_on(backends[i], model, &x, 1, 60000000, &result), PEN_OK, "%s on %s: %s", model, backends[i],
                     error.text);
        const struct pen_tensor *y = pen_result_output(result, 0);
        cr_assert(y->dtype == x.dtype && y->rank == x.rank && y->bytes == x.bytes, "%s on %s", model, backends[i]);
        for (uint32_t d = 0; d < x.rank; d++) {
            cr_assert_eq(y->dims[d], x.dims[d]);
        }
        cr_assert(x.bytes == 0 || memcmp(y->data, want, x.bytes) == 0, "%s on %s gives other bytes", model,
                  backends[i]);
        cr_assert_str_eq(pen_result_info(result)->backend, backends[i]);
        pen_result_free(result);
    }
}

Test(types, batch_and_length_are_what_each_job_says)
{
    static const int64_t shapes[][3] = {{1, 1, 3}, {2, 5, 3}, {4, 2, 3}, {1, 7, 3}, {2, 5, 3}};
    float x[64], want[64];
    for (int i = 0; i < 64; i++) {
        x[i] = (float)(i % 5) - 2.0f;
    }
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        size_t rows = (size_t)(shapes[s][0] * shapes[s][1]);
        for (size_t r = 0; r < rows; r++) {
            want[2 * r] = x[3 * r] + x[3 * r + 2];
            want[2 * r + 1] = x[3 * r + 1] + x[3 * r + 2];
        }
        for (size_t i = 0; i < 2; i++) {
            struct pen_tensor in = tensor(PEN_DTYPE_F32, 3, shapes[s], x, rows * 12);
            pen_result *result;
            cr_assert_eq(try_on(backends[i], "symbolic", &in, 1, 60000000, &result), PEN_OK, "%s", error.text);
            const struct pen_tensor *y = pen_result_output(result, 0);
            cr_assert(y->rank == 3 && y->dims[0] == shapes[s][0] && y->dims[1] == shapes[s][1] && y->dims[2] == 2);
            cr_assert(memcmp(y->data, want, rows * 8) == 0);
            pen_result_free(result);
        }
    }
}

Test(types, a_dimension_that_is_not_open_is_refused_by_name)
{
    static const float x[8];
    struct pen_tensor in = tensor(PEN_DTYPE_F32, 3, (int64_t[]){1, 2, 4}, x, sizeof x);
    pen_result *result;
    cr_assert_eq(try_on(NULL, "symbolic", &in, 1, 60000000, &result), PEN_ERR_SHAPE, "%s", error.text);
    cr_assert(strstr(error.text, "'x'") || strstr(error.text, "x "), "%s", error.text);
}

Test(types, integers_of_64_bits_keep_every_bit)
{
    static const int64_t x[4] = {-1, INT64_MIN + 1, INT64_C(9007199254740993), 0},
                         want[4] = {1, INT64_MAX, INT64_C(9007199254740993), 0};
    expect("i64", tensor(PEN_DTYPE_I64, 1, (int64_t[]){4}, x, sizeof x), want);
}

Test(types, bytes_flags_halves_and_doubles_arrive_as_they_are)
{
    static const uint8_t bytes[3] = {0, 128, 255}, flags[3] = {0, 1, 0}, not_flags[3] = {1, 0, 1};
    static const uint16_t half[3] = {0x3c00, 0xc000, 0x7bff}, minus_half[3] = {0xbc00, 0x4000, 0xfbff};
    static const double wide[2] = {1e300, -0.1}, minus_wide[2] = {-1e300, 0.1};
    expect("u8", tensor(PEN_DTYPE_U8, 1, (int64_t[]){3}, bytes, sizeof bytes), bytes);
    expect("flag", tensor(PEN_DTYPE_BOOL, 1, (int64_t[]){3}, flags, sizeof flags), not_flags);
    expect("half", tensor(PEN_DTYPE_F16, 1, (int64_t[]){3}, half, sizeof half), minus_half);
    expect("double", tensor(PEN_DTYPE_F64, 1, (int64_t[]){2}, wide, sizeof wide), minus_wide);
}

Test(types, scalars_have_no_dimensions)
{
    static const float x = 2.5f, minus = -2.5f;
    static const int64_t count = -3, three = 3;
    expect("scalar", tensor(PEN_DTYPE_F32, 0, NULL, &x, sizeof x), &minus);
    expect("count", tensor(PEN_DTYPE_I64, 0, NULL, &count, sizeof count), &three);
}

Test(types, tensors_without_elements_give_tensors_without_elements)
{
    static const float row[3] = {-1, 2, -3}, want[3] = {0, 2, 0};
    expect("rows", tensor(PEN_DTYPE_F32, 2, (int64_t[]){1, 0}, "", 0), NULL);
    expect("rows", tensor(PEN_DTYPE_F32, 2, (int64_t[]){4, 0}, "", 0), NULL);
    expect("rows", tensor(PEN_DTYPE_F32, 2, (int64_t[]){1, 3}, row, sizeof row), want);
}

/* A job is at least one row of the batch. */
Test(types, a_batch_of_nothing_is_refused_in_plain_words)
{
    struct pen_tensor in = tensor(PEN_DTYPE_F32, 2, (int64_t[]){0, 3}, "", 0);
    pen_result *result;
    cr_assert_eq(try_on(NULL, "rows", &in, 1, 60000000, &result), PEN_ERR_SHAPE, "%s", error.text);
    cr_assert(strstr(error.text, "batch of 0"), "%s", error.text);
}

/* Texts are for what only moves them; an operator that would compute with them is refused when its model is loaded. */
Test(types, texts_travel_with_their_lengths_and_torn_ones_are_refused)
{
    static const uint8_t texts[] = {3, 0, 0, 0, 'o', 'n', 'e', 0, 0, 0, 0, 4, 0, 0, 0, 'n', 'i', 'n', 'e'};
    static const uint8_t torn[] = {9, 0, 0, 0, 'o', 'n', 'e'};
    expect("texts", tensor(PEN_DTYPE_STRING, 1, (int64_t[]){3}, texts, sizeof texts), texts);
    struct pen_tensor bad = tensor(PEN_DTYPE_STRING, 1, (int64_t[]){1}, torn, sizeof torn);
    pen_result *result;
    cr_assert_neq(try_on(NULL, "texts", &bad, 1, 60000000, &result), PEN_OK);
    cr_assert_gt(strlen(error.text), 10u, "a sentence says why");
    expect("texts", tensor(PEN_DTYPE_STRING, 1, (int64_t[]){3}, texts, sizeof texts), texts);
}

Test(types, a_model_that_never_ends_ends_at_its_jobs_deadline_and_the_worker_serves_on)
{
    static const float x[4000] = {0.5f};
    static const uint8_t yes = 1, no = 0;
    struct pen_tensor in[2] = {tensor(PEN_DTYPE_F32, 1, (int64_t[]){4000}, x, sizeof x),
                               tensor(PEN_DTYPE_BOOL, 0, NULL, &yes, 1)};
    in[1].name = "go";
    for (size_t i = 0; i < 2; i++) {
        pen_result *result;
        in[1].data = &yes;
        cr_assert_eq(try_on(backends[i], "endless", in, 2, 400000, &result), PEN_ERR_DEADLINE, "%s on %s", error.text,
                     backends[i]);
        in[1].data = &no; /* not a single turn: x itself */
        cr_assert_eq(try_on(backends[i], "endless", in, 2, 60000000, &result), PEN_OK, "%s on %s", error.text,
                     backends[i]);
        cr_assert(memcmp(pen_result_output(result, 0)->data, x, sizeof x) == 0);
        pen_result_free(result);
    }
}
