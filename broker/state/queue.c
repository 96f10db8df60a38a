#include "queue.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "cache_key.h"
#include "frame.h"
#include "model.h"
#include "session.h"
#include "words.h"

enum pen_status queue_init(struct queue *queue, struct lane_list *active, struct fair_queue *fair_queue,
                           uint64_t limit_jobs)
{
    *queue = (struct queue){.active = active, .fair_queue = fair_queue, .limit_jobs = limit_jobs};
    return table_init(&queue->lanes);
}

static bool same_demand(const struct demand *a, const struct demand *b)
{
    return a->precision == b->precision &&
           contract_number(a->error_max, a->exact) == contract_number(b->error_max, b->exact) &&
           a->worker == b->worker && a->forms == b->forms && strcmp(a->backend, b->backend) == 0 &&
           strcmp(a->tags ? a->tags : "", b->tags ? b->tags : "") == 0;
}

static struct lane *lane_new(struct queue *queue, struct model *model, const struct demand *demand, uint64_t shape)
{
    struct lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    lane->queue = queue;
    lane->model = model;
    lane->demand = *demand;
    lane->shape = shape;
    lane->wake_us = UINT64_MAX;
    lane->demand.tags = NULL;
    if (demand->tags && *demand->tags && !(lane->demand.tags = strdup(demand->tags))) {
        free(lane);
        return NULL;
    }
    heap_init(&lane->front, job_before, offsetof(struct job, lane_place));
    heap_init(&lane->turns, turn_before, offsetof(struct turn, lane_place));
    return lane;
}

static uint64_t lane_hash(const struct queue *queue, const struct demand *demand, uint64_t shape)
{
    return table_hash(&queue->lanes,
                      shape ^ (uint64_t)demand->precision << 56 ^ (uint64_t)demand->forms << 32 ^ demand->worker ^
                          contract_number(demand->error_max, demand->exact) * UINT64_C(0x9E3779B97F4A7C15),
                      frame_name_hash(demand->backend) ^ frame_name_hash(demand->tags) * 3);
}

static struct lane *lane_find(const struct queue *queue, const struct demand *demand, uint64_t shape, uint64_t hash)
{
    struct table_node *node = table_first(&queue->lanes, hash);
    for (; node; node = table_next(&queue->lanes, node)) {
        struct lane *lane = table_entry(node, struct lane, by_demand);
        if (lane->shape == shape && same_demand(&lane->demand, demand))
            return lane;
    }
    return NULL;
}

struct lane *queue_lane(struct queue *queue, struct model *model, const struct demand *demand, uint64_t shape)
{
    uint64_t hash = lane_hash(queue, demand, shape);
    struct lane *lane = lane_find(queue, demand, shape, hash);
    if (lane) {
        if (queue->idle == lane)
            queue->idle = NULL;
        lane->users++;
        return lane;
    }
    lane = lane_new(queue, model, demand, shape);
    if (!lane)
        return NULL;
    lane->users = 1;
    table_insert(&queue->lanes, &lane->by_demand, hash);
    if (demand->forms)
        forms_refer(&model->forms, demand->forms);
    return lane;
}

static void lane_free(struct lane *lane)
{
    table_remove(&lane->queue->lanes, &lane->by_demand);
    if (lane->demand.forms)
        forms_unrefer(&lane->model->forms, lane->demand.forms);
    heap_fini(&lane->front);
    heap_fini(&lane->turns);
    if (lane->spare_turn)
        line_fini(&lane->spare_turn->jobs);
    free(lane->spare_turn);
    free((char *)(uintptr_t)lane->demand.tags);
    free(lane);
}

/* The lane is kept, because otherwise a busy model would make and free one for each job. */
void lane_release(struct lane *lane)
{
    PEN_ASSERT(lane->users > 0, "a lane is given back as often as it was taken");
    if (--lane->users > 0)
        return;
    PEN_ASSERT(lane->count == 0, "a lane lives as long as jobs wait in it");
    effect_drop(&lane->look);
    if (lane->queue->idle)
        lane_free(lane);
    else
        lane->queue->idle = lane;
}

void queue_fini(struct queue *queue)
{
    if (queue->idle)
        lane_free(queue->idle);
    policies_fini(&queue->policies);
    table_fini(&queue->lanes);
}

/* Waiting jobs of one level, or of all levels without a policy of their own. */
static uint64_t waiting_under(const struct queue *queue, const struct policy *policy)
{
    uint64_t waiting = queue->waiting;
    if (policy->level)
        return queue->at_level[policy->level];
    for (uint32_t i = 0; i < queue->policies.count; i++)
        waiting -= queue->at_level[queue->policies.levels[i].level];
    return waiting;
}

enum pen_status queue_enter(struct queue *queue, const char *model, uint8_t priority, size_t bytes,
                            struct pen_error *reterr)
{
    const struct policy *policy = policy_of(&queue->policies, priority);
    uint64_t under = policy->limit_jobs ? waiting_under(queue, policy) : 0;
    if (queue->waiting >= queue->limit_jobs)
        return pen_error_set(
            reterr, PEN_ERR_BUSY,
            "%" PRIu64 " %s waiting for model '%s', the limit is %" PRIu64 " (--queue-limit); try again later",
            queue->waiting, words_plural(queue->waiting, "job is", "jobs are"), model, queue->limit_jobs);
    if (policy->limit_jobs && under >= policy->limit_jobs && policy->level)
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "%" PRIu64 " %s of priority level %u %s waiting for model '%s', the limit is %" PRIu64
                             " (priority_queue_policy, max_queue_size); try again later or at another level",
                             under, words_plural(under, "job", "jobs"), policy->level, words_plural(under, "is", "are"),
                             model, policy->limit_jobs);
    if (policy->limit_jobs && under >= policy->limit_jobs)
        return pen_error_set(reterr, PEN_ERR_BUSY,
                             "%" PRIu64 " %s waiting for model '%s', the limit is %" PRIu64
                             " (max_queue_size of its config.json); try again later",
                             under, words_plural(under, "job is", "jobs are"), model, policy->limit_jobs);
    queue_add(queue, priority, bytes);
    return PEN_OK;
}

void queue_add(struct queue *queue, uint8_t priority, size_t bytes)
{
    queue->waiting++;
    queue->at_level[priority]++;
    queue->bytes += bytes;
    PEN_ASSERT(queue->at_level[priority] <= queue->waiting, "no more jobs wait at one level than at all");
}

void queue_leave(struct queue *queue, uint8_t priority, size_t bytes)
{
    PEN_ASSERT(queue->waiting > 0 && queue->at_level[priority] > 0 && queue->bytes >= bytes,
               "who leaves a queue has been counted in it, at its level and with its bytes");
    queue->waiting--;
    queue->at_level[priority]--;
    queue->bytes -= bytes;
}

/* The identity in fair sharing: the tenant, or the session of a client without one. */
static uint64_t identity_of(const struct session *session, uint32_t *ret_weight)
{
    const struct tenant *tenant = session ? session->tenant : NULL;
    *ret_weight = tenant ? tenant->weight : 1;
    return tenant && tenant->number ? tenant->number : session ? session->uuid : 0;
}

/* The client's own jobs count as ahead when even the last of them is as urgent. */
uint64_t queue_ahead(const struct queue *queue, const struct session *session, const struct admission_place *place)
{
    uint32_t weight;
    uint64_t identity = identity_of(session, &weight);
    const struct lane *lane =
        lane_find(queue, place->demand, place->shape, lane_hash(queue, place->demand, place->shape));
    const struct turn *turn = lane ? fair_queue_find(queue->fair_queue, lane, identity, place->priority) : NULL;
    const struct job *last = turn ? TAILQ_LAST(&turn->jobs.run, job_list) : NULL;
    if (!last || last->deadline_us > place->deadline_us)
        return 0;
    uint64_t own = turn->jobs.count, others = lane->count - own, met = own * (lane->turns.count - 1);
    return (own + (others < met ? others : met)) * lane->rows / lane->count;
}

static enum pen_status turn_push(struct lane *lane, struct job *job)
{
    uint32_t weight;
    uint64_t identity = identity_of(job->session, &weight);
    struct turn *turn = fair_queue_turn(lane->queue->fair_queue, lane, identity, weight, job->priority);
    if (!turn || line_push(&turn->jobs, job) != PEN_OK) {
        if (turn && turn->jobs.count == 0)
            fair_queue_turn_end(lane->queue->fair_queue, turn);
        return PEN_ERR_NO_MEMORY;
    }
    job->turn = turn;
    if (turn->jobs.count > 1) {
        if (line_top(&turn->jobs) == job)
            heap_update(&lane->turns, turn);
        return PEN_OK;
    }
    if (heap_push(&lane->turns, turn) == PEN_OK)
        return PEN_OK;
    line_remove(&turn->jobs, job);
    job->turn = NULL;
    fair_queue_turn_end(lane->queue->fair_queue, turn);
    return PEN_ERR_NO_MEMORY;
}

static void turn_remove(struct lane *lane, struct job *job)
{
    struct turn *turn = job->turn;
    PEN_ASSERT(turn->lane == lane && turn->jobs.count > 0, "a job's turn is of its lane and has counted it");
    job->turn = NULL;
    bool head = line_top(&turn->jobs) == job;
    if (turn->jobs.count == 1)
        heap_remove(&lane->turns, turn); /* while the turn still has a head to compare it by */
    line_remove(&turn->jobs, job);
    if (turn->jobs.count == 0)
        fair_queue_turn_end(lane->queue->fair_queue, turn);
    else if (head)
        heap_update(&lane->turns, turn);
}

#define CHECKED_TURNS 64u /* more are not checked, because the check runs after each job and must stay cheap */

/* The lane's count is that of its front and its turns. */
static bool lane_adds_up(const struct lane *lane)
{
    uint64_t count = lane->front.count;
    for (size_t i = 0; i < lane->turns.count && lane->turns.count <= CHECKED_TURNS; i++)
        count += ((const struct turn *)lane->turns.items[i])->jobs.count;
    return count == lane->count || lane->turns.count > CHECKED_TURNS;
}

/* No turn is without jobs. */
static bool lane_counts(const struct lane *lane)
{
    size_t heads = lane->front.count + lane->turns.count;
    return heads <= lane->count && (heads > 0 || lane->count == 0);
}

enum pen_status lane_push(struct lane *lane, struct job *job)
{
    PEN_ASSERT(job->lane == lane && job->lane_place == 0, "a job comes into its own lane, and once");
    enum pen_status status = job->front ? heap_push(&lane->front, job) : turn_push(lane, job);
    if (status != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    if (lane->count++ == 0)
        TAILQ_INSERT_TAIL(lane->queue->active, lane, in_active);
    lane->rows += job->rows;
    PEN_ASSERT(lane_counts(lane), "a lane has jobs as long as its heaps hold some");
    PEN_ASSERT_SLOW(lane_adds_up(lane), "a lane's length is that of its turns and its front");
    return PEN_OK;
}

struct job *lane_head(const struct lane *lane)
{
    struct job *first = heap_top(&lane->front);
    const struct turn *turn = first ? NULL : heap_top(&lane->turns);
    return turn ? line_top(&turn->jobs) : first;
}

struct job *lane_ranked(const struct lane *lane, uint64_t rank, uint64_t cost_us)
{
    void *turns[HEAP_FIRST_MAX];
    size_t count = lane->front.count == 0 ? heap_first(&lane->turns, HEAP_FIRST_MAX, turns) : 0;
    if (count == 0)
        return NULL;
    uint64_t round = rank / lane->turns.count, place = rank % lane->turns.count;
    const struct turn *first = turns[0];
    for (size_t i = place < count ? (size_t)place : count - 1; i < count; i++) {
        const struct turn *turn = turns[i];
        if (turn->jobs.count > round && fair_share_near(turn->share, first->share, cost_us))
            return line_ranked(&turn->jobs, round);
    }
    for (size_t i = 0; i < count && i < place; i++) { /* in the next round: one place further back */
        const struct turn *turn = turns[i];
        if (turn->jobs.count > round + 1 && fair_share_near(turn->share, first->share, cost_us))
            return line_ranked(&turn->jobs, round + 1);
    }
    return NULL;
}

static void more_urgent(const struct job *job, uint64_t *deadline_us, uint64_t *oldest_us)
{
    *deadline_us = job->deadline_us < *deadline_us ? job->deadline_us : *deadline_us;
    *oldest_us = job->admitted_us < *oldest_us ? job->admitted_us : *oldest_us;
}

void lane_urgency(const struct lane *lane, uint64_t *ret_deadline_us, uint64_t *ret_oldest_us)
{
    *ret_deadline_us = *ret_oldest_us = UINT64_MAX;
    for (size_t i = 0; i < lane->front.count && i < LANE_LOOK; i++)
        more_urgent(lane->front.items[i], ret_deadline_us, ret_oldest_us);
    for (size_t i = 0; i < lane->turns.count && i < LANE_LOOK; i++) {
        const struct turn *turn = lane->turns.items[i];
        more_urgent(line_top(&turn->jobs), ret_deadline_us, ret_oldest_us);
    }
}

void lane_remove(struct lane *lane, struct job *job)
{
    if (job->lane_place == 0)
        return;
    PEN_ASSERT(job->lane == lane && lane->count > 0 && lane->rows >= job->rows,
               "a job that leaves a lane has been counted in it, with its rows");
    if (job->turn)
        turn_remove(lane, job);
    else
        heap_remove(&lane->front, job);
    lane->rows -= job->rows;
    if (--lane->count == 0) {
        TAILQ_REMOVE(lane->queue->active, lane, in_active);
        lane->wake_us = UINT64_MAX;
        lane->unserved_us = 0;
    }
    PEN_ASSERT(job->lane_place == 0, "a job that has left its lane has no place in it");
    PEN_ASSERT(lane_counts(lane), "a lane has jobs as long as its heaps hold some");
    PEN_ASSERT_SLOW(lane_adds_up(lane), "a lane's length is that of its turns and its front");
}

/* A job that is back from a lost worker is in no turn; the charge of its first run was given back. */
void lane_charge(struct lane *lane, const struct job *job, uint64_t cost_us, struct cost *ret_cost)
{
    uint32_t weight;
    uint64_t identity = identity_of(job->session, &weight);
    struct fair_queue *fair_queue = lane->queue->fair_queue;
    struct fair_share *share =
        job->turn ? job->turn->share : fair_queue_share(fair_queue, identity, weight, job->priority);
    PEN_ASSERT(!ret_cost->share, "a run is charged once");
    if (share)
        fair_queue_charge(fair_queue, share, cost_us, ret_cost);
}

static size_t collect(const struct heap *heap, bool (*wanted)(const struct job *job), struct job **jobs, size_t room)
{
    size_t count = 0;
    for (size_t i = 0; i < heap->count && count < room; i++) {
        if (wanted(heap->items[i]))
            jobs[count++] = heap->items[i];
    }
    return count;
}

size_t lane_collect(const struct lane *lane, bool (*wanted)(const struct job *job), struct job **ret_jobs, size_t room)
{
    size_t count = collect(&lane->front, wanted, ret_jobs, room);
    for (size_t i = 0; i < lane->turns.count; i++) {
        const struct turn *turn = lane->turns.items[i];
        struct job *job;
        count += collect(&turn->jobs.rest, wanted, ret_jobs + count, room - count);
        TAILQ_FOREACH(job, &turn->jobs.run, in_group)
        {
            if (count < room && wanted(job))
                ret_jobs[count++] = job;
        }
    }
    return count;
}

bool lane_before(const struct lane *a, const struct lane *b)
{
    bool a_front = a->front.count > 0, b_front = b->front.count > 0;
    if (a_front != b_front)
        return a_front;
    if (a_front)
        return job_before(heap_top(&a->front), heap_top(&b->front));
    return turn_before(heap_top(&a->turns), heap_top(&b->turns));
}
