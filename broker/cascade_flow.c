/* cascade_flow.c - what steps have given: on to those that take it, at last into the result of the whole. */
#include <inttypes.h>
#include <string.h>

#include "answer.h"
#include "cascade_internal.h"
#include "classes.h"
#include "job_meta.h"
#include "metrics_record.h"

/* What the broker hashes at once without holding up others for long. A larger request is neither cached nor shared with those that have joined. */
static const size_t proof_bytes_max[] = {[DIGEST_XXH3] = 16u * 1024u * 1024u, [DIGEST_SHA256] = 1024u * 1024u};

/* ---- is it what the client's digest said? ---------------------------------------------------------------------------------------------- */

static bool request_proved(const struct broker *broker, struct cascade *cascade, const struct cache_key *key)
{
    struct pen_tensor inputs[FRAME_MAX_TENSORS];
    struct digest digest;
    enum digest_kind kind = broker->options->digest;
    if (parcel_bytes(cascade->source) > proof_bytes_max[kind])
        return false;
    for (size_t i = 0; i < cascade->request->n_inputs; i++)
        inputs[i] = cascade->inputs[i].view;
    return job_meta_digest(kind, cascade->request, inputs, &cascade->arena, &digest) == PEN_OK &&
           digest_equal(digest, key->request);
}

static bool content_proved(const struct cascade *cascade, const struct cache_key *key)
{
    struct digest steps[SCRIPT_STEPS_MAX], whole;
    for (size_t i = 0; i < script_steps(cascade->script); i++)
        steps[i] = cascade->steps[i].model;
    return script_digest(cascade->script, steps, &whole) && digest_equal(whole, key->model);
}

/* Nobody wants to know of a job that nobody has joined, without a cache. */
static bool proved(const struct broker *broker, struct cascade *cascade)
{
    const struct flight *flight = cascade->job->flight;
    if (!flight || (cascade_is_own(cascade) && flight->followers_count == 0 && !cache_enabled(broker->cache)))
        return false;
    return content_proved(cascade, &flight->key) && request_proved(broker, cascade, &flight->key);
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

/* The tensor of the whole that the step's output is; NULL: it is none that the whole gives. */
static const char *whole_output(const struct script *script, const struct script_step *step, const char *port)
{
    for (size_t i = 0; i < step->outputs_count; i++) {
        if (strcmp(step->outputs[i].port, port) == 0 && script_output(script, step->outputs[i].tensor))
            return script->tensors[step->outputs[i].tensor];
    }
    return NULL;
}

/* What the steps' workers read out of outputs of the whole, under its names; as much as one result may have. */
static size_t annotations_take(const struct cascade *cascade, Penstock__Annotation *taken[CLASSES_MAX])
{
    size_t count = 0, classes = 0, bytes = 0;
    for (size_t i = 0; i < script_steps(cascade->script); i++) {
        const Penstock__ResultMeta *meta = cascade->steps[i].meta;
        for (size_t j = 0; meta && j < meta->n_annotations && count < CLASSES_MAX; j++) {
            Penstock__Annotation *one = meta->annotations[j];
            const char *name = whole_output(cascade->script, &cascade->script->steps[i], one->output);
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

/* As one worker would have sent it: what is the job's own is added when it is answered. */
static enum pen_status whole_make(struct cascade *cascade, struct parcel **ret_whole, struct pen_error *reterr)
{
    const struct script *script = cascade->script;
    const struct model *model = cascade->job->lane->model;
    struct letter letter = {.env = envelope_make(FRAME_RESULT)};
    Penstock__ResultMeta meta = *cascade->last;
    Penstock__Annotation *annotations[CLASSES_MAX];
    for (size_t i = 0; i < script->outputs_count; i++) {
        if (wanted(cascade->request, script->tensors[script->outputs[i]]))
            letter_add(&letter, script->tensors[script->outputs[i]], &cascade->flows[script->outputs[i]]);
    }
    letter_close(&letter);
    meta.base.n_unknown_fields = 0;
    meta.outputs = letter.pointers;
    meta.n_outputs = letter.count;
    meta.model = model->name;
    meta.version = model->version;
    meta.backend = (char *)(uintptr_t)cascade->backend;
    meta.device = (char *)(uintptr_t)cascade->device;
    meta.precision = cascade->precision;
    meta.compute_us = cascade->compute_us;
    meta.worker_us = cascade->worker_us;
    meta.queue_us = meta.total_us = meta.worker_wait_us = meta.gather_us = meta.split_us = 0;
    meta.batch_size = meta.attempts = 1;
    meta.batch_reason = (char *)(uintptr_t) "steps";
    meta.labels = NULL;
    meta.n_labels = 0;
    meta.annotations = annotations;
    meta.n_annotations = annotations_take(cascade, annotations);
    meta.layers = NULL;
    meta.n_layers = 0;
    meta.explanation = NULL;
    meta.model_digest = (ProtobufCBinaryData){.len = 0};
    letter.env.job = cascade->job->id;
    letter.env.precision = cascade->precision;
    return letter_parcel(&letter, &meta.base, ret_whole, reterr);
}

static void finish(struct broker *broker, struct cascade *cascade)
{
    struct job *job = cascade->job;
    struct pen_error error = {.status = PEN_OK};
    struct parcel *whole = NULL;
    bool good = proved(broker, cascade);
    if (!good && !cascade_is_own(cascade)) { /* what another asked for, or how, is nobody else's business */
        cascade_run_again(broker, cascade);
        return;
    }
    enum pen_status status = whole_make(cascade, &whole, &error);
    cascade_stop(broker, cascade);
    if (status == PEN_OK) {
        answer_whole(broker, job, whole, good);
        return;
    }
    answer_apart(broker, job);
    answer_error(broker, job, status, error.text);
}

/* ---- one is done ------------------------------------------------------------------------------------------------------------------------ */

/* The whole is as good as the least of its steps, and of one backend when all of them are. */
static void note_provenance(struct cascade *cascade, const struct envelope *env, const Penstock__ResultMeta *meta)
{
    bool first = !cascade->backend;
    if (first || !match_precision((enum precision)cascade->precision, (enum precision)env->precision))
        cascade->precision = env->precision;
    cascade->backend = first || strcmp(cascade->backend, meta->backend) == 0 ? meta->backend : "several";
    cascade->device = first || strcmp(cascade->device, meta->device) == 0 ? meta->device : "several";
    cascade->last = meta;
    cascade->compute_us += meta->compute_us;
    cascade->worker_us += meta->worker_us;
}

/* What step `index` gave becomes flows. */
static enum pen_status keep(struct broker *broker, struct cascade *cascade, size_t index, struct parcel *reply,
                            struct pen_error *reterr)
{
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    const struct script_step *step = &cascade->script->steps[index];
    struct envelope env;
    Penstock__ResultMeta *meta = letter_open(reply, &cascade->arena, &penstock__result_meta__descriptor, &env);
    if (!meta || meta->n_outputs > FRAME_MAX_TENSORS)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "its result cannot be read");
    enum pen_status status = letter_tensors(reply, meta->outputs, meta->n_outputs, tensors, reterr);
    for (size_t i = 0; status == PEN_OK && i < step->outputs_count; i++) {
        size_t j = 0;
        while (j < meta->n_outputs && strcmp(tensors[j].name, step->outputs[i].port) != 0)
            j++;
        if (j == meta->n_outputs)
            return pen_error_set(reterr, PEN_ERR_CORRUPT, "its result has no output '%.128s'", step->outputs[i].port);
        cascade->flows[step->outputs[i].tensor] =
            (struct letter_tensor){.view = tensors[j], .parcel = reply, .frame = meta->outputs[j]->frame};
    }
    uint64_t limit = (uint64_t)broker->options->max_job_bytes;
    if (status == PEN_OK && cascade->bytes + parcel_bytes(reply) > limit)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "with its result %" PRIu64 " bytes flow between the steps; this broker takes %" PRIu64
                             " (--max-job-bytes)",
                             cascade->bytes + parcel_bytes(reply), limit);
    cascade->steps[index].meta = meta;
    note_provenance(cascade, &env, meta);
    return status;
}

static bool all_done(const struct cascade *cascade)
{
    for (size_t i = 0; i < script_steps(cascade->script); i++) {
        if (cascade->steps[i].told.state != EXPLAINED_DONE)
            return false;
    }
    return true;
}

/* Which content ran, where, in which company. */
void cascade_step_leaves(struct broker *broker, const struct job *job, const struct ending *ending)
{
    struct cascade *cascade = cascade_find(broker->cascades, cascade_number(job->id));
    const struct dispatch *dispatch = ending->dispatch;
    if (!cascade)
        return; /* it is over */
    struct cascade_step *step = &cascade->steps[cascade_index(job->id)];
    const struct result_facts *facts = ending->group ? &ending->group->facts : NULL;
    explain_step_job(&step->told, job, dispatch, broker->now_us);
    if (dispatch)
        step->model = dispatch->model_digest;
    if (facts && facts->model_digest)
        memcpy(step->model.bytes, facts->model_digest, sizeof step->model.bytes);
    if (facts)
        step->told.compute_us = facts->compute_us;
}

static void step_failed(struct broker *broker, struct cascade *cascade, size_t index, struct parcel *reply,
                        enum pen_status status)
{
    struct envelope env;
    const Penstock__ResultMeta *meta =
        reply ? letter_open(reply, &cascade->arena, &penstock__result_meta__descriptor, &env) : NULL;
    cascade_fail(broker, cascade, index, status, meta && *meta->error ? meta->error : pen_status_name(status));
}

void cascade_step_ended(struct broker *broker, struct job_id id, struct parcel *reply, enum pen_status status)
{
    struct pen_error error = {.status = PEN_OK};
    uint64_t number = cascade_number(id);
    size_t index = cascade_index(id);
    struct cascade *cascade = cascade_find(broker->cascades, number);
    if (!cascade) { /* the whole has ended already */
        parcel_release(reply);
        return;
    }
    struct cascade_step *step = &cascade->steps[index];
    step->job = NULL;
    step->told.state = EXPLAINED_DONE;
    if (status != PEN_OK || !reply) {
        step_failed(broker, cascade, index, reply, status != PEN_OK ? status : PEN_ERR_NO_MEMORY);
        parcel_release(reply);
        return;
    }
    status = keep(broker, cascade, index, reply, &error);
    step->reply = reply;
    cascade->bytes += parcel_bytes(reply);
    broker->queued_bytes += parcel_bytes(reply);
    if (status != PEN_OK)
        cascade_fail(broker, cascade, index, status, error.text);
    else if (all_done(cascade))
        finish(broker, cascade);
    else
        cascade_start_ready(broker, number);
}
