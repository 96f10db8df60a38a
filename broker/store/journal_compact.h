/*
 * journal_compact.h - the journal's file written anew while it is in use: three passes in small steps.
 *
 * First the headers tell which record of each job is its last, then those that still count are copied, then what was appended meanwhile is copied as
 * it is; synced, the new file takes the old one's place.
 * Threads: one-at-a-time (the journal's thread).
 */
#ifndef JOURNAL_COMPACT_H
#define JOURNAL_COMPACT_H

#include <stdbool.h>
#include <stdint.h>

#include "journal.h"

struct compaction;
/* Of the `size` bytes that the file has now. 0, or an errno. `file` is borrowed. */
int compaction_new(struct journal_file *file, uint64_t size, uint64_t now_us, struct compaction **ret_compaction);
/* size: of the file by now. True: the new one has taken its place, and has *ret_size bytes. *ret_error: it cannot be, and nothing has changed. */
bool compaction_step(struct compaction *compaction, uint64_t size, uint64_t *ret_size, int *ret_error);
void compaction_free(struct compaction *compaction); /* NULL is fine; gives an unfinished file up */

#endif
