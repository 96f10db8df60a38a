#include "sequence.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "assertion.h"
#include "dispatch.h"
#include "logline.h"
#include "sequence_internal.h"
#include "send.h"
#include "states.h"

#define ENDED_KEEP_US 600000000u /* how long clients are told why a sequence ended */

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
    PEN_ASSERT(sequences->open > 0 && sequence->session->sequences > 0 && sequences->by_tenant[sequence->tenant] > 0,
               "a sequence that ends was counted as open: of all, of its session, of its tenant");
    sequences->open--;
    sequence->session->sequences--;
    sequences->by_tenant[sequence->tenant]--;
}

void sequence_forget(struct sequences *sequences, struct sequence *sequence)
{
    PEN_ASSERT(TAILQ_EMPTY(&sequence->waiting), "no job of a sequence that is forgotten is left");
    heap_remove(&sequences->due, sequence);
    effect_drop(&sequence->moves);
    table_remove(&sequences->by_key, &sequence->by_key);
    if (!sequence->ended)
        close_count(sequences, sequence);
    TAILQ_REMOVE(sequence->ended ? &sequences->ended : &sequences->all, sequence, in_all);
    sequences->count--;
    PEN_ASSERT(sequences->open <= sequences->count, "the open sequences are some of all");
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
    list_free(&sequences->all); /* their sessions are gone */
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

struct sequence *sequence_find(const struct sequences *sequences, uint64_t client, uint64_t id, const char *model)
{
    struct table_node *node = table_first(&sequences->by_key, table_hash(&sequences->by_key, client, id));
    for (; node; node = table_next(&sequences->by_key, node)) {
        struct sequence *s = table_entry(node, struct sequence, by_key);
        if (s->client == client && s->id == id && strcmp(s->model, model) == 0)
            return s;
    }
    return NULL;
}

static struct sequence *sequence_of(const struct broker *broker, const struct job *job)
{
    struct envelope env;
    const uint8_t *meta;
    if (job->lane->model->sequence_idle_us == 0 || !shared_message_open(job->request, &env, &meta))
        return NULL;
    return sequence_find(broker->sequences, job->id.client, env.sequence_id, job->lane->model->name);
}

/* ---- the end ----------------------------------------------------------------------------------------------------------------------- */

void sequence_due_set(struct broker *broker, struct sequence *sequence, uint64_t us)
{
    heap_remove(&broker->sequences->due, sequence);
    sequence->due_us = broker->now_us + us;
    heap_push(&broker->sequences->due, sequence); /* without memory it stays until its session ends */
}

/* A CANCEL with the id of a sequence makes the worker drop its state. */
static void tell_worker(struct broker *broker, const struct sequence *sequence)
{
    struct worker *worker = sequence->worker ? fleet_by_uuid(&broker->fleet, sequence->worker) : NULL;
    struct envelope env = envelope_make(FRAME_CANCEL);
    env.job = (struct job_id){.client = sequence->client, .sequence = sequence->last_job ? sequence->last_job : 1};
    env.sequence_id = sequence->id;
    if (worker)
        broker_send_worker(broker, worker, &env, NULL, 0);
}

/* Waiting jobs are answered; a running one ends by itself. */
void sequence_close(struct broker *broker, struct sequence *sequence, enum pen_status status, const char *why)
{
    char text[SEQUENCE_REASON_BYTES + 64];
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
    sequence_due_set(broker, sequence, ENDED_KEEP_US);
    snprintf(text, sizeof text, "%s; begin it again", sequence->reason);
    while ((job = TAILQ_FIRST(&sequence->waiting)) != NULL)
        answer_error(broker, job, status, text);
    if (current && current->state == JOB_QUEUED)
        answer_error(broker, current, status, text);
}

/* ---- on its way -------------------------------------------------------------------------------------------------------------------- */

/* Moves the job to a lane for the worker that keeps the state. */
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
    PEN_ASSERT(!sequence->current && !sequence->ended, "one job of a sequence is under way at a time");
    sequence->current = job;
    states_set(job, JOB_QUEUED);
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
        states_set(job, JOB_QUEUED); /* in no lane yet */
        answer_error(broker, job, PEN_ERR_CANCELLED, "its sequence has ended");
        return;
    }
    if (!sequence->current && TAILQ_EMPTY(&sequence->waiting) && !effect_posted(&sequence->moves)) {
        go(broker, sequence, job);
        return;
    }
    PEN_ASSERT(!job->flight, "a job of a sequence shares its answer with nobody");
    states_set(job, JOB_HELD);
    TAILQ_INSERT_TAIL(&sequence->waiting, job, in_group);
}

static void unhold(struct broker *broker, struct job *job, struct job *next)
{
    (void)next;
    struct sequence *sequence = sequence_of(broker, job);
    if (sequence)
        TAILQ_REMOVE(&sequence->waiting, job, in_group);
}

static void dispatched(struct broker *broker, struct job *job, const struct worker *worker)
{
    struct sequence *sequence = sequence_of(broker, job);
    if (sequence && sequence->current == job)
        sequence->worker = worker->uuid;
}

static bool has_flag(const struct job *job, enum frame_flag flag)
{
    struct envelope env;
    const uint8_t *meta;
    return shared_message_open(job->request, &env, &meta) && env.flags & flag;
}

static bool is_first(const struct job *job)
{
    return has_flag(job, FRAME_FLAG_SEQUENCE_START);
}

/* The first job makes the state itself, so another worker may run it. All other jobs need the state that is gone. */
static bool requeue(struct broker *broker, struct job *job, enum blame blame)
{
    bool suspect = blame == BLAME_SUSPECT;
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

/* The sequence goes on by an effect, after the code that ends the job has returned. */
static void ending(struct broker *broker, struct job *job, enum pen_status status)
{
    struct sequence *sequence = sequence_of(broker, job);
    bool current = sequence && sequence->current == job;
    if (current)
        sequence->current = NULL;
    if (!sequence || sequence->ended || (status == PEN_OK && !current))
        return;
    if (status != PEN_OK && sequence->failed == PEN_OK)
        sequence->failed = status;
    sequence->advanced |= current;
    sequence->last_done |= current && has_flag(job, FRAME_FLAG_SEQUENCE_END);
    effect_post(&broker->effects, &sequence->moves, EFFECT_SEQUENCE_MOVES);
}

const struct job_course sequence_course = {
    .name = "sequence",
    .leave = unhold,
    .dispatched = dispatched,
    .requeue = requeue,
    .ending = ending,
};

/* Starts the next job that waits, or begins to wait for one. */
static void go_on(struct broker *broker, struct sequence *sequence)
{
    struct job *next = TAILQ_FIRST(&sequence->waiting);
    if (!next) {
        sequence_due_set(broker, sequence, sequence->idle_us);
        return;
    }
    TAILQ_REMOVE(&sequence->waiting, next, in_group);
    go(broker, sequence, next);
}

static void sequence_move(struct broker *broker, struct sequence *sequence)
{
    enum pen_status failed = sequence->failed;
    bool advanced = sequence->advanced, last = sequence->last_done;
    char why[96];
    sequence->failed = PEN_OK;
    sequence->advanced = sequence->last_done = false;
    if (sequence->ended)
        return;
    if (failed != PEN_OK) {
        snprintf(why, sizeof why, "a job of it ended with %s", pen_status_name(failed));
        sequence_close(broker, sequence,
                       failed == PEN_ERR_WORKER_LOST || failed == PEN_ERR_UNAVAILABLE ? failed : PEN_ERR_CANCELLED,
                       why);
        return;
    }
    const struct worker *worker = fleet_by_uuid(&broker->fleet, sequence->worker);
    if (advanced && last) {
        sequence_close(broker, sequence, PEN_ERR_NOT_FOUND, "its last job was done");
        sequence_forget(broker->sequences, sequence);
    } else if (advanced && sequence->worker && (!worker || worker->state != WORKER_READY)) {
        /* the worker left while the first job ran */
        sequence_close(broker, sequence, PEN_ERR_UNAVAILABLE, "the worker that keeps its state gets no more work");
    } else if (!sequence->current) {
        go_on(broker, sequence);
    }
}

bool sequence_moves(struct broker *broker, struct effect *effect)
{
    sequence_move(broker, effect_of(effect, struct sequence, moves));
    return false; /* it may have gone */
}

/* ---- from outside ------------------------------------------------------------------------------------------------------------------ */

/* Ending one sequence ends no other, because what follows for its jobs is an effect. */
static void close_of_worker(struct broker *broker, const struct worker *worker, enum pen_status status, const char *why)
{
    struct sequence *s, *next;
    char text[SEQUENCE_REASON_BYTES];
    snprintf(text, sizeof text, "worker %.80s, which kept its state, %s", worker->hello->name, why);
    for (s = TAILQ_FIRST(&broker->sequences->all); s; s = next) {
        next = TAILQ_NEXT(s, in_all);
        /* When its first job runs still, that may run again: nothing is lost with the worker. */
        if (s->worker == worker->uuid && !(s->current && s->current->state == JOB_DISPATCHED && is_first(s->current)))
            sequence_close(broker, s, status, text);
    }
}

bool sequence_worker_drains(struct broker *broker, struct effect *effect)
{
    close_of_worker(broker, effect_of(effect, struct worker, drains), PEN_ERR_UNAVAILABLE, "is draining");
    return true;
}

bool sequence_worker_left(struct broker *broker, struct effect *effect)
{
    const struct worker *worker = effect_of(effect, struct worker, left);
    close_of_worker(broker, worker, worker->lost ? PEN_ERR_WORKER_LOST : PEN_ERR_UNAVAILABLE,
                    worker->lost ? "was lost" : "has gone");
    return true;
}

/* CANCELLED usually comes for a run that had not begun; a result of a run from before the sequence was begun anew
   does not concern it. */
void sequence_run_failed(struct broker *broker, const struct worker *worker, const struct envelope *env)
{
    struct sequence *s;
    if (env->sequence_id == 0 || env->status == PEN_OK || env->status == PEN_ERR_CANCELLED)
        return;
    TAILQ_FOREACH(s, &broker->sequences->all, in_all)
    {
        if (s->client == env->job.client && s->id == env->sequence_id && s->worker == worker->uuid &&
            s->first_job <= env->job.sequence && frame_name_hash(s->model) == env->model_hash)
            break;
    }
    if (s)
        sequence_close(broker, s, PEN_ERR_UNAVAILABLE, "an earlier run of a job of it failed, and its state with it");
}

static bool offers(const struct worker *worker, const struct sequence *s)
{
    bool there = false;
    for (size_t i = 0; i < worker->offers_count; i++)
        there |= worker->offers[i]->model->sequence_idle_us && worker->offers[i]->model->version == s->version &&
                 strcmp(worker->offers[i]->model->name, s->model) == 0;
    return there;
}

bool sequence_worker_updated(struct broker *broker, struct effect *effect)
{
    const struct worker *worker = effect_of(effect, struct worker, updated);
    struct sequence *s, *next;
    char text[SEQUENCE_REASON_BYTES];
    snprintf(text, sizeof text, "worker %.80s, which kept its state, does not serve the model any more",
             worker->hello->name);
    for (s = TAILQ_FIRST(&broker->sequences->all); s; s = next) {
        next = TAILQ_NEXT(s, in_all);
        if (s->worker == worker->uuid && !offers(worker, s))
            sequence_close(broker, s, PEN_ERR_UNAVAILABLE, text);
    }
    return true;
}

static void forget_all(struct broker *broker, struct sequence_list *list, const struct session *session)
{
    struct sequence *s, *next;
    for (s = TAILQ_FIRST(list); s; s = next) {
        next = TAILQ_NEXT(s, in_all);
        if (s->session != session)
            continue;
        sequence_close(broker, s, PEN_ERR_CANCELLED, "its client is gone");
        sequence_forget(broker->sequences, s);
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
            sequence_forget(broker->sequences, s);
            continue;
        }
        snprintf(why, sizeof why, "no job of it came for %" PRIu64 " us (max_sequence_idle_microseconds)", s->idle_us);
        sequence_close(broker, s, PEN_ERR_TIMEOUT, why);
    }
}

uint64_t sequences_next_us(const struct broker *broker)
{
    const struct sequence *s = heap_top(&broker->sequences->due);
    return s ? s->due_us : UINT64_MAX;
}
