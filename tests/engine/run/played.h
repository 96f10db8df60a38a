/*
 * played.h - a device that the test plays: it takes Neg and no other operator, computes when it is waited for, and has a window of three. Behind it stands the reference:
 * these two are the backends of a program that is linked with --wrap=backend_table and --wrap=backend_find.
 *
 * Threads: one-at-a-time.
 */
#ifndef TEST_PLAYED_H
#define TEST_PLAYED_H

#include "backend/backend.h"

#define PLAYED_WINDOW 3

struct backend {
    int unused;
};

/* What is called is noted in letters: n exec_new, s submit, w wait, d done, k keep, r read, f free of a kept value; a capital S or W failed. */
struct played {
    char calls[256];
    size_t count;
    bool slow;                    /* nothing is ever done in time */
    enum pen_status submit, wait; /* what the next one gives */
    bool compare;                 /* engines that are opened compare each node with the reference */
    float off[2];                 /* added to the first results: it computes wrongly */
    uint64_t exec_bytes, timeout_ns;
    unsigned plans, execs, kept, bound;
    struct backend backend;
};
extern struct played played;
/* Expects these letters since the last time, and begins anew. */
void played_calls_are(const char *calls);

#endif
