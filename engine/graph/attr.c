#include "graph/graph.h"

#include <string.h>

const struct attr *node_attr(const struct node *n, enum attr_key key)
{
    for (uint32_t i = 0; i < n->attr_count; i++) {
        if (n->attrs[i].key == key)
            return &n->attrs[i];
    }
    return NULL;
}

int64_t node_int(const struct node *n, enum attr_key key, int64_t def)
{
    const struct attr *a = node_attr(n, key);
    return a && a->type == ATTR_INT ? a->i : def;
}

float node_float(const struct node *n, enum attr_key key, float def)
{
    const struct attr *a = node_attr(n, key);
    return a && a->type == ATTR_FLOAT ? a->f : def;
}

const int64_t *node_ints(const struct node *n, enum attr_key key, uint32_t *ret_count)
{
    const struct attr *a = node_attr(n, key);
    bool there = a && a->type == ATTR_INTS;
    *ret_count = there ? a->count : 0;
    return there ? a->ints : NULL;
}

int64_t node_item(const struct node *n, enum attr_key key, int64_t index, int64_t def)
{
    uint32_t count = 0;
    const int64_t *items = node_ints(n, key, &count);
    return items && index >= 0 && index < (int64_t)count ? items[index] : def;
}

bool node_text_is(const struct node *n, enum attr_key key, const char *text, bool when_absent)
{
    const struct attr *a = node_attr(n, key);
    if (!a || a->type != ATTR_TEXT)
        return when_absent;
    return a->text.bytes == strlen(text) && memcmp(a->text.text, text, a->text.bytes) == 0;
}

const struct value *node_in(const struct graph *g, const struct node *n, uint32_t index)
{
    return index < n->in_count && n->in[index] != VALUE_NONE ? &g->values[n->in[index]] : NULL;
}

const struct value *node_out(const struct graph *g, const struct node *n, uint32_t index)
{
    return index < n->out_count && n->out[index] != VALUE_NONE ? &g->values[n->out[index]] : NULL;
}

/* Room grows by four; the old array stays behind in the arena. */
static enum pen_status attr_append(struct graph *g, struct node *n, const struct attr *attr)
{
    if (n->attr_count % 4 == 0) {
        struct attr *bigger = graph_alloc(g, ((size_t)n->attr_count + 4) * sizeof *bigger);
        if (!bigger)
            return PEN_ERR_NO_MEMORY;
        if (n->attr_count)
            memcpy(bigger, n->attrs, n->attr_count * sizeof *bigger);
        n->attrs = bigger;
    }
    n->attrs[n->attr_count++] = *attr;
    return PEN_OK;
}

enum pen_status graph_attr_set(struct graph *g, uint32_t node, const struct attr *attr)
{
    if (node >= g->node_count || attr->key == ATTR_NONE || attr->key >= ATTR_COUNT)
        return PEN_ERR_INVALID;
    struct node *n = &g->nodes[node];
    for (uint32_t i = 0; i < n->attr_count; i++) {
        if (n->attrs[i].key == attr->key) {
            n->attrs[i] = *attr;
            return PEN_OK;
        }
    }
    return attr_append(g, n, attr);
}

enum pen_status graph_attr_int(struct graph *g, uint32_t node, enum attr_key key, int64_t value)
{
    struct attr attr = {.key = key, .type = ATTR_INT, .i = value};
    return graph_attr_set(g, node, &attr);
}

enum pen_status graph_attr_float(struct graph *g, uint32_t node, enum attr_key key, float value)
{
    struct attr attr = {.key = key, .type = ATTR_FLOAT, .f = value};
    return graph_attr_set(g, node, &attr);
}

enum pen_status graph_attr_ints(struct graph *g, uint32_t node, enum attr_key key, const int64_t *items, uint32_t count)
{
    int64_t *copy = graph_alloc(g, (size_t)count * sizeof *copy);
    if (!copy)
        return PEN_ERR_NO_MEMORY;
    if (count)
        memcpy(copy, items, count * sizeof *copy);
    struct attr attr = {.key = key, .type = ATTR_INTS, .count = count, .ints = copy};
    return graph_attr_set(g, node, &attr);
}

enum pen_status graph_attr_text(struct graph *g, uint32_t node, enum attr_key key, const char *text)
{
    const char *copy = graph_text(g, text, strlen(text));
    if (!copy)
        return PEN_ERR_NO_MEMORY;
    struct attr attr = {.key = key, .type = ATTR_TEXT, .text = {copy, strlen(text)}};
    return graph_attr_set(g, node, &attr);
}

void graph_attr_drop(struct graph *g, uint32_t node, enum attr_key key)
{
    struct node *n = &g->nodes[node];
    for (uint32_t i = 0; i < n->attr_count; i++) {
        if (n->attrs[i].key == key) {
            n->attrs[i] = n->attrs[--n->attr_count];
            return;
        }
    }
}
