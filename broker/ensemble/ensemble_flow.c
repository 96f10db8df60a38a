/* ensemble_flow.c - passes the steps' outputs on to the steps that need them, and at last into the result of the
   whole. */
#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "ensemble_internal.h"
#include "classes.h"
#include "job_meta.h"
#include "metrics_record.h"
#include "explain.h"
#include "states.h"

/* The largest request that the broker hashes itself without delaying others for long. The result of a larger one is
   neither cached nor shared with jobs that joined. */
static const size_t proof_bytes_max[] = {[DIGEST_XXH3] = 16u * 1024u * 1024u, [DIGEST_SHA256] = 1024u * 1024u};

/* ---- is it what the client's digest said? ---------------------------------------------------------------------------------------------- */

static bool request_proved(const struct broker *broker, struct ensemble_run *ensemble, const struct cache_key *key)
{
    struct pen_tensor inputs[FRAME_MAX_TENSORS];
    struct digest digest;
    enum digest_kind kind = broker->options->digest;
    if (shared_message_bytes(ensemble->source) > proof_bytes_max[kind])
        return false;
    for (size_t i = 0; i < ensemble->request->n_inputs; i++)
        inputs[i] = ensemble->inputs[i].view;
    return job_meta_digest(kind, ensemble->request, inputs, &ensemble->arena, &digest) == PEN_OK &&
           digest_equal(digest, key->request);
}

static bool content_proved(const struct ensemble_run *ensemble, const struct cache_key *key)
{
    struct digest steps[ENSEMBLE_PLAN_STEPS_MAX], whole;
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan); i++)
        steps[i] = ensemble->steps[i].model;
    return ensemble_plan_digest(ensemble->plan, steps, &whole) && digest_equal(whole, key->model);
}

/* Without a cache, and when no job has joined, nobody needs the proof. */
static bool proved(const struct broker *broker, struct ensemble_run *ensemble)
{
    const struct single_flight *flight = ensemble->job->flight;
    if (!flight || (ensemble_is_own(ensemble) && flight->followers_count == 0 && !cache_enabled(broker->cache)))
        return false;
    return content_proved(ensemble, &flight->key) && request_proved(broker, ensemble, &flight->key);
}

/* ---- all steps are done ----------------------------------------------------------------------------------------------------------------- */

static bool wanted(const Penstock__JobMeta *request, const char *output)
{
    for (size_t i = 0; i < request->n_outputs; i++) {
        if (strcmp(request->outputs[i], output) == 0)
            return true;
    }
    return request->n_outputs == 0;
}

/* The name of the whole's tensor that is this output of the step; NULL: it is no output of the whole. */
static const char *whole_output(const struct ensemble_plan *plan, const struct ensemble_plan_step *step,
                                const char *port)
{
    for (size_t i = 0; i < step->outputs_count; i++) {
        if (strcmp(step->outputs[i].port, port) == 0 && ensemble_plan_output(plan, step->outputs[i].tensor))
            return plan->tensors[step->outputs[i].tensor];
    }
    return NULL;
}

/* Annotations that the steps' workers made for outputs of the whole, under the whole's names; at most as many as one
   result may have. */
static size_t annotations_take(const struct ensemble_run *ensemble, Penstock__Annotation *taken[CLASSES_MAX])
{
    size_t count = 0, classes = 0, bytes = 0;
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan); i++) {
        const Penstock__ResultMeta *meta = ensemble->steps[i].meta;
        for (size_t j = 0; meta && j < meta->n_annotations && count < CLASSES_MAX; j++) {
            Penstock__Annotation *one = meta->annotations[j];
            const char *name = whole_output(ensemble->plan, &ensemble->plan->steps[i], one->output);
            if (!name)
                continue;
            one->output = (char *)(uintptr_t)name;
            classes += one->n_classes;
            bytes += penstock__annotation__get_packed_size(one) + 8;
            if (classes > CLASSES_MAX || bytes > FRAME_META_BYTES_MAX / 2)
                return count;
            taken[count++] = one;
        }
    }
    return count;
}

/* The result as one worker would have sent it; the job's own fields are added when it is answered. */
static enum pen_status whole_make(struct ensemble_run *ensemble, struct shared_message **ret_whole,
                                  struct pen_error *reterr)
{
    const struct ensemble_plan *plan = ensemble->plan;
    const struct model *model = ensemble->job->lane->model;
    struct group_builder builder = {.env = envelope_make(FRAME_RESULT)};
    Penstock__ResultMeta meta = *ensemble->last;
    Penstock__Annotation *annotations[CLASSES_MAX];
    for (size_t i = 0; i < plan->outputs_count; i++) {
        if (wanted(ensemble->request, plan->tensors[plan->outputs[i]]))
            group_builder_add(&builder, plan->tensors[plan->outputs[i]], &ensemble->flows[plan->outputs[i]]);
    }
    group_builder_close(&builder);
    meta.base.n_unknown_fields = 0;
    meta.outputs = builder.pointers;
    meta.n_outputs = builder.count;
    meta.model = model->name;
    meta.version = model->version;
    meta.backend = (char *)(uintptr_t)ensemble->backend;
    meta.device = (char *)(uintptr_t)ensemble->device;
    meta.precision = ensemble->precision;
    ensemble->measured.base.n_unknown_fields = 0;
    meta.measured = ensemble->unmeasured ? NULL : &ensemble->measured;
    meta.compute_us = ensemble->compute_us;
    meta.worker_us = ensemble->worker_us;
    meta.queue_us = meta.total_us = meta.worker_wait_us = meta.decode_us = meta.gather_us = meta.split_us = 0;
    meta.batch_size = meta.attempts = 1;
    meta.batch_reason = (char *)(uintptr_t)close_reason_name(CLOSE_STEPS);
    meta.labels = NULL;
    meta.n_labels = 0;
    meta.annotations = annotations;
    meta.n_annotations = annotations_take(ensemble, annotations);
    meta.layers = NULL;
    meta.n_layers = 0;
    meta.explanation = NULL;
    meta.model_digest = (ProtobufCBinaryData){.len = 0};
    builder.env.job = ensemble->job->id;
    builder.env.precision = ensemble->precision;
    return group_builder_message(&builder, &meta.base, ret_whole, reterr);
}

static void finish(struct broker *broker, struct ensemble_run *ensemble)
{
    struct job *job = ensemble->job;
    struct pen_error error = {.status = PEN_OK};
    struct shared_message *whole = NULL;
    bool good = proved(broker, ensemble);
    if (!good && !ensemble_is_own(ensemble)) { /* another job's request may be at fault */
        ensemble_run_again(broker, ensemble);
        return;
    }
    enum pen_status status = whole_make(ensemble, &whole, &error);
    ensemble_stop(broker, ensemble);
    if (status == PEN_OK) {
        answer_whole(broker, job, whole, good);
        return;
    }
    answer_apart(broker, job);
    answer_error(broker, job, status, error.text);
}

/* ---- one is done ------------------------------------------------------------------------------------------------------------------------ */

/* Nobody has measured the steps together: the largest error holds for the whole where all that feed others are exact (ensemble_plan_bound). */
static void note_measured(struct ensemble_run *ensemble, size_t index, const Penstock__MeasuredError *step)
{
    Penstock__MeasuredError *whole = &ensemble->measured;
    bool first = !ensemble->backend;
    if (!step || (ensemble_plan_feeds(ensemble->plan, index) && !(step->largest <= 0.0))) {
        ensemble->unmeasured = true;
        return;
    }
    bool repeatable = step->repeatable && (first || whole->repeatable);
    if (first || !(step->largest <= whole->largest))
        *whole = *step;
    whole->source = (char *)(uintptr_t) "steps";
    whole->repeatable = repeatable;
}

/* The whole has the lowest precision of its steps, and their backend when all have the same. */
static void note_provenance(struct ensemble_run *ensemble, size_t index, const struct envelope *env,
                            const Penstock__ResultMeta *meta)
{
    bool first = !ensemble->backend;
    if (first || !match_precision((enum precision)ensemble->precision, (enum precision)env->precision))
        ensemble->precision = env->precision;
    note_measured(ensemble, index, meta->measured);
    ensemble->backend = first || strcmp(ensemble->backend, meta->backend) == 0 ? meta->backend : "several";
    ensemble->device = first || strcmp(ensemble->device, meta->device) == 0 ? meta->device : "several";
    ensemble->last = meta;
    ensemble->compute_us += meta->compute_us;
    ensemble->worker_us += meta->worker_us;
}

/* Keeps the outputs of step `index` as flows. */
static enum pen_status keep(struct broker *broker, struct ensemble_run *ensemble, size_t index,
                            struct shared_message *reply, struct pen_error *reterr)
{
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    const struct ensemble_plan_step *step = &ensemble->plan->steps[index];
    struct envelope env;
    Penstock__ResultMeta *meta = group_open(reply, &ensemble->arena, &penstock__result_meta__descriptor, &env);
    if (!meta || meta->n_outputs > FRAME_MAX_TENSORS)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "its result cannot be read");
    enum pen_status status = group_tensors(reply, meta->outputs, meta->n_outputs, tensors, reterr);
    for (size_t i = 0; status == PEN_OK && i < step->outputs_count; i++) {
        size_t j = 0;
        while (j < meta->n_outputs && strcmp(tensors[j].name, step->outputs[i].port) != 0)
            j++;
        if (j == meta->n_outputs)
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "its result has no output '%.128s'", step->outputs[i].port);
        ensemble->flows[step->outputs[i].tensor] =
            (struct group_tensor){.view = tensors[j], .shared = reply, .frame = meta->outputs[j]->frame};
    }
    uint64_t limit = (uint64_t)broker->options->max_job_bytes;
    if (status == PEN_OK && ensemble->bytes + shared_message_bytes(reply) > limit)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "with its result %" PRIu64 " bytes flow between the steps; this broker takes %" PRIu64
                             " (--max-job-bytes)",
                             ensemble->bytes + shared_message_bytes(reply), limit);
    ensemble->steps[index].meta = meta;
    note_provenance(ensemble, index, &env, meta);
    return status;
}

static bool all_done(const struct ensemble_run *ensemble)
{
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan); i++) {
        if (ensemble->steps[i].told.state != EXPLAINED_DONE)
            return false;
    }
    return true;
}

/* Which model ran, where, and in a batch of how many. */
static void note_end(const struct broker *broker, struct ensemble_step *step, const struct job *job,
                     const struct ending *ending)
{
    const struct dispatch *dispatch = ending->dispatch;
    const struct result_facts *facts = ending->group ? &ending->group->facts : NULL;
    explain_step_job(&step->told, job, dispatch, broker->now_us);
    if (dispatch)
        step->model = dispatch->model_digest;
    if (facts && facts->model_digest)
        memcpy(step->model.bytes, facts->model_digest, sizeof step->model.bytes);
    if (facts)
        step->told.compute_us = facts->compute_us;
}

/* The outputs are looked at later, when the code that ended the step has returned. */
static void step_ended(struct broker *broker, struct job *job, struct shared_message *reply, enum pen_status status,
                       const struct ending *ending)
{
    struct ensemble_run *ensemble = ensemble_find(broker->ensembles, ensemble_number(job->id));
    struct ensemble_step *step = &ensemble->steps[ensemble_index(job->id)];
    record_end(broker, job, status, reply ? shared_message_bytes(reply) : 0, ending);
    if (!ensemble->over)
        note_end(broker, step, job, ending);
    answer_retire(broker, job, status);
    session_remove(job->session, job);
    jobs_free(&broker->jobs, job);
    step->job = NULL;
    effect_post(&broker->effects, &ensemble->moves, EFFECT_ENSEMBLE_MOVES);
    if (ensemble->over) {
        shared_message_release(reply);
        return;
    }
    step->came = true;
    step->reply = reply;
    step->status = status;
}

static const struct job *step_whole(const struct broker *broker, const struct job *job)
{
    const struct ensemble_run *ensemble = ensemble_find(broker->ensembles, ensemble_number(job->id));
    return ensemble->job ? ensemble->job : job;
}

const struct job_owner ensemble_step_owner = {.name = "step", .part = true, .ended = step_ended, .whole = step_whole};

static void step_failed(struct broker *broker, struct ensemble_run *ensemble, size_t index)
{
    const struct ensemble_step *step = &ensemble->steps[index];
    enum pen_status status = step->status != PEN_OK ? step->status : PEN_ERR_NO_MEMORY;
    struct envelope env;
    const Penstock__ResultMeta *meta =
        step->reply ? group_open(step->reply, &ensemble->arena, &penstock__result_meta__descriptor, &env) : NULL;
    ensemble_fail(broker, ensemble, index, status, meta && *meta->error ? meta->error : pen_status_name(status));
}

static void step_taken(struct broker *broker, struct ensemble_run *ensemble, size_t index)
{
    struct pen_error error = {.status = PEN_OK};
    struct ensemble_step *step = &ensemble->steps[index];
    step->came = false;
    step->told.state = EXPLAINED_DONE;
    if (step->status != PEN_OK || !step->reply) {
        step_failed(broker, ensemble, index);
        return;
    }
    enum pen_status status = keep(broker, ensemble, index, step->reply, &error);
    ensemble->bytes += shared_message_bytes(step->reply);
    states_hold_bytes(broker, shared_message_bytes(step->reply));
    if (status != PEN_OK)
        ensemble_fail(broker, ensemble, index, status, error.text);
}

void ensemble_go_on(struct broker *broker, struct ensemble_run *ensemble)
{
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan) && !ensemble->over; i++) {
        if (ensemble->steps[i].came)
            step_taken(broker, ensemble, i);
    }
    if (ensemble->over)
        return;
    if (all_done(ensemble))
        finish(broker, ensemble);
    else
        ensemble_start_ready(broker, ensemble);
}
