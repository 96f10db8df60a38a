/*
 * The fairness bound: while two clients of one level wait in the same lane, neither is served before the other by more than one job.
 *
 * Start-time fair queueing promises |service_i / weight_i - service_j / weight_j| <= lead at the start + cost of one job / its weight. The
 * service is counted here from what was charged, not read from the broker's virtual times; those serve once, as the lead that two clients
 * have when the second of them begins to wait. A job counts by the forecast until its run is over, then by what was measured; each run is settled once. Linked with
 * --wrap around the functions through which clients come, are served, pay and go.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define SHARES_MAX 64u
#define PAIRS_MAX  1024u
#define OPEN_MAX   4096u

struct served {
    const struct fair_share *share;
    double units; /* of virtual time */
    uint32_t charges;
};

struct pair {
    const struct lane *lane;
    struct served *served[2];
    double from[2]; /* virtual start less what had been served: what the service since then is added to */
};

/* A run that is charged by the forecast. */
struct open_charge {
    const struct cost *cost; /* in its dispatch */
    struct served *served;
    double units;
};

static struct sim *world;
static struct ledger {
    struct served served[SHARES_MAX];
    struct pair pairs[PAIRS_MAX];
    struct open_charge open[OPEN_MAX];
    uint32_t served_count, pairs_count, open_count;
} ledgers[SIM_SIDES];

/* Of the broker whose turn it is. */
static struct ledger *ledger(void)
{
    return &ledgers[world->side->number];
}

void fair_begin(struct sim *sim)
{
    world = sim;
    ledger()->served_count = ledger()->pairs_count = ledger()->open_count = 0;
}

static bool in_use(const struct served *served)
{
    for (uint32_t i = 0; i < ledger()->open_count; i++) {
        if (ledger()->open[i].served == served)
            return true;
    }
    for (uint32_t i = 0; i < ledger()->pairs_count; i++) {
        if (ledger()->pairs[i].served[0] == served || ledger()->pairs[i].served[1] == served)
            return true;
    }
    return false;
}

/* A share that is freed and made anew at the same place goes on from where it was: only differences count. */
static struct served *served_of(const struct fair_share *share)
{
    for (uint32_t i = 0; i < ledger()->served_count; i++) {
        if (ledger()->served[i].share == share)
            return &ledger()->served[i];
    }
    struct served *served = NULL;
    if (ledger()->served_count < SHARES_MAX)
        served = &ledger()->served[ledger()->served_count++];
    for (uint32_t i = 0; !served && i < SHARES_MAX; i++)
        served = in_use(&ledger()->served[i]) ? NULL : &ledger()->served[i];
    if (!served)
        abort();
    *served = (struct served){.share = share};
    return served;
}

static bool known(const struct lane *lane, const struct served *one, const struct served *other)
{
    for (uint32_t i = 0; i < ledger()->pairs_count; i++) {
        const struct pair *pair = &ledger()->pairs[i];
        if (pair->lane == lane && ((pair->served[0] == one && pair->served[1] == other) ||
                                   (pair->served[0] == other && pair->served[1] == one)))
            return true;
    }
    return false;
}

static void begin_pair(const struct lane *lane, const struct fair_share *one, const struct fair_share *other)
{
    struct served *a = served_of(one), *b = served_of(other);
    if (a == b || one->priority != other->priority || known(lane, a, b))
        return;
    if (ledger()->pairs_count == PAIRS_MAX)
        abort();
    ledger()->pairs[ledger()->pairs_count++] = (struct pair){
        .lane = lane, .served = {a, b}, .from = {(double)one->start - a->units, (double)other->start - b->units}};
}

struct turn *__real_fair_queue_turn(struct fair_queue *fair_queue, struct lane *lane, uint64_t identity,
                                    uint32_t weight, uint8_t priority);
struct turn *__wrap_fair_queue_turn(struct fair_queue *fair_queue, struct lane *lane, uint64_t identity,
                                    uint32_t weight, uint8_t priority);

struct turn *__wrap_fair_queue_turn(struct fair_queue *fair_queue, struct lane *lane, uint64_t identity,
                                    uint32_t weight, uint8_t priority)
{
    struct turn *turn = __real_fair_queue_turn(fair_queue, lane, identity, weight, priority);
    for (size_t i = 0; turn && i < lane->turns.count; i++)
        begin_pair(lane, turn->share, ((const struct turn *)lane->turns.items[i])->share);
    return turn;
}

void __real_fair_queue_turn_end(struct fair_queue *fair_queue, struct turn *turn);
void __wrap_fair_queue_turn_end(struct fair_queue *fair_queue, struct turn *turn);

void __wrap_fair_queue_turn_end(struct fair_queue *fair_queue, struct turn *turn)
{
    for (uint32_t i = 0; i < ledger()->pairs_count;) {
        const struct pair *pair = &ledger()->pairs[i];
        if (pair->lane == turn->lane &&
            (pair->served[0]->share == turn->share || pair->served[1]->share == turn->share))
            ledger()->pairs[i] = ledger()->pairs[--ledger()->pairs_count];
        else
            i++;
    }
    __real_fair_queue_turn_end(fair_queue, turn);
}

/* The one about to be served has had no more than the other; a unit of rounding per charge is forgiven. */
static void check_pair(const struct pair *pair, size_t who)
{
    const struct served *own = pair->served[who], *other = pair->served[1 - who];
    double had = pair->from[who] + own->units, others = pair->from[1 - who] + other->units;
    world->counts.fair_checks++;
    if (had > others + own->charges + other->charges)
        sim_fail(world, "a client is served %.0f units of virtual time ahead of another that waits in the same lane",
                 had - others);
}

/* ---- what runs cost: charged when they begin, settled once when they are over ---- */

static struct open_charge *open_find(const struct cost *cost)
{
    for (uint32_t i = 0; i < ledger()->open_count; i++) {
        if (ledger()->open[i].cost == cost)
            return &ledger()->open[i];
    }
    return NULL;
}

static void check_turn(const struct lane *lane, const struct job *job)
{
    const struct served *served = served_of(job->turn->share);
    for (uint32_t i = 0; i < ledger()->pairs_count; i++) {
        const struct pair *pair = &ledger()->pairs[i];
        if (pair->lane == lane && (pair->served[0] == served || pair->served[1] == served))
            check_pair(pair, pair->served[1] == served);
    }
}

void __real_lane_charge(struct lane *lane, const struct job *job, uint64_t cost_us, struct cost *ret_cost);
void __wrap_lane_charge(struct lane *lane, const struct job *job, uint64_t cost_us, struct cost *ret_cost);

void __wrap_lane_charge(struct lane *lane, const struct job *job, uint64_t cost_us, struct cost *ret_cost)
{
    if (job->turn && job == lane_head(lane)) /* others start on other workers, where the head is better off without */
        check_turn(lane, job);
    __real_lane_charge(lane, job, cost_us, ret_cost);
    if (ledger()->open_count == OPEN_MAX || !ret_cost->share || open_find(ret_cost)) /* there is memory here */
        abort();
    double units = (double)(cost_us ? cost_us : 1) * 1024.0 / ret_cost->share->weight;
    struct served *served = served_of(ret_cost->share);
    served->units += units;
    served->charges++;
    ledger()->open[ledger()->open_count++] = (struct open_charge){.cost = ret_cost, .served = served, .units = units};
}

/* The broker lets nobody fall further behind its level than what may be saved up: what is forgotten then is a new lead of the others. */
static void forget(struct served *served, const struct fair_queue *fair_queue, const struct fair_share *share,
                   double units)
{
    double least = (double)fair_queue->now[share->priority] - (double)FAIR_BURST_US * 1024.0;
    if ((double)share->start > least + 2)
        sim_fail(world, "a client that was charged too much by %.0f units of virtual time did not get them back",
                 units);
    for (uint32_t i = 0; i < ledger()->pairs_count; i++) {
        struct pair *pair = &ledger()->pairs[i];
        if (pair->served[0] == served || pair->served[1] == served)
            pair->from[pair->served[1] == served] += units;
    }
}

void __real_fair_queue_settle(struct fair_queue *fair_queue, struct cost *cost, double cost_us);
void __wrap_fair_queue_settle(struct fair_queue *fair_queue, struct cost *cost, double cost_us);

void __wrap_fair_queue_settle(struct fair_queue *fair_queue, struct cost *cost, double cost_us)
{
    const struct fair_share *share = cost->share;
    struct open_charge *open = open_find(cost);
    double before = share ? (double)share->start : 0;
    __real_fair_queue_settle(fair_queue, cost, cost_us);
    if (!share && !open)
        return; /* a hedge, or settled before */
    if (!share || !open || cost->share) {
        sim_fail(world, "a run's cost is settled more than once, or not at all");
        return;
    }
    double change = cost_us * 1024.0 / share->weight - open->units, moved = (double)share->start - before;
    open->served->units += change;
    open->served->charges++;
    if (moved > change + 2)
        forget(open->served, fair_queue, share, moved - change);
    *open = ledger()->open[--ledger()->open_count];
    world->counts.fair_settled++;
}

void fair_check(struct sim *sim)
{
    const struct worker *worker;
    const struct dispatch *dispatch;
    uint32_t open = 0;
    TAILQ_FOREACH(worker, &sim->side->broker.fleet.all, in_fleet)
    {
        TAILQ_FOREACH(dispatch, &worker->dispatches, in_worker)
        {
            for (uint32_t i = 0; i < dispatch->count; i++) {
                const struct dispatch_slot *slot = &dispatch->slots[i];
                open += slot->cost.share != NULL;
                if (slot->answered && slot->cost.share)
                    sim_fail(sim, "an answered run is not settled");
            }
        }
    }
    if (open != ledger()->open_count)
        sim_fail(sim, "%u runs are charged, %u of them are under way", ledger()->open_count, open);
}
