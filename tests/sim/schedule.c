#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define STEPS_MIN    40u
#define STEPS_DRAWN  120u
#define SETTLE_TURNS 400u
#define SETTLE_US    20000u

static uint64_t *the_clock; /* broker_init takes a function without an argument */

static uint64_t sim_clock(void)
{
    return *the_clock;
}

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

/* ---- the broker ---- */

static void broker_up(struct sim *sim)
{
    the_clock = &sim->clock_us;
    fair_begin(sim);
    if (cache_new(NULL, &sim->options.cache, &sim->cache, NULL) != PEN_OK ||
        broker_init(&sim->broker, &sim->options, sim->cache, sim_clock) != PEN_OK)
        abort();
    steps_broker_up(sim);
    sim->broker.clients = &sim->clients_port.port;
    sim->broker.workers = &sim->workers_port.port;
}

static void broker_down(struct sim *sim)
{
    const struct stats *stats = &sim->broker.stats;
    struct sim_counts *counts = &sim->counts;
    counts->requeued += stats->jobs_requeued;
    counts->coalesced += stats->jobs_coalesced;
    counts->hits += stats->cache_hits;
    counts->expired += stats->jobs_expired;
    counts->cancelled += stats->jobs_cancelled;
    counts->duplicates += stats->results_duplicate;
    counts->hedged += stats->jobs_hedged;
    counts->hedges_won += stats->hedges_won;
    counts->quarantined += stats->quarantined;
    counts->refused += stats->quarantine_refused;
    counts->dropped += sim->broker.sessions.dropped_unsent;
    counts->spread += steps_spread(sim);
    net_broker_gone(sim);
    broker_fini(&sim->broker);
    cache_free(sim->cache);
}

/* ---- what may happen in a step ---- */

static void some_up(struct sim *sim)
{
    uint32_t count = 1 + sim_draw(sim, 6);
    while (count-- > 0) {
        bool workers = sim_chance(sim, 50);
        if (!net_deliver_up(sim, workers ? &sim->workers_port : &sim->clients_port))
            net_deliver_up(sim, workers ? &sim->clients_port : &sim->workers_port);
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
    while (count-- > 0 && worker_read(sim, worker))
        ;
}

static void some_time(struct sim *sim)
{
    static const uint32_t spans[] = {10, 200, 1000, 5000, 20000, 100000, 600000};
    uint64_t next_us = broker_next_us(&sim->broker);
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
    while (count-- > 0)
        client_submit(sim, client);
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
        client_connect(sim, client);
    }
}

static void some_answer(struct sim *sim)
{
    struct sim_worker *worker = &sim->workers[sim_draw(sim, SIM_WORKERS)];
    if (!worker->frozen)
        worker_answer(sim, worker, 1 + sim_draw(sim, 4), false);
}

static void some_worker(struct sim *sim)
{
    struct sim_worker *worker = &sim->workers[sim_draw(sim, SIM_WORKERS)];
    if (!worker->frozen && (!worker->conn || worker->conn->state == CONN_GONE))
        worker_connect(sim, worker);
}

static void some_worker_trouble(struct sim *sim)
{
    struct sim_worker *worker = &sim->workers[sim_draw(sim, SIM_WORKERS)];
    switch (sim_draw(sim, 11)) {
    case 0:
        worker_kill(sim, worker);
        sim->counts.kills++;
        break;
    case 1:
        worker->frozen = !worker->frozen;
        sim->counts.freezes++;
        break;
    case 2:
        net_cut(worker->conn);
        sim->counts.cuts++;
        break;
    case 3:
        net_close(sim, &sim->workers_port, worker->conn);
        break;
    case 4:
        worker_say_drain(sim, worker);
        sim->counts.drained++;
        break;
    case 9:
        net_cut(worker->bulk.conn);
        break;
    case 5:
        if (worker->held_count == 0 || sim_chance(sim, 20))
            worker_goodbye(sim, worker);
        break;
    case 6:
        worker_lie(sim, worker);
        break;
    case 7:
    case 8:
        worker_change(sim, worker);
        break;
    default:
        worker_connect(sim, worker);
    }
}

static void some_news(struct sim *sim)
{
    net_tell_end(sim, sim_chance(sim, 50) ? &sim->workers_port : &sim->clients_port);
}

/* Everybody who can gives a sign of life, as they all do every heartbeat. */
static void signs_of_life(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        client_ping(sim, &sim->clients[i]);
    for (uint32_t i = 0; i < SIM_WORKERS; i++)
        worker_beat(sim, &sim->workers[i]);
}

static void some_redis(struct sim *sim)
{
    sim->counts.lookups += redis_asked();
    redis_answer(sim);
    if (sim_chance(sim, 70))
        redis_deliver(sim);
}

static void some_restart(struct sim *sim)
{
    if (!sim_chance(sim, 15))
        return;
    broker_down(sim);
    broker_up(sim);
    sim->counts.restarts++;
    sim_note(sim, "restart", sim->clock_us, 0);
}

static const struct {
    uint32_t weight;
    void (*act)(struct sim *sim);
} actions[] = {
    {26, some_up},     {18, some_down},          {12, some_time},           {12, some_client},
    {10, some_answer}, {3, some_cancel},         {4, some_acknowledgement}, {3, some_worker},
    {3, some_redis},   {2, some_client_trouble}, {3, some_worker_trouble},  {4, signs_of_life},
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

/* ---- the end ---- */

static bool whole(const struct conn *conn, const struct sim_bulk *bulk)
{
    return conn && conn->state == CONN_OPEN && (!bulk->conn || bulk->conn->state == CONN_OPEN);
}

static void heal(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_WORKERS; i++) {
        struct sim_worker *worker = &sim->workers[i];
        worker->frozen = false;
        bool changes = worker->kind == 2 || sim->has.steps;
        worker->kind = 0;
        steps_mend(worker, i);
        if (changes && worker->ready)
            worker_tell(sim, worker);
        if (worker->draining)
            worker_kill(sim, worker);
        if (!whole(worker->conn, &worker->bulk) || sim_chance(sim, 30))
            worker_connect(sim, worker); /* as a silent connection is, in time, by its own end */
    }
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        if (!whole(sim->clients[i].conn, &sim->clients[i].bulk))
            client_connect(sim, &sim->clients[i]);
    }
}

static uint32_t unanswered(const struct sim *sim)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        count += client_unanswered(&sim->clients[i]);
    return count;
}

/* A turn of the broker's loop takes what is there: replies first. */
static bool some_arrive(struct sim *sim)
{
    uint32_t count = 1 + sim_draw(sim, 6), arrived = 0;
    while (arrived < count && (net_deliver_up(sim, &sim->workers_port) || net_deliver_up(sim, &sim->clients_port)))
        arrived++;
    return arrived > 0;
}

static void flow(struct sim *sim)
{
    bool moved = true;
    while (moved && !sim->failure[0]) {
        moved = some_arrive(sim);
        for (uint32_t i = 0; i < SIM_CLIENTS; i++)
            moved |= client_read(sim, &sim->clients[i]);
        for (uint32_t i = 0; i < SIM_WORKERS; i++) {
            moved |= worker_read(sim, &sim->workers[i]);
            worker_answer(sim, &sim->workers[i], 16, true);
        }
        while (redis_asked() > 0)
            redis_answer(sim);
        redis_deliver(sim);
        broker_tick(&sim->broker);
        check_all(sim);
    }
}

static void check_empty(struct sim *sim)
{
    const struct broker *broker = &sim->broker;
    const struct worker *worker;
    for (uint32_t i = 0; i < SIM_CLIENTS; i++) {
        const struct sim_client *client = &sim->clients[i];
        for (uint32_t k = 0; k < client->jobs_count; k++) {
            if (client->jobs[k].results == 0)
                sim_fail(sim, "job %016lx-%u never had an answer; it was sent %u times", (unsigned long)client->uuid,
                         k + 1, client->jobs[k].sends);
        }
    }
    if (broker->live != 0 || broker->queued_bytes != 0 || broker->flights.count != 0 || broker->deadlines.count != 0 ||
        !TAILQ_EMPTY(&broker->lookups) || !TAILQ_EMPTY(&broker->models.active) || broker->lobby.count != 0)
        sim_fail(sim,
                 "nobody waits, and yet %lu jobs live, %lu bytes wait, %zu flights, %zu deadlines, %lu in the lobby",
                 (unsigned long)broker->live, (unsigned long)broker->queued_bytes, broker->flights.count,
                 broker->deadlines.count, (unsigned long)broker->lobby.count);
    TAILQ_FOREACH(worker, &broker->fleet.all, in_fleet)
    {
        if (worker->messages != 0)
            sim_fail(sim, "worker %s still owes %u messages", worker->hello->name, worker->messages);
    }
}

static void settle(struct sim *sim)
{
    heal(sim);
    for (uint32_t turn = 0; turn < SETTLE_TURNS && !sim->failure[0]; turn++) {
        flow(sim);
        sim->clock_us += SETTLE_US;
        signs_of_life(sim);
        broker_tick(&sim->broker);
        while (net_tell_end(sim, &sim->workers_port) || net_tell_end(sim, &sim->clients_port))
            ;
        if (unanswered(sim) == 0 && sim->broker.live == 0 && sim->broker.lobby.count == 0 && turn > 1)
            break;
    }
    check_empty(sim);
}

/* ---- a schedule ---- */

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
}

/* A pool that has worked for a while: it knows how long its jobs take. */
static void some_past(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_WORKERS; i++)
        worker_connect(sim, &sim->workers[i]);
    for (uint32_t round = 0; round < 4; round++) {
        struct sim_client *client = &sim->clients[round % SIM_CLIENTS];
        client_connect(sim, client);
        for (uint32_t i = 0; i < SIM_JOBS; i++)
            client_submit(sim, client);
        flow(sim);
        client_goodbye(sim, client);
    }
}

bool sim_run(struct sim *sim, const struct options *options, uint64_t seed)
{
    struct sim_counts counts = sim->counts;
    bool trace = sim->trace;
    memset(sim, 0, sizeof *sim);
    *sim = (struct sim){
        .seed = seed, .state = seed, .worlds = ~seed, .trace = trace, .clock_us = 1000000, .next_uuid = 0x1000};
    draw_options(sim, options);
    net_init(sim);
    redis_forget();
    broker_up(sim);
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        client_begin(sim, &sim->clients[i]);
    for (uint32_t i = 0; i < SIM_WORKERS; i++)
        worker_begin(sim, &sim->workers[i]);
    if (sim_chance(sim, 10))
        some_past(sim);
    uint32_t steps = STEPS_MIN + sim_draw(sim, STEPS_DRAWN);
    for (sim->step = 1; sim->step <= steps && !sim->failure[0]; sim->step++) {
        act(sim);
        if (sim_chance(sim, 80))
            broker_tick(&sim->broker);
        check_all(sim);
    }
    if (!sim->failure[0])
        settle(sim);
    counts.schedules++;
    counts.steps += steps;
    for (uint32_t i = 0; i < SIM_CLIENTS; i++)
        chunks_reset(sim, &sim->clients_port, &sim->clients[i].bulk);
    for (uint32_t i = 0; i < SIM_WORKERS; i++)
        chunks_reset(sim, &sim->workers_port, &sim->workers[i].bulk);
    broker_down(sim);
    net_fini(sim);
    redis_forget();
    uint64_t *to = (uint64_t *)(void *)&counts, *from = (uint64_t *)(void *)&sim->counts;
    for (size_t i = 0; i < sizeof counts / sizeof *to; i++)
        to[i] += from[i];
    sim->counts = counts;
    return sim->failure[0] == '\0';
}
