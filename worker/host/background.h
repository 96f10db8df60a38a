/*
 * background.h - work beside serving: on a thread of the lowest priority, which offers its processor to whoever waits for it every BACKGROUND_STEP_US.
 *
 * Priority alone is not enough. When a thread wakes, the kernel asks who has had less than its share; a thread that serves and ran a few microseconds too long
 * before it slept loses that against any other, of whatever priority, and nobody asks again before the next tick: 4 ms at 250 Hz. So a timer asks. With nice 19 alone
 * the loading thread was to blame for 143 of 237 waits of more than .3 ms of a pool's threads in 4 s (perf sched), with the timer for 6: what it did in one piece
 * inside the kernel.
 *
 * Where all processors are busy such work takes many times as long: it gets what nobody else wants.
 */
#ifndef BACKGROUND_H
#define BACKGROUND_H

#include <stdint.h>

#include "penstock/status.h"

#define BACKGROUND_STEP_US 100u

/* Runs work(argument) to its end on a thread of its own: priority can only be lowered. NO_MEMORY: there is no thread to be had, and nothing was run. Threads: any. */
enum pen_status background_run(const char *name, void (*work)(void *argument), void *argument);

/* How often background work has offered its processor, in this process. Threads: any. */
uint64_t background_offers(void);

/* In background work: how long it has waited for a processor, for times that are to count work alone; 0 where the kernel does not tell. */
uint64_t background_waited_us(void);

#endif
