#include "control_internal.h"

#include "ensemble_models.h"
#include "failure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- models ---- */

static void fill_sigs(struct control_answer *answer, const struct tensor_sig *from, size_t count, size_t *ret_count,
                      Penstock__TensorSig ***ret_sigs)
{
    Penstock__TensorSig **pointers = control_room(answer, count * sizeof *pointers);
    Penstock__TensorSig *sigs = control_room(answer, count * sizeof *sigs);
    if (!pointers || !sigs)
        return;
    for (size_t i = 0; i < count; i++) {
        penstock__tensor_sig__init(&sigs[i]);
        sigs[i].name = from[i].name;
        sigs[i].dtype = from[i].dtype;
        sigs[i].pictures = from[i].pictures;
        sigs[i].n_dims = from[i].rank;
        sigs[i].dims = (int64_t *)(uintptr_t)from[i].dims;
        sigs[i].batched = from[i].batched;
        sigs[i].optional = from[i].optional;
        pointers[i] = &sigs[i];
    }
    *ret_count = count;
    *ret_sigs = pointers;
}

static void fill_offers(struct control_answer *answer, const struct model *model, Penstock__ModelInfo *info)
{
    Penstock__ModelOffer **offers = control_room(answer, model->offers_count * sizeof *offers);
    char **names = control_room(answer, model->offers_count * sizeof *names);
    const struct offer *offer;
    if (!offers || !names)
        return;
    info->offers = offers;
    info->worker_names = names;
    TAILQ_FOREACH(offer, &model->offers, in_model)
    {
        offers[info->n_offers++] = (Penstock__ModelOffer *)(uintptr_t)offer->meta;
        names[info->n_worker_names++] = offer->worker->hello->name;
    }
}

/* The labels that count, from orders and configs. */
static void fill_labels(struct broker *broker, struct control_answer *answer, const struct model *model,
                        Penstock__ModelInfo *info)
{
    struct label_choice choices[LABEL_CHOICES_MAX];
    size_t count = label_choices(&broker->labels, &broker->models, model->name, choices);
    info->version_labels = control_room(answer, count * sizeof *info->version_labels);
    for (size_t i = 0; info->version_labels && i < count; i++) {
        if (choices[i].model != model)
            continue;
        Penstock__VersionLabel *to = control_room(answer, sizeof *to);
        if (!to)
            return;
        penstock__version_label__init(to);
        to->label = control_text(answer, choices[i].label);
        to->share_ppm = choices[i].share_ppm;
        info->version_labels[info->n_version_labels++] = to;
    }
}

static void fill_model(struct broker *broker, struct control_answer *answer, const struct model *model,
                       Penstock__ModelInfo *info)
{
    const struct signature *signature = model_signature(model);
    penstock__model_info__init(info);
    info->name = model->name;
    info->version = model->version;
    info->queued = model->queue.waiting;
    info->running = model->running;
    info->jobs_done = model->jobs_done;
    info->jobs_failed = model->jobs_failed;
    info->jobs_cancelled = model->jobs_cancelled;
    info->cache_hits = model->cache_hits;
    info->forms = forms_offered(&model->forms);
    fill_sigs(answer, signature->inputs, signature->inputs_count, &info->n_inputs, &info->inputs);
    fill_sigs(answer, signature->outputs, signature->outputs_count, &info->n_outputs, &info->outputs);
    fill_offers(answer, model, info);
    info->last_offer = model->last;
    info->spread =
        model->plan && !model_served(model, NULL) && ensemble_served(&broker->models, &broker->labels, model, NULL);
}

static void fill_failed(struct broker *broker, struct control_answer *answer, const char *name)
{
    const struct worker *worker;
    Penstock__FailedModel **pointers = control_room(answer, FAILURES_LISTED * sizeof *pointers);
    answer->reply.failures = pointers;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        for (uint32_t i = 0; i < worker->failures_listed && answer->reply.n_failures < FAILURES_LISTED; i++) {
            Penstock__FailedModel *to;
            if (*name && strcmp(name, worker->failures[i]->name) != 0)
                continue;
            if (!pointers || !(to = control_room(answer, sizeof *to)))
                return;
            penstock__failed_model__init(to);
            to->worker = worker->hello->name;
            to->failure = worker->failures[i];
            pointers[answer->reply.n_failures++] = to;
        }
    }
}

/* argument: a model's name, or empty for all. */
void control_models(struct broker *broker, struct control_answer *answer, const char *argument)
{
    size_t count = broker->models.count;
    Penstock__ModelInfo **pointers = control_room(answer, count * sizeof *pointers);
    Penstock__ModelInfo *infos = control_room(answer, count * sizeof *infos);
    const struct model *model;
    if (!pointers || !infos)
        return;
    answer->reply.models = pointers;
    TAILQ_FOREACH(model, &broker->models.all, in_all)
    {
        size_t i = answer->reply.n_models;
        if (*argument && strcmp(argument, model->name) != 0)
            continue;
        fill_model(broker, answer, model, &infos[i]);
        fill_labels(broker, answer, model, &infos[i]);
        pointers[i] = &infos[i];
        answer->reply.n_models++;
    }
    fill_failed(broker, answer, argument);
    if (*argument && answer->reply.n_models == 0 && answer->reply.n_failures == 0)
        control_fail(answer, PEN_ERR_NOT_FOUND, "no worker offers a model of that name");
}

/* ---- workers ---- */

static const char *state_text(const struct broker *broker, const struct worker *worker)
{
    if (worker->state == WORKER_DRAINING)
        return "draining";
    bool silent = broker->now_us - worker->link.heard_us > (uint64_t)broker->options->heartbeat_us * 3 / 2;
    return silent || link_probing(&worker->link) ? "suspect" : "ready";
}

/* One of an offer; NULL without memory. */
static Penstock__OfferedError *offered_error(struct control_answer *answer, const struct offer *offer)
{
    Penstock__OfferedError *to = control_room(answer, sizeof *to);
    if (!to)
        return NULL;
    penstock__offered_error__init(to);
    to->precision = offer->precision;
    to->measured = offer->meta->measured;
    to->measures = offer->meta->measures;
    return to;
}

/* Its models and their errors, in one order. */
static void fill_offered(struct control_answer *answer, const struct worker *worker, Penstock__WorkerInfo *info)
{
    info->models = control_room(answer, worker->offers_count * sizeof *info->models);
    info->errors = control_room(answer, worker->offers_count * sizeof(Penstock__OfferedError *));
    for (size_t i = 0; info->models && info->errors && i < worker->offers_count; i++) {
        char text[300];
        const struct offer *offer = worker->offers[i];
        Penstock__OfferedError *error = offer->sketch ? NULL : offered_error(answer, offer);
        if (!error)
            continue;
        snprintf(text, sizeof text, "%.255s:%" PRIu64, offer->model->name, offer->model->version);
        info->models[info->n_models++] = control_text(answer, text);
        info->errors[info->n_errors++] = error;
    }
}

/* failures: how many the answer has already, of those that fit. */
static void fill_worker(const struct broker *broker, struct control_answer *answer, const struct worker *worker,
                        Penstock__WorkerInfo *info, uint32_t *failures)
{
    const Penstock__WorkerHello *hello = worker->hello;
    penstock__worker_info__init(info);
    info->name = hello->name;
    info->uuid = worker->uuid;
    info->host = hello->host;
    info->backend = hello->backend;
    info->device = hello->device;
    info->software = hello->software;
    info->state = (char *)(uintptr_t)state_text(broker, worker);
    info->slots = worker->slots;
    info->threads = hello->threads;
    info->jobs_running = worker->jobs;
    info->jobs_done = worker->jobs_done;
    info->jobs_failed = worker->jobs_failed;
    info->jobs_cancelled = worker->jobs_cancelled;
    info->results_bad = worker->results_bad;
    info->rss_bytes = worker->beat.rss_bytes;
    info->age_us = broker->now_us - worker->since_us;
    info->last_seen_us = broker->now_us - worker->link.heard_us;
    info->backlog_us = worker_backlog_us(worker, broker->now_us);
    uint32_t room = FAILURES_LISTED - *failures;
    info->n_failures = worker->failures_listed < room ? worker->failures_listed : room;
    info->failures = worker->failures;
    info->failures_count = worker->failures_count;
    *failures += (uint32_t)info->n_failures;
    info->n_flags = hello->n_flags;
    info->flags = hello->flags;
    fill_offered(answer, worker, info);
}

void control_workers(struct broker *broker, struct control_answer *answer, const char *argument)
{
    size_t count = broker->fleet.count;
    Penstock__WorkerInfo **pointers = control_room(answer, count * sizeof *pointers);
    Penstock__WorkerInfo *infos = control_room(answer, count * sizeof *infos);
    const struct worker *worker;
    uint32_t failures = 0;
    if (!pointers || !infos)
        return;
    answer->reply.workers = pointers;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        size_t i = answer->reply.n_workers;
        if (*argument && strcmp(argument, worker->hello->name) != 0)
            continue;
        fill_worker(broker, answer, worker, &infos[i], &failures);
        pointers[i] = &infos[i];
        answer->reply.n_workers++;
    }
    if (*argument && answer->reply.n_workers == 0)
        control_fail(answer, PEN_ERR_NOT_FOUND, "no worker of that name is connected");
}

/* ---- quarantine ---- */

static void fill_quarantined(const struct broker *broker, struct control_answer *answer,
                             const struct quarantined *entry, Penstock__QuarantinedJob *to)
{
    char id[JOB_ID_TEXT_BYTES];
    penstock__quarantined_job__init(to);
    to->job = control_text(answer, job_id_text(entry->id, id));
    to->model = (char *)(uintptr_t)entry->model;
    to->version = entry->version;
    to->tenant = (char *)(uintptr_t)entry->tenant;
    to->deaths = entry->deaths;
    to->workers = control_room(answer, sizeof *to->workers);
    if (to->workers) {
        to->n_workers = 1;
        to->workers[0] = (char *)(uintptr_t)entry->workers;
    }
    to->inputs = (char *)(uintptr_t)entry->inputs;
    to->bytes = entry->bytes;
    to->age_us = broker->now_us - entry->since_us;
    to->refused = entry->refused;
    if (entry->has_digest || entry->has_content) {
        const struct digest *digest = entry->has_digest ? &entry->digest : &entry->content;
        to->digest.data = (uint8_t *)(uintptr_t)digest->bytes;
        to->digest.len = sizeof digest->bytes;
    }
}

/* argument: a job id, or empty for all. */
void control_quarantine(struct broker *broker, struct control_answer *answer, const char *argument)
{
    const struct quarantine *quarantine = broker->quarantine;
    struct job_id id = {0, 0};
    Penstock__QuarantinedJob **pointers = control_room(answer, quarantine->count * sizeof *pointers);
    Penstock__QuarantinedJob *jobs = control_room(answer, quarantine->count * sizeof *jobs);
    if (*argument && job_id_parse(argument, &id) != 0) {
        control_fail(answer, PEN_ERR_INVALID, "that " JOB_ID_REFUSED);
        return;
    }
    if (!pointers || !jobs)
        return;
    answer->reply.quarantine = pointers;
    for (uint32_t i = 0; i < quarantine->count; i++) {
        size_t at = answer->reply.n_quarantine;
        if (*argument && !job_id_equal(quarantine->entries[i].id, id))
            continue;
        fill_quarantined(broker, answer, &quarantine->entries[i], &jobs[at]);
        pointers[at] = &jobs[at];
        answer->reply.n_quarantine++;
    }
    if (*argument && answer->reply.n_quarantine == 0)
        control_fail(answer, PEN_ERR_NOT_FOUND, "no job of that id is in quarantine");
}
