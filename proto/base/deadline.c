/* deadline.c - the monotonic clock, and remaining times to and from absolute local time. */
#include "deadline.h"

#include <time.h>

uint64_t clock_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint64_t clock_unix_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

uint64_t deadline_at(uint64_t now_us, uint64_t remaining_us)
{
    if (remaining_us == 0 || remaining_us > DEADLINE_NONE - now_us)
        return DEADLINE_NONE;
    return now_us + remaining_us;
}

uint64_t deadline_remaining(uint64_t now_us, uint64_t deadline_us)
{
    if (deadline_us == DEADLINE_NONE)
        return 0;
    return deadline_us > now_us ? deadline_us - now_us : 1;
}
