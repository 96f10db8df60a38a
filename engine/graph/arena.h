/*
 * arena.h - memory that is freed as a whole: of a graph and its subgraphs, or of one shape_env.
 *
 * Threads: one-at-a-time.
 */
#ifndef ARENA_H
#define ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct graph_arena;

struct graph_arena *arena_new(uint64_t limit); /* bytes it may hold; NULL without memory */
void arena_free(struct graph_arena *arena);    /* NULL is fine */

/* Zeroed; 64-byte aligned from 64 bytes up, with 64 readable bytes behind. NULL without memory or beyond the limit. */
void *arena_alloc(struct graph_arena *arena, size_t bytes);
bool arena_owns(const struct graph_arena *arena, const void *memory);
uint64_t arena_bytes(const struct graph_arena *arena);

#endif
