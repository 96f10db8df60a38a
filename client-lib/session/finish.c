#include "finish.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "assertion.h"
#include "deadline.h"
#include "job.h"
#include "result.h"
#include "transfer.h"

/* The queue of callbacks, its count and its flag go together. */
static void check_finished(const struct pen_client *client)
{
    PEN_ASSERT((client->finished_count == 0) == !client->finished, "jobs whose callbacks are to run are counted");
    PEN_ASSERT(client->finished_any == (client->finished != NULL), "waiters see that a callback is to run");
}

/* What was submitted has ended, or is pending. */
static void check_counts(const struct pen_client *client)
{
    const struct pen_client_counters *counters = &client->counters;
    PEN_ASSERT(counters->jobs_submitted == counters->jobs_ended + client->pending.count,
               "a job that was submitted is pending or has ended");
}

void finish_ring(struct pen_client *client)
{
    if (client->finished_fd >= 0 && !client->rung) {
        eventfd_write(client->finished_fd, 1);
        client->rung = true;
    }
}

void finish_hush(struct pen_client *client)
{
    eventfd_t rings;
    if (client->rung) {
        eventfd_read(client->finished_fd, &rings);
        client->rung = false;
    }
}

/* Takes the pending reference over. */
static void callback_queue(struct pen_client *client, struct pen_job *job)
{
    job->finished_next = NULL;
    *client->finished_tail = job;
    client->finished_tail = &job->finished_next;
    if (!client->finished_any && !client->dispatching) {
        finish_ring(client);
    }
    client->finished_any = true;
    client->finished_count++;
    check_finished(client);
}

void finish_expect(struct pen_client *client, struct pen_job *job)
{
    PEN_ASSERT(job->state == JOB_WAITS, "who is expected has just got its sequence");
    if (job->ordered) {
        PEN_ASSERT(!client->ordered || client->ordered->env.job.sequence < job->env.job.sequence,
                   "ordered jobs are told in the order of their sequence");
        job->ordered_next = NULL;
        *client->ordered_tail = job;
        client->ordered_tail = &job->ordered_next;
    }
    client->counters.jobs_submitted++;
    check_counts(client);
}

/* Takes the pending reference over. */
static void tell(struct pen_client *client, struct pen_job *job)
{
    job_enter(job, JOB_ENDED);
    if (job->abandoned) {
        pen_result_free(job_take_result(job));
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
    while ((job = client->ordered) != NULL && job->state == JOB_ANSWERED) {
        client->ordered = job->ordered_next;
        if (!client->ordered) {
            client->ordered_tail = &client->ordered;
        }
        tell(client, job);
    }
}

void finish_job(struct pen_client *client, struct pen_job *job, struct pen_result *result, uint64_t now_us)
{
    if (pen_result_status(result) == PEN_OK) {
        transfer_answered(client, job);
    }
    transfer_forget(client, job);
    pending_remove(&client->pending, job);
    client->counters.jobs_ended++;
    check_counts(client);
    result_round_trip(result, now_us - job->submitted_us);
    job_answer(job, result);
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
    PEN_ASSERT(job->state == JOB_ENDED && client->finished_count > 0, "a callback is run of a job that has ended");
    client->finished = job->finished_next;
    client->finished_count--;
    if (!client->finished) {
        client->finished_tail = &client->finished;
        client->finished_any = false;
        finish_hush(client);
    }
    check_finished(client);
    return job;
}
