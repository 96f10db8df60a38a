/*
 * deadline.h - monotonic microseconds, and deadlines, which messages carry as the remaining time because clocks of two
 * hosts never agree.
 * Threads: any.
 */
#ifndef DEADLINE_H
#define DEADLINE_H

#include <stdint.h>

#define DEADLINE_NONE UINT64_MAX

uint64_t clock_now_us(void);  /* CLOCK_MONOTONIC */
uint64_t clock_unix_us(void); /* since 1970; for people to read, never for measuring */

/* remaining_us of the wire (0 = none) -> absolute local time, saturating. */
uint64_t deadline_at(uint64_t now_us, uint64_t remaining_us);
/* absolute -> what to put on the wire: 0 for none, at least 1 when it is (nearly) over. */
uint64_t deadline_remaining(uint64_t now_us, uint64_t deadline_us);

#endif
