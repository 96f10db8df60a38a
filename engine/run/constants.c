#include "run/constants.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

#include "graph/arena.h"
#include "graph/release.h"

struct constants {
    const struct source *source;
    struct source_options options;
    struct graph *g;
    struct release_sums sums;
    pthread_mutex_t lock;
    bool restored;
};

/* The programs of a model, sorted by their graphs. */
struct programs {
    struct program **items;
    size_t count, room;
    const struct program *last; /* found */
};

static enum pen_status programs_add(struct programs *all, struct program *p)
{
    if (all->count == all->room) {
        size_t room = all->room > 0 ? all->room * 2 : 16;
        struct program **bigger = realloc((void *)all->items, room * sizeof *bigger);
        if (bigger == NULL) {
            return PEN_ERR_NO_MEMORY;
        }
        all->items = bigger;
        all->room = room;
    }
    all->items[all->count++] = p;
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; status == PEN_OK && i < p->child_count; i++) {
        status = programs_add(all, p->children[i].program);
    }
    return status;
}

static int by_graph(const void *a, const void *b)
{
    const struct program *const *x = a, *const *y = b;
    return (uintptr_t)(*x)->g < (uintptr_t)(*y)->g ? -1 : (uintptr_t)(*x)->g > (uintptr_t)(*y)->g;
}

static const struct program *programs_find(struct programs *all, const struct graph *g)
{
    if (all->last == NULL || all->last->g != g) {
        const struct program key = {.g = g}, *key_at = &key;
        struct program **found = bsearch(&key_at, all->items, all->count, sizeof *all->items, by_graph);
        all->last = found != NULL ? *found : NULL;
    }
    return all->last;
}

/* What graph_release() asks: a copy in a plan is read instead. */
static bool reads(void *context, const struct graph *g, uint32_t node, uint32_t input)
{
    const struct program *p = programs_find(context, g);
    return p == NULL || input >= 64 || (p->copied[node] >> input & 1) == 0;
}

static enum pen_status release(struct constants *c, struct program *program)
{
    struct programs all = {0};
    enum pen_status status = programs_add(&all, program);
    if (status == PEN_OK) {
        qsort((void *)all.items, all.count, sizeof *all.items, by_graph);
        status = graph_release(c->g, reads, &all, &c->sums);
    }
    for (size_t i = 0; i < all.count && status == PEN_OK; i++) {
        all.items[i]->constants = c;
    }
    free((void *)all.items);
    return status;
}

enum pen_status constants_new(const struct source *source, const struct source_options *options, struct graph *g,
                              struct program *program, struct constants **ret_constants, struct pen_error *reterr)
{
    struct constants *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a model");
    }
    *c = (struct constants){.source = source, .options = *options, .g = g};
    enum pen_status status = release(c, program);
    if (status != PEN_OK) {
        free(c);
        return pen_error_set(reterr, status, "no memory to look through the model's constants");
    }
    pthread_mutex_init(&c->lock, NULL);
    malloc_trim(0); /* what reading and the passes took: several times the weights of a small model */
    *ret_constants = c;
    return PEN_OK;
}

void constants_free(struct constants *c)
{
    if (c != NULL) {
        pthread_mutex_destroy(&c->lock);
        free(c);
    }
}

/* Reads the model once more, up to the last pass: the same file gives the same graph. */
static enum pen_status restore(struct constants *c, struct pen_error *reterr)
{
    struct graph *again = NULL;
    struct import_extra extra = {0};
    enum pen_status status = source_graph(c->source, &c->options, &again, &extra, reterr);
    if (status != PEN_OK) {
        return status;
    }
    uint64_t before = arena_bytes(c->g->arena);
    status = graph_restore(c->g, again);
    uint64_t after = arena_bytes(c->g->arena);
    c->sums.kept_bytes += after > before ? after - before : 0;
    graph_free(again);
    import_extra_fini(&extra);
    if (status == PEN_ERR_CORRUPT) {
        return pen_error_set(reterr, status, "the model's file has changed since it was loaded: load it again");
    }
    return status == PEN_OK ? status : pen_error_set(reterr, status, "no memory for the model's constants");
}

static bool any_released(const struct graph *g, const uint32_t *nodes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct node *n = &g->nodes[nodes[i]];
        for (uint32_t k = 0; k < n->in_count; k++) {
            if (n->in[k] != VALUE_NONE && g->values[n->in[k]].released) {
                return true;
            }
        }
    }
    return false;
}

enum pen_status constants_need(struct constants *c, const struct graph *g, const uint32_t *nodes, uint32_t count,
                               struct pen_error *reterr)
{
    if (c == NULL || !any_released(g, nodes, count)) {
        return PEN_OK;
    }
    pthread_mutex_lock(&c->lock);
    enum pen_status status = c->restored ? PEN_OK : restore(c, reterr);
    c->restored = status == PEN_OK;
    pthread_mutex_unlock(&c->lock);
    return status;
}

uint64_t constants_bytes(const struct constants *c)
{
    pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&c->lock); /* a bucket may have them made again */
    uint64_t bytes = c->sums.kept_bytes;
    pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&c->lock);
    return bytes;
}

uint64_t constants_weights(const struct constants *c)
{
    return c->sums.weights_bytes;
}
