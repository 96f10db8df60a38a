/*
 * urgency.h - threads that pass messages on ask the kernel for short slices of processor time, so that they run soon
 * while others compute.
 *
 * Since Linux 6.12 a woken thread may interrupt one with longer slices; otherwise it may wait for the next tick (4 ms
 * at 250 Hz). This changes how soon a thread runs, not how much: shares, priorities and rights stay the same. Older
 * kernels accept the call and ignore it.
 *
 * Threads: any; each call is about the calling thread and those that it starts from then on.
 */
#ifndef URGENCY_H
#define URGENCY_H

#include <stdbool.h>
#include <stdint.h>

#define URGENCY_SLICE_US 100u /* the shortest that the kernel takes */

/* Asks for slices of that length; 0: the kernel's default. When the kernel or a sandbox refuses, nothing changes. */
void urgency_ask(uint64_t slice_us);

/* The slice of the calling thread; 0: the kernel does not say. */
uint64_t urgency_slice_us(void);

/*
 * Threads that carry large payloads give way to all others: the calling thread, and those that it starts from then on,
 * get URGENCY_NICE more of nice(2). This cannot be undone.
 */
#define URGENCY_NICE 10
void urgency_give_way(void);
/* The same for all threads of this process with that name. Returns how many there are; *ret_refused: the system
   refused for one of them. */
unsigned urgency_give_way_named(const char *name, bool *ret_refused);

/* Call it between two pieces of a large payload: threads that wait for this processor run first. */
void urgency_make_way(void);

#endif
