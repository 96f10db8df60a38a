/*
 * usage_files.h - reads what brokers have written into their --usage-dir: files `usage-*.jsonl`, a JSON object per line.
 *
 * Threads: owner.
 */
#ifndef USAGE_FILES_H
#define USAGE_FILES_H

#include "usage/usage_table.h"

struct usage_files {
    size_t files, broken; /* read; lines that are no usage, such as half a line after a power cut */
};

/* Adds the hours from since to until (both in seconds since 1970, the hour that since lies in included) of all files of
   the folder to the table. IO: the folder or a file cannot be read; TOO_LARGE; NO_MEMORY. */
enum pen_status usage_files_read(const char *folder, uint64_t since_unix_s, uint64_t until_unix_s,
                                 struct usage_table *table, struct usage_files *ret_files, struct pen_error *reterr);

#endif
