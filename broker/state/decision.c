#include "decision.h"

#include "fleet.h"
#include "match.h"

static uint32_t narrow(uint64_t us)
{
    return us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

uint64_t weighed_completion_us(const struct weighed *w)
{
    return (uint64_t)w->backlog_us + w->expect_us + w->transfer_us + w->load_us;
}

/* The chosen one is always first; the others by expected completion. */
static void keep(struct decision *decision, const struct weighed *w)
{
    uint32_t at = decision->count < DECISION_KEPT ? decision->count : DECISION_KEPT - 1;
    if (at == DECISION_KEPT - 1 && decision->count == DECISION_KEPT &&
        weighed_completion_us(&decision->kept[at]) <= weighed_completion_us(w))
        return;
    for (; at > 0 && !decision->kept[at - 1].chosen &&
           weighed_completion_us(&decision->kept[at - 1]) > weighed_completion_us(w);
         at--)
        decision->kept[at] = decision->kept[at - 1];
    decision->kept[at] = *w;
    decision->count += decision->count < DECISION_KEPT;
}

static struct weighed weigh(const struct offer *offer, const struct match_candidate *candidate)
{
    return (struct weighed){.worker = offer->worker->uuid,
                            .backlog_us = narrow(candidate->backlog_us),
                            .expect_us = narrow(candidate->expect_us),
                            .transfer_us = narrow(candidate->transfer_us),
                            .load_us = narrow(candidate->load_us),
                            .credit = candidate->credit};
}

void decision_fill(struct decision *decision, struct offer *const *offers, const struct match_candidate *candidates,
                   size_t count, int chosen)
{
    decision->count = 0;
    decision->capable = (uint32_t)count;
    if (chosen >= 0) {
        decision->kept[decision->count] = weigh(offers[chosen], &candidates[chosen]);
        decision->kept[decision->count++].chosen = true;
    }
    for (size_t i = 0; i < count; i++) {
        struct weighed w = weigh(offers[i], &candidates[i]);
        if ((int)i != chosen)
            keep(decision, &w);
    }
}
