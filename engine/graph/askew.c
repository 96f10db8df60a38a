#include "graph/askew.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "graph/arena.h"
#include "graph/internal.h"

#define PAGE_BYTES ((uintptr_t)4096) /* at least: what is asked for is advice */

size_t value_alignment(enum pen_dtype dtype)
{
    unsigned bits = pen_dtype_bits(dtype);
    if (dtype == PEN_DTYPE_C64 || dtype == PEN_DTYPE_C128)
        bits /= 2;
    return bits < 8 ? 1 : bits > 64 ? 8 : bits / 8;
}

bool value_is_askew(const struct value *v)
{
    return v->data && v->dtype != PEN_DTYPE_STRING && (uintptr_t)v->data % value_alignment(v->dtype) != 0;
}

enum pen_status graph_align(const struct graph *g, uint32_t value)
{
    struct value *v = value == VALUE_NONE ? NULL : &g->values[value];
    if (!v || !value_is_askew(v))
        return PEN_OK;
    void *copy = arena_alloc_data(g->arena, v->bytes);
    if (!copy)
        return PEN_ERR_NO_MEMORY;
    memcpy(copy, v->data, v->bytes);
    graph_cool(g, value);
    v->data = copy;
    return PEN_OK;
}

enum pen_status graph_align_inputs(const struct graph *g, const struct node *n)
{
    enum pen_status status = PEN_OK;
    for (uint32_t k = 0; k < n->in_count && status == PEN_OK; k++)
        status = graph_align(g, n->in[k]);
    return status;
}

static enum pen_status align_graph(const struct graph *g)
{
    enum pen_status status = PEN_OK;
    for (uint32_t v = 0; v < g->value_count && status == PEN_OK; v++)
        status = graph_align(g, v);
    return status;
}

enum pen_status graph_align_all(const struct graph *g)
{
    enum pen_status status = align_graph(g);
    for (const struct graph_family *child = g->children; child && status == PEN_OK; child = child->next)
        status = align_graph(&child->graph);
    return status;
}

/* Whoever runs the node can do with an askew input, or aligns it. */
static bool takes_askew(const struct node *n, uint32_t input)
{
    switch (n->op) {
    case OP_MatMul:
    case OP_Gemm:
    case OP_Conv:
        return input == 1;
    case OP_Gather:
        return input == 0;
    default:
        return false;
    }
}

static enum pen_status settle(struct graph *g)
{
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < g->node_count && status == PEN_OK; i++) {
        const struct node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->in_count && status == PEN_OK && !n->dead; k++)
            status = takes_askew(n, k) ? PEN_OK : graph_align(g, n->in[k]);
        for (uint32_t k = 0; k < n->attr_count && status == PEN_OK && !n->dead; k++)
            status = n->attrs[k].type == ATTR_TENSOR ? graph_align(g, n->attrs[k].value) : PEN_OK;
    }
    for (uint32_t i = 0; i < g->output_count && status == PEN_OK; i++)
        status = graph_align(g, g->outputs[i]);
    return status;
}

enum pen_status graph_askew_settle(struct graph *g)
{
    enum pen_status status = settle(g);
    for (struct graph_family *child = g->children; child && status == PEN_OK; child = child->next)
        status = settle(&child->graph);
    return status;
}

/* ---- pages of the file ------------------------------------------------------------------------------------------------ */

static bool in_file(const struct graph *root, uintptr_t first, uintptr_t end)
{
    for (uint32_t i = 0; i < root->file_count; i++) {
        const uintptr_t at = (uintptr_t)root->files[i].at;
        if (first >= at && end <= at + root->files[i].bytes)
            return true;
    }
    return false;
}

void graph_cool(const struct graph *g, uint32_t value)
{
    const struct value *v = &g->values[value];
    while (g->parent)
        g = g->parent;
    const uintptr_t at = (uintptr_t)v->data;
    const uintptr_t first = (at + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES,
                    end = (at + v->bytes) / PAGE_BYTES * PAGE_BYTES;
    if (v->data && v->bytes >= ASKEW_BYTES && in_file(g, at, at + v->bytes))
        (void)madvise((void *)first, end - first, MADV_DONTNEED);
}

enum pen_status graph_file_add(struct graph *g, const void *file, size_t bytes)
{
    struct graph_file *files = arena_alloc(g->arena, (g->file_count + 1) * sizeof *files);
    if (!files)
        return PEN_ERR_NO_MEMORY;
    if (g->file_count > 0)
        memcpy(files, g->files, g->file_count * sizeof *files);
    files[g->file_count++] = (struct graph_file){file, bytes};
    g->files = files;
    return PEN_OK;
}
