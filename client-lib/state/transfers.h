/*
 * transfers.h - which large payloads are on their way; plain data of the client (core.h). session/transfer.h moves them.
 *
 * Threads: under the client's lock.
 */
#ifndef TRANSFERS_H
#define TRANSFERS_H

#include <stdint.h>

struct upload;   /* session/transfer.c */
struct download; /* session/transfer.c */

struct transfers {
    struct upload *uploads;
    struct download *downloads;
    unsigned early_misses,
        early_skipped; /* digests announced alone that the broker did not know, in a row; jobs sent whole since */
    uint64_t moved_us; /* last chunk that came, or when the first download began */
    uint64_t again_us; /* a piece or a credit could not be sent: when to try again; 0 = none */
};

#endif
