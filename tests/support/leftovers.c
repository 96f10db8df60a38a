/*
 * leftovers.c - looked at when a test program or one of its tests' processes ends: tensors, models and sessions that nobody gave back. A line beginning with
 * "left at exit" fails the program (penstock_test).
 *
 * Every test program contains it; it says nothing where the engine is not linked.
 */
#include <stdio.h>

#include "penstock/engine.h"

extern void pen_memory(struct pen_memory *ret_memory) __attribute__((weak));

static void __attribute__((destructor)) look(void)
{
    struct pen_memory memory;
    if (pen_memory == NULL) {
        return;
    }
    pen_memory(&memory);
    if (memory.tensors > 0 || memory.tensor_bytes > 0 || memory.models > 0 || memory.sessions > 0 || memory.bytes > 0) {
        fprintf(stderr, "left at exit: %llu tensors, %llu models, %llu sessions, %llu bytes\n",
                (unsigned long long)memory.tensors, (unsigned long long)memory.models,
                (unsigned long long)memory.sessions, (unsigned long long)memory.bytes);
    }
}
