/*
 * load_record.h - writes down when the pool's jobs arrive, as its broker tells.
 *
 * Threads: owner.
 */
#ifndef LOAD_RECORD_H
#define LOAD_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "penstock/client.h"

struct record_plan {
    pen_client *client;
    const char *file, *model; /* model: only its arrivals; NULL = all */
    int64_t duration_us, bytes_max, timeout_us;
    bool progress; /* a line on stderr each second */
};

struct record_report {
    uint64_t written, missed, turned; /* missed: the broker had forgotten them before they were fetched */
    uint64_t elapsed_us;
};

/* Records until the time is over or SIGINT or SIGTERM comes. What was recorded until a failure is in the file. */
enum pen_status load_record(const struct record_plan *plan, struct record_report *ret_report, struct pen_error *reterr);

#endif
