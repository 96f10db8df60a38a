/*
 * sealed_view.h - parts of sealed blocks that are lent out as the bytes of messages, found again by their address.
 *
 * A message library keeps no descriptor beside its bytes. So each part is written into a table of the process, by the
 * address of its first byte, for as long as it is lent.
 * Threads: any (a lock inside; ZeroMQ frees on its I/O threads).
 */
#ifndef SEALED_VIEW_H
#define SEALED_VIEW_H

#include <stddef.h>

#include "sealed.h"

/* Lends `bytes` bytes of the block from `offset` on; the view holds a reference to the block. Gives the hint for
   sealed_view_free. NULL without memory. */
void *sealed_view_new(struct sealed *block, size_t offset, size_t bytes, void **ret_hint);
void sealed_view_free(void *data, void *hint); /* fits zmq_msg_init_data() */

/* The block of a view that begins there and has that many bytes, and where in the block it begins. The block is
   borrowed from whoever holds the view. NULL: these bytes are no view. */
struct sealed *sealed_view_find(const void *data, size_t bytes, size_t *ret_offset);

#endif
