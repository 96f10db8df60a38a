/*
 * block.h - memory of one large constant, straight from the system: it can go back while its addresses stay taken.
 *
 * Threads: one-at-a-time.
 */
#ifndef BLOCK_H
#define BLOCK_H

#include <stdbool.h>
#include <stddef.h>

struct block {
    unsigned char *base; /* of whole pages, from 2 MiB up of large ones */
    size_t bytes;        /* asked for; readable zeros follow */
    size_t mapped;       /* whole pages */
    bool sealed;
};

bool block_map(struct block *ret_block, size_t bytes, size_t pad);     /* zeroed; false without memory */
bool block_reserve(struct block *ret_block, size_t bytes, size_t pad); /* the same, sealed */
void block_unmap(struct block *b);
bool block_holds(const struct block *b, const void *memory);
bool block_seal(struct block *b);
bool block_unseal(struct block *b);

#endif
