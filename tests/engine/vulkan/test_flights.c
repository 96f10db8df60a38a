/* Several runs of a session on their way, through the engine: submit, await, and what is refused meanwhile. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/loader.h"
#include "device.h"
#include "folder.h"
#include "onnx_file.h"
#include "run/session_values.h"

#define WIDTH 64
#define RUNS  24

struct fixture {
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session, *plain; /* plain: what one run at a time says */
    struct pen_error error;
    float x[WIDTH];
    struct pen_tensor in;
    const struct pen_tensor *out;
    size_t out_count;
};

/* y = last(sin(x w)), and with `late` + x. */
static void model_write(const char *path, const char *last, bool late)
{
    static float w[WIDTH * WIDTH];
    for (size_t i = 0; i < WIDTH * WIDTH; i++) {
        w[i] = (float)(i * 37 % 101) / 1000.0f - 0.05f;
    }
    const struct onnx_node nodes[] = {{.op = "MatMul", .inputs = {"x", "w"}, .outputs = {"a"}},
                                      {.op = "Sin", .inputs = {"a"}, .outputs = {"b"}},
                                      {.op = last, .inputs = {"b"}, .outputs = {late ? "c" : "y"}},
                                      {.op = "Add", .inputs = {"c", "x"}, .outputs = {"y"}}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {1, WIDTH}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {1, WIDTH}, .rank = 2};
    const struct onnx_value weight = {
        .name = "w", .dtype = PEN_DTYPE_F32, .dims = {WIDTH, WIDTH}, .rank = 2, .data = w};
    const struct onnx_model model = {.nodes = nodes,
                                     .nodes_count = late ? 4 : 3,
                                     .inputs = &in,
                                     .inputs_count = 1,
                                     .outputs = &out,
                                     .outputs_count = 1,
                                     .weights = &weight,
                                     .weights_count = 1};
    onnx_write(path, &model);
}

/* Loads what lies at f->path. */
static void fixture_open(struct fixture *f, const char *backend)
{
    struct pen_engine_options options;
    pen_engine_options_init(&options);
    options.backend = backend;
    options.weigh_crossings = false; /* models so small that no part of them is worth its way */
    options.vulkan = (struct pen_vulkan_options){.allow_software = true, .validate = true, .in_flight = 2};
    cr_assert_eq(pen_engine_new(&options, &f->engine, &f->error), PEN_OK, "%s", f->error.text);
    cr_assert_eq(pen_model_load(f->engine, f->path, &f->model, &f->error), PEN_OK, "%s", f->error.text);
    cr_assert_eq(pen_session_new(f->model, &f->session, &f->error), PEN_OK, "%s", f->error.text);
    cr_assert_eq(pen_session_new(f->model, &f->plain, &f->error), PEN_OK, "%s", f->error.text);
    f->in = (struct pen_tensor){
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, WIDTH}, .data = f->x, .bytes = sizeof f->x};
}

static void fixture_init(struct fixture *f, const char *backend, const char *last, bool late)
{
    memset(f, 0, sizeof *f);
    if (strcmp(backend, "vulkan") == 0) {
        device_close(device_open(PEN_PRECISION_F32, "simple")); /* skips without a device */
    }
    folder_new(f->folder);
    snprintf(f->path, sizeof f->path, "%s/model.onnx", f->folder);
    model_write(f->path, last, late);
    fixture_open(f, backend);
}

static void fixture_fini(struct fixture *f)
{
    pen_session_free(f->session);
    pen_session_free(f->plain);
    pen_model_free(f->model);
    pen_engine_free(f->engine);
    folder_free(f->folder);
}

static const float *x_of(struct fixture *f, int k)
{
    for (int i = 0; i < WIDTH; i++) {
        f->x[i] = (float)((i * 7 + k * 13) % 17) / 10.0f - 0.8f;
    }
    return f->x;
}

static enum pen_status submit(struct fixture *f, int k, const struct pen_stop *stop)
{
    size_t bytes = 0;
    enum pen_status status = pen_session_bind(f->session, &f->in, 1, &f->error);
    if (status != PEN_OK) {
        return status;
    }
    void *to = pen_session_input(f->session, 0, &bytes);
    cr_assert_eq(bytes, sizeof f->x);
    memcpy(to, x_of(f, k), sizeof f->x);
    return pen_session_submit(f->session, stop, &f->error);
}

static enum pen_status await(struct fixture *f)
{
    return pen_session_await(f->session, UINT64_MAX, &f->out, &f->out_count, &f->error);
}

static void await_right(struct fixture *f, int k)
{
    const struct pen_tensor *plain = NULL;
    size_t count = 0;
    float got[WIDTH];
    cr_assert_eq(await(f), PEN_OK, "%s", f->error.text);
    memcpy(got, f->out[0].data, sizeof got);
    x_of(f, k);
    cr_assert_eq(pen_session_run(f->plain, &f->in, 1, NULL, &plain, &count, &f->error), PEN_OK, "%s", f->error.text);
    cr_assert_eq(memcmp(got, plain[0].data, sizeof got), 0, "run %d", k);
}

/* Pushes RUNS runs through a window. */
static void interleave(struct fixture *f, uint32_t window)
{
    uint32_t sent = 0, seen = 0;
    cr_assert_eq(pen_session_bind(f->session, &f->in, 1, &f->error), PEN_OK);
    cr_assert_eq(pen_session_window(f->session), window, "%s", pen_model_placement(f->model));
    while (seen < RUNS) {
        while (sent < RUNS && sent - seen < window) {
            cr_assert_eq(submit(f, (int)sent++, NULL), PEN_OK, "%s", f->error.text);
        }
        cr_assert_eq(pen_session_in_flight(f->session), sent - seen);
        if (sent - seen == window) {
            cr_assert_eq(submit(f, -1, NULL), PEN_ERR_BUSY);
        }
        cr_assert_eq(pen_session_run(f->session, &f->in, 1, NULL, &f->out, &f->out_count, &f->error), PEN_ERR_BUSY);
        cr_assert_eq(pen_session_warm(f->session, &f->in, 1, NULL, NULL, &f->error), PEN_ERR_BUSY);
        await_right(f, (int)seen++);
    }
    cr_assert_eq(await(f), PEN_ERR_INVALID, "nothing is on its way");
    cr_assert_eq(submit(f, 3, NULL), PEN_OK);
    await_right(f, 3);
}

Test(vulkan_flights, runs_on_their_way_have_their_own_answers, .timeout = 110)
{
    struct fixture f;
    fixture_init(&f, "vulkan", "Softmax", false);
    interleave(&f, 2);
    cr_assert_geq(vk_backend_in_flight_most(device_of(f.engine)), 2u);
    fixture_fini(&f);
}

/* What follows the device's part runs when the run is awaited; a later step that reads an input allows no run ahead. No device takes Trilu here; where one did, all
 * would be one step. */
Test(vulkan_flights, other_steps_run_at_the_await, .timeout = 110)
{
    struct fixture f;
    fixture_init(&f, "vulkan", "Trilu", false);
    interleave(&f, 2);
    fixture_fini(&f);
    fixture_init(&f, "vulkan", "Trilu", true);
    interleave(&f, strstr(pen_model_placement(f.model), "vulkan 4/4") == NULL ? 1 : 2);
    fixture_fini(&f);
}

/* y = sin(x) on the device, then z = trilu(x) beside it. */
static void beside_write(const char *path)
{
    const struct onnx_node nodes[] = {{.op = "Sin", .inputs = {"x"}, .outputs = {"y"}},
                                      {.op = "Trilu", .inputs = {"x"}, .outputs = {"z"}}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {1, WIDTH}, .rank = 2};
    const struct onnx_value out[] = {{.name = "y", .dtype = PEN_DTYPE_F32, .dims = {1, WIDTH}, .rank = 2},
                                     {.name = "z", .dtype = PEN_DTYPE_F32, .dims = {1, WIDTH}, .rank = 2}};
    onnx_write(
        path,
        &(struct onnx_model){
            .nodes = nodes, .nodes_count = 2, .inputs = &in, .inputs_count = 1, .outputs = out, .outputs_count = 2});
}

/* The step right behind the first reads the input: another run may not overwrite it. */
Test(vulkan_flights, a_second_step_that_reads_an_input_allows_no_run_ahead, .timeout = 110)
{
    struct fixture f = {.folder = ""};
    device_close(device_open(PEN_PRECISION_F32, "simple")); /* skips without a device */
    folder_new(f.folder);
    snprintf(f.path, sizeof f.path, "%s/model.onnx", f.folder);
    beside_write(f.path);
    fixture_open(&f, "vulkan");
    interleave(&f, strstr(pen_model_placement(f.model), "vulkan 2/2") == NULL ? 1 : 2);
    fixture_fini(&f);
}

Test(vulkan_flights, a_backend_on_the_cpu_takes_one_at_a_time, .timeout = 60)
{
    struct fixture f;
    fixture_init(&f, "reference", "Softmax", false);
    interleave(&f, 1);
    fixture_fini(&f);
}

Test(vulkan_flights, a_run_with_nothing_on_the_device_runs_when_it_is_awaited, .timeout = 60)
{
    struct fixture f;
    fixture_init(&f, "vulkan", "Softmax", false);
    pen_session_profile(f.session, true); /* the time of one run at a time */
    interleave(&f, 1);
    fixture_fini(&f);
}

static VkResult VKAPI_CALL slow_wait(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    (void)device;
    (void)info;
    (void)timeout;
    return VK_TIMEOUT;
}

Test(vulkan_flights, an_await_may_give_up_and_come_back, .timeout = 110)
{
    struct fixture f;
    fixture_init(&f, "vulkan", "Softmax", false);
    struct vk_functions *vk = vk_backend_functions(device_of(f.engine));
    cr_assert_eq(submit(&f, 1, NULL), PEN_OK);
    cr_assert_eq(submit(&f, 2, NULL), PEN_OK);
    PFN_vkWaitSemaphores real = vk->WaitSemaphores;
    vk->WaitSemaphores = slow_wait;
    for (uint64_t timeout_us = 0; timeout_us <= 1000; timeout_us += 500) {
        cr_assert_eq(pen_session_await(f.session, timeout_us, &f.out, &f.out_count, &f.error), PEN_ERR_TIMEOUT);
        cr_assert_eq(pen_session_in_flight(f.session), 2u);
    }
    vk->WaitSemaphores = real;
    await_right(&f, 1);
    await_right(&f, 2);
    fixture_fini(&f);
}

Test(vulkan_flights, one_of_two_is_stopped, .timeout = 110)
{
    struct fixture f;
    struct pen_stop *stop = pen_stop_new();
    cr_assert_not_null(stop);
    fixture_init(&f, "vulkan", "Softmax", false);
    for (int k = 0; k < 4; k++) {
        pen_stop_arm(stop, k % 2 == 0 ? UINT64_MAX : 1);
        cr_assert_eq(submit(&f, k, stop), PEN_OK);
        cr_assert_eq(submit(&f, k + 1, NULL), PEN_OK);
        if (k % 2 == 0) {
            pen_stop_now(stop);
        }
        enum pen_status status = await(&f);
        if (k % 2 == 0) { /* it may have been over when the stop came */
            cr_assert(status == PEN_ERR_CANCELLED || status == PEN_OK, "%s", pen_status_name(status));
        } else {
            cr_assert_eq(status, PEN_ERR_DEADLINE);
        }
        await_right(&f, k + 1);
    }
    fixture_fini(&f);
    pen_stop_free(stop);
}

/* ---- steps beside the device ---- */

/* a = sin(x w) on the device; b = trilu(x) beside it; with `late` c = trilu(a) behind it, else c = a; y = b + c. */
static void beside_init(struct fixture *f, const char *backend, bool late)
{
    static float w[WIDTH * WIDTH];
    for (size_t i = 0; i < WIDTH * WIDTH; i++) {
        w[i] = (float)(i * 37 % 101) / 1000.0f - 0.05f;
    }
    const struct onnx_node nodes[] = {{.op = "Trilu", .inputs = {"x"}, .outputs = {"b"}},
                                      {.op = "MatMul", .inputs = {"x", "w"}, .outputs = {"p"}},
                                      {.op = "Sin", .inputs = {"p"}, .outputs = {"a"}},
                                      {.op = "Add", .inputs = {"b", late ? "c" : "a"}, .outputs = {"y"}},
                                      {.op = "Trilu", .inputs = {"a"}, .outputs = {"c"}}};
    const struct onnx_node in_order[] = {nodes[0], nodes[1], nodes[2], late ? nodes[4] : nodes[3], nodes[3]};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {1, WIDTH}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {1, WIDTH}, .rank = 2};
    const struct onnx_value weight = {
        .name = "w", .dtype = PEN_DTYPE_F32, .dims = {WIDTH, WIDTH}, .rank = 2, .data = w};
    const struct onnx_model model = {.nodes = in_order,
                                     .nodes_count = late ? 5 : 4,
                                     .inputs = &in,
                                     .inputs_count = 1,
                                     .outputs = &out,
                                     .outputs_count = 1,
                                     .weights = &weight,
                                     .weights_count = 1};
    memset(f, 0, sizeof *f);
    if (strcmp(backend, "vulkan") == 0) {
        device_close(device_open(PEN_PRECISION_F32, "simple")); /* skips without a device */
    }
    folder_new(f->folder);
    snprintf(f->path, sizeof f->path, "%s/model.onnx", f->folder);
    onnx_write(f->path, &model);
    fixture_open(f, backend);
}

/* The bytes of its answer; the status is what a run gives. */
static enum pen_status beside_run(struct fixture *f, int k, const struct pen_stop *stop, float *y)
{
    x_of(f, k);
    enum pen_status status = pen_session_run(f->session, &f->in, 1, stop, &f->out, &f->out_count, &f->error);
    if (status == PEN_OK) {
        memcpy(y, f->out[0].data, WIDTH * sizeof *y);
    }
    return status;
}

static void beside_right(struct fixture *f, struct fixture *plain, int k)
{
    float y[WIDTH], expected[WIDTH];
    cr_assert_eq(beside_run(f, k, NULL, y), PEN_OK, "%s", f->error.text);
    cr_assert_eq(beside_run(plain, k, NULL, expected), PEN_OK, "%s", plain->error.text);
    for (int i = 0; i < WIDTH; i++) {
        cr_assert_float_eq(y[i], expected[i], 1e-5f, "run %d, %d: %g, not %g", k, i, (double)y[i], (double)expected[i]);
    }
}

/* What does not read the device's result runs while it computes, and waits for nothing. Where the device needs it, it comes before: one partition less. */
Test(vulkan_flights, steps_on_the_cpu_run_beside_the_device, .timeout = 110)
{
    for (int late = 0; late < 2; late++) {
        const uint64_t expected = late != 0 ? 5 : 0;
        struct fixture f, plain;
        beside_init(&plain, "reference", late != 0);
        beside_init(&f, "vulkan", late != 0);
        for (int k = 0; k < 5; k++) {
            beside_right(&f, &plain, k);
        }
        cr_expect_eq(session_steps_beside(f.session), expected, "%s", pen_model_placement(f.model));
        pen_session_profile(f.session, true); /* each step has its own time: one after the other */
        beside_right(&f, &plain, 7);
        cr_expect_eq(session_steps_beside(f.session), expected);
        fixture_fini(&f);
        fixture_fini(&plain);
    }
}

static PFN_vkWaitSemaphores wait_before;

static VkResult VKAPI_CALL wait_lost(VkDevice device, const VkSemaphoreWaitInfo *info, uint64_t timeout)
{
    wait_before(device, info, timeout); /* the work is done all the same: nothing of ours is freed under it */
    return VK_ERROR_DEVICE_LOST;
}

/* A run that is stopped or loses its device with a step on its way leaves none behind: the next one is right. */
Test(vulkan_flights, a_run_that_ends_early_leaves_no_step_on_its_way, .timeout = 110)
{
    struct fixture f, plain;
    struct pen_stop *stop = pen_stop_new();
    float y[WIDTH];
    cr_assert_not_null(stop);
    beside_init(&plain, "reference", true);
    beside_init(&f, "vulkan", true);
    beside_right(&f, &plain, 1);
    pen_stop_arm(stop, UINT64_MAX);
    pen_stop_now(stop);
    cr_expect_eq(beside_run(&f, 2, stop, y), PEN_ERR_CANCELLED);
    beside_right(&f, &plain, 3);
    struct vk_functions *vk = vk_backend_functions(device_of(f.engine));
    wait_before = vk->WaitSemaphores;
    vk->WaitSemaphores = wait_lost;
    cr_expect_eq(beside_run(&f, 4, NULL, y), PEN_ERR_DEVICE_LOST, "%s", f.error.text);
    beside_right(&f, &plain, 5);
    cr_expect_eq(vk_backend_losses(device_of(f.engine)), 1u);
    fixture_fini(&f);
    fixture_fini(&plain);
    pen_stop_free(stop);
}
