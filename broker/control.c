#include "control.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "audit.h"
#include "back.h"
#include "control.pb-c.h"
#include "control_cancel.h"
#include "control_watch.h"
#include "logline.h"
#include "version.h"

/* Everything of one reply is allocated here and freed with it. */
struct answer {
    struct meta_arena arena;
    Penstock__ControlReply reply;
    enum pen_status status;
};

#define ANSWER_BYTES_MAX (64u * 1024u * 1024u)

static void *room(struct answer *answer, size_t bytes)
{
    void *memory = answer->arena.allocator.alloc(answer->arena.allocator.allocator_data, bytes ? bytes : 1);
    if (memory)
        memset(memory, 0, bytes);
    else
        answer->status = PEN_ERR_NO_MEMORY;
    return memory;
}

static char *text_in(struct answer *answer, const char *text)
{
    char *copy = room(answer, strlen(text) + 1);
    if (copy)
        memcpy(copy, text, strlen(text) + 1);
    return copy ? copy : (char *)(uintptr_t) "";
}

static void fail(struct answer *answer, enum pen_status status, const char *text)
{
    answer->status = status;
    answer->reply.error = text_in(answer, text);
}

/* ---- models ---- */

static void fill_sigs(struct answer *answer, const struct tensor_sig *from, size_t count, size_t *ret_count,
                      Penstock__TensorSig ***ret_sigs)
{
    Penstock__TensorSig **pointers = room(answer, count * sizeof *pointers);
    Penstock__TensorSig *sigs = room(answer, count * sizeof *sigs);
    if (!pointers || !sigs)
        return;
    for (size_t i = 0; i < count; i++) {
        penstock__tensor_sig__init(&sigs[i]);
        sigs[i].name = from[i].name;
        sigs[i].dtype = from[i].dtype;
        sigs[i].n_dims = from[i].rank;
        sigs[i].dims = (int64_t *)(uintptr_t)from[i].dims;
        sigs[i].batched = from[i].batched;
        sigs[i].optional = from[i].optional;
        pointers[i] = &sigs[i];
    }
    *ret_count = count;
    *ret_sigs = pointers;
}

static void fill_offers(struct answer *answer, const struct model *model, Penstock__ModelInfo *info)
{
    Penstock__ModelOffer **offers = room(answer, model->offers_count * sizeof *offers);
    char **names = room(answer, model->offers_count * sizeof *names);
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

static void fill_labels(const struct broker *broker, struct answer *answer, const struct model *model,
                        Penstock__ModelInfo *info)
{
    info->version_labels = room(answer, broker->labels.count * sizeof *info->version_labels);
    for (uint32_t i = 0; info->version_labels && i < broker->labels.count; i++) {
        const struct label *label = &broker->labels.list[i];
        if (label->version != model->version || strcmp(label->model, model->name) != 0)
            continue;
        Penstock__VersionLabel *to = room(answer, sizeof *to);
        if (!to)
            return;
        penstock__version_label__init(to);
        to->label = text_in(answer, label->label);
        to->share_ppm = label->share_ppm;
        info->version_labels[info->n_version_labels++] = to;
    }
}

static void fill_model(struct answer *answer, const struct model *model, Penstock__ModelInfo *info)
{
    penstock__model_info__init(info);
    info->name = model->name;
    info->version = model->version;
    info->queued = model->queue.waiting;
    info->running = model->running;
    info->jobs_done = model->jobs_done;
    info->jobs_failed = model->jobs_failed;
    info->cache_hits = model->cache_hits;
    fill_sigs(answer, model->signature->inputs, model->signature->inputs_count, &info->n_inputs, &info->inputs);
    fill_sigs(answer, model->signature->outputs, model->signature->outputs_count, &info->n_outputs, &info->outputs);
    fill_offers(answer, model, info);
}

/* argument: a model's name, or empty for all. */
static void on_models(struct broker *broker, struct answer *answer, const char *argument)
{
    size_t count = broker->models.count;
    Penstock__ModelInfo **pointers = room(answer, count * sizeof *pointers);
    Penstock__ModelInfo *infos = room(answer, count * sizeof *infos);
    const struct model *model;
    if (!pointers || !infos)
        return;
    answer->reply.models = pointers;
    TAILQ_FOREACH(model, &broker->models.all, in_all)
    {
        size_t i = answer->reply.n_models;
        if (*argument && strcmp(argument, model->name) != 0)
            continue;
        fill_model(answer, model, &infos[i]);
        fill_labels(broker, answer, model, &infos[i]);
        pointers[i] = &infos[i];
        answer->reply.n_models++;
    }
    if (*argument && answer->reply.n_models == 0)
        fail(answer, PEN_ERR_NOT_FOUND, "no worker offers a model of that name");
}

/* ---- workers ---- */

static const char *state_text(const struct broker *broker, const struct worker *worker)
{
    if (worker->state == WORKER_DRAINING)
        return "draining";
    bool silent = broker->now_us - worker->link.heard_us > (uint64_t)broker->options->heartbeat_us * 3 / 2;
    return silent || link_probing(&worker->link) ? "suspect" : "ready";
}

static void fill_worker(const struct broker *broker, struct answer *answer, const struct worker *worker,
                        Penstock__WorkerInfo *info)
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
    info->rss_bytes = worker->beat.rss_bytes;
    info->age_us = broker->now_us - worker->since_us;
    info->last_seen_us = broker->now_us - worker->link.heard_us;
    info->backlog_us = worker_backlog_us(worker, broker->now_us);
    info->n_flags = hello->n_flags;
    info->flags = hello->flags;
    info->models = room(answer, worker->offers_count * sizeof *info->models);
    for (size_t i = 0; info->models && i < worker->offers_count; i++) {
        char text[300];
        if (worker->offers[i]->sketch)
            continue;
        snprintf(text, sizeof text, "%.255s:%" PRIu64, worker->offers[i]->model->name,
                 worker->offers[i]->model->version);
        info->models[info->n_models++] = text_in(answer, text);
    }
}

static void on_workers(struct broker *broker, struct answer *answer, const char *argument)
{
    size_t count = broker->fleet.count;
    Penstock__WorkerInfo **pointers = room(answer, count * sizeof *pointers);
    Penstock__WorkerInfo *infos = room(answer, count * sizeof *infos);
    const struct worker *worker;
    if (!pointers || !infos)
        return;
    answer->reply.workers = pointers;
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        size_t i = answer->reply.n_workers;
        if (*argument && strcmp(argument, worker->hello->name) != 0)
            continue;
        fill_worker(broker, answer, worker, &infos[i]);
        pointers[i] = &infos[i];
        answer->reply.n_workers++;
    }
    if (*argument && answer->reply.n_workers == 0)
        fail(answer, PEN_ERR_NOT_FOUND, "no worker of that name is connected");
}

/* ---- stats ---- */

static void fill_load(const struct broker *broker, Penstock__Stats *stats)
{
    const struct model *model;
    const struct session *session;
    TAILQ_FOREACH(model, &broker->models.all, in_all)
    {
        stats->queued += model->queue.waiting;
        stats->running += model->running;
    }
    TAILQ_FOREACH(session, &broker->sessions.all, in_all)
    stats->clients += session->connected;
    stats->workers = broker->fleet.count;
    stats->bytes_in = broker->clients->bytes_in + broker->workers->bytes_in;
    stats->bytes_out = broker->clients->bytes_out + broker->workers->bytes_out;
    stats->replies_kept = broker->sessions.kept_count;
}

static void fill_cache(struct broker *broker, struct answer *answer, Penstock__Stats *stats)
{
    struct cache_report report;
    cache_report(broker->cache, &report);
    stats->cache_hits = broker->stats.cache_hits;
    stats->cache_misses = broker->stats.cache_misses;
    stats->cache_bytes = report.bytes;
    stats->cache_entries = report.entries;
    stats->cache_kind = text_in(answer, report.kind);
    stats->cache_state = text_in(answer, report.state);
}

static void on_stats(struct broker *broker, struct answer *answer, const char *argument)
{
    (void)argument;
    const struct stats *own = &broker->stats;
    Penstock__Stats *stats = room(answer, sizeof *stats);
    if (!stats)
        return;
    penstock__stats__init(stats);
    answer->reply.stats = stats;
    stats->uptime_us = broker->now_us - broker->started_us;
    stats->jobs_admitted = own->jobs_admitted;
    stats->jobs_done = own->jobs_done;
    stats->jobs_failed = own->jobs_failed;
    stats->jobs_rejected = own->jobs_rejected;
    stats->jobs_expired = own->jobs_expired;
    stats->jobs_cancelled = own->jobs_cancelled;
    stats->jobs_requeued = own->jobs_requeued;
    stats->jobs_coalesced = own->jobs_coalesced;
    stats->results_duplicate = own->results_duplicate;
    stats->workers_lost = own->workers_lost;
    stats->workers_lost_closed = own->losses[LOSS_CLOSED];
    stats->workers_lost_frozen = own->losses[LOSS_FROZEN];
    stats->workers_lost_cut = own->losses[LOSS_CUT];
    stats->workers_slow = own->workers_slow;
    stats->jobs_hedged = own->jobs_hedged;
    stats->hedges_won = own->hedges_won;
    stats->quarantined = broker->quarantine->count;
    stats->quarantine_refused = own->quarantine_refused;
    stats->rss_bytes = stats_rss_bytes();
    stats->draining = broker->draining;
    stats->software = (char *)(uintptr_t)PENSTOCK_SOFTWARE;
    fill_load(broker, stats);
    fill_cache(broker, answer, stats);
}

/* ---- drain, ping ---- */

/* argument: empty or "broker" = this broker, "workers" = all of them, else a worker's name. */
static void on_drain(struct broker *broker, struct answer *answer, const char *argument)
{
    struct worker *worker;
    if (!*argument || strcmp(argument, "broker") == 0) {
        broker_drain(broker);
        return;
    }
    if (strcmp(argument, "workers") == 0) {
        TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
        back_drain(broker, worker);
        return;
    }
    worker = fleet_by_name(&broker->fleet, argument);
    if (worker)
        back_drain(broker, worker);
    else
        fail(answer, PEN_ERR_NOT_FOUND, "no worker of that name is connected; `workers` lists them");
}

/* argument: the text of a job id, under way or among the last that ended. */
static void on_explain(struct broker *broker, struct answer *answer, const char *argument)
{
    struct job_id id;
    if (job_id_parse(argument, &id) != 0) {
        fail(answer, PEN_ERR_INVALID, "that is no job id; one looks like 0123456789abcdef-42");
        return;
    }
    answer->reply.explanation = explain_job(broker, id, &answer->arena.allocator);
    if (!answer->reply.explanation)
        fail(answer, PEN_ERR_NOT_FOUND,
             "no job of that id is under way or among the last that ended (--explain-jobs of the broker)");
}

/* ---- quarantine ---- */

static void fill_quarantined(const struct broker *broker, struct answer *answer, const struct quarantined *entry,
                             Penstock__QuarantinedJob *to)
{
    char id[JOB_ID_TEXT_BYTES];
    penstock__quarantined_job__init(to);
    to->job = text_in(answer, job_id_text(entry->id, id));
    to->model = (char *)(uintptr_t)entry->model;
    to->version = entry->version;
    to->tenant = (char *)(uintptr_t)entry->tenant;
    to->deaths = entry->deaths;
    to->workers = room(answer, sizeof *to->workers);
    if (to->workers) {
        to->n_workers = 1;
        to->workers[0] = (char *)(uintptr_t)entry->workers;
    }
    to->inputs = (char *)(uintptr_t)entry->inputs;
    to->bytes = entry->bytes;
    to->age_us = broker->now_us - entry->since_us;
    to->refused = entry->refused;
    if (entry->has_digest) {
        to->digest.data = (uint8_t *)(uintptr_t)entry->digest.bytes;
        to->digest.len = sizeof entry->digest.bytes;
    }
}

/* argument: a job id, or empty for all. */
static void on_quarantine(struct broker *broker, struct answer *answer, const char *argument)
{
    const struct quarantine *quarantine = broker->quarantine;
    struct job_id id = {0, 0};
    Penstock__QuarantinedJob **pointers = room(answer, quarantine->count * sizeof *pointers);
    Penstock__QuarantinedJob *jobs = room(answer, quarantine->count * sizeof *jobs);
    if (*argument && job_id_parse(argument, &id) != 0) {
        fail(answer, PEN_ERR_INVALID, "that is no job id; one looks like 0123456789abcdef-42");
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
        fail(answer, PEN_ERR_NOT_FOUND, "no job of that id is in quarantine");
}

/* argument: a job id, or "all". Equal jobs may run again. */
static void on_kick(struct broker *broker, struct answer *answer, const char *argument)
{
    struct job_id id;
    if (strcmp(argument, "all") == 0) {
        quarantine_kick_all(broker->quarantine);
        return;
    }
    if (job_id_parse(argument, &id) != 0)
        fail(answer, PEN_ERR_INVALID, "that is no job id; one looks like 0123456789abcdef-42");
    else if (!quarantine_kick(broker->quarantine, id))
        fail(answer, PEN_ERR_NOT_FOUND, "no job of that id is in quarantine");
}

static void on_ping(struct broker *broker, struct answer *answer, const char *argument)
{
    (void)broker;
    (void)answer;
    (void)argument;
}

/* Text that was malloc'ed elsewhere moves into the answer. */
static void give_text(struct answer *answer, enum pen_status status, char *text, const struct pen_error *error)
{
    if (status == PEN_OK)
        answer->reply.text = text_in(answer, text);
    else
        fail(answer, status, error->text);
    free(text);
}

static void on_trace(struct broker *broker, struct answer *answer, const char *argument)
{
    char *text = NULL;
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status = control_trace(broker, argument, &text, &error);
    give_text(answer, status, text, &error);
}

static void on_log_level(struct broker *broker, struct answer *answer, const char *argument)
{
    char *text = NULL;
    struct pen_error error = {.status = PEN_OK};
    enum pen_status status = control_log_level(broker, argument, &text, &error);
    give_text(answer, status, text, &error);
}

/* argument: "MODEL LABEL VERSION [SHARE_PPM]"; label.h. */
static void on_label(struct broker *broker, struct answer *answer, const char *argument)
{
    struct pen_error error = {.status = PEN_OK};
    if (label_set(&broker->labels, argument, &error) != PEN_OK)
        fail(answer, error.status, error.text);
    else
        log_event(LOG_INFO, "model_label", "argument=%s", argument);
}

/* Loading is an administrator's matter, and written down. */
static bool may_order(struct broker *broker, const struct session *session, struct answer *answer,
                      const Penstock__ControlRequest *request)
{
    const struct identity *identity = session->identity;
    bool allowed = !identity || (identity->roles & ROLE_ADMIN);
    if (!allowed)
        fail(answer, PEN_ERR_DENIED, "loading and unloading needs the role admin");
    audit_note(broker->audit, identity ? identity->name : session->name, session->uuid, request->verb,
               request->argument, allowed ? PEN_OK : PEN_ERR_DENIED);
    return allowed;
}

/* True: workers carry the order out, the reply comes later. */
static bool begin_order(struct broker *broker, struct session *session, struct answer *answer,
                        const Penstock__ControlRequest *request)
{
    struct pen_error error = {.status = PEN_OK};
    if (strcmp(request->verb, "load") != 0 && strcmp(request->verb, "unload") != 0)
        return false;
    if (!may_order(broker, session, answer, request))
        return false;
    if (errand_begin(broker, session, request->serial, request->verb, request->argument, &error) == PEN_OK)
        return true;
    fail(answer, error.status, error.text);
    return false;
}

/* True: Redis is asked, the reply comes later. Whose job it is decides who may; only the role observe alone is turned away here. */
static bool cancel(struct broker *broker, struct session *session, struct answer *answer,
                   const Penstock__ControlRequest *request)
{
    const struct identity *identity = session->identity;
    struct pen_error error = {.status = PEN_OK};
    bool later = false;
    if (identity && !(identity->roles & (ROLE_SUBMIT | ROLE_ADMIN)))
        pen_error_set(&error, PEN_ERR_DENIED, "the key of %s lacks the role that cancel needs", identity->name);
    else
        control_cancel(broker, session, request->serial, request->argument, &later, &error);
    char job[JOB_ID_TEXT_BYTES]; /* never the secret behind it */
    snprintf(job, sizeof job, "%.*s", (int)strcspn(request->argument, " "), request->argument);
    audit_note(broker->audit, identity ? identity->name : session->name, session->uuid, "cancel", job, error.status);
    if (error.status != PEN_OK)
        fail(answer, error.status, error.text);
    return later;
}

/* roles: one of these is needed where keys are asked for; audited: it changes something. */
static const struct verb {
    const char *name;
    void (*act)(struct broker *broker, struct answer *answer, const char *argument);
    unsigned roles;
    bool audited;
} verbs[] = {
    {"models", on_models, ROLE_SUBMIT | ROLE_OBSERVE | ROLE_ADMIN, false},
    {"workers", on_workers, ROLE_OBSERVE | ROLE_ADMIN, false},
    {"stats", on_stats, ROLE_OBSERVE | ROLE_ADMIN, false},
    {"explain", on_explain, ROLE_OBSERVE | ROLE_ADMIN, false},
    {"quarantine", on_quarantine, ROLE_OBSERVE | ROLE_ADMIN, false},
    {"ping", on_ping, ROLE_SUBMIT | ROLE_OBSERVE | ROLE_ADMIN, false},
    {"drain", on_drain, ROLE_ADMIN, true},
    {"kick", on_kick, ROLE_ADMIN, true},
    {"trace", on_trace, ROLE_OBSERVE | ROLE_ADMIN, false},
    {"label", on_label, ROLE_ADMIN, true},
    {"log-level", on_log_level, ROLE_ADMIN, true},
};

static void run_verb(struct broker *broker, const struct session *session, struct answer *answer,
                     const struct verb *verb, const char *argument)
{
    const struct identity *identity = session->identity;
    char text[128];
    if (identity && !(identity->roles & verb->roles)) {
        snprintf(text, sizeof text, "the key of %s lacks the role that %s needs", identity->name, verb->name);
        fail(answer, PEN_ERR_DENIED, text);
    } else {
        verb->act(broker, answer, argument);
    }
    if (verb->audited || answer->status == PEN_ERR_DENIED)
        audit_note(broker->audit, identity ? identity->name : session->name, session->uuid, verb->name, argument,
                   answer->status);
}

static void act(struct broker *broker, const struct session *session, struct answer *answer,
                const Penstock__ControlRequest *request)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(request->verb, verbs[i].name) == 0) {
            run_verb(broker, session, answer, &verbs[i], request->argument);
            return;
        }
    }
    fail(answer, PEN_ERR_NOT_FOUND,
         "unknown verb; there are models, workers, stats, drain, cancel, explain, quarantine, kick, ping, load, "
         "unload, label, trace, log-level");
}

static void send_answer(struct broker *broker, struct session *session, struct answer *answer)
{
    struct envelope env = envelope_make(FRAME_CONTROL_REPLY);
    size_t bytes = penstock__control_reply__get_packed_size(&answer->reply);
    uint8_t *meta = bytes <= FRAME_CONTROL_BYTES_MAX ? malloc(bytes ? bytes : 1) : NULL;
    if (!meta) {
        uint64_t serial = answer->reply.serial;
        penstock__control_reply__init(&answer->reply);
        answer->reply.serial = serial;
        answer->reply.error =
            (char *)(uintptr_t) "the answer is larger than a control message may be; name one model or worker";
        answer->status = PEN_ERR_TOO_LARGE;
        bytes = penstock__control_reply__get_packed_size(&answer->reply);
        meta = malloc(bytes);
    }
    env.status = (uint8_t)answer->status;
    if (meta)
        broker_send_client(broker, session, &env, meta, penstock__control_reply__pack(&answer->reply, meta));
    free(meta);
}

void control_answer(struct broker *broker, struct session *session, const uint8_t *meta, size_t bytes)
{
    struct answer answer = {.status = PEN_OK};
    meta_arena_reset(&broker->arena);
    const Penstock__ControlRequest *request =
        meta_unpack(&broker->arena, &penstock__control_request__descriptor, meta, bytes);
    meta_arena_init(&answer.arena, ANSWER_BYTES_MAX);
    penstock__control_reply__init(&answer.reply);
    if (request) {
        answer.reply.serial = request->serial;
        if (begin_order(broker, session, &answer, request)) {
            meta_arena_fini(&answer.arena);
            return;
        }
        if (strcmp(request->verb, "cancel") == 0) {
            if (cancel(broker, session, &answer, request)) {
                meta_arena_fini(&answer.arena);
                return;
            }
        } else if (answer.status == PEN_OK) {
            act(broker, session, &answer, request);
        }
    } else {
        fail(&answer, PEN_ERR_CORRUPT, "the question's meta is no ControlRequest (proto/control.proto)");
    }
    if (answer.status == PEN_ERR_NO_MEMORY) {
        uint64_t serial = answer.reply.serial;
        penstock__control_reply__init(&answer.reply);
        answer.reply.serial = serial;
        answer.reply.error = (char *)(uintptr_t) "the broker has no memory for the answer";
    }
    send_answer(broker, session, &answer);
    meta_arena_fini(&answer.arena);
}
