/* cascade_step.c - a step as a job: its request, its place in its model's queue, its start. */
#include <inttypes.h>

#include "admit.h"
#include "cascade_internal.h"
#include "dispatch.h"
#include "logline.h"
#include "metrics_record.h"

static struct job_id step_id(const struct broker *broker, const struct cascade *cascade, size_t index)
{
    return (struct job_id){.client = broker->cascades->uuid,
                           .sequence = cascade->number * SCRIPT_STEPS_MAX + index + 1};
}

const struct job *cascade_whole(const struct broker *broker, const struct job *step)
{
    const struct cascade *cascade = cascade_find(broker->cascades, cascade_number(step->id));
    return cascade ? cascade->job : step;
}

/* Into the model's queue, beyond its limit if need be: the whole was admitted. */
static struct job *step_job(struct broker *broker, struct cascade *cascade, size_t index,
                            const struct admission *admission, struct parcel *request)
{
    struct model *model = admission->model;
    struct lane *lane = queue_lane(&model->queue, model, &admission->demand, admission->shape);
    struct job *job = lane ? jobs_new(&broker->jobs, step_id(broker, cascade, index)) : NULL;
    if (!job) {
        if (lane)
            lane_release(lane);
        return NULL;
    }
    job->step = true;
    job->lane = lane;
    job->request = request;
    job->rows = admission->rows;
    job->priority = admission->priority;
    job->any_version = admission->any_version;
    job->admitted_us = broker->now_us;
    job->arrival = cascade->job->arrival;
    job->deadline_us = cascade->job->deadline_us; /* it is the whole that expires */
    model->users++;
    queue_add(&model->queue, job->priority, parcel_bytes(request));
    broker->queued_bytes += parcel_bytes(request);
    broker->live++;
    session_add(cascade->job->session, job);
    record_model(broker, model)->admitted++;
    return job;
}

static bool gives_whole(const struct script *script, const struct script_step *step)
{
    for (size_t i = 0; i < step->outputs_count; i++) {
        if (script_output(script, step->outputs[i].tensor))
            return true;
    }
    return false;
}

/* The request of a step: the whole's demands, the step's model, what flows into it. */
static enum pen_status step_request(struct broker *broker, struct cascade *cascade, size_t index,
                                    struct admission *ret_admission, struct parcel **ret_request,
                                    struct pen_error *reterr)
{
    const struct script_step *step = &cascade->script->steps[index];
    struct letter letter = {.env = envelope_make(FRAME_SUBMIT)};
    Penstock__JobMeta meta = *cascade->request;
    char *outputs[SCRIPT_LINKS_MAX];
    for (size_t i = 0; i < step->outputs_count; i++)
        outputs[i] = (char *)(uintptr_t)step->outputs[i].port;
    for (size_t i = 0; i < step->inputs_count; i++)
        letter_add(&letter, step->inputs[i].port, &cascade->flows[step->inputs[i].tensor]);
    letter_close(&letter);
    meta.base.n_unknown_fields = 0;
    meta.model = (char *)(uintptr_t)step->model;
    meta.version = step->version;
    meta.version_label = (char *)(uintptr_t) "";
    meta.inputs = letter.pointers;
    meta.n_inputs = letter.count;
    meta.outputs = outputs;
    meta.n_outputs = step->outputs_count;
    meta.parameters = NULL;
    meta.n_parameters = 0;
    meta.detached = (char *)(uintptr_t) "";
    meta.top_k =
        gives_whole(cascade->script, step) ? meta.top_k : 0; /* what is read out of other outputs nobody asks for */
    letter.env.job = step_id(broker, cascade, index);
    letter.env.flags = FRAME_FLAG_NO_CACHE;
    letter.env.model_hash = frame_name_hash(step->model);
    letter.env.priority = cascade->job->priority;
    letter.env.precision = (uint8_t)cascade->job->lane->demand.precision;
    struct admit_request ask = {.env = &letter.env,
                                .labels = &broker->labels,
                                .meta = &meta,
                                .raws = letter.raws,
                                .raws_count = letter.frames,
                                .tenant = cascade->job->session->tenant,
                                .digest = broker->options->digest,
                                .tensors = broker->tensors};
    enum pen_status status = admit(&broker->models, &ask, ret_admission, reterr);
    if (status != PEN_OK)
        return status;
    if (ret_admission->model->script)
        return pen_error_set(reterr, PEN_ERR_INVALID, "it is an ensemble itself; name its steps instead");
    meta.version = ret_admission->model->version;
    letter.env.priority = ret_admission->priority;
    return letter_parcel(&letter, &meta.base, ret_request, reterr);
}

static void step_start(struct broker *broker, struct cascade *cascade, size_t index)
{
    char id[JOB_ID_TEXT_BYTES], whole[JOB_ID_TEXT_BYTES];
    struct admission admission = {.model = NULL};
    struct pen_error error = {.status = PEN_OK};
    struct parcel *request = NULL;
    struct job *job = NULL;
    enum pen_status status = step_request(broker, cascade, index, &admission, &request, &error);
    if (status == PEN_OK && !(job = step_job(broker, cascade, index, &admission, request))) {
        parcel_release(request);
        status = pen_error_set(&error, PEN_ERR_NO_MEMORY, "the broker has no memory for it");
    }
    if (status != PEN_OK) {
        cascade_fail(broker, cascade, index, status, error.text);
        return;
    }
    cascade->steps[index].told.state = EXPLAINED_RUNS;
    cascade->steps[index].job = job;
    if (log_enabled(LOG_DEBUG))
        log_event(LOG_DEBUG, "step_admitted", "job=%s whole=%s step=%u model=%s version=%" PRIu64,
                  job_id_text(job->id, id), job_id_text(cascade->job->id, whole), cascade->script->steps[index].number,
                  admission.model->name, admission.model->version);
    dispatch_queue(broker, job);
}

static bool step_ready(const struct cascade *cascade, size_t index)
{
    const struct script_step *step = &cascade->script->steps[index];
    for (size_t i = 0; i < step->inputs_count; i++) {
        if (!cascade->flows[step->inputs[i].tensor].parcel)
            return false;
    }
    return cascade->steps[index].told.state == EXPLAINED_WAITS;
}

void cascade_start_ready(struct broker *broker, uint64_t number)
{
    struct cascade *cascade = cascade_find(broker->cascades, number);
    for (size_t i = 0; cascade && i < script_steps(cascade->script); i++) {
        if (!step_ready(cascade, i))
            continue;
        step_start(broker, cascade, i);
        cascade = cascade_find(broker->cascades, number);
    }
}
