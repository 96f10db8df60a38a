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
    atomic_uint_fast64_t joined;              /* decoded jobs that a slot took together with others */
    atomic_uint_fast64_t pictures, decode_us; /* decoded for jobs, and the time of the threads that did it */
    atomic_uint_fast64_t runs_ahead;  /* runs begun on a device that was still busy with another run of the same slot */
    atomic_uint_fast64_t prepared;    /* shapes prepared while jobs waited; 0 when warm-up declared all of them */
    atomic_uint_fast64_t rows_filled; /* filling rows, run to reach a batch size that is ready */
    atomic_uint_fast64_t busy_waits;  /* busy waits of the network thread before it slept */
    atomic_uint_fast64_t messages_dropped; /* malformed messages from brokers */
};

uint64_t stats_rss_bytes(void); /* of this process; 0 where /proc is missing */

#endif
