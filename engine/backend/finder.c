#include "backend/finder.h"

#include <stdlib.h>
#include <string.h>

#define READ_OUTSIDE 1000u /* a value that others than nodes read */

static void readers_count(struct finder *f)
{
    const struct graph *g = f->g;
    for (uint32_t n = 0; n < g->node_count; n++) {
        for (uint32_t i = 0; !g->nodes[n].dead && i < g->nodes[n].in_count; i++) {
            if (g->nodes[n].in[i] != VALUE_NONE) {
                f->readers[g->nodes[n].in[i]]++;
                f->reader[g->nodes[n].in[i]] = n;
            }
        }
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        f->readers[g->outputs[i]] += READ_OUTSIDE;
    }
    for (uint32_t i = 0; i < f->part->out_count; i++) {
        f->readers[f->part->out[i]] += READ_OUTSIDE;
    }
}

enum pen_status finder_init(struct finder *f, const struct graph *g, const struct partition *part)
{
    *f = (struct finder){.g = g, .part = part};
    f->index_of = malloc(((size_t)g->node_count + 1) * sizeof *f->index_of);
    f->readers = calloc((size_t)g->value_count + 1, sizeof *f->readers);
    f->reader = calloc((size_t)g->value_count + 1, sizeof *f->reader);
    f->taken = calloc((size_t)part->node_count + 1, sizeof *f->taken);
    f->alone = calloc((size_t)part->node_count + 1, sizeof *f->alone);
    if (f->index_of == NULL || f->readers == NULL || f->reader == NULL || f->taken == NULL || f->alone == NULL) {
        finder_fini(f);
        return PEN_ERR_NO_MEMORY;
    }
    memset(f->index_of, 0xFF, ((size_t)g->node_count + 1) * sizeof *f->index_of);
    for (uint32_t i = 0; i < part->node_count; i++) {
        f->index_of[part->nodes[i]] = i;
    }
    readers_count(f);
    return PEN_OK;
}

void finder_fini(struct finder *f)
{
    free(f->index_of);
    free(f->readers);
    free(f->reader);
    free(f->taken);
    free((void *)f->alone);
    *f = (struct finder){0};
}

uint32_t finder_index(const struct finder *f, const struct node *n)
{
    return f->index_of[n - f->g->nodes];
}

bool finder_free(const struct finder *f, const struct node *n)
{
    uint32_t at = finder_index(f, n);
    return !n->dead && at != UINT32_MAX && !f->taken[at];
}

const struct node *finder_reader(const struct finder *f, uint32_t value)
{
    if (value == VALUE_NONE || f->readers[value] != 1) {
        return NULL;
    }
    const struct node *n = &f->g->nodes[f->reader[value]];
    return finder_free(f, n) ? n : NULL;
}

const struct node *finder_maker(const struct finder *f, uint32_t value, bool only)
{
    if (value == VALUE_NONE || f->g->values[value].producer == NODE_NONE || (only && f->readers[value] != 1)) {
        return NULL;
    }
    const struct node *n = &f->g->nodes[f->g->values[value].producer];
    return finder_free(f, n) ? n : NULL;
}

void finder_alone(struct finder *f, const struct node *n, const char *why)
{
    f->alone[finder_index(f, n)] = why;
}

bool finder_scalar(const struct finder *f, uint32_t value, float *ret)
{
    const struct value *v = value == VALUE_NONE ? NULL : &f->g->values[value];
    if (v == NULL || v->data == NULL || v->dtype != PEN_DTYPE_F32 || v->bytes != sizeof *ret) {
        return false;
    }
    memcpy(ret, v->data, sizeof *ret);
    return true;
}

bool finder_all_f32(const struct finder *f, const struct node *n)
{
    for (uint32_t i = 0; i < n->in_count + n->out_count; i++) {
        uint32_t value = i < n->in_count ? n->in[i] : n->out[i - n->in_count];
        if (value != VALUE_NONE && f->g->values[value].dtype != PEN_DTYPE_F32) {
            return false;
        }
    }
    return true;
}
