#include "predecessors.h"

#include <stdlib.h>

#include "assertion.h"

#define BUCKETS 4096u

struct predecessor {
    struct predecessor *next;          /* in its bucket */
    struct predecessor *older, *newer; /* by last use */
    uint64_t model_hash, sequence_id, job;
};

static struct predecessor **place_of(const struct predecessors *p, uint64_t model_hash, uint64_t sequence_id)
{
    struct predecessor **at = &p->buckets[((model_hash ^ sequence_id) * 0x9E3779B97F4A7C15u) >> 52];
    while (*at && ((*at)->model_hash != model_hash || (*at)->sequence_id != sequence_id)) {
        at = &(*at)->next;
    }
    return at;
}

static void list_remove(struct predecessors *p, struct predecessor *one)
{
    *(one->older ? &one->older->newer : &p->oldest) = one->newer;
    *(one->newer ? &one->newer->older : &p->newest) = one->older;
}

static void list_append(struct predecessors *p, struct predecessor *one)
{
    one->older = p->newest;
    one->newer = NULL;
    *(p->newest ? &p->newest->newer : &p->oldest) = one;
    p->newest = one;
}

static void forget_oldest(struct predecessors *p)
{
    struct predecessor *one = p->oldest;
    struct predecessor **at = place_of(p, one->model_hash, one->sequence_id);
    PEN_ASSERT(*at == one, "the oldest sequence is found by its id");
    *at = one->next;
    list_remove(p, one);
    PEN_ASSERT(p->count > 0, "every sequence that is known is counted");
    p->count--;
    free(one);
}

void predecessors_fini(struct predecessors *p)
{
    while (p->oldest) {
        forget_oldest(p);
    }
    PEN_ASSERT(p->count == 0 && !p->newest, "where the list is empty, none is counted");
    free(p->buckets);
    p->buckets = NULL;
}

static struct predecessor *add(struct predecessors *p, uint64_t model_hash, uint64_t sequence_id)
{
    struct predecessor *one = calloc(1, sizeof *one);
    if (!one) {
        return NULL;
    }
    if (p->count == PREDECESSORS_MAX) {
        forget_oldest(p);
    }
    one->model_hash = model_hash;
    one->sequence_id = sequence_id;
    *place_of(p, model_hash, sequence_id) = one; /* the end of its bucket */
    p->count++;
    PEN_ASSERT(p->count <= PREDECESSORS_MAX, "no more sequences are known than are allowed");
    return one;
}

/* The newest of all from now on; NULL: no memory. */
static struct predecessor *touch(struct predecessors *p, uint64_t model_hash, uint64_t sequence_id)
{
    if (!p->buckets && !(p->buckets = calloc(BUCKETS, sizeof(struct predecessor *)))) {
        return NULL;
    }
    struct predecessor *one = *place_of(p, model_hash, sequence_id);
    if (one) {
        list_remove(p, one);
    } else if (!(one = add(p, model_hash, sequence_id))) {
        return NULL;
    }
    list_append(p, one);
    return one;
}

bool predecessors_reserve(struct predecessors *p, uint64_t model_hash, uint64_t sequence_id)
{
    return touch(p, model_hash, sequence_id) != NULL;
}

uint64_t predecessors_next(struct predecessors *p, uint64_t model_hash, uint64_t sequence_id, uint64_t job)
{
    struct predecessor *one = touch(p, model_hash, sequence_id);
    uint64_t before = one ? one->job : 0;
    PEN_ASSERT(before < job, "a job follows one that got its number before");
    if (one) {
        one->job = job;
    }
    return before;
}
