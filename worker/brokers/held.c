/* held.c - a list: a worker holds a few dispatches, at most 64 jobs each. */
#include "held.h"

void held_init(struct held *held, size_t limit_jobs, size_t limit_bytes)
{
    *held = (struct held){.limit_jobs = limit_jobs, .limit_bytes = limit_bytes};
}

void held_fini(struct held *held)
{
    for (struct dispatch *d = held->first, *next; d; d = next) {
        next = d->next;
        dispatch_free(d);
    }
    *held = (struct held){0};
}

enum pen_status held_add(struct held *held, struct dispatch *dispatch, struct pen_error *reterr)
{
    bool too_many = dispatch->jobs_count > held->limit_jobs - held->jobs;
    bool too_big = held->dispatches > 0 && dispatch->bytes > held->limit_bytes - held->bytes;
    if (dispatch->bytes > held->limit_bytes)
        return pen_error_set(
            reterr, PEN_ERR_BUSY,
            "%zu bytes of jobs are more than this worker takes at a time: %zu, a part of its memory limit "
            "(--memory-limit, or its control group's); send less in a job, or give it more memory",
            dispatch->bytes, held->limit_bytes);
    if (too_many || too_big)
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "this worker holds %zu jobs of %zu bytes: it takes at most %zu and %zu", held->jobs,
                             held->bytes, held->limit_jobs, held->limit_bytes);
    dispatch->next = NULL;
    dispatch->previous = held->last;
    *(held->last ? &held->last->next : &held->first) = dispatch;
    held->last = dispatch;
    held->dispatches++;
    held->jobs += dispatch->jobs_count;
    held->bytes += dispatch->bytes;
    return PEN_OK;
}

void held_remove(struct held *held, struct dispatch *dispatch)
{
    *(dispatch->previous ? &dispatch->previous->next : &held->first) = dispatch->next;
    *(dispatch->next ? &dispatch->next->previous : &held->last) = dispatch->previous;
    held->dispatches--;
    held->jobs -= dispatch->jobs_count;
    held->bytes -= dispatch->bytes;
}

struct job *held_find(const struct held *held, struct job_id id, struct dispatch **ret_dispatch)
{
    for (struct dispatch *d = held->last; d; d = d->previous)
        for (size_t i = 0; i < d->jobs_count; i++) {
            struct job *job = &d->jobs[i];
            if (job_id_equal(job->env.job, id) && atomic_load(&job->state) != JOB_ANSWERED) {
                *ret_dispatch = d;
                return job;
            }
        }
    return NULL;
}
