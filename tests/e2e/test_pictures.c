/*
 * Files of pictures as jobs, from client through broker to the worker that decodes them: what the network gets, several files in a job, the plain tensor beside
 * them, broken files, the cache, the stage of its own, and the command line.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <penstock/admin.h>
#include <penstock/client.h>

#include "encoders.h"
#include "folder.h"
#include "onnx_writer.h"
#include "pool.h"

#define SIDE 4

static char models[FOLDER_PATH_BYTES];
static struct pool pool;
static int page_port; /* of the worker's own page */
static pen_client *client;
static struct pen_error error;

/* models/NAME: y = x, [N, 3, 4, 4] of f32. */
static void model_write(const char *name, const char *config)
{
    char path[FOLDER_PATH_BYTES + 96];
    struct onnx_writer *w = onnx_writer_new(name);
    const int64_t dims[4] = {-1, 3, SIDE, SIDE};
    onnx_writer_input(w, "x", PEN_DTYPE_F32, 4, dims, ONNX_LIST("N", "", "", ""));
    onnx_writer_node(w, "Relu", ONNX_LIST("x"), ONNX_LIST("y"), NULL);
    onnx_writer_output(w, "y", PEN_DTYPE_F32, 4, dims, ONNX_LIST("N", "", "", ""));
    snprintf(path, sizeof path, "%s/%s/1", models, name);
    folder_make(path);
    snprintf(path, sizeof path, "%s/%s/1/model.onnx", models, name);
    onnx_writer_save(w, 17, path);
    onnx_writer_free(w);
    snprintf(path, sizeof path, "%s/%s/config.json", models, name);
    FILE *out = fopen(path, "w");
    fputs(config, out);
    fclose(out);
}

/* An ensemble without a file: photo -> look -> z. */
static void ensemble_write(void)
{
    char path[FOLDER_PATH_BYTES + 96];
    snprintf(path, sizeof path, "%s/glance", models);
    folder_make(path);
    snprintf(path, sizeof path, "%s/glance/config.json", models);
    FILE *out = fopen(path, "w");
    fputs("{\"platform\": \"ensemble\", \"max_batch_size\": 4, "
          "\"input\": [{\"name\": \"photo\", \"data_type\": \"TYPE_STRING\", \"dims\": []}], "
          "\"output\": [{\"name\": \"z\", \"data_type\": \"TYPE_FP32\", \"dims\": [3, 4, 4]}], "
          "\"ensemble_scheduling\": {\"step\": [{\"model_name\": \"look\", \"input_map\": {\"x\": \"photo\"}, "
          "\"output_map\": {\"y\": \"z\"}}]}}",
          out);
    fclose(out);
}

static void pictures_open(void)
{
    struct pen_client_options options;
    char page[32];
    folder_new(models);
    model_write("look", "{\"max_batch_size\": 8, \"picture\": {\"steps\": [{\"crop\": {\"width\": 4, \"height\": 4}}, "
                        "{\"color\": \"bgr\"}, {\"normalize\": {\"scale\": 0.00392156862745098}}]}}");
    model_write("wide", "{\"max_batch_size\": 8, \"dynamic_batching\": {\"max_queue_delay_microseconds\": 40000}, "
                        "\"picture\": {\"steps\": [{\"crop\": {\"width\": 4, \"height\": 4}}, {\"color\": \"bgr\"}, "
                        "{\"normalize\": {\"scale\": 0.00392156862745098}}]}}");
    model_write("typo", "{\"max_batch_size\": 8, \"picture\": {\"steps\": [{\"blur\": {\"width\": 4}}]}}");
    ensemble_write();
    pool_start(&pool, NULL);
    page_port = port_free();
    snprintf(page, sizeof page, "127.0.0.1:%d", page_port);
    pool_add_worker(&pool, "reference", models, (const char *const[]){"--decoders", "3", "--metrics", page, NULL});
    pen_client_options_init(&options, sizeof options);
    options.endpoint = pool.clients;
    cr_assert_eq(pen_client_connect(&options, &client, &error), PEN_OK, "%s", error.text);
}

static void pictures_close(void)
{
    pen_client_free(client);
    pool_stop(&pool);
    folder_free(models);
}

TestSuite(pictures, .init = pictures_open, .fini = pictures_close, .timeout = 120);

/* A PNG of 4x4 whose pixel i is (first + i, 100, 200). */
static size_t png_of(uint8_t *to, size_t room, uint8_t first)
{
    uint8_t rgb[SIDE * SIDE * 3];
    for (size_t i = 0; i < SIDE * SIDE; i++) {
        memcpy(rgb + 3 * i, (const uint8_t[]){(uint8_t)(first + i), 100, 200}, 3);
    }
    const struct png_ask ask = {SIDE, SIDE, 8, PNG_COLOR_TYPE_RGB, rgb, SIDE * 3, NULL, 0};
    return png_make(to, room, &ask);
}

/* Adds a file to a list of them; returns the bytes used. */
static size_t file_add(uint8_t *list, size_t used, const uint8_t *file, size_t size)
{
    for (size_t i = 0; i < 4; i++) {
        list[used + i] = (uint8_t)(size >> (8 * i));
    }
    memcpy(list + used + 4, file, size);
    return used + 4 + size;
}

static struct pen_tensor files(const uint8_t *list, size_t used, int64_t count)
{
    return (struct pen_tensor){
        .name = "x", .dtype = PEN_DTYPE_STRING, .rank = 1, .dims = {count}, .data = list, .bytes = used};
}

static enum pen_status run_model(const char *model, struct pen_tensor x, pen_result **ret_result)
{
    struct pen_job_options job;
    pen_job_options_init(&job, sizeof job);
    job.model = model;
    job.inputs = &x;
    job.inputs_count = 1;
    job.deadline_us = 30000000;
    error = (struct pen_error){0};
    *ret_result = NULL;
    return pen_client_run(client, &job, ret_result, &error);
}

static enum pen_status run(struct pen_tensor x, pen_result **ret_result)
{
    return run_model("look", x, ret_result);
}

/* Blue first, as planes, 0 to 1. */
static void expect(const pen_result *result, size_t row, uint8_t first)
{
    const struct pen_tensor *y = pen_result_output(result, 0);
    const float *at = (const float *)y->data + row * 3 * SIDE * SIDE;
    for (size_t i = 0; i < SIDE * SIDE; i++) {
        cr_assert_float_eq(at[i], 200.0f / 255.0f, 1e-6);
        cr_assert_float_eq(at[2 * SIDE * SIDE + i], (float)(first + i) / 255.0f, 1e-6);
    }
}

Test(pictures, files_become_rows_and_the_plain_tensor_is_taken_still)
{
    uint8_t list[4096], file[1024];
    static const float plain[3 * SIDE * SIDE] = {0.5f};
    size_t used = 0;
    pen_result *result;
    for (uint8_t i = 0; i < 3; i++) {
        used = file_add(list, used, file, png_of(file, sizeof file, (uint8_t)(10 * i)));
    }
    cr_assert_eq(run(files(list, used, 3), &result), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_result_output(result, 0)->dims[0], 3);
    for (uint8_t i = 0; i < 3; i++) {
        expect(result, i, (uint8_t)(10 * i));
    }
    cr_assert_gt(pen_result_info(result)->decode_us, 0);
    pen_result_free(result);
    size_t size = png_of(file, sizeof file, 77);
    struct pen_tensor one = {
        .name = "x", .dtype = PEN_DTYPE_U8, .rank = 1, .dims = {(int64_t)size}, .data = file, .bytes = size};
    cr_assert_eq(run(one, &result), PEN_OK, "%s", error.text);
    expect(result, 0, 77);
    pen_result_free(result);
    one = (struct pen_tensor){.name = "x",
                              .dtype = PEN_DTYPE_F32,
                              .rank = 4,
                              .dims = {1, 3, SIDE, SIDE},
                              .data = plain,
                              .bytes = sizeof plain};
    cr_assert_eq(run(one, &result), PEN_OK, "%s", error.text);
    cr_assert_eq(((const float *)pen_result_output(result, 0)->data)[0], 0.5f);
    cr_assert_eq(pen_result_info(result)->decode_us, 0);
    pen_result_free(result);
}

Test(pictures, a_broken_file_is_the_error_of_its_job_alone)
{
    uint8_t list[4096], file[1024];
    pen_result *result;
    size_t size = png_of(file, sizeof file, 1);
    size_t used = file_add(list, file_add(list, 0, file, size), file, size - 30);
    cr_assert_eq(run(files(list, used, 2), &result), PEN_ERR_CORRUPT);
    cr_assert(strstr(error.text, "picture 1 of input 'x'") && strstr(error.text, "PNG"), "%s", error.text);
    used = file_add(list, 0, (const uint8_t *)"hello", 5);
    cr_assert_eq(run(files(list, used, 1), &result), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "no picture"), "%s", error.text);
    for (int i = 0; i < 9; i++) { /* more than the model's batch */
        used = file_add(list, i ? used : 0, file, size);
    }
    cr_assert_eq(run(files(list, used, 9), &result), PEN_ERR_SHAPE, "%s", error.text);
    cr_assert_eq(run(files(list, file_add(list, 0, file, size), 1), &result), PEN_OK, "%s", error.text);
    expect(result, 0, 1);
    pen_result_free(result);
}

Test(pictures, a_step_of_an_ensemble_takes_files)
{
    uint8_t list[4096], file[1024];
    pen_result *result;
    size_t used = file_add(list, 0, file, png_of(file, sizeof file, 30));
    used = file_add(list, used, file, png_of(file, sizeof file, 60));
    struct pen_tensor photo = files(list, used, 2);
    photo.name = "photo";
    cr_assert_eq(run_model("glance", photo, &result), PEN_OK, "%s", error.text);
    expect(result, 0, 30);
    expect(result, 1, 60);
    cr_assert_gt(pen_result_info(result)->decode_us, 0);
    pen_result_free(result);
    photo = files(list, file_add(list, 0, (const uint8_t *)"no", 2), 1);
    photo.name = "photo";
    cr_assert_eq(run_model("glance", photo, &result), PEN_ERR_INVALID);
    cr_assert(strstr(error.text, "step 1") && strstr(error.text, "no picture"), "%s", error.text);
}

Test(pictures, the_cache_goes_by_the_bytes_of_the_file)
{
    uint8_t list[2048], file[1024];
    pen_result *result;
    for (int i = 0; i < 4; i++) {
        size_t used = file_add(list, 0, file, png_of(file, sizeof file, i == 3 ? 9 : 5));
        cr_assert_eq(run(files(list, used, 1), &result), PEN_OK, "%s", error.text);
        cr_assert_eq(pen_result_info(result)->cached, i == 1 || i == 2, "answer %d", i);
        expect(result, 0, i == 3 ? 9 : 5);
        pen_result_free(result);
    }
}

/* Threads of the worker whose name begins so. */
static unsigned threads_named(const char *name)
{
    char path[512], text[32];
    unsigned found = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)process_pid(pool.workers[0]));
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/comm", (int)process_pid(pool.workers[0]), entry->d_name);
        FILE *file = fopen(path, "r");
        found += file && fgets(text, sizeof text, file) && strncmp(text, name, strlen(name)) == 0;
        if (file) {
            fclose(file);
        }
    }
    closedir(tasks);
    return found;
}

Test(pictures, the_slot_does_not_wait_for_the_decoders)
{
    enum { LARGE = 2600 };
    static const float plain[3 * SIDE * SIDE] = {0.5f};
    size_t room = (size_t)LARGE * LARGE * 4;
    uint8_t *list = malloc(room), *pixels = malloc((size_t)LARGE * LARGE * 3);
    pen_result *result;
    for (size_t i = 0; i < (size_t)LARGE * LARGE * 3; i++) {
        pixels[i] = (uint8_t)(i / 61 % 200);
    }
    const struct jpeg_ask ask = {LARGE, LARGE, 3, 0, true, false, pixels};
    size_t size = jpeg_make(list + 4, room - 4, &ask);
    for (size_t i = 0; i < 4; i++) {
        list[i] = (uint8_t)(size >> (8 * i));
    }
    struct pen_tensor large = files(list, size + 4, 1);
    struct pen_job_options job;
    pen_job_options_init(&job, sizeof job);
    job.model = "look";
    job.inputs = &large;
    job.inputs_count = 1;
    job.deadline_us = 60000000;
    cr_assert_eq(threads_named("decoder-"), 0, "none before the first picture");
    pen_job *slow = NULL;
    cr_assert_eq(pen_client_submit(client, &job, &slow, &error), PEN_OK, "%s", error.text);
    for (int i = 0; i < 20000 && threads_named("decoder-") < 3; i++) { /* they are made one after the other */
        support_sleep_ms(1);
    }
    cr_assert_eq(threads_named("decoder-"), 3, "as many as --decoders says");
    struct pen_tensor one = {.name = "x",
                             .dtype = PEN_DTYPE_F32,
                             .rank = 4,
                             .dims = {1, 3, SIDE, SIDE},
                             .data = plain,
                             .bytes = sizeof plain};
    cr_assert_eq(run(one, &result), PEN_OK, "%s", error.text);
    cr_assert(!pen_job_poll(slow), "the plain job passed the picture by");
    pen_result_free(result);
    cr_assert_eq(pen_job_wait(slow, 60000000, &result, &error), PEN_OK);
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    const struct pen_result_info *info = pen_result_info(result);
    cr_assert(info->decode_us > 10000 && info->compute_us < info->decode_us, "decode %llu us, compute %llu us",
              (unsigned long long)info->decode_us, (unsigned long long)info->compute_us);
    pen_result_free(result);
    pen_job_free(slow);
    free(list);
    free(pixels);
}

/* A number of the worker's page. */
static long counted(const char *name)
{
    static char text[65536];
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)page_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const char ask[] = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    char line[96];
    size_t used = 0;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    cr_assert_eq(write(fd, ask, sizeof ask - 1), (ssize_t)sizeof ask - 1);
    for (ssize_t got; used < sizeof text - 1 && (got = read(fd, text + used, sizeof text - 1 - used)) > 0;) {
        used += (size_t)got;
    }
    close(fd);
    text[used] = '\0';
    snprintf(line, sizeof line, "\npenstock_worker_%s ", name);
    const char *at = strstr(text, line);
    cr_assert_not_null(at, "%s is not in %s", name, text);
    return strtol(at + strlen(line), NULL, 10);
}

static pen_job *file_submit(const uint8_t *list, size_t used, int64_t count)
{
    struct pen_tensor x = files(list, used, count);
    struct pen_job_options job;
    pen_job *submitted = NULL;
    pen_job_options_init(&job, sizeof job);
    job.model = "wide";
    job.inputs = &x;
    job.inputs_count = 1;
    job.deadline_us = 60000000;
    cr_assert_eq(pen_client_submit(client, &job, &submitted, &error), PEN_OK, "%s", error.text);
    return submitted;
}

static pen_job *large_submit(uint8_t *list, size_t room)
{
    enum { LARGE = 4200, ROWS = 2 }; /* with six small ones it fills the batch: one dispatch has them all */
    uint8_t *pixels = malloc((size_t)LARGE * LARGE * 3), *file = malloc(room / ROWS);
    for (size_t i = 0; i < (size_t)LARGE * LARGE * 3; i++) {
        pixels[i] = (uint8_t)(i / 61 % 200);
    }
    const struct jpeg_ask ask = {LARGE, LARGE, 3, 0, true, false, pixels};
    size_t size = jpeg_make(file, room / ROWS - 4, &ask), used = 0;
    for (int i = 0; i < ROWS; i++) {
        used = file_add(list, used, file, size);
    }
    free(pixels);
    free(file);
    return file_submit(list, used, ROWS);
}

Test(pictures, one_slow_file_holds_up_nobody_and_what_is_ready_runs_together)
{
    enum { QUICK = 6, BROKEN = 2 };
    static const size_t room = (size_t)64 * 1024 * 1024;
    uint8_t list[QUICK][1024], file[1024], *large = malloc(room);
    pen_job *quick[QUICK], *slow = large_submit(large, room);
    pen_result *result;
    uint32_t together = 0;
    for (uint8_t i = 0; i < QUICK; i++) {
        size_t size = png_of(file, sizeof file, (uint8_t)(10 * i));
        quick[i] = file_submit(list[i], file_add(list[i], 0, file, i == BROKEN ? size - 30 : size), 1);
    }
    for (uint8_t i = 0; i < QUICK; i++) {
        cr_assert_eq(pen_job_wait(quick[i], 60000000, &result, &error), PEN_OK);
        cr_assert_eq(pen_result_status(result), i == BROKEN ? PEN_ERR_CORRUPT : PEN_OK, "%s", pen_result_error(result));
        if (i != BROKEN) {
            expect(result, 0, (uint8_t)(10 * i));
            together += pen_result_info(result)->batch_size > 1;
        }
        pen_result_free(result);
        pen_job_free(quick[i]);
    }
    cr_assert(!pen_job_poll(slow), "they did not wait for the slow one");
    cr_assert_geq(together, 4, "%u of 5 ran with others", together);
    cr_assert_eq(pen_job_wait(slow, 60000000, &result, &error), PEN_OK);
    cr_assert_eq(pen_result_status(result), PEN_OK, "%s", pen_result_error(result));
    cr_assert_eq(pen_result_info(result)->batch_size, 1, "a batch of %u, decoded in %llu us",
                 pen_result_info(result)->batch_size, (unsigned long long)pen_result_info(result)->decode_us);
    pen_result_free(result);
    pen_job_free(slow);
    cr_assert_eq(counted("jobs_joined_total"), together);
    cr_assert_leq(counted("batches_total"), 7 - (long)together + (long)together / 2);
    free(large);
}

Test(pictures, penstock_submits_a_file_and_lists_what_takes_files)
{
    uint8_t bytes[1024];
    char path[FOLDER_PATH_BYTES + 32], *out = NULL, *err = NULL;
    snprintf(path, sizeof path, "%s/photo.png", models);
    FILE *file = fopen(path, "wb");
    fwrite(bytes, 1, png_of(bytes, sizeof bytes, 3), file);
    fclose(file);
    cr_assert_eq(pool_cli(&pool, "submit", (const char *const[]){"look", path, "--json", NULL}, &out, &err), 0, "%s",
                 err);
    cr_assert(strstr(out, "\"decode_us\""), "%s", out);
    free(out);
    free(err);
    cr_assert_eq(pool_cli(&pool, "models", (const char *const[]){"--json", NULL}, &out, &err), 0, "%s", err);
    cr_assert(strstr(out, "\"pictures\":true") || strstr(out, "\"pictures\": true"), "%s", out);
    cr_assert(strstr(out, "there is no step 'blur'; the steps are resize, crop, color, normalize, layout, dtype"), "%s",
              out);
    free(out);
    free(err);
}
