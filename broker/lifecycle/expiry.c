#include "expiry.h"

#include <stdio.h>

#include "dispatch.h"

/* By the priority at admission: a leader may have become more urgent since then. */
static const struct policy *policy_for(const struct job *job)
{
    return policy_of(&job->lane->model->queue.policies, frame_priority(zmq_msg_data(&job->request->frames[0])));
}

/* The kept envelope only has the client's own deadline, never a default. */
static bool has_own_deadline(const struct job *job)
{
    return frame_deadline_us(zmq_msg_data(&job->request->frames[0])) != 0;
}

const char *expiry_text(const struct job *job, char text[EXPIRY_TEXT_BYTES])
{
    char whose[96] = "deadline";
    const struct policy *policy = policy_for(job);
    if (!has_own_deadline(job) && policy->level)
        snprintf(whose, sizeof whose, "default timeout of priority level %u (priority_queue_policy)", policy->level);
    else if (!has_own_deadline(job) && policy->timeout_us)
        snprintf(whose, sizeof whose, "default timeout of the model (default_queue_policy)");
    snprintf(text, EXPIRY_TEXT_BYTES, "the %s passed %s", whose,
             job->state == JOB_DISPATCHED ? "while a worker was running the job"
                                          : "before a worker was free for the job");
    return text;
}

bool expiry_delays(const struct job *job)
{
    return policy_for(job)->timeout_delays && !has_own_deadline(job);
}

void expiry_delay(struct broker *broker, struct job *job)
{
    heap_remove(&broker->deadlines, job);
    bool waits = job->state == JOB_QUEUED;
    if (waits)
        lane_remove(job->lane, job);
    job->deadline_us = DEADLINE_NONE;
    job->arrival = ++broker->arrivals;
    if (waits)
        dispatch_queue(broker, job);
    else if (job->state == JOB_STEPS)
        job_course(broker, job)->moved(broker, job);
}
