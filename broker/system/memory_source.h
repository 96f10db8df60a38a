/*
 * memory_source.h - the memory limits of this process and what it uses, as the system tells them (headroom.h asks).
 *
 * Limits are those of setrlimit(2), of the control groups (memory_group.h) and --memory-limit, each read anew every
 * time, because they may change while the broker runs. Files stay open, so a reading is a handful of system calls.
 * Threads: owner.
 */
#ifndef MEMORY_SOURCE_H
#define MEMORY_SOURCE_H

#include "headroom.h"
#include "memory_group.h"

struct memory_files {
    uint64_t setting_bytes; /* 0 = no limit of its own */
    int statm;              /* /proc/self/statm */
    struct memory_groups groups;
};

/* Also takes the blocks of memory_reserve.h. `files` must outlive the source. */
void memory_source_init(struct memory_files *files, uint64_t setting_bytes, struct memory_source *ret_source);
void memory_source_fini(struct memory_files *files); /* closes them; keeps the memory reserve */

#endif
