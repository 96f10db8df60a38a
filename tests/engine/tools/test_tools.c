/* run, bench and info: files in and out, keys, and an effect for every option. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

#include "fixture.h"
#include "onnx_file.h"
#include "penstock/dtype.h"

TestSuite(tools, .init = fixture_setup, .fini = fixture_teardown);

#define DIGITS PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"

/* x: `dtype` [N or 1, dims...] -> Identity -> y */
static void identity_write(const char *name, int32_t dtype, size_t rank, const int64_t *dims)
{
    struct onnx_node node = {.op = "Identity", .inputs = {"x"}, .outputs = {"y"}};
    struct onnx_value in = {.name = "x", .dtype = dtype, .rank = rank};
    memcpy(in.dims, dims, rank * sizeof *dims);
    struct onnx_value out = in;
    out.name = "y";
    onnx_write(
        path_of(name),
        &(struct onnx_model){
            .nodes = &node, .nodes_count = 1, .inputs = &in, .inputs_count = 1, .outputs = &out, .outputs_count = 1});
}

static const char *input_of(const char *name)
{
    char *text = keep(malloc(PATH_BYTES));
    snprintf(text, PATH_BYTES, "x=%s/%s", folder, name);
    return text;
}

/* A .npy of format 1.0. Bytes of the file. */
static void npy_write(const char *name, const char *descr, const char *shape, const void *data, size_t bytes)
{
    uint8_t file[1024] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
    memset(file + 10, ' ', 118);
    char header[118];
    int used = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    memcpy(file + 10, header, (size_t)used);
    file[127] = '\n';
    memcpy(file + 128, data, bytes);
    file_write(path_of(name), file, 128 + bytes);
}

/* The data of out/y.npy; checks its header. Give it free(3). */
static void *answer(const char *descr, const char *shape, size_t bytes)
{
    size_t size = 0;
    uint8_t *file = file_read(path_of("out/y.npy"), &size);
    size_t header = (size_t)file[8] | (size_t)file[9] << 8;
    char want[64];
    cr_assert_eq(memcmp(file, "\x93NUMPY\x01", 7), 0);
    cr_assert_eq((10 + header) % 64, 0, "data starts at %zu", 10 + header);
    file[10 + header - 1] = '\0';
    snprintf(want, sizeof want, "'descr': '%s'", descr);
    cr_assert_not_null(strstr((char *)file + 10, want), "%s", (char *)file + 10);
    snprintf(want, sizeof want, "'shape': %s", shape);
    cr_assert_not_null(strstr((char *)file + 10, want), "%s", (char *)file + 10);
    cr_assert_eq(size, 10 + header + bytes);
    void *data = malloc(bytes);
    cr_assert_not_null(data);
    memcpy(data, file + 10 + header, bytes);
    free(file);
    return data;
}

static struct printed run(const char *const arguments[])
{
    const char *all[24] = {"run", "--output-dir", path_of("out"), "--model", path_of("m.onnx")};
    size_t count = 5;
    for (size_t i = 0; arguments[i] != NULL && count < 23; i++) {
        all[count++] = arguments[i];
    }
    all[count] = NULL;
    return engine(all);
}

Test(tools, run_takes_and_gives_npy)
{
    const float data[6] = {1, -2, 3, 4.5f, 0, 6};
    identity_write("m.onnx", 1, 2, (const int64_t[]){-1, 3});
    npy_write("x.npy", "<f4", "(2, 3)", data, sizeof data);
    struct printed p = run(ARGS("--input", input_of("x.npy")));
    cr_assert_eq(p.status, 0, "%s", p.err);
    float *got = answer("<f4", "(2, 3)", sizeof data);
    cr_assert_eq(memcmp(got, data, sizeof data), 0);
    free(got);
}

Test(tools, run_takes_raw_bytes_with_a_shape)
{
    const int64_t data[4] = {1, -2, (int64_t)1 << 40, 7};
    identity_write("m.onnx", 7, 2, (const int64_t[]){-1, 2});
    file_write(path_of("x.bin"), data, sizeof data);
    struct printed p = run(ARGS("--input", input_of("x.bin"), "--shape", "x=2x2"));
    cr_assert_eq(p.status, 0, "%s", p.err);
    int64_t *got = answer("<i8", "(2, 2)", sizeof data);
    cr_assert_eq(memcmp(got, data, sizeof data), 0);
    free(got);
    p = run(ARGS("--input", input_of("x.bin"))); /* [1, 2] needs half as many bytes */
    cr_assert_eq(p.status, 1);
    cr_assert_eq(run(ARGS("--input", input_of("x.bin"), "--shape", "z=2x2")).status, 1);
    cr_assert_eq(run(ARGS("--input", input_of("x.bin"), "--shape", "x=2x")).status, 1);
}

static void png_write(const char *name, const uint8_t *rgb, uint32_t width, uint32_t height)
{
    png_image image = {.version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = PNG_FORMAT_RGB};
    cr_assert(png_image_write_to_file(&image, path_of(name), 0, rgb, 0, NULL));
}

static void jpg_write(const char *name, const uint8_t *rgb, uint32_t width, uint32_t height)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    FILE *f = fopen(path_of(name), "wb");
    cr_assert_not_null(f);
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_stdio_dest(&c, f);
    c.image_width = width;
    c.image_height = height;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 100, TRUE);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < height) {
        uint8_t line[64 * 3];
        memcpy(line, rgb + (size_t)c.next_scanline * width * 3, (size_t)width * 3);
        JSAMPROW row = line;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    fclose(f);
}

/* 2 rows of 3 pixels. */
static const uint8_t pixels[18] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30, 40, 50, 60, 70, 80, 90};

Test(tools, run_takes_a_png_in_either_layout)
{
    png_write("x.png", pixels, 3, 2);
    identity_write("m.onnx", 2, 4, (const int64_t[]){1, 2, 3, 3}); /* uint8 NHWC */
    struct printed p = run(ARGS("--input", input_of("x.png")));
    cr_assert_eq(p.status, 0, "%s", p.err);
    uint8_t *same = answer("|u1", "(1, 2, 3, 3)", 18);
    cr_assert_eq(memcmp(same, pixels, 18), 0);
    identity_write("m.onnx", 1, 4, (const int64_t[]){1, 3, 2, 3}); /* float32 NCHW */
    p = run(ARGS("--input", input_of("x.png")));
    cr_assert_eq(p.status, 0, "%s", p.err);
    float *planes = answer("<f4", "(1, 3, 2, 3)", 72);
    for (size_t i = 0; i < 18; i++) {
        cr_assert_float_eq(planes[i % 3 * 6 + i / 3], (float)pixels[i] / 255.0f, 1e-6f);
    }
    p = run(ARGS("--input", input_of("x.png"), "--image-scale", "2"));
    float *scaled = answer("<f4", "(1, 3, 2, 3)", 72);
    cr_assert_float_eq(scaled[0], 510.0f, 1e-6f, "%g", (double)scaled[0]);
    free(same);
    free(planes);
    free(scaled);
}

Test(tools, run_takes_a_jpg)
{
    uint8_t flat[16 * 16 * 3];
    for (size_t i = 0; i < sizeof flat; i++) {
        flat[i] = (uint8_t)(i % 3 == 0 ? 200 : i % 3 == 1 ? 100 : 50);
    }
    jpg_write("x.jpg", flat, 16, 16);
    identity_write("m.onnx", 2, 4, (const int64_t[]){1, 8, 8, 3}); /* resized */
    struct printed p = run(ARGS("--input", input_of("x.jpg")));
    cr_assert_eq(p.status, 0, "%s", p.err);
    uint8_t *got = answer("|u1", "(1, 8, 8, 3)", 192);
    for (size_t i = 0; i < 192; i++) {
        cr_assert_leq(abs(got[i] - flat[i]), 3, "at %zu: %u", i, got[i]);
    }
    free(got);
}

/* 2x2 pixels, bottom row first, 24 bits. */
static void bmp_write(const char *name)
{
    uint8_t b[70] = "BM";
    b[10] = 54;
    b[14] = 40;
    b[18] = b[22] = 2;
    b[26] = 1;
    b[28] = 24;
    for (unsigned i = 0; i < 16; i++) {
        b[54 + i] = (uint8_t)(i * 10);
    }
    file_write(path_of(name), b, sizeof b);
}

Test(tools, run_takes_a_bmp_whatever_it_is_called)
{
    const uint8_t want[12] = {100, 90, 80, 130, 120, 110, 20, 10, 0, 50, 40, 30};
    bmp_write("x.bmp");
    bmp_write("x.dat");
    identity_write("m.onnx", 2, 4, (const int64_t[]){1, 2, 2, 3});
    for (int i = 0; i < 2; i++) {
        struct printed p = run(ARGS("--input", input_of(i ? "x.dat" : "x.bmp")));
        cr_assert_eq(p.status, 0, "%s", p.err);
        uint8_t *got = answer("|u1", "(1, 2, 2, 3)", 12);
        cr_assert_eq(memcmp(got, want, 12), 0);
        free(got);
    }
}

Test(tools, run_takes_pictures_into_half_precision)
{
    png_write("x.png", pixels, 3, 2);
    identity_write("m.onnx", 10, 4, (const int64_t[]){1, 2, 3, 3}); /* float16 NHWC */
    struct printed p = run(ARGS("--input", input_of("x.png"), "--image-scale", "2"));
    cr_assert_eq(p.status, 0, "%s", p.err);
    uint16_t *halves = answer("<f2", "(1, 2, 3, 3)", 36);
    for (size_t i = 0; i < 18; i++) {
        cr_assert_float_eq(pen_f16_to_f32(halves[i]), 2.0f * (float)pixels[i], 1e-6f);
    }
    free(halves);
    identity_write("m.onnx", 3, 4, (const int64_t[]){1, 2, 3, 3}); /* int8: the pixels span it */
    p = run(ARGS("--input", input_of("x.png")));
    cr_assert_eq(p.status, 0, "%s", p.err);
    int8_t *bytes = answer("|i1", "(1, 2, 3, 3)", 18);
    cr_assert(bytes[0] == 127 && bytes[1] == -128 && bytes[9] == 10 - 128);
    free(bytes);
}

Test(tools, run_calls_a_gif_a_gif)
{
    text_write("x.gif", "GIF89a");
    text_write("x.png", "GIF89a");
    text_write("y.png", "no picture");
    identity_write("m.onnx", 2, 4, (const int64_t[]){1, 2, 3, 3});
    for (int i = 0; i < 2; i++) {
        struct printed p = run(ARGS("--input", input_of(i ? "x.gif" : "x.png")));
        cr_assert_neq(p.status, 0);
        cr_assert_not_null(strstr(p.err, "is a GIF: convert it to PNG or JPEG"), "%s", p.err);
    }
    struct printed p = run(ARGS("--input", input_of("y.png")));
    cr_assert_neq(p.status, 0);
    cr_assert_not_null(strstr(p.err, "neither PNG, JPEG, WebP nor BMP"), "%s", p.err);
}

Test(tools, run_shows_the_best_classes_with_their_names)
{
    const float scores[8] = {0.1f, 0.7f, 0.15f, 0.05f, 9, 1, 1, 1};
    text_write("names.txt", "cat\r\ndog\nowl\nfox\n");
    text_write("three.txt", "cat\ndog\nowl");
    npy_write("x.npy", "<f4", "(2, 4)", scores, sizeof scores);
    identity_write("m.onnx", 1, 2, (const int64_t[]){2, 4});
    struct printed p = run(ARGS("--input", input_of("x.npy"), "--labels", path_of("names.txt"), "--top", "2"));
    cr_assert_eq(p.status, 0, "%s", p.err);
    cr_assert_not_null(strstr(p.out, "  0.7000  dog\n    0.1500  owl\n    0.9990  cat\n"), "%s", p.out);
    p = run(ARGS("--input", input_of("x.npy"), "--labels", path_of("names.txt"), "--top", "1", "--json"));
    cr_assert_not_null(strstr(p.out, "{\"output\":\"y\",\"row\":0,\"index\":1,\"score\":0.69999"), "%s", p.out);
    cr_assert_not_null(strstr(p.out, "\"label\":\"dog\"}"), "%s", p.out);
    p = run(ARGS("--input", input_of("x.npy"), "--labels", path_of("three.txt")));
    cr_assert_eq(p.status, 1);
    cr_assert_not_null(strstr(p.err, "name 3 classes"), "%s", p.err);
    p = run(ARGS("--input", input_of("x.npy")));
    cr_assert_null(strstr(p.out, "0.7000"), "an array is no picture: %s", p.out);
}

Test(tools, run_shows_the_numbers_of_a_pictures_classes)
{
    struct printed p = engine(ARGS("run", "--model", DIGITS, "--output-dir", path_of("out"), "--image-scale", "0.0625",
                                   "--input", "image=" PENSTOCK_SOURCE "/deploy/models/digits/samples/03_three.png"));
    cr_assert_eq(p.status, 0, "%s", p.err);
    cr_assert_not_null(strstr(p.out, "class 3\n"), "%s", p.out);
    p = engine(ARGS("run", "--model", DIGITS, "--output-dir", path_of("out"), "--image-scale", "0.0625", "--labels",
                    PENSTOCK_SOURCE "/deploy/models/digits/config.json", "--input",
                    "image=" PENSTOCK_SOURCE "/deploy/models/digits/samples/03_three.png"));
    cr_assert_not_null(strstr(p.out, "  three\n"), "the names of the config.json: %s %s", p.out, p.err);
    p = engine(ARGS("run", "--model", DIGITS, "--output-dir", path_of("out"), "--top", "0", "--input",
                    "image=" PENSTOCK_SOURCE "/deploy/models/digits/samples/03_three.png"));
    cr_assert_null(strstr(p.out, "class "), "%s", p.out);
}

Test(tools, run_says_what_is_wrong_with_its_inputs)
{
    const float data[3] = {1, 2, 3};
    identity_write("m.onnx", 1, 2, (const int64_t[]){1, 3});
    npy_write("x.npy", "<f4", "(1, 3)", data, sizeof data);
    npy_write("wrong.npy", "<f8", "(1, 3)", data, sizeof data);
    text_write("broken.npy", "no array");
    cr_assert_eq(engine(ARGS("run")).status, 2);
    struct printed p = run(ARGS("--json"));
    cr_assert_eq(p.status, 1);
    cr_assert_not_null(strstr(p.err, "input 'x' is missing"), "%s", p.err);
    cr_assert_eq(run(ARGS("--input", input_of("wrong.npy"))).status, 1);
    cr_assert_eq(run(ARGS("--input", input_of("broken.npy"))).status, 1);
    cr_assert_eq(run(ARGS("--input", input_of("absent.npy"))).status, 1);
    cr_assert_eq(run(ARGS("--input", input_of("x.npy"), "--input", "other=x.npy")).status, 1);
    cr_assert_eq(run(ARGS("--input", input_of("x.npy"))).status, 0);
    cr_assert_eq(run(ARGS("--input", input_of("x.npy"), "--threads", "2")).status, 0);
    cr_assert_eq(run(ARGS("--input", input_of("x.npy"), "--threads", "0")).status, 2);
    cr_assert_eq(run(ARGS("--input", input_of("x.npy"), "--backend", "quantum")).status, 3);
    cr_assert_eq(run(ARGS("--input", input_of("x.npy"), "--backend", "reference", "--precision", "bf16")).status, 3);
}

Test(tools, run_prints_json_and_the_time_of_each_step)
{
    const float data[3] = {1, 2, 3};
    identity_write("m.onnx", 1, 2, (const int64_t[]){1, 3});
    npy_write("x.npy", "<f4", "(1, 3)", data, sizeof data);
    struct printed p = run(ARGS("--input", input_of("x.npy"), "--json", "--backend", "reference"));
    cJSON *json = json_of(&p);
    expect_keys(json, ARGS("model", "backend", "placement", "run_ms", "outputs"));
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(json, "backend")), "reference");
    const cJSON *output = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "outputs"), 0);
    expect_keys(output, ARGS("name", "dtype", "shape", "file"));
    cJSON_Delete(json);
    struct printed plain = engine(ARGS("run", "--model", DIGITS, "--input",
                                       "image=" PENSTOCK_SOURCE "/deploy/models/digits/samples/03_three.png",
                                       "--output-dir", folder, "--backend", "reference"));
    cr_assert_eq(plain.status, 0, "%s", plain.err);
    struct printed timed = engine(ARGS("run", "--model", DIGITS, "--input",
                                       "image=" PENSTOCK_SOURCE "/deploy/models/digits/samples/03_three.png",
                                       "--output-dir", folder, "--backend", "reference", "--profile"));
    cr_assert_null(strstr(plain.out, " us\n"), "%s", plain.out);
    cr_assert_not_null(strstr(timed.out, " us\n"), "%s", timed.out);
    for (const char *backend = "xnnpack"; backend; backend = strcmp(backend, "xnnpack") == 0 ? "reference" : NULL) {
        struct printed nodes =
            engine(ARGS("bench", "--model", DIGITS, "--runs", "3", "--profile", "--backend", backend));
        cr_assert_not_null(strstr(nodes.out, "Softmax"), "%s has no row per node: %s", backend, nodes.out);
    }
}

Test(tools, run_strict_refuses_a_fallback)
{
    onnx_case("det", &det);
    file_write(path_of("x.bin"), det.in, 16);
    const char *model = path_of("det/model.onnx");
    struct printed p = engine(ARGS("run", "--model", model, "--input", input_of("x.bin"), "--output-dir", folder));
    cr_assert_eq(p.status, 0, "%s", p.err);
    p = engine(ARGS("run", "--model", model, "--input", input_of("x.bin"), "--output-dir", folder, "--backend",
                    "xnnpack", "--strict"));
    cr_assert_eq(p.status, 3, "%s", p.err);
}

Test(tools, bench_prints_its_keys)
{
    struct printed p = engine(ARGS("bench", "--model", DIGITS, "--runs", "7", "--json", "--batch", "4", "--threads",
                                   "2", "--backend", "reference"));
    cJSON *json = json_of(&p);
    expect_keys(json, ARGS("model", "backend", "device", "library", "precision", "threads", "batch", "load_ms",
                           "warmup_ms", "first_run_ms", "start_cpu_ms", "in_flight", "runs", "runs_per_s", "median_ms",
                           "p10_ms", "p90_ms", "min_ms", "before_rss_bytes", "peak_rss_bytes", "weights_bytes",
                           "activations_bytes", "placement", "inputs"));
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "runs")), 7);
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "batch")), 4);
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "threads")), 2);
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(json, "backend")), "reference");
    cr_assert_gt(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "peak_rss_bytes")), 1e6);
    cJSON_Delete(json);
}

/* A CPU takes one at a time and says so. */
Test(tools, bench_keeps_one_run_in_flight_where_the_backend_takes_no_more, .timeout = 60)
{
    struct printed cpu =
        engine(ARGS("bench", "--model", DIGITS, "--runs", "5", "--backend", "reference", "--in-flight", "3"));
    cr_assert_eq(cpu.status, 0, "%s", cpu.err);
    cr_assert_not_null(strstr(cpu.out, "with 1 on their way at a time: the backend takes no more"), "%s", cpu.out);
    cr_assert_eq(engine(ARGS("bench", "--model", DIGITS, "--in-flight", "4")).status, 2);
}

/* On a device as many as are asked for. */
Test(tools, bench_keeps_runs_in_flight, .timeout = 60)
{
    struct printed info = engine(ARGS("info", "--backend", "vulkan", "--vk-allow-software"));
    if (info.status != 0) {
        cr_skip_test("no Vulkan device: %s", info.err);
    }
    struct printed device = engine(ARGS("bench", "--model", DIGITS, "--runs", "20", "--json", "--backend", "vulkan",
                                        "--vk-allow-software", "--in-flight", "3"));
    cr_assert_eq(device.status, 0, "%s", device.err);
    cJSON *json = json_of(&device);
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "in_flight")), 3);
    cr_assert_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "runs")), 20);
    cr_assert_gt(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "runs_per_s")), 0);
    cJSON_Delete(json);
}

/* The shape that input "x" was run with: the run fails when the session does not take it. */
static void expect_shape(const char *const arguments[], const char *shape)
{
    struct printed p = engine(arguments);
    cJSON *json = json_of(&p);
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "inputs"), "x")), shape);
    cJSON_Delete(json);
}

Test(tools, bench_batch_and_shape_change_the_work)
{
    onnx_write_slow(path_of("m.onnx"), 1);
    const char *model = path_of("m.onnx");
    expect_shape(ARGS("bench", "--model", model, "--runs", "3", "--json"), "1x16x64x64");
    expect_shape(ARGS("bench", "--model", model, "--runs", "3", "--json", "--batch", "6"), "6x16x64x64");
    expect_shape(ARGS("bench", "--model", model, "--runs", "3", "--json", "--shape", "x=5x16x64x64"), "5x16x64x64");
    cr_assert_eq(engine(ARGS("bench", "--model", model, "--shape", "y=1x16x64x64")).status, 1);
}

Test(tools, bench_runs_as_long_as_told)
{
    const uint64_t limit_us = 1000u * (uint64_t)support_slow(1900); /* the default is 2 s */
    uint64_t took = UINT64_MAX;
    for (int i = 0; i < 4 && took >= limit_us; i++) { /* a busy machine may hold a start up */
        uint64_t start = support_now_us();
        struct printed p = engine(ARGS("bench", "--model", DIGITS, "--seconds", "300ms", "--json"));
        took = support_now_us() - start;
        cJSON *json = json_of(&p);
        cr_assert_gt(cJSON_GetNumberValue(cJSON_GetObjectItem(json, "runs")), 10);
        cr_assert_gt(took, 300000u);
        cJSON_Delete(json);
    }
    cr_assert_lt(took, limit_us);
    struct printed timed = engine(ARGS("bench", "--model", DIGITS, "--runs", "3", "--profile"));
    struct printed plain = engine(ARGS("bench", "--model", DIGITS, "--runs", "3"));
    cr_assert_not_null(strstr(timed.out, "\n  "), "%s", timed.out);
    for (const char *backend = "xnnpack"; backend; backend = strcmp(backend, "xnnpack") == 0 ? "reference" : NULL) {
        struct printed nodes =
            engine(ARGS("bench", "--model", DIGITS, "--runs", "3", "--profile", "--backend", backend));
        cr_assert_not_null(strstr(nodes.out, "Softmax"), "%s has no row per node: %s", backend, nodes.out);
    }
    cr_assert_null(strstr(plain.out, "\n  "), "%s", plain.out);
    cr_assert_eq(engine(ARGS("bench")).status, 2);
    cr_assert_eq(engine(ARGS("bench", "--model", DIGITS, "--backend", "reference", "--precision", "bf16")).status, 3);
    cr_assert_eq(engine(ARGS("bench", "--model", "/no/such/model.onnx")).status, 1);
}

Test(tools, times_of_nodes_are_in_json_too)
{
    struct printed bench = engine(ARGS("bench", "--model", DIGITS, "--runs", "3", "--profile", "--json"));
    struct printed run = engine(ARGS("run", "--model", DIGITS, "--input",
                                     "image=" PENSTOCK_SOURCE "/deploy/models/digits/samples/03_three.png",
                                     "--output-dir", folder, "--profile", "--json"));
    const struct printed *both[] = {&bench, &run};
    for (int i = 0; i < 2; i++) {
        cJSON *json = json_of(both[i]), *nodes = cJSON_GetObjectItem(json, "nodes");
        double us = 0.0, macs = 0.0;
        for (const cJSON *n = nodes ? nodes->child : NULL; n; n = n->next) {
            us += cJSON_GetNumberValue(cJSON_GetObjectItem(n, "us"));
            macs += cJSON_GetNumberValue(cJSON_GetObjectItem(n, "macs"));
            cr_expect(cJSON_IsString(cJSON_GetObjectItem(n, "node")) && cJSON_IsString(cJSON_GetObjectItem(n, "op")));
        }
        cr_expect(us > 0.0 && macs > 0.0, "%s", both[i]->out);
        cJSON_Delete(json);
    }
    struct printed plain = engine(ARGS("bench", "--model", DIGITS, "--runs", "3", "--json"));
    cr_expect_null(strstr(plain.out, "\"nodes\":"), "%s", plain.out);
}

Test(tools, info_prints_its_keys)
{
    struct printed p = engine(ARGS("info", "--json", "--backend", "reference", "--threads", "3"));
    cr_assert_eq(p.status, 0, "%s", p.err);
    cJSON *json = json_of(&p);
    expect_keys(json, ARGS("version", "chosen", "backends", "flags"));
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(json, "chosen")), "reference");
    const cJSON *flags = cJSON_GetObjectItem(json, "flags");
    expect_keys(flags, ARGS("cpu_isa", "backend.reference", "selftest.reference.f32", "precision", "threads"));
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(flags, "threads")), "3");
    const cJSON *backend = NULL;
    int found = 0;
    cJSON_ArrayForEach(backend, cJSON_GetObjectItem(json, "backends"))
    {
        expect_keys(backend, ARGS("name", "priority", "available", "reason", "device", "library", "precisions"));
        found += strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(backend, "name")), "reference") == 0;
    }
    cr_assert_eq(found, 1);
    cJSON_Delete(json);
    p = engine(ARGS("info"));
    cr_assert_eq(p.status, 0);
    cr_assert_not_null(strstr(p.out, "backends, by priority:"), "%s", p.out);
    cr_assert_eq(engine(ARGS("info", "--backend", "quantum")).status, 3);
    cr_assert_eq(engine(ARGS("info", "--backend", "reference", "--precision", "f16_math")).status, 3);
    cr_assert_eq(engine(ARGS("info", "no-such-model.onnx")).status, 1);
    p = engine(ARGS("info", "--backend", "reference", PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"));
    cr_assert_eq(p.status, 0);
    cr_assert(strstr(p.out, "100.0 % of MACs") != NULL, "%s", p.out);
    cr_assert_eq(engine(ARGS("no_such_command")).status, 2);
    cr_assert_eq(engine(ARGS("--version")).status, 0);
}
