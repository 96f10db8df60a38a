/*
 * arena.h - how many blocks of memory are in use (arena.c). Not there in builds with sanitizers, which find what is lost themselves.
 * Threads: counts those that the calling thread took, less those that it freed.
 */
#ifndef SIM_ARENA_H
#define SIM_ARENA_H

#include <stdint.h>

int64_t arena_live(void) __attribute__((weak));

#endif
