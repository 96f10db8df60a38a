/*
 * curve.h - how long one kind of worker takes for a model: by batch size, alone and with all slots busy, with the spread of the times.
 *
 * Threads: one-at-a-time.
 */
#ifndef CURVE_H
#define CURVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "penstock/status.h"

#define SPREAD_POINTS     41u
#define SPREAD_SAMPLES    4096u
#define CURVE_SIZES_MAX   12u
#define CURVES_MAX        16u
#define CURVE_BATCH_MAX   1024u
#define CURVE_SLOTS_MAX   64u
#define CURVE_WORKERS_MAX 4096u

/* Times, by quantile: us[i] is the one at 1 - (1 - i / 40)^2, so that the points lie closer to each other at the slow end. */
struct spread {
    uint32_t count; /* of the measurements */
    double us[SPREAD_POINTS];
    double mean_us;
};

/* A batch of so many rows. */
struct curve_size {
    uint32_t rows;
    struct spread alone; /* nothing else runs on the workers that were measured */
    struct spread all;   /* all of their slots run the same */
};

struct curve {
    char backend[32];
    uint32_t slots, threads; /* of a worker; threads of a slot */
    uint32_t workers;        /* that were measured together */
    bool own;                /* workers that the measurement started on its own machine */
    size_t sizes_count;
    struct curve_size sizes[CURVE_SIZES_MAX]; /* by rows, ascending; the first is 1 */
    struct spread way_alone, way_all;         /* of a job's latency, what was neither waiting nor running */
    double gap_us;     /* what a job costs its slot beside its run, when the slots never wait for work */
    double jobs_per_s; /* of all workers that were measured, under that load */
};

struct curves {
    char model[256];
    uint64_t version;
    bool batched; /* the model takes more than one row */
    size_t count;
    struct curve curves[CURVES_MAX];
};

/* Sorts the samples. */
void spread_make(double *samples_us, size_t count, struct spread *ret_spread);
/*
 * The same for times that were measured one after another, each begun when the one before was over (every_us later as a rule), and that jobs will meet at moments
 * of their own: one that took long would have met others that came meanwhile. So it counts for those, too, each every_us shorter. At most room samples.
 */
void spread_make_unbidden(double *samples_us, size_t count, size_t room, double every_us, struct spread *ret_spread);
/* share in 0..1. */
double spread_at(const struct spread *spread, double share);
void spread_settle(struct spread *spread); /* mean_us from the points */

/* Time of a run of so many rows at that quantile; busy: share of the slots that run something at its start, 0..1. Between two sizes it is interpolated. */
double curve_run_us(const struct curve *curve, uint32_t rows, double busy, double share);
double curve_run_mean_us(const struct curve *curve, uint32_t rows, double busy);
/* The slow one in a hundred is so much slower than the middle one that something else ran on the machine: another moment would give another curve. */
bool curve_is_noisy(const struct curve *curve);
double curve_way_us(const struct curve *curve, double busy, double share);
/* Its sizes up to `batch`, to be warmed up; returns how many. */
size_t curve_rows_up_to(const struct curve *curve, uint32_t batch, uint32_t ret_rows[CURVE_SIZES_MAX]);

/* Read and written as JSON. INVALID: the sentence says where; IO, NOT_FOUND. */
cJSON *curves_json(const struct curves *curves);
enum pen_status curves_save(const struct curves *curves, const char *file, struct pen_error *reterr);
enum pen_status curves_load(const char *file, struct curves *ret_curves, struct pen_error *reterr);

#endif
