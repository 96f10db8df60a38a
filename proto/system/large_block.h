/*
 * large_block.h - memory for large frames: in huge pages, and kept for a while for the next one.
 *
 * malloc maps a block above 32 MiB anew each time, so each of its pages is faulted in and zeroed (40 % of a 100 MB
 * job's processor time, tests/bench/bulk.py). A program that handles many large frames sets how many bytes may be kept;
 * large_block_trim() gives back blocks that were not used for a while.
 *
 * Threads: any (a lock inside; ZeroMQ frees on its I/O thread).
 */
#ifndef LARGE_BLOCK_H
#define LARGE_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#define LARGE_BLOCK_BYTES (8u * 1024u * 1024u) /* blocks of this size and more; below it malloc reuses memory itself */
#define LARGE_BLOCK_KEPT  16u                  /* blocks kept at most */

/* `bytes` writable bytes with any content, aligned to a page; pass *ret_hint to large_block_give. NULL without
   memory. */
void *large_block_take(size_t bytes, void **ret_hint);
void large_block_give(void *data, void *hint); /* fits zmq_msg_init_data() */

/* How many bytes of freed blocks this process may keep; the default is 0. */
void large_block_keep(size_t bytes);

/* Gives back blocks that were not used for `idle_us`. Returns the bytes that are still kept. */
size_t large_block_trim(uint64_t now_us, uint64_t idle_us);

#endif
