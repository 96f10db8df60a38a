/*
 * slot_flight.c - dispatches that are on a device (flights): the slot writes the inputs of the next one while the
 * device computes.
 *
 * A dispatch can fly when all its jobs make one batch of a plain model whose session takes several runs; other
 * dispatches wait until nothing flies. Flights end in the order in which they began.
 */
#include "slot_internal.h"

#include "assertion.h"
#include "deadline.h"

#define LOOK_US_MIN   100u  /* a slot that has room looks for more work so often, ... */
#define LOOK_US_MAX   5000u /* ... at least so often, ... */
#define LOOKS_PER_RUN 8u    /* ... and several times in a run: the next should be there before it ends */

static bool may_fly(const struct slot *slot, const struct batch *batch)
{
    const struct served *served = batch->served;
    return !served->config.plan && !batch->tasks[0]->debug && !served->strings && served->states_count == 0 &&
           !slot_wants_layers(batch) && pen_session_window(slot_seat(slot, batch)->session) > 1;
}

/* Writes the inputs and submits the run; waits while the sessions are full or busy with another shape. */
static enum pen_status submit(struct slot *slot, struct work *work, const struct batch *batch)
{
    struct pen_session *session = slot_seat(slot, batch)->session;
    for (;;) {
        enum pen_status status = gather_inputs(session, batch, NULL);
        work->gathered_us = clock_now_us();
        if (status == PEN_OK)
            status = pen_session_submit(session, work->stop, NULL);
        if (status != PEN_ERR_BUSY || slot->flying == 0)
            return status;
        slot_flight_land(slot);
        slot->work = work;
    }
}

bool slot_flight_begin(struct slot *slot, struct batch *batch)
{
    struct pen_tensor shapes[SERVED_TENSORS_MAX];
    const struct served *served = batch->served;
    struct work *work = slot->work;
    if (!may_fly(slot, batch))
        return false;
    work->begun_us = clock_now_us();
    slot_batch_prune(slot, batch, work->begun_us);
    if (batch->count == 0)
        return false;
    struct seat *seat = slot_seat(slot, batch);
    uint64_t before = pen_session_prepared(seat->session);
    gather_shapes(batch, shapes);
    uint64_t shape = batch_shape_of(shapes, served->inputs_count, served->max_batch_size > 0);
    if (served->max_batch_size > 0)
        batch->bound = batch_shape_rows(&seat->batch_shape, served->warm, served->warm_count, shape, batch->rows);
    work->batch = *batch;
    slot_running_set(slot, work, &work->batch, work->begun_us); /* a cancel finds it from here on; was it before? */
    enum pen_status status = slot_batch_wanted(&work->batch) ? submit(slot, work, &work->batch) : PEN_ERR_CANCELLED;
    slot_prepared_count(slot, &work->batch, before, shape);
    if (status != PEN_OK) { /* the ordinary run says why, or goes on without the jobs that are to blame */
        slot_running_set(slot, work, NULL, work->begun_us);
        batch->bound = batch->rows;
        return false;
    }
    if (slot->flying > 0)
        atomic_fetch_add(&slot->context.stats->runs_ahead, 1);
    pthread_mutex_lock(&slot->lock);
    PEN_ASSERT(slot->flying < SLOT_WORKS && work->dispatch, "a slot has room for what flies");
    slot->flights[slot->flying++] = work;
    pthread_mutex_unlock(&slot->lock);
    return true;
}

bool slot_flight_room(const struct slot *slot)
{
    if (slot->flying == 0)
        return true;
    const struct work *newest = slot->flights[slot->flying - 1];
    return slot->again == 0 && slot->flying < SLOT_WORKS &&
           slot->flying < pen_session_window(slot_seat(slot, &newest->batch)->session);
}

/* Runs a dispatch that failed as a whole, or whose outputs cannot be split, as if it had never flown. */
static void again_run(struct slot *slot)
{
    for (size_t i = 0; i < SLOT_WORKS && slot->again > 0; i++) {
        struct work *work = &slot->works[i];
        if (!work->again)
            continue;
        PEN_ASSERT(slot->flying == 0, "a work runs again when nothing flies");
        work->again = false;
        slot->again--;
        slot->work = work;
        work->batch.bound = work->batch.rows;
        slot_batch_run(slot, &work->batch);
        slot_work_close(slot, work);
    }
}

/* The run had the device for itself since the end of the run before. */
static struct timing timing_of(const struct slot *slot, const struct work *work, uint64_t end_us)
{
    uint64_t start_us = work->begun_us > slot->landed_us ? work->begun_us : slot->landed_us;
    return (struct timing){.start_us = start_us,
                           .gather_us = work->gathered_us > start_us ? work->gathered_us - start_us : 0,
                           .compute_us = end_us - start_us,
                           .end_us = end_us};
}

static uint64_t look_us(const struct seat *seat)
{
    uint64_t us = seat->took_us / LOOKS_PER_RUN;
    return us < LOOK_US_MIN ? LOOK_US_MIN : us > LOOK_US_MAX ? LOOK_US_MAX : us;
}

/* Answers the flight, or keeps it for another run. */
static void outcome(struct slot *slot, struct work *work, enum pen_status status, const char *why,
                    const struct pen_tensor *outputs, size_t count, struct timing timing)
{
    const struct batch *batch = &work->batch;
    bool stopped = status == PEN_ERR_CANCELLED || status == PEN_ERR_DEADLINE;
    bool cut = status == PEN_OK && gather_can_split(batch, outputs, count);
    if (cut && batch->bound > batch->rows)
        atomic_fetch_add(&slot->context.stats->rows_filled, batch->bound - batch->rows);
    if (cut) {
        batch_pace_learn(&batch->tasks[0]->served->pace, batch->bound, timing.compute_us);
        slot_batch_answer(slot, batch, outputs, count, timing);
    } else if (status != PEN_OK && status != PEN_ERR_DEVICE_LOST && (stopped || batch->count == 1)) {
        slot_batch_fail(slot, batch, status, why);
    } else {
        if (status == PEN_OK && batch->bound > batch->rows)
            batch_shape_exact(&slot_seat(slot, batch)->batch_shape); /* from now on at its own sizes */
        if (status == PEN_ERR_DEVICE_LOST)
            slot_device_lost_log(slot, batch);
        work->again = true;
        slot->again++;
        PEN_ASSERT(slot->again + slot->flying <= SLOT_WORKS, "a slot has as many works as places");
        return;
    }
    slot_work_close(slot, work);
}

/* Takes the first flight out. From now on the next one has the device, so its time, and that of works that wait to
   fly, counts from now. */
static void flight_leave(struct slot *slot, uint64_t now_us)
{
    pthread_mutex_lock(&slot->lock);
    PEN_ASSERT(slot->flying > 0, "what lands has flown");
    slot->flying--;
    for (size_t i = 0; i < slot->flying; i++)
        slot->flights[i] = slot->flights[i + 1];
    for (size_t i = 0; i < SLOT_WORKS; i++)
        if (slot->works[i].running)
            slot->works[i].started_us = now_us;
    pthread_mutex_unlock(&slot->lock);
}

/* False: it is not over within wait_us. */
static bool land_within(struct slot *slot, uint64_t wait_us)
{
    struct work *work = slot->flights[0];
    struct seat *seat = slot_seat(slot, &work->batch);
    const struct pen_tensor *outputs = NULL;
    size_t count = 0;
    struct pen_error error = {0};
    enum pen_status status = pen_session_await(seat->session, wait_us, &outputs, &count, &error);
    if (status == PEN_ERR_TIMEOUT)
        return false;
    uint64_t end_us = clock_now_us();
    slot->work = work;
    slot_note_log(&work->batch, seat->session);
    flight_leave(slot, end_us);
    slot_running_set(slot, work, NULL, end_us);
    struct timing timing = timing_of(slot, work, end_us);
    slot->landed_us = end_us;
    seat->took_us = timing.compute_us;
    atomic_fetch_add(&slot->context.stats->compute_us, timing.compute_us);
    atomic_fetch_add(&slot->context.stats->batches, 1);
    outcome(slot, work, status, error.text, outputs, count, timing);
    if (slot->flying == 0)
        again_run(slot);
    return true;
}

void slot_flight_land(struct slot *slot)
{
    land_within(slot, UINT64_MAX);
}

bool slot_flight_look(struct slot *slot)
{
    return land_within(slot, look_us(slot_seat(slot, &slot->flights[0]->batch)));
}
