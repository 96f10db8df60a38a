/* torture_plan.c - which fault strikes next, drawn from a seed, and how it is done. */
#include <signal.h>

#include "deadline.h"
#include "torture.h"

/* Of every 20 faults; Redis ones become worker kills where there is no Redis. */
static const struct {
    const char *name;
    unsigned share;
} faults[FAULT_COUNT] = {
    [FAULT_WORKER_KILL] = {"worker_kill", 20},  [FAULT_WORKER_STOP] = {"worker_stop", 5},
    [FAULT_WORKER_DRAIN] = {"worker_drain", 3}, [FAULT_BROKER_KILL] = {"broker_kill", 5},
    [FAULT_BROKER_DRAIN] = {"broker_drain", 1}, [FAULT_CUT_WORKER] = {"worker_cut", 4},
    [FAULT_CUT_CLIENT] = {"client_cut", 2},     [FAULT_REDIS_STOP] = {"redis_stop", 1},
    [FAULT_REDIS_KILL] = {"redis_kill", 1},
};

const char *fault_name(enum fault fault)
{
    return faults[fault].name;
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t draw(uint64_t *state, uint64_t below)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return below ? (z ^ (z >> 31)) % below : 0;
}

void plan_init(struct torture_plan *plan, uint64_t seed)
{
    *plan = (struct torture_plan){.seed = seed, .kinds = seed};
}

/* A shuffled deck: the shares are exact over each deck, so that a run of some minutes sees all of them. */
static enum fault next_fault(struct torture_plan *plan)
{
    if (plan->deck_left == 0) {
        for (unsigned f = 0; f < FAULT_COUNT; f++) {
            for (unsigned n = 0; n < faults[f].share; n++) {
                plan->deck[plan->deck_left++] = (enum fault)f;
            }
        }
    }
    unsigned index = (unsigned)draw(&plan->kinds, plan->deck_left);
    enum fault fault = plan->deck[index];
    plan->deck[index] = plan->deck[--plan->deck_left];
    return fault;
}

/* A worker that runs and is not stopped; -1 when there is none. */
static int some_worker(struct torture_plan *plan, const struct torture_pool *pool)
{
    unsigned from = (unsigned)draw(&plan->details, TORTURE_WORKERS);
    for (unsigned i = 0; i < TORTURE_WORKERS; i++) {
        unsigned index = (from + i) % TORTURE_WORKERS;
        if (pool->workers[index] > 0 && !pool->stopped[index]) {
            return (int)index;
        }
    }
    return -1;
}

static uint64_t some_time_us(struct torture_plan *plan)
{
    return clock_now_us() + 500000 + draw(&plan->details, 3500000);
}

/* False, as in the next ones: nobody is there to be hurt. */
static bool hurt_worker(struct torture_plan *plan, struct torture_pool *pool, enum fault fault)
{
    int index = some_worker(plan, pool);
    if (index < 0) {
        return false;
    }
    if (fault == FAULT_WORKER_STOP) {
        pool->stopped[index] = true;
        plan->resume_us[index] = some_time_us(plan);
        kill(pool->workers[index], SIGSTOP);
    } else if (fault == FAULT_CUT_WORKER) {
        relay_cut(pool->relay, pool->worker_lanes[index], 1 + (unsigned)draw(&plan->details, 3), some_time_us(plan));
    } else {
        kill(pool->workers[index], fault == FAULT_WORKER_KILL ? SIGKILL : SIGTERM);
    }
    return true;
}

static bool hurt_redis(struct torture_plan *plan, struct torture_pool *pool, enum fault fault)
{
    if (pool->redis <= 0 || (fault == FAULT_REDIS_STOP && pool->redis_stopped)) {
        return false;
    }
    if (fault == FAULT_REDIS_KILL) {
        kill(pool->redis, SIGKILL);
        pool->redis_stopped = false;
        return true;
    }
    kill(pool->redis, SIGSTOP); /* a black hole: it accepts and never answers */
    pool->redis_stopped = true;
    plan->redis_resume_us = some_time_us(plan);
    return true;
}

static void hurt_client(struct torture_plan *plan, struct torture_pool *pool)
{
    if (draw(&plan->details, 3) == 0) {
        relay_reset(pool->relay, pool->client_lane);
    } else {
        relay_cut(pool->relay, pool->client_lane, 1 + (unsigned)draw(&plan->details, 3), some_time_us(plan));
    }
}

static bool hurt(struct torture_plan *plan, struct torture_pool *pool, enum fault fault)
{
    if (fault == FAULT_BROKER_KILL || fault == FAULT_BROKER_DRAIN) {
        return torture_pool_broker_restart(pool, fault == FAULT_BROKER_KILL ? SIGKILL : SIGTERM);
    }
    if (fault == FAULT_REDIS_STOP || fault == FAULT_REDIS_KILL) {
        return hurt_redis(plan, pool, fault);
    }
    if (fault != FAULT_CUT_CLIENT) {
        return hurt_worker(plan, pool, fault);
    }
    hurt_client(plan, pool);
    return true;
}

bool plan_strike(struct torture_plan *plan, struct torture_pool *pool, bool own_pool, enum fault *ret_fault)
{
    if (!plan->drawn) {
        plan->next = own_pool ? next_fault(plan) : FAULT_CUT_CLIENT;
        plan->drawn = true;
    }
    enum fault fault = plan->next;
    if ((fault == FAULT_REDIS_STOP || fault == FAULT_REDIS_KILL) && !pool->with_redis) {
        fault = FAULT_WORKER_KILL;
    }
    plan->details = plan->seed ^ ~plan->struck;
    if (!hurt(plan, pool, fault)) {
        return false;
    }
    if (plan->struck < TORTURE_ORDER_MAX) {
        plan->order[plan->struck] = (uint8_t)fault;
    }
    plan->struck++;
    plan->counts[fault]++;
    plan->drawn = false;
    *ret_fault = fault;
    return true;
}

void plan_heal(struct torture_plan *plan, struct torture_pool *pool, enum heal heal)
{
    bool all = heal == HEAL_ALL;
    uint64_t now_us = clock_now_us();
    for (unsigned i = 0; i < TORTURE_WORKERS; i++) {
        if (pool->stopped[i] && (all || now_us >= plan->resume_us[i])) {
            pool->stopped[i] = false;
            if (pool->workers[i] > 0) {
                kill(pool->workers[i], SIGCONT);
            }
        }
        if (all && pool->relay) {
            relay_cut(pool->relay, pool->worker_lanes[i], 0, 0);
        }
    }
    if (pool->redis_stopped && (all || now_us >= plan->redis_resume_us)) {
        pool->redis_stopped = false;
        kill(pool->redis, SIGCONT);
    }
    if (all && pool->relay) {
        relay_cut(pool->relay, pool->client_lane, 0, 0);
    }
}
