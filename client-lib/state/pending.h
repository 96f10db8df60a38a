/*
 * pending.h - the jobs a session awaits answers for, in order of their sequence.
 *
 * Each holds one reference to its job. Also knows which have not been sent on the present connection: those from `unsent` on.
 * Threads: under the client's lock.
 */
#ifndef PENDING_H
#define PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pen_job;

#define PENDING_BUCKETS 4096u /* sequences are dense: with up to this many jobs a bucket holds one */

struct pending {
    struct pen_job *oldest, *newest;
    struct pen_job *unsent; /* first one that this connection has not carried; all newer ones neither */
    size_t count;
    uint64_t bytes;            /* of payload */
    uint64_t last_sequence;    /* given so far */
    uint64_t next_deadline_us; /* no job's deadline is earlier; DEADLINE_NONE when none has one */
    struct pen_job *buckets[PENDING_BUCKETS];
};

void pending_init(struct pending *p);

/* Gives the job its sequence and retains it. */
void pending_add(struct pending *p, struct pen_job *job);
struct pen_job *pending_find(const struct pending *p, uint64_t sequence); /* NULL: unknown or answered; borrowed */
void pending_remove(struct pending *p, struct pen_job *job);              /* the caller has its reference then */

/* The connection carries it now: it is the first of those that it had not. */
void pending_sent(struct pending *p, struct pen_job *job);

/* Every result up to and with this sequence is here or no longer wanted. */
uint64_t pending_answered(const struct pending *p);

/* A job whose deadline has passed, else NULL; then next_deadline_us is exact. */
struct pen_job *pending_expired(struct pending *p, uint64_t now_us);

/* After a lost connection: everything is to be sent again. */
void pending_rewind(struct pending *p);

/* The counts and the order are those of its jobs, and this connection has carried those before `unsent` and no other. Looks at each: for checks. */
bool pending_whole(const struct pending *p);

#endif
