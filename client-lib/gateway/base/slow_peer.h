/*
 * slow_peer.h - the slowest that a peer may send or read: 16 KiB a second, after ten seconds.
 * Threads: any.
 */
#ifndef SLOW_PEER_H
#define SLOW_PEER_H

#include <stdbool.h>
#include <stdint.h>

#define SLOW_PEER_BYTES 16384u /* a second */
#define SLOW_PEER_US    10000000u

/* Did only so many bytes pass in that time? */
static inline bool peer_is_slow(uint64_t spent_us, uint64_t bytes)
{
    return spent_us > SLOW_PEER_US + bytes * 1000000u / SLOW_PEER_BYTES;
}

#endif
