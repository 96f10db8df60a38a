/*
 * streams.h - detached jobs in Redis: a hash per job, a stream of waiting jobs per model, and one consumer group for
 * all brokers.
 *
 * A thread of its own talks to Redis, so that nothing Redis does can stall the loop. A job that this broker has taken
 * from a stream is its own until the job is done or given back. When the broker does not renew it within the lease,
 * another broker claims it. What the scripts do: streams_script.h.
 * Threads: owner.
 */
#ifndef STREAMS_H
#define STREAMS_H

#include "note.h"
#include "redis_place.h"

struct streams_options {
    struct redis_place place;
    char namespace[128]; /* prefix of all keys */
    uint64_t lease_us;
    uint64_t jobs_max, bytes_max; /* limits for all brokers together */
    uint64_t broker_uuid;
};

struct streams;
enum pen_status streams_new(const struct streams_options *options, struct streams **ret_streams,
                            struct pen_error *reterr);
/* Hands over the notes that were sent before, and waits for the thread: at most its time-outs. NULL is fine. */
void streams_free(struct streams *streams);

void streams_send(struct streams *streams, struct note *note); /* takes it */
struct note *streams_receive(struct streams *streams);         /* gives it; NULL = none */
int streams_descriptor(const struct streams *streams);         /* readable when there is something to receive */

#endif
