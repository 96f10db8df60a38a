/*
 * penstock/measure.h - what a piece of work costs: new tensors and bytes, the peak, kernels and their times. pen_memory() is in penstock/engine.h.
 *
 * Measured runs of models (pen_model_run) give one row per partition (per node where pen_engine_options.profile_nodes says so) and are awaited within the call, so they are a
 * little slower than others and never pending.
 * Threads: any. Kernels are those of the calling thread's runs; tensors and bytes are those of the whole process.
 */
#ifndef PENSTOCK_MEASURE_H
#define PENSTOCK_MEASURE_H

#include "penstock/engine.h"

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* The work that is measured. */
typedef enum pen_status pen_work_function(void *context, struct pen_error *reterr);

#define PEN_KERNEL_NAME_BYTES 96

/* One node (or what is left of a partition) over all runs of the work. */
struct pen_kernel {
    char node[PEN_KERNEL_NAME_BYTES]; /* cut to fit, as are the others */
    char op[PEN_KERNEL_NAME_BYTES];
    char backend[32];
    uint64_t runs, total_ns, macs; /* macs: multiply-adds of one run, 0 = not counted */
};

struct pen_profile {
    int64_t new_tensors; /* alive after the work less those before: below 0 where it disposed of more than it made */
    int64_t new_bytes;   /* of all that pen_memory() counts in `bytes` */
    uint64_t peak_bytes; /* the highest `bytes` while it ran */
    uint64_t wall_ns, kernel_ns;
    struct pen_kernel *kernels; /* by falling total_ns */
    size_t kernel_count;
    size_t kernels_lost; /* rows for which there was no memory */
};

/* Runs work(context) and writes what it cost, also where it fails; the status is the work's. Give the rows back with pen_profile_free. Measures may stand in one another:
 * the outer one counts the inner one's runs as well. */
enum pen_status pen_profile(pen_work_function *work, void *context, struct pen_profile *ret_profile,
                            struct pen_error *reterr);
void pen_profile_free(struct pen_profile *profile); /* frees the rows, and makes it empty */

struct pen_timing {
    uint64_t wall_ns;   /* of the whole call, CLOCK_MONOTONIC */
    uint64_t kernel_ns; /* of that, in kernels of models */
};

/* The same for times alone. */
enum pen_status pen_time(pen_work_function *work, void *context, struct pen_timing *ret_timing,
                         struct pen_error *reterr);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
