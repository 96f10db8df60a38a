#include "queue_sim.h"

#include <math.h>
#include <stdlib.h>

#include "histogram.h"

#define SLOTS_MAX    4096u
#define QUEUE_MAX    65536u /* waiting jobs; beyond, the pool is overloaded */
#define VAIN_MAX     4u     /* BATCH_SOLO_MAX */
#define TIE          16.0   /* LATENCY_TIE */
#define MESSAGE_US   10.0   /* LATENCY_MESSAGE_US */
#define LEAD_US      1000.0 /* the next batch is composed at most so long before its slot is free */
#define WARM_UP_PART 20u    /* one part in so many of the jobs comes before those that count */

struct sim {
    const struct sim_setting *setting;
    struct sim_rules rules;
    uint64_t random;
    double rate_per_us, now_us, next_us; /* next_us: of the next arrival */
    double *free_us;                     /* [slots] when each has nothing to do */
    uint32_t slots;
    double *queue; /* [QUEUE_MAX] times of arrival, a ring */
    uint64_t head, tail;
    uint32_t vain;
    uint64_t came, jobs, runs, run_jobs;
    struct histogram *latency;
};

/* ---- rules ---- */

static double row_cost(const struct curve *curve, uint32_t rows)
{
    return (curve_run_mean_us(curve, rows, 1.0) + MESSAGE_US) / (double)rows;
}

static bool as_cheap(double cost, double least)
{
    return cost <= least + least / TIE;
}

/* The sizes of the curve are those that are warmed up: plan_config writes them into config.json. */
uint32_t sim_best_rows(const struct curve *curve, uint32_t batch, uint32_t most)
{
    most = most < batch ? most : batch;
    if (most <= 1) {
        return 1;
    }
    double one = row_cost(curve, 1), all = row_cost(curve, most), least = one < all ? one : all;
    size_t below = 0; /* sizes of less than `most` rows */
    for (; below < curve->sizes_count && curve->sizes[below].rows < most; below++) {
        least = fmin(least, row_cost(curve, curve->sizes[below].rows));
    }
    if (as_cheap(one, least)) {
        return 1;
    }
    if (as_cheap(all, least)) {
        return most;
    }
    while (below-- > 0) {
        if (as_cheap(row_cost(curve, curve->sizes[below].rows), least)) {
            return curve->sizes[below].rows;
        }
    }
    return 1;
}

/* A worker fills a batch up to the next size that is warmed up. */
static uint32_t rows_run(const struct curve *curve, uint32_t rows)
{
    for (size_t i = 0; i < curve->sizes_count; i++) {
        if (curve->sizes[i].rows >= rows) {
            return curve->sizes[i].rows;
        }
    }
    return rows;
}

uint32_t sim_close(const struct sim_rules *rules, uint64_t waiting, double now_us, double oldest_us, uint32_t vain,
                   double *ret_wake_us)
{
    uint32_t least = waiting < rules->batch ? (uint32_t)waiting : rules->batch;
    *ret_wake_us = INFINITY;
    if (rules->batch <= 1 || rules->target == 1) {
        return 1;
    }
    if (waiting >= rules->target) {
        return rules->target;
    }
    double close_us = oldest_us + (double)rules->delay_us;
    if (rules->delay_us == 0 || vain >= VAIN_MAX || now_us >= close_us) {
        return sim_best_rows(rules->curve, rules->batch, least);
    }
    *ret_wake_us = close_us;
    return 0;
}

/* ---- the pool ---- */

static double random_share(struct sim *sim) /* splitmix64; in 0..1, 0 excepted */
{
    uint64_t z = (sim->random += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return ((double)((z ^ (z >> 31)) >> 11) + 1.0) * 0x1p-53;
}

static void arrive(struct sim *sim)
{
    sim->queue[sim->tail++ % QUEUE_MAX] = sim->next_us;
    sim->came++;
    sim->next_us += -log(random_share(sim)) / sim->rate_per_us;
}

/*
 * The slot that is free first, and how full the machine is: 0 = nothing else runs, 1 = as much as when all slots were measured, or all there are. A pool of fewer
 * slots than were measured together disturbs itself less.
 */
static uint32_t slot_first(const struct sim *sim, double *ret_busy)
{
    uint32_t first = 0, running = 0;
    for (uint32_t i = 0; i < sim->slots; i++) {
        running += sim->free_us[i] > sim->now_us;
        first = sim->free_us[i] < sim->free_us[first] ? i : first;
    }
    uint64_t together = (uint64_t)sim->setting->curve->slots * sim->setting->curve->workers;
    uint64_t most = together > sim->slots ? together : sim->slots;
    *ret_busy = most > 1 ? fmin((double)running / (double)(most - 1), 1.0) : 0.0;
    return first;
}

static double lead_us(const struct sim *sim)
{
    return fmin(curve_run_mean_us(sim->setting->curve, 1, 0.0) / 2.0, LEAD_US);
}

/* Waiting paid when those behind the first job would have waited longer for its run: batch_wait_paid. */
static void learn(struct sim *sim, uint32_t rows, double waited_us)
{
    double delay_us = (double)sim->rules.delay_us, one_us = curve_run_mean_us(sim->setting->curve, 1, 1.0);
    if (sim->rules.delay_us == 0) {
        return;
    }
    double waited = fmin(waited_us, delay_us);
    if (rows > 1 && (double)(rows - 1) * one_us > (double)rows * waited) {
        sim->vain = 0;
    } else if (waited_us >= delay_us && rows < sim->rules.target) {
        sim->vain++;
    }
}

static void start(struct sim *sim, uint32_t slot, uint32_t rows, double busy)
{
    const struct curve *curve = sim->setting->curve;
    double begin = fmax(sim->now_us, sim->free_us[slot]);
    double run_us = curve_run_us(curve, rows_run(curve, rows), busy, random_share(sim));
    learn(sim, rows, sim->now_us - sim->queue[sim->head % QUEUE_MAX]);
    for (uint32_t i = 0; i < rows; i++) {
        double came_us = sim->queue[sim->head++ % QUEUE_MAX];
        double latency_us = begin + run_us - came_us + curve_way_us(curve, busy, random_share(sim));
        if (sim->head > sim->jobs / WARM_UP_PART) {
            histogram_add(sim->latency, (uint64_t)latency_us);
        }
    }
    double taken_us = run_us + (double)rows * curve->gap_us;
    sim->free_us[slot] = begin + taken_us;
    sim->runs++;
    sim->run_jobs += rows;
}

/* Starts one batch, or moves the clock. False: the queue is full. */
static bool step(struct sim *sim)
{
    double busy, wake_us = INFINITY;
    uint64_t waiting = sim->tail - sim->head;
    if (sim->next_us <= sim->now_us) {
        arrive(sim);
        return sim->tail - sim->head < QUEUE_MAX;
    }
    if (waiting) {
        uint32_t slot = slot_first(sim, &busy);
        double credit_us = sim->free_us[slot] - lead_us(sim);
        uint32_t rows = 0;
        if (credit_us > sim->now_us) {
            wake_us = credit_us;
        } else {
            rows = sim_close(&sim->rules, waiting, sim->now_us, sim->queue[sim->head % QUEUE_MAX], sim->vain, &wake_us);
        }
        if (rows) {
            start(sim, slot, rows, busy);
            return true;
        }
    }
    sim->now_us = fmin(sim->next_us, wake_us);
    return true;
}

/* What a row costs its slot in batches of the size that suits best. */
static double row_us(const struct sim_rules *rules)
{
    return curve_run_mean_us(rules->curve, rules->target, 1.0) / (double)rules->target + rules->curve->gap_us;
}

static void measure(const struct sim *sim, double share, bool overload, struct sim_result *ret_result)
{
    double busy = sim->rate_per_us * row_us(&sim->rules) / (double)sim->slots;
    *ret_result = (struct sim_result){
        .at_slo_us = overload ? INFINITY : (double)histogram_at(sim->latency, share),
        .p50_us = (double)histogram_at(sim->latency, 0.5),
        .p99_us = overload ? INFINITY : (double)histogram_at(sim->latency, 0.99),
        .busy = overload ? fmax(busy, 1.0) : busy,
        .batch_mean = sim->runs ? (double)sim->run_jobs / (double)sim->runs : 0.0,
    };
}

bool queue_sim(const struct sim_setting *setting, double rate, double share, uint32_t jobs, uint64_t seed,
               struct sim_result *ret_result)
{
    uint64_t slots = (uint64_t)setting->workers * setting->curve->slots;
    struct sim sim = {.setting = setting,
                      .random = seed,
                      .rate_per_us = rate / 1e6,
                      .jobs = jobs,
                      .slots = (uint32_t)(slots < SLOTS_MAX ? slots : SLOTS_MAX),
                      .latency = calloc(1, sizeof *sim.latency),
                      .queue = malloc(QUEUE_MAX * sizeof *sim.queue)};
    sim.rules = (struct sim_rules){.curve = setting->curve,
                                   .batch = setting->batch,
                                   .delay_us = setting->delay_us,
                                   .target = sim_best_rows(setting->curve, setting->batch, setting->batch)};
    sim.free_us = calloc(sim.slots, sizeof *sim.free_us);
    bool good = sim.latency && sim.queue && sim.free_us, room = true;
    while (good && room && sim.head < jobs) {
        room = step(&sim);
    }
    if (good) {
        measure(&sim, share, !room, ret_result);
    }
    free(sim.latency);
    free(sim.queue);
    free(sim.free_us);
    return good;
}
