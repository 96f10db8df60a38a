#include "sequence.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "dispatch.h"
#include "logline.h"

#define REASON_BYTES  192u
#define ENDED_KEEP_US 600000000u /* how long its client is told why */

struct sequence {
    struct table_node by_key;
    TAILQ_ENTRY(sequence) in_all;
    struct session *session; /* ends them before it goes */
    uint32_t tenant;
    uint64_t client, id;
    char *model;
    uint64_t version;
    uint64_t worker; /* uuid; 0 = no job of it was given to one */
    struct job *current;
    struct job_list waiting;
    uint64_t last_job; /* sequence number of the newest job */
    uint64_t idle_us, due_us;
    uint32_t due_place;
    bool ended;
    enum pen_status status; /* ended: what its jobs are told */
    char reason[REASON_BYTES];
};
TAILQ_HEAD(sequence_list, sequence);

struct sequences {
    struct table by_key;
    struct sequence_list all, ended; /* open ones; those that are told why, oldest first */
    struct heap due;                 /* those that nobody works on */
    uint64_t count, open;
    uint32_t by_tenant[TENANTS_MAX]; /* open */
};

static bool due_before(const void *a, const void *b)
{
    return ((const struct sequence *)a)->due_us < ((const struct sequence *)b)->due_us;
}

struct sequences *sequences_new(void)
{
    struct sequences *sequences = calloc(1, sizeof *sequences);
    if (!sequences || table_init(&sequences->by_key) != PEN_OK) {
        free(sequences);
        return NULL;
    }
    TAILQ_INIT(&sequences->all);
    TAILQ_INIT(&sequences->ended);
    heap_init(&sequences->due, due_before, offsetof(struct sequence, due_place));
    return sequences;
}

static void close_count(struct sequences *sequences, const struct sequence *sequence)
{
    sequences->open--;
    sequence->session->sequences--;
    sequences->by_tenant[sequence->tenant]--;
}

static void forget(struct sequences *sequences, struct sequence *sequence)
{
    heap_remove(&sequences->due, sequence);
    table_remove(&sequences->by_key, &sequence->by_key);
    if (!sequence->ended)
        close_count(sequences, sequence);
    TAILQ_REMOVE(sequence->ended ? &sequences->ended : &sequences->all, sequence, in_all);
    sequences->count--;
    free(sequence->model);
    free(sequence);
}

static void list_free(struct sequence_list *list)
{
    struct sequence *s;
    while ((s = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, s, in_all);
        free(s->model);
        free(s);
    }
}

void sequences_free(struct sequences *sequences)
{
    if (!sequences)
        return;
    list_free(&sequences->all); /* their sessions have gone */
    list_free(&sequences->ended);
    heap_fini(&sequences->due);
    table_fini(&sequences->by_key);
    free(sequences);
}

uint64_t sequences_open(const struct broker *broker)
{
    return broker->sequences->open;
}

uint64_t sequence_id_of(const struct envelope *env, const Penstock__JobMeta *meta)
{
    return env->sequence_id ? env->sequence_id : *meta->sequence ? frame_name_hash(meta->sequence) : 0;
}

static struct sequence *find(const struct sequences *sequences, uint64_t client, uint64_t id, const char *model)
{
    struct table_node *node = table_first(&sequences->by_key, table_hash(&sequences->by_key, client, id));
    for (; node; node = table_next(&sequences->by_key, node)) {
        struct sequence *s = table_entry(node, struct sequence, by_key);
        if (s->client == client && s->id == id && strcmp(s->model, model) == 0)
            return s;
    }
    return NULL;
}

struct sequence *sequence_of(const struct broker *broker, const struct job *job)
{
    struct envelope env;
    const uint8_t *meta;
    zmq_msg_t *header = &job->request->frames[0];
    if (job->lane->model->sequence_idle_us == 0 ||
        envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) != PEN_OK)
        return NULL;
    return find(broker->sequences, job->id.client, env.sequence_id, job->lane->model->name);
}

/* ---- the end ----------------------------------------------------------------------------------------------------------------------- */

static void due_set(struct broker *broker, struct sequence *sequence, uint64_t us)
{
    heap_remove(&broker->sequences->due, sequence);
    sequence->due_us = broker->now_us + us;
    heap_push(&broker->sequences->due, sequence); /* without memory it stays until its session ends */
}

/* A CANCEL with the id of a sequence drops what the worker keeps of it. */
static void tell_worker(struct broker *broker, const struct sequence *sequence)
{
    struct worker *worker = sequence->worker ? fleet_by_uuid(&broker->fleet, sequence->worker) : NULL;
    struct envelope env = envelope_make(FRAME_CANCEL);
    env.job = (struct job_id){.client = sequence->client, .sequence = sequence->last_job ? sequence->last_job : 1};
    env.sequence_id = sequence->id;
    if (worker)
        broker_send_worker(broker, worker, &env, NULL, 0);
}

/* Jobs that wait are told; one that runs is left to end by itself. */
static void end(struct broker *broker, struct sequence *sequence, enum pen_status status, const char *why)
{
    char text[REASON_BYTES + 64];
    struct job *job;
    if (sequence->ended)
        return;
    sequence->ended = true;
    sequence->status = status;
    close_count(broker->sequences, sequence);
    TAILQ_REMOVE(&broker->sequences->all, sequence, in_all);
    TAILQ_INSERT_TAIL(&broker->sequences->ended, sequence, in_all);
    snprintf(sequence->reason, sizeof sequence->reason, "sequence %" PRIu64 " has ended: %.140s", sequence->id, why);
    log_event(LOG_INFO, "sequence_ended", "client=%016" PRIx64 " sequence=%" PRIu64 " model=%s status=%s reason=%s",
              sequence->client, sequence->id, sequence->model, pen_status_name(status), why);
    tell_worker(broker, sequence);
    struct job *current = sequence->current;
    sequence->current = NULL;
    due_set(broker, sequence, ENDED_KEEP_US);
    snprintf(text, sizeof text, "%s; begin it again", sequence->reason);
    while ((job = TAILQ_FIRST(&sequence->waiting)) != NULL)
        answer_error(broker, job, status, text);
    if (current && current->state == JOB_QUEUED)
        answer_error(broker, current, status, text);
}

/* ---- the beginning ----------------------------------------------------------------------------------------------------------------- */

void sequence_bind_version(const struct broker *broker, const struct session *session, const struct envelope *env,
                           Penstock__JobMeta *meta)
{
    uint64_t id = sequence_id_of(env, meta);
    const struct sequence *s = id && !(env->flags & FRAME_FLAG_SEQUENCE_START)
                                   ? find(broker->sequences, session->uuid, id, meta->model)
                                   : NULL;
    if (!s || s->ended)
        return;
    meta->version = s->version;
    meta->version_label = (char *)(uintptr_t) ""; /* it said which one when the sequence began */
}

static enum pen_status check_room(struct sequences *sequences, const struct session *session, struct pen_error *reterr)
{
    uint32_t tenant = session->tenant->number;
    if (session->sequences >= SEQUENCES_PER_SESSION)
        return pen_error_set(reterr, PEN_ERR_BUSY, "this client has %u sequences open, the limit; end some",
                             SEQUENCES_PER_SESSION);
    if (tenant != 0 && sequences->by_tenant[tenant] >= SEQUENCES_PER_TENANT)
        return pen_error_set(reterr, PEN_ERR_BUSY, "tenant '%s' has %u sequences open, the limit; end some",
                             session->tenant->name, SEQUENCES_PER_TENANT);
    if (sequences->open >= SEQUENCES_MAX)
        return pen_error_set(reterr, PEN_ERR_BUSY, "%u sequences are open, the broker's limit; try again later",
                             SEQUENCES_MAX);
    if (sequences->count >= SEQUENCES_MAX)
        forget(sequences, TAILQ_FIRST(&sequences->ended));
    return PEN_OK;
}

static enum pen_status begin(struct broker *broker, struct session *session, uint64_t id, const struct model *model,
                             uint64_t job, struct pen_error *reterr)
{
    struct sequences *sequences = broker->sequences;
    enum pen_status status = check_room(sequences, session, reterr);
    if (status != PEN_OK)
        return status;
    struct sequence *s = calloc(1, sizeof *s);
    if (!s || !(s->model = strdup(model->name))) {
        free(s);
        return pen_error_set(reterr, PEN_ERR_BUSY, "the broker has no memory for another sequence; try again later");
    }
    s->session = session;
    s->tenant = session->tenant->number;
    s->client = session->uuid;
    s->id = id;
    s->version = model->version;
    s->idle_us = model->sequence_idle_us;
    s->last_job = job;
    TAILQ_INIT(&s->waiting);
    table_insert(&sequences->by_key, &s->by_key, table_hash(&sequences->by_key, s->client, s->id));
    TAILQ_INSERT_TAIL(&sequences->all, s, in_all);
    sequences->count++;
    sequences->open++;
    session->sequences++;
    sequences->by_tenant[s->tenant]++;
    due_set(broker, s, s->idle_us);
    return PEN_OK;
}

static enum pen_status check_place(const struct model *model, uint64_t id, const struct envelope *env,
                                   struct pen_error *reterr)
{
    if (model->sequence_idle_us == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "model '%s' keeps no state between jobs (sequence_batching), so its jobs name no sequence",
                             model->name);
    if (id == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "model '%s' keeps state between jobs: name a sequence (sequence_id; penstock submit "
                             "--sequence), and begin it with its first job",
                             model->name);
    if (env->flags & FRAME_FLAG_DETACHED)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "a detached job belongs to no sequence");
    return PEN_OK;
}

/* Jobs come in the order of their numbers, so what is not the newest one now never came, or did not get this far. */
static enum pen_status check_predecessor(struct broker *broker, struct sequence *sequence, uint64_t job, uint64_t after,
                                         struct pen_error *reterr)
{
    char why[REASON_BYTES];
    if (after == 0 || after == sequence->last_job)
        return PEN_OK;
    snprintf(why, sizeof why, "job %" PRIu64 " follows job %" PRIu64 ", and the newest that ran here is job %" PRIu64,
             job, after, sequence->last_job);
    end(broker, sequence, PEN_ERR_CANCELLED, why);
    return pen_error_set(reterr, sequence->status, "%s; begin it again", sequence->reason);
}

enum pen_status sequence_admit(struct broker *broker, struct session *session, const struct envelope *env,
                               const Penstock__JobMeta *meta, const struct admission *admission,
                               struct pen_error *reterr)
{
    const struct model *model = admission->model;
    uint64_t id = sequence_id_of(env, meta), job = env->job.sequence;
    /* Before version 1.1 a sequence_id meant nothing: without the flags, which are younger, it still does for a model without state. */
    if (model->sequence_idle_us == 0 &&
        (id == 0 || !(env->flags & (FRAME_FLAG_SEQUENCE_START | FRAME_FLAG_SEQUENCE_END))))
        return PEN_OK;
    enum pen_status status = check_place(model, id, env, reterr);
    if (status == PEN_OK && session->depot)
        status = pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "a detached job belongs to no sequence");
    if (status != PEN_OK)
        return status;
    struct sequence *s = find(broker->sequences, session->uuid, id, model->name);
    if (s && job <= s->last_job)
        return pen_error_set(reterr, PEN_ERR_INVALID, "a later job of sequence %" PRIu64 " came before this one", id);
    if (env->flags & FRAME_FLAG_SEQUENCE_START) {
        if (s) {
            end(broker, s, PEN_ERR_CANCELLED, "it was begun anew");
            forget(broker->sequences, s);
        }
        return begin(broker, session, id, model, job, reterr);
    }
    if (!s)
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "sequence %" PRIu64 " is not open here: begin it with the start flag (after a restart of "
                             "the broker, too)",
                             id);
    if (s->ended)
        return pen_error_set(reterr, s->status, "%s; begin it again", s->reason);
    if (s->version != model->version)
        return pen_error_set(reterr, PEN_ERR_INVALID, "sequence %" PRIu64 " runs on version %" PRIu64, id, s->version);
    status = check_predecessor(broker, s, job, meta->sequence_after, reterr);
    if (status == PEN_OK)
        s->last_job = job;
    return status;
}

void sequence_refused(struct broker *broker, struct session *session, const struct envelope *env,
                      const Penstock__JobMeta *meta, const char *text)
{
    char why[REASON_BYTES];
    uint64_t id = sequence_id_of(env, meta);
    struct sequence *s = id ? find(broker->sequences, session->uuid, id, meta->model) : NULL;
    snprintf(why, sizeof why, "a job of it was refused: %.100s", text);
    if (s)
        end(broker, s, PEN_ERR_CANCELLED, why);
}

/* ---- on its way -------------------------------------------------------------------------------------------------------------------- */

/* To the worker that keeps the state: a lane of its own. */
static bool pin(struct job *job, uint64_t worker)
{
    struct lane *old = job->lane;
    struct demand demand = old->demand;
    if (demand.worker == worker)
        return true;
    demand.worker = worker;
    struct lane *lane = queue_lane(old->queue, old->model, &demand, old->shape);
    if (!lane)
        return false;
    job->lane = lane;
    lane_release(old);
    return true;
}

static void go(struct broker *broker, struct sequence *sequence, struct job *job)
{
    sequence->current = job;
    job->state = JOB_QUEUED;
    heap_remove(&broker->sequences->due, sequence);
    if (sequence->worker && !pin(job, sequence->worker)) {
        answer_error(broker, job, PEN_ERR_NO_MEMORY, "the broker has no memory to queue the job");
        return;
    }
    dispatch_queue(broker, job);
}

void sequence_place(struct broker *broker, struct job *job)
{
    struct sequence *sequence = sequence_of(broker, job);
    if (!sequence || sequence->ended) {
        job->state = JOB_QUEUED; /* in no lane yet */
        answer_error(broker, job, PEN_ERR_CANCELLED, "its sequence has ended");
        return;
    }
    if (!sequence->current && TAILQ_EMPTY(&sequence->waiting)) {
        go(broker, sequence, job);
        return;
    }
    job->state = JOB_HELD;
    TAILQ_INSERT_TAIL(&sequence->waiting, job, in_group);
}

void sequence_unhold(struct broker *broker, struct job *job)
{
    struct sequence *sequence = sequence_of(broker, job);
    if (sequence)
        TAILQ_REMOVE(&sequence->waiting, job, in_group);
}

void sequence_dispatched(struct broker *broker, struct job *job, const struct worker *worker)
{
    struct sequence *sequence = sequence_of(broker, job);
    if (sequence && sequence->current == job)
        sequence->worker = worker->uuid;
}

static bool has_flag(const struct job *job, enum frame_flag flag)
{
    struct envelope env;
    const uint8_t *meta;
    zmq_msg_t *header = &job->request->frames[0];
    return envelope_decode(zmq_msg_data(header), zmq_msg_size(header), &env, &meta, NULL) == PEN_OK && env.flags & flag;
}

static bool is_first(const struct job *job)
{
    return has_flag(job, FRAME_FLAG_SEQUENCE_START);
}

bool sequence_is_current(const struct sequence *sequence, const struct job *job, bool *ret_last)
{
    *ret_last = has_flag(job, FRAME_FLAG_SEQUENCE_END);
    return sequence->current == job;
}

/* The first job makes its state itself, so another worker may run it; all others need what is gone. */
bool sequence_requeue(struct broker *broker, struct job *job, bool suspect)
{
    struct sequence *sequence = sequence_of(broker, job);
    if (sequence && sequence->current == job && !sequence->ended && is_first(job)) {
        sequence->worker = 0;
        return false;
    }
    answer_error(broker, job, suspect ? PEN_ERR_WORKER_LOST : PEN_ERR_UNAVAILABLE,
                 suspect ? "the worker that kept the state of the sequence was lost; begin the sequence again"
                         : "the worker does not keep the state of the sequence any more; begin the sequence again");
    return true;
}

void sequence_ended(struct broker *broker, struct sequence *sequence, bool current, bool last, enum pen_status status)
{
    char why[96];
    if (current)
        sequence->current = NULL;
    if (sequence->ended)
        return;
    if (status != PEN_OK) {
        snprintf(why, sizeof why, "a job of it ended with %s", pen_status_name(status));
        end(broker, sequence,
            status == PEN_ERR_WORKER_LOST || status == PEN_ERR_UNAVAILABLE ? status : PEN_ERR_CANCELLED, why);
        return;
    }
    if (!current)
        return;
    const struct worker *worker = fleet_by_uuid(&broker->fleet, sequence->worker);
    if (!last && sequence->worker && (!worker || worker->state != WORKER_READY)) { /* it went while the first job ran */
        end(broker, sequence, PEN_ERR_UNAVAILABLE, "the worker that keeps its state gets no more work");
        return;
    }
    struct job *next = TAILQ_FIRST(&sequence->waiting);
    if (last) {
        end(broker, sequence, PEN_ERR_NOT_FOUND, "its last job was done");
        forget(broker->sequences, sequence);
    } else if (next) {
        TAILQ_REMOVE(&sequence->waiting, next, in_group);
        go(broker, sequence, next);
    } else {
        due_set(broker, sequence, sequence->idle_us);
    }
}

/* ---- from outside ------------------------------------------------------------------------------------------------------------------ */

void sequences_worker_gone(struct broker *broker, const struct worker *worker, enum pen_status status, const char *why)
{
    struct sequence *s, *next;
    char text[REASON_BYTES];
    snprintf(text, sizeof text, "worker %.80s, which kept its state, %s", worker->hello->name, why);
    for (s = TAILQ_FIRST(&broker->sequences->all); s; s = next) {
        next = TAILQ_NEXT(s, in_all);
        /* The first job of one may run again: nothing is lost with its worker. */
        if (s->worker == worker->uuid && !(s->current && s->current->state == JOB_DISPATCHED && is_first(s->current)))
            end(broker, s, status, text);
    }
}

static bool offers(const struct worker *worker, const struct sequence *s)
{
    bool there = false;
    for (size_t i = 0; i < worker->offers_count; i++)
        there |= worker->offers[i]->model->sequence_idle_us && worker->offers[i]->model->version == s->version &&
                 strcmp(worker->offers[i]->model->name, s->model) == 0;
    return there;
}

void sequences_worker_updated(struct broker *broker, const struct worker *worker)
{
    struct sequence *s, *next;
    char text[REASON_BYTES];
    snprintf(text, sizeof text, "worker %.80s, which kept its state, does not serve the model any more",
             worker->hello->name);
    for (s = TAILQ_FIRST(&broker->sequences->all); s; s = next) {
        next = TAILQ_NEXT(s, in_all);
        if (s->worker == worker->uuid && !offers(worker, s))
            end(broker, s, PEN_ERR_UNAVAILABLE, text);
    }
}

static void forget_all(struct broker *broker, struct sequence_list *list, const struct session *session)
{
    struct sequence *s, *next;
    for (s = TAILQ_FIRST(list); s; s = next) {
        next = TAILQ_NEXT(s, in_all);
        if (s->session != session)
            continue;
        end(broker, s, PEN_ERR_CANCELLED, "its client is gone");
        forget(broker->sequences, s);
    }
}

void sequences_session_gone(struct broker *broker, const struct session *session)
{
    if (session->sequences > 0)
        forget_all(broker, &broker->sequences->all, session);
    forget_all(broker, &broker->sequences->ended, session);
}

void sequences_tick(struct broker *broker)
{
    struct sequence *s;
    char why[96];
    while ((s = heap_top(&broker->sequences->due)) && s->due_us <= broker->now_us) {
        if (s->ended) {
            forget(broker->sequences, s);
            continue;
        }
        snprintf(why, sizeof why, "no job of it came for %" PRIu64 " us (max_sequence_idle_microseconds)", s->idle_us);
        end(broker, s, PEN_ERR_TIMEOUT, why);
    }
}

uint64_t sequences_next_us(const struct broker *broker)
{
    const struct sequence *s = heap_top(&broker->sequences->due);
    return s ? s->due_us : UINT64_MAX;
}
