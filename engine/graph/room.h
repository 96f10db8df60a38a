/*
 * room.h - memory for many values at once: packed weights, arenas, scratch.
 *
 * Threads: any.
 */
#ifndef ROOM_H
#define ROOM_H

#include <stddef.h>

/*
 * 64-byte aligned, not cleared, to be freed by free(); NULL without memory. From 2 MiB up it begins at a large page and asks for more of them: it is
 * filled faster, and taken down faster by the kernel, which closes the connections of a killed worker only after that.
 */
void *room_alloc(size_t bytes);

#endif
