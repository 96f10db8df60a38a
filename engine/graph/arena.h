/*
 * arena.h - memory that is freed as a whole: of a graph and its subgraphs, or of one shape_env.
 *
 * Contents of constants are apart: a large one stands in a block of its own, which can be given back while the arena lives (release.h).
 * Threads: one-at-a-time.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct graph_arena;

struct graph_arena *arena_new(uint64_t limit); /* bytes it may hold at a time; NULL without memory */
void arena_free(struct graph_arena *arena);    /* NULL is fine */

/* Zeroed; 64-byte aligned from 64 bytes up, with 64 readable bytes behind. NULL without memory or beyond the limit. */
void *arena_alloc(struct graph_arena *arena, size_t bytes);
/* The same for the contents of a constant, which the caller is about to write. */
void *arena_alloc_data(struct graph_arena *arena, size_t bytes);
/* A sealed block: addresses without memory, which count when it is unsealed. */
void *arena_reserve_data(struct graph_arena *arena, size_t bytes);
/* The system has refused memory, within the limit: NULL was for that. */
bool arena_starved(const struct graph_arena *arena);
bool arena_owns(const struct graph_arena *arena, const void *memory);
uint64_t arena_bytes(const struct graph_arena *arena);

/* ---- blocks of arena_alloc_data ---- */

#define ARENA_NO_BLOCK SIZE_MAX

size_t arena_block_count(const struct graph_arena *arena);
/* The block that `memory` lies in, ARENA_NO_BLOCK when in none. Indices hold until the next arena_alloc_data or arena_blocks_keep. */
size_t arena_block_find(struct graph_arena *arena, const void *memory);
/* The memory of all blocks but those marked goes back; nobody may hold a pointer into it. keep: [arena_block_count]. */
void arena_blocks_keep(struct graph_arena *arena, const bool *keep);
/* Its memory goes back but its addresses stay taken: reading there ends the process. False when the system refuses; the block is as before then. */
bool arena_block_seal(struct graph_arena *arena, size_t block);
bool arena_block_sealed(const struct graph_arena *arena, size_t block);
/* A sealed block can be written and read again; it is zero. False without memory. */
bool arena_block_unseal(struct graph_arena *arena, size_t block);

#endif
