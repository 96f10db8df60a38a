/*
 * room.h - memory for many values at once: packed weights, arenas, scratch.
 *
 * Threads: any.
 */
#ifndef ROOM_H
#define ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * 64-byte aligned, not cleared, to be freed by free(); NULL without memory. From 2 MiB up it begins at a large page and asks for more of them where they come
 * quickly: it is filled faster then, and taken down faster by the kernel, which closes the connections of a killed worker only after that.
 */
void *room_alloc(size_t bytes);

/* Asks for large pages of memory that is about to be written, that begins at one and holds one at least. False: the first one was slow; the rest is of small pages. */
bool room_large(void *memory, size_t bytes);

/*
 * Lets the kernel join the small pages of room_alloc's memory when it has time (khugepaged, some MiB a second), for memory that is long-lived: once all pages
 * have been touched, so that nobody waits for large ones now. Weights that come from memory in each run are found sooner in them.
 */
void room_later(void *memory, size_t bytes);

extern uint64_t (*room_now_ns)(void); /* the clock for that, processor time of the thread; tests turn one of theirs */

#endif
