/* slot.c - open, compose, gather, run, split, answer. */
#include "slot_internal.h"

#include "deadline.h"
#include "logline.h"
#include "urgency.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_RUN_US    1000u                 /* beyond it a run makes way for threads that wake */
#define SHORT_RUN_BYTES (1024u * 1024u)       /* beyond it copying and hashing are long */
#define ARENA_BYTES     (16u * 1024u * 1024u) /* metas of one dispatch, unpacked */

/* ---- running a batch --------------------------------------------------------------------------------------------------------------- */

/* A batch may stop when none of its jobs can use the answer any more. */
static uint64_t batch_deadline(const struct batch *batch)
{
    uint64_t latest = 0;
    for (size_t i = 0; i < batch->count; i++)
        latest = batch->tasks[i]->job->deadline_us > latest ? batch->tasks[i]->job->deadline_us : latest;
    return latest;
}

static void running_set(struct slot *slot, const struct batch *batch, uint64_t now_us)
{
    pthread_mutex_lock(&slot->lock);
    slot->running = batch;
    slot->started_us = slot->step_us = now_us;
    slot->deadline_us = batch ? batch_deadline(batch) : DEADLINE_NONE;
    if (batch)
        pen_stop_arm(slot->stop, slot->deadline_us);
    pthread_mutex_unlock(&slot->lock);
}

/* A slot that waits should wake at once; one with long work ahead has no claim on others' time. */
static void urgent_set(struct slot *slot, bool urgent)
{
    uint64_t slice_us = urgent ? slot->context.wake_slice_us : 0;
    if (slice_us != slot->slice_us)
        urgency_ask(slice_us);
    slot->slice_us = slice_us;
}

static bool batch_wanted(const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (!atomic_load(&batch->tasks[i]->job->cancelled))
            return true;
    return false;
}

/* Answers what must not start any more and takes it out of the batch. */
void slot_batch_prune(struct slot *slot, struct batch *batch, uint64_t now_us)
{
    size_t kept = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct task *task = batch->tasks[i];
        if (atomic_load(&task->job->cancelled)) {
            slot_task_error(slot, task, PEN_ERR_CANCELLED, "the job was cancelled before it started");
        } else if (task->job->deadline_us <= now_us) {
            slot_task_error(slot, task, PEN_ERR_DEADLINE, "the deadline passed before the job started on the worker");
        } else {
            batch->tasks[kept++] = task;
            continue;
        }
        batch->rows -= task->rows;
    }
    batch->count = kept;
}

static struct seat *seat_of(const struct slot *slot, const struct batch *batch)
{
    return &batch->served->seats[slot->number];
}

/* Counts what had to be prepared while jobs waited; a warmed size among it means that the engine has dropped it. */
static void prepared_count(struct slot *slot, const struct batch *batch, uint64_t before, uint64_t shape)
{
    const struct served *served = batch->served;
    uint64_t prepared = pen_session_prepared(seat_of(slot, batch)->session) - before;
    if (prepared == 0)
        return;
    bool lost = snap_warmed(served->warm, served->warm_count, shape, batch->bound);
    atomic_fetch_add(&slot->context.stats->prepared, prepared);
    log_event(lost ? LOG_WARN : LOG_DEBUG, lost ? "warm_lost" : "shape_prepared",
              "model=%s version=%" PRIu64 " rows=%u slot=%u", served->name, served->version, batch->bound,
              slot->number);
}

static enum pen_status bound_run(struct slot *slot, const struct batch *batch, uint64_t shape,
                                 const struct pen_tensor **ret_outputs, size_t *ret_count, struct pen_error *reterr)
{
    struct pen_session *session = seat_of(slot, batch)->session;
    uint64_t before = pen_session_prepared(session);
    uint64_t start_us = clock_now_us();
    enum pen_status status = gather_inputs(session, batch, reterr);
    slot->gather_us += clock_now_us() - start_us;
    prepared_count(slot, batch, before, shape);
    return status == PEN_OK ? pen_session_run_bound(session, slot->stop, ret_outputs, ret_count, reterr) : status;
}

/* At a size that is ready, where there is one; a model whose outputs cannot be cut then runs at its own sizes from now on. */
static enum pen_status engine_run(struct slot *slot, struct batch *batch, const struct pen_tensor **ret_outputs,
                                  size_t *ret_count, struct pen_error *reterr)
{
    struct pen_tensor shapes[SERVED_TENSORS_MAX];
    const struct served *served = batch->served;
    struct seat *seat = seat_of(slot, batch);
    if (served->strings) /* the size of texts is known only when they are there: no buffer to bind */
        return pen_session_run(seat->session, batch->tasks[0]->inputs, served->inputs_count, slot->stop, ret_outputs,
                               ret_count, reterr);
    gather_shapes(batch, shapes);
    uint64_t shape = snap_shape(shapes, served->inputs_count, served->max_batch_size > 0);
    if (served->max_batch_size > 0)
        batch->bound = snap_rows(&seat->snap, served->warm, served->warm_count, shape, batch->rows);
    enum pen_status status = bound_run(slot, batch, shape, ret_outputs, ret_count, reterr);
    if (batch->bound == batch->rows)
        return status;
    if (status != PEN_OK || gather_can_split(batch, *ret_outputs, *ret_count)) {
        atomic_fetch_add(&slot->context.stats->rows_filled, batch->bound - batch->rows);
        return status;
    }
    snap_exact(&seat->snap);
    batch->bound = batch->rows;
    return bound_run(slot, batch, shape, ret_outputs, ret_count, reterr);
}

static void answer_failure(struct slot *slot, const struct batch *batch, enum pen_status status, const char *text)
{
    uint64_t now_us = clock_now_us();
    for (size_t i = 0; i < batch->count; i++) {
        const struct task *task = batch->tasks[i];
        if (atomic_load(&task->job->cancelled))
            slot_task_error(slot, task, PEN_ERR_CANCELLED, "the job was cancelled while it ran");
        else if (task->job->deadline_us <= now_us)
            slot_task_error(slot, task, PEN_ERR_DEADLINE, "the deadline passed while the job ran");
        else
            slot_task_error(slot, task, status, text);
    }
}

static void answer_batch(struct slot *slot, const struct batch *batch, const struct pen_tensor *outputs, size_t count,
                         struct timing timing)
{
    uint32_t row = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct task *task = batch->tasks[i];
        if (atomic_load(&task->job->cancelled))
            slot_task_error(slot, task, PEN_ERR_CANCELLED, "the job was cancelled while it ran");
        else if (task->whole)
            slot_chain_keep(slot, batch, i, row, outputs, count, timing);
        else
            slot_answer_result(slot, batch, i, row, outputs, count, timing);
        row += task->rows;
    }
}

static bool wants_layers(const struct batch *batch)
{
    bool wanted = false;
    for (size_t i = 0; i < batch->count; i++)
        wanted |= batch->tasks[i]->layers;
    return wanted;
}

/* Runs and answers the batch. False, nothing answered: its jobs should run one by one. */
static bool batch_try(struct slot *slot, struct batch *batch)
{
    const struct pen_tensor *outputs = NULL;
    size_t count = 0;
    struct pen_error error = {0};
    uint64_t start_us = clock_now_us();
    slot_batch_prune(slot, batch, start_us);
    if (batch->count == 0)
        return true;
    if (seat_of(slot, batch)->took_us > SHORT_RUN_US)
        urgent_set(slot, false);
    running_set(slot, batch, start_us);
    bool measured = wants_layers(batch);
    slot->gather_us = 0;
    if (measured)
        layers_begin(seat_of(slot, batch)->session);
    enum pen_status status =
        batch_wanted(batch) ? engine_run(slot, batch, &outputs, &count, &error) : PEN_ERR_CANCELLED;
    uint64_t end_us = clock_now_us();
    running_set(slot, NULL, end_us);
    seat_of(slot, batch)->took_us = end_us - start_us;
    if (measured)
        layers_end(seat_of(slot, batch)->session, &slot->arena, &slot->layers);
    atomic_fetch_add(&slot->context.stats->compute_us, end_us - start_us);
    atomic_fetch_add(&slot->context.stats->batches, 1);
    if (status == PEN_OK && gather_can_split(batch, outputs, count)) {
        answer_batch(slot, batch, outputs, count,
                     (struct timing){.wait_us = slot_worker_us(slot, start_us),
                                     .gather_us = slot->gather_us,
                                     .compute_us = end_us - start_us,
                                     .end_us = end_us});
        return true;
    }
    bool stopped = status == PEN_ERR_CANCELLED || status == PEN_ERR_DEADLINE;
    if (batch->count > 1 && !stopped)
        return false;
    answer_failure(slot, batch, status, error.text);
    return true;
}

void slot_batch_run(struct slot *slot, struct batch *batch)
{
    if (batch_try(slot, batch))
        return;
    log_event(LOG_WARN, "batch_split", "model=%s jobs=%zu", batch->served->name, batch->count);
    for (size_t i = 0; i < batch->count; i++) {
        struct batch alone = {
            .served = batch->served, .tasks = {batch->tasks[i]}, .count = 1, .rows = batch->tasks[i]->rows};
        batch_try(slot, &alone);
    }
}

/* ---- a dispatch -------------------------------------------------------------------------------------------------------------------- */

/* Opens what nobody has answered; refusals are answered at once. Returns the number of tasks. */
static size_t tasks_open(struct slot *slot, struct dispatch *dispatch)
{
    size_t count = 0;
    for (size_t i = 0; i < dispatch->jobs_count; i++) {
        struct job *job = &dispatch->jobs[i];
        struct pen_error error = {0};
        int expected = JOB_WAITING;
        if (!atomic_compare_exchange_strong(&job->state, &expected, JOB_RUNNING))
            continue; /* cancelled in the queue */
        enum pen_status status = task_open(slot->context.catalog, slot->context.states, &slot->arena, dispatch, job,
                                           &slot->tasks[count], &error);
        if (status == PEN_OK)
            count++;
        else
            slot_answer_error(slot, job, status, error.text);
    }
    return count;
}

static void reply_push(struct slot *slot, struct dispatch *finished)
{
    slot->reply->link = slot->dispatch->link;
    slot->reply->finished = finished;
    outbox_push(slot->context.outbox, slot->reply);
    slot->reply = NULL;
}

static void in_hand_set(struct slot *slot, const struct dispatch *dispatch)
{
    uint64_t now_us = clock_now_us();
    pthread_mutex_lock(&slot->lock);
    slot->in_hand = dispatch;
    slot->step_us = now_us;
    pthread_mutex_unlock(&slot->lock);
}

void slot_run(struct slot *slot, struct dispatch *dispatch)
{
    struct batch batch;
    size_t done = 0;
    in_hand_set(slot, dispatch);
    slot->dispatch = dispatch;
    slot->layers = (struct layers){.count = 0};
    meta_arena_reset(&slot->arena);
    slot_reply_open(slot, dispatch->jobs_count);
    size_t count = tasks_open(slot, dispatch);
    while (gather_compose(slot->tasks, count, &batch)) {
        if (done > 0) { /* what is ready does not wait for the rest */
            reply_push(slot, NULL);
            slot_reply_open(slot, count - done);
        }
        done += batch.count;
        if (batch.served->config.recipe)
            slot_chain_run(slot, &batch);
        else
            slot_batch_run(slot, &batch);
    }
    for (size_t i = 0; i < count; i++)
        task_close(&slot->tasks[i]);
    in_hand_set(slot, NULL);
    reply_push(slot, dispatch); /* the dispatch may be gone from here on */
}

static void *slot_main(void *argument)
{
    struct slot *slot = argument;
    struct dispatch *dispatch;
    char name[16];
    snprintf(name, sizeof name, "slot-%u", slot->number);
    pthread_setname_np(pthread_self(), name);
    urgent_set(slot, true);
    while ((dispatch = handoff_take(slot->context.handoff))) {
        if (dispatch->bytes > SHORT_RUN_BYTES)
            urgent_set(slot, false);
        slot_run(slot, dispatch);
        urgent_set(slot, true);
    }
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------------------------- */

enum pen_status slot_new(const struct slot_context *context, uint32_t number, struct slot **ret_slot,
                         struct pen_error *reterr)
{
    struct slot *slot = calloc(1, sizeof *slot);
    struct pen_stop *stop = slot ? pen_stop_new() : NULL;
    if (!stop) {
        free(slot);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for slot %u", number);
    }
    slot->context = *context;
    slot->number = number;
    slot->stop = stop;
    slot->deadline_us = DEADLINE_NONE;
    pthread_mutex_init(&slot->lock, NULL);
    meta_arena_init(&slot->arena, ARENA_BYTES);
    *ret_slot = slot;
    return PEN_OK;
}

enum pen_status slot_start(struct slot *slot, struct pen_error *reterr)
{
    sigset_t all, before;
    sigfillset(&all); /* signals go to the network thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&slot->thread, NULL, slot_main, slot);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "cannot start the thread of slot %u: %s", slot->number,
                             strerror(error));
    slot->started = true;
    return PEN_OK;
}

void slot_join(struct slot *slot)
{
    if (slot->started)
        pthread_join(slot->thread, NULL);
    slot->started = false;
}

void slot_free(struct slot *slot)
{
    if (!slot)
        return;
    pen_stop_free(slot->stop);
    meta_arena_fini(&slot->arena);
    pthread_mutex_destroy(&slot->lock);
    reply_free(slot->reply);
    free(slot);
}

void slot_cancel(struct slot *slot, struct job *job)
{
    atomic_store(&job->cancelled, true);
    pthread_mutex_lock(&slot->lock);
    if (slot->running && !batch_wanted(slot->running))
        pen_stop_now(slot->stop);
    pthread_mutex_unlock(&slot->lock);
}

void slot_running(struct slot *slot, struct slot_running *ret_running)
{
    *ret_running = (struct slot_running){0};
    pthread_mutex_lock(&slot->lock);
    if (slot->running) {
        ret_running->busy = true;
        ret_running->started_us = slot->started_us;
        ret_running->deadline_us = slot->deadline_us;
        ret_running->job = slot->running->tasks[0]->job->env.job;
        snprintf(ret_running->model, sizeof ret_running->model, "%.63s", slot->running->served->name);
    } else if (slot->in_hand) {
        ret_running->outside_us = slot->step_us;
        ret_running->job = slot->in_hand->jobs[0].env.job;
    }
    pthread_mutex_unlock(&slot->lock);
}
