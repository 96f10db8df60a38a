#include "cascade.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admit.h"
#include "answer.h"
#include "dispatch.h"
#include "letter.h"
#include "logline.h"
#include "metrics_record.h"

#define ARENA_BYTES (16u * 1024u * 1024u) /* the unpacked metas of one cascade: at most 17 of 64 KiB each */

enum step_state { STEP_WAITS, STEP_RUNS, STEP_DONE };

struct cascade {
    struct table_node by_number;
    uint64_t number;
    struct job *job; /* the whole */
    struct script *script;
    const Penstock__JobMeta *request;
    struct meta_arena arena;
    struct letter_tensor flows[SCRIPT_TENSORS_MAX]; /* without a parcel: not there yet */
    struct {
        enum step_state state;
        struct job *job;
        struct parcel *reply;
    } steps[SCRIPT_STEPS_MAX];
    Penstock__ResultMeta *last; /* of the step that ended last */
    uint64_t bytes, compute_us, worker_us;
    uint8_t precision;
};

struct cascades {
    struct table by_number;
    uint64_t uuid, count; /* first halves of the steps' ids; given so far */
};

struct cascades *cascades_new(void)
{
    struct cascades *cascades = calloc(1, sizeof *cascades);
    if (!cascades || table_init(&cascades->by_number) != PEN_OK) {
        free(cascades);
        return NULL;
    }
    cascades->uuid = random_u64();
    return cascades;
}

void cascades_free(struct cascades *cascades)
{
    if (!cascades)
        return;
    table_fini(&cascades->by_number);
    free(cascades);
}

static struct cascade *find(const struct cascades *cascades, uint64_t number)
{
    struct table_node *node =
        table_first(&cascades->by_number, table_hash(&cascades->by_number, cascades->uuid, number));
    for (; node; node = table_next(&cascades->by_number, node)) {
        struct cascade *cascade = table_entry(node, struct cascade, by_number);
        if (cascade->number == number)
            return cascade;
    }
    return NULL;
}

static void cascade_free(struct broker *broker, struct cascade *cascade)
{
    broker->queued_bytes -= cascade->bytes;
    for (size_t i = 0; i < SCRIPT_STEPS_MAX; i++)
        parcel_release(cascade->steps[i].reply);
    script_release(cascade->script);
    meta_arena_fini(&cascade->arena);
    free(cascade);
}

/* ---- who could run it ---- */

static bool offered(const struct model *model, const struct demand *demand)
{
    const struct offer *offer;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        if (offer->worker->state == WORKER_READY &&
            (!demand || match_capable(demand, offer->meta->backend, offer->precision, offer->worker->tags)))
            return true;
    }
    return false;
}

const char *cascade_missing(const struct broker *broker, const struct model *model, const struct demand *demand,
                            char *text, size_t bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < script_steps(model->script); i++) {
        const struct script_step *step = &model->script->steps[i];
        const struct model *own = model_find(&broker->models, step->model, step->version);
        if (own && offered(own, demand))
            continue;
        snprintf(text, bytes, "step %u needs model '%.128s', which no worker %s", step->number, step->model,
                 own && own->offers_count ? "that the job may go to offers" : "offers");
        break;
    }
    return text;
}

bool cascade_served(const struct broker *broker, const struct model *model)
{
    char text[256];
    return model->script && !*cascade_missing(broker, model, NULL, text, sizeof text);
}

const char *cascade_text(const struct job *job, char *text, size_t bytes)
{
    const struct cascade *cascade = job->cascade;
    size_t used = (size_t)snprintf(text, bytes, "No worker has all of its models, so its steps run as jobs:");
    for (size_t i = 0; i < script_steps(cascade->script) && used < bytes; i++) {
        const struct job *own = cascade->steps[i].job;
        const char *where = cascade->steps[i].state == STEP_DONE ? "is done"
                            : !own                               ? "waits for others"
                            : own->state == JOB_DISPATCHED       ? "runs on "
                                                                 : "waits for a worker";
        int n = snprintf(text + used, bytes - used, "%s step %u (%.64s) %s%.64s", i ? "," : "",
                         cascade->script->steps[i].number, cascade->script->steps[i].model, where,
                         own && own->state == JOB_DISPATCHED ? own->dispatch->worker->hello->name : "");
        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}

/* ---- the steps ---- */

static void fail(struct broker *broker, struct cascade *cascade, size_t index, enum pen_status status, const char *text)
{
    char named[PEN_ERROR_TEXT_BYTES];
    const struct script_step *step = &cascade->script->steps[index];
    snprintf(named, sizeof named, "step %u (model '%.128s') of '%.128s': %.600s", step->number, step->model,
             cascade->job->lane->model->name, text);
    answer_error(broker, cascade->job, status, named); /* ends the cascade */
}

static struct job_id step_id(const struct broker *broker, const struct cascade *cascade, size_t index)
{
    return (struct job_id){.client = broker->cascades->uuid,
                           .sequence = cascade->number * SCRIPT_STEPS_MAX + index + 1};
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
    model->queue.waiting++;
    model->queue.bytes += parcel_bytes(request);
    broker->queued_bytes += parcel_bytes(request);
    broker->live++;
    session_add(cascade->job->session, job);
    record_model(broker, model)->admitted++;
    return job;
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
    cascade->steps[index].state = STEP_RUNS;
    enum pen_status status = step_request(broker, cascade, index, &admission, &request, &error);
    if (status == PEN_OK && !(job = step_job(broker, cascade, index, &admission, request))) {
        parcel_release(request);
        status = pen_error_set(&error, PEN_ERR_NO_MEMORY, "the broker has no memory for it");
    }
    if (status != PEN_OK) {
        fail(broker, cascade, index, status, error.text);
        return;
    }
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
    return cascade->steps[index].state == STEP_WAITS;
}

/* A start may end the whole. */
static void start_ready(struct broker *broker, uint64_t number)
{
    struct cascade *cascade = find(broker->cascades, number);
    for (size_t i = 0; cascade && i < script_steps(cascade->script); i++) {
        if (!step_ready(cascade, i))
            continue;
        step_start(broker, cascade, i);
        cascade = find(broker->cascades, number);
    }
}

/* ---- begin and end ---- */

/* What the caller gave, as the first flows. */
static bool read_request(struct cascade *cascade)
{
    struct pen_tensor tensors[FRAME_MAX_TENSORS];
    struct parcel *parcel = cascade->job->request;
    struct envelope env;
    Penstock__JobMeta *meta = letter_open(parcel, &cascade->arena, &penstock__job_meta__descriptor, &env);
    if (!meta || meta->n_inputs > FRAME_MAX_TENSORS ||
        letter_tensors(parcel, meta->inputs, meta->n_inputs, tensors, NULL) != PEN_OK)
        return false;
    cascade->request = meta;
    for (size_t i = 0; i < meta->n_inputs; i++) {
        for (size_t j = 0; j < cascade->script->inputs_count; j++) {
            uint32_t tensor = cascade->script->inputs[j];
            if (strcmp(cascade->script->tensors[tensor], tensors[i].name) == 0)
                cascade->flows[tensor] =
                    (struct letter_tensor){.view = tensors[i], .parcel = parcel, .frame = meta->inputs[i]->frame};
        }
    }
    return true;
}

bool cascade_begin(struct broker *broker, struct job *job)
{
    char text[256];
    struct model *model = job->lane->model;
    if (!model->script || offered(model, &job->lane->demand) ||
        *cascade_missing(broker, model, &job->lane->demand, text, sizeof text))
        return false;
    struct cascade *cascade = calloc(1, sizeof *cascade);
    if (!cascade)
        return false;
    cascade->job = job;
    cascade->script = script_retain(model->script);
    cascade->number = ++broker->cascades->count;
    meta_arena_init(&cascade->arena, ARENA_BYTES);
    if (!read_request(cascade)) {
        cascade_free(broker, cascade);
        return false;
    }
    table_insert(&broker->cascades->by_number, &cascade->by_number,
                 table_hash(&broker->cascades->by_number, broker->cascades->uuid, cascade->number));
    queue_leave(&model->queue, parcel_bytes(job->request));
    broker->queued_bytes -= parcel_bytes(job->request);
    cascade->bytes = parcel_bytes(job->request); /* stays ours until the end */
    broker->queued_bytes += cascade->bytes;
    model->running++;
    job->state = JOB_STEPS;
    job->cascade = cascade;
    job->attempts++;
    start_ready(broker, cascade->number);
    return true;
}

void cascade_cancel(struct broker *broker, struct job *job)
{
    struct cascade *cascade = job->cascade;
    table_remove(&broker->cascades->by_number, &cascade->by_number);
    job->cascade = NULL;
    job->lane->model->running--;
    for (size_t i = 0; i < script_steps(cascade->script); i++) {
        struct job *own = cascade->steps[i].job;
        cascade->steps[i].job = NULL;
        if (own)
            answer_error(broker, own, PEN_ERR_CANCELLED, "the job that it is a step of has ended");
    }
    cascade_free(broker, cascade);
}

static bool wanted(const Penstock__JobMeta *request, const char *output)
{
    for (size_t i = 0; i < request->n_outputs; i++) {
        if (strcmp(request->outputs[i], output) == 0)
            return true;
    }
    return request->n_outputs == 0;
}

/* All steps are done: their outputs under the whole's names. */
static void finish(struct broker *broker, struct cascade *cascade)
{
    struct job *job = cascade->job;
    const struct script *script = cascade->script;
    struct letter letter = {.env = envelope_make(FRAME_RESULT)};
    Penstock__ResultMeta meta = *cascade->last;
    struct pen_error error = {.status = PEN_OK};
    struct parcel *reply = NULL;
    for (size_t i = 0; i < script->outputs_count; i++) {
        if (wanted(cascade->request, script->tensors[script->outputs[i]]))
            letter_add(&letter, script->tensors[script->outputs[i]], &cascade->flows[script->outputs[i]]);
    }
    letter_close(&letter);
    meta.base.n_unknown_fields = 0;
    meta.outputs = letter.pointers;
    meta.n_outputs = letter.count;
    meta.model = job->lane->model->name;
    meta.version = job->lane->model->version;
    meta.compute_us = cascade->compute_us;
    meta.worker_us = cascade->worker_us;
    meta.total_us = broker->now_us - job->admitted_us;
    meta.queue_us = meta.total_us > cascade->worker_us ? meta.total_us - cascade->worker_us : 0;
    meta.worker_wait_us = meta.gather_us = meta.split_us = 0;
    meta.batch_size = meta.attempts = 1;
    meta.batch_reason = (char *)(uintptr_t) "steps";
    meta.labels = NULL;
    meta.n_labels = 0;
    meta.layers = NULL;
    meta.n_layers = 0;
    meta.explanation = job->explain ? explain_job(broker, job->id, &cascade->arena.allocator) : NULL;
    if (meta.explanation)
        meta.explanation->state = (char *)(uintptr_t) "done";
    meta.model_digest = (ProtobufCBinaryData){.len = 0};
    letter.env.job = job->id;
    letter.env.precision = cascade->precision;
    enum pen_status status = letter_parcel(&letter, &meta.base, &reply, &error);
    if (status != PEN_OK)
        answer_error(broker, job, status, error.text);
    else
        answer_whole(broker, job, reply);
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
    cascade->last = meta;
    cascade->precision = env.precision;
    cascade->compute_us += meta->compute_us;
    cascade->worker_us += meta->worker_us;
    return status;
}

static bool all_done(const struct cascade *cascade)
{
    for (size_t i = 0; i < script_steps(cascade->script); i++) {
        if (cascade->steps[i].state != STEP_DONE)
            return false;
    }
    return true;
}

static void step_failed(struct broker *broker, struct cascade *cascade, size_t index, struct parcel *reply,
                        enum pen_status status)
{
    struct envelope env;
    const Penstock__ResultMeta *meta =
        reply ? letter_open(reply, &cascade->arena, &penstock__result_meta__descriptor, &env) : NULL;
    fail(broker, cascade, index, status, meta && *meta->error ? meta->error : pen_status_name(status));
}

void cascade_step_ended(struct broker *broker, struct job_id id, struct parcel *reply, enum pen_status status)
{
    struct pen_error error = {.status = PEN_OK};
    uint64_t number = (id.sequence - 1) / SCRIPT_STEPS_MAX;
    size_t index = (id.sequence - 1) % SCRIPT_STEPS_MAX;
    struct cascade *cascade = find(broker->cascades, number);
    if (!cascade) { /* the whole has ended already */
        parcel_release(reply);
        return;
    }
    cascade->steps[index].job = NULL;
    cascade->steps[index].state = STEP_DONE;
    if (status != PEN_OK || !reply) {
        step_failed(broker, cascade, index, reply, status != PEN_OK ? status : PEN_ERR_NO_MEMORY);
        parcel_release(reply);
        return;
    }
    status = keep(broker, cascade, index, reply, &error);
    cascade->steps[index].reply = reply;
    cascade->bytes += parcel_bytes(reply);
    broker->queued_bytes += parcel_bytes(reply);
    if (status != PEN_OK)
        fail(broker, cascade, index, status, error.text);
    else if (all_done(cascade))
        finish(broker, cascade);
    else
        start_ready(broker, number);
}

/* ---- waiting ones ---- */

void cascade_look(struct broker *broker)
{
    struct lane *lane, *next;
    for (lane = TAILQ_FIRST(&broker->models.active); lane; lane = next) {
        char text[256];
        struct job *job;
        next = TAILQ_NEXT(lane, in_active);
        if (!lane->model->script || offered(lane->model, &lane->demand) ||
            *cascade_missing(broker, lane->model, &lane->demand, text, sizeof text))
            continue;
        lane->users++; /* outlive the loop */
        while ((job = lane_head(lane)) != NULL) {
            lane_remove(lane, job);
            dispatch_queue(broker, job);
            if (lane_head(lane) == job)
                break; /* no memory: it waits on */
        }
        lane_release(lane);
        next = TAILQ_FIRST(&broker->models.active); /* lists have changed: once more from the start */
        if (next == lane)
            next = TAILQ_NEXT(lane, in_active);
    }
}
