/*
 * ledger.h - many jobs at once, each answered exactly once and with its own answer.
 *
 * The ledger sends images of the test split with the cache off, keeps a window of them under way, and notes every answer: how often, with
 * which status, and whether the probabilities are those that the image gave when nothing was wrong (a mix-up inside a batch shows here).
 *
 * Threads: owner - the test's main thread.
 */
#ifndef SUPPORT_LEDGER_H
#define SUPPORT_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "digits.h"

struct ledger;

struct ledger_sums {
    size_t submitted;
    size_t answered;     /* with a result */
    size_t refused;      /* with a typed error */
    size_t twice;        /* answered more than once */
    size_t wrong;        /* answered with another image's probabilities */
    size_t rerun;        /* answers with attempts > 1 */
    uint64_t slowest_us; /* round trip */
    enum pen_status last_refusal;
    char last_sentence[256];
};

/* Learns what each image gives (one pass over the test split), then is ready for `jobs_max` jobs. Borrows client and digits. */
struct ledger *ledger_new(pen_client *client, const struct digits *digits, size_t jobs_max);
void ledger_free(struct ledger *ledger);

/* Submits until `jobs` are submitted in all, never more than `window` under way, and handles answers as they come. */
void ledger_submit(struct ledger *ledger, size_t jobs, size_t window);
/* Handles answers until none is under way or the time is up. */
void ledger_settle(struct ledger *ledger, int timeout_ms);
struct ledger_sums ledger_sums(const struct ledger *ledger);
void ledger_forget_slowest(struct ledger *ledger); /* slowest_us counts from here */
/* Fails the test unless all submitted jobs were answered once and rightly. */
void ledger_check(const struct ledger *ledger);

#endif
