/*
 * transfer.h - one content from one place into a partial file: several parts at a time, and compared with its digest
 * while it comes.
 *
 * Threads: one-at-a-time; makes threads of its own for the time of the call.
 */
#ifndef TRANSFER_H
#define TRANSFER_H

#include "partial.h"
#include "place.h"

struct transfer_asked {
    struct place *place;
    struct partial *partial;
    unsigned parallel; /* connections, at least 1 */
    bool (*stop)(void);
};

/*
 * OK: all parts are there and the digest is right. CORRUPT: they are there and it is not; they are forgotten. Else what
 * came stays in the partial file. ret_bytes: how much came, also when it failed.
 */
enum pen_status transfer_run(const struct transfer_asked *asked, uint64_t *ret_bytes, struct pen_error *reterr);

#endif
