/*
 * urgency.h - threads that pass messages on ask the kernel for short slices of processor time, so that they get their turn while others compute.
 *
 * Linux from 6.12 on lets a thread that wakes interrupt one with longer slices; otherwise it may wait for the next tick (4 ms at 250 Hz). It changes how soon
 * a thread runs, not how much: shares, priorities and rights stay as they are. Older kernels take the wish and do nothing with it.
 *
 * Threads: any; each call is about the calling thread and those that it starts from then on.
 */
#ifndef URGENCY_H
#define URGENCY_H

#include <stdbool.h>
#include <stdint.h>

#define URGENCY_SLICE_US 100u /* the shortest that the kernel takes */

/* Slices of that length; 0: the kernel's own. Where the kernel or a sandbox refuses, nothing changes. */
void urgency_ask(uint64_t slice_us);

/* What is in force for the calling thread; 0: the kernel does not say. */
uint64_t urgency_slice_us(void);

/*
 * What carries large payloads gives way to everything else: the calling thread, and those that it starts from then on, get URGENCY_NICE more of nice(2).
 * It cannot be taken back.
 */
#define URGENCY_NICE 10
void urgency_give_way(void);
/* The same for those threads of this process whose name that is. Returns how many there are; *ret_refused: the system lets one of them not. */
unsigned urgency_give_way_named(const char *name, bool *ret_refused);

/* Between two pieces of a large payload: who waits for this processor goes first. */
void urgency_make_way(void);

#endif
