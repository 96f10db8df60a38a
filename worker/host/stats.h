/*
 * stats.h - what this worker has done: the numbers of its heartbeats. Threads: any (atomics).
 */
#ifndef STATS_H
#define STATS_H

#include <stdatomic.h>
#include <stdint.h>

struct stats {
    atomic_uint_fast64_t jobs_done, jobs_failed, jobs_cancelled, jobs_expired;
    atomic_uint_fast64_t batches, compute_us;
    atomic_uint_fast64_t runs_ahead;       /* begun on a device that had one of the slot's already */
    atomic_uint_fast64_t prepared;         /* shapes made ready while jobs waited: 0 where warm-up declared them all */
    atomic_uint_fast64_t rows_filled;      /* run beside those asked for, to meet a size that is ready */
    atomic_uint_fast64_t busy_waits;       /* of the network thread, before it slept */
    atomic_uint_fast64_t messages_dropped; /* from the broker, senseless */
};

uint64_t stats_rss_bytes(void); /* of this process; 0 where /proc is missing */

#endif
