/* bandwidth.c - a mean that each measurement moves by an eighth, and that fades. */
#include "bandwidth.h"

#define KIB_NS_MIN 16u         /* 64 GB/s */
#define KIB_NS_MAX 1000000000u /* a second for each KiB */

static uint64_t kib_ns(const struct bandwidth *bandwidth, uint64_t now_us)
{
    if (bandwidth->kib_ns == 0)
        return BANDWIDTH_DEFAULT;
    uint64_t halves = now_us > bandwidth->learnt_us ? (now_us - bandwidth->learnt_us) / BANDWIDTH_FADE_US : 0;
    if (halves > 40)
        return BANDWIDTH_DEFAULT;
    return bandwidth->kib_ns > BANDWIDTH_DEFAULT
               ? BANDWIDTH_DEFAULT + ((bandwidth->kib_ns - BANDWIDTH_DEFAULT) >> halves)
               : BANDWIDTH_DEFAULT - ((BANDWIDTH_DEFAULT - bandwidth->kib_ns) >> halves);
}

void bandwidth_learn(struct bandwidth *bandwidth, size_t bytes, uint64_t us, uint64_t now_us)
{
    if (bytes < BANDWIDTH_BYTES_MIN)
        return;
    uint64_t had = kib_ns(bandwidth, now_us), kib = bytes / 1024;
    uint64_t got = us < UINT64_MAX / 1000 ? us * 1000 / kib : KIB_NS_MAX;
    got = got < KIB_NS_MIN ? KIB_NS_MIN : got > KIB_NS_MAX ? KIB_NS_MAX : got;
    bandwidth->kib_ns = had + got / 8 - had / 8;
    bandwidth->learnt_us = now_us;
}

uint64_t bandwidth_us(const struct bandwidth *bandwidth, size_t bytes, uint64_t now_us)
{
    return bytes / 1024 * kib_ns(bandwidth, now_us) / 1000;
}
