/* The error of models that feed each other, from the first input to the last output, and what its key and that of a single model have in them. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "env/env.h"
#include "folder.h"
#include "onnx_writer.h"
#include "run/internal.h"

#define WIDTH     64
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static char folder[FOLDER_PATH_BYTES];
static struct pen_engine *engine;
static struct pen_model *models[2];
static struct pen_error error;

/* y = x w: errors of rounding alone. */
static struct onnx_writer *product(void)
{
    static float w[WIDTH * WIDTH];
    struct onnx_writer *g = onnx_writer_new("product");
    for (size_t i = 0; i < WIDTH * WIDTH; i++) {
        w[i] = (float)(i * 37 % 101) / 500.0f - 0.1f;
    }
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, DIMS(1, WIDTH), NULL);
    onnx_writer_constant(g, "w", PEN_DTYPE_F32, 2, DIMS(WIDTH, WIDTH), w, sizeof w);
    onnx_writer_node(g, "MatMul", ONNX_LIST("x", "w"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, DIMS(1, WIDTH), NULL);
    return g;
}

/* z = sin(20000 x): what is a little off before is far off behind it. */
static struct onnx_writer *magnifier(void)
{
    static const float by = 20000.0f;
    struct onnx_writer *g = onnx_writer_new("magnifier");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, DIMS(1, WIDTH), NULL);
    onnx_writer_constant(g, "k", PEN_DTYPE_F32, 1, DIMS(1), &by, sizeof by);
    onnx_writer_node(g, "Mul", ONNX_LIST("x", "k"), ONNX_LIST("m"), NULL);
    onnx_writer_node(g, "Sin", ONNX_LIST("m"), ONNX_LIST("z"), NULL);
    onnx_writer_output(g, "z", PEN_DTYPE_F32, 2, DIMS(1, WIDTH), NULL);
    return g;
}

static void engine_open(const char *backend)
{
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = backend;
    options.keep_measured = true;
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_OK, "%s", error.text);
    for (int i = 0; i < 2; i++) {
        char path[FOLDER_PATH_BYTES + 16];
        snprintf(path, sizeof path, "%s/%d.onnx", folder, i);
        cr_assert_eq(pen_model_load(engine, path, &models[i], &error), PEN_OK, "%s", error.text);
    }
}

static void engine_close(void)
{
    pen_model_free(models[0]);
    pen_model_free(models[1]);
    pen_engine_free(engine);
}

static void folder_open(void)
{
    struct onnx_writer *all[2] = {product(), magnifier()};
    folder_new(folder);
    for (int i = 0; i < 2; i++) {
        char path[FOLDER_PATH_BYTES + 16];
        snprintf(path, sizeof path, "%s/%d.onnx", folder, i);
        onnx_writer_save(all[i], 17, path);
        onnx_writer_free(all[i]);
    }
}

static void folder_close(void)
{
    folder_free(folder);
}

TestSuite(chain, .init = folder_open, .fini = folder_close);

static const struct pen_tensor shape = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, WIDTH}};
static const struct pen_measure_inputs drawn = {.shapes = &shape};

/* Flow 0 is x, 1 what the product gives, 2 what the magnifier gives. */
static struct pen_measure_chain both(void)
{
    static struct pen_measure_step steps[2];
    static const uint32_t flows[3] = {0, 1, 2};
    steps[0] = (struct pen_measure_step){models[0], &flows[0], &flows[1]};
    steps[1] = (struct pen_measure_step){models[1], &flows[1], &flows[2]};
    return (struct pen_measure_chain){
        .steps = steps, .steps_count = 2, .flows = 3, .inputs = 1, .outputs = &flows[2], .outputs_count = 1};
}

static struct pen_measured alone(int which)
{
    struct pen_measured found = {0};
    bool kept = false;
    cr_assert_eq(pen_model_measure(models[which], &drawn, NULL, &found, &kept, &error), PEN_OK, "%s", error.text);
    return found;
}

static struct pen_measured whole(bool *ret_kept)
{
    struct pen_measured found = {0};
    struct pen_measure_chain chain = both();
    cr_assert_eq(pen_chain_measure(&chain, &drawn, NULL, &found, ret_kept, &error), PEN_OK, "%s", error.text);
    return found;
}

Test(chain, has_the_errors_that_later_steps_enlarge)
{
    bool kept = false;
    engine_open("xnnpack");
    double first = alone(0).largest, second = alone(1).largest;
    struct pen_measured found = whole(&kept);
    cr_expect(found.largest > 10.0 * fmax(first, second), "%g of %g and %g", found.largest, first, second);
    cr_expect(found.mean > 0.0 && found.mean <= found.largest && found.inputs > 1 && found.repeatable && kept);
    cr_expect_eq(found.source, PEN_MEASURED_SEEDED);
    engine_close();
}

Test(chain, is_found_again_by_the_same_links_alone)
{
    struct pen_measured first, again;
    bool kept = false;
    engine_open("xnnpack");
    struct pen_measure_chain chain = both();
    cr_expect_not(pen_chain_measured(&chain, &drawn, &again), "nobody has measured it");
    first = whole(&kept);
    cr_expect(pen_chain_measured(&chain, &drawn, &again) && again.largest == first.largest);
    static const uint32_t middle = 1;
    chain.outputs = &middle;
    cr_expect_not(pen_chain_measured(&chain, &drawn, &again), "another output of the whole");
    engine_close();
}

Test(chain, of_the_reference_has_no_error)
{
    struct pen_measured found = {.largest = 1.0};
    engine_open("reference");
    struct pen_measure_chain chain = both();
    cr_expect(pen_chain_measured(&chain, &drawn, &found));
    cr_expect(found.largest == 0.0 && found.source == PEN_MEASURED_REFERENCE && found.repeatable);
    engine_close();
}

/* What another processor has found is no measurement of this one, also where our own kernels have the same name. */
static void other_processor(const char *fact)
{
    struct pen_measured found;
    struct pen_measure_chain chain;
    const char *value = pen_env_get(engine->env, fact);
    char before[64];
    snprintf(before, sizeof before, "%s", value ? value : "");
    env_fact(engine->env, fact, "another");
    chain = both();
    cr_expect_not(pen_model_measured(models[0], &drawn, &found), "%s", fact);
    cr_expect_not(pen_chain_measured(&chain, &drawn, &found), "%s", fact);
    env_fact(engine->env, fact, before);
    cr_expect(pen_model_measured(models[0], &drawn, &found), "%s as it was", fact);
    cr_expect(pen_chain_measured(&chain, &drawn, &found), "%s as it was", fact);
}

#ifdef __x86_64__
Test(chain, the_processor_is_in_the_key)
{
    struct pen_measured found;
    struct pen_measure_chain chain;
    bool kept = false;
    engine_open("xnnpack");
    (void)alone(0);
    (void)whole(&kept);
    chain = both();
    other_processor("cpu_isa");
    other_processor("cpu_avx512bf16");
    env_fact(engine->env, "cpu_count", "another");
    cr_expect(pen_model_measured(models[0], &drawn, &found) && pen_chain_measured(&chain, &drawn, &found),
              "how many there are changes nothing");
    engine_close();
}
#endif
