/*
 * bandwidth.h - how fast payloads get to a worker and back: learnt from what was sent, so that a large job is not sent over a thin line when a near worker
 * would have it done.
 *
 * Time on the way = time away - time in the worker, by the broker's clock alone. Only payloads of BANDWIDTH_BYTES_MIN or more teach: below that it is the broker's
 * and the scheduler's own time that is seen. What is not measured again fades to what everybody is given at first: a line may have been busy.
 * Threads: owner - the broker's loop.
 */
#ifndef BANDWIDTH_H
#define BANDWIDTH_H

#include <stddef.h>
#include <stdint.h>

#define BANDWIDTH_BYTES_MIN (64u * 1024u)
#define BANDWIDTH_DEFAULT   1024u     /* ns for each KiB: loopback and 10 Gbit/s alike, within a factor of two */
#define BANDWIDTH_FADE_US   10000000u /* half of what was learnt is forgotten in so long */

/* All zero: nothing is known. */
struct bandwidth {
    uint64_t kib_ns, learnt_us;
};

void bandwidth_learn(struct bandwidth *bandwidth, size_t bytes, uint64_t us, uint64_t now_us);
/* Expected time of so many bytes. */
uint64_t bandwidth_us(const struct bandwidth *bandwidth, size_t bytes, uint64_t now_us);

#endif
