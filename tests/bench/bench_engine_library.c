/*
 * bench_engine_library - runs and loads with flat memory: bench_engine_library [--runs N] [--loads N] [--backend B] [--model FILE] [--limit KIB].
 *
 * Each run stands in a scope with an input of its own: three batch sizes in turn, every sixteenth in the background, every sixty-fourth read asynchronously, every
 * hundredth wrong and refused. Prints resident memory and pen_memory() at ten steps of each. Exit 1 when resident memory grew by more than KIB (default 1024) after the first
 * step, when what the engine holds grew at all, or when a tensor is left.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "penstock/backends.h"

#define STEPS 10

struct options {
    unsigned long runs, loads, limit_kib;
    const char *backend, *model;
};

static struct pen_model *model;
static atomic_ulong arrived;
static bool failed;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_engine_library: %s: %s\n", what, why);
    failed = true;
}

static unsigned long resident_kib(void)
{
    unsigned long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL || fscanf(f, "%lu %lu", &total, &resident) != 2) {
        fail("/proc/self/statm", "cannot be read");
    }
    if (f != NULL) {
        fclose(f);
    }
    return resident * ((unsigned long)sysconf(_SC_PAGESIZE) / 1024);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void see(void *context, enum pen_status status, const struct pen_tensor *view, const struct pen_error *error)
{
    (void)context;
    (void)view;
    if (status != PEN_OK) {
        fail("an asynchronous read", error->text);
    }
    atomic_fetch_add(&arrived, 1);
}

static enum pen_status run_once(void *context, struct pen_tensor_handle **ret_results, struct pen_error *reterr)
{
    static const float zeros[3 * 64];
    const unsigned long round = *(const unsigned long *)context;
    const int64_t rows = 1 + (int64_t)(round % 3);
    const bool wrong = round % 100 == 99;
    const struct pen_tensor view = {.dtype = PEN_DTYPE_F32,
                                    .rank = 4,
                                    .dims = {rows, 1, wrong ? 4 : 8, wrong ? 16 : 8},
                                    .data = zeros,
                                    .bytes = (size_t)rows * 64 * sizeof *zeros};
    const struct pen_run_options options = {.background = round % 16 == 15};
    struct pen_tensor_handle *x = NULL, *answer = NULL;
    float scores[30];
    (void)ret_results;
    enum pen_status status = pen_tensor_new(&view, &x, reterr);
    if (status == PEN_OK) {
        status = pen_model_run(model, &x, 1, &options, &answer, 1, reterr);
    }
    if (wrong) {
        return status == PEN_ERR_SHAPE ? PEN_OK : PEN_ERR_INTERNAL;
    }
    if (status == PEN_OK && round % 64 == 63) {
        return pen_tensor_data_async(answer, see, NULL, reterr);
    }
    return status == PEN_OK ? pen_tensor_read(answer, scores, sizeof scores, reterr) : status;
}

static void run(const struct options *options, unsigned long round)
{
    struct pen_error error = {0};
    (void)options;
    if (pen_tidy(run_once, &round, NULL, 0, &error) != PEN_OK) {
        fail("a run", error.text);
    }
}

static void load(const struct options *options, unsigned long round)
{
    struct pen_error error = {0};
    unsigned long plain = round % 3;
    if (pen_model_open(options->model, &model, &error) != PEN_OK ||
        pen_tidy(run_once, &plain, NULL, 0, &error) != PEN_OK) {
        fail("a load", error.text);
    }
    pen_model_close(model);
    model = NULL;
}

/* Asynchronous reads that were asked for have come. */
static void settle(unsigned long asked)
{
    for (int i = 0; i < 100000 && atomic_load(&arrived) < asked; i++) {
        usleep(100);
    }
}

static void repeat(const char *what, unsigned long count, const struct options *options,
                   void (*once)(const struct options *options, unsigned long round))
{
    const double start = seconds();
    unsigned long first_kib = 0, asked = atomic_load(&arrived);
    uint64_t first_bytes = 0;
    for (unsigned long step = 0, round = 0; step < STEPS && !failed && count > 0; step++) {
        for (; round < count * (step + 1) / STEPS && !failed; round++) {
            once(options, round);
            asked += once == run && round % 64 == 63 && round % 100 != 99;
        }
        settle(asked);
        struct pen_memory memory;
        pen_memory(&memory);
        const unsigned long kib = resident_kib();
        printf("%9lu %s %8.1f s  resident %7lu KiB  tensors %llu  engine %9llu bytes  peak %9llu  on devices %llu\n",
               round, what, seconds() - start, kib, (unsigned long long)memory.tensors,
               (unsigned long long)memory.bytes, (unsigned long long)memory.peak_bytes,
               (unsigned long long)memory.device_bytes);
        fflush(stdout);
        first_kib = step == 0 ? kib : first_kib;
        first_bytes = step == 0 ? memory.bytes : first_bytes;
        if (memory.tensors > 0 || memory.bytes > first_bytes || kib > first_kib + options->limit_kib) {
            fail(what, "memory is not flat");
        }
    }
}

static void parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--runs") == 0) {
            options->runs = strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--loads") == 0) {
            options->loads = strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--limit") == 0) {
            options->limit_kib = strtoul(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--backend") == 0) {
            options->backend = argv[i + 1];
        } else if (strcmp(argv[i], "--model") == 0) {
            options->model = argv[i + 1];
        } else {
            fail(argv[i], "there are --runs N, --loads N, --limit KIB, --backend B and --model FILE");
        }
    }
}

/* So that the steps compare like with like: every session that runs may use, with the three batch sizes, all of them at once on their way. */
static void warm(void)
{
    static const float zeros[3 * 64];
    const struct pen_run_options background = {.background = true};
    struct pen_error error = {0};
    (void)pen_scope_begin(&error);
    for (int i = 0; i < 600 && !failed; i++) {
        const int64_t rows = 1 + i / 200;
        const struct pen_tensor view = {
            .dtype = PEN_DTYPE_F32, .rank = 4, .dims = {rows, 1, 8, 8}, .data = zeros, .bytes = (size_t)rows * 256};
        struct pen_tensor_handle *x = NULL, *answer = NULL;
        if (pen_tensor_new(&view, &x, &error) != PEN_OK ||
            pen_model_run(model, &x, 1, &background, &answer, 1, &error) != PEN_OK) {
            fail("warm-up", error.text);
        }
    }
    (void)pen_scope_end(NULL, 0, &error);
}

int main(int argc, char **argv)
{
    struct options options = {.runs = 1000000,
                              .loads = 10000,
                              .limit_kib = 1024,
                              .model = PENSTOCK_SOURCE "/deploy/models/digits/1/model.onnx"};
    struct pen_error error = {0};
    parse(argc, argv, &options);
    if (failed) {
        return 2;
    }
    if (pen_backend_set(options.backend, &error) != PEN_OK || pen_model_open(options.model, &model, &error) != PEN_OK) {
        fail("start", error.text);
        return 1;
    }
    printf("%s on %s\n", options.model, pen_backend_get());
    warm();
    repeat("runs ", options.runs, &options, run);
    pen_model_close(model);
    model = NULL;
    repeat("loads", options.loads, &options, load);
    if (pen_shutdown(&error) != PEN_OK) {
        fail("the end", error.text);
    }
    struct pen_memory memory;
    pen_memory(&memory);
    if (memory.tensors > 0 || memory.bytes > 0 || memory.models > 0 || memory.sessions > 0) {
        fail("the end", "something is left");
    }
    return failed;
}
