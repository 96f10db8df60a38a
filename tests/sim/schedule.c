#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define STEPS_MIN   40u
#define STEPS_DRAWN 120u

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint32_t sim_draw(struct sim *sim, uint32_t below)
{
    return below ? (uint32_t)(next_random(&sim->state) % below) : 0;
}

bool sim_chance(struct sim *sim, uint32_t percent)
{
    return sim_draw(sim, 100) < percent;
}

bool sim_world(struct sim *sim, uint32_t percent)
{
    return next_random(&sim->worlds) % 100 < percent;
}

uint32_t sim_world_draw(struct sim *sim, uint32_t below)
{
    return (uint32_t)(next_random(&sim->worlds) % below);
}

void sim_note(struct sim *sim, const char *what, uint64_t a, uint64_t b)
{
    sim->trail ^= a * 0x9E3779B97F4A7C15u + b + (uint64_t)(unsigned char)what[0];
    sim->trail = (sim->trail << 7 | sim->trail >> 57) * 0xBF58476D1CE4E5B9u;
    if (sim->trace)
        printf("%4u %9lu us  %-14s %lu %lu\n", sim->step, (unsigned long)sim->clock_us, what, (unsigned long)a,
               (unsigned long)b);
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list args;
    if (sim->failure[0])
        return; /* the first tells most */
    va_start(args, format);
    vsnprintf(sim->failure, sizeof sim->failure, format, args);
    va_end(args);
}

/* ---- what may happen in a step ---- */

/* Where there is one, nothing is drawn. */
struct sim_side *sim_some_side(struct sim *sim)
{
    return &sim->sides[sim->sides_count > 1 ? sim_draw(sim, SIM_SIDES) : 0];
}

static struct sim_link *some_link(struct sim *sim, struct sim_worker *worker)
{
    return &worker->links[sim_some_side(sim)->number];
}

static void some_up(struct sim *sim)
{
    uint32_t count = 1 + sim_draw(sim, 6);
    while (count-- > 0) {
        bool workers = sim_chance(sim, 50);
        struct sim_side *side = sim_some_side(sim);
        if (!net_deliver_up(sim, workers ? &side->workers_port : &side->clients_port))
            net_deliver_up(sim, workers ? &side->clients_port : &side->workers_port);
    }
}

static void some_down(struct sim *sim)
{
    struct sim_client *client = &sim->clients[sim_draw(sim, SIM_CLIENTS)];
    struct sim_worker *worker = &sim->workers[sim_draw(sim, SIM_WORKERS)];
    uint32_t count = 1 + sim_draw(sim, 6);
    while (count-- > 0 && client_read(sim, client))
        ;
    count = 1 + sim_draw(sim, 6);
    struct sim_link *link = some_link(sim, worker);
    while (count-- > 0 && worker_read(sim, link))
        ;
}

static void some_time(struct sim *sim)
{
    static const uint32_t spans[] = {10, 200, 1000, 5000, 20000, 100000, 600000};
    uint64_t next_us = sides_next_us(sim);
    if (sim_chance(sim, 50) && next_us > sim->clock_us && next_us - sim->clock_us < 1000000)
        sim->clock_us = next_us;
    else
        sim->clock_us += 1 + sim_draw(sim, spans[sim_draw(sim, 7)]);
    sim_note(sim, "time", sim->clock_us, 0);
}

static void some_client(struct sim *sim)
{
    struct sim_client *client = &sim->clients[sim_draw(sim, SIM_CLIENTS)];
    uint32_t count = 1 + sim_draw(sim, 5);
    if (!client->conn)
        client_connect(sim, client);
    if (client->leaving && sim_chance(sim, 50)) {
        client_goodbye_for_now(sim, client);
        client_elsewhere(sim, client);
    }
    while (count-- > 0)
        sim_client_submit(sim, client);
}

static void some_cancel(struct sim *sim)
{
    client_cancel(sim, &sim->clients[sim_draw(sim, SIM_CLIENTS)]);
}

static void some_acknowledgement(struct sim *sim)
{
    client_acknowledge(sim, &sim->clients[sim_draw(sim, SIM_CLIENTS)]);
}

static void some_client_trouble(struct sim *sim)
{
    struct sim_client *client = &sim->clients[sim_draw(sim, SIM_CLIENTS)];
    switch (sim_draw(sim, 6)) {
    case 0:
        net_cut(client->conn);
        sim->counts.cuts++;
        break;
    case 1:
        client_goodbye(sim, client);
        break;
    case 3:
        net_cut(client->bulk.conn); /* its transfers stand still until the broker has had enough */
        break;
    case 2:
        client_vanish(sim, client);
        break;
    default:
        if (sim->has.twice && sim_chance(sim, 60))
            client_elsewhere(sim, client);
        else
            client_connect(sim, client);
    }
}

static void some_answer(struct sim *sim)
{
    struct sim_worker *worker = &sim->workers[sim_draw(sim, SIM_WORKERS)];
    struct sim_link *link = some_link(sim, worker);
    if (!worker->frozen)
        worker_answer(sim, link, 1 + sim_draw(sim, 4), false);
}

static void some_worker(struct sim *sim)
{
    struct sim_worker *worker = &sim->workers[sim_draw(sim, SIM_WORKERS)];
    struct sim_link *link = some_link(sim, worker);
    if (!worker->frozen && (!link->conn || link->conn->state == CONN_GONE))
        worker_connect(sim, link);
}

static void some_worker_trouble(struct sim *sim)
{
    struct sim_worker *worker = &sim->workers[sim_draw(sim, SIM_WORKERS)];
    struct sim_link *link = some_link(sim, worker);
    uint32_t drawn = sim_draw(sim, 11);
    if (sim->has.gentle && (drawn < 4 || drawn == 9 || drawn == 10))
        return; /* what a broker may take for the end of the worker */
    switch (drawn) {
    case 0:
        worker_kill(sim, worker);
        sim->counts.kills++;
        break;
    case 1:
        worker->frozen = !worker->frozen;
        sim->counts.freezes++;
        break;
    case 2:
        net_cut(link->conn);
        sim->counts.cuts++;
        break;
    case 3:
        net_close(sim, &link->side->workers_port, link->conn);
        break;
    case 4:
        worker_say_drain(sim, worker);
        sim->counts.drained++;
        break;
    case 9:
        net_cut(link->bulk.conn);
        break;
    case 5:
        if (worker_holds_jobs(worker) == 0 || sim_chance(sim, 20))
            worker_goodbye(sim, worker);
        break;
    case 6:
        worker_lie(sim, link);
        break;
    case 7:
    case 8:
        worker_change(sim, worker);
        break;
    default:
        worker_connect(sim, link);
    }
}

static void some_news(struct sim *sim)
{
    struct sim_side *side = sim_some_side(sim);
    net_tell_end(sim, sim_chance(sim, 50) ? &side->workers_port : &side->clients_port);
}

/* Everybody who can gives a sign of life, as they all do every heartbeat. */
void sim_signs_of_life(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        client_ping(sim, &sim->clients[i]);
    for (uint32_t i = 0; i < SIM_WORKERS; i++) {
        for (uint32_t k = 0; k < sim->sides_count; k++)
            worker_beat(sim, &sim->workers[i].links[k]);
        suspects_turn(sim, &sim->workers[i]);
    }
}

/* A heartbeat, and what befalls a disk or Redis meanwhile. */
static void some_beat(struct sim *sim)
{
    if (sim->has.detached)
        detached_some(sim);
    sim_signs_of_life(sim);
}

static void some_redis(struct sim *sim)
{
    sim->counts.lookups += redis_asked();
    redis_answer(sim);
    if (sim_chance(sim, 70))
        sides_redis(sim);
}

/* One is killed, or drains, and may be away for a while. */
static void some_outage(struct sim *sim)
{
    struct sim_side *side = sim_some_side(sim);
    if (side->up)
        side_turn(sim, side);
    if (!side->up)
        side_up(sim, side);
    else if (sim_chance(sim, 50))
        broker_drain(&side->broker);
    else
        side_down(sim, side);
    sim->counts.outages++;
    sim_note(sim, side->up ? "broker is up" : "broker is down", side->number, 0);
}

static void some_restart(struct sim *sim)
{
    if (sim->has.twice ? sim_chance(sim, 60) : sim_world(sim, 15)) {
        some_outage(sim);
        return;
    }
    struct sim_side *side = sim_some_side(sim);
    if (!sim_chance(sim, 15) || !side->up)
        return;
    side_down(sim, side);
    side_up(sim, side);
    sim->counts.restarts++;
    sim_note(sim, "restart", sim->clock_us, 0);
}

static const struct {
    uint32_t weight;
    void (*act)(struct sim *sim);
} actions[] = {
    {26, some_up},     {18, some_down},          {12, some_time},           {12, some_client},
    {10, some_answer}, {3, some_cancel},         {4, some_acknowledgement}, {3, some_worker},
    {3, some_redis},   {2, some_client_trouble}, {3, some_worker_trouble},  {4, some_beat},
    {3, some_news},    {1, some_restart},
};

static void act(struct sim *sim)
{
    uint32_t all = 0;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        all += actions[i].weight;
    uint32_t drawn = sim_draw(sim, all);
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (drawn < actions[i].weight) {
            actions[i].act(sim);
            return;
        }
        drawn -= actions[i].weight;
    }
}

/* ---- a schedule ---- */

/* Nobody is silent for so long, and a death has to come from a poisonous job. */
static void draw_gentle(struct sim *sim)
{
    sim->has.steps = sim->has.bulk = false;
    sim->options.bulk_from = 1 << 20;
    sim->options.max_attempts = sim->options.max_attempts == 1 ? 2 : sim->options.max_attempts;
    sim->options.liveness_us = 600000000;
}

static void draw_options(struct sim *sim, const struct options *options)
{
    static const int64_t graces[] = {0, 50000, 1000000};
    static const uint64_t replies[] = {0, 4096, 1 << 20};
    sim->options = *options;
    sim->options.cache.kind = sim_chance(sim, 60) ? CACHE_REDIS : sim_chance(sim, 50) ? CACHE_MEMORY : CACHE_NONE;
    sim->options.cache.bytes_max = 1 << 16;
    sim->options.tenant_weights = (struct setting_list){.items = {"red=3", "blue=2"}, .count = sim_draw(sim, 3)};
    sim->options.explain_jobs = 8; /* less to clear at each start */
    sim->options.trace_keep = 4;
    sim->options.hedge = sim_chance(sim, 50);
    sim->options.grace_us = graces[sim_draw(sim, 3)];
    sim->options.replies_bytes = (int64_t)replies[sim_draw(sim, 3)];
    sim->options.max_attempts = 1 + sim_draw(sim, 4);
    sim->options.worker_wait_us = sim_chance(sim, 50) ? 200000 : 2000000;
    sim->options.restart_wait_us = sim_chance(sim, 50) ? 0 : 500000;
    sim->options.queue_limit = sim_chance(sim, 20) ? 6 : 1000;
    sim->has.chains = sim_chance(sim, 40);
    sim->has.bulk = sim_chance(sim, 40);
    sim->options.bulk_from = sim->has.bulk ? 2 : 1 << 20;
    sim->options.peer_bytes = sim_chance(sim, 20) ? 4096 : 1 << 20;
    sim->has.steps = sim_world(sim, 30);
    sim->has.twice = sim_world(sim, 25);
    bool detached = sim_world(sim, 30), gentle = sim_world(sim, 30);
    sim->has.gentle = sim->has.twice && gentle;
    sim->has.shared = detached && !sim->has.gentle && (sim->has.twice || sim_world(sim, 40));
    sim->has.detached = sim->has.shared || (detached && !sim->has.twice);
    if (sim->has.detached) {
        sim->options.detached_lease_us = 300000;
        sim->has.chains = sim->has.bulk = false;
        sim->options.bulk_from = 1 << 20;
    }
    sim->sides_count = sim->has.twice ? 2 : 1;
    if (!sim->has.twice)
        return;
    sim->counts.twice++;
    sim->has.chains = false;
    if (sim->has.gentle)
        draw_gentle(sim);
}

/* What came later is drawn behind all that, from numbers of its own: other worlds stay what they were. */
static void draw_later(struct sim *sim)
{
    sim->worlds = sim->seed * 0x9E3779B97F4A7C15u + 1;
    sim->has.keys = sim_world(sim, 15);
    sim->has.scarce = sim_world(sim, 15);
    bool chains = sim_world(sim, 50);
    if (sim->has.twice && !sim->has.detached && chains) {
        sim->has.chains = true;
        sim->counts.chains_twice++;
    }
    if (sim->has.keys)
        quotas_draw(sim);
    if (sim->has.scarce)
        scarce_draw(sim);
    models_draw(sim);
    sim->has.orders = sim_world(sim, 30);
    sim->has.late = sim_world(sim, 8);
    sim->options.hedge |= sim->has.late;
    contracts_draw(sim);
    if (sim->has.detached && sim_world(sim, 50)) {
        sim->has.bulk = true;
        sim->options.bulk_from = 2;
    }
    handover_draw(sim);
}

/* A pool that has worked for a while: it knows how long its jobs take. */
static void some_past(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_WORKERS; i++)
        for (uint32_t k = 0; k < sim->sides_count; k++)
            worker_connect(sim, &sim->workers[i].links[k]);
    for (uint32_t round = 0; round < 4; round++) {
        struct sim_client *client = &sim->clients[round % SIM_CLIENTS];
        client_connect(sim, client);
        for (uint32_t i = 0; i < SIM_JOBS; i++)
            sim_client_submit(sim, client);
        sim_flow(sim);
        client_goodbye(sim, client);
    }
}

/* Everything at its beginning: all zero but for what is said here. */
void world_begin(struct sim *sim, const struct options *options, uint64_t seed)
{
    bool trace = sim->trace, alone = sim->alone;
    memset(sim, 0, sizeof *sim);
    sim->alone = alone;
    sim->seed = sim->state = seed;
    sim->worlds = ~seed;
    sim->trace = trace;
    sim->clock_us = 1000000;
    sim->next_uuid = 0x1000;
    if (sim->alone) {
        handover_draw_alone(sim, options);
    } else {
        draw_options(sim, options);
        draw_later(sim);
    }
    net_init(sim);
    redis_forget();
    detached_begin(sim, sides_clock);
    for (uint32_t i = 0; i < sim->sides_count; i++) {
        sim->sides[i].number = i;
        side_up(sim, &sim->sides[i]);
    }
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        client_begin(sim, &sim->clients[i]);
    for (uint32_t i = 0; i < SIM_WORKERS; i++)
        worker_begin(sim, &sim->workers[i]);
}

void world_end(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        chunks_reset(sim, &sim->clients[i].side->clients_port, &sim->clients[i].bulk);
    for (uint32_t i = 0; i < SIM_WORKERS; i++)
        for (uint32_t k = 0; k < sim->sides_count; k++)
            chunks_reset(sim, &sim->sides[k].workers_port, &sim->workers[i].links[k].bulk);
    for (uint32_t i = 0; i < sim->sides_count; i++)
        if (sim->sides[i].up)
            side_down(sim, &sim->sides[i]);
    net_fini(sim);
    redis_forget();
    detached_end(sim);
}

void sim_counts_add(struct sim_counts *to, const struct sim_counts *from)
{
    uint64_t *sums = (uint64_t *)(void *)to;
    const uint64_t *more = (const uint64_t *)(const void *)from;
    for (size_t i = 0; i < sizeof *to / sizeof *sums; i++)
        sums[i] += more[i];
}

bool sim_run(struct sim *sim, const struct options *options, uint64_t seed)
{
    struct sim_counts counts = sim->counts;
    world_begin(sim, options, seed);
    if (sim_chance(sim, 10) || sim->has.late)
        some_past(sim);
    uint32_t steps = STEPS_MIN + sim_draw(sim, STEPS_DRAWN);
    for (sim->step = 1; sim->step <= steps && !sim->failure[0]; sim->step++) {
        act(sim);
        scarce_some(sim);
        chain_some(sim);
        if (sim->has.orders)
            orders_some(sim);
        if (sim->has.keys)
            quotas_some(sim);
        if (sim_chance(sim, 80))
            sides_tick(sim);
        check_all(sim);
    }
    if (!sim->failure[0])
        sim_settle(sim);
    counts.schedules++;
    counts.steps += steps;
    world_end(sim);
    sim_counts_add(&counts, &sim->counts);
    sim->counts = counts;
    return sim->failure[0] == '\0';
}
