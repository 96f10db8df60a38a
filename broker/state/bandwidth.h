/*
 * bandwidth.h - how fast payloads travel to a worker and back, learnt from jobs that were sent, so that a large job is
 * not sent over a slow line when a nearer worker would be done earlier.
 *
 * Time on the way = time away - time in the worker, by the broker's clock alone. Only payloads of BANDWIDTH_BYTES_MIN
 * or more are measured: with smaller ones the broker's and the system scheduler's own time dominates. A measurement
 * that is not repeated fades back to the default, because the line may only have been busy.
 * Threads: owner - the broker's loop.
 */
#ifndef BANDWIDTH_H
#define BANDWIDTH_H

#include <stddef.h>
#include <stdint.h>

#define BANDWIDTH_BYTES_MIN (64u * 1024u)
#define BANDWIDTH_DEFAULT   1024u     /* ns for each KiB: loopback and 10 Gbit/s alike, within a factor of two */
#define BANDWIDTH_FADE_US   10000000u /* after so long, half of what was learnt is forgotten */

/* All zero: nothing is known. */
struct bandwidth {
    uint64_t kib_ns, learnt_us;
};

void bandwidth_learn(struct bandwidth *bandwidth, size_t bytes, uint64_t us, uint64_t now_us);
/* Expected time of so many bytes. */
uint64_t bandwidth_us(const struct bandwidth *bandwidth, size_t bytes, uint64_t now_us);

#endif
