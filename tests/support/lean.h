/*
 * lean.h - allocations that fail on purpose: the k-th of a scenario, or every so many-th.
 *
 * Counted are those that this program's own objects ask for (malloc, calloc, realloc, aligned_alloc, strdup, strndup, and ZeroMQ's messages and sockets, which
 * tell a failure), on threads that are watched: the caller of lean_watch() and every thread that a watched one starts. What libraries allocate inside
 * themselves never fails here: libzmq ends the process without memory. Link lean.c into the test's program with LEAN_WRAPS.
 *
 * Threads: any, unless marked.
 */
#ifndef SUPPORT_LEAN_H
#define SUPPORT_LEAN_H

#include <stdbool.h>

/* This thread's allocations count from now on, or not any more. Threads that it starts inherit what holds then. */
void lean_watch(bool on);

/* owner: from here on the k-th counted allocation fails (0 = none), or every so many-th, of which `skip` are counted already. */
void lean_fail_kth(unsigned long k);
void lean_fail_every(unsigned every, unsigned skip);
/* owner: as lean_fail_every(), and the first one of each place where none has failed so far. */
void lean_fail_fresh(unsigned every);
void lean_fail_none(void);

unsigned long lean_count(void);  /* counted since the last lean_fail_kth or lean_fail_every */
unsigned long lean_failed(void); /* of all failed since the start of the program */

/* Places in the code that have allocated while counting, and those of them where an allocation has failed at least once. */
unsigned lean_places(void);
unsigned lean_places_failed(void);
void lean_places_print(void); /* those where none has failed, for addr2line */

#endif
