/*
 * job.h - a submitted job: its packed request, kept for sending again, its states, and its result once it has ended.
 *
 * Shared by the caller's handle and by pending.h while unanswered. job_new.h makes one.
 * Threads: retain and release: any; the rest under the client's lock.
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

#define JOB_AFTER_BYTES 9u             /* at the end of the packed request of a job of a sequence: job_follow() */
#define JOB_ARENA_BYTES (512u * 1024u) /* to compute a digest */

enum job_state {
    JOB_MADE,     /* packed; it has no sequence yet */
    JOB_WAITS,    /* this connection has not carried it */
    JOB_SENT,     /* this connection has */
    JOB_HELD,     /* refused by a broker that is about to end: it is sent to the next one */
    JOB_ANSWERED, /* its result is here, and is told when its turn comes */
    JOB_ENDED,    /* told: its waiter sees it, its callback is to run */
    JOB_TAKEN,    /* its result was given away, or nobody wanted it */
    JOB_STATE_COUNT
};

struct pen_job {
    atomic_uint references;
    struct pen_client *client; /* retained */
    struct envelope env;       /* everything but type, RESENT flag and the remaining deadline */
    uint64_t submitted_us;
    uint64_t deadline_us; /* absolute; DEADLINE_NONE */
    int digest_kind;      /* of env.digest; -1: none wanted */
    bool labelled;        /* its version is the one that carries a label */
    bool needs;           /* it demands flags of its worker */
    bool contract;        /* it states a bound on its error, or f32-exact */
    bool ordered;         /* told in the order of submission */
    pen_job_callback callback;
    void *callback_arg;
    struct payload *payload; /* raw inputs; NULL when all are in the meta */
    size_t payload_bytes;    /* of all inputs, for the client's limit */
    size_t frames_count;
    struct raw_frame frames[FRAME_MAX_TENSORS];

    enum job_state state;             /* job_enter() alone writes it, and `ended` */
    bool ended;                       /* JOB_ENDED or later: what a waiter looks at */
    bool cancel;                      /* wanted, not sent yet */
    bool cancelled;                   /* wanted at all */
    bool abandoned;                   /* no handle: drop the result */
    uint64_t hold_us, hold_expect_us; /* when the broker said that it waits for its model, and for how long */
    enum pen_hold_reason hold;
    uint32_t sends; /* connections that carried it */
    struct pen_result *result;
    struct pen_job *older, *newer; /* pending, by sequence */
    struct pen_job *bucket_next;   /* pending, by hash */
    struct pen_job *finished_next; /* ended, waiting for its callback */
    struct pen_job *ordered_next;  /* ordered, not told yet, by sequence */

    size_t meta_bytes;
    uint8_t meta[]; /* packed JobMeta */
};

struct pen_job *job_retain(struct pen_job *job);
void job_release(struct pen_job *job); /* NULL is fine */

/* Goes to that state, which must be one of those that may follow. */
void job_enter(struct pen_job *job, enum job_state state);
/* It awaits its answer: JOB_WAITS, JOB_SENT or JOB_HELD. */
bool job_pending(const struct pen_job *job);
/* Its result is here: given. The inputs are no longer needed. */
void job_answer(struct pen_job *job, struct pen_result *result);
/* The result of an ended job goes to the caller, who frees it. */
struct pen_result *job_take_result(struct pen_job *job);

/* Writes into the packed request which job comes before it in its sequence. Of a job without a sequence: nothing. */
void job_follow(struct pen_job *job, uint64_t before);
/* Computes the request digest again with another hash, from the packed request. */
enum pen_status job_digest(struct pen_job *job, enum digest_kind kind);
void job_digest_set(struct pen_job *job, enum digest_kind kind, struct digest digest);

#endif
