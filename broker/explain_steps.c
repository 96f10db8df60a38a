/* explain_steps.c - where the steps of an ensemble ran, and how long they took. */
#include <string.h>

#include "broker.h"

void explain_step_init(struct explained_step *step, uint32_t number, const char *model)
{
    *step = (struct explained_step){.number = number, .reason = ""};
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

static char *copy(ProtobufCAllocator *allocator, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *to = allocator->alloc(allocator->allocator_data, bytes);
    return to ? memcpy(to, text, bytes) : NULL;
}

static bool write_one(const struct explained_step *step, ProtobufCAllocator *allocator, Penstock__ExplainedStep *to)
{
    penstock__explained_step__init(to);
    to->number = step->number;
    to->model = copy(allocator, step->model);
    to->version = step->version;
    to->state = copy(allocator, state_name(step));
    to->worker = copy(allocator, step->worker);
    to->backend = copy(allocator, step->backend);
    to->batch_reason = copy(allocator, step->reason);
    to->batch_jobs = step->batch_jobs;
    to->attempts = step->attempts;
    to->queue_us = step->queue_us;
    to->compute_us = step->compute_us;
    to->total_us = step->total_us;
    return to->model && to->state && to->worker && to->backend && to->batch_reason;
}

bool explain_steps_write(const struct explained_step *steps, size_t count, ProtobufCAllocator *allocator,
                         Penstock__Explanation *to)
{
    if (count == 0)
        return true;
    Penstock__ExplainedStep **list = allocator->alloc(allocator->allocator_data, count * sizeof *list);
    Penstock__ExplainedStep *items = allocator->alloc(allocator->allocator_data, count * sizeof *items);
    for (size_t i = 0; list && items && i < count; i++) {
        list[i] = &items[i];
        if (!write_one(&steps[i], allocator, &items[i]))
            return false;
    }
    if (!list || !items)
        return false;
    to->steps = list;
    to->n_steps = count;
    return true;
}
