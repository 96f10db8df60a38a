/* Memory of loaded models: weights that plans have packed are held once; what is read after all comes back. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "onnx_writer.h"
#include "run/internal.h"

/* Sanitizers have memory of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
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

static struct pen_model *model_open(struct pen_engine *engine, const char *file)
{
    struct pen_model *model = NULL;
    struct pen_error error = {0};
    cr_assert_eq(pen_model_load(engine, file, &model, &error), PEN_OK, "%s: %s", file, error.text);
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

static void check_model(const char *file)
{
    struct pen_engine *engine = engine_open("xnnpack");
    uint64_t before = rss_bytes();
    struct pen_model *model = model_open(engine, file);
    uint64_t after = rss_bytes(), grown = after > before ? after - before : 0, weight_bytes = pen_model_weights(model);
    cr_assert_lt(grown, weight_bytes + weight_bytes / 5 + 5000000,
                 "%s: %llu bytes more after load, its weights have %llu", file, (unsigned long long)grown,
                 (unsigned long long)weight_bytes);
    cr_assert_leq(pen_model_bytes(model), weight_bytes * 3 / 2 + 1000000, "%s: %llu bytes held of %llu", file,
                  (unsigned long long)pen_model_bytes(model), (unsigned long long)weight_bytes);
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

/* ---- a written one: y = x * (3 w), w [64, 256] ------------------------------------------------------------------------------ */

#define DEPTH 64
#define WIDTH 256

static float weights[DEPTH * WIDTH], three[WIDTH];
static char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];

/* The product of w and 3 is folded: it is the graph's own, and goes once it is packed. */
static void model_write(void)
{
    folder_new(folder);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    for (int i = 0; i < DEPTH * WIDTH; i++) {
        weights[i] = (float)(i % 17 - 8) / 16.0f;
    }
    for (int i = 0; i < WIDTH; i++) {
        three[i] = 3.0f;
    }
    struct onnx_writer *w = onnx_writer_new("product");
    onnx_writer_constant(w, "w", PEN_DTYPE_F32, 2, (int64_t[]){DEPTH, WIDTH}, weights, sizeof weights);
    onnx_writer_constant(w, "three", PEN_DTYPE_F32, 1, (int64_t[]){WIDTH}, three, sizeof three);
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 2, (int64_t[]){-1, DEPTH}, NULL);
    onnx_writer_node(w, "Mul", ONNX_LIST("w", "three"), ONNX_LIST("w3"), NULL);
    onnx_writer_node(w, "MatMul", ONNX_LIST("x", "w3"), ONNX_LIST("y"), NULL);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 2, (int64_t[]){-1, WIDTH}, NULL);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
}

static const struct value *packed_weights(const struct pen_model *model)
{
    const struct graph *g = model->graph;
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (g->nodes[i].op == OP_MatMul) {
            return node_in(g, &g->nodes[i], 1);
        }
    }
    return NULL;
}

static enum pen_status need_all(struct pen_model *model, struct pen_error *reterr)
{
    uint32_t nodes[8];
    cr_assert_leq(model->graph->node_count, 8u);
    for (uint32_t i = 0; i < model->graph->node_count; i++) {
        nodes[i] = i;
    }
    return constants_need(model->constants, model->graph, nodes, model->graph->node_count, reterr);
}

/* Reference kernels may have to run a node whose weights a plan has packed: when a shape turns up that its backend refuses. */
Test(model_memory, packed_weights_come_back_when_they_are_needed)
{
    model_write();
    struct pen_engine *engine = engine_open("xnnpack");
    struct pen_model *model = model_open(engine, path);
    struct pen_error error = {0};
    const struct value *w = packed_weights(model);
    cr_assert(w != NULL && w->released);
    uint64_t before = constants_bytes(model->constants);
    for (int turn = 0; turn < 2; turn++) { /* once is enough, twice does no harm */
        cr_assert_eq(need_all(model, &error), PEN_OK, "%s", error.text);
        for (int i = 0; i < DEPTH * WIDTH; i++) {
            cr_assert_float_eq(((const float *)w->data)[i], 3.0f * weights[i], 0.0f);
        }
    }
    uint64_t more = constants_bytes(model->constants) - before;
    cr_expect(more >= sizeof weights && more < 2 * sizeof weights, "it is counted: %llu bytes",
              (unsigned long long)more);
    pen_model_free(model);
    pen_engine_free(engine);
    folder_free(folder);
}

Test(model_memory, nothing_is_released_that_reference_reads)
{
    model_write();
    struct pen_engine *engine = engine_open("reference");
    struct pen_model *model = model_open(engine, path);
    cr_assert(!packed_weights(model)->released);
    pen_model_free(model);
    pen_engine_free(engine);
    folder_free(folder);
}

Test(model_memory, a_file_that_changed_is_noticed_when_weights_are_read_again)
{
    model_write();
    struct pen_engine *engine = engine_open("xnnpack");
    struct pen_model *model = model_open(engine, path);
    struct pen_error error = {0};
    FILE *f = fopen(path, "r+e"); /* in place: the mapping sees it */
    cr_assert_not_null(f);
    cr_assert_eq(fwrite("\x7f\x7f\x7f\x7f\x7f\x7f", 1, 6, f), 6u);
    fclose(f);
    cr_assert_neq(need_all(model, &error), PEN_OK);
    cr_assert_gt(strlen(error.text), 10u, "a sentence says why");
    pen_model_free(model);
    pen_engine_free(engine);
    folder_free(folder);
}
