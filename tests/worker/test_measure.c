/* How far a model's answers are from the reference's, on the files of its calibration: which input takes which file, what a state begins with, and what cannot be measured. */
#include "measure.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "folder.h"
#include "onnx_writer.h"

static char root[FOLDER_PATH_BYTES];
static struct pen_engine *engine;
static struct served *served;
static struct pen_error error;

static void begin(void)
{
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = "xnnpack";
    options.threads = 1;
    cr_redirect_stderr();
    folder_new(root);
    if (pen_engine_new(&options, &engine, &error) != PEN_OK)
        cr_skip_test("the reference is not measured: %s", error.text);
}

static void end(void)
{
    served_free(served);
    pen_engine_free(engine);
    folder_free(root);
}

TestSuite(measure, .init = begin, .fini = end, .timeout = 60);

/* A file of NumPy: float32 [1, 2]. */
static void npy_put(const char *name, float first, float second)
{
    char path[FOLDER_PATH_BYTES + 32];
    uint8_t bytes[136] = "\x93NUMPY\x01\x00\x76";
    const float values[2] = {first, second};
    memset(bytes + 10, ' ', 118);
    memcpy(bytes + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", 59);
    bytes[127] = '\n';
    memcpy(bytes + 128, values, sizeof values);
    snprintf(path, sizeof path, "%s/m/%s", root, name);
    file_write(path, bytes, sizeof bytes);
}

/* sum = exp(x) + h, next = x * h; h is kept between jobs where the config says so. */
static void batched_open(const char *config_text, int64_t rows)
{
    const int64_t dims[] = {rows, 2};
    char path[FOLDER_PATH_BYTES + 32], home[FOLDER_PATH_BYTES + 8];
    struct config config;
    struct onnx_writer *g = onnx_writer_new("kept");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, dims, NULL);
    onnx_writer_input(g, "h", PEN_DTYPE_F32, 2, dims, NULL);
    onnx_writer_node(g, "Exp", ONNX_LIST("x"), ONNX_LIST("e"), NULL);
    onnx_writer_node(g, "Add", ONNX_LIST("e", "h"), ONNX_LIST("sum"), NULL);
    onnx_writer_node(g, "Mul", ONNX_LIST("x", "h"), ONNX_LIST("next"), NULL);
    onnx_writer_output(g, "sum", PEN_DTYPE_F32, 2, dims, NULL);
    onnx_writer_output(g, "next", PEN_DTYPE_F32, 2, dims, NULL);
    snprintf(home, sizeof home, "%s/m", root);
    snprintf(path, sizeof path, "%s/m/1", root);
    folder_make(path);
    npy_put("x1.npy", 1, 2);
    npy_put("x2.npy", 3, -4);
    npy_put("h1.npy", 5, 6);
    snprintf(path, sizeof path, "%s/m/config.json", root);
    file_write(path, config_text, strlen(config_text));
    snprintf(path, sizeof path, "%s/m/1/model.onnx", root);
    onnx_writer_save(g, 17, path);
    onnx_writer_free(g);
    config_init(&config);
    cr_assert_eq(config_load(&(struct config_place){home, NULL}, &config, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(served_new(engine, "m", 1, path, &config, &served, &error), PEN_OK, "%s", error.text);
}

static void model_open(const char *config_text)
{
    batched_open(config_text, 1);
}

#define STATE                                                                                                          \
    "\"sequence_batching\":{\"state\":[{\"input_name\":\"h\",\"output_name\":\"next\",\"data_type\":\"TYPE_FP32\","    \
    "\"dims\":[1,2]}]}"

static void measured_on(enum pen_measured_source source, uint32_t inputs)
{
    struct pen_measured found = {.largest = -1};
    cr_assert_eq(measure_run(served, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert(measure_result(served, &found));
    cr_expect(inputs == 0 || found.inputs == inputs, "%u", found.inputs);
    cr_expect(found.largest >= 0 && found.largest < 1e-5 && found.repeatable, "%g", found.largest);
    cr_expect_eq(found.source, source);
}

static void measured(uint32_t inputs)
{
    measured_on(PEN_MEASURED_CALIBRATION, inputs);
}

static void cannot(const char *part)
{
    struct pen_measured found;
    cr_expect_neq(measure_run(served, NULL, &error), PEN_OK);
    cr_expect(strstr(error.text, part), "'%s' is not in '%s'", part, error.text);
    cr_expect_not(measure_result(served, &found));
    cr_expect_eq(atomic_load(&served->measured_as), SERVED_UNMEASURABLE);
}

Test(measure, each_set_has_a_file_for_each_input)
{
    model_open(
        "{\"calibration\":{\"sets\":[{\"x\":\"x1.npy\",\"h\":\"h1.npy\"},{\"x\":\"x2.npy\",\"h\":\"h1.npy\"}]}}");
    measured(2);
}

Test(measure, an_input_without_a_file_is_named)
{
    model_open("{\"calibration\":{\"sets\":[{\"x\":\"x1.npy\",\"h\":\"h1.npy\"},{\"x\":\"x2.npy\"}]}}");
    cannot("calibration: set 2 has no file for input 'h'");
}

/* A sequence begins with zeros. */
Test(measure, a_state_needs_no_file)
{
    model_open("{\"calibration\":{\"sets\":[{\"x\":\"x1.npy\"},{\"x\":\"x2.npy\"}]}," STATE "}");
    measured(2);
}

Test(measure, a_state_may_have_a_file)
{
    model_open("{\"calibration\":{\"sets\":[{\"x\":\"x1.npy\",\"h\":\"h1.npy\"}]}," STATE "}");
    measured(1);
}

/* Without files inputs are drawn, one row of them. */
Test(measure, one_row_is_drawn_where_nothing_is_given)
{
    batched_open("{\"max_batch_size\":1}", -1);
    measured_on(PEN_MEASURED_SEEDED, 0);
}
