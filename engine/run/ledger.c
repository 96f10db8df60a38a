#include "run/ledger.h"

#include "assertion.h"
#include "run/internal.h"
#include "run/memory.h"

/* Unsigned differences: what is less wraps, and adding it subtracts. */
void model_ledger_weights(struct model_ledger *m, uint64_t before, uint64_t now)
{
    atomic_fetch_add(&m->weights_bytes, now - before);
    atomic_fetch_add(&engine_counters.weights_bytes, now - before);
    memory_peak_note();
}

void ledger_book(struct ledger *l, uint64_t before, uint64_t now)
{
    PEN_ASSERT(l->bytes >= before, "a session gives back what it has booked");
    l->bytes += now - before;
    const uint64_t sessions = atomic_fetch_add(&l->model->sessions_bytes, now - before);
    const uint64_t all = atomic_fetch_add(&engine_counters.arena_bytes, now - before);
    PEN_ASSERT(sessions >= before && all >= before, "the sums hold what each session has booked");
    memory_peak_note();
}

uint64_t ledger_limit(const struct ledger *l)
{
    uint64_t budget = l->model->budget, weights = atomic_load(&l->model->weights_bytes);
    uint32_t sessions = atomic_load(&l->model->sessions);
    if (budget == 0) {
        return l->alone;
    }
    uint64_t part = budget > weights ? (budget - weights) / (sessions > 0 ? sessions : 1) : 0;
    return part < l->alone ? part : l->alone;
}
