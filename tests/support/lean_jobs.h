/*
 * lean_jobs.h - jobs of every kind, for tests in which allocations fail: each is submitted once, waited for, and its end is noted.
 *
 * Threads: owner - the test's main thread. Nothing here allocates while jobs run: what fails belongs to the code under test.
 */
#ifndef SUPPORT_LEAN_JOBS_H
#define SUPPORT_LEAN_JOBS_H

#include <stddef.h>

#include "penstock/client.h"

#define LEAN_BROKER_SEALED "0"     /* --sealed-from: all large jobs are to go in chunks */
#define LEAN_BROKER_BULK   "64KiB" /* --bulk-from of the broker: the large jobs below go in chunks */

struct lean_tally {
    unsigned submitted, refused; /* jobs; refused at once, by the client itself */
    unsigned ended[PEN_STATUS_COUNT];
    unsigned lost;       /* of the submitted: no end within 60 s (PENSTOCK_SLOW) */
    unsigned twice;      /* callbacks or releases that came more than once, or not at all */
    unsigned wrong;      /* ended with PEN_OK, and not with what the model makes of the inputs */
    enum pen_status odd; /* a status that none of these may end with, PEN_OK: there was none */
    char sentence[256];  /* of that one */
};

/* Writes the models into the folder: "wide" (any size, whole), "many" (in batches), "adder" (with state). */
void lean_models(const char *folder);

/*
 * Submits and waits for all: small, cached and alike, several at once, large in chunks, borrowed, ordered, of a sequence, cancelled, with an explanation. detached: also
 * one that is left and fetched by a subscription. `seed` makes the payloads unlike those of other calls. Adds to the tally.
 */
void lean_jobs(pen_client *client, unsigned seed, bool detached, struct lean_tally *tally);

/* One small job; PEN_OK once it is answered rightly. For: all is well again. */
enum pen_status lean_job_one(pen_client *client, const char *model, unsigned seed);

#endif
