/* Large constants that begin at any byte of the file: plans pack them from there, others get a copy, and the results are the same. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "graph/arena.h"
#include "graph/askew.h"
#include "onnx_writer.h"
#include "run/internal.h"

#define SHIFTS   4 /* files whose constants begin one byte later each */
#define IN       256
#define MIDDLE   160
#define OUT      130
#define ROWS     700
#define WIDTH    48
#define CHANNELS 48
#define FILTERS  80
#define SIDE     6
#define RESULTS  5

static float product[IN * MIDDLE], turned[OUT * MIDDLE], table[ROWS * WIDTH], filter[FILTERS * CHANNELS * 9],
    narrow[OUT * FILTERS * 4], scale[FILTERS], shift[FILTERS], bias[MIDDLE];
static int64_t ids[3] = {0, ROWS - 1, 17}, fixed[2] = {3, 5};
static char folder[FOLDER_PATH_BYTES], paths[SHIFTS][FOLDER_PATH_BYTES + 16];

static void fill(float *to, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1103515245u + 12345u;
        to[i] = (float)(seed >> 16 & 1023u) / 512.0f - 0.99f;
    }
}

static void constant(struct onnx_writer *w, const char *name, size_t rank, const int64_t *dims, const float *data,
                     size_t bytes)
{
    onnx_writer_constant(w, name, PEN_DTYPE_F32, rank, dims, data, bytes);
}

/* A product with a bias, one by a turned matrix, a table, a convolution that a normalisation is folded into and one that is none. */
static void model_write(const char *name, const char *path)
{
    struct onnx_writer *w = onnx_writer_new(name);
    constant(w, "product", 2, (int64_t[]){IN, MIDDLE}, product, sizeof product);
    constant(w, "bias", 1, (int64_t[]){MIDDLE}, bias, sizeof bias);
    constant(w, "turned", 2, (int64_t[]){OUT, MIDDLE}, turned, sizeof turned);
    constant(w, "table", 2, (int64_t[]){ROWS, WIDTH}, table, sizeof table);
    constant(w, "filter", 4, (int64_t[]){FILTERS, CHANNELS, 3, 3}, filter, sizeof filter);
    constant(w, "narrow", 4, (int64_t[]){OUT * 4, FILTERS, 1, 1}, narrow, sizeof narrow);
    constant(w, "scale", 1, (int64_t[]){FILTERS}, scale, sizeof scale);
    constant(w, "shift", 1, (int64_t[]){FILTERS}, shift, sizeof shift);
    onnx_writer_constant(w, "fixed", PEN_DTYPE_I64, 1, (int64_t[]){2}, fixed, sizeof fixed);
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 2, (int64_t[]){-1, IN}, NULL);
    onnx_writer_input(w, "image", PEN_DTYPE_F32, 4, (int64_t[]){1, CHANNELS, SIDE, SIDE}, NULL);
    onnx_writer_input(w, "ids", PEN_DTYPE_I64, 1, (int64_t[]){3}, NULL);
    onnx_writer_node(w, "MatMul", ONNX_LIST("x", "product"), ONNX_LIST("m"), NULL);
    onnx_writer_node(w, "Add", ONNX_LIST("m", "bias"), ONNX_LIST("mb"), NULL);
    onnx_writer_node(w, "Gemm", ONNX_LIST("mb", "turned"), ONNX_LIST("y0"),
                     (const struct onnx_attr[]){{.type = ONNX_ATTR_INT, .name = "transB", .i = 1}, {0}});
    onnx_writer_node(w, "Gather", ONNX_LIST("table", "ids"), ONNX_LIST("y1"), NULL);
    onnx_writer_node(w, "Gather", ONNX_LIST("table", "fixed"), ONNX_LIST("rows"), NULL); /* folded */
    onnx_writer_node(w, "Relu", ONNX_LIST("rows"), ONNX_LIST("y2"), NULL);
    onnx_writer_node(w, "Conv", ONNX_LIST("image", "filter"), ONNX_LIST("c"), NULL);
    onnx_writer_node(w, "BatchNormalization", ONNX_LIST("c", "scale", "shift", "shift", "scale"), ONNX_LIST("n"), NULL);
    onnx_writer_node(w, "Relu", ONNX_LIST("n"), ONNX_LIST("y3"), NULL);
    onnx_writer_node(w, "Conv", ONNX_LIST("y3", "narrow"), ONNX_LIST("y4"), NULL);
    for (int i = 0; i < RESULTS; i++) {
        const char names[2 * RESULTS][3] = {"y0", "y1", "y2", "y3", "y4"};
        const int64_t rank = i == 3 || i == 4 ? 4 : 2, dims[4] = {-1, -1, -1, -1};
        onnx_writer_output(w, names[i], PEN_DTYPE_F32, (size_t)rank, dims, NULL);
    }
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
}

static void setup(void)
{
    static const char name[] = "shifted";
    folder_new(folder);
    fill(product, sizeof product / sizeof *product, 1);
    fill(turned, sizeof turned / sizeof *turned, 2);
    fill(table, sizeof table / sizeof *table, 3);
    fill(filter, sizeof filter / sizeof *filter, 4);
    fill(narrow, sizeof narrow / sizeof *narrow, 5);
    fill(shift, FILTERS, 6);
    fill(bias, MIDDLE, 7);
    for (int i = 0; i < FILTERS; i++) {
        scale[i] = 0.5f + (float)i / FILTERS;
        shift[i] = shift[i] < 0.0f ? -shift[i] : shift[i];
    }
    for (unsigned i = 0; i < SHIFTS; i++) { /* "shifted", "hifted", ... */
        snprintf(paths[i], sizeof paths[i], "%s/%u.onnx", folder, i % SHIFTS);
        model_write(name + i, paths[i]);
    }
}

static void teardown(void)
{
    folder_free(folder);
}

TestSuite(askew, .init = setup, .fini = teardown);

static struct pen_engine *engine_open(const char *backend, enum pen_precision precision, bool compare)
{
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_error error = {0};
    pen_engine_options_init(&options);
    options.backend = backend;
    options.precision = precision;
    options.compare_reference = compare;
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_OK, "%s", error.text);
    return engine;
}

static struct pen_model *model_open(struct pen_engine *engine, const char *path)
{
    struct pen_model *model = NULL;
    struct pen_error error = {0};
    cr_assert_eq(pen_model_load(engine, path, &model, &error), PEN_OK, "%s", error.text);
    return model;
}

/* All results in one piece; gives it. */
static uint8_t *answer(struct pen_engine *engine, const char *path, size_t *ret_bytes)
{
    static float x[2 * IN], image[CHANNELS * SIDE * SIDE];
    struct pen_model *model = model_open(engine, path);
    struct pen_session *session = NULL;
    struct pen_error error = {0};
    const struct pen_tensor *outputs = NULL;
    size_t count = 0;
    fill(x, sizeof x / sizeof *x, 8);
    fill(image, sizeof image / sizeof *image, 9);
    const struct pen_tensor inputs[3] = {
        {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {2, IN}, .data = x, .bytes = sizeof x},
        {.name = "image",
         .dtype = PEN_DTYPE_F32,
         .rank = 4,
         .dims = {1, CHANNELS, SIDE, SIDE},
         .data = image,
         .bytes = sizeof image},
        {.name = "ids", .dtype = PEN_DTYPE_I64, .rank = 1, .dims = {3}, .data = ids, .bytes = sizeof ids}};
    cr_assert_eq(pen_session_new(model, &session, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_session_run(session, inputs, 3, NULL, &outputs, &count, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(count, RESULTS);
    uint8_t *all = NULL;
    *ret_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        all = realloc(all, *ret_bytes + outputs[i].bytes);
        cr_assert_not_null(all);
        memcpy(all + *ret_bytes, outputs[i].data, outputs[i].bytes);
        *ret_bytes += outputs[i].bytes;
    }
    pen_session_free(session);
    pen_model_free(model);
    return all;
}

static void answers_are_equal(const char *backend, enum pen_precision precision, bool compare)
{
    struct pen_engine *engine = engine_open(backend, precision, compare);
    size_t bytes = 0, other_bytes = 0;
    uint8_t *first = answer(engine, paths[0], &bytes);
    for (int i = 1; i < SHIFTS; i++) {
        uint8_t *other = answer(engine, paths[i], &other_bytes);
        cr_assert(other_bytes == bytes && memcmp(first, other, bytes) == 0, "%s, shift %d", backend, i);
        free(other);
    }
    free(first);
    pen_engine_free(engine);
}

/* Else the other tests would show nothing. */
Test(askew, the_files_begin_constants_at_every_byte)
{
    bool seen[SHIFTS] = {false};
    for (int i = 0; i < SHIFTS; i++) {
        static char file[1 << 20];
        FILE *f = fopen(paths[i], "re");
        const size_t size = f != NULL ? fread(file, 1, sizeof file, f) : 0;
        size_t at = 0;
        while (at + 64 < size && memcmp(file + at, product, 64) != 0) {
            at++;
        }
        cr_assert(f != NULL && at + 64 < size);
        fclose(f);
        seen[at % SHIFTS] = true;
    }
    for (int i = 0; i < SHIFTS; i++) {
        cr_assert(seen[i], "%d", i);
    }
}

Test(askew, results_do_not_depend_on_where_constants_lie)
{
    answers_are_equal("xnnpack", PEN_PRECISION_F32, false);
    answers_are_equal("reference", PEN_PRECISION_F32, false);
}

Test(askew, nor_do_those_of_rounded_weights)
{
    answers_are_equal("xnnpack", PEN_PRECISION_BF16, false);
}

Test(askew, nodes_can_be_compared_with_the_reference)
{
    answers_are_equal("xnnpack", PEN_PRECISION_F32, true);
}

static const struct value *value_of(const struct pen_model *model, const char *name)
{
    const struct graph *g = model->graph;
    for (uint32_t v = 0; v < g->value_count; v++) {
        if (strcmp(g->values[v].name, name) == 0) {
            return &g->values[v];
        }
    }
    cr_assert(false, "the graph has no value %s", name);
    return NULL;
}

/* Neither at the load nor behind it: the table is read in the file, all else is in the plan. */
static void nobody_holds_a_copy(enum pen_precision precision)
{
    struct pen_engine *engine = engine_open("xnnpack", precision, false);
    for (int i = 0; i < SHIFTS; i++) {
        struct pen_model *model = model_open(engine, paths[i]);
        const struct value *rows = value_of(model, "table");
        cr_assert_lt(arena_bytes(model->graph->arena), sizeof table / 2, "shift %d", i);
        cr_assert_eq(arena_block_find(model->graph->arena, rows->data), ARENA_NO_BLOCK);
        pen_model_free(model);
    }
    pen_engine_free(engine);
}

Test(askew, nobody_holds_a_copy_beside_what_plans_have_packed)
{
    nobody_holds_a_copy(PEN_PRECISION_F32);
}

Test(askew, nor_beside_what_plans_have_rounded)
{
    nobody_holds_a_copy(PEN_PRECISION_BF16);
}

Test(askew, packed_weights_come_back_aligned)
{
    struct pen_engine *engine = engine_open("xnnpack", PEN_PRECISION_F32, false);
    uint32_t nodes[16];
    for (int i = 0; i < SHIFTS; i++) {
        struct pen_model *model = model_open(engine, paths[i]);
        struct pen_error error = {0};
        const struct value *w = value_of(model, "product"), *t = value_of(model, "turned");
        cr_assert_leq(model->graph->node_count, 16u);
        for (uint32_t k = 0; k < model->graph->node_count; k++) {
            nodes[k] = k;
        }
        cr_assert(!value_is_askew(w) && !value_is_askew(t));
        cr_assert_eq(constants_need(model->constants, model->graph, nodes, model->graph->node_count, &error), PEN_OK,
                     "%s", error.text);
        cr_assert(memcmp(w->data, product, sizeof product) == 0 && memcmp(t->data, turned, sizeof turned) == 0);
        pen_model_free(model);
    }
    pen_engine_free(engine);
}

Test(askew, backends_that_read_constants_get_them_aligned)
{
    struct pen_engine *engine = engine_open("reference", PEN_PRECISION_F32, false);
    for (int i = 0; i < SHIFTS; i++) {
        struct pen_model *model = model_open(engine, paths[i]);
        for (uint32_t v = 0; v < model->graph->value_count; v++) {
            const struct value *value = &model->graph->values[v];
            cr_assert(!value_is_askew(value) || graph_uses(model->graph, v) == 0, "%s, shift %d", value->name, i);
        }
        pen_model_free(model);
    }
    pen_engine_free(engine);
}
