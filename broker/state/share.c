#include "share.h"

#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "queue.h"

#define UNITS_PER_US                                                                                                   \
    1024u /* of virtual time at weight 1: weights up to 1000 keep their proportion for costs of a microsecond */

enum pen_status shares_init(struct shares *shares)
{
    *shares = (struct shares){.now = {0}};
    TAILQ_INIT(&shares->idle);
    if (table_init(&shares->by_identity) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    return table_init(&shares->by_place);
}

static void share_free(struct shares *shares, struct share *share)
{
    table_remove(&shares->by_identity, &share->by_identity);
    free(share);
}

void shares_fini(struct shares *shares)
{
    struct share *share;
    while ((share = TAILQ_FIRST(&shares->idle)) != NULL) {
        TAILQ_REMOVE(&shares->idle, share, in_idle);
        share_free(shares, share);
    }
    table_fini(&shares->by_identity);
    table_fini(&shares->by_place);
}

static struct share *share_find(const struct shares *shares, uint64_t identity, uint8_t priority, uint64_t hash)
{
    struct table_node *node = table_first(&shares->by_identity, hash);
    for (; node; node = table_next(&shares->by_identity, node)) {
        struct share *share = table_entry(node, struct share, by_identity);
        if (share->identity == identity && share->priority == priority)
            return share;
    }
    return NULL;
}

/* The earliest start that anybody has in the level. */
static uint64_t floor_of(const struct shares *shares, uint8_t priority)
{
    uint64_t burst = (uint64_t)SHARE_BURST_US * UNITS_PER_US, now = shares->now[priority];
    return now > burst ? now - burst : 0;
}

/* With a first turn about to be added: not idle. */
static struct share *share_wake(struct shares *shares, uint64_t identity, uint8_t priority)
{
    uint64_t hash = table_hash(&shares->by_identity, identity, priority);
    struct share *share = share_find(shares, identity, priority, hash);
    if (share && TAILQ_EMPTY(&share->turns)) {
        TAILQ_REMOVE(&shares->idle, share, in_idle);
        if (share->start < floor_of(shares, priority))
            share->start = floor_of(shares, priority);
    }
    if (share)
        return share;
    share = calloc(1, sizeof *share);
    if (!share)
        return NULL;
    TAILQ_INIT(&share->turns);
    share->identity = identity;
    share->priority = priority;
    share->start = shares->now[priority];
    table_insert(&shares->by_identity, &share->by_identity, hash);
    return share;
}

static void share_rest(struct shares *shares, struct share *share)
{
    if (!TAILQ_EMPTY(&share->turns))
        return;
    if (share->start < floor_of(shares, share->priority) && share->open == 0)
        share_free(shares, share);
    else
        TAILQ_INSERT_TAIL(&shares->idle, share, in_idle);
}

static uint32_t weight_of(uint32_t weight)
{
    return weight == 0 ? 1 : weight > SHARE_WEIGHT_MAX ? SHARE_WEIGHT_MAX : weight;
}

struct share *shares_entry(struct shares *shares, uint64_t identity, uint32_t weight, uint8_t priority)
{
    uint64_t hash = table_hash(&shares->by_identity, identity, priority);
    struct share *share = share_find(shares, identity, priority, hash);
    if (share || !(share = share_wake(shares, identity, priority)))
        return share;
    share->weight = weight_of(weight);
    TAILQ_INSERT_TAIL(&shares->idle, share, in_idle);
    return share;
}

static uint64_t place_hash(const struct shares *shares, const struct lane *lane, const struct share *share)
{
    return table_hash(&shares->by_place, (uint64_t)(uintptr_t)lane, (uint64_t)(uintptr_t)share);
}

static struct turn *turn_find(const struct shares *shares, const struct lane *lane, const struct share *share)
{
    struct table_node *node = table_first(&shares->by_place, place_hash(shares, lane, share));
    for (; node; node = table_next(&shares->by_place, node)) {
        struct turn *turn = table_entry(node, struct turn, by_place);
        if (turn->lane == lane && turn->share == share)
            return turn;
    }
    return NULL;
}

const struct turn *shares_find(const struct shares *shares, const struct lane *lane, uint64_t identity,
                               uint8_t priority)
{
    const struct share *share =
        share_find(shares, identity, priority, table_hash(&shares->by_identity, identity, priority));
    return share ? turn_find(shares, lane, share) : NULL;
}

struct turn *shares_turn(struct shares *shares, struct lane *lane, uint64_t identity, uint32_t weight, uint8_t priority)
{
    struct share *share = share_wake(shares, identity, priority);
    if (!share)
        return NULL;
    share->weight = weight_of(weight);
    struct turn *turn = turn_find(shares, lane, share);
    if (turn)
        return turn;
    turn = lane->spare_turn ? lane->spare_turn : calloc(1, sizeof *turn);
    if (!turn) {
        share_rest(shares, share);
        return NULL;
    }
    if (!lane->spare_turn)
        line_init(&turn->jobs);
    lane->spare_turn = NULL;
    turn->share = share;
    turn->lane = lane;
    TAILQ_INSERT_TAIL(&share->turns, turn, in_share);
    table_insert(&shares->by_place, &turn->by_place, place_hash(shares, lane, share));
    shares->waiting[priority]++;
    return turn;
}

/* A lane in use would else make and free its turn for each job. */
void shares_turn_end(struct shares *shares, struct turn *turn)
{
    struct share *share = turn->share;
    table_remove(&shares->by_place, &turn->by_place);
    TAILQ_REMOVE(&share->turns, turn, in_share);
    shares->waiting[share->priority]--;
    share_rest(shares, share);
    if (turn->lane->spare_turn) {
        line_fini(&turn->jobs);
        free(turn);
    } else {
        turn->lane->spare_turn = turn;
    }
}

/* Where its turns stand in their lanes depends on its start. */
static void share_move(struct share *share, uint64_t start)
{
    struct turn *turn;
    share->start = start;
    TAILQ_FOREACH(turn, &share->turns, in_share)
    heap_update(&turn->lane->turns, turn);
}

void shares_charge(struct shares *shares, struct share *share, uint64_t cost_us, struct charge *ret_charge)
{
    uint64_t units = (cost_us ? cost_us : 1) * UNITS_PER_US / share->weight + 1;
    if (shares->now[share->priority] < share->start)
        shares->now[share->priority] = share->start;
    share->open++;
    share_move(share, share->start + units);
    *ret_charge = (struct charge){.share = share, .units = units};
}

void shares_settle(struct shares *shares, struct charge *charge, double cost_us)
{
    struct share *share = charge->share;
    if (!share)
        return;
    uint64_t units = cost_us > 0 ? (uint64_t)(cost_us * UNITS_PER_US / share->weight) + 1 : 0;
    uint64_t start = share->start - charge->units + units, least = floor_of(shares, share->priority);
    if (start < least && start < share->start)
        start = share->start < least ? share->start : least;
    share->open--;
    charge->share = NULL;
    if (start != share->start)
        share_move(share, start);
}

bool share_near(const struct share *share, const struct share *first, uint64_t cost_us)
{
    uint64_t cost = (cost_us ? cost_us : 1) * UNITS_PER_US / share->weight + 1;
    return share->priority != first->priority || share->start <= first->start + cost;
}

/* A level in which nobody waits is over: whoever comes next finds everybody equal. */
void shares_sweep(struct shares *shares)
{
    struct share *share, *next;
    for (share = TAILQ_FIRST(&shares->idle); share; share = next) {
        next = TAILQ_NEXT(share, in_idle);
        bool behind = share->start < floor_of(shares, share->priority);
        if (share->open > 0 || (!behind && shares->waiting[share->priority] > 0))
            continue;
        TAILQ_REMOVE(&shares->idle, share, in_idle);
        share_free(shares, share);
    }
}

uint32_t share_weight_parse(const char *text, const char *name)
{
    char *end;
    size_t length = strcspn(text, "=");
    if (length == 0 || text[length] != '=' || (name && (strlen(name) != length || memcmp(text, name, length) != 0)))
        return 0;
    unsigned long weight = strtoul(text + length + 1, &end, 10);
    return *end || weight > SHARE_WEIGHT_MAX ? 0 : (uint32_t)weight;
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
