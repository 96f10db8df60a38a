/*
 * queue_sim.h - what becomes of jobs that come at random times to a pool of equal workers, by their measured curve and the broker's rules for batches.
 *
 * Arrivals are a Poisson process. Jobs of one row wait in one queue, in their order. Run times and the rest of the way are drawn from what was measured. When a
 * batch closes follows broker/sched/batch.c and latency.c: the most rows, a size that pays best, the delay, and jobs that have waited in vain
 * (tests/client-lib/test_plan_rules.c compares the two). The next batch is composed shortly before its slot is free. One seed, one result.
 * Threads: any.
 */
#ifndef QUEUE_SIM_H
#define QUEUE_SIM_H

#include "curve.h"

/* What can be chosen. */
struct sim_setting {
    const struct curve *curve;
    uint32_t workers;
    uint32_t batch;    /* max_batch_size; 1 = no batches */
    uint64_t delay_us; /* max_queue_delay_microseconds */
};

struct sim_result {
    double at_slo_us; /* the latency at the quantile that was asked for */
    double p50_us, p99_us;
    double
        busy; /* share of the slots' time that the jobs need in their best batches; 1 and more: the queue grows without end */
    double batch_mean; /* jobs in a run */
};

/* share: the quantile of at_slo_us. jobs: how many are simulated. False without memory. */
bool queue_sim(const struct sim_setting *setting, double rate, double share, uint32_t jobs, uint64_t seed,
               struct sim_result *ret_result);

/* ---- the rules for batches ---- */

struct sim_rules {
    const struct curve *curve;
    uint32_t batch;
    uint64_t delay_us;
    uint32_t target; /* sim_best_rows of `batch` */
};

/* Rows of the batch, at most `most`, that give the most rows per second: latency_best. */
uint32_t sim_best_rows(const struct curve *curve, uint32_t batch, uint32_t most);
/* How many rows start now, 0 = wait until *ret_wake_us: batch_close. vain: batches in a row that waited in vain. */
uint32_t sim_close(const struct sim_rules *rules, uint64_t waiting, double now_us, double oldest_us, uint32_t vain,
                   double *ret_wake_us);

#endif
