/*
 * memory.h - tunes how this process gets memory from the system, and gives memory back.
 * Threads: owner.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>

/* Call it before anything else is allocated. */
void memory_tune(void);

/* True: memory is short; large blocks get mappings of their own, which go back to the system when they are freed.
   False: it is not short any more. Threads: any. */
void memory_spare(bool sparing);

/* The start, or a burst of jobs, is over: gives back free memory, and pages of code that only it needed; the system
   reads pages again from its cache when they are needed. */
void memory_settle(void);

#endif
