/*
 * usage_file.h - the thread that keeps the usage of each hour in a file of its own: `usage-2026-11-23T15Z-BROKER.jsonl`.
 *
 * The loop hands over lines, and never waits for the disk. While a file cannot be written, its lines wait here, up to
 * USAGE_WAITING_MAX bytes. When an hour is over, its file is written anew with one line per account and renamed, so who
 * reads it sees the old file or the new one. Files older than `keep_hours` are removed.
 * Threads: owner, but for its own.
 */
#ifndef USAGE_FILE_H
#define USAGE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "penstock/status.h"

#define USAGE_WAITING_MAX ((size_t)16 << 20)

struct usage_file;

/* Makes the folder if it is not there. keep_hours: 0 = for ever. IO: it cannot be written; NO_MEMORY. */
enum pen_status usage_file_new(const char *folder, uint64_t broker, uint32_t keep_hours, struct usage_file **ret_file,
                               struct pen_error *reterr);
/* Waits until what was given is written, or could not be. NULL is fine. */
void usage_file_free(struct usage_file *file);

bool usage_file_idle(struct usage_file *file); /* all that was given is written */
/* Takes over malloc'ed text. False: too much waits already, or no memory; the text is still the caller's. */
bool usage_file_give(struct usage_file *file, uint32_t hour, char *text, size_t bytes);
uint64_t usage_file_failures(struct usage_file *file); /* times that a file could not be written; NULL: 0 */

#endif
