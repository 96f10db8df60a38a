#include "fair_queue.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "job.h"
#include "queue.h"

#define UNITS_PER_US                                                                                                   \
    1024u /* per microsecond at weight 1: weights up to 1000 keep their proportion even for a cost of one microsecond */

enum pen_status fair_queue_init(struct fair_queue *fair_queue)
{
    *fair_queue = (struct fair_queue){.now = {0}};
    TAILQ_INIT(&fair_queue->idle);
    if (table_init(&fair_queue->by_identity) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    return table_init(&fair_queue->by_place);
}

static void share_free(struct fair_queue *fair_queue, struct fair_share *share)
{
    PEN_ASSERT(TAILQ_EMPTY(&share->turns), "who waits keeps its share");
    table_remove(&fair_queue->by_identity, &share->by_identity);
    free(share);
}

void fair_queue_fini(struct fair_queue *fair_queue)
{
    struct fair_share *share;
    while ((share = TAILQ_FIRST(&fair_queue->idle)) != NULL) {
        TAILQ_REMOVE(&fair_queue->idle, share, in_idle);
        share_free(fair_queue, share);
    }
    table_fini(&fair_queue->by_identity);
    table_fini(&fair_queue->by_place);
}

static struct fair_share *share_find(const struct fair_queue *fair_queue, uint64_t identity, uint8_t priority,
                                     uint64_t hash)
{
    struct table_node *node = table_first(&fair_queue->by_identity, hash);
    for (; node; node = table_next(&fair_queue->by_identity, node)) {
        struct fair_share *share = table_entry(node, struct fair_share, by_identity);
        if (share->identity == identity && share->priority == priority)
            return share;
    }
    return NULL;
}

/* The smallest start of all shares in the level. */
static uint64_t floor_of(const struct fair_queue *fair_queue, uint8_t priority)
{
    uint64_t burst = (uint64_t)FAIR_BURST_US * UNITS_PER_US, now = fair_queue->now[priority];
    return now > burst ? now - burst : 0;
}

/* Call it before a first turn is added: the share is idle no more. */
static struct fair_share *share_wake(struct fair_queue *fair_queue, uint64_t identity, uint8_t priority)
{
    uint64_t hash = table_hash(&fair_queue->by_identity, identity, priority);
    struct fair_share *share = share_find(fair_queue, identity, priority, hash);
    if (share && TAILQ_EMPTY(&share->turns)) {
        TAILQ_REMOVE(&fair_queue->idle, share, in_idle);
        if (share->start < floor_of(fair_queue, priority))
            share->start = floor_of(fair_queue, priority);
    }
    if (share)
        return share;
    share = calloc(1, sizeof *share);
    if (!share)
        return NULL;
    TAILQ_INIT(&share->turns);
    share->identity = identity;
    share->priority = priority;
    share->start = fair_queue->now[priority];
    table_insert(&fair_queue->by_identity, &share->by_identity, hash);
    return share;
}

static void share_rest(struct fair_queue *fair_queue, struct fair_share *share)
{
    if (!TAILQ_EMPTY(&share->turns))
        return;
    PEN_ASSERT(share->weight > 0, "each share has a weight");
    if (share->start < floor_of(fair_queue, share->priority) && share->open == 0)
        share_free(fair_queue, share);
    else
        TAILQ_INSERT_TAIL(&fair_queue->idle, share, in_idle);
}

static uint32_t weight_of(uint32_t weight)
{
    return weight == 0 ? 1 : weight > FAIR_WEIGHT_MAX ? FAIR_WEIGHT_MAX : weight;
}

struct fair_share *fair_queue_share(struct fair_queue *fair_queue, uint64_t identity, uint32_t weight, uint8_t priority)
{
    uint64_t hash = table_hash(&fair_queue->by_identity, identity, priority);
    struct fair_share *share = share_find(fair_queue, identity, priority, hash);
    if (share || !(share = share_wake(fair_queue, identity, priority)))
        return share;
    share->weight = weight_of(weight);
    TAILQ_INSERT_TAIL(&fair_queue->idle, share, in_idle);
    return share;
}

static uint64_t place_hash(const struct fair_queue *fair_queue, const struct lane *lane, const struct fair_share *share)
{
    return table_hash(&fair_queue->by_place, (uint64_t)(uintptr_t)lane, (uint64_t)(uintptr_t)share);
}

static struct turn *turn_find(const struct fair_queue *fair_queue, const struct lane *lane,
                              const struct fair_share *share)
{
    struct table_node *node = table_first(&fair_queue->by_place, place_hash(fair_queue, lane, share));
    for (; node; node = table_next(&fair_queue->by_place, node)) {
        struct turn *turn = table_entry(node, struct turn, by_place);
        if (turn->lane == lane && turn->share == share)
            return turn;
    }
    return NULL;
}

const struct turn *fair_queue_find(const struct fair_queue *fair_queue, const struct lane *lane, uint64_t identity,
                                   uint8_t priority)
{
    const struct fair_share *share =
        share_find(fair_queue, identity, priority, table_hash(&fair_queue->by_identity, identity, priority));
    return share ? turn_find(fair_queue, lane, share) : NULL;
}

struct turn *fair_queue_turn(struct fair_queue *fair_queue, struct lane *lane, uint64_t identity, uint32_t weight,
                             uint8_t priority)
{
    struct fair_share *share = share_wake(fair_queue, identity, priority);
    if (!share)
        return NULL;
    share->weight = weight_of(weight);
    struct turn *turn = turn_find(fair_queue, lane, share);
    if (turn)
        return turn;
    turn = lane->spare_turn ? lane->spare_turn : calloc(1, sizeof *turn);
    if (!turn) {
        share_rest(fair_queue, share);
        return NULL;
    }
    if (!lane->spare_turn)
        line_init(&turn->jobs);
    lane->spare_turn = NULL;
    turn->share = share;
    turn->lane = lane;
    TAILQ_INSERT_TAIL(&share->turns, turn, in_share);
    table_insert(&fair_queue->by_place, &turn->by_place, place_hash(fair_queue, lane, share));
    fair_queue->waiting[priority]++;
    PEN_ASSERT(turn->jobs.count == 0 && turn->lane_place == 0, "a new turn has no jobs and is in no heap");
    return turn;
}

/* The turn is kept, because otherwise a busy lane would make and free one for each job. */
void fair_queue_turn_end(struct fair_queue *fair_queue, struct turn *turn)
{
    struct fair_share *share = turn->share;
    PEN_ASSERT(turn->jobs.count == 0 && turn->lane_place == 0, "a turn ends when its last job has left");
    PEN_ASSERT(fair_queue->waiting[share->priority] > 0, "a turn that ends has been counted as waiting");
    table_remove(&fair_queue->by_place, &turn->by_place);
    TAILQ_REMOVE(&share->turns, turn, in_share);
    fair_queue->waiting[share->priority]--;
    share_rest(fair_queue, share);
    if (turn->lane->spare_turn) {
        line_fini(&turn->jobs);
        free(turn);
    } else {
        turn->lane->spare_turn = turn;
    }
}

/* The start decides where the share's turns are in their lanes. */
static void share_move(struct fair_share *share, uint64_t start)
{
    struct turn *turn;
    share->start = start;
    TAILQ_FOREACH(turn, &share->turns, in_share)
    heap_update(&turn->lane->turns, turn);
}

void fair_queue_charge(struct fair_queue *fair_queue, struct fair_share *share, uint64_t cost_us, struct cost *ret_cost)
{
    uint64_t units = (cost_us ? cost_us : 1) * UNITS_PER_US / share->weight + 1;
    PEN_ASSERT(share->start + units > share->start, "what is charged moves a share on");
    if (fair_queue->now[share->priority] < share->start)
        fair_queue->now[share->priority] = share->start;
    share->open++;
    share_move(share, share->start + units);
    *ret_cost = (struct cost){.share = share, .units = units};
}

void fair_queue_settle(struct fair_queue *fair_queue, struct cost *cost, double cost_us)
{
    struct fair_share *share = cost->share;
    if (!share)
        return;
    uint64_t units = cost_us > 0 ? (uint64_t)(cost_us * UNITS_PER_US / share->weight) + 1 : 0;
    uint64_t start = share->start - cost->units + units, least = floor_of(fair_queue, share->priority);
    if (start < least && start < share->start)
        start = share->start < least ? share->start : least;
    PEN_ASSERT(share->open > 0 && share->start >= cost->units, "what is settled was charged before, and once");
    share->open--;
    cost->share = NULL;
    if (start != share->start)
        share_move(share, start);
}

bool fair_share_near(const struct fair_share *share, const struct fair_share *first, uint64_t cost_us)
{
    uint64_t cost = (cost_us ? cost_us : 1) * UNITS_PER_US / share->weight + 1;
    return share->priority != first->priority || share->start <= first->start + cost;
}

/* A level in which nobody waits is over: the next clients begin as equals. */
void fair_queue_sweep(struct fair_queue *fair_queue)
{
    struct fair_share *share, *next;
    for (share = TAILQ_FIRST(&fair_queue->idle); share; share = next) {
        next = TAILQ_NEXT(share, in_idle);
        bool behind = share->start < floor_of(fair_queue, share->priority);
        if (share->open > 0 || (!behind && fair_queue->waiting[share->priority] > 0))
            continue;
        TAILQ_REMOVE(&fair_queue->idle, share, in_idle);
        share_free(fair_queue, share);
    }
}

uint32_t fair_weight_parse(const char *text, const char *name)
{
    char *end;
    size_t length = strcspn(text, "=");
    if (length == 0 || text[length] != '=' || (name && (strlen(name) != length || memcmp(text, name, length) != 0)))
        return 0;
    unsigned long weight = strtoul(text + length + 1, &end, 10);
    return *end || weight > FAIR_WEIGHT_MAX ? 0 : (uint32_t)weight;
}

bool turn_before(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    if (x->share->priority != y->share->priority)
        return x->share->priority < y->share->priority;
    if (x->share->start != y->share->start)
        return x->share->start < y->share->start;
    return job_before(line_top(&x->jobs), line_top(&y->jobs));
}
