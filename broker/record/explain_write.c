#include "explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "broker_state.h"
#include "choose.h"
#include "explain_internal.h"
#include "patch.h"
#include "wire_reader.h"
#include "words.h"

#define SENTENCE_BYTES 400u

/* ---- sentences --------------------------------------------------------------------------------------------------------------------- */

void *explain_take(struct explain_writer *w, size_t bytes)
{
    void *memory = w->allocator->alloc(w->allocator->allocator_data, bytes);
    w->failed |= !memory;
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

char *explain_copy(struct explain_writer *w, const char *text)
{
    char *to = explain_take(w, strlen(text) + 1);
    return to ? strcpy(to, text) : (char *)(uintptr_t) "";
}

static const char *name_of(const struct broker *broker, uint64_t uuid, char text[EXPLAIN_NAME_BYTES])
{
    const struct worker *worker = fleet_by_uuid(&broker->fleet, uuid);
    if (worker)
        explain_text(text, EXPLAIN_NAME_BYTES, worker->hello->name);
    else
        snprintf(text, EXPLAIN_NAME_BYTES, "%016" PRIx64 " (gone)", uuid);
    return text;
}

static const char *why_worker(const struct explain_writer *w, const struct explained *e, char text[SENTENCE_BYTES])
{
    const struct decision *d = &e->decision;
    const struct weighed *first = &d->kept[0], *other = &d->kept[1];
    char name[EXPLAIN_NAME_BYTES];
    text[0] = '\0';
    if (e->reason == CLOSE_STEPS)
        snprintf(text, SENTENCE_BYTES, "No worker had all of its models: its steps ran as jobs of their own.");
    if (!e->worker[0])
        return text;
    if (d->count == 0) {
        snprintf(text, SENTENCE_BYTES, "%s came back while it was still running the job, which stayed there.",
                 e->worker);
    } else if (d->count == 1) {
        snprintf(text, SENTENCE_BYTES,
                 "%s was the only worker that could run it: done in %" PRIu64 " us was expected (%u us of backlog, %u "
                 "us of execution, %u us of transfer).",
                 e->worker, weighed_completion_us(first), first->backlog_us, first->expect_us, first->transfer_us);
    } else if (weighed_completion_us(first) <= weighed_completion_us(other)) {
        snprintf(text, SENTENCE_BYTES,
                 "%s was expected to be done first of %u: in %" PRIu64 " us (%u us of backlog, %u us of execution, %u "
                 "us of transfer); next would have been %s in %" PRIu64 " us%s.",
                 e->worker, d->capable, weighed_completion_us(first), first->backlog_us, first->expect_us,
                 first->transfer_us, name_of(w->broker, other->worker, name), weighed_completion_us(other),
                 other->load_us ? ", which has to load the model first" : "");
    } else {
        snprintf(text, SENTENCE_BYTES,
                 "%s could start at once and was expected to be done in %" PRIu64 " us; %s is quicker (%" PRIu64
                 " us) but had its credit of work, and more jobs were waiting for it.",
                 e->worker, weighed_completion_us(first), name_of(w->broker, other->worker, name),
                 weighed_completion_us(other));
    }
    return text;
}

/* Why the batch of this job's run closed. */
static void why_closed(const struct explained *e, char text[SENTENCE_BYTES])
{
    const struct decision *d = &e->decision;
    const char *waiting = words_plural(d->rows_waiting, "row was", "rows were");
    switch (e->reason) {
    case CLOSE_NONE:
    case CLOSE_REASONS:
        break;
    case CLOSE_SINGLE:
        snprintf(text, SENTENCE_BYTES, "The model takes no batches there: jobs run one by one.");
        break;
    case CLOSE_FULL:
        snprintf(text, SENTENCE_BYTES, "%u %s waiting: a full or preferred size was reached (at most %u).",
                 d->rows_waiting, waiting, d->rows_max);
        break;
    case CLOSE_IDLE:
        snprintf(text, SENTENCE_BYTES, "A slot was free and nothing was gained by waiting: %s%u %s there %s went.",
                 e->rows == 1 ? "the " : "all ", e->rows, words_plural(e->rows, "row", "rows"),
                 words_plural(e->rows, "was", "were"));
        break;
    case CLOSE_BEST:
        snprintf(text, SENTENCE_BYTES,
                 "%u %s waiting: by what was measured there, %u at once %s the most rows per second.", d->rows_waiting,
                 waiting, e->rows, words_plural(e->rows, "gives", "give"));
        break;
    case CLOSE_UNPAID:
        snprintf(text, SENTENCE_BYTES,
                 "Batches do not pay there: by what was measured, a row in company takes as long as one alone.");
        break;
    case CLOSE_EXPLORE:
        snprintf(text, SENTENCE_BYTES,
                 "%u %s waiting, and how long %u at once %s there was not known or long ago: it was measured.",
                 d->rows_waiting, waiting, e->rows, words_plural(e->rows, "takes", "take"));
        break;
    case CLOSE_DELAY:
        snprintf(text, SENTENCE_BYTES, "The oldest job had waited for company for %" PRIu64 " us, the model's limit.",
                 d->delay_us);
        break;
    case CLOSE_DEADLINE:
        snprintf(text, SENTENCE_BYTES,
                 "To wait for more company would have cost the most urgent job its deadline (%u us of execution).",
                 d->kept[0].expect_us);
        break;
    case CLOSE_HEDGE:
    case CLOSE_STEPS:
        snprintf(text, SENTENCE_BYTES, "The batch closed: %s.", close_reason_name(e->reason));
        break;
    }
}

static const char *why_batch(const struct explained *e, char text[SENTENCE_BYTES])
{
    text[0] = '\0';
    if (!e->jobs && !e->followed)
        return text;
    if (e->followed)
        snprintf(text, SENTENCE_BYTES, "An identical job was under way: this one got its result.");
    else if (e->alone)
        snprintf(text, SENTENCE_BYTES, "A worker was lost with this job: it runs in a batch of its own.");
    else if (e->exact)
        snprintf(text, SENTENCE_BYTES, "It asks for f32-exact: no other job shares its batch.");
    else
        why_closed(e, text);
    return text;
}

/* Whether its batch waits for company; otherwise the lane wakes when a worker may be given more. */
static bool batch_grows(const struct lane *lane, const struct decision *d, uint64_t now_us)
{
    bool credit = false;
    for (uint32_t i = 0; i < d->count; i++)
        credit = credit || d->kept[i].credit;
    return credit && lane->wake_us != UINT64_MAX && lane->wake_us > now_us;
}

static const char *why_waits(const struct explain_writer *w, const struct job *job, const struct decision *d,
                             char text[SENTENCE_BYTES])
{
    const struct lane *lane = job->lane;
    char name[EXPLAIN_NAME_BYTES];
    uint64_t now_us = w->broker->now_us;
    if (job->state == JOB_LOOKUP)
        snprintf(text, SENTENCE_BYTES, "The result cache is being asked.");
    else if (job->state == JOB_HELD)
        snprintf(text, SENTENCE_BYTES, "The job before it in its sequence is under way.");
    else if (job->state == JOB_FOLLOWING)
        snprintf(text, SENTENCE_BYTES, "An identical job is under way and will answer this one too.");
    else if (d->capable == 0)
        snprintf(text, SENTENCE_BYTES, "No worker that could run it is connected and ready.");
    else if (lane_head(lane) != job)
        snprintf(text, SENTENCE_BYTES, "%zu %s in its queue and at least one of them goes first.", lane->count,
                 words_plural(lane->count, "job waits", "jobs wait"));
    else if (batch_grows(lane, d, now_us))
        snprintf(text, SENTENCE_BYTES, "Its batch may grow for another %" PRIu64 " us.", lane->wake_us - now_us);
    else if (d->kept[0].load_us > 0)
        snprintf(text, SENTENCE_BYTES,
                 "The model is in no worker's memory that could run it sooner; %s loads it, which should take another "
                 "%u us.",
                 name_of(w->broker, d->kept[0].worker, name), d->kept[0].load_us);
    else
        snprintf(text, SENTENCE_BYTES,
                 "%u %s can run it and none is to be given more now; %s is expected to be done first, in %" PRIu64
                 " us.",
                 d->capable, words_plural(d->capable, "worker", "workers"), name_of(w->broker, d->kept[0].worker, name),
                 weighed_completion_us(&d->kept[0]));
    return text;
}

/* ---- the message ------------------------------------------------------------------------------------------------------------------- */

static const char *backend_of(const struct broker *broker, const struct explained *e, uint64_t uuid)
{
    const struct worker *worker = fleet_by_uuid(&broker->fleet, uuid);
    for (size_t i = 0; worker && i < worker->offers_count; i++) {
        const struct model *model = worker->offers[i]->model;
        if (model->version == e->version && strncmp(model->name, e->model, sizeof e->model - 1) == 0)
            return worker->offers[i]->meta->backend;
    }
    return "";
}

static void fill_candidates(struct explain_writer *w, const struct explained *e, Penstock__Explanation *to)
{
    const struct decision *d = &e->decision;
    Penstock__Candidate **list = explain_take(w, d->count * sizeof *list + 1);
    for (uint32_t i = 0; list && i < d->count; i++) {
        char name[EXPLAIN_NAME_BYTES];
        Penstock__Candidate *one = explain_take(w, sizeof *one);
        if (!one)
            return;
        penstock__candidate__init(one);
        one->worker = explain_copy(w, name_of(w->broker, d->kept[i].worker, name));
        one->backend = explain_copy(w, backend_of(w->broker, e, d->kept[i].worker));
        one->backlog_us = d->kept[i].backlog_us;
        one->expect_us = d->kept[i].expect_us;
        one->transfer_us = d->kept[i].transfer_us;
        one->load_us = d->kept[i].load_us;
        one->credit = d->kept[i].credit;
        one->chosen = d->kept[i].chosen;
        list[i] = one;
        to->candidates = list;
        to->n_candidates = i + 1;
    }
    to->capable = d->capable;
}

static Penstock__Explanation *fill(struct explain_writer *w, const struct explained *e, const char *state,
                                   const char *why_not)
{
    char text[SENTENCE_BYTES], id[JOB_ID_TEXT_BYTES];
    Penstock__Explanation *to = explain_take(w, sizeof *to);
    if (!to)
        return NULL;
    penstock__explanation__init(to);
    to->job = explain_copy(w, job_id_text(e->id, id));
    to->model = explain_copy(w, e->model);
    to->version = e->version;
    to->state = explain_copy(w, state);
    to->tenant = explain_copy(w, e->tenant->name);
    to->priority = e->priority;
    to->worker = explain_copy(w, e->worker);
    to->backend = explain_copy(w, e->backend);
    to->why_worker = explain_copy(w, why_worker(w, e, text));
    to->why_batch = explain_copy(w, why_batch(e, text));
    to->why_not = explain_copy(w, why_not);
    fill_candidates(w, e, to);
    to->batch_reason = explain_copy(w, close_reason_name(e->reason));
    to->batch_jobs = e->jobs;
    to->batch_rows = e->rows;
    to->queue_us = e->queue_us;
    to->expect_us = e->expect_us;
    to->compute_us = e->compute_us;
    to->total_us = e->total_us;
    to->attempts = e->attempts;
    to->status = e->status;
    explain_steps_write(w, e->steps, e->steps_count, to);
    return w->failed ? NULL : to;
}

static Penstock__Explanation *explain_live(struct explain_writer *w, struct job *job)
{
    static const char *const states[] = {
        [JOB_LOOKUP] = "lookup", [JOB_QUEUED] = "queued", [JOB_FOLLOWING] = "following", [JOB_DISPATCHED] = "running",
        [JOB_STEPS] = "running", [JOB_HELD] = "queued",   [JOB_HANDED] = "queued"};
    char text[SENTENCE_BYTES] = "";
    struct explained_step steps[ENSEMBLE_PLAN_STEPS_MAX];
    struct explained e;
    explained_describe(w->broker, job, job->state == JOB_DISPATCHED ? job->dispatch : NULL, 0, &e);
    e.status = PEN_OK;
    if (job->state == JOB_STEPS) {
        e.steps = steps;
        e.steps_count = job_course(w->broker, job)->explain(w->broker, job, steps);
        job_course(w->broker, job)->text(job, text, sizeof text);
    } else if (job->state != JOB_DISPATCHED) {
        choose_weigh(w->broker, job->lane, &e.decision);
        why_waits(w, job, &e.decision, text);
    }
    return fill(w, &e, states[job->state], text);
}

static const char *end_name(enum pen_status status, bool began)
{
    if (status == PEN_OK || status == PEN_ERR_CANCELLED)
        return status == PEN_OK ? "done" : "cancelled";
    return began ? "failed" : "refused";
}

static Penstock__Explanation *explain_past(struct explain_writer *w, const struct explained *e)
{
    if (e->cached)
        return fill(w, e, "done", "It did not run: the result cache had the answer.");
    bool ran = e->worker[0] || e->attempts;
    return fill(w, e, end_name(e->status, ran || e->total_us), e->error);
}

Penstock__Explanation *explain_job(struct broker *broker, struct job_id id, ProtobufCAllocator *allocator)
{
    struct explain_writer w = {.broker = broker, .allocator = allocator};
    struct job *job = jobs_find(&broker->jobs, id);
    const struct explained *e = job && job->state != JOB_DONE ? NULL : explained_find(&broker->explain, id);
    if (job && job->state != JOB_DONE)
        return explain_live(&w, job);
    return e ? explain_past(&w, e) : NULL;
}

/* ---- in a reply -------------------------------------------------------------------------------------------------------------------- */

uint8_t *explain_packed(struct broker *broker, const struct job *job, const struct dispatch *dispatch,
                        uint64_t compute_us, uint32_t field, size_t *ret_bytes)
{
    struct explained e;
    struct explained_step steps[ENSEMBLE_PLAN_STEPS_MAX];
    struct meta_arena arena;
    uint8_t *packed = NULL;
    meta_arena_init(&arena, 256u * 1024u);
    struct explain_writer w = {.broker = broker, .allocator = &arena.allocator};
    explained_describe(broker, job, dispatch, compute_us, &e);
    e.status = PEN_OK;
    e.followed = job->state == JOB_FOLLOWING;
    if (job->state == JOB_STEPS) {
        e.steps = steps;
        e.steps_count = job_course(broker, job)->explain(broker, job, steps);
    }
    const Penstock__Explanation *said = fill(&w, &e, "done", "");
    size_t bytes = said ? penstock__explanation__get_packed_size(said) : 0;
    if (said && (packed = malloc(WIRE_KEY_BYTES + WIRE_VARINT_BYTES + bytes))) {
        size_t used = wire_put_key(packed, field, WIRE_BYTES);
        used += wire_put_varint(packed + used, bytes);
        *ret_bytes = used + penstock__explanation__pack(said, packed + used);
    }
    meta_arena_fini(&arena);
    return packed;
}
