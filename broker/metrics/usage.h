/*
 * usage.h - what each tenant has used of each model, hour by hour: for bills and quotas.
 *
 * An account is a tenant's row of the metrics together with a model's row, so beyond their caps it is "other". Its
 * counts of the hour under way are written by the loop, one addition each. When the hour is over they become a row of
 * the past. The past has a cap: the oldest rows go, and usage_since_hour tells it. A job counts in the hour in which it
 * ends, its request in the hour in which it was admitted.
 * Threads: owner.
 */
#ifndef USAGE_H
#define USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USAGE_ROWS_MAX 16384u /* of the past */

/* jobs = ok + failed + cancelled; ok = computed + cached + coalesced, and the jobs whose steps were computed. */
#define USAGE_COUNTS(X)                                                                                                \
    X(jobs) X(ok) X(failed) X(cancelled) X(computed) X(cached) X(coalesced) X(device_us) X(bytes_in) X(bytes_out)

struct usage_counts {
#define X(name) uint64_t name;
    USAGE_COUNTS(X)
#undef X
};

struct usage_account {
    uint16_t tenant, model;          /* rows of the metrics */
    struct usage_counts hour, saved; /* of the hour under way; those of them that were handed to the file */
};

struct usage_row {
    uint32_t hour; /* since 1970 */
    uint32_t account;
    struct usage_counts counts;
};

struct usage {
    uint32_t hour, since_hour; /* the hour under way; the first of which every row is here */
    struct usage_account *accounts;
    uint32_t accounts_count, accounts_room;
    struct usage_row *rows; /* oldest first */
    uint32_t rows_count, rows_room;
    uint16_t *account_of; /* [tenants][models]: index + 1; 0 = none yet */
};

struct usage *usage_new(void); /* NULL without memory */
void usage_free(struct usage *usage);

/* The counts of the hour under way; of account 0, "other" and "other", when there is no memory for a new account. */
struct usage_counts *usage_of(struct usage *usage, uint32_t tenant, uint32_t model);

/* The hour by the system's clock, since 1970. A new hour makes rows of the past out of the old hour's counts. */
void usage_turn(struct usage *usage, uint32_t hour);

void usage_add(struct usage_counts *to, const struct usage_counts *from);
struct usage_counts usage_minus(const struct usage_counts *from, const struct usage_counts *what);
bool usage_none(const struct usage_counts *counts); /* all are 0 */

#endif
