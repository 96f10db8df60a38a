/*
 * broker.h - the broker: its beginning and end (broker.c) and what is due by time (timers.c). Its state is broker_state.h, its rooms README.md.
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
void broker_fini(struct broker *broker); /* jobs and sessions go without a word */

/* Whatever is due now: deadlines, probes, silence, grace, ages, batches that close by time. */
void broker_tick(struct broker *broker);
/* Gives back what tables and lists of a burst hold no more: in a quiet time, for it takes a look at each record. */
void broker_settle(struct broker *broker);
/* When broker_tick has something to do next. */
uint64_t broker_next_us(const struct broker *broker);

#endif
