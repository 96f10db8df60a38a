#include "backend/xnnpack/fusion.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"

static uint32_t index_of(const struct finder *f, const struct node *n)
{
    return f->index_of[n - f->g->nodes];
}

bool finder_free(const struct finder *f, const struct node *n)
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
