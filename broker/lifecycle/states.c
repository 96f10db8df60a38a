#include "states.h"

#include "assertion.h"

#define BIT(state) (1u << (state))

/* Where a job may go from each state. A new record is JOB_LOOKUP, which is 0, until it is placed. */
static const uint8_t next_states[] = {
    [JOB_LOOKUP] = BIT(JOB_LOOKUP) | BIT(JOB_QUEUED) | BIT(JOB_HELD) | BIT(JOB_FOLLOWING) | BIT(JOB_DONE),
    [JOB_QUEUED] = BIT(JOB_QUEUED) | BIT(JOB_DISPATCHED) | BIT(JOB_STEPS) | BIT(JOB_DONE),
    [JOB_HELD] = BIT(JOB_QUEUED) | BIT(JOB_DONE),
    [JOB_FOLLOWING] = BIT(JOB_QUEUED) | BIT(JOB_DISPATCHED) | BIT(JOB_STEPS) | BIT(JOB_DONE),
    [JOB_DISPATCHED] = BIT(JOB_QUEUED) | BIT(JOB_DONE),
    [JOB_STEPS] = BIT(JOB_QUEUED) | BIT(JOB_DONE),
    [JOB_DONE] = 0,
};
_Static_assert(sizeof next_states == JOB_DONE + 1, "each state has a row");

void states_set(struct job *job, enum job_state state)
{
    PEN_ASSERT(next_states[job->state] & BIT(state), "a job goes from one state only to those that follow it");
    job->state = (uint8_t)state & 15u;
}

void states_hold_bytes(struct broker *broker, uint64_t bytes)
{
    broker->queued_bytes += bytes;
}

void states_give_bytes(struct broker *broker, uint64_t bytes)
{
    PEN_ASSERT(broker->queued_bytes >= bytes, "no more bytes are given back than were held");
    broker->queued_bytes -= bytes;
}

void states_admit(struct broker *broker, struct job *job)
{
    job->lane->model->users++;
    broker->live++;
    states_hold_bytes(broker, shared_message_bytes(job->request));
}

void states_wait(struct broker *broker, struct job *job)
{
    size_t bytes = shared_message_bytes(job->request);
    queue_add(&job->lane->model->queue, job->priority, bytes);
    states_hold_bytes(broker, bytes);
}

void states_wait_no_more(struct broker *broker, struct job *job)
{
    size_t bytes = shared_message_bytes(job->request);
    PEN_ASSERT(job->lane->model->queue.waiting > 0, "who waits no more has been counted as waiting");
    queue_leave(&job->lane->model->queue, job->priority, bytes);
    states_give_bytes(broker, bytes);
}

void states_reorder(struct job *job, uint8_t priority)
{
    struct queue *queue = &job->lane->model->queue;
    size_t bytes = shared_message_bytes(job->request);
    queue_leave(queue, job->priority, bytes);
    queue_add(queue, priority, bytes);
    job->priority = priority;
}

void states_run(struct job *job, enum job_state state)
{
    PEN_ASSERT(state == JOB_DISPATCHED || state == JOB_STEPS, "what runs is on a worker or in steps");
    states_set(job, state);
    job->lane->model->running++;
}

void states_run_no_more(const struct job *job)
{
    PEN_ASSERT(job->lane->model->running > 0, "who runs no more has been counted as running");
    job->lane->model->running--;
}

void states_done(struct broker *broker, struct job *job)
{
    PEN_ASSERT(broker->live > 0 && job->lane->model->users > 0, "who ends has been counted as live");
    states_set(job, JOB_DONE);
    job->lane->model->users--;
    broker->live--;
}

void states_change_model(struct job *job, struct lane *to)
{
    job->lane->model->users--;
    lane_release(job->lane);
    job->lane = to;
    to->model->users++;
}
