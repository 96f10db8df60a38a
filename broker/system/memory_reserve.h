/*
 * memory_reserve.h - memory that is held for the moment when there is none.
 *
 * Two blocks, mapped and never touched, so they cost address space only. When an allocation anywhere in the program
 * finds no memory, one block is given back to the system and the allocation is tried again. This includes libzmq's
 * allocations, which would otherwise end the program or close a connection. The first block is for messages that come
 * in one piece, so that they can be refused; the second one is for small allocations alone. Once the second block is
 * gone, large allocations fail at once and leave the memory to small ones. Under a control group's limit an allocation
 * does not fail: the kernel kills a process when the pages are touched. Therefore memory_reserve_watch() makes the
 * other threads, above all libzmq's, wait a little before large allocations when there is no room. If there still is
 * none, the allocation fails: that costs a connection and not the program.
 * Threads: any.
 */
#ifndef MEMORY_RESERVE_H
#define MEMORY_RESERVE_H

#include <stdint.h>

/* Takes missing blocks again, as far as there is memory. Call it when there is enough: large allocations are tried
   again once the second block is back. */
void memory_reserve_hold(void);
typedef uint64_t (*memory_reserve_left)(void *context); /* bytes that may be taken now; any thread asks */
void memory_reserve_watch(memory_reserve_left left,
                          void *context); /* NULL: stop watching; until then the context must live */
uint64_t memory_reserve_missing(
    void); /* bytes of the reserve that are missing; 0 before the first memory_reserve_hold */

#endif
