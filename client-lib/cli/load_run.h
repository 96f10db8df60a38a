/*
 * load_run.h - keeps a pool busy for a while and measures.
 *
 * Closed loop: `concurrency` jobs are always in flight; a new one starts when one ends. Open loop: jobs start at fixed times, whatever became of
 * those before; latency counts from the time a job was due, so that a stall shows in every job it delayed.
 * Threads: owner.
 */
#ifndef LOAD_RUN_H
#define LOAD_RUN_H

#include "histogram.h"
#include "inputs.h"
#include "penstock/client.h"

struct load_plan {
    pen_client *client;
    struct pen_job_options job; /* inputs excepted */
    struct inputs *inputs;
    int64_t duration_us;
    int64_t concurrency; /* closed loop */
    double rate;         /* > 0: open loop, jobs per second */
    bool unique;         /* no two jobs have equal inputs */
    bool progress;       /* a line on stderr each second */
};

struct load_report {
    uint64_t requests; /* answered or refused */
    uint64_t errors;   /* of these, without a result */
    uint64_t cache_hits;
    uint64_t elapsed_us;
    struct histogram latency_us, queue_us, compute_us; /* successes; compute and queue of those that were not cached */
    enum pen_status error;                             /* the last one */
    char error_text[PEN_ERROR_TEXT_BYTES];
};

/* Fills a zeroed report. */
void load_run(const struct load_plan *plan, struct load_report *report);

#endif
