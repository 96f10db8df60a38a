/* slot_answer.c - makes a slot's answer to each job. */
#include "slot_internal.h"

#include "assertion.h"
#include "deadline.h"
#include "logline.h"
#include "measure.h"
#include "measure_whole.h"
#include "tensor_codec.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ATTEMPTS_MAX 9u /* pauses of 1, 2, 4 ... 256 ms */

void slot_memory_wait(unsigned attempt)
{
    const struct timespec pause = {.tv_nsec = 1000000L << attempt};
    if (attempt < ATTEMPTS_MAX) {
        nanosleep(&pause, NULL);
        return;
    }
    log_event(LOG_ERROR, "out_of_memory", "error=%s",
              "no memory for a result: this worker ends so that its jobs run elsewhere");
    _exit(1);
}

void slot_reply_open(struct slot *slot, size_t jobs)
{
    size_t most = atomic_load(&slot->context.catalog->outputs_most);
    for (unsigned attempt = 0; !(slot->work->reply = reply_new(jobs, jobs * (1 + most))); attempt++)
        slot_memory_wait(attempt);
    slot->work->reply->sealed_from = slot->work->dispatch->sealed_from;
}

void slot_answer_error(struct slot *slot, struct job *job, enum pen_status status, const char *text)
{
    char id[JOB_ID_TEXT_BYTES];
    struct stats *stats = slot->context.stats;
    PEN_ASSERT_SLOW(status != PEN_OK && *text, "a job that failed is told why");
    if (log_enabled(LOG_DEBUG))
        log_event(LOG_DEBUG, "job_error", "job=%s slot=%u status=%s error=%s", job_id_text(job->env.job, id),
                  slot->number, pen_status_name(status), text);
    atomic_store(&job->state, JOB_ANSWERED);
    atomic_fetch_add(status == PEN_ERR_CANCELLED  ? &stats->jobs_cancelled
                     : status == PEN_ERR_DEADLINE ? &stats->jobs_expired
                                                  : &stats->jobs_failed,
                     1);
    for (unsigned attempt = 0; reply_add_error(slot->work->reply, &job->env, slot->context.identity, status, text,
                                               slot->work->debug_log, clock_now_us() - job->received_us) != PEN_OK;
         attempt++)
        slot_memory_wait(attempt);
}

void slot_task_error(struct slot *slot, const struct task *task, enum pen_status status, const char *text)
{
    char named[PEN_ERROR_TEXT_BYTES];
    if (task->parts && atomic_load(&task->job->state) == JOB_ANSWERED)
        return;                             /* another cut-out of the same job failed before */
    if (!task->whole || task->whole->cut) { /* the broker names the step */
        slot_answer_error(slot, task->job, status, text);
        return;
    }
    const struct ensemble_plan_step *step = &task->whole->served->config.plan->steps[task->step];
    snprintf(named, sizeof named, "step %u (model '%.255s') of '%.255s': %s", step->number, step->model,
             task->whole->served->name, text);
    slot_answer_error(slot, task->job, status, named);
}

/* The time of the decoder is no waiting. */
static void times_fill(const struct task *task, struct timing timing, Penstock__ResultMeta *meta)
{
    uint64_t now_us = clock_now_us(), came_us = task->job->received_us;
    uint64_t wait_us = timing.start_us > came_us ? timing.start_us - came_us : 0;
    meta->compute_us = timing.compute_us;
    meta->worker_us = now_us - came_us;
    meta->decode_us = task->decode_us;
    meta->worker_wait_us = wait_us > task->decode_us ? wait_us - task->decode_us : 0;
    meta->gather_us = timing.gather_us;
    meta->split_us = now_us - timing.end_us;
}

/* The jobs that ran together; an ensemble's job is answered by itself, and remembers them. */
static void batch_fill(const struct batch *batch, size_t index, Penstock__ResultMeta *meta)
{
    const struct chain *chain = batch->tasks[index]->chain;
    meta->batch_size = chain ? chain->batch_jobs : (uint32_t)batch->count;
    meta->batch_rows = chain ? chain->batch_rows : batch->rows;
    meta->batch_place = chain ? chain->batch_place : (uint32_t)index;
}

/* What was measured of the model or of the ensemble: the answer says how far it may be off. */
static void measured_fill(const struct batch *batch, Penstock__MeasuredError *measured, Penstock__ResultMeta *meta)
{
    const struct chain *chain = batch->tasks[0]->chain;
    struct pen_measured all = {.repeatable = true};
    bool open, known = batch->served->config.plan
                           ? measure_whole_result(batch->served, chain->steps, &chain->digest, &all, &open)
                           : measure_result(batch->served, &all);
    if (!known)
        return;
    penstock__measured_error__init(measured);
    measured->largest = all.largest;
    measured->mean = all.mean;
    measured->inputs = all.inputs;
    measured->source = meta_text(pen_measured_source_name(all.source));
    measured->repeatable = all.repeatable;
    meta->measured = measured;
}

static void meta_fill(const struct slot *slot, const struct batch *batch, Penstock__MeasuredError *measured,
                      Penstock__ResultMeta *meta)
{
    const struct identity *identity = slot->context.identity;
    const struct served *served = batch->served;
    penstock__result_meta__init(meta);
    meta->model = meta_text(served->name);
    meta->version = served->version;
    meta->backend = meta_text(identity->backend);
    meta->device = meta_text(identity->device);
    meta->library = meta_text(identity->library);
    meta->isa = meta_text(identity->isa);
    meta->build = meta_text(identity->build);
    meta->worker = meta_text(identity->worker);
    meta->precision = (uint32_t)served_precision(served, identity->precision);
    const struct digest *digest = served->config.plan ? &batch->tasks[0]->chain->digest : &served->digest;
    meta->model_digest.data = (uint8_t *)meta_text((const char *)digest->bytes);
    meta->model_digest.len = sizeof digest->bytes;
    measured_fill(batch, measured, meta);
}

/* Labels go into the meta, so their size is limited as well; annotations may need half of the room. */
static void labels_fill(struct slot *slot, const struct task *task, const struct pen_tensor *scores, char **pointers,
                        Penstock__ResultMeta *meta)
{
    size_t bytes = 0, kept = 0, room = task->top_k > 0 ? FRAME_META_BYTES_MAX / 4 : FRAME_META_BYTES_MAX / 2;
    size_t count = labels_write(&task->served->config, scores, &task->served->labels_quant, task->rows, task->labels,
                                slot->labels, TASK_LABELS_MAX);
    for (; kept < count; kept++) {
        bytes += strlen(slot->labels[kept].text) + 8;
        if (bytes > room)
            break;
        pointers[kept] = slot->labels[kept].text;
    }
    meta->labels = pointers;
    meta->n_labels = kept;
}

/* For an ensemble: each output from which the model of a step reads classes. */
static void annotate_chain(struct annotations *a, const struct task *task, const struct pen_tensor *outputs)
{
    const struct ensemble_plan *plan = task->served->config.plan;
    for (size_t i = 0; i < plan->steps_count; i++) {
        const struct served *model = task->chain->steps[i];
        for (size_t j = 0; !model->answer && model->labels_output >= 0 && j < plan->steps[i].outputs_count; j++) {
            const struct ensemble_plan_link *link = &plan->steps[i].outputs[j];
            int whole = ensemble_plan_output(plan, link->tensor);
            if (whole >= 0 && served_output(model, link->port) == model->labels_output)
                annotations_add(a, model, plan->tensors[link->tensor], &outputs[whole], task->rows, task->top_k);
        }
    }
}

/* Adds what the job asks for besides its outputs. */
static void annotate(struct slot *slot, const struct batch *batch, size_t index, uint32_t first_row,
                     const struct pen_tensor *outputs, size_t count, Penstock__ResultMeta *meta)
{
    const struct task *task = batch->tasks[index];
    const struct served *served = batch->served;
    int output = served->labels_output;
    for (unsigned attempt = 0; !slot->annotations; attempt++)
        if (!(slot->annotations = calloc(1, sizeof *slot->annotations)))
            slot_memory_wait(attempt);
    annotations_clear(slot->annotations);
    if (served->config.plan) {
        annotate_chain(slot->annotations, task, outputs);
    } else if (output >= 0 && (size_t)output < count && !(served->hidden_outputs & UINT64_C(1) << output)) {
        struct pen_tensor scores = gather_cut(batch, index, first_row, &outputs[output]);
        annotations_add(slot->annotations, served, served->network_outputs[output].name, &scores, task->rows,
                        task->top_k);
    }
    annotations_put(slot->annotations, meta);
}

/* The worker's line of a job: the same id as in the client's and the broker's. */
static void log_run(const struct slot *slot, const struct batch *batch, const struct task *task,
                    const Penstock__ResultMeta *meta)
{
    char id[JOB_ID_TEXT_BYTES];
    if (!log_enabled(LOG_DEBUG))
        return;
    log_event(LOG_DEBUG, "job_run",
              "job=%s model=%s version=%" PRIu64 " slot=%u batch=%zu rows=%u wait_us=%" PRIu64 " decode_us=%" PRIu64
              " gather_us=%" PRIu64 " compute_us=%" PRIu64 " split_us=%" PRIu64 " traceparent=%s",
              job_id_text(task->job->env.job, id), batch->served->name, batch->served->version, slot->number,
              batch->count, batch->bound, meta->worker_wait_us, meta->decode_us, meta->gather_us, meta->compute_us,
              meta->split_us, task->traceparent);
}

/* Keeps the state before the answer is sent, because the next job of the sequence may follow at once. False: the job
   was answered. */
static bool state_keep(struct slot *slot, const struct batch *batch, size_t index, uint32_t first_row,
                       const struct pen_tensor *outputs, size_t count)
{
    struct task *task = batch->tasks[index];
    const struct served *served = batch->served;
    char text[256];
    for (size_t i = 0; i < served->states_count; i++) {
        const struct served_state *state = &served->states[i];
        struct pen_tensor given = {.bytes = SIZE_MAX};
        if (state->output < count)
            given = gather_cut(batch, index, first_row, &outputs[state->output]);
        if (given.bytes != state->tensor.bytes) {
            snprintf(text, sizeof text, "output '%.64s' is not as large as the state '%.64s' that it becomes",
                     served->network_outputs[state->output].name, served->inputs[state->input].name);
            slot_answer_error(slot, task->job, PEN_ERR_SHAPE, text);
            return false;
        }
        state_put(task->state, i, given.data);
    }
    if (task->job->env.flags & FRAME_FLAG_SEQUENCE_END)
        state_close_last(task->states, task->state, clock_now_us());
    else
        state_close(task->states, task->state, clock_now_us());
    task->state = NULL;
    return true;
}

/* Leaves out those that the job does not want. */
static size_t outputs_wanted(const struct task *task, struct pen_tensor *views, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (task->outputs & UINT64_C(1) << i)
            views[kept++] = views[i];
    return kept;
}

void slot_answer_result(struct slot *slot, const struct batch *batch, size_t index, uint32_t first_row,
                        const struct pen_tensor *outputs, size_t count, struct timing timing)
{
    Penstock__ResultMeta meta;
    Penstock__MeasuredError measured;
    char *label_pointers[TASK_LABELS_MAX];
    struct pen_tensor views[SERVED_TENSORS_MAX];
    struct pen_error error = {0};
    struct task *task = batch->tasks[index];
    int labels = batch->served->labels_output;
    meta_fill(slot, batch, &measured, &meta);
    times_fill(task, timing, &meta);
    batch_fill(batch, index, &meta);
    if (task->layers) {
        meta.layers = slot->work->layers.rows;
        meta.n_layers = slot->work->layers.count;
    }
    if (slot->work->debug_log)
        meta.debug_log = slot->work->debug_log;
    if (task->labels > 0 && labels >= 0 && (size_t)labels < count) {
        struct pen_tensor scores = gather_cut(batch, index, first_row, &outputs[labels]);
        labels_fill(slot, task, &scores, label_pointers, &meta);
    }
    if (task->top_k > 0)
        annotate(slot, batch, index, first_row, outputs, count, &meta);
    if (task->state && !state_keep(slot, batch, index, first_row, outputs, count))
        return;
    size_t taken = 0;
    if (batch->served->answer) {
        const struct run_outputs run = {outputs, count, first_row};
        enum pen_status answered = slot_answer_steps(slot, batch, index, &run, views, &taken, &error);
        if (answered != PEN_OK) {
            slot_answer_error(slot, task->job, answered, error.text);
            return;
        }
        taken = outputs_wanted(task, views, taken);
    } else {
        taken = gather_split(batch, index, first_row, outputs, count, views);
    }
    const struct reply_group group = {.status = PEN_OK,
                                      .precision = (enum precision)meta.precision,
                                      .digest = task->digested ? &task->digest : NULL,
                                      .outputs = views,
                                      .outputs_count = taken};
    enum pen_status status = reply_add(slot->work->reply, &task->job->env, &group, &meta, &error);
    if (status != PEN_OK) {
        if (task->states) /* its state was kept already, but nobody will know: a failed job ends its sequence */
            states_end(task->states, task->job->env.job.client, task->job->env.sequence_id,
                       task->job->env.job.sequence);
        slot_answer_error(slot, task->job, status, error.text);
        return;
    }
    log_run(slot, batch, task, &meta);
    atomic_store(&task->job->state, JOB_ANSWERED);
    atomic_fetch_add(&slot->context.stats->jobs_done, 1);
}
