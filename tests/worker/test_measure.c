/* How far a model's answers are from the reference's, on the files of its calibration: which input takes which file, what a state begins with, and what cannot be measured. */
#include "measure.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <math.h>
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

static void drawn(const char *config_text, int64_t rows, int64_t first_dim, struct pen_range x)
{
    struct warm_shape shape;
    struct pen_range ranges[SERVED_TENSORS_MAX];
    memset(ranges, 0xff, sizeof ranges);
    batched_open(config_text, rows);
    cr_assert_eq(measure_drawn(served, &shape, ranges, &error), PEN_OK, "%s", error.text);
    cr_expect(shape.inputs[0].dims[0] == first_dim && shape.inputs[1].dims[1] == 2);
    cr_expect(ranges[0].low == x.low && ranges[0].high == x.high, "%g to %g", ranges[0].low, ranges[0].high);
    cr_expect(ranges[1].low == 0 && ranges[1].high == 0, "of what the config does not name");
    served_free(served);
    served = NULL;
}

Test(measure, shapes_and_ranges_are_drawn_as_the_config_says)
{
    drawn("{\"max_batch_size\":4}", -1, 1, (struct pen_range){0, 0});
    drawn("{}", 3, 3, (struct pen_range){0, 0});
    drawn("{\"calibration\":{\"ranges\":{\"x\":[-0.5,8],\"none\":[1,2]}}}", 3, 3, (struct pen_range){-0.5, 8});
}

/* ---- what a config states ---- */

static enum pen_status settled(const char *config_text)
{
    served_free(served);
    served = NULL;
    error = (struct pen_error){.status = PEN_OK};
    model_open(config_text);
    return measure_settle(served, &error);
}

static void not_kept(const char *part)
{
    cr_expect_eq(error.status, PEN_ERR_UNSUPPORTED);
    cr_expect(strstr(error.text, part), "'%s' is not in '%s'", part, error.text);
}

Test(measure, a_bound_is_kept_or_the_model_is_not_served)
{
    cr_expect_eq(settled("{}"), PEN_OK);
    cr_expect_eq(atomic_load(&served->measured_as), SERVED_NOT_MEASURED, "nothing asks for it");
    cr_expect_eq(settled("{\"precision\":\"max_relative_error=1e-2\"}"), PEN_OK, "%s", error.text);
    cr_expect_eq(atomic_load(&served->measured_as), SERVED_MEASURED);
    served->config.contract.error_max = served->measured.largest > 0 ? served->measured.largest : 1e-30;
    cr_expect_eq(measure_settle(served, &error), PEN_OK, "exactly the bound");
    served->measured.largest = 2 * served->config.contract.error_max;
    cr_expect_eq(measure_settle(served, &error), PEN_ERR_UNSUPPORTED);
    not_kept("and the largest error here is");
    cr_expect_eq(settled("{\"precision\":\"f32-exact\"}"), PEN_OK, "%s", error.text);
    cr_expect_eq(atomic_load(&served->measured_as), SERVED_MEASURED);
    served->measured.repeatable = false;
    cr_expect_eq(measure_settle(served, &error), PEN_ERR_UNSUPPORTED);
    not_kept("equal inputs did not give equal bits here");
}

Test(measure, a_bound_that_cannot_be_measured_is_not_kept)
{
    cr_expect_eq(settled("{\"precision\":\"max_relative_error=1e-2\",\"calibration\":{\"sets\":[{\"x\":\"x1.npy\"}]}}"),
                 PEN_ERR_UNSUPPORTED);
    not_kept("its error cannot be measured: calibration: set 1 has no file for input 'h'");
}

Test(measure, another_precision_than_the_stated_one_is_refused)
{
    cr_expect_eq(settled("{\"precision\":\"bf16\"}"), PEN_OK, "f32 is better");
    served->precision = PEN_PRECISION_INT8;
    cr_expect_eq(measure_settle(served, &error), PEN_OK, "integers are computed as they are");
    served->precision = PEN_PRECISION_BF16;
    cr_expect_eq(measure_settle(served, &error), PEN_OK, "as stated");
    served->precision = PEN_PRECISION_F16_MATH;
    cr_expect_eq(measure_settle(served, &error), PEN_ERR_UNSUPPORTED);
    not_kept("start one with --precision bf16");
    served->config.contract.precision = PEN_PRECISION_F32;
    cr_expect_eq(measure_settle(served, &error), PEN_ERR_UNSUPPORTED);
    served->config.contract.precision = PEN_PRECISION_ANY;
    cr_expect_eq(measure_settle(served, &error), PEN_OK, "nothing is stated");
}

/* ---- pixels ---- */

/* u8 [2, height, 3, 2], as jobs are. */
static void pixels_put(const char *name, unsigned height)
{
    char path[FOLDER_PATH_BYTES + 32], head[96];
    uint8_t bytes[128 + 2 * 4 * 3 * 2] = "\x93NUMPY\x01\x00\x76";
    memset(bytes + 10, ' ', 117);
    int length =
        snprintf(head, sizeof head, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, %u, 3, 2), }", height);
    memcpy(bytes + 10, head, (size_t)length);
    bytes[127] = '\n';
    for (size_t i = 128; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    snprintf(path, sizeof path, "%s/m/%s", root, name);
    file_write(path, bytes, 128 + 2 * (size_t)height * 3 * 2);
}

/* y = exp(x), x of two channels, 2 high and 3 wide. */
static void pixels_open(bool nhwc, const char *calibration)
{
    const int64_t nchw_dims[] = {-1, 2, 2, 3}, nhwc_dims[] = {-1, 2, 3, 2}, *dims = nhwc ? nhwc_dims : nchw_dims;
    char path[FOLDER_PATH_BYTES + 32], home[FOLDER_PATH_BYTES + 8], text[512];
    struct config config;
    struct onnx_writer *g = onnx_writer_new("pixels");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 4, dims, NULL);
    onnx_writer_node(g, "Exp", ONNX_LIST("x"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 4, dims, NULL);
    snprintf(home, sizeof home, "%s/m", root);
    snprintf(path, sizeof path, "%s/m/1", root);
    folder_make(path);
    pixels_put("pixels.npy", 2);
    pixels_put("high.npy", 4);
    snprintf(
        text, sizeof text,
        "{\"max_batch_size\":4,\"input\":{\"preprocess\":{\"input\":\"x\",\"layout\":\"%s\",\"height\":2,\"width\":3,"
        "\"channels\":2,\"mean\":[-10,-20],\"scale\":[0.001,0.002]}}%s}",
        nhwc ? "NHWC" : "NCHW", calibration);
    snprintf(path, sizeof path, "%s/m/config.json", root);
    file_write(path, text, strlen(text));
    snprintf(path, sizeof path, "%s/m/1/model.onnx", root);
    onnx_writer_save(g, 17, path);
    onnx_writer_free(g);
    config_init(&config);
    cr_assert_eq(config_load(&(struct config_place){home, NULL}, &config, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(served_new(engine, "m", 1, path, &config, &served, &error), PEN_OK, "%s", error.text);
}

Test(measure, pixels_are_drawn_between_what_black_and_white_become)
{
    struct warm_shape shape;
    struct pen_range ranges[SERVED_TENSORS_MAX];
    pixels_open(false, "");
    cr_assert_eq(measure_drawn(served, &shape, ranges, &error), PEN_OK, "%s", error.text);
    cr_expect(fabs(ranges[0].low - 0.01) < 1e-6 && fabs(ranges[0].high - 0.55) < 1e-6, "%g to %g", ranges[0].low,
              ranges[0].high);
    cr_expect(shape.inputs[0].dims[0] == 1 && shape.inputs[0].dims[1] == 2 && shape.inputs[0].dims[3] == 3);
    served->preprocess.element_bytes = 1;
    cr_assert_eq(measure_drawn(served, &shape, ranges, &error), PEN_OK, "%s", error.text);
    cr_expect(ranges[0].low == 0 && ranges[0].high == 0, "bytes have a range of their own");
}

static void pixels_measured(bool nhwc)
{
    pixels_open(nhwc, ",\"calibration\":{\"sets\":[{\"x\":\"pixels.npy\"}]}");
    measured(1);
    served_free(served);
    served = NULL;
}

Test(measure, pixels_of_a_file_become_the_networks_input)
{
    pixels_measured(false);
    pixels_measured(true);
}

Test(measure, pixels_of_another_size_than_jobs_have_are_refused)
{
    pixels_open(false, ",\"calibration\":{\"sets\":[{\"x\":\"high.npy\"}]}");
    cannot("calibration: 'high.npy' must be u8 [images, 2, 3, 2], as jobs are");
}

/* Without files inputs are drawn, one row of them. */
Test(measure, one_row_is_drawn_where_nothing_is_given)
{
    batched_open("{\"max_batch_size\":1}", -1);
    measured_on(PEN_MEASURED_SEEDED, 0);
}
