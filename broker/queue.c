#include "queue.h"

#include <stdlib.h>
#include <string.h>

enum pen_status queue_init(struct queue *queue, struct lane_list *active, uint64_t limit_jobs)
{
    *queue = (struct queue){.active = active, .limit_jobs = limit_jobs};
    return table_init(&queue->lanes);
}

static uint64_t text_hash(const char *text)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a: short texts, and the table's seed is mixed in afterwards */
    for (; text && *text; text++)
        hash = (hash ^ (uint8_t)*text) * 1099511628211u;
    return hash;
}

static bool same_demand(const struct demand *a, const struct demand *b)
{
    return a->precision == b->precision && strcmp(a->backend, b->backend) == 0 &&
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
    heap_init(&lane->heap, job_before, offsetof(struct job, lane_place));
    return lane;
}

struct lane *queue_lane(struct queue *queue, struct model *model, const struct demand *demand, uint64_t shape)
{
    uint64_t hash = table_hash(&queue->lanes, shape ^ (uint64_t)demand->precision << 56,
                               text_hash(demand->backend) ^ text_hash(demand->tags) * 3);
    struct table_node *node = table_first(&queue->lanes, hash);
    for (; node; node = table_next(node)) {
        struct lane *lane = table_entry(node, struct lane, by_demand);
        if (lane->shape == shape && same_demand(&lane->demand, demand)) {
            if (queue->idle == lane)
                queue->idle = NULL;
            lane->users++;
            return lane;
        }
    }
    struct lane *lane = lane_new(queue, model, demand, shape);
    if (!lane)
        return NULL;
    lane->users = 1;
    table_insert(&queue->lanes, &lane->by_demand, hash);
    return lane;
}

static void lane_free(struct lane *lane)
{
    table_remove(&lane->queue->lanes, &lane->by_demand);
    heap_fini(&lane->heap);
    free((char *)(uintptr_t)lane->demand.tags);
    free(lane);
}

/* A model in use would else make and free its lane for each job. */
void lane_release(struct lane *lane)
{
    if (--lane->users > 0)
        return;
    if (lane->queue->idle)
        lane_free(lane);
    else
        lane->queue->idle = lane;
}

void queue_fini(struct queue *queue)
{
    if (queue->idle)
        lane_free(queue->idle);
    table_fini(&queue->lanes);
}

enum pen_status queue_enter(struct queue *queue, size_t bytes)
{
    if (queue->waiting >= queue->limit_jobs)
        return PEN_ERR_BUSY;
    queue->waiting++;
    queue->bytes += bytes;
    return PEN_OK;
}

void queue_leave(struct queue *queue, size_t bytes)
{
    queue->waiting--;
    queue->bytes -= bytes;
}

enum pen_status lane_push(struct lane *lane, struct job *job)
{
    if (heap_push(&lane->heap, job) != PEN_OK)
        return PEN_ERR_NO_MEMORY;
    if (lane->heap.count == 1)
        TAILQ_INSERT_TAIL(lane->queue->active, lane, in_active);
    lane->rows += job->rows;
    return PEN_OK;
}

struct job *lane_head(const struct lane *lane)
{
    return heap_top(&lane->heap);
}

void lane_remove(struct lane *lane, struct job *job)
{
    if (!heap_holds(&lane->heap, job))
        return;
    heap_remove(&lane->heap, job);
    lane->rows -= job->rows;
    if (lane->heap.count == 0) {
        TAILQ_REMOVE(lane->queue->active, lane, in_active);
        lane->wake_us = UINT64_MAX;
        lane->unserved_us = 0;
    }
}
