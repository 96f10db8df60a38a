/*
 * job.h - a submitted job: its packed request, kept for sending again, and its result once it has ended.
 *
 * Shared by the caller's handle and by pending.h while unanswered. Fields below "state" belong to the client's lock.
 * Threads: job_new: any; retain/release: any; the rest under the client's lock.
 */
#ifndef JOB_H
#define JOB_H

#include <stdatomic.h>
#include <stdbool.h>

#include "digest.h"
#include "frame.h"
#include "payload.h"
#include "penstock/client.h"
#include "tensor_codec.h"

struct pen_job {
    atomic_uint references;
    struct pen_client *client; /* retained */
    struct envelope env;       /* everything but type, RESENT flag and the remaining deadline */
    uint64_t submitted_us;
    uint64_t deadline_us; /* absolute; DEADLINE_NONE */
    int digest_kind;      /* of env.digest; -1: none wanted */
    bool labelled;        /* its version is the one that carries a label */
    pen_job_callback callback;
    void *callback_arg;
    struct payload *payload; /* raw inputs; NULL when all are in the meta */
    size_t payload_bytes;    /* of all inputs, for the client's limit */
    size_t frames_count;
    struct raw_frame frames[FRAME_MAX_TENSORS];

    /* state */
    bool cancel;    /* wanted, not sent yet */
    bool cancelled; /* wanted at all */
    bool ordered;   /* told in the order of submission */
    bool answered;  /* its result is here, and is told when its turn comes */
    bool ended;
    bool taken;     /* its result was given away */
    bool abandoned; /* no handle: drop the result */
    bool held;      /* refused by a broker that is about to end: it is sent to the next one */
    uint32_t sends; /* connections that carried it */
    struct pen_result *result;
    struct pen_job *older, *newer; /* pending, by sequence */
    struct pen_job *bucket_next;   /* pending, by hash */
    struct pen_job *finished_next; /* ended, waiting for its callback */
    struct pen_job *ordered_next;  /* ordered, not told yet, by sequence */

    size_t meta_bytes;
    uint8_t meta[]; /* packed JobMeta */
};

/*
 * Checks and packs. borrow: large inputs stay the caller's memory (release(release_arg) tells when nobody reads them). One reference
 * for the caller; the job id is not yet set.
 */
enum pen_status job_new(struct pen_client *client, const struct pen_job_options *options, bool borrow,
                        void (*release)(void *), void *release_arg, enum digest_kind digest_kind,
                        struct pen_job **ret_job, struct pen_error *reterr);
/* Writes into the packed request which job comes before it in its sequence. Of a job without a sequence: nothing. */
void job_follow(struct pen_job *job, uint64_t before);
struct pen_job *job_retain(struct pen_job *job);
void job_release(struct pen_job *job); /* NULL is fine */

/* Computes the request digest again with another hash, from the packed request. */
enum pen_status job_digest(struct pen_job *job, enum digest_kind kind);

#endif
