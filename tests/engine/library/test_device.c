/* Results that stay on the device: where they are, what they take there, and who reads them from there. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "onnx_writer.h"
#include "penstock/backends.h"
#include "penstock/env.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define WIDTH     1000

static char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 32];
static struct pen_model *model;
static struct pen_error error;
static uint64_t device_before;

/* y = 3 x + 1, t = x * x, both [n, WIDTH]; k is known without a run. */
static void model_write(void)
{
    static const float three = 3.0f, one = 1.0f;
    struct onnx_writer *g = onnx_writer_new("line");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, DIMS(-1, WIDTH), NULL);
    onnx_writer_constant(g, "three", PEN_DTYPE_F32, 1, DIMS(1), &three, sizeof three);
    onnx_writer_constant(g, "one", PEN_DTYPE_F32, 1, DIMS(1), &one, sizeof one);
    onnx_writer_node(g, "Mul", ONNX_LIST("x", "three"), ONNX_LIST("m"), NULL);
    onnx_writer_node(g, "Add", ONNX_LIST("m", "one"), ONNX_LIST("y"), NULL);
    onnx_writer_node(g, "Mul", ONNX_LIST("x", "x"), ONNX_LIST("t"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, DIMS(-1, WIDTH), NULL);
    onnx_writer_output(g, "t", PEN_DTYPE_F32, 2, DIMS(-1, WIDTH), NULL);
    snprintf(path, sizeof path, "%s/line.onnx", folder);
    onnx_writer_save(g, 17, path);
    onnx_writer_free(g);
}

static uint64_t device_bytes(void)
{
    struct pen_memory memory;
    pen_memory(&memory);
    return memory.device_bytes;
}

static struct pen_tensor_handle *input(int64_t rows)
{
    static float values[4 * WIDTH];
    for (int64_t i = 0; i < rows * WIDTH; i++) {
        values[i] = (float)(i % 37) / 8.0f;
    }
    const struct pen_tensor view = {.dtype = PEN_DTYPE_F32,
                                    .rank = 2,
                                    .dims = {rows, WIDTH},
                                    .data = values,
                                    .bytes = (size_t)rows * WIDTH * sizeof(float)};
    struct pen_tensor_handle *tensor = NULL;
    cr_assert_eq(pen_tensor_new(&view, &tensor, &error), PEN_OK, "%s", error.text);
    return tensor;
}

static void run(struct pen_tensor_handle *x, bool on_device, struct pen_tensor_handle *results[2])
{
    const struct pen_run_options options = {.on_device = on_device};
    cr_assert_eq(pen_model_run(model, &x, 1, &options, results, 2, &error), PEN_OK, "%s", error.text);
}

static void dispose_both(struct pen_tensor_handle *results[2])
{
    pen_tensor_dispose(results[0]);
    pen_tensor_dispose(results[1]);
}

static void open_on(const char *backend)
{
    folder_new(folder);
    model_write();
    struct pen_env *env = NULL;
    cr_assert_eq(pen_env_new(&env, &error), PEN_OK);
    cr_assert_eq(pen_env_assign(env, "vk_allow_software=on", PEN_ORIGIN_FLAG, "a test", &error), PEN_OK);
    cr_assert_eq(pen_env_assign(env, "vk_validate=on", PEN_ORIGIN_FLAG, "a test", &error), PEN_OK);
    cr_assert_eq(pen_backend_configure(env, &error), PEN_OK, "%s", error.text);
    pen_env_free(env);
    if (pen_backend_set(backend, &error) != PEN_OK) {
        folder_free(folder);
        cr_skip("no such device: %s", error.text);
    }
    cr_assert_eq(pen_model_open(path, &model, &error), PEN_OK, "%s", error.text);
    struct pen_tensor_handle *x = input(2), *results[2];
    run(x, false, results); /* the session's own buffers are there from now on */
    float one;
    cr_assert_eq(pen_tensor_read(results[0], &one, 0, &error), PEN_ERR_TOO_LARGE);
    dispose_both(results);
    pen_tensor_dispose(x);
    device_before = device_bytes();
}

static void close_all(void)
{
    struct pen_memory memory;
    pen_model_close(model);
    cr_assert_eq(pen_shutdown(&error), PEN_OK, "%s", error.text);
    pen_memory(&memory);
    cr_expect(memory.tensors == 0 && memory.bytes == 0 && memory.device_bytes == 0);
    folder_free(folder);
}

static void expect_rows(struct pen_tensor_handle *tensor, struct pen_tensor_handle *wanted)
{
    struct pen_tensor view;
    static float got[4 * WIDTH];
    cr_assert_eq(pen_tensor_read(tensor, got, sizeof got, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_tensor_view(wanted, &view, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(memcmp(got, view.data, view.bytes), 0);
}

Test(device, results_stay_in_its_memory_until_they_are_disposed_of)
{
    open_on("vulkan");
    struct pen_tensor_handle *x = input(2), *host[2], *device[2];
    const size_t bytes = 2 * WIDTH * sizeof(float);
    run(x, false, host);
    run(x, true, device);
    cr_expect_eq(pen_tensor_dtype(device[0]), PEN_DTYPE_F32);
    expect_rows(device[0], host[0]);
    expect_rows(device[1], host[1]);
    cr_expect_eq(pen_tensor_place(host[0]), PEN_TENSOR_ON_HOST);
    cr_expect_eq(pen_tensor_place(device[0]), PEN_TENSOR_ON_DEVICE, "also after a read");
    cr_expect_geq(device_bytes(), device_before + 2 * bytes);
    const uint64_t both = device_bytes();
    pen_tensor_dispose(device[0]);
    cr_expect_leq(device_bytes(), both - bytes);
    pen_tensor_dispose(device[1]);
    cr_expect_eq(device_bytes(), device_before);
    dispose_both(host);
    pen_tensor_dispose(x);
    close_all();
}

Test(device, a_view_makes_one_copy_on_the_host)
{
    open_on("vulkan");
    struct pen_tensor_handle *x = input(1), *device[2];
    struct pen_tensor first, second;
    struct pen_memory before, after;
    run(x, true, device);
    cr_assert_eq(pen_tensor_read(device[0], &(float[WIDTH]){0}, WIDTH * sizeof(float), &error), PEN_OK);
    pen_memory(&before);
    cr_assert_eq(pen_tensor_view(device[0], &first, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_tensor_view(device[0], &second, &error), PEN_OK, "%s", error.text);
    pen_memory(&after);
    cr_expect(first.data == second.data && first.bytes == WIDTH * sizeof(float) && first.dims[0] == 1);
    cr_expect_float_eq(((const float *)first.data)[9], 3.0f * 9.0f / 8.0f + 1.0f, 1e-6);
    cr_expect_eq(after.tensor_bytes - before.tensor_bytes, first.bytes);
    dispose_both(device);
    pen_tensor_dispose(x);
    close_all();
}

/* x -> y -> y -> y, with nothing read in between, and the same over the host. */
Test(device, a_later_run_takes_them_from_there)
{
    open_on("vulkan");
    cr_assert_eq(pen_scope_begin(&error), PEN_OK);
    struct pen_tensor_handle *x = input(3), *host[3][2], *device[3][2], *last[2];
    for (int i = 0; i < 3; i++) {
        run(i == 0 ? x : host[i - 1][0], false, host[i]);
        run(i == 0 ? x : device[i - 1][0], true, device[i]);
    }
    for (int i = 2; i >= 0; i--) {
        expect_rows(device[i][0], host[i][0]);
        expect_rows(device[i][1], host[i][1]);
    }
    run(device[0][0], false, last);
    expect_rows(last[0], host[1][0]);
    cr_expect_eq(pen_tensor_place(last[0]), PEN_TENSOR_ON_HOST, "nobody asked for the device");
    cr_assert_eq(pen_scope_end(NULL, 0, &error), PEN_OK);
    close_all();
}

Test(device, a_scope_lets_them_go)
{
    open_on("vulkan");
    struct pen_tensor_handle *results[2];
    cr_assert_eq(pen_scope_begin(&error), PEN_OK);
    run(input(2), true, results);
    cr_assert_eq(pen_tensor_read(results[1], &(float[2 * WIDTH]){0}, sizeof(float[2 * WIDTH]), &error), PEN_OK);
    cr_expect_gt(device_bytes(), device_before);
    cr_assert_eq(pen_scope_end(NULL, 0, &error), PEN_OK);
    cr_expect_eq(device_bytes(), device_before);
    close_all();
}

Test(device, what_is_there_when_its_engine_closes_is_lost_and_said_so)
{
    open_on("vulkan");
    struct pen_tensor_handle *x = input(1), *results[2];
    struct pen_tensor view;
    float row[WIDTH];
    run(x, true, results);
    cr_assert_eq(pen_tensor_view(results[1], &view, &error), PEN_OK, "%s", error.text);
    pen_model_close(model);
    cr_assert_eq(pen_shutdown(&error), PEN_OK, "%s", error.text);
    cr_expect_eq(device_bytes(), 0u);
    cr_expect_eq(pen_tensor_read(results[0], row, sizeof row, &error), PEN_ERR_DEVICE_LOST);
    cr_expect_not_null(strstr(error.text, "lost or closed"), "%s", error.text);
    cr_expect_eq(pen_tensor_read(results[1], row, sizeof row, &error), PEN_OK, "its copy on the host is there");
    dispose_both(results);
    pen_tensor_dispose(x);
    folder_free(folder);
}

/* On a CPU the memory of the host is where they are made: nothing else happens. */
Test(device, a_cpu_keeps_them_on_the_host)
{
    static const char *const backends[] = {"reference", "xnnpack"};
    for (size_t i = 0; i < 2; i++) {
        struct pen_tensor_handle *x, *results[2], *again[2];
        open_on(backends[i]);
        x = input(2);
        run(x, true, results);
        run(results[0], true, again);
        cr_expect_eq(pen_tensor_place(results[0]), PEN_TENSOR_ON_HOST);
        cr_expect_eq(device_bytes(), device_before);
        dispose_both(results);
        dispose_both(again);
        pen_tensor_dispose(x);
        close_all();
    }
}
