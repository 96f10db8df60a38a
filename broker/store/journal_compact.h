/*
 * journal_compact.h - the journal's file written anew while it is in use: three passes in small steps.
 *
 * The first pass reads the headers and finds the last record of each job. The second copies the records that still
 * count. The third copies what was appended in the meantime. Then the new file is synced and takes the old one's place.
 * Threads: one-at-a-time (the journal's thread).
 */
#ifndef JOURNAL_COMPACT_H
#define JOURNAL_COMPACT_H

#include <stdbool.h>
#include <stdint.h>

#include "journal.h"

struct compaction;
/* Compacts the first `size` bytes of the file. 0, or an errno. `file` is borrowed. */
int compaction_new(struct journal_file *file, uint64_t size, uint64_t now_us, struct compaction **ret_compaction);
/* size: of the file now. True: the new file has taken its place, with *ret_size bytes. *ret_error: it failed, and
   nothing has changed. */
bool compaction_step(struct compaction *compaction, uint64_t size, uint64_t *ret_size, int *ret_error);
void compaction_free(struct compaction *compaction); /* NULL is fine; gives an unfinished file up */

#endif
