/*
 * ledger.h - what a model and its sessions hold, and what a session may still take.
 *
 * Everything that grows with use is booked: buckets with their arenas and execs (host and device), blocks of the run's arena, variants, weights that a device got
 * at the first run. The sums are those of pen_memory() and pen_model_memory().
 * Threads: model_ledger any; ledger one-at-a-time, as its session.
 */
#ifndef LEDGER_H
#define LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Of a model. `budget` is for all of it, 0 = sessions have limits of their own alone. */
struct model_ledger {
    uint64_t budget;
    atomic_uint_least64_t weights_bytes, sessions_bytes;
    atomic_uint sessions;
};

/* Weights, variants included, are so many bytes more (less) than before. */
void model_ledger_weights(struct model_ledger *m, uint64_t before, uint64_t now);

/* Of a session. */
struct ledger {
    struct model_ledger *model;
    uint64_t bytes;                   /* held now */
    uint64_t alone;                   /* its limit whatever the others hold */
    bool (*make_room)(void *context); /* something that is not in use has been given back; false: there is nothing */
    void *context;
};

void ledger_book(struct ledger *l, uint64_t before, uint64_t now); /* something had so many bytes and has so many now */
/* The session's part: what the budget leaves beside the weights, in equal parts for all sessions of the model. */
uint64_t ledger_limit(const struct ledger *l);

#endif
