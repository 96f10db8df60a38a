/*
 * plan_measure.h - measures the curve of a kind of worker by jobs through its pool.
 *
 * Threads: owner.
 */
#ifndef PLAN_MEASURE_H
#define PLAN_MEASURE_H

#include "curve.h"
#include "inputs.h"
#include "penstock/client.h"

struct plan_measurement {
    pen_client *client;
    const struct pen_model *model;
    struct pen_job_options job;        /* its needs lead to the workers of this kind */
    const struct setting_list *inputs; /* NAME=FILE; others are made up */
    const char *image;                 /* "" = none */
    int64_t point_us;                  /* how long each point is measured, at least */
    uint32_t rows_max;
    bool progress; /* lines on stderr */
};

/* Fills the curve's times; backend, slots, threads and workers are given. The error of a job that failed; or NO_MEMORY. */
enum pen_status plan_measure(const struct plan_measurement *measurement, struct curve *curve, struct pen_error *reterr);

#endif
