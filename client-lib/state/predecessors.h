/*
 * predecessors.h - which job came before under a sequence id, so that each job of a sequence can say it (JobMeta.sequence_after).
 *
 * Known are the PREDECESSORS_MAX ids used last, of each model; a broker lets one client have fewer sequences open.
 * Threads: under the client's lock.
 */
#ifndef PREDECESSORS_H
#define PREDECESSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PREDECESSORS_MAX 8192u

struct predecessor;

/* All zero: none is known. */
struct predecessors {
    struct predecessor **buckets; /* by model and id */
    struct predecessor *oldest, *newest;
    size_t count;
};

void predecessors_fini(struct predecessors *p);

/* Room for one more of these: a predecessors_next() of it then needs no memory, as long as fewer than PREDECESSORS_MAX others come between. False: no memory. */
bool predecessors_reserve(struct predecessors *p, uint64_t model_hash, uint64_t sequence_id);

/* The job's number becomes the newest of its sequence. Returns the one until now; 0 = none is known. */
uint64_t predecessors_next(struct predecessors *p, uint64_t model_hash, uint64_t sequence_id, uint64_t job);

#endif
