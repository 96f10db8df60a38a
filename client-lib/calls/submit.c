/* submit.c - jobs that run while the caller goes on: one, or many at once. */
#include <stdlib.h>

#include "drive.h"
#include "enqueue.h"
#include "job_make.h"
#include "words.h"

/* Who hears of the end of a job: a caller without a place for its handle has only the callback. */
static enum job_reader reader_of(struct pen_job **ret_job)
{
    return ret_job ? JOB_READ_BY_HANDLE : JOB_READ_BY_CALLBACK;
}

static enum pen_status enqueue(struct pen_client *c, struct pen_job *const *jobs, size_t count,
                               struct pen_error *reterr)
{
    pthread_mutex_lock(&c->lock);
    enum pen_status status = enqueue_jobs(c, jobs, count, reterr);
    if (status == PEN_OK) {
        drive_kick(c);
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* Who is to have the job: nobody when it was not enqueued, its caller when there is a place for the handle, else its callback. */
static void hand_over(struct pen_job *job, enum pen_status status, struct pen_job **ret_job)
{
    if (status != PEN_OK) {
        job_unmake(job);
    } else if (ret_job) {
        *ret_job = job;
    } else {
        job_release(job);
    }
}

enum pen_status pen_client_submit(pen_client *c, const struct pen_job_options *options, pen_job **ret_job,
                                  struct pen_error *reterr)
{
    struct pen_job *job = NULL;
    enum pen_status status = job_make(c, options, reader_of(ret_job), &job, reterr);
    if (status != PEN_OK) {
        return status;
    }
    status = enqueue(c, &job, 1, reterr);
    hand_over(job, status, ret_job);
    return status;
}

/* The array is walked in steps of its first element's size. */
static enum pen_status same_size(const struct pen_job_options *first, const struct pen_job_options *one,
                                 struct pen_error *reterr)
{
    if (one->struct_bytes == first->struct_bytes) {
        return PEN_OK;
    }
    return pen_error_set(reterr, PEN_ERR_INVALID, "its options have struct_bytes %zu, those of job 0 have %zu.",
                         one->struct_bytes, first->struct_bytes);
}

/* As many as could be made are the caller's, also when one could not. */
static enum pen_status make_all(struct pen_client *c, const struct pen_job_options *options, size_t count,
                                enum job_reader reader, struct pen_job **jobs, size_t *ret_made,
                                struct pen_error *reterr)
{
    struct pen_error error = {.status = PEN_OK, .text = ""};
    for (size_t i = 0; i < count; i++) {
        const void *one = (const char *)options + i * options->struct_bytes;
        enum pen_status status = same_size(options, one, &error);
        status = status == PEN_OK ? job_make(c, one, reader, &jobs[i], &error) : status;
        if (status != PEN_OK) {
            return pen_error_set(reterr, status, "job %zu of %zu: %.400s", i, count, error.text);
        }
        *ret_made = i + 1;
    }
    return PEN_OK;
}

enum pen_status pen_client_submit_many(pen_client *c, const struct pen_job_options *options, size_t count,
                                       pen_job **ret_jobs, struct pen_error *reterr)
{
    size_t made = 0;
    if (count == 0 || count > PEN_SUBMIT_MANY_MAX) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "%zu jobs at once; 1 to %d are allowed.", count,
                             PEN_SUBMIT_MANY_MAX);
    }
    if (!options || options->struct_bytes == 0) {
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "no options, or their struct_bytes is 0; begin with pen_job_options_init().");
    }
    struct pen_job **jobs = calloc(count, sizeof *jobs);
    if (!jobs) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %zu jobs.", count);
    }
    enum pen_status status = make_all(c, options, count, reader_of(ret_jobs), jobs, &made, reterr);
    status = status == PEN_OK ? enqueue(c, jobs, count, reterr) : status;
    for (size_t i = 0; i < made; i++) {
        hand_over(jobs[i], status, ret_jobs ? &ret_jobs[i] : NULL);
    }
    free(jobs);
    return status;
}
