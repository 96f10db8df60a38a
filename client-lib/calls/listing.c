/*
 * listing.c - models, workers and counters of the pool as plain structs.
 *
 * A list owns the unpacked reply its texts point into, and one block for the structs.
 */
#include <stdlib.h>
#include <string.h>

#include "ask.h"

/* What backs a list: the public struct comes first. */
struct listing {
    union {
        struct pen_model_list models;
        struct pen_worker_list workers;
    } list;
    struct meta_arena arena;
    void *block;
};

struct stats {
    struct pen_stats stats;
    struct meta_arena arena;
};

/* Carves a list's arrays out of one zeroed block; the first pass, without a block, only counts. */
struct carver {
    unsigned char *block;
    size_t used;
};

static void *carve(struct carver *carver, size_t count, size_t size)
{
    void *at = carver->block ? carver->block + carver->used : NULL;
    carver->used += (count * size + 15) & ~(size_t)15;
    return at;
}

static struct pen_signature *signatures(struct carver *carver, Penstock__TensorSig *const *from, size_t count)
{
    struct pen_signature *to = carve(carver, count, sizeof *to);
    for (size_t i = 0; to && i < count; i++) {
        to[i].name = from[i]->name;
        to[i].dtype = from[i]->dtype < PEN_DTYPE_COUNT ? (enum pen_dtype)from[i]->dtype : PEN_DTYPE_NONE;
        to[i].rank = from[i]->n_dims < PEN_MAX_RANK ? (uint32_t)from[i]->n_dims : PEN_MAX_RANK;
        for (uint32_t d = 0; d < to[i].rank; d++) {
            to[i].dims[d] = from[i]->dims[d];
        }
        to[i].batched = from[i]->batched;
        to[i].optional = from[i]->optional;
        to[i].pictures = from[i]->pictures;
    }
    return to;
}

static void failure(const Penstock__ModelFailure *from, const char *worker, struct pen_failed_model *to)
{
    *to = (struct pen_failed_model){
        .worker = worker,
        .name = from->name,
        .version = from->version,
        .status = from->status < PEN_STATUS_COUNT ? (enum pen_status)from->status : PEN_ERR_INTERNAL,
        .error = from->error,
        .since_unix_us = from->since_unix_us,
        .serving = from->serving,
    };
}

/* Rows without a failure are left out. */
static struct pen_failed_model *failures(struct carver *carver, Penstock__FailedModel *const *from, size_t count,
                                         size_t *ret_count)
{
    struct pen_failed_model *to = carve(carver, count, sizeof *to);
    *ret_count = 0;
    for (size_t i = 0; to && i < count; i++) {
        if (from[i]->failure) {
            failure(from[i]->failure, from[i]->worker, &to[(*ret_count)++]);
        }
    }
    return to;
}

static struct pen_model_offer *offer(struct carver *carver, const Penstock__ModelOffer *from, const char *worker)
{
    struct pen_model_offer *to = carve(carver, 1, sizeof *to);
    struct pen_warm_time *warm = carve(carver, from->n_warm, sizeof *warm);
    if (!to) {
        return NULL;
    }
    for (size_t i = 0; i < from->n_warm; i++) {
        warm[i] = (struct pen_warm_time){from->warm[i]->batch, from->warm[i]->cold_us, from->warm[i]->warm_us};
    }
    *to = (struct pen_model_offer){
        .worker = worker,
        .backend = from->backend,
        .device = from->device,
        .placement = from->placement,
        .precision = from->precision,
        .max_batch_size = from->max_batch_size,
        .ready = from->ready,
        .cacheable = from->cacheable,
        .memory_bytes = from->memory_bytes,
        .warm_count = from->n_warm,
        .warm = warm,
        .measures = from->measures,
        .error_source = "",
    };
    if (from->measured) {
        to->measured = true;
        to->error_largest = from->measured->largest;
        to->error_mean = from->measured->mean;
        to->error_inputs = from->measured->inputs;
        to->error_source = from->measured->source;
        to->error_repeatable = from->measured->repeatable;
    }
    if (from->sequence) {
        to->sequences = true;
        to->sequence_idle_us = from->sequence->idle_us;
        to->sequences_max = from->sequence->max_sequences;
    }
    return to;
}

static const struct pen_ensemble_link *links(struct carver *carver, Penstock__TensorLink *const *from, size_t count)
{
    struct pen_ensemble_link *to = carve(carver, count, sizeof *to);
    for (size_t i = 0; to && i < count; i++) {
        to[i] = (struct pen_ensemble_link){from[i]->port, from[i]->tensor};
    }
    return to;
}

static const struct pen_ensemble_step *steps(struct carver *carver, Penstock__EnsembleStep *const *from, size_t count)
{
    struct pen_ensemble_step *to = carve(carver, count, sizeof *to);
    for (size_t i = 0; i < count; i++) {
        const struct pen_ensemble_link *inputs = links(carver, from[i]->inputs, from[i]->n_inputs);
        const struct pen_ensemble_link *outputs = links(carver, from[i]->outputs, from[i]->n_outputs);
        if (to) {
            to[i] = (struct pen_ensemble_step){from[i]->model, from[i]->version,   from[i]->n_inputs,
                                               inputs,         from[i]->n_outputs, outputs};
        }
    }
    return to;
}

static bool annotates(const Penstock__ModelInfo *from)
{
    size_t i = 0;
    while (i < from->n_offers && from->offers[i]->annotates) {
        i++;
    }
    return i > 0 && i == from->n_offers;
}

static struct pen_model *model(struct carver *carver, const Penstock__ModelInfo *from)
{
    const Penstock__ModelOffer *first = from->n_offers ? from->offers[0] : from->last_offer;
    struct pen_model *to = carve(carver, 1, sizeof *to);
    struct pen_signature *inputs = signatures(carver, from->inputs, from->n_inputs);
    struct pen_signature *outputs = signatures(carver, from->outputs, from->n_outputs);
    const struct pen_model_offer **offers = carve(carver, from->n_offers, sizeof *offers);
    for (size_t i = 0; i < from->n_offers; i++) {
        const char *worker = i < from->n_worker_names ? from->worker_names[i] : "";
        struct pen_model_offer *one = offer(carver, from->offers[i], worker);
        if (offers) {
            offers[i] = one;
        }
    }
    struct pen_version_label *labels = carve(carver, from->n_version_labels, sizeof *labels);
    for (size_t i = 0; labels && i < from->n_version_labels; i++) {
        labels[i] =
            (struct pen_version_label){from->version_labels[i]->label, from->version_labels[i]->share_ppm / 1e6};
    }
    size_t steps_count = first ? first->n_steps : 0;
    const struct pen_ensemble_step *recipe = steps(carver, steps_count ? first->steps : NULL, steps_count);
    if (!to) {
        return NULL;
    }
    *to = (struct pen_model){
        .name = from->name,
        .version = from->version,
        .platform = first ? first->platform : "",
        .preprocess = first ? first->preprocess : "",
        .inputs_count = from->n_inputs,
        .inputs = inputs,
        .outputs_count = from->n_outputs,
        .outputs = outputs,
        .labels_count = first ? first->n_labels : 0,
        .labels = first ? (const char *const *)first->labels : NULL,
        .offers_count = from->n_offers,
        .offers = offers,
        .queued = from->queued,
        .running = from->running,
        .jobs_done = from->jobs_done,
        .jobs_failed = from->jobs_failed,
        .cache_hits = from->cache_hits,
        .version_labels_count = from->n_version_labels,
        .version_labels = labels,
        .jobs_cancelled = from->jobs_cancelled,
        .forms = from->forms,
        .annotates = annotates(from),
        .steps_count = steps_count,
        .steps = recipe,
        .spread = from->spread,
    };
    return to;
}

static void fill_models(struct carver *carver, const Penstock__ControlReply *reply, struct listing *listing)
{
    const struct pen_model **to = carve(carver, reply->n_models, sizeof *to);
    for (size_t i = 0; i < reply->n_models; i++) {
        struct pen_model *one = model(carver, reply->models[i]);
        if (to) {
            to[i] = one;
        }
    }
    size_t failed;
    struct pen_failed_model *list = failures(carver, reply->failures, reply->n_failures, &failed);
    listing->list.models =
        (struct pen_model_list){.count = reply->n_models, .models = to, .failures_count = failed, .failures = list};
}

/* "name=value" texts are built in the block. */
static const char *const *flags(struct carver *carver, const Penstock__WorkerInfo *from)
{
    const char **to = carve(carver, from->n_flags, sizeof *to);
    for (size_t i = 0; i < from->n_flags; i++) {
        size_t name = strlen(from->flags[i]->name), value = strlen(from->flags[i]->value);
        char *text = carve(carver, name + value + 2, 1);
        if (text) {
            memcpy(text, from->flags[i]->name, name);
            text[name] = '=';
            memcpy(text + name + 1, from->flags[i]->value, value);
            to[i] = text;
        }
    }
    return to;
}

/* NULL where the broker does not tell one for each model. */
static const struct pen_offered_error *errors(struct carver *carver, const Penstock__WorkerInfo *from)
{
    if (from->n_errors != from->n_models) {
        return NULL;
    }
    struct pen_offered_error *to = carve(carver, from->n_errors, sizeof *to);
    for (size_t i = 0; to && i < from->n_errors; i++) {
        const Penstock__MeasuredError *m = from->errors[i]->measured;
        to[i] = (struct pen_offered_error){
            .precision = from->errors[i]->precision, .measures = from->errors[i]->measures, .source = ""};
        if (m) {
            to[i].measured = true;
            to[i].largest = m->largest;
            to[i].mean = m->mean;
            to[i].inputs = m->inputs;
            to[i].source = m->source;
            to[i].repeatable = m->repeatable;
        }
    }
    return to;
}

static struct pen_worker *worker(struct carver *carver, const Penstock__WorkerInfo *from)
{
    struct pen_worker *to = carve(carver, 1, sizeof *to);
    const char *const *texts = flags(carver, from);
    const struct pen_offered_error *told = errors(carver, from);
    struct pen_failed_model *failed = carve(carver, from->n_failures, sizeof *failed);
    for (size_t i = 0; failed && i < from->n_failures; i++) {
        failure(from->failures[i], from->name, &failed[i]);
    }
    if (!to) {
        return NULL;
    }
    *to = (struct pen_worker){
        .name = from->name,
        .host = from->host,
        .backend = from->backend,
        .device = from->device,
        .state = from->state,
        .software = from->software,
        .slots = from->slots,
        .threads = from->threads,
        .jobs_running = from->jobs_running,
        .jobs_done = from->jobs_done,
        .jobs_failed = from->jobs_failed,
        .rss_bytes = from->rss_bytes,
        .age_us = from->age_us,
        .last_seen_us = from->last_seen_us,
        .backlog_us = from->backlog_us,
        .models_count = from->n_models,
        .models = (const char *const *)from->models,
        .flags_count = from->n_flags,
        .flags = texts,
        .jobs_cancelled = from->jobs_cancelled,
        .results_bad = from->results_bad,
        .failures_count = from->n_failures,
        .failures = failed,
        .failures_all = from->failures_count,
        .errors = told,
    };
    return to;
}

static void fill_workers(struct carver *carver, const Penstock__ControlReply *reply, struct listing *listing)
{
    const struct pen_worker **to = carve(carver, reply->n_workers, sizeof *to);
    for (size_t i = 0; i < reply->n_workers; i++) {
        struct pen_worker *one = worker(carver, reply->workers[i]);
        if (to) {
            to[i] = one;
        }
    }
    listing->list.workers = (struct pen_worker_list){.count = reply->n_workers, .workers = to};
}

/* Writes one list, with all it points to from the carver. */
typedef void (*list_fill)(struct carver *carver, const Penstock__ControlReply *reply, struct listing *listing);

static enum pen_status list_ask(pen_client *client, const char *verb, list_fill fill, int64_t timeout_us,
                                struct listing **ret_listing, struct pen_error *reterr)
{
    struct ask ask;
    struct listing *listing = NULL;
    struct carver carver = {NULL, 0};
    enum pen_status status = ask_run(client, &ask, verb, NULL, timeout_us, reterr);
    if (status == PEN_OK && !(listing = calloc(1, sizeof *listing))) {
        status = ask_no_memory(reterr);
    }
    if (status == PEN_OK) {
        fill(&carver, ask.reply, listing); /* counts */
        carver = (struct carver){listing->block = calloc(1, carver.used + 1), 0};
        status = listing->block ? PEN_OK : ask_no_memory(reterr);
    }
    if (status == PEN_OK) {
        fill(&carver, ask.reply, listing);
        ask_arena_take(&ask, &listing->arena);
        *ret_listing = listing;
    } else {
        free(listing);
    }
    ask_fini(&ask);
    return status;
}

static void list_free(struct listing *listing)
{
    if (listing) {
        meta_arena_fini(&listing->arena);
        free(listing->block);
        free(listing);
    }
}

enum pen_status pen_client_models(pen_client *client, int64_t timeout_us, struct pen_model_list **ret_list,
                                  struct pen_error *reterr)
{
    struct listing *listing;
    enum pen_status status = list_ask(client, "models", fill_models, timeout_us, &listing, reterr);
    if (status == PEN_OK) {
        *ret_list = &listing->list.models;
    }
    return status;
}

void pen_client_models_free(struct pen_model_list *list)
{
    list_free((struct listing *)list);
}

enum pen_status pen_client_workers(pen_client *client, int64_t timeout_us, struct pen_worker_list **ret_list,
                                   struct pen_error *reterr)
{
    struct listing *listing;
    enum pen_status status = list_ask(client, "workers", fill_workers, timeout_us, &listing, reterr);
    if (status == PEN_OK) {
        *ret_list = &listing->list.workers;
    }
    return status;
}

void pen_client_workers_free(struct pen_worker_list *list)
{
    list_free((struct listing *)list);
}

static void stats_fill(struct pen_stats *to, const Penstock__Stats *from)
{
    *to = (struct pen_stats){
        .software = from->software,
        .cache_kind = from->cache_kind,
        .cache_state = from->cache_state,
        .draining = from->draining,
        .uptime_us = from->uptime_us,
        .jobs_admitted = from->jobs_admitted,
        .jobs_done = from->jobs_done,
        .jobs_failed = from->jobs_failed,
        .jobs_rejected = from->jobs_rejected,
        .jobs_expired = from->jobs_expired,
        .jobs_cancelled = from->jobs_cancelled,
        .jobs_requeued = from->jobs_requeued,
        .jobs_coalesced = from->jobs_coalesced,
        .results_duplicate = from->results_duplicate,
        .cache_hits = from->cache_hits,
        .cache_misses = from->cache_misses,
        .cache_bytes = from->cache_bytes,
        .cache_entries = from->cache_entries,
        .queued = from->queued,
        .running = from->running,
        .clients = from->clients,
        .workers = from->workers,
        .workers_lost = from->workers_lost,
        .workers_lost_closed = from->workers_lost_closed,
        .workers_lost_frozen = from->workers_lost_frozen,
        .workers_lost_cut = from->workers_lost_cut,
        .workers_slow = from->workers_slow,
        .jobs_hedged = from->jobs_hedged,
        .hedges_won = from->hedges_won,
        .quarantined = from->quarantined,
        .quarantine_refused = from->quarantine_refused,
        .bytes_in = from->bytes_in,
        .bytes_out = from->bytes_out,
        .replies_kept = from->replies_kept,
        .rss_bytes = from->rss_bytes,
    };
}

enum pen_status pen_client_stats(pen_client *client, int64_t timeout_us, struct pen_stats **ret_stats,
                                 struct pen_error *reterr)
{
    struct ask ask;
    enum pen_status status = ask_run(client, &ask, "stats", NULL, timeout_us, reterr);
    if (status == PEN_OK && !ask.reply->stats) {
        status = pen_error_set(reterr, PEN_ERR_CORRUPT, "the broker's answer to \"stats\" holds none.");
    }
    if (status == PEN_OK) {
        struct stats *stats = calloc(1, sizeof *stats);
        if (stats) {
            stats_fill(&stats->stats, ask.reply->stats);
            ask_arena_take(&ask, &stats->arena);
            *ret_stats = &stats->stats;
        } else {
            status = ask_no_memory(reterr);
        }
    }
    ask_fini(&ask);
    return status;
}

void pen_client_stats_free(struct pen_stats *stats)
{
    struct stats *whole = (struct stats *)stats;
    if (whole) {
        meta_arena_fini(&whole->arena);
        free(whole);
    }
}
