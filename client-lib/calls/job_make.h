/*
 * job_make.h - a job from the options of a caller, who may have been built against an older header.
 *
 * Threads: any.
 */
#ifndef JOB_MAKE_H
#define JOB_MAKE_H

#include "job_new.h"

enum job_reader {
    JOB_READ_BY_HANDLE,   /* the caller keeps a handle: it may have a callback as well */
    JOB_READ_BY_CALLBACK, /* nobody keeps a handle */
};

/* A job that is not enqueued yet, for pen_client_submit(). */
enum pen_status job_make(struct pen_client *client, const struct pen_job_options *options, enum job_reader reader,
                         struct pen_job **ret_job, struct pen_error *reterr);
/* The same for pen_client_run(): its inputs stay the caller's memory, and it has no callback. */
enum pen_status job_make_to_run(struct pen_client *client, const struct pen_job_options *options,
                                struct pen_job **ret_job, struct pen_error *reterr);
/* It was not enqueued: nothing has happened, so that `release` is not called. */
void job_unmake(struct pen_job *job);

#endif
