#include <stdlib.h>
#include <string.h>

#include "graph/arena.h"
#include "graph/pass_internal.h"

/* A folded value that something not folded still reads. */
static bool needed(const struct rewrite *r, const bool *folded, uint32_t value)
{
    uint32_t link = UINT32_MAX, input, reader;
    if (rewrite_is_output(r, value))
        return true;
    while ((reader = uses_next(&r->uses, value, &link, &input)) != NODE_NONE) {
        if (!folded[reader])
            return true;
    }
    return false;
}

/* The value becomes a constant: the data moves to the graph's arena, unless it is a view of a constant there. */
static enum pen_status settle(struct rewrite *r, uint32_t value)
{
    struct graph *g = r->g;
    const struct fact *f = rewrite_fact(r, value);
    static const uint64_t nothing[2];
    const void *data = f->data;
    if (f->bytes && arena_owns(r->env->arena, f->data)) {
        void *copy = graph_alloc_data(g, f->bytes);
        if (!copy)
            return PEN_ERR_NO_MEMORY;
        memcpy(copy, f->data, f->bytes);
        data = copy;
        g->folded_bytes += f->bytes;
    }
    struct value *v = &g->values[value];
    v->kind = VALUE_TENSOR;
    v->dtype = f->dtype;
    v->shape = f->shape;
    v->data = f->bytes ? data : nothing;
    v->bytes = f->bytes;
    v->producer = NODE_NONE;
    return PEN_OK;
}

/* All folded values that are needed together must fit the budget. */
static bool within_budget(const struct rewrite *r, const bool *folded)
{
    uint64_t bytes = r->g->folded_bytes;
    for (uint32_t i = 0; i < r->g->node_count; i++) {
        const struct node *n = &r->g->nodes[i];
        for (uint32_t k = 0; folded[i] && k < n->out_count; k++) {
            if (n->out[k] != VALUE_NONE && needed(r, folded, n->out[k]))
                bytes += rewrite_fact(r, n->out[k])->bytes;
        }
    }
    return bytes <= r->g->limits.folded_bytes;
}

static uint64_t result_bytes(const struct rewrite *r, const struct node *n)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < n->out_count; k++)
        bytes += n->out[k] != VALUE_NONE ? rewrite_fact(r, n->out[k])->bytes : 0;
    return bytes;
}

#define LARGE_MAX 64 /* nodes that are left to the runs before all are */

/* What does not fit is computed at each run: the largest first. False: nothing is folded. */
static bool budget_keep(const struct rewrite *r, bool *folded)
{
    for (uint32_t left = 0; left < LARGE_MAX; left++) {
        uint32_t largest = NODE_NONE;
        if (within_budget(r, folded))
            return true;
        for (uint32_t i = 0; i < r->g->node_count; i++)
            if (folded[i] &&
                (largest == NODE_NONE || result_bytes(r, &r->g->nodes[i]) > result_bytes(r, &r->g->nodes[largest])))
                largest = i;
        if (largest == NODE_NONE)
            return false;
        folded[largest] = false;
    }
    return false;
}

static enum pen_status fold_nodes(struct rewrite *r, bool *folded, uint32_t *ret_count)
{
    struct graph *g = r->g;
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < g->node_count; i++)
        folded[i] = g->nodes[i].out_count > 0 && shape_env_folded(r->env, &g->nodes[i]);
    if (!budget_keep(r, folded))
        return PEN_OK;
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        if (!folded[i])
            continue;
        ++*ret_count;
        const struct node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->out_count && status == PEN_OK; k++) {
            if (n->out[k] != VALUE_NONE && needed(r, folded, n->out[k]))
                status = settle(r, n->out[k]);
        }
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (folded[i])
            uses_kill(&r->uses, i);
    }
    return status;
}

enum pen_status pass_fold(struct graph *g, uint32_t *ret_count, struct pen_error *reterr)
{
    struct rewrite r;
    uint32_t count = 0;
    enum pen_status status = rewrite_init(&r, g, true, reterr);
    if (status != PEN_OK)
        return status;
    bool *folded = calloc((size_t)g->node_count + 1, sizeof *folded);
    status = folded ? fold_nodes(&r, folded, &count) : PEN_ERR_NO_MEMORY;
    free(folded);
    rewrite_fini(&r);
    if (status == PEN_OK)
        status = graph_compact(g);
    if (status != PEN_OK)
        return pen_error_set(reterr, status, "no memory to fold constants");
    if (ret_count)
        *ret_count += count;
    return PEN_OK;
}
