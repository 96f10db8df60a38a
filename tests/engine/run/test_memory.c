/* Memory of loaded models: weights that plans have packed are held once; what is read after all comes back. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "onnx_file.h"
#include "penstock/engine.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static struct pen_engine *engine_open(const char *backend)
{
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_error error = {0};
    pen_engine_options_init(&options);
    options.backend = backend;
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_OK, "%s", error.text);
    return engine;
}

static struct pen_model *model_open(struct pen_engine *engine, const char *path)
{
    struct pen_model *model = NULL;
    struct pen_error error = {0};
    cr_assert_eq(pen_model_load(engine, path, &model, &error), PEN_OK, "%s: %s", path, error.text);
    return model;
}

static uint64_t rss_bytes(void)
{
    unsigned long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    cr_assert_not_null(f);
    cr_assert_eq(fscanf(f, "%lu %lu", &total, &resident), 2);
    fclose(f);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- real models ---------------------------------------------------------------------------------------------------- */

static void check_model(const char *path)
{
    struct pen_engine *engine = engine_open("xnnpack");
    uint64_t before = rss_bytes();
    struct pen_model *model = model_open(engine, path);
    uint64_t after = rss_bytes(), grown = after > before ? after - before : 0, weights = pen_model_weights(model);
    cr_assert_lt(grown, weights + weights / 5 + 5000000, "%s: %llu bytes more after load, its weights have %llu", path,
                 (unsigned long long)grown, (unsigned long long)weights);
    cr_assert_leq(pen_model_bytes(model), weights * 3 / 2 + 1000000, "%s: %llu bytes held of %llu", path,
                  (unsigned long long)pen_model_bytes(model), (unsigned long long)weights);
    pen_model_free(model);
    pen_engine_free(engine);
}

static void check_folder(const char *pattern, size_t least)
{
    glob_t found;
    if (access(PENSTOCK_SHARED, R_OK) != 0) {
        cr_skip_test("%s is absent: real models are not loaded", PENSTOCK_SHARED);
    }
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0, "%s finds nothing", pattern);
    cr_assert_geq(found.gl_pathc, least);
    for (size_t i = 0; i < found.gl_pathc && !SANITIZED; i++) {
        check_model(found.gl_pathv[i]);
    }
    globfree(&found);
}

Test(model_memory, of_onnx_models_stays_within_their_weights)
{
    check_folder(PENSTOCK_SHARED "/models/onnx/*/model.onnx", 10);
}

Test(model_memory, of_tflite_models_stays_within_their_weights)
{
    check_folder(PENSTOCK_SHARED "/models/tflite/*/*.tflite", 10);
}

Test(model_memory, of_tfjs_models_stays_within_their_weights)
{
    check_folder(PENSTOCK_SHARED "/models/tfjs/*/model.json", 8);
}

/* ---- a written one: y = (x + zeros of x's shape) * (3 w), w [64, 256] ------------------------------------------------------- */

#define DEPTH 64
#define WIDTH 256

static float weights[DEPTH * WIDTH], three[WIDTH];

/* The product of w and 3 is folded: it is the graph's own, and goes once it is packed. */
static void model_write(const char *path)
{
    for (int i = 0; i < DEPTH * WIDTH; i++) {
        weights[i] = (float)(i % 17 - 8) / 16.0f;
    }
    for (int i = 0; i < WIDTH; i++) {
        three[i] = 3.0f;
    }
    const struct onnx_node nodes[] = {
        {.op = "Mul", .inputs = {"w", "three"}, .outputs = {"w3"}},
        {.op = "Shape", .inputs = {"x"}, .outputs = {"s"}},
        {.op = "ConstantOfShape", .inputs = {"s"}, .outputs = {"zeros"}},
        {.op = "Add", .inputs = {"x", "zeros"}, .outputs = {"x0"}},
        {.op = "MatMul", .inputs = {"x0", "w3"}, .outputs = {"y"}},
    };
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {-1, DEPTH}, .rank = 2},
                            out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {-1, WIDTH}, .rank = 2};
    const struct onnx_value held[] = {
        {.name = "w", .dtype = PEN_DTYPE_F32, .dims = {DEPTH, WIDTH}, .rank = 2, .data = weights},
        {.name = "three", .dtype = PEN_DTYPE_F32, .dims = {WIDTH}, .rank = 1, .data = three}};
    onnx_write(path, &(struct onnx_model){nodes, sizeof nodes / sizeof nodes[0], &in, &out, held, 1, 1, 2});
}

static void check_rows(struct pen_session *session, int64_t rows)
{
    float *x = calloc((size_t)(rows * DEPTH) + 16, sizeof *x);
    struct pen_tensor in = {.name = "x",
                            .dtype = PEN_DTYPE_F32,
                            .rank = 2,
                            .dims = {rows, DEPTH},
                            .data = x,
                            .bytes = (size_t)(rows * DEPTH) * sizeof *x};
    const struct pen_tensor *y = NULL;
    struct pen_error error = {0};
    size_t count = 0;
    for (int64_t r = 0; r < rows; r++) {
        x[r * DEPTH + r % DEPTH] = 2.0f; /* picks a row of the weights */
    }
    cr_assert_eq(pen_session_run(session, &in, 1, NULL, &y, &count, &error), PEN_OK, "%lld rows: %s", (long long)rows,
                 error.text);
    cr_assert_eq(y[0].bytes, (size_t)(rows * WIDTH) * sizeof(float));
    for (int64_t i = 0; i < rows * WIDTH; i++) {
        float want = 6.0f * weights[i / WIDTH % DEPTH * WIDTH + i % WIDTH];
        cr_assert_float_eq(((const float *)y[0].data)[i], want, 1e-5f, "%lld rows, element %lld: %g, not %g",
                           (long long)rows, (long long)i, (double)((const float *)y[0].data)[i], (double)want);
    }
    free(x);
}

/*
 * The zeros of a few rows are folded before anything runs, those of many rows are not: then every node runs on reference kernels, which read weights that the
 * plan had packed.
 */
Test(model_memory, packed_weights_come_back_for_reference_kernels)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];
    folder_new(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    model_write(path);
    struct pen_engine *engine = engine_open("xnnpack");
    struct pen_model *model = model_open(engine, path);
    struct pen_session *a = NULL, *b = NULL;
    cr_assert_eq(pen_session_new(model, &a, NULL), PEN_OK);
    cr_assert_eq(pen_session_new(model, &b, NULL), PEN_OK);
    check_rows(a, 3);
    check_rows(a, 500);
    check_rows(b, 700);
    check_rows(b, 2);
    pen_session_free(a);
    pen_session_free(b);
    pen_model_free(model);
    pen_engine_free(engine);
    folder_free(folder);
}

Test(model_memory, a_file_that_changed_is_noticed_when_weights_are_read_again)
{
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];
    folder_new(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    model_write(path);
    struct pen_engine *engine = engine_open("xnnpack");
    struct pen_model *model = model_open(engine, path);
    struct pen_session *session = NULL;
    struct pen_error error = {0};
    cr_assert_eq(pen_session_new(model, &session, NULL), PEN_OK);
    check_rows(session, 3);
    FILE *f = fopen(path, "r+e"); /* in place: the mapping sees it */
    cr_assert_not_null(f);
    cr_assert_eq(fwrite("\x7f\x7f\x7f\x7f\x7f\x7f", 1, 6, f), 6u);
    fclose(f);
    static float x[500 * DEPTH];
    struct pen_tensor in = {
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {500, DEPTH}, .data = x, .bytes = sizeof x};
    const struct pen_tensor *y = NULL;
    size_t count = 0;
    cr_assert_neq(pen_session_run(session, &in, 1, NULL, &y, &count, &error), PEN_OK);
    cr_assert_gt(strlen(error.text), 10u, "a sentence says why");
    check_rows(session, 3); /* what is packed still answers */
    pen_session_free(session);
    pen_model_free(model);
    pen_engine_free(engine);
    folder_free(folder);
}
