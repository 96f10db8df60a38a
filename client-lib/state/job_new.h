/*
 * job_new.h - a job from what the caller says: checked, packed once, with its inputs copied or borrowed and its digest computed.
 *
 * Threads: any.
 */
#ifndef JOB_NEW_H
#define JOB_NEW_H

#include "job.h"

enum job_inputs {
    JOB_INPUTS_COPIED,
    JOB_INPUTS_BORROWED, /* large ones stay the caller's memory */
};

struct job_order {
    const struct pen_job_options *options;
    const char *tenant; /* NULL: the default one */
    enum job_inputs inputs;
    void (*release)(void *arg); /* of borrowed inputs: tells when nobody reads them; NULL: nobody wants to know */
    void *release_arg;
    enum digest_kind digest_kind;
    uint64_t sealed_from; /* inputs of more bytes are copied into sealed memory: the broker is on this host; 0 = none */
};

/* One reference for the caller; the job id is not yet set. INVALID, TOO_LARGE or NO_MEMORY with a sentence; `release` is not called then. */
enum pen_status job_new(struct pen_client *client, const struct job_order *order, struct pen_job **ret_job,
                        struct pen_error *reterr);

#endif
