/* explain_steps.c - where the steps of an ensemble ran, and how long they took. */
#include "explain_internal.h"
#include "explain.h"

void explain_step_init(struct explained_step *step, uint32_t number, const char *model)
{
    *step = (struct explained_step){.number = number};
    explain_text(step->model, sizeof step->model, model);
}

void explain_step_job(struct explained_step *step, const struct job *job, const struct dispatch *dispatch,
                      uint64_t now_us)
{
    step->version = job->lane->model->version;
    step->attempts = job->attempts;
    step->total_us = step->queue_us = now_us - job->admitted_us;
    if (!dispatch)
        return;
    explain_text(step->worker, sizeof step->worker, dispatch->worker->hello->name);
    explain_text(step->backend, sizeof step->backend, dispatch->offer ? dispatch->offer->meta->backend : "");
    step->reason = dispatch->reason;
    step->batch_jobs = dispatch->count;
    step->queue_us = dispatch->sent_us > job->admitted_us ? dispatch->sent_us - job->admitted_us : 0;
}

static const char *state_name(const struct explained_step *step)
{
    static const char *const names[] = {[EXPLAINED_WAITS] = "waits",
                                        [EXPLAINED_RUNS] = "running",
                                        [EXPLAINED_DONE] = "done",
                                        [EXPLAINED_FAILED] = "failed",
                                        [EXPLAINED_STOPPED] = "stopped"};
    return step->state == EXPLAINED_RUNS && !step->worker[0] ? "queued" : names[step->state];
}

static void write_one(struct explain_writer *w, const struct explained_step *step, Penstock__ExplainedStep *to)
{
    penstock__explained_step__init(to);
    to->number = step->number;
    to->model = explain_copy(w, step->model);
    to->version = step->version;
    to->state = explain_copy(w, state_name(step));
    to->worker = explain_copy(w, step->worker);
    to->backend = explain_copy(w, step->backend);
    to->batch_reason = explain_copy(w, close_reason_name(step->reason));
    to->batch_jobs = step->batch_jobs;
    to->attempts = step->attempts;
    to->queue_us = step->queue_us;
    to->compute_us = step->compute_us;
    to->total_us = step->total_us;
}

void explain_steps_write(struct explain_writer *w, const struct explained_step *steps, size_t count,
                         Penstock__Explanation *to)
{
    if (count == 0)
        return;
    Penstock__ExplainedStep **list = explain_take(w, count * sizeof *list);
    Penstock__ExplainedStep *items = explain_take(w, count * sizeof *items);
    if (!list || !items)
        return;
    for (size_t i = 0; i < count; i++) {
        list[i] = &items[i];
        write_one(w, &steps[i], &items[i]);
    }
    to->steps = list;
    to->n_steps = count;
}
