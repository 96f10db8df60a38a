#include "backend/xnnpack/fusion.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"

#define READ_OUTSIDE 1000u /* a value that others than nodes read */

static uint32_t index_of(const struct finder *f, const struct node *n)
{
    return f->index_of[n - f->g->nodes];
}

static bool is_free(const struct finder *f, const struct node *n)
{
    uint32_t at = index_of(f, n);
    return !n->dead && at != UINT32_MAX && f->plan->marks[at].in == NULL;
}

const struct node *finder_reader(const struct finder *f, uint32_t value)
{
    if (value == VALUE_NONE || f->readers[value] != 1) {
        return NULL;
    }
    const struct node *n = &f->g->nodes[f->reader[value]];
    return is_free(f, n) ? n : NULL;
}

const struct node *finder_maker(const struct finder *f, uint32_t value, bool only)
{
    if (value == VALUE_NONE || f->g->values[value].producer == NODE_NONE || (only && f->readers[value] != 1)) {
        return NULL;
    }
    const struct node *n = &f->g->nodes[f->g->values[value].producer];
    return is_free(f, n) ? n : NULL;
}

void finder_alone(struct finder *f, const struct node *n, const char *why)
{
    f->plan->marks[index_of(f, n)].alone = why;
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

static uint32_t *ids_copy(uint32_t **room, const uint32_t *ids, uint32_t count)
{
    uint32_t *to = *room;
    memcpy(to, ids, count * sizeof *ids);
    *room += count;
    return to;
}

struct fusion *finder_fuse(struct finder *f, const struct fusion_kind *kind, const struct fusion_parts *parts,
                           size_t detail)
{
    const struct node *last = parts->members[parts->member_count - 1];
    size_t ids = ((size_t)parts->in_count + last->out_count) * sizeof(uint32_t);
    struct fusion *fusion = calloc(1, sizeof *fusion + (detail + 7) / 8 * 8 + ids);
    if (fusion == NULL) {
        f->failed = true;
        return NULL;
    }
    fusion->detail = fusion + 1;
    uint32_t *room = (uint32_t *)(void *)((uint8_t *)(fusion + 1) + (detail + 7) / 8 * 8);
    fusion->node = *last;
    fusion->node.attrs = NULL;
    fusion->node.attr_count = 0;
    fusion->node.in = ids_copy(&room, parts->in, parts->in_count);
    fusion->node.in_count = parts->in_count;
    fusion->node.out = ids_copy(&room, last->out, last->out_count);
    fusion->kind = kind;
    fusion->first = index_of(f, parts->members[0]);
    fusion->last = index_of(f, last);
    for (uint32_t i = 0; i < parts->member_count; i++) {
        struct fusion_mark *mark = &f->plan->marks[index_of(f, parts->members[i])];
        PEN_ASSERT(mark->in == NULL || mark->in == fusion, "a node belongs to one fusion");
        *mark = (struct fusion_mark){.in = fusion};
    }
    fusion->next = f->plan->all;
    f->plan->all = fusion;
    return fusion;
}

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

static void find_all(struct finder *f)
{
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < f->part->node_count && !f->failed; i++) {
            const struct node *n = &f->g->nodes[f->part->nodes[i]];
            bool product = n->op == OP_MatMul || n->op == OP_Gemm;
            if (pass == 0 && n->op == OP_Softmax && is_free(f, n)) {
                fusion_attention_find(f, n);
            } else if (pass == 1 && product && is_free(f, n)) {
                fusion_product_find(f, n);
            }
        }
    }
}

enum pen_status fusion_plan_new(const struct graph *g, const struct partition *part, struct fusion_plan *ret_plan)
{
    struct finder f = {.g = g, .part = part, .plan = ret_plan};
    *ret_plan = (struct fusion_plan){.count = part->node_count};
    ret_plan->marks = calloc((size_t)part->node_count + 1, sizeof *ret_plan->marks);
    f.index_of = malloc(((size_t)g->node_count + 1) * sizeof *f.index_of);
    f.readers = calloc((size_t)g->value_count + 1, sizeof *f.readers);
    f.reader = calloc((size_t)g->value_count + 1, sizeof *f.reader);
    f.failed = ret_plan->marks == NULL || f.index_of == NULL || f.readers == NULL || f.reader == NULL;
    if (!f.failed) {
        memset(f.index_of, 0xFF, ((size_t)g->node_count + 1) * sizeof *f.index_of);
        for (uint32_t i = 0; i < part->node_count; i++) {
            f.index_of[part->nodes[i]] = i;
        }
        readers_count(&f);
        find_all(&f);
    }
    free(f.index_of);
    free(f.readers);
    free(f.reader);
    if (f.failed) {
        fusion_plan_free(ret_plan);
    }
    return f.failed ? PEN_ERR_NO_MEMORY : PEN_OK;
}

void fusion_plan_free(struct fusion_plan *p)
{
    while (p->all != NULL) {
        struct fusion *next = p->all->next;
        free(p->all);
        p->all = next;
    }
    free(p->marks);
    *p = (struct fusion_plan){0};
}
