#include "graph/release.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "graph/arena.h"
#include "graph/askew.h"

/* A place in memory that a live graph refers to. */
struct use {
    const void *data;
    size_t bytes;
    bool read, weight; /* weight: the contents of a constant */
};

/* All such places of a graph and the subgraphs beneath it. */
struct census {
    struct use *uses;
    size_t count, room;
    release_reader reads; /* NULL: everybody reads */
    void *context;
};

static enum pen_status use_add(struct census *c, const void *data, size_t bytes, bool read, bool weight)
{
    if (data == NULL)
        return PEN_OK;
    if (c->count == c->room) {
        size_t room = c->room ? c->room * 2 : 256;
        struct use *bigger = realloc(c->uses, room * sizeof *bigger);
        if (!bigger)
            return PEN_ERR_NO_MEMORY;
        c->uses = bigger;
        c->room = room;
    }
    c->uses[c->count++] = (struct use){data, bytes, read, weight};
    return PEN_OK;
}

enum mark { MARK_UNUSED = 0, MARK_USED, MARK_READ };

static void mark_value(unsigned char *marks, uint32_t value, enum mark mark)
{
    if (value != VALUE_NONE && marks[value] < mark)
        marks[value] = (unsigned char)mark;
}

static enum pen_status census_graph(struct census *c, const struct graph *g);

static enum pen_status census_attrs(struct census *c, const struct node *n, unsigned char *marks)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < n->attr_count && status == PEN_OK; i++) {
        const struct attr *a = &n->attrs[i];
        if (a->type == ATTR_TENSOR)
            mark_value(marks, a->value, MARK_READ);
        else if (a->type == ATTR_GRAPH)
            status = census_graph(c, a->graph);
        else if (a->type == ATTR_INTS)
            status = use_add(c, a->ints, a->count * sizeof *a->ints, true, false);
        else if (a->type == ATTR_FLOATS)
            status = use_add(c, a->floats, a->count * sizeof *a->floats, true, false);
    }
    return status;
}

static enum pen_status census_values(struct census *c, const struct graph *g, const unsigned char *marks)
{
    enum pen_status status = PEN_OK;
    for (uint32_t v = 0; v < g->value_count && status == PEN_OK; v++) {
        const struct value *value = &g->values[v];
        if (marks[v] != MARK_UNUSED)
            status = use_add(c, value->data, value->bytes, marks[v] == MARK_READ, true);
        if (status == PEN_OK && value->quant.count > 0)
            status = use_add(c, value->quant.scale, 1, true, false);
        if (status == PEN_OK && value->quant.count > 0)
            status = use_add(c, value->quant.zero_point, 1, true, false);
    }
    return status;
}

/* What lies askew in the file and is not read any more gets a place of its own, without memory: it can be restored there. */
static enum pen_status askew_settle(const struct graph *g, const unsigned char *marks)
{
    enum pen_status status = PEN_OK;
    for (uint32_t v = 0; v < g->value_count && status == PEN_OK; v++) {
        if (marks[v] == MARK_USED && value_is_askew(&g->values[v])) {
            void *place = arena_reserve_data(g->arena, g->values[v].bytes);
            status = place ? PEN_OK : PEN_ERR_NO_MEMORY;
            g->values[v].data = place ? place : g->values[v].data;
        }
    }
    return status;
}

static enum pen_status census_graph(struct census *c, const struct graph *g)
{
    unsigned char *marks = calloc((size_t)g->value_count + 1, 1);
    enum pen_status status = marks ? PEN_OK : PEN_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        const struct node *n = &g->nodes[i];
        if (n->dead)
            continue;
        for (uint32_t k = 0; k < n->in_count; k++) {
            bool constant = n->in[k] != VALUE_NONE && g->values[n->in[k]].data != NULL;
            bool read = constant && (c->reads == NULL || c->reads(c->context, g, i, k));
            mark_value(marks, n->in[k], read ? MARK_READ : MARK_USED);
        }
        status = census_attrs(c, n, marks);
    }
    for (uint32_t i = 0; i < g->output_count && status == PEN_OK; i++)
        mark_value(marks, g->outputs[i], MARK_READ);
    if (status == PEN_OK && c->reads)
        status = askew_settle(g, marks);
    if (status == PEN_OK)
        status = census_values(c, g, marks);
    free(marks);
    return status;
}

/* Calls visit for g and every subgraph that a live node of it reaches. */
static void for_each_graph(struct graph *g, void (*visit)(struct graph *g, void *context), void *context)
{
    visit(g, context);
    for (uint32_t i = 0; i < g->node_count; i++) {
        for (uint32_t k = 0; !g->nodes[i].dead && k < g->nodes[i].attr_count; k++) {
            if (g->nodes[i].attrs[k].type == ATTR_GRAPH)
                for_each_graph(g->nodes[i].attrs[k].graph, visit, context);
        }
    }
}

/* Blocks that hold something that is read. */
static bool *blocks_read(struct graph *g, const struct census *c)
{
    bool *read = calloc(arena_block_count(g->arena) + 1, sizeof *read);
    for (size_t i = 0; read && i < c->count; i++) {
        size_t block = c->uses[i].read ? arena_block_find(g->arena, c->uses[i].data) : ARENA_NO_BLOCK;
        if (block != ARENA_NO_BLOCK)
            read[block] = true;
    }
    return read;
}

/* ---- between passes -------------------------------------------------------------------------------------------------- */

struct trim {
    struct graph_arena *arena;
    const bool *read;
};

static void forget_values(struct graph *g, void *context)
{
    const struct trim *t = context;
    for (uint32_t v = 0; v < g->value_count; v++) {
        size_t block = g->values[v].data ? arena_block_find(t->arena, g->values[v].data) : ARENA_NO_BLOCK;
        if (block != ARENA_NO_BLOCK && !t->read[block]) {
            g->values[v].data = NULL;
            g->values[v].bytes = 0;
        }
    }
}

enum pen_status graph_trim(struct graph *g)
{
    struct census c = {0};
    if (arena_block_count(g->arena) == 0)
        return PEN_OK;
    enum pen_status status = census_graph(&c, g);
    bool *read = status == PEN_OK ? blocks_read(g, &c) : NULL;
    if (read) {
        struct trim t = {g->arena, read};
        for_each_graph(g, forget_values, &t);
        arena_blocks_keep(g->arena, read);
    }
    free(read);
    free(c.uses);
    return status == PEN_OK && !read ? PEN_ERR_NO_MEMORY : status;
}

/* ---- after planning -------------------------------------------------------------------------------------------------- */

static void mark_released(struct graph *g, void *context)
{
    struct graph_arena *arena = context;
    for (uint32_t v = 0; v < g->value_count; v++) {
        size_t block = g->values[v].data ? arena_block_find(arena, g->values[v].data) : ARENA_NO_BLOCK;
        g->values[v].released = block != ARENA_NO_BLOCK && arena_block_sealed(arena, block);
    }
}

static int by_place(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    if (x->data != y->data)
        return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

/* Constants at the same place count once, with the largest of their sizes. */
static void sum_up(struct census *c, struct release_sums *ret_sums)
{
    struct release_sums sums = {0};
    if (c->count > 0)
        qsort(c->uses, c->count, sizeof *c->uses, by_place);
    for (size_t i = 0; i < c->count;) {
        size_t first = i;
        uint64_t bytes = 0;
        bool read = false;
        for (; i < c->count && c->uses[i].data == c->uses[first].data; i++) {
            bytes = c->uses[i].weight && c->uses[i].bytes > bytes ? c->uses[i].bytes : bytes;
            read = read || c->uses[i].read;
        }
        sums.weights_bytes += bytes;
        sums.kept_bytes += read ? bytes : 0;
    }
    PEN_ASSERT(sums.kept_bytes <= sums.weights_bytes, "what is kept of the constants is a part of them");
    *ret_sums = sums;
}

enum pen_status graph_release(struct graph *g, release_reader reads, void *context, struct release_sums *ret_sums)
{
    struct census c = {.reads = reads, .context = context};
    enum pen_status status = census_graph(&c, g);
    bool *read = status == PEN_OK ? blocks_read(g, &c) : NULL;
    for (size_t i = 0; read && i < arena_block_count(g->arena); i++) {
        if (!read[i])
            (void)arena_block_seal(g->arena, i);
    }
    if (read) {
        for_each_graph(g, mark_released, g->arena);
        sum_up(&c, ret_sums);
    }
    free(read);
    free(c.uses);
    return status == PEN_OK && !read ? PEN_ERR_NO_MEMORY : status;
}

/* ---- when somebody has to read all the same ---------------------------------------------------------------------------- */

static enum pen_status restore_value(struct graph_arena *arena, const struct value *v, const struct value *from)
{
    if (!v->released)
        return PEN_OK;
    if (!from->data || from->released || from->bytes != v->bytes || from->dtype != v->dtype ||
        strcmp(from->name, v->name) != 0)
        return PEN_ERR_CORRUPT;
    if (!arena_block_unseal(arena, arena_block_find(arena, v->data)))
        return PEN_ERR_NO_MEMORY;
    memcpy((void *)(uintptr_t)v->data, from->data, v->bytes);
    return PEN_OK;
}

enum pen_status graph_restore(struct graph *g, const struct graph *again)
{
    if (g->value_count != again->value_count || g->node_count != again->node_count)
        return PEN_ERR_CORRUPT;
    enum pen_status status = PEN_OK;
    for (uint32_t v = 0; v < g->value_count && status == PEN_OK; v++)
        status = restore_value(g->arena, &g->values[v], &again->values[v]);
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        const struct node *a = &g->nodes[i], *b = &again->nodes[i];
        if (a->op != b->op || a->attr_count != b->attr_count)
            return PEN_ERR_CORRUPT;
        for (uint32_t k = 0; k < a->attr_count && status == PEN_OK && !a->dead; k++) {
            if (a->attrs[k].type != b->attrs[k].type)
                status = PEN_ERR_CORRUPT;
            else if (a->attrs[k].type == ATTR_GRAPH)
                status = graph_restore(a->attrs[k].graph, b->attrs[k].graph);
        }
    }
    return status;
}
