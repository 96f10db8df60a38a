#include "backend/xnnpack/fusion.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"

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
    PEN_ASSERT(kind->misfit == NULL || kind->pack == NULL, "members have nothing packed to run one by one");
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
    fusion->first = finder_index(f, parts->members[0]);
    fusion->last = finder_index(f, last);
    for (uint32_t i = 0; i < parts->member_count; i++) {
        const uint32_t at = finder_index(f, parts->members[i]);
        struct fusion_mark *mark = &f->plan->marks[at];
        PEN_ASSERT(mark->in == NULL || mark->in == fusion, "a node belongs to one fusion");
        f->taken[at] = true;
        *mark = (struct fusion_mark){.in = fusion};
    }
    fusion->next = f->plan->all;
    f->plan->all = fusion;
    return fusion;
}
