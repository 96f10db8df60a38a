/*
 * logline_rate.h - limits log lines per event: counts them and says which ones to leave out. Only logline.c and tests
 * include this.
 *
 * Threads: one-at-a-time.
 */
#ifndef LOGLINE_RATE_H
#define LOGLINE_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_RATE_LINES      20u /* per event and window */
#define LOG_RATE_WINDOW_US  1000000u
#define LOG_RATE_EVENTS     128u /* event names that are counted; further ones are never limited */
#define LOG_RATE_NAME_BYTES 40u

struct log_rate {
    struct log_rate_slot {
        char evt[LOG_RATE_NAME_BYTES];
        uint64_t window_us; /* start */
        uint32_t lines, suppressed;
        int level; /* of the last suppressed line */
    } slots[LOG_RATE_EVENTS];
    uint32_t suppressing; /* slots with suppressed > 0 */
};

/* True when this line may be written; otherwise it was counted as suppressed. */
bool log_rate_admit(struct log_rate *rate, const char *evt, int level, uint64_t now_us);

/* Gives the count of one event whose window is over (or of any event, when `all`), and forgets it; false when there
   is none. */
bool log_rate_report(struct log_rate *rate, uint64_t now_us, bool all, struct log_rate_slot *ret_slot);

#endif
