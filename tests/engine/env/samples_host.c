/* samples_host.c - samples that run on any host. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "samples.h"

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

void sample_backend(void)
{
    struct world w;
    world_open(&w, SETS("backend=reference"));
    cr_expect_str_eq(pen_engine_backend(w.engine), "reference");
    world_close(&w);
    world_open(&w, SETS("backend=xnnpack"));
    cr_expect_str_eq(pen_engine_backend(w.engine), "xnnpack");
    world_close(&w);
}

void sample_threads(void)
{
    struct world one, three;
    unsigned before = tasks();
    world_dense(&one, SETS("backend=xnnpack", "threads=1"));
    cr_expect_eq(tasks(), before);
    world_dense(&three, SETS("backend=xnnpack", "threads=3"));
    cr_expect_eq(tasks(), before + 2);
    world_close(&one);
    world_close(&three);
}

void sample_pin(void)
{
    struct world off, cores;
    unsigned before = tasks_pinned();
    world_dense(&off, SETS("backend=xnnpack", "threads=3"));
    cr_expect(before > 0 || tasks_pinned() == 0, "a host of one processor pins everything");
    world_dense(&cores, SETS("backend=xnnpack", "threads=3", "pin=cores"));
    cr_expect_geq(tasks_pinned(), before + 2);
    world_close(&off);
    world_close(&cores);
}

void sample_cpu_isa_max(void)
{
    struct world w, other;
    world_open(&w, SETS("backend=xnnpack", "cpu_isa_max=plain"));
    cr_assert_eq(w.opened, PEN_OK, "%s", w.error.text);
    cr_expect_str_eq(flag_of(&w, "xnnpack_isa"), "plain");
    cr_expect_not_null(strstr(pen_engine_library(w.engine), "plain"));
    bool limited = strcmp(flag_of(&w, "xnnpack_limit"), "plain") == 0;
    cr_expect(limited || strcmp(flag_of(&w, "xnnpack_limit"), "unlimited") == 0);
    world_open(&other, SETS("backend=xnnpack"));
    cr_expect_eq(other.opened, PEN_ERR_BUSY, "one limit for all engines of a process");
    world_close(&other);
    cr_expect_eq(pen_engine_set(w.engine, "cpu_isa_max", "any", PEN_ORIGIN_FLAG, "a test", &w.error), PEN_OK, "%s",
                 w.error.text);
    world_close(&w);
    world_open(&other, SETS("backend=xnnpack"));
    cr_expect_eq(other.opened, PEN_OK);
    cr_expect(!limited || strcmp(flag_of(&other, "xnnpack_limit"), "plain") == 0, "XNNPACK has chosen once");
    cr_expect(!limited || strstr(pen_engine_library(other.engine), "its own kernels plain"));
    world_close(&other);
}

void sample_cpu_kernels(void)
{
    for (int on = 0; on < 2; on++) {
        struct world w;
        char file[FOLDER_PATH_BYTES + 32];
        world_open(&w, SETS("backend=xnnpack", "keep_measured=on", on ? "cpu_kernels=measured" : "cpu_kernels=rules"));
        world_load(&w, graph_conv(1.0f));
        world_run(&w, 4, DIMS(1, 16, 12, 12), world_zeros);
        cr_assert_eq(w.ran, PEN_OK, "%s", w.error.text);
        snprintf(file, sizeof file, "%s/" MEMO_FILE, w.folder);
        const bool choice = strcmp(flag_of(&w, "xnnpack_isa"), "plain") != 0; /* else there is one kernel */
        cr_expect_eq(access(file, R_OK) == 0, on != 0 && choice, "cpu_kernels %d: what was measured is kept", on);
        world_close(&w);
    }
}

void sample_backend_options(void)
{
    static const struct {
        const char *set, *words;
    } refused[] = {
        {"backend_options=xnnpack.colour=red", "no backend has an option 'xnnpack.colour'; there is: xnnpack.joins,"},
        {"backend_options=joins=off", "no backend has an option 'joins'"},
        {"backend_options=xnnpack.tiles=maybe", "xnnpack.tiles is one of off|on, not 'maybe'"},
        {"backend_options=xnnpack.tiles", "xnnpack.tiles is one of off|on, not ''"},
        {"backend_options=xnnpack.tiles=off,xnnpack.measure_ms=0", "is a number from 1 to 60000, not '0'"},
        {"backend_options=xnnpack.measure_ms=4294967297", "is a number from 1 to 60000"}};
    struct world w;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        world_open(&w, SETS("backend=reference", refused[i].set));
        cr_expect_eq(w.opened, PEN_ERR_INVALID, "%s", refused[i].set);
        cr_expect(strstr(w.error.text, refused[i].words) != NULL, "%s", w.error.text);
        world_close(&w);
    }
    for (int on = 0; on < 2; on++) {
        char file[FOLDER_PATH_BYTES + 32];
        world_open(
            &w, SETS("backend=xnnpack", "keep_measured=on",
                     on ? "backend_options=xnnpack.tiles=on" : "backend_options=xnnpack.tiles=on,xnnpack.tiles=off"));
        world_load(&w, graph_conv(1.0f));
        world_run(&w, 4, DIMS(1, 16, 12, 12), world_zeros);
        cr_assert_eq(w.ran, PEN_OK, "%s", w.error.text);
        snprintf(file, sizeof file, "%s/" MEMO_FILE, w.folder);
        const bool choice = strcmp(flag_of(&w, "xnnpack_isa"), "plain") != 0; /* else there is one kernel */
        cr_expect_eq(access(file, R_OK) == 0, on != 0 && choice, "nothing is measured without tiles");
        world_close(&w);
    }
}

void sample_placement(void)
{
    struct world w;
    world_open(&w, SETS("backend=xnnpack", "placement=strict"));
    struct onnx_writer *g = onnx_writer_new("det");
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, DIMS(3, 3), NULL);
    onnx_writer_node(g, "Det", ONNX_LIST("x"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 0, NULL, NULL);
    world_load(&w, g);
    cr_expect_eq(w.loaded, PEN_ERR_UNSUPPORTED);
    world_close(&w);
    world_dense(&w, SETS("backend=xnnpack", "placement=fallback"));
    cr_expect_eq(w.engine->backend_count, 2u, "the reference stands behind it");
    world_close(&w);
}

static void nan_run(struct world *w, const char *const *sets)
{
    world_open(w, sets);
    world_load(w, log_write(1.0f));
    world_run(w, 1, DIMS(2), (const float[]){1.0f, -1.0f});
}

void sample_mode(void)
{
    struct world w;
    nan_run(&w, SETS("backend=reference", "mode=default"));
    cr_expect_eq(w.ran, PEN_OK);
    world_close(&w);
    nan_run(&w, SETS("backend=reference", "mode=debug"));
    cr_expect_neq(w.ran, PEN_OK, "debug mode finds NaN");
    world_close(&w);
}

void sample_check_numerics(void)
{
    struct world w;
    nan_run(&w, SETS("backend=xnnpack", "check_numerics=off"));
    cr_expect(w.ran == PEN_OK && pen_session_note(w.session)[0] == '\0');
    world_close(&w);
    nan_run(&w, SETS("backend=xnnpack", "check_numerics=warn"));
    cr_expect_eq(w.ran, PEN_OK);
    cr_expect_not_null(strstr(pen_session_note(w.session), "(Log) produced NaN at element 1"), "%s",
                       pen_session_note(w.session));
    world_run(&w, 1, DIMS(2), (const float[]){1.0f, 2.0f});
    cr_expect_str_eq(pen_session_note(w.session), "", "of the latest run only");
    world_close(&w);
    nan_run(&w, SETS("backend=xnnpack", "check_numerics=fail"));
    cr_expect_eq(w.ran, PEN_ERR_INVALID);
    cr_expect_not_null(strstr(w.error.text, "Log"), "%s", w.error.text);
    world_close(&w);
}

void sample_f16_range_check(void)
{
    static const char *const sets[] = {"f16_range_check=off", "f16_range_check=warn", "f16_range_check=fail"};
    for (int how = 0; how < 3; how++) {
        struct world w;
        world_open(&w, SETS("backend=xnnpack", sets[how]));
        world_load(&w, log_write(1e6f));
        world_run(&w, 1, DIMS(2), (const float[]){1.0f, 7.0f});
        cr_expect_eq(w.ran, how == 2 ? PEN_ERR_INVALID : PEN_OK);
        const char *told = how == 2 ? w.error.text : pen_session_note(w.session);
        cr_expect_eq(strstr(told, "(Mul) produced a value beyond f16 at element 1") != NULL, how > 0, "%s", told);
        world_close(&w);
    }
}

static size_t profile_rows_of(const char *set)
{
    struct world w;
    size_t count = 0;
    world_open(&w, SETS("backend=xnnpack", set));
    world_load(&w, graph_dense());
    pen_session_profile(w.session, true);
    world_run(&w, 2, DIMS(1, WIDTH), world_zeros);
    (void)pen_session_profile_rows(w.session, &count);
    world_close(&w);
    return count;
}

void sample_profile(void)
{
    cr_expect_gt(profile_rows_of("profile=op"), profile_rows_of("profile=off"));
}

void sample_compare(void)
{
    struct world w;
    world_dense(&w, SETS("backend=xnnpack", "compare=none"));
    cr_expect_eq(pen_session_compared(w.session), 0u);
    world_close(&w);
    world_dense(&w, SETS("backend=xnnpack", "compare=reference"));
    cr_expect_gt(pen_session_compared(w.session), 0u);
    world_close(&w);
}

void sample_warmup(void)
{
    static const char *const sets[] = {"warmup=none", "warmup=compile", "warmup=execute"};
    for (int how = 0; how < 3; how++) {
        struct world w;
        uint64_t run_us = 99;
        world_open(&w, SETS("backend=xnnpack", sets[how]));
        world_load(&w, graph_dense());
        struct pen_tensor in = {.dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, WIDTH}};
        cr_assert_eq(pen_session_warm(w.session, &in, 1, NULL, &run_us, &w.error), PEN_OK, "%s", w.error.text);
        cr_expect_eq(pen_session_prepared(w.session) > 0, how > 0, "%s", sets[how]);
        cr_expect_eq(run_us > 0, how == 2, "%s", sets[how]);
        world_close(&w);
    }
}

static uint32_t nodes_with(const char *set, struct onnx_writer *g)
{
    struct world w;
    world_open(&w, SETS("backend=reference", set));
    world_load(&w, g);
    cr_assert_eq(w.loaded, PEN_OK, "%s", w.error.text);
    uint32_t nodes = w.model->program->placement->nodes[0];
    world_close(&w);
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

void sample_optimise(void)
{
    cr_expect_lt(nodes_with("optimise=on", same_write()), nodes_with("optimise=off", same_write()));
}

void sample_skip_passes(void)
{
    cr_expect_lt(nodes_with("skip_passes=pad,gemm", same_write()), nodes_with("skip_passes=pad,dead", same_write()));
}

void sample_budget_bytes(void)
{
    struct world w;
    world_open(&w, SETS("backend=reference", "budget_bytes=4KiB"));
    world_load(&w, graph_dense());
    cr_expect_eq(w.loaded, PEN_ERR_TOO_LARGE);
    world_close(&w);
}

void sample_fold_bytes(void)
{
    cr_expect_lt(nodes_with("fold_bytes=64MiB", fold_write()), nodes_with("fold_bytes=1", fold_write()));
}

void sample_keep_measured(void)
{
    const struct pen_tensor shape = {.name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, WIDTH}};
    const struct pen_measure_inputs inputs = {.shapes = &shape};
    for (int on = 0; on < 2; on++) {
        struct world w;
        struct pen_measured found;
        bool kept = false;
        world_dense(&w, SETS("backend=xnnpack", on ? "keep_measured=on" : "keep_measured=off"));
        cr_assert_eq(pen_model_measure(w.model, &inputs, NULL, &found, &kept, &w.error), PEN_OK, "%s", w.error.text);
        cr_expect_eq(kept, on != 0);
        cr_expect_eq(pen_model_measured(w.model, &inputs, &found), on != 0);
        world_close(&w);
    }
}
