#include "explanation.h"

#include <stdlib.h>

static void candidates_fill(struct pen_candidate *to, const Penstock__Explanation *from)
{
    for (size_t i = 0; i < from->n_candidates; i++) {
        const Penstock__Candidate *one = from->candidates[i];
        to[i] = (struct pen_candidate){
            .worker = one->worker,
            .backend = one->backend,
            .backlog_us = one->backlog_us,
            .expect_us = one->expect_us,
            .transfer_us = one->transfer_us,
            .credit = one->credit,
            .chosen = one->chosen,
        };
    }
}

static void steps_fill(struct pen_explained_step *to, const Penstock__Explanation *from)
{
    for (size_t i = 0; i < from->n_steps; i++) {
        const Penstock__ExplainedStep *one = from->steps[i];
        to[i] = (struct pen_explained_step){
            .number = one->number,
            .model = one->model,
            .version = one->version,
            .state = one->state,
            .worker = one->worker,
            .backend = one->backend,
            .batch_reason = one->batch_reason,
            .batch_jobs = one->batch_jobs,
            .attempts = one->attempts,
            .queue_us = one->queue_us,
            .compute_us = one->compute_us,
            .total_us = one->total_us,
        };
    }
}

struct pen_explanation *explanation_new(const Penstock__Explanation *from)
{
    struct pen_explanation *to =
        malloc(sizeof *to + from->n_candidates * sizeof *to->candidates + from->n_steps * sizeof *to->steps);
    if (!to) {
        return NULL;
    }
    struct pen_candidate *candidates = (struct pen_candidate *)(void *)(to + 1);
    struct pen_explained_step *steps = (struct pen_explained_step *)(void *)(candidates + from->n_candidates);
    candidates_fill(candidates, from);
    steps_fill(steps, from);
    *to = (struct pen_explanation){
        .job = from->job,
        .model = from->model,
        .version = from->version,
        .state = from->state,
        .tenant = from->tenant,
        .priority = from->priority,
        .worker = from->worker,
        .backend = from->backend,
        .why_worker = from->why_worker,
        .why_batch = from->why_batch,
        .why_not = from->why_not,
        .candidates_count = from->n_candidates,
        .candidates = candidates,
        .capable = from->capable,
        .batch_reason = from->batch_reason,
        .batch_jobs = from->batch_jobs,
        .batch_rows = from->batch_rows,
        .queue_us = from->queue_us,
        .expect_us = from->expect_us,
        .compute_us = from->compute_us,
        .total_us = from->total_us,
        .attempts = from->attempts,
        .steps_count = from->n_steps,
        .steps = steps,
        .status = from->status < PEN_STATUS_COUNT ? (enum pen_status)from->status : PEN_ERR_INTERNAL,
    };
    return to;
}
