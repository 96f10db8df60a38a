/*
 * regions.h - shared memory of this host that clients have registered, so that tensors need not travel.
 *
 * A region is a part of a POSIX shared memory object (shm_open(3)). It is never mapped: a client that cuts its object short would end us with it. Bytes are
 * read and written as those of a file, which shared memory is. A region belongs to who registered it: others do not see it.
 * Threads: any.
 */
#ifndef REGIONS_H
#define REGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hold.h"
#include "penstock/status.h"

#define REGION_NAME_BYTES 256

/* OWN: objects that belong to the user that the gateway runs as; ANY: all that it can open. */
enum region_rule { REGIONS_OFF, REGIONS_OWN, REGIONS_ANY };

struct regions;
struct region_info {
    const char *name, *key;
    uint64_t offset, bytes;
};

struct regions *regions_new(enum region_rule rule); /* NULL without memory */
void regions_free(struct regions *regions);         /* NULL is fine */

/* INVALID: no such object, not that long, a name that is taken, a key that is none; DENIED: it is somebody else's; UNSUPPORTED: off; BUSY: 1024 are there. */
enum pen_status regions_register(struct regions *regions, const struct region_info *info, struct pen_error *reterr);
/* name NULL: all. One that is not there is fine. */
void regions_unregister(struct regions *regions, const char *name);
/* Those of that name, or all for NULL; false: there is none of that name. */
bool regions_each(struct regions *regions, const char *name,
                  void (*tell)(void *context, const struct region_info *info), void *context);

/* bytes bytes from offset on of that region, in a new block of hold. INVALID: unknown, or not so long. */
enum pen_status regions_read(struct regions *regions, const char *name, uint64_t offset, size_t bytes,
                             struct hold *hold, const void **ret_data, struct pen_error *reterr);
/* INVALID: unknown, or `room` (or the region) is too small; IO: it cannot be written. */
enum pen_status regions_write(struct regions *regions, const char *name, uint64_t offset, uint64_t room,
                              const void *data, size_t bytes, struct pen_error *reterr);

#endif
