#include "plan_run_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum pen_status plan_jobs_make(const struct plan_options *o, const char *model, struct plan_jobs *jobs,
                               struct pen_error *reterr)
{
    enum pen_status status = request_make(&o->request, &jobs->request, reterr);
    jobs->request.options.model = model;
    jobs->request.options.flags |= PEN_JOB_NO_CACHE;
    return status;
}

void plan_jobs_pin(struct plan_jobs *jobs, const struct curve *curve)
{
    struct pen_job_options *job = &jobs->request.options;
    snprintf(jobs->threads, sizeof jobs->threads, "threads=%" PRIu32, curve->threads);
    for (size_t i = 0; i < job->needs_count; i++) {
        jobs->needs[i] = job->needs[i];
    }
    jobs->needs[job->needs_count++] = jobs->threads;
    job->needs = jobs->needs;
    job->backend = *curve->backend ? curve->backend : job->backend;
}

enum pen_status plan_measure_kind(const struct plan_options *o, pen_client *client, const struct pen_model *model,
                                  const struct pen_job_options *job, uint32_t rows_max, struct curve *curve,
                                  struct pen_error *reterr)
{
    struct plan_measurement measurement = {.client = client,
                                           .model = model,
                                           .job = *job,
                                           .inputs = &o->request.inputs,
                                           .image = o->image,
                                           .point_us = o->point_us,
                                           .rows_max = rows_max,
                                           .progress = isatty(STDERR_FILENO)};
    if (measurement.progress) {
        fprintf(stderr, "%" PRIu32 " x (%" PRIu32 " slots x %" PRIu32 " threads):\n", curve->workers, curve->slots,
                curve->threads);
    }
    return plan_measure(&measurement, curve, reterr);
}

bool plan_is_batched(const struct pen_model *model)
{
    return model->inputs_count > 0 && model->inputs[0].batched && model->offers_count > 0 &&
           model->offers[0]->max_batch_size > 0;
}

void plan_head_make(const struct pen_model *model, struct curves *curves)
{
    memset(curves, 0, sizeof *curves);
    snprintf(curves->model, sizeof curves->model, "%s", model->name);
    curves->version = model->version;
    curves->batched = plan_is_batched(model);
}

enum pen_status plan_prove_with(const struct plan_options *o, pen_client *client, const struct pen_model *model,
                                const struct plan_goal *goal, const struct pen_job_options *job,
                                struct plan_proof *proof, struct pen_error *reterr)
{
    struct inputs inputs = {.count = 0};
    struct load_report *report = calloc(1, sizeof *report);
    enum pen_status status = inputs_add_list(&inputs, model, &o->request.inputs, reterr);
    if (status == PEN_OK && *o->image) {
        status = inputs_add_file(&inputs, model, NULL, o->image, reterr);
    }
    status = status == PEN_OK ? inputs_generate(&inputs, model, reterr) : status;
    if (status == PEN_OK && !report) {
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the proof.");
    }
    if (status == PEN_OK) {
        struct load_plan plan = {.client = client,
                                 .job = *job,
                                 .inputs = &inputs,
                                 .duration_us = o->proof_us,
                                 .rate = proof->rate,
                                 .arrivals = LOAD_POISSON,
                                 .seed = (uint64_t)o->seed + 1, /* other times than the simulated ones */
                                 .progress = isatty(STDERR_FILENO)};
        load_run(&plan, report);
        proof->at_slo_us = (double)histogram_at(&report->latency_us, goal->share);
        proof->requests = report->requests;
        proof->errors = report->errors;
        proof->seconds = (double)report->elapsed_us * 1e-6;
        proof->answers_per_s = load_throughput(report);
        proof->held = report->errors == 0 && report->requests > 0 && proof->at_slo_us <= goal->limit_us;
    }
    free(report);
    inputs_fini(&inputs);
    return status;
}
