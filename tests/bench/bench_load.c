/*
 * bench_load.c - what loading one model takes: time, and the memory of this process before and after. Prints one JSON object.
 *
 * Usage: bench_load MODEL [BACKEND [LOADS]]: loads it LOADS times (default 1), one after the other; memory is looked at after the first.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "penstock/engine.h"

static double now_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A line of /proc/self/status in bytes: "VmRSS:", "VmHWM:". */
static uint64_t status_bytes(const char *name)
{
    char line[256];
    uint64_t kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            kib = strtoull(line + strlen(name), NULL, 10);
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return kib * 1024;
}

struct figures {
    double first_ms, best_ms, best_cpu_ms;
    uint64_t before, after, peak, weights;
};

static enum pen_status load_once(struct pen_engine *engine, const char *path, bool first, struct figures *f,
                                 struct pen_error *error)
{
    struct pen_model *model = NULL;
    double wall = now_ms(CLOCK_MONOTONIC), cpu = now_ms(CLOCK_PROCESS_CPUTIME_ID);
    enum pen_status status = pen_model_load(engine, path, &model, error);
    wall = now_ms(CLOCK_MONOTONIC) - wall;
    cpu = now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    if (status == PEN_OK && first) {
        *f = (struct figures){
            wall, wall, cpu, f->before, status_bytes("VmRSS:"), status_bytes("VmHWM:"), pen_model_weights(model)};
    }
    f->best_ms = wall < f->best_ms ? wall : f->best_ms;
    f->best_cpu_ms = cpu < f->best_cpu_ms ? cpu : f->best_cpu_ms;
    pen_model_free(model);
    return status;
}

int main(int argc, char **argv)
{
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_error error = {0};
    struct stat file;
    if (argc < 2 || argc > 4 || stat(argv[1], &file) != 0) {
        fprintf(stderr, "usage: bench_load MODEL [BACKEND [LOADS]]\n");
        return 2;
    }
    pen_engine_options_init(&options);
    options.backend = argc > 2 ? argv[2] : "auto";
    int loads = argc > 3 ? atoi(argv[3]) : 1;
    enum pen_status status = pen_engine_new(&options, &engine, &error);
    struct figures f = {.before = status_bytes("VmRSS:")};
    for (int i = 0; i < loads && status == PEN_OK; i++) {
        status = load_once(engine, argv[1], i == 0, &f, &error);
    }
    if (status != PEN_OK) {
        fprintf(stderr, "bench_load: %s\n", error.text);
    } else {
        printf("{\"file_bytes\": %lld, \"weights_bytes\": %" PRIu64 ", \"first_ms\": %.3f, \"best_ms\": %.3f, "
               "\"best_cpu_ms\": %.3f, \"rss_before\": %" PRIu64 ", \"rss_after\": %" PRIu64 ", \"rss_peak\": %" PRIu64
               "}\n",
               (long long)file.st_size, f.weights, f.first_ms, f.best_ms, f.best_cpu_ms, f.before, f.after, f.peak);
    }
    pen_engine_free(engine);
    return status == PEN_OK ? 0 : 1;
}
