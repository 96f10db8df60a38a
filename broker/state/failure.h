/*
 * failure.h - models that workers have on disk and do not serve as they are now, each with the worker's sentence.
 *
 * What a worker said last stands, and goes with it. Texts are borrowed from its hello or update, cut and cleaned there.
 * Threads: owner.
 */
#ifndef FAILURE_H
#define FAILURE_H

#include "fleet.h"

#define FAILURES_MAX       64u /* of a worker; the same as in proto/worker.proto */
#define FAILURE_NAME_BYTES 255u
#define FAILURE_TEXT_BYTES 512u
#define FAILURES_LISTED    512u /* of all workers, in an answer or a snapshot */

/* The worker's word from now on: at most FAILURES_MAX of `list`, `count` in all. */
void failures_take(struct worker *worker, Penstock__ModelFailure **list, size_t listed, uint32_t count);

/*
 * Why nobody serves it: the failure of that name, and version unless that is 0, of the worker that came first; what serves on in an older form counts
 * only when nothing else does. NULL = no worker has it.
 */
const Penstock__ModelFailure *failure_find(const struct fleet *fleet, const char *name, uint64_t version,
                                           const struct worker **ret_worker);
/* "; worker w1 could not load it: SENTENCE" in `text`; "" when no worker has it. */
const char *failure_text(const struct fleet *fleet, const char *name, uint64_t version, char *text, size_t bytes);

#endif
