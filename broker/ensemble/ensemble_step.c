/* ensemble_step.c - a step as a job: its request, its place in its model's queue, its start. */
#include <inttypes.h>

#include "admit.h"
#include "assertion.h"
#include "ensemble_internal.h"
#include "dispatch.h"
#include "logline.h"
#include "metrics_record.h"
#include "states.h"

#define CROP_SHAPE UINT64_C(0xC509C509C509C509)

static struct job_id step_id(const struct broker *broker, const struct ensemble_run *ensemble, size_t index)
{
    return (struct job_id){.client = broker->ensembles->uuid,
                           .sequence = ensemble->number * ENSEMBLE_PLAN_STEPS_MAX + index + 1};
}

/* Puts the step into its model's queue, even beyond the limit: the whole was admitted. */
static struct job *step_job(struct broker *broker, struct ensemble_run *ensemble, size_t index,
                            const struct admission *admission, struct shared_message *request)
{
    struct model *model = admission->model;
    struct lane *lane = queue_lane(&model->queue, model, &admission->demand, admission->shape);
    struct job *job = lane ? jobs_new(&broker->jobs, step_id(broker, ensemble, index)) : NULL;
    if (!job) {
        if (lane)
            lane_release(lane);
        return NULL;
    }
    job->owner = OWNER_STEP;
    job->lane = lane;
    job->request = request;
    job->rows = admission->rows;
    job->priority = admission->priority;
    job->any_version = admission->any_version;
    job->outputs = admission->outputs;
    job->admitted_us = broker->now_us;
    job->arrival = ensemble->job->arrival;
    job->deadline_us = ensemble->job->deadline_us; /* only the whole expires */
    queue_add(&model->queue, job->priority, shared_message_bytes(request));
    states_admit(broker, job);
    session_add(ensemble->job->session, job);
    record_model(broker, model)->admitted++;
    return job;
}

static bool gives_whole(const struct ensemble_plan *plan, const struct ensemble_plan_step *step)
{
    for (size_t i = 0; i < step->outputs_count; i++) {
        if (ensemble_plan_output(plan, step->outputs[i].tensor))
            return true;
    }
    return false;
}

static void step_inputs(const struct ensemble_run *ensemble, const struct ensemble_plan_step *step, size_t count,
                        struct group_builder *builder)
{
    for (size_t i = 0; i < count; i++)
        group_builder_add(builder, step->inputs[i].port, &ensemble->flows[step->inputs[i].tensor]);
    group_builder_close(builder);
}

/* A step with crop is judged by its picture: what says where the objects are is no input of its model. Such jobs share
   no batch with whole pictures. */
static enum pen_status crop_admit(struct broker *broker, const struct ensemble_run *ensemble,
                                  const struct ensemble_plan_step *step, const struct admit_request *ask,
                                  struct admission *ret_admission, struct pen_error *reterr)
{
    struct group_builder builder = {.env = *ask->env};
    struct admit_request alone = *ask;
    Penstock__JobMeta meta = *ask->meta;
    step_inputs(ensemble, step, step->pictures_count, &builder);
    meta.inputs = builder.pointers;
    meta.n_inputs = builder.count;
    alone.meta = &meta;
    alone.raws = builder.raws;
    alone.raws_count = builder.frames;
    enum pen_status status = admit(&broker->models, &alone, ret_admission, reterr);
    ret_admission->shape ^= CROP_SHAPE;
    return status;
}

/* The request of a step: the demands of the whole, the step's model, and the flows that it needs. */
static enum pen_status step_request(struct broker *broker, struct ensemble_run *ensemble, size_t index,
                                    struct admission *ret_admission, struct shared_message **ret_request,
                                    struct pen_error *reterr)
{
    const struct ensemble_plan_step *step = &ensemble->plan->steps[index];
    struct group_builder builder = {.env = envelope_make(FRAME_SUBMIT)};
    Penstock__JobMeta meta = *ensemble->request;
    char *outputs[ENSEMBLE_PLAN_LINKS_MAX];
    for (size_t i = 0; i < step->outputs_count; i++)
        outputs[i] = (char *)(uintptr_t)step->outputs[i].port;
    step_inputs(ensemble, step, step->inputs_count, &builder);
    meta.base.n_unknown_fields = 0;
    meta.model = (char *)(uintptr_t)step->model;
    meta.version = step->version;
    meta.version_label = (char *)(uintptr_t) "";
    meta.inputs = builder.pointers;
    meta.n_inputs = builder.count;
    meta.outputs = outputs;
    meta.n_outputs = step->outputs_count;
    meta.max_relative_error = ensemble_plan_bound(ensemble->plan, index, ensemble->job->lane->demand.error_max);
    meta.f32_exact = ensemble->job->lane->demand.exact;
    meta.parameters = NULL;
    meta.n_parameters = 0;
    meta.detached = (char *)(uintptr_t) "";
    meta.crop = (Penstock__Crop *)(uintptr_t)step->crop;
    meta.top_k = gives_whole(ensemble->plan, step) ? meta.top_k : 0; /* nobody asks for the classes of other outputs */
    builder.env.job = step_id(broker, ensemble, index);
    builder.env.flags = FRAME_FLAG_NO_CACHE;
    builder.env.model_hash = frame_name_hash(step->model);
    builder.env.priority = ensemble->job->priority;
    builder.env.precision = (uint8_t)ensemble->job->lane->demand.precision;
    struct admit_request ask = {.env = &builder.env,
                                .labels = &broker->labels,
                                .meta = &meta,
                                .raws = builder.raws,
                                .raws_count = builder.frames,
                                .tenant = ensemble->job->session->tenant,
                                .digest = broker->options->digest,
                                .tensors = broker->tensors};
    enum pen_status status = step->crop ? crop_admit(broker, ensemble, step, &ask, ret_admission, reterr)
                                        : admit(&broker->models, &ask, ret_admission, reterr);
    if (status != PEN_OK)
        return status;
    if (ret_admission->model->plan)
        return pen_error_set(reterr, PEN_ERR_INVALID, "it is an ensemble itself; name its steps instead");
    meta.version = ret_admission->model->version;
    builder.env.priority = ret_admission->priority;
    return group_builder_message(&builder, &meta.base, ret_request, reterr);
}

static void step_start(struct broker *broker, struct ensemble_run *ensemble, size_t index)
{
    char id[JOB_ID_TEXT_BYTES], whole[JOB_ID_TEXT_BYTES];
    struct admission admission = {.model = NULL};
    struct pen_error error = {.status = PEN_OK};
    struct shared_message *request = NULL;
    struct job *job = NULL;
    enum pen_status status = step_request(broker, ensemble, index, &admission, &request, &error);
    if (status == PEN_OK && !(job = step_job(broker, ensemble, index, &admission, request))) {
        shared_message_release(request);
        status = pen_error_set(&error, PEN_ERR_NO_MEMORY, "the broker has no memory for it");
    }
    if (status != PEN_OK) {
        ensemble_fail(broker, ensemble, index, status, error.text);
        return;
    }
    PEN_ASSERT(!ensemble->steps[index].job && !ensemble->steps[index].came, "a step of a run starts once");
    ensemble->steps[index].told.state = EXPLAINED_RUNS;
    ensemble->steps[index].job = job;
    if (log_enabled(LOG_DEBUG))
        log_event(LOG_DEBUG, "step_admitted", "job=%s whole=%s step=%u model=%s version=%" PRIu64,
                  job_id_text(job->id, id), job_id_text(ensemble->job->id, whole), ensemble->plan->steps[index].number,
                  admission.model->name, admission.model->version);
    dispatch_queue(broker, job);
}

static bool step_ready(const struct ensemble_run *ensemble, size_t index)
{
    const struct ensemble_plan_step *step = &ensemble->plan->steps[index];
    for (size_t i = 0; i < step->inputs_count; i++) {
        if (!ensemble->flows[step->inputs[i].tensor].shared)
            return false;
    }
    return ensemble->steps[index].told.state == EXPLAINED_WAITS;
}

void ensemble_start_ready(struct broker *broker, struct ensemble_run *ensemble)
{
    for (size_t i = 0; i < ensemble_plan_steps(ensemble->plan) && !ensemble->over; i++) {
        if (step_ready(ensemble, i))
            step_start(broker, ensemble, i);
    }
}
