/*
 * load_run.h - keeps a pool busy for a while and measures.
 *
 * Closed loop: `concurrency` jobs are always in flight; a new one starts when one ends. Open loop: jobs start at fixed times, whatever became of
 * those before; latency counts from the time a job was due, so that a stall shows in every job it delayed. The times are even, random (Poisson), or those of a
 * recording.
 * Threads: owner.
 */
#ifndef LOAD_RUN_H
#define LOAD_RUN_H

#include "histogram.h"
#include "inputs.h"
#include "penstock/client.h"

/* A job of a schedule. */
struct load_due {
    uint64_t at_us;                    /* since the start */
    const struct pen_job_options *job; /* inputs included; borrowed until the next one; NULL = the plan's */
};

enum load_arrivals { LOAD_EVEN, LOAD_POISSON };

struct load_plan {
    pen_client *client;
    struct pen_job_options job; /* inputs excepted */
    struct inputs *inputs;
    int64_t duration_us;
    int64_t concurrency; /* closed loop */
    double rate;         /* > 0: open loop, jobs per second */
    enum load_arrivals arrivals;
    uint64_t seed; /* of the random times */
    /* Open loop, instead of the rate: the next job, in order of time; false: that was the last. */
    bool (*next)(void *context, struct load_due *ret_due);
    /* Is told every success; NULL = nobody. */
    void (*each)(void *context, const pen_result *result, uint64_t latency_us);
    void *context; /* of both */
    bool unique;   /* no two jobs have equal inputs */
    bool progress; /* a line on stderr each second */
};

struct load_report {
    uint64_t requests; /* answered or refused */
    uint64_t errors;   /* of these, without a result */
    uint64_t cache_hits;
    uint64_t elapsed_us;
    uint64_t batched;                                  /* sum of the batch sizes of those that were not cached */
    double slot_us;                                    /* sum of each job's share of its run: compute_us / batch size */
    struct histogram latency_us, queue_us, compute_us; /* successes; compute and queue of those that were not cached */
    struct histogram late_us;                          /* open loop: how much later than due a job was submitted */
    enum pen_status error;                             /* the last one */
    char error_text[PEN_ERROR_TEXT_BYTES];
};

/* Fills a zeroed report. */
void load_run(const struct load_plan *plan, struct load_report *report);

/* Successes per second. */
double load_throughput(const struct load_report *report);
/* Jobs that shared a run, on average; 0 when none ran. */
double load_batch(const struct load_report *report);
/* A job's share of its run, on average; 0 when none ran. */
double load_slot_us(const struct load_report *report);

#endif
