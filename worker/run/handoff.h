/*
 * handoff.h - the queue between the network thread, the decoders and the slots.
 *
 * One short lock around a list; a slot that finds nothing spins for a while (where there is a processor to spare and the last spins paid off) and then
 * sleeps.
 *
 * Decoded jobs come one by one (parts of dispatches, inbox.h), and those that are there together are taken together, as one batch. A part is taken as soon as a slot is
 * free and one of these holds: its rows and those of the parts that may join it are as many as pay; no other job of its model is on its way through the decoders; its
 * time is up (joining.until_us). Until then slots pass it by. A part never joins past a more urgent dispatch.
 *
 * Threads: any.
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

/* A part of this broker and model is on its way, and handoff_push will bring it. */
void handoff_expect(struct handoff *handoff, const struct dispatch *part);
void handoff_push(struct handoff *handoff, struct dispatch *dispatch); /* borrows until a slot has finished with it */
/* Waits; NULL when closed. Parts that run together are a list (queue_next), at most FRAME_MAX_GROUPS of them. */
struct dispatch *handoff_take(struct handoff *handoff);
/* Never waits: NULL when there is nothing but dispatches that sleeping slots were woken for. */
struct dispatch *handoff_poll(struct handoff *handoff);
void handoff_close(struct handoff *handoff); /* every take returns NULL from now on */
bool handoff_due(struct handoff *handoff);   /* something waits that a free slot should take */
size_t handoff_length(struct handoff *handoff);
size_t handoff_taken(struct handoff *handoff); /* how many were ever taken, modulo the size of the counter */

#endif
