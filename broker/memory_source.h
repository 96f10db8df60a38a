/*
 * memory_source.h - the memory limits of this process and what it uses, as the system tells them (headroom.h asks).
 *
 * Limits are those of setrlimit(2), of the control group (version 2 or 1; the nearest above us that has one) and --memory-limit, each read anew every time: they may be
 * changed while the broker runs. Files stay open, so a reading is a handful of system calls.
 * Threads: owner.
 */
#ifndef MEMORY_SOURCE_H
#define MEMORY_SOURCE_H

#include "headroom.h"

struct memory_files {
    uint64_t setting_bytes;      /* 0 = no limit of its own */
    int statm;                   /* /proc/self/statm */
    int group_limit, group_used; /* -1 = no control group that counts memory */
    char group_stat[512];        /* its memory.stat */
};

/* Takes the blocks of ballast.h, too. `files` must outlive the source. */
void memory_source_init(struct memory_files *files, uint64_t setting_bytes, struct memory_source *ret_source);
void memory_source_fini(struct memory_files *files); /* closes them; the ballast stays */

#endif
