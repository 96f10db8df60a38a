/*
 * cores.h - which processors are cores, and which are the second threads of one (hyper-threads): two threads of a core share its arithmetic.
 *
 * Threads: any.
 */
#ifndef PEN_CORES_H
#define PEN_CORES_H

#include <sched.h>

/* Where the kernel describes processors. */
#define CORES_ROOT "/sys/devices/system/cpu"

/* The first processor of `set` of each core. Where the kernel does not say what belongs together each is a core. The caller defines _GNU_SOURCE for cpu_set_t. */
void cores_of(const char *root, const cpu_set_t *set, cpu_set_t *ret_cores);

#endif
