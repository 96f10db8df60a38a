/* Classes as data: asked by top_k, from workers, caches, batches and ensembles; what the command line makes of them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ensembles.h"
#include "onnx_file.h"

#define SAMPLE(name) PENSTOCK_SOURCE "/deploy/models/digits/samples/" name
#define ARGS(...)    ((const char *const[]){__VA_ARGS__, NULL})

TestSuite(classes, .init = setup, .fini = teardown, .timeout = 120);

static const char *const digit_names[] = {"zero", "one", "two",   "three", "four",
                                          "five", "six", "seven", "eight", "nine"};

static pen_result *ask(pen_client *client, const char *model, const struct pen_tensor *images, uint32_t top_k)
{
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    pen_job_options_init(&options, sizeof options);
    options.model = model;
    options.inputs = images;
    options.inputs_count = 1;
    options.top_k = top_k;
    cr_assert_eq(pen_client_run(client, &options, &result, &error), PEN_OK, "%s", error.text);
    return result;
}

/* Row `row` of the answer, whose output is called `output`, is of the class `class`, and the scores fall. */
static void expect_class(const pen_result *result, size_t row, const char *output, uint32_t class, size_t count)
{
    const struct pen_annotation *a = pen_result_annotation(result, row);
    cr_assert_not_null(a);
    cr_assert(a->row == row && strcmp(a->output, output) == 0 && a->classes_count == count, "%s, row %u, %zu classes",
              a->output, a->row, a->classes_count);
    cr_expect_eq(a->classes[0].index, class, "%u", a->classes[0].index);
    cr_expect_str_eq(a->classes[0].name, digit_names[class]);
    cr_expect(a->classes[0].score > 0.5f && a->classes[0].score <= 1.0f);
    for (size_t i = 1; i < count; i++)
        cr_expect_leq(a->classes[i].score, a->classes[i - 1].score);
}

Test(classes, the_worker_tells_them_and_the_cache_keeps_them)
{
    struct digits digits;
    digits_load(&digits);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    pen_client *client = digits_client(pool.clients);
    struct pen_tensor image = digits_tensor(&digits, 0);
    uint32_t class = digits.labels[0];
    pen_result *plain = ask(client, "digits", &image, 0);
    cr_expect(pen_result_annotations(plain) == 0 && !pen_result_annotation(plain, 0));
    pen_result *three = ask(client, "digits", &image, 3), *again = ask(client, "digits", &image, 3),
               *two = ask(client, "digits", &image, 2);
    cr_expect(!pen_result_info(three)->cached && pen_result_info(again)->cached, "the same question");
    cr_expect(!pen_result_info(two)->cached, "another question");
    cr_assert_eq(pen_result_annotations(three), 1);
    expect_class(three, 0, "probabilities", class, 3);
    expect_class(again, 0, "probabilities", class, 3);
    expect_class(two, 0, "probabilities", class, 2);
    struct pen_job_options options;
    struct pen_error error = {0};
    digits_job(&image, &options);
    options.top_k = 1001;
    cr_expect_eq(pen_client_run(client, &options, &plain, &error), PEN_ERR_INVALID);
    cr_expect(strstr(error.text, "at most 1000") != NULL, "%s", error.text);
    pen_result_free(plain);
    pen_result_free(three);
    pen_result_free(again);
    pen_result_free(two);
    pen_client_free(client);
    digits_free(&digits);
}

Test(classes, rows_of_a_job_each_have_theirs)
{
    struct digits digits;
    digits_load(&digits);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    pen_client *client = digits_client(pool.clients);
    struct pen_tensor images = digits_tensor(&digits, 0);
    images.dims[0] = 5;
    images.bytes *= 5;
    pen_result *result = ask(client, "digits", &images, 2);
    cr_assert_eq(pen_result_annotations(result), 5);
    for (size_t i = 0; i < 5; i++)
        expect_class(result, i, "probabilities", digits.labels[i], 2);
    pen_result_free(result);
    pen_client_free(client);
    digits_free(&digits);
}

static const char named[] =
    "{\"platform\":\"ensemble\",\"max_batch_size\":4,"
    "\"input\":[{\"name\":\"a\",\"data_type\":\"TYPE_UINT8\",\"dims\":[8,8,1]}],"
    "\"output\":[{\"name\":\"answer\",\"data_type\":\"TYPE_FP32\",\"dims\":[10]},"
    "{\"name\":\"beside\",\"data_type\":\"TYPE_FP32\",\"dims\":[10]}],"
    "\"ensemble_scheduling\":{\"step\":["
    "{\"model_name\":\"digits\",\"input_map\":{\"image\":\"a\"},\"output_map\":{\"probabilities\":\"answer\"}},"
    "{\"model_name\":\"rows\",\"input_map\":{\"x\":\"answer\"},\"output_map\":{\"y\":\"beside\"}}]}}";

/* The names are the step's model's; the output is called as the whole calls it. */
static void expect_ensemble(const struct digits *digits)
{
    pen_client *client = digits_client(pool.clients);
    struct pen_tensor images = digits_tensor(digits, 0);
    images.name = "a";
    images.dims[0] = 2;
    images.bytes *= 2;
    for (int i = 0; i < 2; i++) {
        pen_result *result = ask(client, "named", &images, 3);
        cr_expect_eq(pen_result_info(result)->cached, i == 1);
        cr_assert_eq(pen_result_annotations(result), 4, "two rows of two outputs");
        expect_class(result, 0, "answer", digits->labels[0], 3);
        expect_class(result, 1, "answer", digits->labels[1], 3);
        const struct pen_annotation *beside = pen_result_annotation(result, 2);
        cr_expect_str_eq(beside->output, "beside");
        cr_expect(beside->classes[0].index == digits->labels[0] && !*beside->classes[0].name);
        pen_result_free(result);
    }
    pen_client_free(client);
}

static void put_ensemble(void)
{
    static const int64_t rows[2] = {-1, 10};
    put("rows", "Relu", rows, 2); /* probabilities are positive: passed on */
    put_config("rows", "{\"max_batch_size\":16}");
    put_config("named", named);
}

Test(classes, an_ensemble_on_one_worker_tells_them)
{
    struct digits digits;
    digits_load(&digits);
    put_ensemble();
    cr_assert_eq(symlink(POOL_DIGITS_MODELS "/digits", in_root("digits")), 0);
    pool_add_worker(&pool, "xnnpack", root, NULL);
    expect_ensemble(&digits);
    digits_free(&digits);
}

Test(classes, an_ensemble_on_two_workers_tells_the_same)
{
    struct digits digits;
    digits_load(&digits);
    put_ensemble();
    pool_add_worker(&pool, "xnnpack", root, NULL);
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    expect_ensemble(&digits);
    digits_free(&digits);
}

/* ---- the command line ---- */

static char *said(const char *verb, const char *const argv[])
{
    char *out = NULL, *err = NULL;
    cr_assert_eq(pool_cli(&pool, verb, argv, &out, &err), 0, "%s", err);
    free(err);
    return out;
}

static void expect_said(const char *verb, const char *const argv[], const char *words, const char *not_words)
{
    char *out = said(verb, argv);
    cr_expect(!words || strstr(out, words), "'%s' is not in:\n%s", words, out);
    cr_expect(!not_words || !strstr(out, not_words), "'%s' is in:\n%s", not_words, out);
    free(out);
}

/* The digits model with a config of its own. */
static void put_digits(const char *name, const char *config)
{
    char folder[256], file[300];
    size_t bytes = 0;
    char *model = file_read(POOL_DIGITS_MODELS "/digits/1/model.onnx", &bytes);
    snprintf(folder, sizeof folder, "%s/1", name);
    folder_make(in_root(folder));
    snprintf(file, sizeof file, "%s/1/model.onnx", name);
    file_write(in_root(file), model, bytes);
    free(model);
    put_config(name, config);
}

#define PIXELS_CONFIG                                                                                                  \
    "{\"max_batch_size\":4,\"input\":{\"preprocess\":{\"layout\":\"NCHW\",\"channels\":1,\"height\":8,\"width\":8,"    \
    "\"resize\":\"area\",\"scale\":[0.00392156862745098]}}}"

Test(classes, without_labels_they_are_numbers_with_scores)
{
    put_digits("bare", PIXELS_CONFIG);
    pool_add_worker(&pool, "xnnpack", root, NULL);
    expect_said("submit", ARGS("bare", SAMPLE("03_three.png")), "  class 3\n", "probabilities:");
    expect_said("submit", ARGS("bare", SAMPLE("03_three.png"), "--top", "0"), "probabilities: f32", "class 3");
    expect_said("submit", ARGS("bare", SAMPLE("03_three.png"), "--json"), "{\"label\":\"\",\"index\":3,\"score\":0.",
                NULL);
}

Test(classes, a_fetched_job_tells_them)
{
    char journal[512];
    pool_stop(&pool);
    snprintf(journal, sizeof journal, "%s/journal", root);
    pool_start(&pool, ARGS("--journal", journal, "--http", "none"));
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    char *out = said("submit", ARGS("digits", SAMPLE("05_five.png"), "--detach"));
    char *id = strstr(out, "penstock fetch ");
    cr_assert_not_null(id, "%s", out);
    id += strlen("penstock fetch ");
    id[strcspn(id, "\n")] = '\0';
    expect_said("fetch", ARGS(id), "  five\n", NULL);
    expect_said("fetch", ARGS(id, "--json"), "\"labels\":[{\"label\":\"five\",\"index\":5,\"score\":0.", NULL);
    free(out);
    out = said("submit", ARGS("digits", SAMPLE("06_six.png"), "--detach", "--top", "0")); /* as one that cannot ask */
    id = strstr(out, "penstock fetch ") + strlen("penstock fetch ");
    id[strcspn(id, "\n")] = '\0';
    expect_said("fetch", ARGS(id), "  six\n", NULL);
    free(out);
}

/* f16 [N, 3, 1, 1] -> Flatten -> f16 [N, 3]: the mean of a picture's red, green and blue. */
static void put_half(void)
{
    const struct onnx_node node = {.op = "Flatten", .inputs = {"x"}, .outputs = {"y"}};
    const struct onnx_value in = {.name = "x", .dtype = 10, .rank = 4, .dims = {-1, 3, 1, 1}},
                            out = {.name = "y", .dtype = 10, .rank = 2, .dims = {-1, 3}};
    folder_make(in_root("half/1"));
    onnx_write(
        in_root("half/1/model.onnx"),
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1});
    put_config("half", "{\"max_batch_size\":4,\"input\":{\"preprocess\":{\"channels\":3,\"height\":1,\"width\":1,"
                       "\"scale\":[0.00392156862745098]}},\"output\":{\"labels\":[\"red\",\"green\",\"blue\"]}}");
}

/* A BMP of one pixel. */
static void put_pixel(const char *name, uint8_t red, uint8_t green, uint8_t blue)
{
    uint8_t b[58] = "BM";
    b[10] = 54;
    b[14] = 40;
    b[18] = b[22] = b[26] = 1;
    b[28] = 24;
    b[54] = blue;
    b[55] = green;
    b[56] = red;
    file_write(in_root(name), b, sizeof b);
}

Test(classes, a_half_precision_classifier_takes_pictures)
{
    char picture[512];
    put_half();
    put_pixel("green.bmp", 51, 204, 102);
    snprintf(picture, sizeof picture, "%s", in_root("green.bmp"));
    pool_add_worker(&pool, "reference", root, NULL);
    expect_said("submit", ARGS("half", picture), "  0.7998  green\n    0.3999  blue\n    0.2000  red\n", NULL);
    pen_client *client = digits_client(pool.clients); /* the f16 output, too */
    const uint8_t pixel[3] = {255, 0, 0};
    const struct pen_tensor image = {
        .name = "x", .dtype = PEN_DTYPE_U8, .rank = 4, .dims = {1, 1, 1, 3}, .data = pixel, .bytes = 3};
    pen_result *result = ask(client, "half", &image, 1);
    cr_expect_eq(pen_result_output(result, 0)->dtype, PEN_DTYPE_F16);
    cr_assert_eq(pen_result_annotations(result), 1);
    cr_expect_str_eq(pen_result_annotation(result, 0)->classes[0].name, "red");
    cr_expect_eq(pen_result_annotation(result, 0)->classes[0].score, 1.0f);
    pen_result_free(result);
    pen_client_free(client);
}

Test(classes, a_gif_is_called_a_gif)
{
    char picture[512], *out = NULL, *err = NULL;
    file_write(in_root("x.png"), "GIF89a\1\0\1\0\0\0\0;", 14);
    snprintf(picture, sizeof picture, "%s", in_root("x.png"));
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    cr_expect_neq(pool_cli(&pool, "submit", ARGS("digits", picture), &out, &err), 0);
    cr_expect(strstr(err, "x.png is a GIF: convert it to PNG or JPEG"), "%s", err);
    free(out);
    free(err);
}

Test(classes, the_first_program_prints_the_name)
{
    char *out = NULL, *err = NULL;
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    const char *const argv[] = {PENSTOCK_BIN "/one_image", SAMPLE("09_nine.png"), pool.clients, NULL};
    cr_assert_eq(process_run(argv, 20000, &out, &err), 0, "%s", err);
    cr_expect(strstr(out, "09_nine.png: nine (0."), "%s", out);
    free(out);
    free(err);
}

Test(classes, a_short_program_asks_with_a_picture)
{
    struct pen_error error = {0};
    struct pen_tensor image = {0};
    struct pen_class best[4];
    pen_result *told = NULL;
    pool_add_worker(&pool, "reference", NULL, NULL);
    pen_client *client = digits_client(pool.clients);
    cr_assert_eq(pen_client_picture(client, "digits", SAMPLE("07_seven.png"), &image, &error), PEN_OK, "%s",
                 error.text);
    cr_assert_eq(pen_client_infer(client, "digits", &image, 1, 3, &told, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(pen_result_top(told, 0, 4, best), 3);
    cr_expect_str_eq(best[0].name, "seven");
    cr_expect(best[0].score >= best[1].score && pen_result_top(told, 1, 4, best) == 0, "there is one row");
    pen_result_free(told);
    cr_assert_eq(pen_client_infer(client, "digits", &image, 1, 0, &told, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_result_top(told, 0, 4, best), 4, "read out here");
    cr_expect(best[0].index == 7 && best[0].score > 0.5f && *best[0].name == 0);
    cr_expect(pen_result_top(told, 0, 0, best) == 0 && pen_result_top(told, 1, 4, best) == 0);
    pen_result_free(told);
    cr_expect_eq(pen_client_picture(client, "nobody", SAMPLE("07_seven.png"), &image, &error), PEN_ERR_NOT_FOUND);
    cr_expect(strstr(error.text, "nobody"), "%s", error.text);
    pen_picture_free(&image);
    pen_client_free(client);
}

Test(classes, numbers_for_a_model_of_pixels_are_told_what_it_takes)
{
    static const float numbers[64];
    const struct pen_tensor planes = {.name = "image",
                                      .dtype = PEN_DTYPE_F32,
                                      .rank = 4,
                                      .dims = {1, 1, 8, 8},
                                      .data = numbers,
                                      .bytes = sizeof numbers};
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    pool_add_worker(&pool, "xnnpack", NULL, NULL);
    pen_client *client = digits_client(pool.clients);
    digits_job(&planes, &options);
    cr_expect_eq(pen_client_run(client, &options, &result, &error), PEN_ERR_DTYPE);
    cr_expect(strstr(error.text, "its config.json asks for pixels (input.preprocess)"), "%s", error.text);
    pen_client_free(client);
}

/* Two outputs; the names are of the second one. */
static void put_two(void)
{
    const struct onnx_node nodes[] = {{.op = "Relu", .inputs = {"a"}, .outputs = {"first"}},
                                      {.op = "Relu", .inputs = {"b"}, .outputs = {"second"}}};
    const struct onnx_value in[] = {{.name = "a", .dtype = 1, .rank = 2, .dims = {-1, 4}},
                                    {.name = "b", .dtype = 1, .rank = 2, .dims = {-1, 3}}};
    const struct onnx_value out[] = {{.name = "first", .dtype = 1, .rank = 2, .dims = {-1, 4}},
                                     {.name = "second", .dtype = 1, .rank = 2, .dims = {-1, 3}}};
    folder_make(in_root("two/1"));
    onnx_write(
        in_root("two/1/model.onnx"),
        &(struct onnx_model){
            .nodes = nodes, .nodes_count = 2, .inputs = in, .inputs_count = 2, .outputs = out, .outputs_count = 2});
    put_config("two", "{\"max_batch_size\":4,\"output\":{\"labels\":[\"cat\",\"dog\",\"owl\"],\"softmax\":true}}");
}

Test(classes, labels_belong_to_the_output_that_has_as_many_numbers)
{
    static const float values[4] = {0.1f, 0.3f, 0.2f, 0.9f};
    const struct pen_tensor inputs[2] = {
        {.name = "a", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 4}, .data = values, .bytes = 16},
        {.name = "b", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, 3}, .data = values, .bytes = 12}};
    struct pen_job_options options;
    struct pen_error error = {0};
    pen_result *result = NULL;
    put_two();
    pool_add_worker(&pool, "reference", root, NULL);
    pen_client *client = digits_client(pool.clients);
    pen_job_options_init(&options, sizeof options);
    options.model = "two";
    options.inputs = inputs;
    options.inputs_count = 2;
    options.top_k = 3;
    options.outputs = (const char *const[]){"first"}; /* the classes need not travel as numbers, too */
    options.outputs_count = 1;
    cr_assert_eq(pen_client_run(client, &options, &result, &error), PEN_OK, "%s", error.text);
    cr_assert(pen_result_annotations(result) == 1 && pen_result_outputs(result) == 1);
    const struct pen_annotation *a = pen_result_annotation(result, 0);
    cr_expect_str_eq(a->output, "second");
    cr_expect_str_eq(a->classes[0].name, "dog");
    cr_expect(a->classes[0].score > 0.36f && a->classes[0].score < 0.37f, "softmax was asked for: %g",
              (double)a->classes[0].score);
    pen_result_free(result);
    pen_client_free(client);
}
