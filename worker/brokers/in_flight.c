/* in_flight.c - a list: a worker holds a few dispatches, at most 64 jobs each. */
#include "in_flight.h"

void in_flight_init(struct in_flight *in_flight, size_t limit_jobs, size_t limit_bytes)
{
    *in_flight = (struct in_flight){.limit_jobs = limit_jobs, .limit_bytes = limit_bytes};
}

void in_flight_fini(struct in_flight *in_flight)
{
    for (struct dispatch *d = in_flight->first, *next; d; d = next) {
        next = d->next;
        dispatch_free(d);
    }
    *in_flight = (struct in_flight){0};
}

enum pen_status in_flight_add(struct in_flight *in_flight, struct dispatch *dispatch, struct pen_error *reterr)
{
    bool too_many = dispatch->jobs_count > in_flight->limit_jobs - in_flight->jobs;
    bool too_big = in_flight->dispatches > 0 && dispatch->bytes > in_flight->limit_bytes - in_flight->bytes;
    if (dispatch->bytes > in_flight->limit_bytes)
        return pen_error_set(
            reterr, PEN_ERR_BUSY,
            "%zu bytes of jobs are more than this worker takes at a time: %zu, a part of its memory limit "
            "(--memory-limit, or its control group's); send less in a job, or give it more memory",
            dispatch->bytes, in_flight->limit_bytes);
    if (too_many || too_big)
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "this worker holds %zu jobs of %zu bytes: it takes at most %zu and %zu", in_flight->jobs,
                             in_flight->bytes, in_flight->limit_jobs, in_flight->limit_bytes);
    dispatch->next = NULL;
    dispatch->previous = in_flight->last;
    *(in_flight->last ? &in_flight->last->next : &in_flight->first) = dispatch;
    in_flight->last = dispatch;
    in_flight->dispatches++;
    in_flight->jobs += dispatch->jobs_count;
    in_flight->bytes += dispatch->bytes;
    return PEN_OK;
}

void in_flight_remove(struct in_flight *in_flight, struct dispatch *dispatch)
{
    *(dispatch->previous ? &dispatch->previous->next : &in_flight->first) = dispatch->next;
    *(dispatch->next ? &dispatch->next->previous : &in_flight->last) = dispatch->previous;
    in_flight->dispatches--;
    in_flight->jobs -= dispatch->jobs_count;
    in_flight->bytes -= dispatch->bytes;
}

struct job *in_flight_find(const struct in_flight *in_flight, struct job_id id, struct dispatch **ret_dispatch)
{
    for (struct dispatch *d = in_flight->last; d; d = d->previous)
        for (size_t i = 0; i < d->jobs_count; i++) {
            struct job *job = &d->jobs[i];
            if (job_id_equal(job->env.job, id) && atomic_load(&job->state) != JOB_ANSWERED) {
                *ret_dispatch = d;
                return job;
            }
        }
    return NULL;
}
