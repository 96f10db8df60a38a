/*
 * decoders.h - threads that decode pictures beside the slots: a dispatch with files passes through here on its way to the slots, so that a slot never waits for a decoder.
 *
 * The jobs of a dispatch are decoded by several threads at a time, and each goes to the slots by itself as soon as it is ready (a part of its dispatch, inbox.h): one slow
 * file holds up no other job. Batches are composed behind the decoders, of what is ready then (handoff.h). More urgent dispatches are decoded first. A file that cannot be
 * used becomes the error of its job, which runs with no others. Dispatches without pictures pass by.
 *
 * Threads: any (locks inside), but for decoders_pass, which is the network thread's.
 */
#ifndef DECODERS_H
#define DECODERS_H

#include "catalog.h"
#include "handoff.h"
#include "stats.h"

struct decoders;

struct decoders_context {
    struct catalog *catalog;
    struct handoff *handoff;
    struct stats *stats;
    uint32_t threads;     /* at least 1; they start with the first picture */
    uint64_t limit_bytes; /* of decoded inputs that wait or run, of all jobs together */
};

/* NULL without memory. */
struct decoders *decoders_new(const struct decoders_context *context);
/* Waits for the threads; dispatches that wait here stay with their owner. NULL is fine. */
void decoders_free(struct decoders *decoders);

/*
 * Takes a dispatch to the slots: at once, or, when a job of it carries files for an input, by way of the threads. Borrows until the slots have it. Where no thread can be
 * started, the slot decodes.
 */
void decoders_pass(struct decoders *decoders, struct dispatch *dispatch);
size_t decoders_waiting(struct decoders *decoders); /* dispatches that are not ready; NULL: 0 */

#endif
