/*
 * background.h - runs work beside serving, on a thread of the lowest priority.
 *
 * Every BACKGROUND_STEP_US that thread yields its processor to any thread that waits for it. Priority alone is not
 * enough. When a thread wakes, the kernel runs the thread that has had less than its share. A serving thread that ran a
 * few microseconds too long before it slept loses this comparison against a thread of any priority, and the kernel does
 * not compare again before the next tick (4 ms at 250 Hz). Therefore a timer makes the background thread yield. With
 * nice 19 alone the loading thread caused 143 of the 237 waits above 0.3 ms of a pool's threads in 4 s (perf sched);
 * with the timer it caused 6, in uninterrupted work inside the kernel. When all processors are busy, background work
 * takes many times as long, because it only gets the time that is left.
 */
#ifndef BACKGROUND_H
#define BACKGROUND_H

#include <stdint.h>

#include "penstock/status.h"

#define BACKGROUND_STEP_US 100u

/* Runs work(argument) to its end on a new thread, because a thread can only lower its priority. NO_MEMORY: no thread
   could be started, and nothing was run. Threads: any. */
enum pen_status background_run(const char *name, void (*work)(void *argument), void *argument);

/* How often background work has yielded its processor, in this process. Threads: any. */
uint64_t background_offers(void);

/* For background work: how long it has waited for a processor, so that times can leave this out; 0 when the kernel
   does not tell. */
uint64_t background_waited_us(void);

#endif
