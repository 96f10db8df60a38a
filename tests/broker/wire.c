#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job_meta.h"
#include "penstock/dtype.h"

#define MODELS_MAX   64
#define STEPS_MAX    8
#define POLICIES_MAX 4
#define OUTPUTS_MAX  64

static char *text(const char *value)
{
    return (char *)(uintptr_t)(value ? value : "");
}

static size_t client_hello(uint8_t *meta, uint64_t uuid, const char *tenant, uint64_t grace_us, bool bulk)
{
    Penstock__ClientHello hello = PENSTOCK__CLIENT_HELLO__INIT;
    hello.uuid = uuid;
    hello.tenant = text(tenant);
    hello.name = text("test");
    hello.software = text("test 1");
    hello.grace_us = grace_us;
    hello.bulk = bulk;
    return penstock__client_hello__pack(&hello, meta);
}

size_t wire_client_hello(uint8_t *meta, uint64_t uuid, const char *tenant, uint64_t grace_us)
{
    return client_hello(meta, uuid, tenant, grace_us, false);
}

size_t wire_client_hello_follows(uint8_t *meta, uint64_t uuid, const char *tenant, bool bulk, uint32_t followed)
{
    Penstock__ClientHello hello = PENSTOCK__CLIENT_HELLO__INIT;
    hello.uuid = uuid;
    hello.name = text("test");
    hello.tenant = text(tenant);
    hello.bulk = bulk;
    hello.follows = true;
    hello.followed = followed;
    return penstock__client_hello__pack(&hello, meta);
}

size_t wire_client_hello_notices(uint8_t *meta, uint64_t uuid)
{
    Penstock__ClientHello hello = PENSTOCK__CLIENT_HELLO__INIT;
    hello.uuid = uuid;
    hello.name = text("test");
    hello.notices = true;
    return penstock__client_hello__pack(&hello, meta);
}

size_t wire_client_hello_bulk(uint8_t *meta, uint64_t uuid, const char *tenant)
{
    return client_hello(meta, uuid, tenant, 0, true);
}

/* One offer and the tensors it points to. */
struct offer_parts {
    Penstock__ModelOffer offer;
    Penstock__MeasuredError measured;
    Penstock__TensorSig in, out, more[OUTPUTS_MAX], *ins[1], *outs[1 + OUTPUTS_MAX];
    char names[OUTPUTS_MAX][8];
    Penstock__WarmTime warm, *warms[1];
    int64_t in_dims[2], out_dims[2];
    uint32_t preferred[1];
    Penstock__OfferedLabel label, *labels[1];
    Penstock__QueuePolicy policy[POLICIES_MAX], *policies[POLICIES_MAX];
    uint8_t digest[16];
    struct step_parts {
        Penstock__EnsembleStep step;
        Penstock__Crop crop;
        Penstock__TensorLink in, out, places[2], *ins[3], *outs[1];
    } step[STEPS_MAX];
    Penstock__EnsembleStep *steps[STEPS_MAX];
    Penstock__SequenceOffer sequence;
};

static void fill_sig(Penstock__TensorSig *sig, const char *name, int64_t dims[2], int64_t elements, bool batched)
{
    penstock__tensor_sig__init(sig);
    dims[0] = batched ? -1 : 1;
    dims[1] = elements;
    sig->name = text(name);
    sig->dtype = PEN_DTYPE_U8;
    sig->n_dims = 2;
    sig->dims = dims;
    sig->batched = batched;
}

static void fill_link(Penstock__TensorLink *link, const char *port, const char *tensor)
{
    penstock__tensor_link__init(link);
    link->port = text(port);
    link->tensor = text(tensor);
}

static void fill_crop(struct step_parts *to, const char *takes)
{
    penstock__crop__init(&to->crop);
    to->crop.scale = 1.5;
    to->crop.to_point = 1;
    fill_link(&to->in, "x", "x");
    fill_link(&to->places[0], "crop.boxes", takes);
    fill_link(&to->places[1], "crop.count", takes);
    to->ins[1] = &to->places[0];
    to->ins[2] = &to->places[1];
    to->step.n_inputs = 3;
    to->step.crop = &to->crop;
}

static void fill_steps(struct offer_parts *parts, const struct wire_model *model)
{
    for (size_t i = 0; i < model->steps_count; i++) {
        struct step_parts *to = &parts->step[i];
        penstock__ensemble_step__init(&to->step);
        fill_link(&to->in, "x", model->steps[i].takes);
        fill_link(&to->out, "y", model->steps[i].gives);
        to->ins[0] = &to->in;
        to->outs[0] = &to->out;
        to->step.number = (uint32_t)i + 1;
        to->step.model = text(model->steps[i].model);
        to->step.inputs = to->ins;
        to->step.outputs = to->outs;
        to->step.n_inputs = to->step.n_outputs = 1;
        if (model->steps[i].crop)
            fill_crop(to, model->steps[i].takes);
        parts->steps[i] = &to->step;
    }
    parts->offer.steps = parts->steps;
    parts->offer.n_steps = model->steps_count;
}

static void fill_offer(struct offer_parts *parts, const struct wire_model *model)
{
    Penstock__ModelOffer *offer = &parts->offer;
    penstock__model_offer__init(offer);
    fill_sig(&parts->in, model->takes_name ? model->takes_name : "x", parts->in_dims, model->dim ? model->dim : 4,
             model->max_batch > 0);
    fill_sig(&parts->out, "y", parts->out_dims, model->gives ? model->gives : -1, model->max_batch > 0);
    if (model->gives_dtype)
        parts->out.dtype = model->gives_dtype;
    parts->ins[0] = &parts->in;
    parts->outs[0] = &parts->out;
    for (uint32_t i = 0; i < model->gives_more && i < OUTPUTS_MAX; i++) {
        parts->more[i] = parts->out;
        snprintf(parts->names[i], sizeof parts->names[i], "y%u", (i + 1) % 1000);
        parts->more[i].name = parts->names[i];
        parts->outs[1 + i] = &parts->more[i];
    }
    offer->name = text(model->name);
    offer->version = model->version;
    offer->backend = text(model->backend);
    offer->measures = model->measures;
    offer->contract_precision = model->contract_precision;
    offer->contract_error = model->contract_error;
    offer->contract_exact = model->contract_exact;
    if (model->error_source) {
        penstock__measured_error__init(&parts->measured);
        parts->measured.largest = model->error;
        parts->measured.source = text(model->error_source);
        parts->measured.repeatable = !model->unrepeatable;
        offer->measured = &parts->measured;
    }
    offer->precision = model->precision;
    offer->max_batch_size = model->max_batch;
    offer->max_queue_delay_us = model->delay_us;
    offer->max_queue_size = model->max_queue;
    offer->default_timeout_us = model->timeout_us;
    offer->timeout_fixed = model->timeout_fixed;
    offer->timeout_delays = model->timeout_delays;
    offer->cacheable = model->cacheable;
    offer->ready = !model->not_ready;
    offer->load_us = model->load_us;
    offer->memory_bytes = model->memory_bytes;
    memset(parts->digest, model->digest, sizeof parts->digest);
    offer->digest.data = parts->digest;
    offer->digest.len = sizeof parts->digest;
    offer->n_inputs = 1;
    offer->n_outputs = 1 + model->gives_more;
    offer->inputs = parts->ins;
    offer->outputs = parts->outs;
    parts->offer.crops = model->crops;
    fill_steps(parts, model);
    if (model->sequence_idle_us) {
        penstock__sequence_offer__init(&parts->sequence);
        parts->sequence.idle_us = model->sequence_idle_us;
        offer->sequence = &parts->sequence;
    }
    if (model->warm_us) {
        penstock__warm_time__init(&parts->warm);
        parts->warm.batch = 1;
        parts->warm.warm_us = model->warm_us;
        parts->warms[0] = &parts->warm;
        offer->n_warm = 1;
        offer->warm = parts->warms;
    }
    if (model->version_label) {
        penstock__offered_label__init(parts->labels[0] = &parts->label);
        parts->label.label = text(model->version_label);
        parts->label.share_ppm = model->share_ppm;
        offer->n_version_labels = 1;
        offer->version_labels = parts->labels;
    }
    offer->priority_levels = model->priority_levels;
    offer->default_priority_level = model->priority_default;
    offer->n_priority_queue_policy = model->policies_count;
    offer->priority_queue_policy = parts->policies;
    for (size_t i = 0; i < model->policies_count && i < POLICIES_MAX; i++) {
        const struct wire_policy *from = &model->policies[i];
        penstock__queue_policy__init(parts->policies[i] = &parts->policy[i]);
        parts->policy[i].level = from->level;
        parts->policy[i].max_queue_size = from->max_queue;
        parts->policy[i].default_timeout_us = from->timeout_us;
        parts->policy[i].timeout_fixed = from->fixed;
        parts->policy[i].timeout_delays = from->delays;
    }
    if (model->preferred) {
        parts->preferred[0] = model->preferred;
        offer->n_preferred_batch_size = 1;
        offer->preferred_batch_size = parts->preferred;
    }
}

size_t wire_worker_hello(uint8_t *meta, const struct wire_worker *worker)
{
    Penstock__WorkerHello hello = PENSTOCK__WORKER_HELLO__INIT;
    struct offer_parts parts[MODELS_MAX];
    Penstock__ModelOffer *offers[MODELS_MAX];
    Penstock__RunningJob running[64], *runnings[64];
    char *tags[1] = {text(worker->tag)};
    hello.uuid = worker->uuid;
    hello.name = text(worker->name);
    hello.host = text("here");
    hello.backend = text("xnnpack");
    hello.slots = worker->slots;
    hello.tags = tags;
    hello.n_tags = worker->tag != NULL;
    Penstock__Flag flag = PENSTOCK__FLAG__INIT, *flags[1] = {&flag};
    flag.name = text(worker->flag);
    flag.value = text(worker->flag_value);
    hello.flags = flags;
    hello.n_flags = worker->flag != NULL;
    hello.takes_orders = worker->takes_orders;
    hello.runs_alone = worker->runs_alone;
    hello.bulk = worker->bulk;
    hello.budget_bytes = worker->budget_bytes;
    hello.queue_bytes = worker->queue_bytes;
    for (size_t i = 0; i < worker->models_count; i++) {
        fill_offer(&parts[i], &worker->models[i]);
        offers[i] = &parts[i].offer;
    }
    hello.models = offers;
    hello.n_models = worker->models_count;
    for (size_t i = 0; i < worker->running_count; i++) {
        penstock__running_job__init(&running[i]);
        running[i].client = worker->running[i].client;
        running[i].sequence = worker->running[i].sequence;
        runnings[i] = &running[i];
    }
    hello.running = runnings;
    hello.n_running = worker->running_count;
    return penstock__worker_hello__pack(&hello, meta);
}

size_t wire_worker_update(uint8_t *meta, const struct wire_model *models, size_t count)
{
    Penstock__WorkerUpdate update = PENSTOCK__WORKER_UPDATE__INIT;
    struct offer_parts parts[MODELS_MAX];
    Penstock__ModelOffer *offers[MODELS_MAX];
    for (size_t i = 0; i < count; i++) {
        fill_offer(&parts[i], &models[i]);
        offers[i] = &parts[i].offer;
    }
    update.models = offers;
    update.n_models = count;
    return penstock__worker_update__pack(&update, meta);
}

size_t wire_control(uint8_t *meta, const char *verb, const char *argument, uint64_t serial)
{
    Penstock__ControlRequest request = PENSTOCK__CONTROL_REQUEST__INIT;
    request.verb = text(verb);
    request.argument = text(argument);
    request.serial = serial;
    return penstock__control_request__pack(&request, meta);
}

size_t wire_job(uint8_t *meta, const struct wire_job *job, size_t *ret_raw_bytes)
{
    Penstock__JobMeta request = PENSTOCK__JOB_META__INIT;
    Penstock__TensorDesc input = PENSTOCK__TENSOR_DESC__INIT, *inputs[1] = {&input};
    uint8_t data[4096];
    int64_t dims[2] = {job->dims[0] ? job->dims[0] : 1, job->dims[1] ? job->dims[1] : 4};
    char *outputs[1] = {text(job->output)}, *tags[1] = {text(job->tag)}, *needs[1] = {text(job->need)};
    size_t bytes = (size_t)(dims[0] * dims[1]);
    input.name = text(job->input ? job->input : "x");
    input.dtype = job->dtype ? job->dtype : PEN_DTYPE_U8;
    input.dims = dims;
    input.n_dims = job->rank ? job->rank : 2;
    input.bytes = bytes;
    *ret_raw_bytes = 0;
    if (job->raw) {
        input.frame = 1;
        *ret_raw_bytes = bytes;
    } else {
        memset(data, job->fill, bytes < sizeof data ? bytes : sizeof data);
        input.data.data = data;
        input.data.len = bytes < sizeof data ? bytes : sizeof data;
    }
    request.model = text(job->model);
    request.version = job->version;
    request.inputs = inputs;
    request.n_inputs = 1;
    request.backend = text(job->backend);
    request.tenant = text(job->tenant);
    request.outputs = outputs;
    request.n_outputs = job->output != NULL;
    request.tags = tags;
    request.n_tags = job->tag != NULL;
    request.max_relative_error = job->error_max;
    request.f32_exact = job->exact;
    request.needs = needs;
    request.n_needs = job->need != NULL;
    request.explain = job->explain;
    request.debug = job->debug;
    request.top_k = job->top_k;
    request.version_label = text(job->version_label);
    request.sequence_after = job->sequence_after;
    request.detached_ttl_us = job->detached_ttl_us;
    return penstock__job_meta__pack(&request, meta);
}

/* As a client computes it. */
static struct digest true_digest(const struct wire_job *job)
{
    uint8_t packed[WIRE_META_BYTES];
    size_t raw_bytes, bytes = wire_job(packed, job, &raw_bytes);
    struct meta_arena arena;
    struct pen_tensor tensors[1];
    struct digest digest;
    meta_arena_init(&arena, WIRE_META_BYTES * 4);
    Penstock__JobMeta *meta = meta_unpack(&arena, &penstock__job_meta__descriptor, packed, bytes);
    if (raw_bytes || !meta || tensors_decode(meta->inputs, 1, NULL, 0, "input", tensors, NULL) != PEN_OK ||
        job_meta_digest(DIGEST_XXH3, meta, tensors, &arena, &digest) != PEN_OK)
        abort();
    meta_arena_fini(&arena);
    return digest;
}

struct envelope wire_job_envelope(const struct wire_job *job)
{
    struct envelope env = envelope_make(FRAME_SUBMIT);
    env.job = job->id;
    env.priority = job->priority;
    env.precision = (uint8_t)job->precision;
    env.deadline_us = job->deadline_us;
    env.frames = job->raw;
    env.model_hash = frame_name_hash(job->model);
    env.sequence_id = job->sequence;
    env.flags |=
        (job->sequence_start ? FRAME_FLAG_SEQUENCE_START : 0) | (job->sequence_end ? FRAME_FLAG_SEQUENCE_END : 0);
    if (job->true_digest) {
        env.flags |= FRAME_FLAG_DIGEST;
        env.digest = true_digest(job);
    } else if (!job->no_digest) {
        env.flags |= FRAME_FLAG_DIGEST;
        memset(env.digest.bytes, job->digest ? job->digest : job->fill + 1, sizeof env.digest.bytes);
        if (job->digest_number)
            memcpy(env.digest.bytes, &job->digest_number, sizeof job->digest_number);
    }
    if (job->no_cache)
        env.flags |= FRAME_FLAG_NO_CACHE;
    env.flags |= job->flags;
    return env;
}

void wire_give(Penstock__ResultMeta *result)
{
    static Penstock__TensorDesc output, *outputs[1] = {&output};
    static int64_t dims[2] = {1, 1};
    static uint8_t value;
    penstock__tensor_desc__init(&output);
    output.name = text("y");
    output.dtype = PEN_DTYPE_U8;
    output.dims = dims;
    output.n_dims = 2;
    output.bytes = output.data.len = 1;
    output.data.data = &value;
    result->outputs = outputs;
    result->n_outputs = 1;
}

size_t wire_result(uint8_t *meta, uint8_t value, const char *backend, enum precision precision, uint64_t compute_us,
                   const char *error)
{
    Penstock__ResultMeta result = PENSTOCK__RESULT_META__INIT;
    Penstock__TensorDesc output = PENSTOCK__TENSOR_DESC__INIT, *outputs[1] = {&output};
    int64_t dims[2] = {1, 1};
    output.name = text("y");
    output.dtype = PEN_DTYPE_U8;
    output.dims = dims;
    output.n_dims = 2;
    output.bytes = 1;
    output.data.data = &value;
    output.data.len = 1;
    result.outputs = outputs;
    result.n_outputs = error == NULL;
    result.error = text(error);
    result.backend = text(backend);
    result.precision = precision;
    result.compute_us = compute_us;
    result.worker = text("fake");
    return penstock__result_meta__pack(&result, meta);
}
