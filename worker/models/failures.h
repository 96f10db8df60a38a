/*
 * failures.h - models that are on disk but not served in their present form, each with its sentence, for the brokers.
 *
 * A look at the folder finds some of them (a wrong config.json, a folder without a model); loading finds the others.
 * There is one failure per name and version. It is removed when the model is served, when the next look does not find
 * it again, or when the version is no longer wanted.
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
#define FAILURE_TEXT_BYTES 512u /* limit for a sentence that is sent */

struct failure {
    char name[CONFIG_NAME_BYTES_MAX + 1];
    uint64_t version; /* 0 = no version was found yet */
    uint64_t stamp;   /* of the entry that could not be loaded; 0 = a look found the failure */
    uint64_t since_unix_us;
    enum pen_status status;
    bool found; /* found by the present look, or added before it began */
    char text[FAILURE_TEXT_BYTES + 1];
};

struct failures;

struct failures *failures_new(void); /* NULL without memory: failures are then not kept */
void failures_free(struct failures *failures);

/* All of these accept NULL. A long `name` or sentence is cut between characters. The error has a status and a
   sentence. */
void failures_add(struct failures *failures, const char *name, uint64_t version, uint64_t stamp,
                  const struct pen_error *error);
/* The model is served. stamp: drop the failure only if it has this stamp; 0 = drop any. */
void failures_drop(struct failures *failures, const char *name, uint64_t version, uint64_t stamp);

/* A look at the folder begins. At its end the failures that it did not add again are dropped, and of the others
   those that `stays` rejects. */
void failures_look(struct failures *failures);
void failures_looked(struct failures *failures, bool (*stays)(const void *context, const struct failure *failure),
                     const void *context);

/* The listed failures; *ret_all also counts those beyond the cap. */
const struct failure *failures_list(const struct failures *failures, size_t *ret_count, size_t *ret_all);
/* A number that changes with each change of the list. */
uint64_t failures_changes(const struct failures *failures);

#endif
