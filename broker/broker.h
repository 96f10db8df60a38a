/*
 * broker.h - the broker: how it begins and ends (broker.c), and what it does at set times (timers.c). Its state is
 * broker_state.h, its rooms README.md.
 * Threads: owner.
 */
#ifndef BROKER_H
#define BROKER_H

#include "broker_state.h"
#include "departure.h"
#include "fleet_order.h"
#include "explain.h"
#include "send.h"
#include "transfer.h"

/* `options`, `cache` (may be NULL) are borrowed; the ports are filled in by the caller. */
enum pen_status broker_init(struct broker *broker, const struct options *options, struct cache *cache,
                            uint64_t (*clock)(void));
void broker_fini(struct broker *broker); /* frees jobs and sessions without telling anybody */

/* Does what is due now: deadlines, probes, silent peers, grace windows, ages, batches that close by time. */
void broker_tick(struct broker *broker);
/* Gives back memory that tables and lists took for a burst. Call it in a quiet time: it visits each record. */
void broker_settle(struct broker *broker);
/* When broker_tick has something to do next. */
uint64_t broker_next_us(const struct broker *broker);

#endif
