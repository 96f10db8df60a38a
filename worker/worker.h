/*
 * worker.h - the worker's life from settings to exit code: probe, load, warm up, hello, serve, drain.
 *
 * Threads: one-at-a-time; the calling thread becomes the network thread.
 */
#ifndef WORKER_H
#define WORKER_H

#include "options.h"

/* start_us: when the process began (clock_now_us). Returns the program's exit code. */
int worker_run(const struct options *options, uint64_t start_us);

/* What the settings and the host decide together. */
struct worker_sizes {
    uint32_t slots, threads;
    uint64_t memory_bytes, queue_bytes;
};
struct quota;
void worker_sizes(const struct options *options, const struct quota *quota, uint32_t instances,
                  struct worker_sizes *ret_sizes);

#endif
