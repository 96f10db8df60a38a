/* run.c - a job in the blocking style: the caller's thread sends it, waits, and takes the result; its inputs are never copied. */
#include <time.h>

#include "deadline.h"
#include "drive.h"
#include "enqueue.h"
#include "job_make.h"
#include "result.h"

#define SENT_GRACE_US 2000u /* after the answer ZeroMQ drops its last references within microseconds */

/*
 * Borrowed inputs must be nobody's when run() returns. After an answer they are: the answer followed the bytes. After a deadline or
 * cancellation they may lie unsent in the socket; a new connection drops them (the other jobs are sent again under their ids).
 */
static void borrowed_back(struct pen_client *c, struct payload *payload)
{
    static const struct timespec nap = {.tv_nsec = 100000};
    uint64_t patience = clock_now_us() + SENT_GRACE_US;
    while (payload && !payload_alone(payload)) {
        if (clock_now_us() > patience) {
            pthread_mutex_lock(&c->lock);
            patience = drive_drop_unsent(c) ? DEADLINE_NONE : clock_now_us() + SENT_GRACE_US;
            pthread_mutex_unlock(&c->lock);
        }
        nanosleep(&nap, NULL);
    }
    payload_drop(payload);
}

/* *ret_result: what the job ended with, whatever its status; only where it was enqueued. */
static enum pen_status run_to_end(struct pen_client *c, struct pen_job *job, struct pen_result **ret_result,
                                  struct pen_error *reterr)
{
    pthread_mutex_lock(&c->lock);
    enum pen_status status = enqueue_jobs(c, &job, 1, reterr);
    if (status == PEN_OK) {
        if (c->driving) {
            drive_kick(c);
        }
        drive_until(c, &job->ended, DEADLINE_NONE);
        *ret_result = job_take_result(job);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

enum pen_status pen_client_run(pen_client *c, const struct pen_job_options *options, pen_result **ret_result,
                               struct pen_error *reterr)
{
    struct pen_job *job = NULL;
    struct pen_result *result = NULL;
    enum pen_status status = job_make_to_run(c, options, &job, reterr);
    if (status != PEN_OK) {
        return status;
    }
    struct payload *payload = payload_retain(job->payload);
    status = run_to_end(c, job, &result, reterr);
    job_release(job);
    if (!result) {
        payload_drop(payload);
        return status;
    }
    borrowed_back(c, payload);
    status = pen_result_status(result);
    if (status == PEN_OK) {
        *ret_result = result;
    } else {
        pen_error_set(reterr, status, "%s", pen_result_error(result));
        pen_result_free(result);
    }
    return status;
}
