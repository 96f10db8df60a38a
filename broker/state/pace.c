/* pace.c - a mean that strays move by an eighth, and that fades. */
#include "pace.h"

#define KIB_NS_MIN 16u         /* 64 GB/s */
#define KIB_NS_MAX 1000000000u /* a second for each KiB */

static uint64_t kib_ns(const struct pace *pace, uint64_t now_us)
{
    if (pace->kib_ns == 0)
        return PACE_DEFAULT;
    uint64_t halves = now_us > pace->learnt_us ? (now_us - pace->learnt_us) / PACE_FADE_US : 0;
    if (halves > 40)
        return PACE_DEFAULT;
    return pace->kib_ns > PACE_DEFAULT ? PACE_DEFAULT + ((pace->kib_ns - PACE_DEFAULT) >> halves)
                                       : PACE_DEFAULT - ((PACE_DEFAULT - pace->kib_ns) >> halves);
}

void pace_learn(struct pace *pace, size_t bytes, uint64_t us, uint64_t now_us)
{
    if (bytes < PACE_BYTES_MIN)
        return;
    uint64_t had = kib_ns(pace, now_us), kib = bytes / 1024;
    uint64_t got = us < UINT64_MAX / 1000 ? us * 1000 / kib : KIB_NS_MAX;
    got = got < KIB_NS_MIN ? KIB_NS_MIN : got > KIB_NS_MAX ? KIB_NS_MAX : got;
    pace->kib_ns = had + got / 8 - had / 8;
    pace->learnt_us = now_us;
}

uint64_t pace_us(const struct pace *pace, size_t bytes, uint64_t now_us)
{
    return bytes / 1024 * kib_ns(pace, now_us) / 1000;
}
