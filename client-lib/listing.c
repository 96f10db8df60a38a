/*
 * listing.c - models, workers and counters of the pool as plain structs.
 *
 * A list owns the unpacked reply its texts point into, and one block for the structs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"

/* What backs a list: the public struct comes first. */
struct model_list {
    struct pen_model_list list;
    struct meta_arena arena;
    void *block;
};

struct worker_list {
    struct pen_worker_list list;
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
    };
    return to;
}

static struct pen_model *model(struct carver *carver, const Penstock__ModelInfo *from)
{
    const Penstock__ModelOffer *first = from->n_offers ? from->offers[0] : NULL;
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
    };
    return to;
}

static const struct pen_model *const *models(struct carver *carver, const Penstock__ControlReply *reply)
{
    const struct pen_model **to = carve(carver, reply->n_models, sizeof *to);
    for (size_t i = 0; i < reply->n_models; i++) {
        struct pen_model *one = model(carver, reply->models[i]);
        if (to) {
            to[i] = one;
        }
    }
    return to;
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

static struct pen_worker *worker(struct carver *carver, const Penstock__WorkerInfo *from)
{
    struct pen_worker *to = carve(carver, 1, sizeof *to);
    const char *const *texts = flags(carver, from);
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
    };
    return to;
}

static const struct pen_worker *const *workers(struct carver *carver, const Penstock__ControlReply *reply)
{
    const struct pen_worker **to = carve(carver, reply->n_workers, sizeof *to);
    for (size_t i = 0; i < reply->n_workers; i++) {
        struct pen_worker *one = worker(carver, reply->workers[i]);
        if (to) {
            to[i] = one;
        }
    }
    return to;
}

static enum pen_status no_memory(struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the broker's answer.");
}

enum pen_status pen_client_models(pen_client *client, int64_t timeout_us, struct pen_model_list **ret_list,
                                  struct pen_error *reterr)
{
    struct ask ask;
    enum pen_status status = ask_run(client, &ask, "models", NULL, timeout_us, reterr);
    if (status == PEN_OK) {
        struct carver carver = {NULL, 0};
        models(&carver, ask.reply);
        struct model_list *list = calloc(1, sizeof *list);
        carver = (struct carver){calloc(1, carver.used + 1), 0};
        if (list && carver.block) {
            list->block = carver.block;
            list->list.count = ask.reply->n_models;
            list->list.models = models(&carver, ask.reply);
            ask_arena_take(&ask, &list->arena);
            *ret_list = &list->list;
        } else {
            free(list);
            free(carver.block);
            status = no_memory(reterr);
        }
    }
    ask_fini(&ask);
    return status;
}

void pen_client_models_free(struct pen_model_list *list)
{
    struct model_list *whole = (struct model_list *)list;
    if (whole) {
        meta_arena_fini(&whole->arena);
        free(whole->block);
        free(whole);
    }
}

enum pen_status pen_client_workers(pen_client *client, int64_t timeout_us, struct pen_worker_list **ret_list,
                                   struct pen_error *reterr)
{
    struct ask ask;
    enum pen_status status = ask_run(client, &ask, "workers", NULL, timeout_us, reterr);
    if (status == PEN_OK) {
        struct carver carver = {NULL, 0};
        workers(&carver, ask.reply);
        struct worker_list *list = calloc(1, sizeof *list);
        carver = (struct carver){calloc(1, carver.used + 1), 0};
        if (list && carver.block) {
            list->block = carver.block;
            list->list.count = ask.reply->n_workers;
            list->list.workers = workers(&carver, ask.reply);
            ask_arena_take(&ask, &list->arena);
            *ret_list = &list->list;
        } else {
            free(list);
            free(carver.block);
            status = no_memory(reterr);
        }
    }
    ask_fini(&ask);
    return status;
}

void pen_client_workers_free(struct pen_worker_list *list)
{
    struct worker_list *whole = (struct worker_list *)list;
    if (whole) {
        meta_arena_fini(&whole->arena);
        free(whole->block);
        free(whole);
    }
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
            status = no_memory(reterr);
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

static enum pen_status command(pen_client *client, const char *verb, const char *argument, int64_t timeout_us,
                               struct pen_error *reterr)
{
    struct ask ask;
    enum pen_status status = ask_run(client, &ask, verb, argument, timeout_us, reterr);
    ask_fini(&ask);
    return status;
}

enum pen_status pen_client_drain(pen_client *client, const char *worker_name, int64_t timeout_us,
                                 struct pen_error *reterr)
{
    return command(client, "drain", worker_name, timeout_us, reterr);
}

enum pen_status pen_client_cancel(pen_client *client, const char *job_id, int64_t timeout_us, struct pen_error *reterr)
{
    struct job_id id;
    if (!job_id || job_id_parse(job_id, &id) != 0) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "\"%s\" is no job id; one looks like 0123456789abcdef-42.",
                             job_id ? job_id : "");
    }
    return command(client, "cancel", job_id, timeout_us, reterr);
}

enum pen_status pen_client_cancel_own(pen_client *client, const char *job_id, const char *secret, int64_t timeout_us,
                                      struct pen_error *reterr)
{
    char argument[JOB_ID_TEXT_BYTES + 1 + DETACHED_SECRET_MAX];
    struct job_id id;
    if (!job_id || job_id_parse(job_id, &id) != 0 || !secret || !*secret || strlen(secret) > DETACHED_SECRET_MAX) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "name the job, such as 0123456789abcdef-42, and its secret of 1 to %d bytes.",
                             DETACHED_SECRET_MAX);
    }
    snprintf(argument, sizeof argument, "%s %s", job_id_text(id, (char[JOB_ID_TEXT_BYTES]){0}), secret);
    return command(client, "cancel", argument, timeout_us, reterr);
}

/* An answer that is one text, copied out of the reply. */
static enum pen_status ask_text(pen_client *client, const char *verb, const char *argument, int64_t timeout_us,
                                char **ret_text, struct pen_error *reterr)
{
    struct ask ask;
    enum pen_status status = ask_run(client, &ask, verb, argument, timeout_us, reterr);
    if (status == PEN_OK && ret_text) {
        char *text = strdup(ask.reply->text);
        if (text) {
            *ret_text = text;
        } else {
            status = no_memory(reterr);
        }
    }
    ask_fini(&ask);
    return status;
}

enum pen_status pen_client_trace(pen_client *client, const char *what, int64_t timeout_us, char **ret_text,
                                 struct pen_error *reterr)
{
    return ask_text(client, "trace", what, timeout_us, ret_text, reterr);
}

enum pen_status pen_client_log_level(pen_client *client, const char *level, const char *whom, int64_t timeout_us,
                                     char **ret_text, struct pen_error *reterr)
{
    char argument[512];
    int bytes = snprintf(argument, sizeof argument, "%s%s%s", level ? level : "", whom ? " " : "", whom ? whom : "");
    if (bytes < 0 || (size_t)bytes >= sizeof argument) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "the worker's name is too long.");
    }
    return ask_text(client, "log-level", argument, timeout_us, ret_text, reterr);
}

void pen_text_free(char *text)
{
    free(text);
}
