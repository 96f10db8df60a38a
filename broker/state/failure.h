/*
 * failure.h - models that a worker has on disk but does not serve in their present form, each with the worker's
 * sentence.
 *
 * A worker's last list counts until the worker leaves. Texts are borrowed from its hello or update; they were cut and
 * cleaned there.
 * Threads: owner.
 */
#ifndef FAILURE_H
#define FAILURE_H

#include "fleet.h"

#define FAILURES_MAX       64u /* per worker; the same as in proto/worker.proto */
#define FAILURE_NAME_BYTES 255u
#define FAILURE_TEXT_BYTES 512u
#define FAILURES_LISTED    512u /* of all workers together, in an answer or a snapshot */

/* Replaces the worker's list: at most FAILURES_MAX of `list`; `count` is the number in all. A failure without a status
   is INTERNAL, one without a sentence gets one. */
void failures_take(struct worker *worker, Penstock__ModelFailure **list, size_t listed, uint32_t count);

/*
 * Why nobody serves the model: the failure with that name, and with that version unless it is 0, of the worker that
 * came first. A failure of a model that is still served in an older form is taken only when there is no other. NULL =
 * no worker has it.
 */
const Penstock__ModelFailure *failure_find(const struct fleet *fleet, const char *name, uint64_t version,
                                           const struct worker **ret_worker);
/* "; worker w1 could not load it: SENTENCE" in `text`; "" when no worker has it. */
const char *failure_text(const struct fleet *fleet, const char *name, uint64_t version, char *text, size_t bytes);

#endif
