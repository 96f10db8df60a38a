/* The brokers of a world: their beginning and end, and what is theirs by time. */
#include <stdlib.h>

#include "sim.h"

static uint64_t *the_clock; /* broker_init takes a function without an argument */

uint64_t sides_clock(void)
{
    return *the_clock;
}

void side_up(struct sim *sim, struct sim_side *side)
{
    the_clock = &sim->clock_us;
    sim->side = side;
    fair_begin(sim);
    if (cache_new(NULL, &sim->options.cache, &side->cache, NULL) != PEN_OK ||
        broker_init(&side->broker, &sim->options, side->cache, sides_clock) != PEN_OK)
        abort();
    steps_broker_up(sim);
    side->trace = sim->brokers;
    quotas_side_up(sim);
    scarce_side_up(sim);
    if (sim->has.detached)
        detached_broker_up(sim);
    if (sim->seed % 4 == 0)
        side->broker.effects.again_max = 0; /* what is posted again waits for the next turn, as in a flood */
    side->broker.clients = &side->clients_port.port;
    side->broker.workers = &side->workers_port.port;
    side->up = true;
    handover_side_up(sim, side);
}

void side_down(struct sim *sim, struct sim_side *side)
{
    sim->side = side;
    const struct stats *stats = &side->broker.stats;
    struct sim_counts *counts = &sim->counts;
    counts->requeued += stats->jobs_requeued;
    counts->coalesced += stats->jobs_coalesced;
    counts->hits += stats->cache_hits;
    counts->expired += stats->jobs_expired;
    counts->cancelled += stats->jobs_cancelled;
    counts->duplicates += stats->results_duplicate;
    if (stats->results_bad)
        sim_fail(sim, "the broker refused %llu results of workers that keep to the contract",
                 (unsigned long long)stats->results_bad);
    counts->hedged += stats->jobs_hedged;
    counts->hedges_won += stats->hedges_won;
    counts->quarantined += stats->quarantined;
    counts->refused += stats->quarantine_refused;
    counts->over_memory += stats->memory_refused;
    counts->dropped += side->broker.sessions.dropped_unsent;
    counts->spread += steps_spread(sim);
    for (size_t i = 0; i < EFFECT_COUNT; i++)
        counts->effects[i] += side->broker.effects.ran[i];
    handover_side_down(sim, side);
    side->up = false;
    net_broker_gone(side);
    broker_fini(&side->broker);
    cache_free(side->cache);
}

void side_turn(struct sim *sim, struct sim_side *side)
{
    sim->side = side;
    side->broker.now_us = sim->clock_us;
}

/* What is due by time. A broker that has drained ends. */
void sides_tick(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->sides_count; i++) {
        struct sim_side *side = sim->side = &sim->sides[i];
        if (!side->up)
            continue;
        net_read_out(sim, &side->workers_port);
        if (!sim->alone)
            handover_read(sim, side);
        broker_tick(&side->broker);
        if (side->broker.draining && broker_drained(&side->broker))
            side_down(sim, side);
    }
}

void sides_redis(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->sides_count; i++) {
        if (!sim->sides[i].up)
            continue;
        side_turn(sim, &sim->sides[i]);
        redis_deliver(sim);
    }
}

uint64_t sides_next_us(const struct sim *sim)
{
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < sim->sides_count; i++) {
        uint64_t own_us = sim->sides[i].up ? broker_next_us(&sim->sides[i].broker) : UINT64_MAX;
        next_us = own_us < next_us ? own_us : next_us;
    }
    return next_us;
}
