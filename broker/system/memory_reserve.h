/*
 * memory_reserve.h - memory that is held for the moment when there is none.
 *
 * Two blocks, mapped and never touched, so they cost address space only. The first allocation of the program that finds no memory (libzmq's too, which would end the
 * program or close a connection) gives one back to the system and is tried again: the first block serves messages that come in one piece, so that they can be refused, the
 * second one small allocations alone. Once that one is gone, large allocations fail at once, so that the small ones have it.
 *
 * Pages that are touched below the limit of a control group are not refused: the kernel ends a process instead. memory_reserve_watch() makes threads other than the caller's,
 * libzmq's above all, wait a little with large blocks when there is no room, and then find none: that costs a connection and not the program.
 * Threads: any.
 */
#ifndef MEMORY_RESERVE_H
#define MEMORY_RESERVE_H

#include <stdint.h>

/* Takes what is missing, as far as there is memory for it. For when there is enough: with the second block large allocations are tried again. */
void memory_reserve_hold(void);
typedef uint64_t (*memory_reserve_left)(void *context); /* bytes that may be taken now; any thread asks */
void memory_reserve_watch(memory_reserve_left left,
                          void *context); /* NULL: no longer; the context must live until then */
uint64_t memory_reserve_missing(
    void); /* bytes that should be held and are not; 0 before the first memory_reserve_hold */

#endif
