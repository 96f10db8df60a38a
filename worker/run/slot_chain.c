/* slot_chain.c - the steps of an ensemble, one after the other, each in batches of its own model. */
#include "slot_internal.h"

#include "deadline.h"

static bool answered(const struct task *task)
{
    return atomic_load(&task->job->state) == JOB_ANSWERED;
}

static struct pen_tensor *inputs_room(struct slot *slot, size_t count)
{
    size_t bytes = (count ? count : 1) * sizeof(struct pen_tensor);
    return slot->work->arena.allocator.alloc(slot->work->arena.allocator.allocator_data, bytes);
}

/* The job as a task of step `index`: its inputs are checked anew, against the step's model. False: it was answered. */
static bool step_open(struct slot *slot, struct task *whole, size_t index, struct task *ret_task)
{
    struct pen_tensor taken[ENSEMBLE_PLAN_LINKS_MAX];
    struct pen_error error = {0};
    struct served *served = whole->chain->steps[index];
    *ret_task = (struct task){.job = whole->job,
                              .served = served,
                              .whole = whole,
                              .step = index,
                              .outputs = UINT64_MAX,
                              .layers = whole->layers,
                              .traceparent = whole->traceparent,
                              .inputs = inputs_room(slot, served->inputs_count)};
    enum pen_status status = PEN_OK;
    if (!ret_task->inputs)
        status = task_lacks(&slot->work->arena, "tensors", &error);
    size_t count = chain_take(whole->served, whole->chain, index, taken);
    if (status == PEN_OK)
        status = task_pictures(ret_task, taken, count, &whole->chain->pictures[index], &error);
    if (ret_task->maps && !whole->maps) {
        whole->maps = ret_task->maps;
        whole->decode_us = ret_task->decode_us;
    }
    if (status == PEN_OK)
        status = task_match_inputs(served, taken, count, ret_task->inputs, &ret_task->rows, &error);
    if (status != PEN_OK)
        slot_task_error(slot, ret_task, status, error.text);
    return status == PEN_OK;
}

void slot_chain_keep(struct slot *slot, const struct batch *batch, size_t index, uint32_t first_row,
                     const struct pen_tensor *outputs, size_t count, struct timing timing)
{
    struct pen_tensor cut[SERVED_TENSORS_MAX];
    struct pen_error error = {0};
    struct task *task = batch->tasks[index], *whole = task->whole;
    struct chain *chain = whole->chain;
    const struct run_outputs run = {outputs, count, first_row};
    enum pen_status status = PEN_OK;
    if (task->parts && answered(task))
        return;
    for (size_t i = 0; !batch->served->answer && i < count && i < SERVED_TENSORS_MAX; i++)
        cut[i] = gather_cut(batch, index, first_row, &outputs[i]);
    if (batch->served->answer)
        status = slot_answer_steps(slot, batch, index, &run, cut, &count, &error);
    if (status == PEN_OK && task->parts)
        status = chain_keep_part(whole->served, chain, task->step, task->part, task->parts, cut, count, &error);
    else if (status == PEN_OK)
        status = chain_keep(whole->served, chain, task->step, cut, count, &error);
    if (status != PEN_OK) {
        slot_task_error(slot, task, status, error.text);
        return;
    }
    if (!chain->started)
        chain->start_us = timing.start_us;
    chain->started = true;
    chain->gather_us += timing.gather_us;
    chain->compute_us += timing.compute_us;
}

/* The whole's outputs in the ensemble's order, as one model would give them. */
static size_t chain_outputs(const struct task *task, struct pen_tensor outputs[SERVED_TENSORS_MAX])
{
    const struct ensemble_plan *plan = task->served->config.plan;
    for (uint32_t i = 0; i < plan->tensors_count; i++) {
        int index = ensemble_plan_output(plan, i);
        if (index >= 0)
            outputs[index] = task->chain->flows[i];
    }
    return plan->outputs_count;
}

static void chain_answer(struct slot *slot, struct task *task)
{
    struct pen_tensor outputs[SERVED_TENSORS_MAX];
    const struct chain *chain = task->chain;
    struct batch exclusive = {
        .served = task->served, .tasks = {task}, .count = 1, .rows = task->rows, .bound = task->rows};
    size_t count = chain_outputs(task, outputs);
    slot_answer_result(slot, &exclusive, 0, 0, outputs, count,
                       (struct timing){.start_us = chain->start_us,
                                       .gather_us = chain->gather_us,
                                       .compute_us = chain->compute_us,
                                       .end_us = clock_now_us()});
}

static size_t step_tasks(struct slot *slot, const struct batch *batch, size_t index)
{
    size_t count = 0;
    for (size_t i = 0; i < batch->count; i++)
        if (!answered(batch->tasks[i]) && step_open(slot, batch->tasks[i], index, &slot->steps[count]))
            count++;
    return count;
}

static void task_begin(const struct batch *batch, size_t index)
{
    struct chain *chain = batch->tasks[index]->chain;
    chain->batch_jobs = (uint32_t)batch->count;
    chain->batch_rows = batch->rows;
    chain->batch_place = (uint32_t)index;
    chain_begin(batch->served, chain, batch->tasks[index]->inputs);
}

void slot_chain_run(struct slot *slot, struct batch *batch)
{
    const struct ensemble_plan *plan = batch->served->config.plan;
    for (size_t i = 0; i < batch->count; i++)
        task_begin(batch, i);
    for (size_t index = 0; index < plan->steps_count; index++) {
        struct batch step;
        if (plan->steps[index].crop.present) {
            for (size_t i = 0; i < batch->count; i++)
                if (!answered(batch->tasks[i]))
                    slot_crop_run(slot, batch->tasks[i], index);
            continue;
        }
        size_t count = step_tasks(slot, batch, index);
        while (gather_compose(slot->steps, count, &step))
            slot_batch_run(slot, &step);
    }
    for (size_t i = 0; i < batch->count; i++)
        if (!answered(batch->tasks[i]))
            chain_answer(slot, batch->tasks[i]);
}
