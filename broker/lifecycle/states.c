#include "states.h"

#include "assertion.h"

#define BIT(state) (1u << (state))

/* Where a job may go from each state. A new record is JOB_LOOKUP, which is 0, until it is placed. */
static const uint8_t next_states[] = {
    [JOB_LOOKUP] = BIT(JOB_LOOKUP) | BIT(JOB_QUEUED) | BIT(JOB_HELD) | BIT(JOB_FOLLOWING) | BIT(JOB_DONE),
    [JOB_QUEUED] = BIT(JOB_QUEUED) | BIT(JOB_DISPATCHED) | BIT(JOB_STEPS) | BIT(JOB_HANDED) | BIT(JOB_DONE),
    [JOB_HELD] = BIT(JOB_QUEUED) | BIT(JOB_DONE),
    [JOB_FOLLOWING] = BIT(JOB_QUEUED) | BIT(JOB_DISPATCHED) | BIT(JOB_STEPS) | BIT(JOB_DONE),
    [JOB_DISPATCHED] = BIT(JOB_QUEUED) | BIT(JOB_DONE),
    [JOB_STEPS] = BIT(JOB_QUEUED) | BIT(JOB_DONE),
    [JOB_HANDED] = BIT(JOB_QUEUED) | BIT(JOB_DONE),
    [JOB_DONE] = 0,
};
_Static_assert(sizeof next_states == JOB_DONE + 1, "each state has a row");
_Static_assert(JOB_DONE < 8, "a row has a bit for each state, and struct job has 4 bits for one");
_Static_assert(OWNERS_MAX <= 16, "struct job has 4 bits for an owner");

#define WAITING_STATES (BIT(JOB_LOOKUP) | BIT(JOB_QUEUED) | BIT(JOB_HELD) | BIT(JOB_FOLLOWING) | BIT(JOB_HANDED))

static bool waits(const struct job *job)
{
    return WAITING_STATES & BIT(job->state);
}

void states_set(struct job *job, enum job_state state)
{
    PEN_ASSERT(next_states[job->state] & BIT(state), "a job goes from one state only to those that follow it");
    job->state = (uint8_t)state & 15u;
}

void states_hold_bytes(struct broker *broker, uint64_t bytes)
{
    broker->queued_bytes += bytes;
    PEN_ASSERT(broker->queued_bytes >= bytes, "the bytes that wait fit into their counter");
}

void states_give_bytes(struct broker *broker, uint64_t bytes)
{
    PEN_ASSERT(broker->queued_bytes >= bytes, "no more bytes are given back than were held");
    broker->queued_bytes -= bytes;
}

void states_admit(struct broker *broker, struct job *job)
{
    PEN_ASSERT(job->lane_place == 0 && job->state == JOB_LOOKUP, "a job that is admitted is new");
    job->lane->model->users++;
    broker->live++;
    states_hold_bytes(broker, shared_message_bytes(job->request));
    PEN_ASSERT(job->lane->model->users <= broker->live, "no model has more live jobs than there are");
    PEN_ASSERT(job->lane->model->queue.bytes <= broker->queued_bytes, "a queue's bytes are among those that wait");
}

void states_wait(struct broker *broker, struct job *job)
{
    size_t bytes = shared_message_bytes(job->request);
    PEN_ASSERT(job->state == JOB_QUEUED && job->lane_place == 0,
               "a job that waits again is queued, and in no lane yet");
    queue_add(&job->lane->model->queue, job->priority, bytes);
    states_hold_bytes(broker, bytes);
    PEN_ASSERT(job->lane->model->queue.bytes <= broker->queued_bytes, "a queue's bytes are among those that wait");
}

void states_wait_no_more(struct broker *broker, struct job *job)
{
    size_t bytes = shared_message_bytes(job->request);
    PEN_ASSERT(waits(job) && job->lane_place == 0, "who waits no more has waited, and has left its lane");
    queue_leave(&job->lane->model->queue, job->priority, bytes);
    states_give_bytes(broker, bytes);
}

void states_reorder(struct job *job, uint8_t priority)
{
    struct queue *queue = &job->lane->model->queue;
    size_t bytes = shared_message_bytes(job->request);
    PEN_ASSERT(waits(job) && job->lane_place == 0, "who gets another priority waits, and in no lane");
    queue_leave(queue, job->priority, bytes);
    queue_add(queue, priority, bytes);
    job->priority = priority;
}

void states_run(struct job *job, enum job_state state)
{
    PEN_ASSERT(state == JOB_DISPATCHED || state == JOB_STEPS, "what runs is on a worker or in steps");
    states_set(job, state);
    job->lane->model->running++;
    PEN_ASSERT(job->lane_place == 0, "who runs is in no lane");
    PEN_ASSERT(job->lane->model->running <= job->lane->model->users, "no model runs more jobs than it has");
}

void states_run_no_more(const struct job *job)
{
    PEN_ASSERT(job->lane->model->running > 0, "who runs no more has been counted as running");
    job->lane->model->running--;
}

void states_done(struct broker *broker, struct job *job)
{
    PEN_ASSERT(broker->live > 0 && job->lane->model->users > 0, "who ends has been counted as live");
    PEN_ASSERT(job->lane_place == 0, "who ends is in no lane");
    states_set(job, JOB_DONE);
    job->lane->model->users--;
    broker->live--;
    PEN_ASSERT(job->lane->model->running <= job->lane->model->users, "no model runs more jobs than it has");
}

void states_change_model(struct job *job, struct lane *to)
{
    PEN_ASSERT(job->state == JOB_QUEUED && job->lane_place == 0 && job->lane->model->users > 0,
               "who goes to another model waits, in no lane, and was counted in the old one");
    job->lane->model->users--;
    lane_release(job->lane);
    job->lane = to;
    to->model->users++;
}
