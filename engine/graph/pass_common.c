#include <stdlib.h>
#include <string.h>

#include "graph/pass_internal.h"

#define SMALL_BYTES 64 /* constants up to this size are compared by contents */

static uint32_t mix(uint32_t hash, uint64_t item)
{
    return (hash ^ (uint32_t)item ^ (uint32_t)(item >> 32)) * 16777619u;
}

static uint32_t mix_bytes(uint32_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 16777619u;
    return hash;
}

static bool small_constant(const struct value *v)
{
    return v->data && v->bytes <= SMALL_BYTES && v->dtype != PEN_DTYPE_STRING;
}

static bool same_value(const struct graph *g, uint32_t a, uint32_t b)
{
    if (a == b || a == VALUE_NONE || b == VALUE_NONE)
        return a == b;
    const struct value *x = &g->values[a], *y = &g->values[b];
    return small_constant(x) && small_constant(y) && x->dtype == y->dtype && x->bytes == y->bytes &&
           shape_equal(&x->shape, &y->shape) && memcmp(x->data, y->data, x->bytes) == 0;
}

static bool same_texts(const struct string_view *a, const struct string_view *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (a[i].bytes != b[i].bytes || memcmp(a[i].text, b[i].text, a[i].bytes) != 0)
            return false;
    }
    return true;
}

static bool same_attr(const struct graph *g, const struct attr *a, const struct attr *b)
{
    if (!b || a->type != b->type || a->count != b->count)
        return false;
    switch (a->type) {
    case ATTR_INT:
        return a->i == b->i;
    case ATTR_FLOAT:
        return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case ATTR_TEXT:
        return same_texts(&a->text, &b->text, 1);
    case ATTR_INTS:
        return memcmp(a->ints, b->ints, a->count * sizeof *a->ints) == 0;
    case ATTR_FLOATS:
        return memcmp(a->floats, b->floats, a->count * sizeof *a->floats) == 0;
    case ATTR_TEXTS:
        return same_texts(a->texts, b->texts, a->count);
    case ATTR_TENSOR:
        return same_value(g, a->value, b->value);
    default:
        return false;
    }
}

static bool same_node(const struct graph *g, const struct node *a, const struct node *b)
{
    if (a->op != b->op || a->in_count != b->in_count || a->out_count != b->out_count || a->attr_count != b->attr_count)
        return false;
    for (uint32_t k = 0; k < a->in_count; k++) {
        if (!same_value(g, a->in[k], b->in[k]))
            return false;
    }
    for (uint32_t k = 0; k < a->attr_count; k++) {
        if (!same_attr(g, &a->attrs[k], node_attr(b, a->attrs[k].key)))
            return false;
    }
    return true;
}

static uint32_t hash_node(const struct graph *g, const struct node *n)
{
    uint32_t hash = mix(2166136261u, n->op);
    for (uint32_t k = 0; k < n->in_count; k++) {
        bool by_contents = n->in[k] != VALUE_NONE && small_constant(&g->values[n->in[k]]);
        if (by_contents)
            hash = mix_bytes(hash, g->values[n->in[k]].data, g->values[n->in[k]].bytes);
        else
            hash = mix(hash, n->in[k]);
    }
    return mix(hash, n->attr_count);
}

static bool candidate(const struct rewrite *r, const struct node *n)
{
    if (n->op == OP_RowRounding) /* a product behind it takes its steps as bytes, where nobody else reads them */
        return false;
    if (n->dead || n->out_count == 0 || (op_def(n->op)->traits & (OP_RANDOM | OP_STATEFUL | OP_CONTROL)))
        return false;
    for (uint32_t k = 0; k < n->out_count; k++) {
        if (n->out[k] != VALUE_NONE && rewrite_is_output(r, n->out[k]))
            return false; /* keeps its id */
    }
    return true;
}

/* Both nodes' outputs pair up, or the later one's are unused. */
static bool merge(struct rewrite *r, uint32_t keep, uint32_t drop)
{
    const struct node *a = &r->g->nodes[keep], *b = &r->g->nodes[drop];
    for (uint32_t k = 0; k < b->out_count; k++) {
        if (b->out[k] != VALUE_NONE && a->out[k] == VALUE_NONE)
            return false;
    }
    for (uint32_t k = 0; k < b->out_count; k++) {
        if (b->out[k] == VALUE_NONE)
            continue;
        enum pen_status status = uses_replace(&r->uses, b->out[k], a->out[k]);
        if (status != PEN_OK)
            return rewrite_failed(r, status);
    }
    uses_kill(&r->uses, drop);
    return true;
}

static uint32_t merge_all(struct rewrite *r, uint32_t *slots, uint32_t room)
{
    uint32_t merged = 0;
    for (uint32_t i = 0; i < r->g->node_count && r->status == PEN_OK; i++) {
        if (!candidate(r, &r->g->nodes[i]))
            continue;
        uint32_t at = hash_node(r->g, &r->g->nodes[i]) & (room - 1);
        while (slots[at] && !same_node(r->g, &r->g->nodes[slots[at] - 1], &r->g->nodes[i]))
            at = (at + 1) & (room - 1);
        if (!slots[at])
            slots[at] = i + 1;
        else
            merged += merge(r, slots[at] - 1, i);
    }
    return merged;
}

enum pen_status pass_common(struct graph *g, uint32_t *ret_count)
{
    struct rewrite r;
    uint32_t room = 16, merged = 0;
    enum pen_status status = rewrite_init(&r, g, false, NULL);
    if (status != PEN_OK)
        return status;
    while (room < g->node_count * UINT64_C(2))
        room *= 2;
    uint32_t *slots = calloc(room, sizeof *slots); /* node + 1 */
    if (slots)
        merged = merge_all(&r, slots, room);
    status = slots ? r.status : PEN_ERR_NO_MEMORY;
    free(slots);
    rewrite_fini(&r);
    if (status == PEN_OK && ret_count)
        *ret_count += merged;
    return status == PEN_OK ? graph_compact(g) : status;
}
