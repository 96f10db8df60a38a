/*
 * planted.c - a broker that forgets: every fourth job that its worker is lost with is counted as waiting and never queued.
 *
 * Linked with --wrap=dispatch_requeue into a program of its own, so that `penstock torture` has something to find. Nothing of it is in the
 * broker that is built for users.
 */
#include "dispatch.h"

void __real_dispatch_requeue(struct broker *broker, struct job *job, bool suspect);
void __wrap_dispatch_requeue(struct broker *broker, struct job *job, bool suspect);

void __wrap_dispatch_requeue(struct broker *broker, struct job *job, bool suspect)
{
    static unsigned count;
    struct queue *queue = &job->lane->model->queue;
    if (!suspect || ++count % 4 != 0) {
        __real_dispatch_requeue(broker, job, suspect);
        return;
    }
    job->dispatch = NULL;
    job->state = JOB_QUEUED;
    job->lane->model->running--;
    queue->waiting++;
    queue->bytes += shared_message_bytes(job->request);
    broker->queued_bytes += shared_message_bytes(job->request);
}
