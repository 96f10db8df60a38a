/* slot.c - open, compose, gather, run, split, answer. A device has the next dispatch while it computes one: slot_flight.c. */
#include "slot_internal.h"

#include "assertion.h"
#include "deadline.h"
#include "logline.h"
#include "signals.h"
#include "urgency.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOSSES_MOST     3u                    /* a batch runs again so often after its device was lost */
#define SHORT_RUN_US    1000u                 /* in a longer run the slot yields to threads that wake */
#define SHORT_RUN_BYTES (1024u * 1024u)       /* for more bytes, copying and hashing take long */
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

void slot_running_set(struct slot *slot, struct work *work, const struct batch *batch, uint64_t now_us)
{
    pthread_mutex_lock(&slot->lock);
    PEN_ASSERT(!batch || !work->running || work->running == batch, "one batch of a work runs at a time");
    work->running = batch;
    work->started_us = slot->step_us = now_us;
    work->deadline_us = batch ? batch_deadline(batch) : DEADLINE_NONE;
    if (batch)
        pen_stop_arm(work->stop, work->deadline_us);
    pthread_mutex_unlock(&slot->lock);
}

/* A slot that waits should wake at once; one with long work ahead must not take time from other threads. */
static void urgent_set(struct slot *slot, bool urgent)
{
    uint64_t slice_us = urgent ? slot->context.wake_slice_us : 0;
    if (slice_us != slot->slice_us)
        urgency_ask(slice_us);
    slot->slice_us = slice_us;
}

bool slot_batch_wanted(const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (!atomic_load(&batch->tasks[i]->job->cancelled))
            return true;
    return false;
}

/* Answers jobs that must not start any more and takes them out of the batch. */
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

struct seat *slot_seat(const struct slot *slot, const struct batch *batch)
{
    return &batch->served->seats[slot->number];
}

/* Counts shapes that were prepared while jobs waited. When a warmed-up size is among them, the engine has dropped
   it. */
void slot_prepared_count(struct slot *slot, const struct batch *batch, uint64_t before, uint64_t shape)
{
    const struct served *served = batch->served;
    uint64_t prepared = pen_session_prepared(slot_seat(slot, batch)->session) - before;
    if (prepared == 0)
        return;
    bool lost = !served->woken && batch_shape_warmed(served->warm, served->warm_count, shape, batch->bound);
    atomic_fetch_add(&slot->context.stats->prepared, prepared);
    log_event(lost ? LOG_WARN : LOG_DEBUG, lost ? "warm_lost" : "shape_prepared",
              "model=%s version=%" PRIu64 " rows=%u slot=%u", served->name, served->version, batch->bound,
              slot->number);
}

static enum pen_status bound_run(struct slot *slot, const struct batch *batch, uint64_t shape,
                                 const struct pen_tensor **ret_outputs, size_t *ret_count, struct pen_error *reterr)
{
    struct pen_session *session = slot_seat(slot, batch)->session;
    uint64_t before = pen_session_prepared(session);
    uint64_t start_us = clock_now_us();
    enum pen_status status = gather_inputs(session, batch, reterr);
    slot->work->gather_us += clock_now_us() - start_us;
    slot_prepared_count(slot, batch, before, shape);
    return status == PEN_OK ? pen_session_run_bound(session, slot->work->stop, ret_outputs, ret_count, reterr) : status;
}

/* Runs at a size that is ready, if there is one. A model whose outputs cannot be split then runs at exact sizes from
   now on. */
static enum pen_status engine_run(struct slot *slot, struct batch *batch, const struct pen_tensor **ret_outputs,
                                  size_t *ret_count, struct pen_error *reterr)
{
    struct pen_tensor shapes[SERVED_TENSORS_MAX];
    const struct served *served = batch->served;
    struct seat *seat = slot_seat(slot, batch);
    if (served->strings) /* STRING inputs: their size is known only when they have come, so no buffer is bound */
        return pen_session_run(seat->session, batch->tasks[0]->inputs, served->inputs_count, slot->work->stop,
                               ret_outputs, ret_count, reterr);
    gather_shapes(batch, shapes);
    uint64_t shape = batch_shape_of(shapes, served->inputs_count, served->max_batch_size > 0);
    if (served->max_batch_size > 0)
        batch->bound = batch_shape_rows(&seat->batch_shape, served->warm, served->warm_count, shape, batch->rows);
    enum pen_status status = bound_run(slot, batch, shape, ret_outputs, ret_count, reterr);
    if (batch->bound == batch->rows)
        return status;
    if (status != PEN_OK || gather_can_split(batch, *ret_outputs, *ret_count)) {
        atomic_fetch_add(&slot->context.stats->rows_filled, batch->bound - batch->rows);
        return status;
    }
    batch_shape_exact(&seat->batch_shape);
    batch->bound = batch->rows;
    return bound_run(slot, batch, shape, ret_outputs, ret_count, reterr);
}

/* A lost device is opened again by the run that comes next: it may be this batch's own. */
static enum pen_status engine_run_again(struct slot *slot, struct batch *batch, const struct pen_tensor **ret_outputs,
                                        size_t *ret_count, struct pen_error *reterr)
{
    enum pen_status status = engine_run(slot, batch, ret_outputs, ret_count, reterr);
    for (uint32_t again = 0; status == PEN_ERR_DEVICE_LOST && again < LOSSES_MOST; again++) {
        slot_device_lost_log(slot, batch);
        *reterr = (struct pen_error){0};
        batch->bound = batch->rows;
        status = engine_run(slot, batch, ret_outputs, ret_count, reterr);
    }
    return status;
}

void slot_device_lost_log(const struct slot *slot, const struct batch *batch)
{
    log_event(LOG_WARN, "device_lost", "model=%s version=%" PRIu64 " jobs=%zu slot=%u", batch->served->name,
              batch->served->version, batch->count, slot->number);
}

void slot_batch_fail(struct slot *slot, const struct batch *batch, enum pen_status status, const char *text)
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

void slot_batch_answer(struct slot *slot, const struct batch *batch, const struct pen_tensor *outputs, size_t count,
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

bool slot_wants_layers(const struct batch *batch)
{
    bool wanted = false;
    for (size_t i = 0; i < batch->count; i++)
        wanted |= batch->tasks[i]->layers;
    return wanted;
}

/* The batch is one job, on an engine of its own; `run` holds the outputs until it is closed. */
static enum pen_status debug_run(struct slot *slot, struct batch *batch, struct debug_run *run,
                                 const struct pen_tensor **ret_outputs, size_t *ret_count, struct pen_error *reterr)
{
    const struct served *served = batch->served;
    PEN_ASSERT(batch->count == 1, "a job in debug mode runs alone");
    if (!slot->context.debugger)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "this worker runs no jobs in debug mode (--allow-debug)");
    batch->bound = batch->rows;
    enum pen_status status = debugger_open(slot->context.debugger, served, run, reterr);
    if (status == PEN_OK && served->strings)
        status = pen_session_run(run->session, batch->tasks[0]->inputs, served->inputs_count, slot->work->stop,
                                 ret_outputs, ret_count, reterr);
    else if (status == PEN_OK && (status = gather_inputs(run->session, batch, reterr)) == PEN_OK)
        status = pen_session_run_bound(run->session, slot->work->stop, ret_outputs, ret_count, reterr);
    slot->work->debug_log = debugger_text(run);
    return status;
}

/* After the answer, which has copied the outputs and the log. */
static void debug_close(struct slot *slot, struct debug_run *run)
{
    debugger_close(run);
    free(slot->work->debug_log);
    slot->work->debug_log = NULL;
}

void slot_note_log(const struct batch *batch, const struct pen_session *session)
{
    const char *note = session ? pen_session_note(session) : "";
    if (*note)
        log_event(LOG_WARN, "numerics", "model=%s version=%" PRIu64 " found=%s", batch->served->name,
                  batch->served->version, note);
}

/* Runs and answers the batch. False: nothing was answered; run its jobs one by one. */
static bool batch_try(struct slot *slot, struct batch *batch)
{
    const struct pen_tensor *outputs = NULL;
    size_t count = 0;
    struct pen_error error = {0};
    struct debug_run debug = {.session = NULL};
    uint64_t start_us = clock_now_us();
    slot_batch_prune(slot, batch, start_us);
    if (batch->count == 0)
        return true;
    if (slot_seat(slot, batch)->took_us > SHORT_RUN_US)
        urgent_set(slot, false);
    slot_running_set(slot, slot->work, batch, start_us);
    bool measured = slot_wants_layers(batch);
    slot->work->gather_us = 0;
    if (measured)
        layers_begin(slot_seat(slot, batch)->session);
    enum pen_status status = !slot_batch_wanted(batch) ? PEN_ERR_CANCELLED
                             : batch->tasks[0]->debug  ? debug_run(slot, batch, &debug, &outputs, &count, &error)
                                                       : engine_run_again(slot, batch, &outputs, &count, &error);
    uint64_t end_us = clock_now_us();
    if (!batch->tasks[0]->debug) /* its log has it */
        slot_note_log(batch, slot_seat(slot, batch)->session);
    slot_running_set(slot, slot->work, NULL, end_us);
    slot_seat(slot, batch)->took_us = batch->tasks[0]->debug ? slot_seat(slot, batch)->took_us : end_us - start_us;
    if (measured)
        layers_end(slot_seat(slot, batch)->session, &slot->work->arena, &slot->work->layers);
    atomic_fetch_add(&slot->context.stats->compute_us, end_us - start_us);
    atomic_fetch_add(&slot->context.stats->batches, 1);
    if (status == PEN_OK && gather_can_split(batch, outputs, count)) {
        if (!batch->tasks[0]->debug)
            batch_pace_learn(&batch->tasks[0]->served->pace, batch->bound, end_us - start_us);
        slot_batch_answer(slot, batch, outputs, count,
                          (struct timing){.start_us = start_us,
                                          .gather_us = slot->work->gather_us,
                                          .compute_us = end_us - start_us,
                                          .end_us = end_us});
        debug_close(slot, &debug);
        return true;
    }
    bool stopped = status == PEN_ERR_CANCELLED || status == PEN_ERR_DEADLINE;
    if (batch->count > 1 && !stopped)
        return false;
    slot_batch_fail(slot, batch, status, error.text);
    debug_close(slot, &debug);
    return true;
}

void slot_batch_run(struct slot *slot, struct batch *batch)
{
    if (batch_try(slot, batch))
        return;
    log_event(LOG_WARN, "batch_split", "model=%s jobs=%zu", batch->served->name, batch->count);
    for (size_t i = 0; i < batch->count; i++) {
        struct batch exclusive = {
            .served = batch->served, .tasks = {batch->tasks[i]}, .count = 1, .rows = batch->tasks[i]->rows};
        batch_try(slot, &exclusive);
    }
}

/* ---- a dispatch -------------------------------------------------------------------------------------------------------------------- */

/* Opens the jobs that have no answer yet; answers refused ones at once. Returns the number of tasks, of which there were `count` before. */
static size_t tasks_open(struct slot *slot, struct dispatch *dispatch, size_t count)
{
    for (size_t i = 0; i < dispatch->jobs_count; i++) {
        struct job *job = &dispatch->jobs[i];
        struct pen_error error = {0};
        int expected = JOB_WAITING;
        if (!atomic_compare_exchange_strong(&job->state, &expected, JOB_RUNNING))
            continue; /* cancelled in the queue */
        enum pen_status status = task_open(slot->context.catalog, slot->context.states, &slot->work->arena, dispatch,
                                           job, &slot->work->tasks[count], &error);
        if (status == PEN_OK)
            count++;
        else
            slot_answer_error(slot, job, status, error.text);
    }
    return count;
}

static void reply_push(struct slot *slot, struct work *work, struct dispatch *finished)
{
    PEN_ASSERT(work->reply && work->dispatch, "a reply is of a dispatch in hand");
    work->reply->link = work->dispatch->link;
    work->reply->finished = finished;
    outbox_push(slot->context.outbox, work->reply);
    work->reply = NULL;
}

static void in_hand_set(struct slot *slot, struct work *work, const struct dispatch *dispatch)
{
    uint64_t now_us = clock_now_us();
    pthread_mutex_lock(&slot->lock);
    work->in_hand = dispatch;
    slot->step_us = now_us;
    pthread_mutex_unlock(&slot->lock);
}

void slot_work_close(struct slot *slot, struct work *work)
{
    for (size_t i = 0; i < work->count; i++)
        task_close(&work->tasks[i]);
    work->count = 0;
    in_hand_set(slot, work, NULL);
    reply_push(slot, work, work->dispatch); /* the dispatch may be gone from here on */
    work->dispatch = NULL;
}

/* Of a list. */
static size_t jobs_of(const struct dispatch *dispatch)
{
    size_t count = 0;
    for (; dispatch; dispatch = dispatch->queue_next)
        count += dispatch->jobs_count;
    PEN_ASSERT(count <= GATHER_TASKS_MAX, "a slot takes no more jobs than it has places");
    return count;
}

static struct work *work_open(struct slot *slot, struct dispatch *dispatch)
{
    struct work *work = &slot->works[0];
    while (work->dispatch)
        work++;
    PEN_ASSERT(work < slot->works + SLOT_WORKS && !work->reply && work->count == 0,
               "a slot that takes a dispatch has a place for it");
    slot->work = work;
    in_hand_set(slot, work, dispatch);
    work->dispatch = dispatch;
    work->layers = (struct layers){.count = 0};
    meta_arena_reset(&work->arena);
    slot_reply_open(slot, jobs_of(dispatch));
    for (; dispatch; dispatch = dispatch->queue_next)
        work->count = tasks_open(slot, dispatch, work->count);
    return work;
}

/* Batches one after the other, `batch` first. */
static void work_run(struct slot *slot, struct work *work, struct batch *batch)
{
    size_t done = 0;
    slot->work = work;
    do {
        if (done > 0) { /* results that are ready do not wait for the rest */
            reply_push(slot, work, NULL);
            slot_reply_open(slot, work->count - done);
        }
        done += batch->count;
        if (batch->served->config.plan)
            slot_chain_run(slot, batch);
        else
            slot_batch_run(slot, batch);
    } while (gather_compose(work->tasks, work->count, batch));
}

void slot_dispatch_begin(struct slot *slot, struct dispatch *dispatch)
{
    struct batch batch;
    struct work *work = work_open(slot, dispatch);
    bool any = gather_compose(work->tasks, work->count, &batch);
    if (any && batch.count == work->count && slot_flight_begin(slot, &batch))
        return;
    while (any && slot->flying > 0) /* a session runs either flights or ordinary runs */
        slot_flight_land(slot);
    if (any)
        work_run(slot, work, &batch);
    slot_work_close(slot, work);
}

void slot_run(struct slot *slot, struct dispatch *dispatch)
{
    PEN_ASSERT(!dispatch->queue_next, "what the caller brings is in no queue");
    slot_dispatch_begin(slot, dispatch);
    while (slot->flying > 0)
        slot_flight_land(slot);
}

/* The dispatch to begin with; waits for one when nothing flies. */
static struct dispatch *dispatch_next(struct slot *slot)
{
    if (slot->flying == 0)
        return handoff_take(slot->context.handoff);
    return slot_flight_room(slot) ? handoff_poll(slot->context.handoff) : NULL;
}

static size_t bytes_of(const struct dispatch *dispatch)
{
    size_t bytes = 0;
    for (; dispatch; dispatch = dispatch->queue_next)
        bytes += dispatch->bytes;
    return bytes;
}

static void *slot_main(void *argument)
{
    struct slot *slot = argument;
    struct dispatch *dispatch;
    char name[16];
    snprintf(name, sizeof name, "slot-%u", slot->number);
    pthread_setname_np(pthread_self(), name);
    urgent_set(slot, true);
    while ((dispatch = dispatch_next(slot)) || slot->flying > 0) {
        if (!dispatch) {
            if (slot_flight_room(slot))
                slot_flight_look(slot);
            else
                slot_flight_land(slot);
            continue;
        }
        if (bytes_of(dispatch) > SHORT_RUN_BYTES)
            urgent_set(slot, false);
        if (dispatch->queue_next)
            atomic_fetch_add(&slot->context.stats->joined, jobs_of(dispatch));
        slot_dispatch_begin(slot, dispatch);
        urgent_set(slot, true);
    }
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------------------------------- */

enum pen_status slot_new(const struct slot_context *context, uint32_t number, struct slot **ret_slot,
                         struct pen_error *reterr)
{
    struct slot *slot = calloc(1, sizeof *slot);
    bool whole = slot != NULL;
    if (slot) {
        slot->context = *context;
        slot->number = number;
        slot->work = &slot->works[0];
        pthread_mutex_init(&slot->lock, NULL);
    }
    for (size_t i = 0; slot && i < SLOT_WORKS; i++) {
        meta_arena_init(&slot->works[i].arena, ARENA_BYTES);
        slot->works[i].stop = pen_stop_new();
        whole &= slot->works[i].stop != NULL;
    }
    if (!whole) {
        slot_free(slot);
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for slot %u", number);
    }
    *ret_slot = slot;
    return PEN_OK;
}

enum pen_status slot_start(struct slot *slot, struct pen_error *reterr)
{
    sigset_t before;
    signals_block(&before); /* they go to the network thread */
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
    for (size_t i = 0; i < SLOT_WORKS; i++) {
        pen_stop_free(slot->works[i].stop);
        meta_arena_fini(&slot->works[i].arena);
        reply_free(slot->works[i].reply);
    }
    pthread_mutex_destroy(&slot->lock);
    free(slot->annotations);
    answer_work_free(slot->answers);
    free(slot);
}

void slot_cancel(struct slot *slot, struct job *job)
{
    atomic_store(&job->cancelled, true);
    pthread_mutex_lock(&slot->lock);
    for (size_t i = 0; i < SLOT_WORKS; i++)
        if (slot->works[i].running && !slot_batch_wanted(slot->works[i].running))
            pen_stop_now(slot->works[i].stop);
    pthread_mutex_unlock(&slot->lock);
}

/* Reports the oldest flight, because the others, and works that will fly, wait behind it. */
void slot_running(struct slot *slot, struct slot_running *ret_running)
{
    const struct work *first = NULL;
    const struct dispatch *in_hand = NULL;
    *ret_running = (struct slot_running){0};
    pthread_mutex_lock(&slot->lock);
    for (const struct work *w = slot->works; w < slot->works + SLOT_WORKS; w++) {
        in_hand = w->in_hand ? w->in_hand : in_hand;
        first = w->running ? w : first;
    }
    first = slot->flying > 0 ? slot->flights[0] : first;
    if (first) {
        ret_running->busy = true;
        ret_running->started_us = first->started_us;
        ret_running->deadline_us = first->deadline_us;
        ret_running->job = first->running->tasks[0]->job->env.job;
        snprintf(ret_running->model, sizeof ret_running->model, "%.63s", first->running->served->name);
    } else if (in_hand) {
        ret_running->outside_us = slot->step_us;
        ret_running->job = in_hand->jobs[0].env.job;
    }
    pthread_mutex_unlock(&slot->lock);
}
