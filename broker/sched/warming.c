#include "warming.h"

static uint64_t memory_held(const struct worker *worker)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < worker->offers_count; i++)
        bytes += worker->offers[i]->cold ? 0 : worker->offers[i]->meta->memory_bytes;
    return bytes;
}

static bool has_room(const struct offer *offer)
{
    uint64_t budget_bytes = offer->worker->hello->budget_bytes;
    return budget_bytes == 0 || memory_held(offer->worker) + offer->meta->memory_bytes <= budget_bytes;
}

static uint64_t own_us(const struct offer *offer, uint64_t now_us)
{
    uint64_t load_us = offer->meta->load_us;
    if (offer->asked_us == 0)
        return has_room(offer) ? load_us : 2 * load_us;
    uint64_t end_us = offer->asked_us + load_us;
    return now_us < end_us ? end_us - now_us : now_us - end_us;
}

uint64_t warming_us(const struct offer *offer, uint64_t now_us)
{
    const struct offer *other = offer->worker->warming;
    return own_us(offer, now_us) + (other && other != offer ? own_us(other, now_us) : 0);
}

static uint64_t overdue_at_us(const struct offer *offer)
{
    return offer->asked_us + 10 * offer->meta->load_us + WARMING_UNKNOWN_US;
}

bool warming_possible(const struct offer *offer, uint64_t now_us, uint64_t *ret_when_us)
{
    const struct offer *asked = offer->worker->warming;
    *ret_when_us = UINT64_MAX;
    if (offer->worker->state != WORKER_READY || !offer->worker->hello->takes_orders)
        return false;
    if (!asked || now_us >= overdue_at_us(asked))
        return true;
    *ret_when_us = overdue_at_us(asked);
    return false;
}
