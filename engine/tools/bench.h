/*
 * bench.h - what the parts of `penstock-engine bench` share: a model under test, and its times.
 *
 * Threads: owner.
 */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include "tools/tool.h"

struct bench_options {
    struct tool_options tool;
    const char *model;
    struct setting_list shapes;
    int64_t batch, runs, seconds_us, in_flight;
    bool profile, modes;
};

struct bench {
    const struct bench_options *options;
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
    struct pen_tensor inputs[TOOL_INPUTS_MAX];
    void *buffers[TOOL_INPUTS_MAX];
    size_t input_count;
    double open_ms, load_ms, warmup_ms, first_ms, all_ms;
    double start_cpu_ms; /* processor time of load and warm-up */
    uint64_t before_rss; /* bytes, before the load */
    uint32_t in_flight;  /* as many as the session takes */
    double *times;
    size_t runs;
};

/* A time for a line of text; several of them in one line. */
struct time_text {
    char text[TOOL_TIME_BYTES];
};

struct time_text bench_time(double ms);
double bench_ms_since(uint64_t start_ns);
int bench_compare(const void *a, const void *b); /* of two doubles, for qsort */
/* Seeded inputs for the model, in the struct's buffers. */
enum pen_status bench_inputs(struct bench *b, struct pen_error *reterr);
enum pen_status bench_run(struct bench *b, double *ret_ms, struct pen_error *reterr);
void bench_fini(struct bench *b);

/* bench_modes.c: --modes. The exit code. */
int bench_modes(const struct bench_options *options);

#endif
