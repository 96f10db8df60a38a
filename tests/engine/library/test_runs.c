/* Runs with tensors, asynchronous reads, and the backend of the process (penstock/backends.h). */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "onnx_file.h"
#include "onnx_writer.h"
#include "penstock/backends.h"

static char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 32];
static struct pen_model *model;
static struct pen_error error;

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* y = x * x, z = [rows with a number above 0]: how many, only the data decide */
static void model_write(void)
{
    struct onnx_writer *g = onnx_writer_new("squares");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, DIMS(-1), NULL);
    onnx_writer_node(g, "Mul", ONNX_LIST("x", "x"), ONNX_LIST("y"), NULL);
    onnx_writer_node(g, "NonZero", ONNX_LIST("x"), ONNX_LIST("z"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, DIMS(-1), NULL);
    onnx_writer_output(g, "z", PEN_DTYPE_I64, 2, DIMS(1, -1), NULL);
    onnx_writer_save(g, 17, path);
    onnx_writer_free(g);
}

static void open_squares(void)
{
    folder_new(folder);
    snprintf(path, sizeof path, "%s/squares.onnx", folder);
    model_write();
    cr_assert_eq(pen_backend_set("reference", &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_model_open(path, &model, &error), PEN_OK, "%s", error.text);
}

static void close_squares(void)
{
    struct pen_memory memory;
    pen_model_close(model);
    cr_assert_eq(pen_shutdown(&error), PEN_OK, "%s", error.text);
    pen_memory(&memory);
    cr_assert(memory.tensors == 0 && memory.bytes == 0 && memory.sessions == 0 && memory.models == 0);
    folder_free(folder);
}

TestSuite(runs, .init = open_squares, .fini = close_squares);

static struct pen_tensor_handle *tensor_of(const char *name, const float *values, int64_t count)
{
    const struct pen_tensor view = {.name = name,
                                    .dtype = PEN_DTYPE_F32,
                                    .rank = 1,
                                    .dims = {count},
                                    .data = values,
                                    .bytes = (size_t)count * sizeof *values};
    struct pen_tensor_handle *tensor = NULL;
    cr_assert_eq(pen_tensor_new(&view, &tensor, &error), PEN_OK, "%s", error.text);
    return tensor;
}

static void dispose(struct pen_tensor_handle *const *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pen_tensor_dispose(tensors[i]);
    }
}

static void expect_square(struct pen_tensor_handle *y, float first)
{
    struct pen_tensor view;
    cr_assert_eq(pen_tensor_view(y, &view, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(view.dtype, PEN_DTYPE_F32);
    cr_assert_str_eq(view.name, "y");
    cr_assert_float_eq(((const float *)view.data)[0], first * first, 1e-6);
}

Test(runs, results_are_tensors)
{
    const float values[3] = {3, 0, -2};
    struct pen_tensor_handle *x = tensor_of("x", values, 3), *out[2];
    struct pen_tensor view;
    cr_assert_eq(pen_model_run(model, &x, 1, NULL, out, 2, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_tensor_place(out[0]), PEN_TENSOR_ON_HOST, "a CPU computes within the call");
    expect_square(out[0], 3);
    cr_assert_eq(pen_tensor_view(out[1], &view, &error), PEN_OK);
    cr_assert(view.rank == 2 && view.dims[0] == 1 && view.dims[1] == 2 && view.dtype == PEN_DTYPE_I64);
    cr_assert(((const int64_t *)view.data)[0] == 0 && ((const int64_t *)view.data)[1] == 2);
    /* A result of one run is an input of another: its name, y, is no input's. */
    struct pen_tensor_handle *again[2];
    cr_assert_eq(pen_model_run(model, out, 1, NULL, again, 2, &error), PEN_OK, "%s", error.text);
    expect_square(again[0], 9);
    dispose(out, 2);
    dispose(again, 2);
    pen_tensor_dispose(x);
}

Test(runs, results_belong_to_the_scope)
{
    const float values[1] = {2};
    struct pen_tensor_handle *out[2];
    struct pen_memory memory;
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(pen_scope_begin(NULL), PEN_OK);
        struct pen_tensor_handle *x = tensor_of(NULL, values, 1);
        cr_assert_eq(pen_model_run(model, &x, 1, NULL, out, 2, &error), PEN_OK, "%s", error.text);
        cr_assert_eq(pen_scope_end(out, 1, NULL), PEN_OK);
        pen_memory(&memory);
        cr_assert_eq(memory.tensors, 1);
        expect_square(out[0], 2);
        pen_tensor_dispose(out[0]);
    }
}

Test(runs, refusals_make_nothing)
{
    const float values[2] = {1, 2};
    const struct pen_tensor wrong = {.dtype = PEN_DTYPE_I32, .rank = 1, .dims = {2}, .data = values, .bytes = 8};
    struct pen_tensor_handle *x = tensor_of("wrong", values, 2), *other = NULL, *none = NULL, *out[3] = {x, x, x};
    struct pen_memory before, after;
    cr_assert_eq(pen_tensor_new(&wrong, &other, NULL), PEN_OK);
    pen_memory(&before);
    cr_assert_eq(pen_model_run(model, &x, 1, NULL, out, 3, &error), PEN_ERR_INVALID);
    cr_assert_str_eq(error.text, "the model takes 1 input and gives 2 outputs, not 1 and 3");
    cr_assert(out[0] == NULL && out[2] == NULL);
    cr_assert_eq(pen_model_run(model, &x, 1, NULL, out, 2, &error), PEN_ERR_NOT_FOUND);
    cr_assert_str_eq(error.text, "input 'x' is missing");
    cr_assert_eq(pen_model_run(model, &other, 1, NULL, out, 2, &error), PEN_ERR_DTYPE);
    cr_assert_eq(pen_model_run(model, &none, 1, NULL, out, 2, &error), PEN_ERR_INVALID);
    cr_assert_str_eq(error.text, "input 0 is no tensor but NULL");
    cr_assert(out[0] == NULL && out[1] == NULL);
    pen_memory(&after);
    cr_assert_eq(after.tensors, before.tensors);
    cr_assert_eq(after.tensor_bytes, before.tensor_bytes);
    pen_tensor_dispose(x);
    pen_tensor_dispose(other);
}

/* ---- without waiting ------------------------------------------------------------------------------------------------ */

struct seen {
    atomic_int calls;
    enum pen_status status;
    float first;
    char text[PEN_ERROR_TEXT_BYTES];
    pthread_t thread;
};

static void see(void *context, enum pen_status status, const struct pen_tensor *view, const struct pen_error *why)
{
    struct seen *seen = context;
    seen->status = status;
    seen->first = view != NULL ? ((const float *)view->data)[0] : -1;
    snprintf(seen->text, sizeof seen->text, "%s", why->text);
    seen->thread = pthread_self();
    atomic_fetch_add(&seen->calls, 1);
}

static void wait_for(struct seen *seen)
{
    for (int i = 0; i < 5000 && atomic_load(&seen->calls) == 0; i++) {
        usleep(1000);
    }
    cr_assert_eq(atomic_load(&seen->calls), 1);
}

Test(runs, a_run_in_the_background_ends_by_itself)
{
    const float values[1] = {4};
    const struct pen_run_options background = {.background = true};
    struct pen_tensor_handle *x = tensor_of("x", values, 1), *out[2];
    cr_assert_eq(pen_model_run(model, &x, 1, &background, out, 2, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_tensor_dtype(out[0]), PEN_DTYPE_F32, "known before it is there");
    for (int i = 0; i < 5000 && !pen_tensor_ready(out[0]); i++) {
        usleep(1000);
    }
    cr_assert_eq(pen_tensor_place(out[0]), PEN_TENSOR_ON_HOST);
    expect_square(out[0], 4);
    dispose(out, 2);
    cr_assert_eq(pen_model_run(model, &x, 1, &background, out, 2, &error), PEN_OK);
    dispose(out, 2); /* unread, and perhaps not computed */
    pen_tensor_dispose(x);
}

Test(runs, data_come_to_a_function)
{
    const float values[1] = {5};
    const struct pen_run_options background = {.background = true};
    struct pen_tensor_handle *x = tensor_of("x", values, 1), *out[2];
    struct seen made = {0}, copied = {0};
    cr_assert_eq(pen_model_run(model, &x, 1, &background, out, 2, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_tensor_data_async(out[0], see, &made, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_tensor_data_async(x, see, &copied, &error), PEN_OK, "%s", error.text);
    dispose(out, 2); /* the reads still get their data */
    pen_tensor_dispose(x);
    wait_for(&made);
    wait_for(&copied);
    cr_assert_eq(made.status, PEN_OK);
    cr_assert_float_eq(made.first, 25, 1e-6);
    cr_assert_float_eq(copied.first, 5, 1e-6);
    cr_assert(!pthread_equal(made.thread, pthread_self()), "never from within the question");
}

Test(runs, a_run_that_fails_says_so_at_every_read)
{
    const float values[1] = {6};
    struct pen_stop *stop = pen_stop_new();
    const struct pen_run_options options = {.background = true, .stop = stop};
    struct pen_tensor_handle *x = tensor_of("x", values, 1), *out[2], *none[2];
    struct pen_tensor view;
    struct seen seen = {0};
    pen_stop_now(stop);
    cr_assert_eq(pen_model_run(model, &x, 1, &options, out, 2, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_tensor_view(out[0], &view, &error), PEN_ERR_CANCELLED);
    cr_assert_str_eq(error.text, "the run was cancelled");
    cr_assert_eq(pen_tensor_read(out[1], &view, 1, &error), PEN_ERR_CANCELLED);
    cr_assert_eq(pen_tensor_data_async(out[0], see, &seen, &error), PEN_OK);
    wait_for(&seen);
    cr_assert_eq(seen.status, PEN_ERR_CANCELLED);
    cr_assert_str_eq(seen.text, "the run was cancelled");
    cr_assert_eq(pen_model_run(model, out, 1, NULL, none, 2, &error), PEN_ERR_CANCELLED, "an input's own error");
    cr_assert_eq(pen_model_run(model, &x, 1, &(struct pen_run_options){.stop = stop}, none, 2, &error),
                 PEN_ERR_CANCELLED);
    cr_assert_null(none[0]);
    dispose(out, 2);
    pen_tensor_dispose(x);
    pen_stop_free(stop);
}

Test(runs, more_runs_than_sessions_wait_their_turn)
{
    enum { RUNS = 100 };
    const struct pen_run_options background = {.background = true};
    struct pen_tensor_handle *out[RUNS][2];
    struct pen_memory memory;
    for (int i = 0; i < RUNS; i++) {
        const float values[1] = {(float)i};
        struct pen_tensor_handle *x = tensor_of("x", values, 1);
        cr_assert_eq(pen_model_run(model, &x, 1, &background, out[i], 2, &error), PEN_OK, "%s", error.text);
        pen_tensor_dispose(x);
    }
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    pen_memory(&memory);
    cr_assert_leq(memory.sessions, (uint64_t)(cpus < 4 ? 4 : cpus));
    for (int i = RUNS - 1; i >= 0; i--) {
        expect_square(out[i][0], (float)i);
        dispose(out[i], 2);
    }
}

Test(runs, results_outlive_their_model)
{
    const float values[1] = {7};
    const struct pen_run_options background = {.background = true};
    struct pen_model *second = NULL;
    struct pen_tensor_handle *x = tensor_of("x", values, 1), *out[2];
    cr_assert_eq(pen_model_open(path, &second, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_model_run(second, &x, 1, &background, out, 2, &error), PEN_OK);
    pen_model_close(second);
    cr_assert_eq(pen_tensor_place(out[0]), PEN_TENSOR_ON_HOST);
    expect_square(out[0], 7);
    dispose(out, 2);
    pen_tensor_dispose(x);
}

Test(runs, warm_prepares_a_session)
{
    const struct pen_tensor shape = {.dtype = PEN_DTYPE_F32, .rank = 1, .dims = {32}};
    struct pen_memory memory;
    uint64_t prepare = UINT64_MAX, run = UINT64_MAX;
    cr_assert_eq(pen_model_warm(model, NULL, 0, NULL, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_model_warm(model, &shape, 1, &prepare, &run, &error), PEN_OK, "%s", error.text);
    cr_assert(prepare < UINT64_MAX && run < UINT64_MAX);
    pen_memory(&memory);
    cr_assert_eq(memory.sessions, 1, "the same session for both");
    cr_assert_geq(memory.buckets, 1);
    cr_assert_eq(pen_model_warm(model, &shape, 2, NULL, NULL, &error), PEN_ERR_INVALID);
}

/* ---- the backend ---------------------------------------------------------------------------------------------------- */

static struct pen_env *env_of(const char *one, const char *other)
{
    struct pen_env *env = NULL;
    cr_assert_eq(pen_env_new(&env, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_env_assign(env, one, PEN_ORIGIN_FLAG, "test", &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_env_assign(env, other, PEN_ORIGIN_FLAG, "test", &error), PEN_OK, "%s", error.text);
    return env;
}

Test(backends, variables_count_where_nothing_is_configured)
{
    setenv("PENSTOCK_ENGINE_BACKEND", "reference", 1);
    cr_assert_str_eq(pen_backend_get(), "reference");
    cr_assert_eq(pen_shutdown(NULL), PEN_OK);
    setenv("PENSTOCK_ENGINE_BAKEND", "reference", 1);
    cr_assert_eq(pen_backend_ready(&error), PEN_ERR_INVALID);
    cr_assert_not_null(strstr(error.text, "PENSTOCK_ENGINE_BACKEND"), "the right name is told: %s", error.text);
    struct pen_env *env = env_of("backend=reference", "threads=2");
    cr_assert_eq(pen_backend_configure(env, &error), PEN_OK);
    cr_assert_eq(pen_backend_ready(&error), PEN_OK, "a program's own environment reads no variables: %s", error.text);
    pen_env_free(env);
    cr_assert_eq(pen_shutdown(NULL), PEN_OK);
}

Test(backends, the_best_that_works_is_chosen)
{
    struct pen_backend_info infos[8];
    const size_t count = pen_backends(NULL, infos, 8);
    size_t best = 0;
    while (best < count && !infos[best].available) {
        best++;
    }
    cr_assert_eq(pen_backend_ready(&error), PEN_OK, "%s", error.text);
    cr_assert_str_eq(pen_backend_get(), infos[best].name);
    cr_assert_eq(pen_shutdown(NULL), PEN_OK);
    cr_assert_str_eq(pen_backend_get(), infos[best].name, "get opens one, too");
    cr_assert_eq(pen_shutdown(NULL), PEN_OK);
}

Test(backends, a_choice_that_fails_leaves_the_current_one)
{
    cr_assert_eq(pen_backend_set("reference", &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_backend_set("quantum", &error), PEN_ERR_UNSUPPORTED);
    cr_assert(strncmp(error.text, "no backend is called 'quantum' in this build", 44) == 0, "%s", error.text);
    cr_assert_str_eq(pen_backend_get(), "reference");
    cr_assert_eq(pen_backend_remove("quantum", &error), PEN_ERR_NOT_FOUND);
    cr_assert_eq(pen_backend_remove("reference", &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_backend_remove("reference", &error), PEN_ERR_NOT_FOUND);
    cr_assert_str_eq(error.text, "no backend 'reference' is open");
    cr_assert_eq(pen_shutdown(NULL), PEN_OK);
}

Test(runs, models_stay_on_their_backend_and_hold_it)
{
    struct pen_env *env = env_of("backend=reference", "placement=strict");
    struct pen_engine *engine = NULL;
    cr_assert_eq(pen_backend_remove("reference", &error), PEN_ERR_BUSY);
    cr_assert_str_eq(error.text, "1 models are open on reference: close them first");
    cr_assert_eq(pen_backend_configure(env, &error), PEN_ERR_BUSY);
    cr_assert_eq(pen_shutdown(&error), PEN_ERR_BUSY);
    cr_assert_str_eq(pen_backend_get(), "reference");
    pen_model_close(model);
    cr_assert_eq(pen_backend_configure(env, &error), PEN_OK, "%s", error.text);
    pen_env_free(env);
    cr_assert_str_eq(pen_backend_get(), "reference", "the environment's choice");
    cr_assert_eq(pen_backend_engine(&engine, &error), PEN_OK);
    size_t count = 0;
    bool strict = false;
    const struct pen_flag *flags = pen_engine_flags(engine, &count);
    for (size_t i = 0; i < count; i++) {
        strict = strict || (strcmp(flags[i].name, "placement") == 0 && strcmp(flags[i].value, "strict") == 0);
    }
    cr_assert(strict, "the flags count");
    cr_assert_eq(pen_model_load(engine, path, &model, &error), PEN_OK, "%s", error.text);
    const float values[1] = {8};
    struct pen_tensor_handle *x = tensor_of("x", values, 1), *out[2];
    cr_assert_eq(pen_model_run(model, &x, 1, NULL, out, 2, &error), PEN_OK, "models of pen_model_load run, too");
    expect_square(out[0], 8);
    dispose(out, 2);
    pen_tensor_dispose(x);
}

/* ---- a device ------------------------------------------------------------------------------------------------------- */

Test(runs, a_device_has_the_run_when_the_call_returns)
{
    struct pen_env *env = env_of("vk_allow_software=on", "vk_in_flight=2");
    struct pen_engine_options options;
    struct pen_backend_info info;
    pen_engine_options_init(&options);
    options.vulkan.allow_software = true;
    if (!pen_backend_find(&options, "vulkan", &info) || !info.available) {
        pen_env_free(env);
        cr_skip_test("vulkan: not here");
    }
    pen_model_close(model);
    onnx_write_slow(path, 4);
    cr_assert_eq(pen_backend_configure(env, &error), PEN_OK, "%s", error.text);
    pen_env_free(env);
    cr_assert_eq(pen_backend_set("vulkan", &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_model_open(path, &model, &error), PEN_OK, "%s", error.text);
    static float pixels[16 * 64 * 64];
    const struct pen_tensor view = {
        .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {1, 16, 64, 64}, .data = pixels, .bytes = sizeof pixels};
    struct pen_tensor_handle *x = NULL, *first = NULL, *second = NULL;
    struct pen_tensor got;
    struct pen_memory memory;
    cr_assert_eq(pen_model_warm(model, &view, 1, NULL, NULL, &error), PEN_OK, "%s", error.text);
    pen_memory(&memory);
    cr_assert_gt(memory.device_bytes, sizeof pixels);
    cr_assert_eq(pen_tensor_new(&view, &x, NULL), PEN_OK);
    cr_assert_eq(pen_model_run(model, &x, 1, NULL, &first, 1, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_tensor_place(first), PEN_TENSOR_PENDING);
    cr_assert_eq(pen_model_run(model, &x, 1, NULL, &second, 1, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(pen_tensor_view(second, &got, &error), PEN_OK, "%s", error.text);
    for (int i = 0; i < 30000 && !pen_tensor_ready(first); i++) {
        usleep(1000);
    }
    cr_assert_eq(pen_tensor_place(first), PEN_TENSOR_ON_HOST, "a poll brings it here");
    cr_assert_eq(pen_tensor_view(first, &got, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(got.bytes, sizeof pixels);
    pen_tensor_dispose(first);
    pen_tensor_dispose(second);
    cr_assert_eq(pen_model_run(model, &x, 1, NULL, &first, 1, &error), PEN_OK, "%s", error.text);
    pen_tensor_dispose(first); /* on its way and wanted by nobody */
    pen_tensor_dispose(x);
    pen_model_close(model);
    model = NULL;
    cr_assert_eq(pen_backend_remove("vulkan", &error), PEN_OK, "%s", error.text);
    pen_memory(&memory);
    cr_assert_eq(memory.device_bytes, 0);
}
