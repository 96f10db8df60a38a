#include "expiry.h"

#include "dispatch.h"

/* The envelope that was kept says nothing of a default. */
bool expiry_delays(const struct job *job)
{
    if (!job->lane->model->timeout_delays)
        return false;
    const uint8_t *header = zmq_msg_data(&job->request->frames[0]);
    uint8_t any = 0;
    for (unsigned i = 0; i < 8; i++)
        any |= header[ENVELOPE_DEADLINE_AT + i];
    return any == 0;
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
}
