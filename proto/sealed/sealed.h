/*
 * sealed.h - a block of memory that is written once, sealed, and then given to other processes of the same host as a
 * descriptor (memfd_create(2)). Nobody can change, shrink or grow it any more, not even who made it.
 *
 * A block counts against a cap of this process, because each one holds a descriptor and a mapping.
 * Threads: any; a block is shared by reference count.
 */
#ifndef SEALED_H
#define SEALED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory_group.h"
#include "penstock/status.h"

#define SEALED_BLOCKS_MAX                                                                                              \
    8192u /* of one process; fewer where it may open fewer files: a quarter of these, and never the last twelve */

struct sealed;

/* Bytes that go into a block. */
struct sealed_piece {
    const void *data;
    size_t bytes;
};

/*
 * Copies the pieces into a new sealed block. ret_offsets: where each one begins, a multiple of 64. One reference for the
 * caller. NULL: no memory, no descriptor, the cap is reached, no room in the control group, or this system has no sealed
 * memory; the caller sends the bytes another way.
 */
struct sealed *sealed_copy(const struct sealed_piece *pieces, size_t count, size_t *ret_offsets);

/*
 * Whether a block of so many bytes leaves half of the limit of each of these control groups to other things. A block counts in
 * its maker's group for as long as a reader or a cache holds it, and where that group is full the kernel kills the maker.
 */
bool sealed_room(const struct memory_groups *groups, size_t bytes);

struct sealed_need {
    size_t bytes; /* from its beginning on */
    bool whole;   /* and it must have no more, because whoever holds it would hold these, too */
};

/*
 * Takes the descriptor that a peer sent, in any case: it is closed on failure. The block must be memory that is sealed
 * against writing, shrinking and growing, must have what is needed, and all of its pages must exist. Gives one
 * reference. INVALID: it is not such a block. NO_MEMORY: it cannot be mapped.
 */
enum pen_status sealed_take(int fd, const struct sealed_need *need, struct sealed **ret_block,
                            struct pen_error *reterr);

struct sealed *sealed_retain(struct sealed *block); /* NULL is fine */
void sealed_release(struct sealed *block);          /* NULL is fine */

const uint8_t *sealed_data(const struct sealed *block); /* for as long as a reference is held */
size_t sealed_bytes(const struct sealed *block);
int sealed_descriptor(const struct sealed *block); /* to be sent; the block's own */

/* Whether as many blocks are open as may be, or one has a descriptor of the last few: one more is better copied. */
bool sealed_full(void);

#endif
