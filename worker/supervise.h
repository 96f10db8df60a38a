/*
 * supervise.h - a parent process without state of its own: it starts the worker, and starts it again when it dies.
 *
 * A worker that crashed (a signal), was wedged or failed is started again at once. When it dies young several times in
 * a row, the pause before a restart doubles each time, from 100 ms to 30 s. When a restart would not help (a wrong
 * option, no model, refused by the broker), or the end was asked for, the parent ends with the same exit code. It
 * passes SIGTERM and SIGINT on. When the parent dies, its worker drains.
 *
 * Threads: one-at-a-time, in a process without other threads.
 */
#ifndef SUPERVISE_H
#define SUPERVISE_H

#include <stdint.h>

#define SUPERVISE_YOUNG_US     10000000u /* a death before this age counts as young */
#define SUPERVISE_PAUSE_US     100000u   /* before the second young death's restart */
#define SUPERVISE_PAUSE_US_MAX 30000000u

/* Runs `work` in a child process until it has ended for good. Returns the program's exit code, 128 + signal for a killed one. */
int supervise_run(int (*work)(void *context), void *context);

/* The pause before a restart after `young` young deaths in a row. */
uint64_t supervise_pause_us(unsigned young);

#endif
