/* hello.c - facts -> WorkerHello. */
#include "hello.h"

#include "ensemble.h"
#include "measure.h"
#include "measure_whole.h"
#include "pack.h"
#include "tensor_codec.h"
#include "version.h"
#include "worker.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARENA_BYTES      (64u * 1024u * 1024u)
#define RUNNING_MAX      4096u
#define LABELS_BYTES_MAX (1024u * 1024u) /* for all models together: the hello has a limit, and labels are optional */

struct hello {
    struct meta_arena arena;
    Penstock__WorkerHello message;
    size_t labels_bytes;
    bool failed; /* an allocation did */
};

static void *take(struct hello *hello, size_t count, size_t size)
{
    size_t bytes = (count ? count : 1) * size;
    void *memory = hello->arena.allocator.alloc(hello->arena.allocator.allocator_data, bytes);
    if (memory)
        memset(memory, 0, bytes);
    else
        hello->failed = true;
    return memory;
}

static char *text(struct hello *hello, const char *from)
{
    size_t bytes = strlen(from ? from : "") + 1;
    char *copy = take(hello, bytes, 1);
    if (copy && from)
        memcpy(copy, from, bytes);
    return copy;
}

static char **texts(struct hello *hello, const char *const *from, size_t count)
{
    char **list = take(hello, count, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        list[i] = text(hello, from[i]);
    return list;
}

static Penstock__TensorSig **signature(struct hello *hello, const struct pen_tensor *tensors, size_t count,
                                       bool batched)
{
    Penstock__TensorSig **list = take(hello, count, sizeof *list);
    Penstock__TensorSig *sigs = take(hello, count, sizeof *sigs);
    for (size_t i = 0; list && sigs && i < count; i++) {
        int64_t *dims = take(hello, tensors[i].rank, sizeof *dims);
        if (!dims)
            return NULL;
        memcpy(dims, tensors[i].dims, tensors[i].rank * sizeof *dims);
        penstock__tensor_sig__init(&sigs[i]);
        sigs[i].name = text(hello, tensors[i].name);
        sigs[i].dtype = (uint32_t)tensors[i].dtype;
        sigs[i].n_dims = tensors[i].rank;
        sigs[i].dims = dims;
        sigs[i].batched = batched;
        list[i] = &sigs[i];
    }
    return list;
}

static void warm_times(struct hello *hello, const struct served *served, Penstock__ModelOffer *offer)
{
    Penstock__WarmTime **list = take(hello, served->warm_count, sizeof *list);
    Penstock__WarmTime *times = take(hello, served->warm_count, sizeof *times);
    if (!list || !times)
        return;
    for (size_t i = 0; i < served->warm_count; i++) {
        penstock__warm_time__init(&times[i]);
        times[i].batch = served->warm[i].batch;
        times[i].cold_us = served->warm[i].cold_us;
        times[i].warm_us = served->warm[i].warm_us;
        list[i] = &times[i];
    }
    offer->warm = list;
    offer->n_warm = served->warm_count;
}

static void labels(struct hello *hello, const struct served *served, Penstock__ModelOffer *offer)
{
    size_t bytes = 0;
    for (size_t i = 0; i < served->config.labels_count; i++)
        bytes += strlen(served->config.labels[i]) + 4;
    if (bytes > LABELS_BYTES_MAX - hello->labels_bytes)
        return;
    hello->labels_bytes += bytes;
    offer->labels = texts(hello, (const char *const *)served->config.labels, served->config.labels_count);
    offer->n_labels = served->config.labels_count;
}

static void level_policies(struct hello *hello, const struct config *config, Penstock__ModelOffer *offer)
{
    size_t count = config->level_policies_count;
    Penstock__QueuePolicy **list = take(hello, count, sizeof *list), *policies = take(hello, count, sizeof *policies);
    if (!list || !policies)
        return;
    for (size_t i = 0; i < count; i++) {
        const struct config_queue_policy *from = &config->level_policies[i];
        penstock__queue_policy__init(&policies[i]);
        policies[i].level = from->level;
        policies[i].default_timeout_us = from->default_timeout_us;
        policies[i].timeout_fixed = from->timeout_fixed;
        policies[i].timeout_delays = from->timeout_delays;
        policies[i].max_queue_size = from->max_queue_size;
        list[i] = &policies[i];
    }
    offer->priority_queue_policy = list;
    offer->n_priority_queue_policy = count;
}

/* The labels of this version. */
static void version_labels(struct hello *hello, const struct served *served, Penstock__ModelOffer *offer)
{
    size_t count = served->config.version_labels_count;
    Penstock__OfferedLabel **list = take(hello, count, sizeof *list), *labels = take(hello, count, sizeof *labels);
    offer->version_labels = list;
    for (size_t i = 0; list && labels && i < count; i++) {
        const struct config_version_label *from = &served->config.version_labels[i];
        if (from->version != served->version)
            continue;
        Penstock__OfferedLabel *label = list[offer->n_version_labels] = &labels[offer->n_version_labels];
        penstock__offered_label__init(label);
        label->label = text(hello, from->label);
        label->share_ppm = from->share_ppm;
        offer->n_version_labels++;
    }
}

static void batching(struct hello *hello, const struct served *served, Penstock__ModelOffer *offer)
{
    const struct config *config = &served->config;
    offer->max_batch_size = served->max_batch_size;
    offer->preferred_batch_size = take(hello, config->preferred_count, sizeof(uint32_t));
    if (offer->preferred_batch_size)
        memcpy(offer->preferred_batch_size, config->preferred, config->preferred_count * sizeof(uint32_t));
    offer->n_preferred_batch_size = config->preferred_count;
    offer->max_queue_delay_us = config->max_queue_delay_us;
    offer->priority_levels = config->priority_levels;
    offer->default_priority_level = config->default_priority_level;
    offer->max_queue_size = config->queue_policy.max_queue_size;
    offer->default_timeout_us = config->queue_policy.default_timeout_us;
    offer->timeout_fixed = config->queue_policy.timeout_fixed;
    offer->timeout_delays = config->queue_policy.timeout_delays;
    level_policies(hello, config, offer);
}

static Penstock__TensorLink **links(struct hello *hello, const struct ensemble_plan *plan,
                                    const struct ensemble_plan_link *from, size_t count)
{
    Penstock__TensorLink **list = take(hello, count, sizeof *list);
    Penstock__TensorLink *links = take(hello, count, sizeof *links);
    for (size_t i = 0; list && links && i < count; i++) {
        penstock__tensor_link__init(&links[i]);
        links[i].port = text(hello, from[i].port);
        links[i].tensor = text(hello, plan->tensors[from[i].tensor]);
        list[i] = &links[i];
    }
    return list;
}

static Penstock__Crop *crop(struct hello *hello, const struct ensemble_plan_crop *from)
{
    Penstock__Crop *to = take(hello, 1, sizeof *to);
    if (!to)
        return NULL;
    penstock__crop__init(to);
    to->turned = from->turned;
    to->from_point = from->from;
    to->to_point = from->to;
    to->scale = from->scale;
    return to;
}

static void steps(struct hello *hello, const struct ensemble_plan *plan, Penstock__ModelOffer *offer)
{
    Penstock__EnsembleStep **list = take(hello, plan->steps_count, sizeof *list);
    Penstock__EnsembleStep *steps = take(hello, plan->steps_count, sizeof *steps);
    for (size_t i = 0; list && steps && i < plan->steps_count; i++) {
        const struct ensemble_plan_step *from = &plan->steps[i];
        penstock__ensemble_step__init(&steps[i]);
        steps[i].number = from->number;
        steps[i].model = text(hello, from->model);
        steps[i].version = from->version;
        steps[i].inputs = links(hello, plan, from->inputs, from->inputs_count);
        steps[i].n_inputs = from->inputs_count;
        steps[i].outputs = links(hello, plan, from->outputs, from->outputs_count);
        steps[i].n_outputs = from->outputs_count;
        steps[i].crop = from->crop.present ? crop(hello, &from->crop) : NULL;
        list[i] = &steps[i];
    }
    offer->steps = list;
    offer->n_steps = plan->steps_count;
}

/* The time of one row: the sum over the steps, which run one after the other. */
static void steps_warm(struct hello *hello, struct served *const *models, size_t count, Penstock__ModelOffer *offer)
{
    Penstock__WarmTime **list = take(hello, 1, sizeof *list);
    Penstock__WarmTime *time = take(hello, 1, sizeof *time);
    if (!list || !time)
        return;
    penstock__warm_time__init(time);
    time->batch = 1;
    for (size_t i = 0; i < count; i++) {
        if (models[i]->warm_count == 0)
            return; /* the time of the whole is unknown */
        time->cold_us += models[i]->warm[0].cold_us;
        time->warm_us += models[i]->warm[0].warm_us;
    }
    list[0] = time;
    offer->warm = list;
    offer->n_warm = 1;
}

static void measured_put(struct hello *hello, const struct pen_measured *measured, Penstock__ModelOffer *offer)
{
    Penstock__MeasuredError *to = take(hello, 1, sizeof *to);
    if (!to)
        return;
    penstock__measured_error__init(to);
    to->largest = measured->largest;
    to->mean = measured->mean;
    to->inputs = measured->inputs;
    to->source = text(hello, pen_measured_source_name(measured->source));
    to->repeatable = measured->repeatable;
    offer->measured = to;
}

static bool measures(const struct hello_facts *facts)
{
    return facts->options->measure && strcmp(facts->options->measure, "off") != 0;
}

/* Its error, or whether it will be measured. */
static void measured_fill(struct hello *hello, const struct hello_facts *facts, const struct served *served,
                          Penstock__ModelOffer *offer)
{
    struct pen_measured measured;
    if (measure_result(served, &measured))
        measured_put(hello, &measured, offer);
    else
        offer->measures = measures(facts) && atomic_load(&served->measured_as) == SERVED_NOT_MEASURED;
}

/* Of an ensemble whose models are all here. */
static void whole_measured(struct hello *hello, const struct hello_facts *facts, const struct served *ensemble,
                           struct served *const *models, const struct digest *digest, Penstock__ModelOffer *offer)
{
    struct pen_measured measured;
    bool open = false, found = measure_whole_result(ensemble, models, digest, &measured, &open);
    offer->measures = open && measures(facts);
    if (found && !offer->measures)
        measured_put(hello, &measured, offer);
}

static void digest_fill(struct hello *hello, const struct digest *digest, Penstock__ModelOffer *offer)
{
    offer->digest.data = take(hello, sizeof digest->bytes, 1);
    if (offer->digest.data)
        memcpy(offer->digest.data, digest->bytes, sizeof digest->bytes);
    offer->digest.len = sizeof digest->bytes;
}

/* Not ready: other workers have models of its steps, so the broker gets the plan. */
static void ensemble_fill(struct hello *hello, const struct hello_facts *facts, const struct served *served,
                          Penstock__ModelOffer *offer)
{
    struct served *models[ENSEMBLE_PLAN_STEPS_MAX];
    size_t count = served->config.plan->steps_count;
    offer->platform = text(hello, "ensemble");
    offer->placement = text(hello, "");
    steps(hello, served->config.plan, offer);
    offer->cacheable = served->cacheable;
    offer->ready = ensemble_resolve(facts->catalog, served, models, NULL) == PEN_OK;
    if (!offer->ready)
        return;
    struct digest digest = ensemble_digest(served, models);
    digest_fill(hello, &digest, offer);
    for (size_t i = 0; i < count; i++)
        offer->cacheable &= models[i]->cacheable;
    whole_measured(hello, facts, served, models, &digest, offer);
    steps_warm(hello, models, count, offer);
}

/* Copies the tensors without those that this worker keeps as state. */
static size_t visible(const struct pen_tensor *tensors, size_t count, uint64_t hidden, struct pen_tensor *ret_tensors)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!(hidden & UINT64_C(1) << i))
            ret_tensors[kept++] = tensors[i];
    return kept;
}

static void sequence_fill(struct hello *hello, const struct served *served, Penstock__ModelOffer *offer)
{
    Penstock__SequenceOffer *sequence = served->states_count > 0 ? take(hello, 1, sizeof *sequence) : NULL;
    if (!sequence)
        return;
    penstock__sequence_offer__init(sequence);
    sequence->idle_us = served->config.sequence.idle_us;
    sequence->max_sequences = served->config.sequence.max_sequences;
    sequence->state_bytes = served->states_bytes;
    offer->sequence = sequence;
}

static void offer_fill(struct hello *hello, const struct hello_facts *facts, const struct served *served,
                       Penstock__ModelOffer *offer)
{
    bool batched = served->max_batch_size > 0;
    penstock__model_offer__init(offer);
    offer->name = text(hello, served->name);
    offer->version = served->version;
    struct pen_tensor tensors[SERVED_TENSORS_MAX];
    offer->n_inputs = visible(served->inputs, served->inputs_count, served->hidden_inputs, tensors);
    offer->inputs = signature(hello, tensors, offer->n_inputs, batched);
    for (size_t i = 0; offer->inputs && served->files_input >= 0 && i < offer->n_inputs; i++)
        offer->inputs[i]->pictures = strcmp(tensors[i].name, served->inputs[served->files_input].name) == 0;
    for (size_t i = 0; offer->inputs && served->config.plan && i < offer->n_inputs; i++)
        offer->inputs[i]->pictures = ensemble_takes_picture(served, i);
    offer->n_outputs = visible(served->outputs, served->outputs_count, served->hidden_outputs, tensors);
    offer->outputs = signature(hello, tensors, offer->n_outputs, batched);
    sequence_fill(hello, served, offer);
    offer->backend = text(hello, facts->identity->backend);
    offer->device = text(hello, facts->identity->device);
    offer->precision = (uint32_t)served_precision(served, facts->identity->precision);
    offer->annotates = true;
    offer->crops = served->files_input >= 0 && served->inputs_count == 1 && served->states_count == 0;
    offer->contract_precision = (uint32_t)served->config.contract.precision;
    offer->contract_error = served->config.contract.error_max;
    offer->contract_exact = served->config.contract.exact;
    offer->preprocess = text(hello, served->config.preprocess.text);
    batching(hello, served, offer);
    version_labels(hello, served, offer);
    if (served->config.plan) {
        ensemble_fill(hello, facts, served, offer);
        return;
    }
    digest_fill(hello, &served->digest, offer);
    offer->placement = text(hello, served->placement);
    offer->platform = text(hello, served->format);
    offer->cacheable = served->cacheable;
    offer->memory_bytes = served->memory_bytes;
    offer->ready = !served->residence.cold && !served->residence.leaving;
    offer->load_us = served->residence.load_us;
    warm_times(hello, served, offer);
    measured_fill(hello, facts, served, offer);
    labels(hello, served, offer);
}

static void offers_fill(struct hello *hello, const struct hello_facts *facts)
{
    size_t count = facts->catalog->count;
    Penstock__ModelOffer **list = take(hello, count, sizeof *list);
    Penstock__ModelOffer *offers = take(hello, count, sizeof *offers);
    size_t offered = 0;
    ensembles_check(facts->catalog);
    for (size_t i = 0; list && offers && i < count; i++) {
        const struct served *served = facts->catalog->models[i];
        if (served->withdrawn || (served->resolved && served->resolved_as == PEN_ERR_INVALID))
            continue;
        offer_fill(hello, facts, facts->catalog->models[i], &offers[i]);
        list[offered++] = &offers[i];
    }
    hello->message.models = list;
    hello->message.n_models = offered;
}

/* True when something else of that name is offered, and of that version if one is known. */
static bool serves(const struct catalog *catalog, const struct failure *failure)
{
    for (size_t i = 0; i < catalog->count; i++) {
        const struct served *served = catalog->models[i];
        bool out = served->withdrawn || (served->resolved && served->resolved_as == PEN_ERR_INVALID);
        if (!out && served->stamp != failure->stamp && (failure->version == 0 || failure->version == served->version) &&
            strcmp(failure->name, served->name) == 0)
            return true;
    }
    return false;
}

static void failures_fill(struct hello *hello, const struct catalog *catalog)
{
    size_t count, all;
    const struct failure *from = failures_list(catalog->failures, &count, &all);
    Penstock__ModelFailure **list = take(hello, count, sizeof *list);
    Penstock__ModelFailure *to = take(hello, count, sizeof *to);
    if (!list || !to)
        return;
    for (size_t i = 0; i < count; i++) {
        penstock__model_failure__init(&to[i]);
        to[i].name = text(hello, from[i].name);
        to[i].version = from[i].version;
        to[i].status = (uint32_t)from[i].status;
        to[i].error = text(hello, from[i].text);
        to[i].since_unix_us = from[i].since_unix_us;
        to[i].serving = serves(catalog, &from[i]);
        list[i] = &to[i];
    }
    hello->message.failures = list;
    hello->message.n_failures = count;
    hello->message.failures_count = (uint32_t)all;
}

/* What the engine found out, and the libraries of the worker itself. */
static void flags_fill(struct hello *hello, const struct hello_facts *facts)
{
    enum { OWN = 4 };
    char zmq[32];
    int major, minor, patch;
    size_t count = 0;
    const struct pen_flag *flags = pen_engine_flags(facts->engine, &count);
    zmq_version(&major, &minor, &patch);
    snprintf(zmq, sizeof zmq, "%d.%d.%d", major, minor, patch);
    const struct pen_flag own[OWN] = {{.name = "library.libzmq", .value = zmq},
                                      {.name = "library.protobuf-c", .value = protobuf_c_version()},
                                      {.name = "build", .value = version_build()},
                                      {.name = "debug_jobs", .value = facts->options->allow_debug ? "on" : "off"}};
    Penstock__Flag **list = take(hello, count + OWN, sizeof *list);
    Penstock__Flag *copies = take(hello, count + OWN, sizeof *copies);
    for (size_t i = 0; list && copies && i < count + OWN; i++) {
        const struct pen_flag *flag = i < count ? &flags[i] : &own[i - count];
        penstock__flag__init(&copies[i]);
        copies[i].name = text(hello, flag->name);
        copies[i].value = text(hello, flag->value);
        list[i] = &copies[i];
    }
    hello->message.flags = list;
    hello->message.n_flags = count + OWN;
}

enum pen_status hello_new(const struct hello_facts *facts, struct hello **ret_hello, struct pen_error *reterr)
{
    struct hello *hello = calloc(1, sizeof *hello);
    if (!hello)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the hello");
    meta_arena_init(&hello->arena, ARENA_BYTES);
    Penstock__WorkerHello *message = &hello->message;
    penstock__worker_hello__init(message);
    message->name = text(hello, facts->identity->worker);
    message->uuid = facts->uuid;
    message->host = text(hello, facts->host);
    message->pid = (uint32_t)getpid();
    message->software = text(hello, PENSTOCK_SOFTWARE);
    message->slots = facts->slots;
    message->threads = facts->threads;
    message->backend = text(hello, facts->identity->backend);
    message->device = text(hello, facts->identity->device);
    message->tags = texts(hello, facts->options->tags.items, facts->options->tags.count);
    message->n_tags = facts->options->tags.count;
    message->memory_bytes = facts->memory_bytes;
    message->queue_bytes = facts->queue_bytes;
    message->takes_orders = true;
    message->runs_alone = true;
    message->budget_bytes = (uint64_t)facts->options->memory_budget;
    message->bulk = true;
    message->sealed = true;
    message->pack_bytes = pack_bytes_taken((uint64_t)facts->options->frame_limit);
    flags_fill(hello, facts);
    offers_fill(hello, facts);
    failures_fill(hello, facts->catalog); /* after the offers, because these check the ensembles */
    if (hello->failed) {
        hello_free(hello);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the hello");
    }
    *ret_hello = hello;
    return PEN_OK;
}

void hello_free(struct hello *hello)
{
    if (!hello)
        return;
    meta_arena_fini(&hello->arena);
    free(hello);
}

static size_t running_add(Penstock__RunningJob *jobs, size_t count, struct job_id id)
{
    if (count == RUNNING_MAX)
        return count;
    penstock__running_job__init(&jobs[count]);
    jobs[count].client = id.client;
    jobs[count].sequence = id.sequence;
    return count + 1;
}

static size_t running_list(const struct in_flight *in_flight, const struct reply *unsent, Penstock__RunningJob *jobs)
{
    size_t count = 0;
    for (const struct dispatch *d = in_flight->first; d; d = d->next)
        for (size_t i = 0; i < d->jobs_count; i++)
            if (atomic_load(&d->jobs[i].state) != JOB_ANSWERED)
                count = running_add(jobs, count, d->jobs[i].env.job);
    for (; unsent; unsent = unsent->next)
        for (size_t i = 0; i < unsent->jobs_count; i++)
            count = running_add(jobs, count, unsent->jobs[i]);
    return count;
}

static enum pen_status pack(const ProtobufCMessage *message, enum frame_type type, zmq_msg_t *ret_frame,
                            struct pen_error *reterr)
{
    struct envelope env = envelope_make(type);
    size_t bytes = protobuf_c_message_get_packed_size(message);
    if (bytes > FRAME_CONTROL_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "the hello has %zu bytes, at most %u can travel: serve fewer models", bytes,
                             FRAME_CONTROL_BYTES_MAX);
    if (zmq_msg_init_size(ret_frame, FRAME_ENVELOPE_BYTES + bytes) != 0)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the hello");
    env.meta_bytes = (uint32_t)bytes;
    protobuf_c_message_pack(message, envelope_encode(&env, zmq_msg_data(ret_frame)));
    return PEN_OK;
}

enum pen_status hello_frame(struct hello *hello, const struct in_flight *in_flight, const struct reply *unsent,
                            zmq_msg_t *ret_frame, struct pen_error *reterr)
{
    Penstock__RunningJob *jobs = calloc(RUNNING_MAX, sizeof *jobs);
    Penstock__RunningJob **pointers = calloc(RUNNING_MAX, sizeof(Penstock__RunningJob *));
    enum pen_status status =
        jobs && pointers ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the hello");
    if (status == PEN_OK) {
        size_t count = running_list(in_flight, unsent, jobs);
        for (size_t i = 0; i < count; i++)
            pointers[i] = &jobs[i];
        hello->message.running = pointers;
        hello->message.n_running = count;
        status = pack(&hello->message.base, FRAME_WORKER_HELLO, ret_frame, reterr);
        hello->message.running = NULL;
        hello->message.n_running = 0;
    }
    free(jobs);
    free(pointers);
    return status;
}

enum pen_status hello_update_frame(const struct hello *hello, zmq_msg_t *ret_frame, struct pen_error *reterr)
{
    Penstock__WorkerUpdate update = PENSTOCK__WORKER_UPDATE__INIT;
    update.models = hello->message.models;
    update.n_models = hello->message.n_models;
    update.failures = hello->message.failures;
    update.n_failures = hello->message.n_failures;
    update.failures_count = hello->message.failures_count;
    return pack(&update.base, FRAME_WORKER_UPDATE, ret_frame, reterr);
}

uint64_t hello_uuid(const struct hello *hello)
{
    return hello->message.uuid;
}
