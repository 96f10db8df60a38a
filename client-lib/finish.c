#include "finish.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "deadline.h"
#include "result.h"

/* Takes the pending reference over. */
static void callback_queue(struct pen_client *client, struct pen_job *job)
{
    job->finished_next = NULL;
    *client->finished_tail = job;
    client->finished_tail = &job->finished_next;
    if (!client->finished_any && client->finished_fd >= 0) {
        eventfd_write(client->finished_fd, 1);
    }
    client->finished_any = true;
    client->finished_count++;
}

void finish_expect(struct pen_client *client, struct pen_job *job)
{
    if (job->ordered) {
        job->ordered_next = NULL;
        *client->ordered_tail = job;
        client->ordered_tail = &job->ordered_next;
    }
}

/* Takes the pending reference over. */
static void tell(struct pen_client *client, struct pen_job *job)
{
    job->ended = true;
    if (job->abandoned) {
        pen_result_free(job->result);
        job->result = NULL;
        job_release(job);
    } else if (job->callback) {
        callback_queue(client, job);
    } else {
        job_release(job);
    }
}

/* As far as answers have come without a gap. */
static void tell_ordered(struct pen_client *client)
{
    struct pen_job *job;
    while ((job = client->ordered) != NULL && job->answered) {
        client->ordered = job->ordered_next;
        if (!client->ordered) {
            client->ordered_tail = &client->ordered;
        }
        tell(client, job);
    }
}

void finish_job(struct pen_client *client, struct pen_job *job, struct pen_result *result, uint64_t now_us)
{
    transfer_forget(client, job, pen_result_status(result) == PEN_OK);
    pending_remove(&client->pending, job);
    client->counters.jobs_ended++;
    result_round_trip(result, now_us - job->submitted_us);
    payload_drop(job->payload);
    job->payload = NULL;
    job->result = result;
    job->answered = true;
    if (job->ordered) {
        tell_ordered(client);
    } else {
        tell(client, job);
    }
}

void finish_all(struct pen_client *client, enum pen_status status, const char *text)
{
    uint64_t now_us = clock_now_us();
    while (client->pending.oldest) {
        finish_job(client, client->pending.oldest, result_local(status, text), now_us);
    }
}

struct pen_job *finish_take(struct pen_client *client)
{
    struct pen_job *job = client->finished;
    if (!job) {
        return NULL;
    }
    client->finished = job->finished_next;
    client->finished_count--;
    if (!client->finished) {
        client->finished_tail = &client->finished;
        client->finished_any = false;
        eventfd_t drained;
        if (client->finished_fd >= 0) {
            eventfd_read(client->finished_fd, &drained);
        }
    }
    return job;
}
