/*
 * failures.h - models that are on disk and not served as their files say now, each with its sentence: what brokers are told of them.
 *
 * A look at the folder finds some by itself (a wrong config.json, a folder without a model), loading finds the others. One per name and version; it
 * goes when the model is served, when the next look does not find it again, or when the version is no longer wanted.
 * Ownership: copies all texts. Threads: one-at-a-time - who builds the catalog, then the watch.
 */
#ifndef FAILURES_H
#define FAILURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "penstock/status.h"

#define FAILURES_MAX       64u  /* further ones are only counted */
#define FAILURE_TEXT_BYTES 512u /* of a sentence that travels */

struct failure {
    char name[CONFIG_NAME_BYTES_MAX + 1];
    uint64_t version; /* 0 = the look came to none */
    uint64_t stamp;   /* of the entry that could not be loaded; 0 = a look said it */
    uint64_t since_unix_us;
    enum pen_status status;
    bool found; /* by the look under way, or before it began */
    char text[FAILURE_TEXT_BYTES + 1];
};

struct failures;

struct failures *failures_new(void); /* NULL without memory: then nothing is kept */
void failures_free(struct failures *failures);

/* All of these take NULL. `name` is cut, a sentence too, between characters. */
void failures_add(struct failures *failures, const char *name, uint64_t version, uint64_t stamp,
                  const struct pen_error *error);
/* It is served; stamp: only if that is what failed, 0 = whatever did. */
void failures_drop(struct failures *failures, const char *name, uint64_t version, uint64_t stamp);

/* A look at the folder begins; behind it goes what it did not add again, and of the rest what `stays` does not want. */
void failures_look(struct failures *failures);
void failures_looked(struct failures *failures, bool (*stays)(const void *context, const struct failure *failure),
                     const void *context);

/* Those that are listed; *ret_all counts those beyond the cap, too. */
const struct failure *failures_list(const struct failures *failures, size_t *ret_count, size_t *ret_all);
/* Another number when anything has changed. */
uint64_t failures_changes(const struct failures *failures);

#endif
