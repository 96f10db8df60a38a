/*
 * test_flags.c - each flag does something: a sample flips it and looks at a counter, a placement or a refusal. A flag of flags.def without a sample here fails.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/backend.h"
#include "backend/vulkan/kernels.h"
#include "folder.h"
#include "onnx_writer.h"
#include "run/internal.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define SETS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* An engine with some flags, and a model on it. */
struct world {
    char folder[FOLDER_PATH_BYTES];
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
    struct pen_error error;
    enum pen_status opened, loaded, ran;
    float y0; /* the first element of the first output */
};

static void engine_open(struct world *w, const char *const *sets)
{
    struct pen_env *env = NULL;
    memset(w, 0, sizeof *w);
    folder_new(w->folder);
    cr_assert_eq(pen_env_new(&env, &w->error), PEN_OK);
    for (; *sets != NULL; sets++) {
        cr_assert_eq(pen_env_assign(env, *sets, PEN_ORIGIN_FLAG, "a test", &w->error), PEN_OK, "%s", w->error.text);
    }
    w->opened = pen_engine_open(env, &w->engine, &w->error);
    pen_env_free(env);
    if (w->opened != PEN_OK && strstr(w->error.text, "install") != NULL) {
        cr_skip("no Vulkan device");
    }
}

/* Loads what the writer holds and opens a session. */
static void model_open(struct world *w, struct onnx_writer *g)
{
    char path[FOLDER_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/model.onnx", w->folder);
    onnx_writer_save(g, 17, path);
    onnx_writer_free(g);
    cr_assert_eq(w->opened, PEN_OK, "%s", w->error.text);
    w->loaded = pen_model_load(w->engine, path, &w->model, &w->error);
    if (w->loaded == PEN_OK) {
        cr_assert_eq(pen_session_new(w->model, &w->session, &w->error), PEN_OK, "%s", w->error.text);
    }
}

static void session_run(struct world *w, size_t rank, const int64_t *dims, const float *x)
{
    struct pen_tensor in = {.dtype = PEN_DTYPE_F32, .rank = (uint32_t)rank, .data = x, .bytes = sizeof *x};
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    for (size_t i = 0; i < rank; i++) {
        in.dims[i] = dims[i];
        in.bytes *= (size_t)dims[i];
    }
    w->error = (struct pen_error){0};
    cr_assert_eq(w->loaded, PEN_OK, "%s", w->error.text);
    w->ran = pen_session_run(w->session, &in, 1, NULL, &out, &count, &w->error);
    w->y0 = w->ran == PEN_OK && out[0].bytes >= sizeof(float) ? *(const float *)out[0].data : 0.0f;
}

static void close_world(struct world *w)
{
    pen_session_free(w->session);
    pen_model_free(w->model);
    pen_engine_free(w->engine);
    folder_free(w->folder);
}

/* ---- models ---- */

#define WIDTH 64

/* y = relu(exp(x) w), x: [n, 64]. */
static struct onnx_writer *dense_write(void)
{
    static float w[WIDTH * 600];
    struct onnx_writer *g = onnx_writer_new("dense");
    for (size_t i = 0; i < WIDTH * 600; i++) {
        w[i] = (float)(i * 37 % 101) / 1000.0f - 0.05f;
    }
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, DIMS(-1, WIDTH), NULL);
    onnx_writer_constant(g, "w", PEN_DTYPE_F32, 2, DIMS(WIDTH, 600), w, sizeof w);
    onnx_writer_node(g, "Exp", ONNX_LIST("x"), ONNX_LIST("e"), NULL);
    onnx_writer_node(g, "MatMul", ONNX_LIST("e", "w"), ONNX_LIST("m"), NULL);
    onnx_writer_node(g, "Sin", ONNX_LIST("m"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, DIMS(-1, 600), NULL);
    return g;
}

/* y = log(x) * scale, one operator and another. */
static struct onnx_writer *log_write(float scale)
{
    struct onnx_writer *g = onnx_writer_new("log");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, DIMS(-1), NULL);
    onnx_writer_constant(g, "s", PEN_DTYPE_F32, 0, NULL, &scale, sizeof scale);
    onnx_writer_node(g, "Log", ONNX_LIST("x"), ONNX_LIST("l"), NULL);
    onnx_writer_node(g, "Mul", ONNX_LIST("l", "s"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, DIMS(-1), NULL);
    return g;
}

/* A convolution of 3 x 3, x: [1, 16, 12, 12]. */
static struct onnx_writer *conv_write(float weight)
{
    static float w[32 * 16 * 9];
    struct onnx_writer *g = onnx_writer_new("conv");
    for (size_t i = 0; i < sizeof w / sizeof w[0]; i++) {
        w[i] = weight * (float)(1 + i % 7) / 7.0f;
    }
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 4, DIMS(1, 16, 12, 12), NULL);
    onnx_writer_constant(g, "w", PEN_DTYPE_F32, 4, DIMS(32, 16, 3, 3), w, sizeof w);
    onnx_writer_node(g, "Conv", ONNX_LIST("x", "w"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 4, DIMS(1, 32, 10, 10), NULL);
    return g;
}

/* x + (a constant of 400,000 bytes that an Expand makes). */
static struct onnx_writer *fold_write(void)
{
    static const int64_t to[] = {100000};
    static const float one = 1.0f;
    struct onnx_writer *g = onnx_writer_new("fold");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, DIMS(1), NULL);
    onnx_writer_constant(g, "to", PEN_DTYPE_I64, 1, DIMS(1), to, sizeof to);
    onnx_writer_constant(g, "one", PEN_DTYPE_F32, 1, DIMS(1), &one, sizeof one);
    onnx_writer_node(g, "Expand", ONNX_LIST("one", "to"), ONNX_LIST("e"), NULL);
    onnx_writer_node(g, "Exp", ONNX_LIST("e"), ONNX_LIST("f"), NULL);
    onnx_writer_node(g, "Add", ONNX_LIST("x", "f"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, DIMS(100000), NULL);
    return g;
}

static const float zeros[1 * 16 * 12 * 12];

static void dense_world(struct world *w, const char *const *sets)
{
    engine_open(w, sets);
    model_open(w, dense_write());
    session_run(w, 2, DIMS(1, WIDTH), zeros);
    cr_assert_eq(w->ran, PEN_OK, "%s", w->error.text);
}

static void conv_world(struct world *w, const char *const *sets)
{
    engine_open(w, sets);
    model_open(w, conv_write(0.01f));
    if (w->loaded == PEN_OK) {
        session_run(w, 4, DIMS(1, 16, 12, 12), zeros);
        cr_assert_eq(w->ran, PEN_OK, "%s", w->error.text);
    }
}

/* ---- what is looked at ---- */

static bool placed(const struct world *w, const char *words)
{
    return strstr(pen_model_placement(w->model), words) != NULL;
}

static const char *flag_of(const struct world *w, const char *name)
{
    size_t count = 0;
    const struct pen_flag *flags = pen_engine_flags(w->engine, &count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return flags[i].value;
        }
    }
    return "";
}

static unsigned tasks(void)
{
    unsigned count = 0;
    DIR *d = opendir("/proc/self/task");
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        count += e->d_name[0] != '.';
    }
    closedir(d);
    return count;
}

/* Threads that are kept on one processor. */
static unsigned tasks_pinned(void)
{
    unsigned count = 0;
    DIR *d = opendir("/proc/self/task");
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        cpu_set_t set;
        count +=
            e->d_name[0] != '.' && sched_getaffinity(atoi(e->d_name), sizeof set, &set) == 0 && CPU_COUNT(&set) == 1;
    }
    closedir(d);
    return count;
}

static unsigned files_in(const char *folder)
{
    unsigned count = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        count += e->d_name[0] != '.' && strcmp(e->d_name, "model.onnx") != 0;
    }
    closedir(d);
    return count;
}

/* ---- samples: on any host ---- */

static void sample_backend(void)
{
    struct world w;
    engine_open(&w, SETS("backend=reference"));
    cr_expect_str_eq(pen_engine_backend(w.engine), "reference");
    close_world(&w);
    engine_open(&w, SETS("backend=xnnpack"));
    cr_expect_str_eq(pen_engine_backend(w.engine), "xnnpack");
    close_world(&w);
}

static void sample_threads(void)
{
    struct world one, three;
    unsigned before = tasks();
    dense_world(&one, SETS("backend=xnnpack", "threads=1"));
    cr_expect_eq(tasks(), before);
    dense_world(&three, SETS("backend=xnnpack", "threads=3"));
    cr_expect_eq(tasks(), before + 2);
    close_world(&one);
    close_world(&three);
}

static void sample_pin(void)
{
    struct world off, cores;
    unsigned before = tasks_pinned();
    dense_world(&off, SETS("backend=xnnpack", "threads=3"));
    cr_expect(before > 0 || tasks_pinned() == 0, "a host of one processor pins everything");
    dense_world(&cores, SETS("backend=xnnpack", "threads=3", "pin=cores"));
    cr_expect_geq(tasks_pinned(), before + 2);
    close_world(&off);
    close_world(&cores);
}

static void sample_cpu_isa_max(void)
{
    struct world w, other;
    engine_open(&w, SETS("backend=xnnpack", "cpu_isa_max=plain"));
    cr_assert_eq(w.opened, PEN_OK, "%s", w.error.text);
    cr_expect_str_eq(flag_of(&w, "xnnpack_isa"), "plain");
    cr_expect_not_null(strstr(pen_engine_library(w.engine), "plain"));
    engine_open(&other, SETS("backend=xnnpack"));
    cr_expect_eq(other.opened, PEN_ERR_BUSY, "one limit for all engines of a process");
    close_world(&other);
    cr_expect_eq(pen_engine_set(w.engine, "cpu_isa_max", "any", PEN_ORIGIN_FLAG, "a test", &w.error), PEN_OK, "%s",
                 w.error.text);
    close_world(&w);
    engine_open(&other, SETS("backend=xnnpack"));
    cr_expect_eq(other.opened, PEN_OK);
    close_world(&other);
}

static void sample_placement(void)
{
    struct world w;
    engine_open(&w, SETS("backend=xnnpack", "placement=strict"));
    struct onnx_writer *g = onnx_writer_new("det");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, DIMS(3, 3), NULL);
    onnx_writer_node(g, "Det", ONNX_LIST("x"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 0, NULL, NULL);
    model_open(&w, g);
    cr_expect_eq(w.loaded, PEN_ERR_UNSUPPORTED);
    close_world(&w);
    dense_world(&w, SETS("backend=xnnpack", "placement=fallback"));
    cr_expect_eq(w.engine->backend_count, 2u, "the reference stands behind it");
    close_world(&w);
}

static void nan_run(struct world *w, const char *const *sets)
{
    engine_open(w, sets);
    model_open(w, log_write(1.0f));
    session_run(w, 1, DIMS(2), (const float[]){1.0f, -1.0f});
}

static void sample_mode(void)
{
    struct world w;
    nan_run(&w, SETS("backend=reference", "mode=default"));
    cr_expect_eq(w.ran, PEN_OK);
    close_world(&w);
    nan_run(&w, SETS("backend=reference", "mode=debug"));
    cr_expect_neq(w.ran, PEN_OK, "debug mode finds NaN");
    close_world(&w);
}

static void sample_check_numerics(void)
{
    struct world w;
    nan_run(&w, SETS("backend=xnnpack", "check_numerics=off"));
    cr_expect(w.ran == PEN_OK && pen_session_note(w.session)[0] == '\0');
    close_world(&w);
    nan_run(&w, SETS("backend=xnnpack", "check_numerics=warn"));
    cr_expect_eq(w.ran, PEN_OK);
    cr_expect_not_null(strstr(pen_session_note(w.session), "(Log) produced NaN at element 1"), "%s",
                       pen_session_note(w.session));
    session_run(&w, 1, DIMS(2), (const float[]){1.0f, 2.0f});
    cr_expect_str_eq(pen_session_note(w.session), "", "of the latest run only");
    close_world(&w);
    nan_run(&w, SETS("backend=xnnpack", "check_numerics=fail"));
    cr_expect_eq(w.ran, PEN_ERR_INVALID);
    cr_expect_not_null(strstr(w.error.text, "Log"), "%s", w.error.text);
    close_world(&w);
}

static void sample_f16_range_check(void)
{
    static const char *const sets[] = {"f16_range_check=off", "f16_range_check=warn", "f16_range_check=fail"};
    for (int how = 0; how < 3; how++) {
        struct world w;
        engine_open(&w, SETS("backend=xnnpack", sets[how]));
        model_open(&w, log_write(1e6f));
        session_run(&w, 1, DIMS(2), (const float[]){1.0f, 7.0f});
        cr_expect_eq(w.ran, how == 2 ? PEN_ERR_INVALID : PEN_OK);
        const char *told = how == 2 ? w.error.text : pen_session_note(w.session);
        cr_expect_eq(strstr(told, "(Mul) produced a value beyond f16 at element 1") != NULL, how > 0, "%s", told);
        close_world(&w);
    }
}

static size_t profile_rows_of(const char *set)
{
    struct world w;
    size_t count = 0;
    engine_open(&w, SETS("backend=xnnpack", set));
    model_open(&w, dense_write());
    pen_session_profile(w.session, true);
    session_run(&w, 2, DIMS(1, WIDTH), zeros);
    (void)pen_session_profile_rows(w.session, &count);
    close_world(&w);
    return count;
}

static void sample_profile(void)
{
    cr_expect_gt(profile_rows_of("profile=op"), profile_rows_of("profile=off"));
}

static void sample_compare(void)
{
    struct world w;
    dense_world(&w, SETS("backend=xnnpack", "compare=none"));
    cr_expect_eq(pen_session_compared(w.session), 0u);
    close_world(&w);
    dense_world(&w, SETS("backend=xnnpack", "compare=reference"));
    cr_expect_gt(pen_session_compared(w.session), 0u);
    close_world(&w);
}

static void sample_warmup(void)
{
    static const char *const sets[] = {"warmup=none", "warmup=compile", "warmup=execute"};
    for (int how = 0; how < 3; how++) {
        struct world w;
        uint64_t run_us = 99;
        engine_open(&w, SETS("backend=xnnpack", sets[how]));
        model_open(&w, dense_write());
        struct pen_tensor in = {.dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, WIDTH}};
        cr_assert_eq(pen_session_warm(w.session, &in, 1, NULL, &run_us, &w.error), PEN_OK, "%s", w.error.text);
        cr_expect_eq(pen_session_prepared(w.session) > 0, how > 0, "%s", sets[how]);
        cr_expect_eq(run_us > 0, how == 2, "%s", sets[how]);
        close_world(&w);
    }
}

static uint32_t nodes_with(const char *set, struct onnx_writer *g)
{
    struct world w;
    engine_open(&w, SETS("backend=reference", set));
    model_open(&w, g);
    cr_assert_eq(w.loaded, PEN_OK, "%s", w.error.text);
    uint32_t nodes = w.model->program->placement->nodes[0];
    close_world(&w);
    return nodes;
}

/* y = exp(x), with an Identity between. */
static struct onnx_writer *same_write(void)
{
    struct onnx_writer *g = onnx_writer_new("same");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 1, DIMS(4), NULL);
    onnx_writer_node(g, "Identity", ONNX_LIST("x"), ONNX_LIST("i"), NULL);
    onnx_writer_node(g, "Exp", ONNX_LIST("i"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, DIMS(4), NULL);
    return g;
}

static void sample_optimise(void)
{
    cr_expect_lt(nodes_with("optimise=on", same_write()), nodes_with("optimise=off", same_write()));
}

static void sample_skip_passes(void)
{
    cr_expect_lt(nodes_with("skip_passes=pad,gemm", same_write()), nodes_with("skip_passes=pad,dead", same_write()));
}

static void sample_budget_bytes(void)
{
    struct world w;
    engine_open(&w, SETS("backend=reference", "budget_bytes=4KiB"));
    model_open(&w, dense_write());
    cr_expect_eq(w.loaded, PEN_ERR_TOO_LARGE);
    close_world(&w);
}

static void sample_fold_bytes(void)
{
    cr_expect_lt(nodes_with("fold_bytes=64MiB", fold_write()), nodes_with("fold_bytes=1", fold_write()));
}

static void sample_keep_measured(void)
{
    const struct pen_tensor shape = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, WIDTH}};
    const struct pen_measure_inputs inputs = {.shapes = &shape};
    for (int on = 0; on < 2; on++) {
        struct world w;
        struct pen_measured found;
        bool kept = false;
        dense_world(&w, SETS("backend=xnnpack", on ? "keep_measured=on" : "keep_measured=off"));
        cr_assert_eq(pen_model_measure(w.model, &inputs, NULL, &found, &kept, &w.error), PEN_OK, "%s", w.error.text);
        cr_expect_eq(kept, on != 0);
        cr_expect_eq(pen_model_measured(w.model, &inputs, &found), on != 0);
        close_world(&w);
    }
}

/* ---- samples: on the Vulkan device that is here, lavapipe will do ---- */

#define VULKAN "backend=vulkan", "vk_allow_software=on", "vk_validate=on"

static struct backend *vulkan_of(const struct world *w)
{
    return w->engine->backends[0].self;
}

static void sample_precision(void)
{
    struct world w;
    dense_world(&w, SETS(VULKAN, "precision=f16_storage"));
    cr_expect_eq(pen_model_precision(w.model), PEN_PRECISION_F16_STORAGE);
    close_world(&w);
    dense_world(&w, SETS(VULKAN, "precision=f32"));
    cr_expect_eq(pen_model_precision(w.model), PEN_PRECISION_F32);
    close_world(&w);
}

static void sample_cpu_forward(void)
{
    struct world off, on;
    dense_world(&off, SETS(VULKAN));
    cr_expect(placed(&off, "vulkan 3/3 nodes"), "%s", pen_model_placement(off.model));
    dense_world(&on, SETS(VULKAN, "cpu_forward=on"));
    cr_expect(placed(&on, "vulkan 2/3 nodes") && placed(&on, "1 crossing"), "%s", pen_model_placement(on.model));
    cr_expect_float_eq(on.y0, off.y0, 1e-5f);
    close_world(&off);
    close_world(&on);
}

static void sample_cpu_forward_max_elems(void)
{
    struct world few, many;
    dense_world(&few, SETS(VULKAN, "cpu_forward=on", "cpu_forward_max_elems=63"));
    cr_expect(placed(&few, "vulkan 3/3 nodes"), "%s", pen_model_placement(few.model));
    dense_world(&many, SETS(VULKAN, "cpu_forward=on", "cpu_forward_max_elems=100000"));
    cr_expect_not(placed(&many, "vulkan"), "%s", pen_model_placement(many.model));
    close_world(&few);
    close_world(&many);
}

static void sample_vk_device(void)
{
    struct world w;
    engine_open(&w, SETS(VULKAN, "vk_device=no such device"));
    cr_expect_neq(w.opened, PEN_OK);
    cr_expect_not_null(strstr(w.error.text, "no such device"), "%s", w.error.text);
    close_world(&w);
    engine_open(&w, SETS(VULKAN, "vk_device=0,0"));
    cr_assert_eq(w.opened, PEN_OK, "%s", w.error.text);
    cr_expect_not_null(vk_backend_beside(vulkan_of(&w), 0), "sessions are spread over both");
    close_world(&w);
}

static void sample_vk_allow_software(void)
{
    struct world w;
    engine_open(&w, SETS(VULKAN, "vk_device=llvmpipe"));
    bool here = w.opened == PEN_OK;
    close_world(&w);
    engine_open(&w, SETS("backend=vulkan", "vk_allow_software=off", "vk_device=llvmpipe"));
    cr_expect(!here || w.opened != PEN_OK);
    close_world(&w);
}

static void sample_vk_cache_dir(void)
{
    struct world w;
    char set[FOLDER_PATH_BYTES + 16], folder[FOLDER_PATH_BYTES];
    folder_new(folder);
    snprintf(set, sizeof set, "vk_cache_dir=%s", folder);
    dense_world(&w, SETS(VULKAN, set));
    close_world(&w);
    cr_expect_gt(files_in(folder), 0u);
    folder_free(folder);
}

static void sample_vk_kernels(void)
{
    struct world w;
    dense_world(&w, SETS(VULKAN, "vk_kernels=gemv"));
    cr_expect_gt(vk_backend_products(vulkan_of(&w), VK_FAMILY_GEMV), 0u);
    cr_expect_eq(vk_backend_products(vulkan_of(&w), VK_FAMILY_SIMPLE), 0u);
    close_world(&w);
}

/* Convolutions that this family runs in the model alone: the self-test has products, too. */
static unsigned convs_of(enum vk_family family, const char *const *sets)
{
    struct world w;
    engine_open(&w, sets);
    cr_assert_eq(w.opened, PEN_OK, "%s", w.error.text);
    unsigned before = vk_backend_products(vulkan_of(&w), family);
    model_open(&w, conv_write(0.01f));
    session_run(&w, 4, DIMS(1, 16, 12, 12), zeros);
    unsigned after = vk_backend_products(vulkan_of(&w), family);
    close_world(&w);
    return after - before;
}

static void sample_vk_conv(void)
{
    cr_expect_gt(convs_of(VK_FAMILY_SIMPLE, SETS(VULKAN, "vk_conv=direct", "vk_kernels=tiled")), 0u);
    cr_expect_gt(convs_of(VK_FAMILY_TILED, SETS(VULKAN, "vk_conv=gemm", "vk_kernels=simple")), 0u);
    cr_expect_gt(convs_of(VK_FAMILY_CM, SETS(VULKAN, "vk_conv=cm", "precision=f16_math", "vk_f16_trial=off")), 0u);
}

static void sample_vk_layout(void)
{
    struct world w;
    conv_world(&w, SETS(VULKAN, "vk_layout=nhwc"));
    cr_expect(placed(&w, "vulkan") && placed(&w, "100.0 % of MACs"), "%s", pen_model_placement(w.model));
    close_world(&w);
    conv_world(&w, SETS(VULKAN, "vk_layout=graph"));
    cr_expect_not(placed(&w, "vulkan"), "%s", pen_model_placement(w.model));
    close_world(&w);
}

static void sample_vk_nodes_per_submit(void)
{
    uint64_t submits[2];
    for (int one = 0; one < 2; one++) {
        struct world w;
        dense_world(&w, SETS(VULKAN, one ? "vk_nodes_per_submit=1" : "vk_nodes_per_submit=256"));
        uint64_t before = vk_backend_submits(vulkan_of(&w));
        session_run(&w, 2, DIMS(1, WIDTH), zeros);
        submits[one] = vk_backend_submits(vulkan_of(&w)) - before;
        close_world(&w);
    }
    cr_expect_eq(submits[0], 1u);
    cr_expect_geq(submits[1], 3u);
}

static void sample_vk_pool_trim_bytes(void)
{
    for (int pool = 0; pool < 2; pool++) {
        struct world w;
        dense_world(&w, SETS(VULKAN, pool ? "vk_pool_trim_bytes=64MiB" : "vk_pool_trim_bytes=0"));
        float before = w.y0;
        uint64_t bytes = vk_backend_bytes(vulkan_of(&w));
        pen_session_free(w.session);
        cr_expect_eq(vk_backend_bytes(vulkan_of(&w)) == bytes, pool == 1, "what the pool holds is still allocated");
        cr_assert_eq(pen_session_new(w.model, &w.session, &w.error), PEN_OK, "%s", w.error.text);
        session_run(&w, 2, DIMS(1, WIDTH), zeros);
        cr_expect_eq(w.y0, before);
        cr_expect_eq(vk_backend_pooled(vulkan_of(&w)) > 0, pool == 1);
        cr_expect_eq(vk_backend_messages(vulkan_of(&w)), 0u);
        close_world(&w);
    }
}

static void sample_vk_f16_range(void)
{
    for (int refuse = 0; refuse < 2; refuse++) {
        struct world w;
        engine_open(&w, SETS(VULKAN, "placement=strict", "vk_f16_trial=off", "precision=f16_storage",
                             refuse ? "vk_f16_range=refuse" : "vk_f16_range=keep"));
        model_open(&w, conv_write(1e6f));
        cr_expect_eq(w.loaded == PEN_OK, refuse == 0, "%s", w.error.text);
        close_world(&w);
    }
}

/* A trial runs in f32, too: those kernels are compiled. */
static void sample_vk_f16_trial(void)
{
    uint64_t compiled[2];
    for (int on = 0; on < 2; on++) {
        struct world w;
        engine_open(&w, SETS(VULKAN, "precision=f16_storage", on ? "vk_f16_trial=on" : "vk_f16_trial=off"));
        model_open(&w, dense_write());
        compiled[on] = pen_engine_compiled(w.engine);
        close_world(&w);
    }
    cr_expect_gt(compiled[1], compiled[0]);
}

static void sample_vk_in_flight(void)
{
    for (unsigned runs = 1; runs < 4; runs += 2) {
        struct world w;
        dense_world(&w, SETS(VULKAN, runs == 1 ? "vk_in_flight=1" : "vk_in_flight=3"));
        cr_expect_eq(pen_session_window(w.session), runs);
        close_world(&w);
    }
}

static void sample_vk_validate(void)
{
    for (int on = 0; on < 2; on++) {
        struct world w;
        engine_open(&w, SETS("backend=vulkan", "vk_allow_software=on", on ? "vk_validate=on" : "vk_validate=off"));
        cr_assert_eq(w.opened, PEN_OK, "%s", w.error.text);
        vk_backend_misuse(vulkan_of(&w));
        cr_expect_eq(vk_backend_messages(vulkan_of(&w)) > 0, on == 1);
        close_world(&w);
    }
}

/* ---- the table ---- */

static const struct sample {
    const char *flag;
    void (*run)(void);
} samples[] = {
    {"backend", sample_backend},
    {"precision", sample_precision},
    {"threads", sample_threads},
    {"pin", sample_pin},
    {"cpu_isa_max", sample_cpu_isa_max},
    {"cpu_forward", sample_cpu_forward},
    {"cpu_forward_max_elems", sample_cpu_forward_max_elems},
    {"placement", sample_placement},
    {"mode", sample_mode},
    {"profile", sample_profile},
    {"check_numerics", sample_check_numerics},
    {"f16_range_check", sample_f16_range_check},
    {"compare", sample_compare},
    {"warmup", sample_warmup},
    {"optimise", sample_optimise},
    {"skip_passes", sample_skip_passes},
    {"budget_bytes", sample_budget_bytes},
    {"fold_bytes", sample_fold_bytes},
    {"keep_measured", sample_keep_measured},
    {"vk_device", sample_vk_device},
    {"vk_allow_software", sample_vk_allow_software},
    {"vk_cache_dir", sample_vk_cache_dir},
    {"vk_kernels", sample_vk_kernels},
    {"vk_conv", sample_vk_conv},
    {"vk_layout", sample_vk_layout},
    {"vk_nodes_per_submit", sample_vk_nodes_per_submit},
    {"vk_pool_trim_bytes", sample_vk_pool_trim_bytes},
    {"vk_f16_range", sample_vk_f16_range},
    {"vk_f16_trial", sample_vk_f16_trial},
    {"vk_in_flight", sample_vk_in_flight},
    {"vk_validate", sample_vk_validate},
};
#define SAMPLES (sizeof samples / sizeof samples[0])

Test(flags, each_has_a_sample)
{
    size_t count = 0;
    const struct pen_flag_row *rows = pen_flag_rows(&count);
    cr_expect_eq(count, SAMPLES);
    for (size_t i = 0; i < count; i++) {
        size_t s = 0;
        while (s < SAMPLES && strcmp(samples[s].flag, rows[i].name) != 0) {
            s++;
        }
        cr_expect_lt(s, SAMPLES, "the flag %s has no sample in test_flags.c that shows what it does", rows[i].name);
    }
}

ParameterizedTestParameters(flags, does_something)
{
    static size_t index[SAMPLES];
    for (size_t i = 0; i < SAMPLES; i++) {
        index[i] = i;
    }
    return cr_make_param_array(size_t, index, SAMPLES);
}

ParameterizedTest(const size_t *index, flags, does_something)
{
    samples[*index].run();
}
