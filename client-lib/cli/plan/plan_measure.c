#include "plan_measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load_run.h"

#define SAMPLES_WANTED  40.0   /* a point is measured for so long that it has so many, */
#define POINT_TIMES_MAX 6      /* at most so many times as long as asked for */
#define WARM_UP_US      100000 /* before the first point: connections, caches, the engine's first runs */
#define IN_FLIGHT_MAX   256

#define ONE_ROW_TIMES                                                                                                  \
    4 /* points of one row are measured so many times as long: rare pauses of the machine are found here */
#define WAYS_ROOM (4 * SPREAD_SAMPLES)

/* The samples of one run. */
struct taking {
    double run_us[SPREAD_SAMPLES], way_us[WAYS_ROOM];
    size_t count;
    uint64_t answers, alone; /* answers; those that had a run to themselves */
    struct load_report report;
};

static void take(void *context, const pen_result *result, uint64_t latency_us)
{
    struct taking *taking = context;
    const struct pen_result_info *info = pen_result_info(result);
    uint64_t told_us = info->queue_us + info->compute_us;
    uint32_t batch = info->batch_size;
    taking->answers++;
    if (batch > 1 && taking->alone >= 10) {
        return; /* two jobs came together: that is the time of another size */
    }
    taking->alone += batch <= 1;
    size_t at = taking->count++ % SPREAD_SAMPLES;
    taking->run_us[at] = (double)info->compute_us;
    taking->way_us[at] = latency_us > told_us ? (double)(latency_us - told_us) : 0.0;
}

static size_t samples_of(const struct taking *taking)
{
    return taking->count < SPREAD_SAMPLES ? taking->count : SPREAD_SAMPLES;
}

/* A broker or a machine that stands still for a while meets all jobs that come meanwhile, and only a few of a closed loop. */
static void ways_make(struct taking *taking, struct spread *ret_spread)
{
    double every_us = (double)histogram_at(&taking->report.latency_us, 0.5);
    spread_make_unbidden(taking->way_us, samples_of(taking), WAYS_ROOM, every_us, ret_spread);
}

static enum pen_status inputs_make(const struct plan_measurement *m, uint32_t rows, struct inputs *inputs,
                                   struct pen_error *reterr)
{
    const struct inputs_size size = {.rows = rows};
    enum pen_status status = inputs_add_list(inputs, m->model, m->inputs, reterr);
    if (status == PEN_OK && *m->image) {
        status = inputs_add_file(inputs, m->model, NULL, m->image, reterr);
    }
    return status == PEN_OK ? inputs_generate_sized(inputs, m->model, &size, reterr) : status;
}

/* A closed loop of `in_flight` jobs of so many rows. */
static enum pen_status run(const struct plan_measurement *m, uint32_t rows, uint32_t in_flight, int64_t duration_us,
                           struct taking *taking, struct pen_error *reterr)
{
    struct inputs inputs = {.count = 0};
    enum pen_status status = inputs_make(m, rows, &inputs, reterr);
    if (status == PEN_OK) {
        struct load_plan plan = {.client = m->client,
                                 .job = m->job,
                                 .inputs = &inputs,
                                 .duration_us = duration_us,
                                 .concurrency = in_flight,
                                 .each = take,
                                 .context = taking};
        memset(taking, 0, sizeof *taking);
        load_run(&plan, &taking->report);
        if (taking->report.errors || taking->count == 0) {
            status = pen_error_set(reterr, taking->report.errors ? taking->report.error : PEN_ERR_TIMEOUT,
                                   "a job of %" PRIu32 " rows was not answered: %.600s", rows,
                                   taking->report.errors ? taking->report.error_text : "no answer came in time");
        }
    }
    inputs_fini(&inputs);
    return status;
}

/* Again for longer when the first try gave too few samples. */
static enum pen_status run_long_enough(const struct plan_measurement *m, uint32_t rows, uint32_t in_flight,
                                       struct taking *taking, struct pen_error *reterr)
{
    int64_t point_us = rows == 1 ? ONE_ROW_TIMES * m->point_us : m->point_us;
    enum pen_status status = run(m, rows, in_flight, point_us, taking, reterr);
    if (status == PEN_OK && (double)taking->count < SAMPLES_WANTED) {
        int64_t longer = (int64_t)ceil(SAMPLES_WANTED / (double)taking->count);
        status =
            run(m, rows, in_flight, point_us * (longer < POINT_TIMES_MAX ? longer : POINT_TIMES_MAX), taking, reterr);
    }
    return status;
}

static enum pen_status measure_size(const struct plan_measurement *m, struct curve *curve, struct curve_size *size,
                                    struct taking *taking, struct pen_error *reterr)
{
    uint32_t slots = curve->slots * curve->workers;
    enum pen_status status = run_long_enough(m, size->rows, 1, taking, reterr);
    if (status != PEN_OK) {
        return status;
    }
    spread_make(taking->run_us, samples_of(taking), &size->alone);
    if (size->rows == 1) {
        ways_make(taking, &curve->way_alone);
    }
    if (slots > 1) {
        status = run_long_enough(m, size->rows, slots < IN_FLIGHT_MAX ? slots : IN_FLIGHT_MAX, taking, reterr);
    }
    if (status != PEN_OK) {
        return status;
    }
    spread_make(taking->run_us, samples_of(taking), &size->all);
    if (size->rows == 1) {
        ways_make(taking, &curve->way_all);
    }
    if (m->progress) {
        fprintf(stderr, "  %4" PRIu32 " rows: alone %.3f ms, all slots %.3f ms\n", size->rows,
                size->alone.mean_us / 1e3, size->all.mean_us / 1e3);
    }
    return PEN_OK;
}

/* More jobs than the slots can run: what is missing to all of their time is what messages, decoding and copying cost. */
static enum pen_status measure_gap(const struct plan_measurement *m, struct curve *curve, struct taking *taking,
                                   struct pen_error *reterr)
{
    uint64_t slots = (uint64_t)curve->slots * curve->workers, in_flight = 4 * slots * m->rows_max;
    enum pen_status status =
        run(m, 1, in_flight < IN_FLIGHT_MAX ? (uint32_t)in_flight : IN_FLIGHT_MAX, m->point_us * 2, taking, reterr);
    if (status == PEN_OK) {
        double all_us = (double)taking->report.elapsed_us * (double)slots;
        curve->gap_us = fmax(all_us - taking->report.slot_us, 0.0) / (double)taking->answers;
        curve->jobs_per_s = load_throughput(&taking->report);
    }
    return status;
}

/* 1, 2, 4 ... and the largest. */
static void sizes_choose(struct curve *curve, uint32_t rows_max)
{
    curve->sizes_count = 0;
    for (uint32_t rows = 1; rows < rows_max && curve->sizes_count < CURVE_SIZES_MAX - 1; rows *= 2) {
        curve->sizes[curve->sizes_count++].rows = rows;
    }
    curve->sizes[curve->sizes_count++].rows = rows_max;
}

enum pen_status plan_measure(const struct plan_measurement *m, struct curve *curve, struct pen_error *reterr)
{
    struct taking *taking = malloc(sizeof *taking);
    if (!taking) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory to measure.");
    }
    sizes_choose(curve, m->rows_max);
    enum pen_status status = run(m, 1, 1, WARM_UP_US, taking, reterr);
    for (size_t i = 0; i < curve->sizes_count && status == PEN_OK; i++) {
        status = measure_size(m, curve, &curve->sizes[i], taking, reterr);
    }
    status = status == PEN_OK ? measure_gap(m, curve, taking, reterr) : status;
    free(taking);
    return status;
}
