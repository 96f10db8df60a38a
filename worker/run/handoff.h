/*
 * handoff.h - the queue between the network thread and the slots.
 *
 * One short lock around a list; a slot that finds nothing spins for a while (where there is a processor to spare and the last spins paid off) and then
 * sleeps. Threads: any.
 */
#ifndef HANDOFF_H
#define HANDOFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inbox.h"

struct handoff;

/* spin_us: the longest a slot spins before it sleeps, 0 = never. NULL without memory. */
struct handoff *handoff_new(uint64_t spin_us);
void handoff_free(struct handoff *handoff); /* NULL is fine; dispatches in the queue are not freed */

void handoff_push(struct handoff *handoff, struct dispatch *dispatch); /* borrows until a slot has finished with it */
struct dispatch *handoff_take(struct handoff *handoff);                /* waits; NULL when closed */
/* Never waits: NULL when there is nothing but dispatches that sleeping slots were woken for. */
struct dispatch *handoff_poll(struct handoff *handoff);
void handoff_close(struct handoff *handoff); /* every take returns NULL from now on */
size_t handoff_length(struct handoff *handoff);
size_t handoff_taken(struct handoff *handoff); /* how many were ever taken, modulo the size of the counter */

#endif
