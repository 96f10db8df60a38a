/*
 * tags.h - what jobs may demand of a worker by name: its tags, and the flags of its hello. Both stand in one list, each
 * item followed by '\n'; a flag's items begin with a byte that no tag has.
 *
 * A flag gives the item "NAME=VALUE", and the item "NAME" where it is on: not empty, off, no, none, false or 0, and not
 * "unavailable: ..." or "failed: ...".
 * Threads: any (pure functions).
 */
#ifndef TAGS_H
#define TAGS_H

#include <stdbool.h>
#include <stddef.h>

#include "job.pb-c.h"
#include "penstock/status.h"
#include "worker.pb-c.h"

#define TAGS_BYTES 1024u /* of one job */

/* The list of a worker; free it. NULL without memory. */
char *tags_of_worker(const Penstock__WorkerHello *hello);
/* The list of a job; one that debugs demands the flag debug_jobs. INVALID: an item has a line break, or all of them have more than TAGS_BYTES. */
enum pen_status tags_of_job(const Penstock__JobMeta *meta, char ret_list[TAGS_BYTES], struct pen_error *reterr);
/* The items of a list for people, with ", " between; cut to `bytes`, the NUL included. Returns text. */
const char *tags_text(const char *list, char *text, size_t bytes);
/* Whether each item of `wanted` stands in `list`. */
bool tags_have(const char *list, const char *wanted);

#endif
