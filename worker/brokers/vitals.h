/*
 * vitals.h - the state of this worker, for its heartbeats to the brokers and for its own /metrics page.
 *
 * The network thread writes what only it knows (connected, draining, its last beat) into atomics; everything else has
 * locks or atomics of its own.
 * Threads: vitals_beat: the network thread; the rest any.
 */
#ifndef VITALS_H
#define VITALS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "catalog.h"
#include "decoders.h"
#include "handoff.h"
#include "outbox.h"
#include "slot.h"
#include "stats.h"
#include "worker.pb-c.h"

#define VITALS_WEDGED_US                                                                                               \
    3000000u /* a network thread without a beat for so long counts as dead; it sleeps 1 s at most */

struct vitals {
    /* Borrowed, set once before any thread reads. */
    struct stats *stats;
    struct catalog *catalog;
    struct handoff *handoff;
    struct decoders *decoders;
    struct slot *const *slots;
    size_t slots_count;
    const struct identity *identity;
    const struct pen_engine *engine;
    uint64_t compiled_ready; /* kernels compiled before the worker was ready */
    uint64_t memory_bytes;   /* what the worker may use */
    uint64_t started_us;

    atomic_bool serving, draining;
    atomic_uint_fast64_t beat_us;
};

/* The worker is alive, but serves nobody yet. */
void vitals_begin(struct vitals *vitals, uint64_t now_us);
void vitals_beat(struct vitals *vitals, bool serving, bool draining, uint64_t now_us);

/* Everything a heartbeat says. */
void vitals_fill(struct vitals *vitals, uint64_t now_us, Penstock__Heartbeat *heartbeat);

/* Prometheus' text form into `text`; returns the bytes, 0 when `room` is too small. */
size_t vitals_text(struct vitals *vitals, uint64_t now_us, char *text, size_t room);

bool vitals_live(const struct vitals *vitals, uint64_t now_us);
bool vitals_ready(const struct vitals *vitals);

#endif
