#include "graph/forest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC      0x545345524F464E50u /* "PNFOREST" */
#define NONE       UINT32_MAX
#define NODES_MAX  (1u << 28)
#define BLOCK_TAIL 64 /* readable behind the last part */

/* Where each node of the source goes, in walking order. */
struct order {
    uint32_t *node; /* [nodes] source node at each place */
    uint32_t *place, *level;
    uint32_t count, depth;
};

static enum pen_status no_memory(struct pen_error *reterr, const char *who)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the trees of node %s", who);
}

static enum pen_status broken(struct pen_error *reterr, const char *who, const char *what, uint32_t node)
{
    return pen_error_set(reterr, PEN_ERR_INVALID, "the trees of node %s are broken: %s (tree node %u)", who, what,
                         node);
}

static enum pen_status order_add(struct order *o, const struct forest_source *s, uint32_t node, uint32_t level,
                                 const char *who, struct pen_error *reterr)
{
    if (node >= s->nodes)
        return broken(reterr, who, "a branch leads to a node that is not there", node);
    if (o->place[node] != NONE)
        return PEN_OK; /* two branches share what follows */
    o->place[node] = o->count;
    o->level[o->count] = level;
    o->depth = level > o->depth ? level : o->depth;
    o->node[o->count++] = node;
    return PEN_OK;
}

/* Branches into a node that are not walked yet, counted down from the roots: what never gets to 0 lies on a circle. `level` is used up. */
static enum pen_status order_check(struct order *o, const struct forest_source *s, const char *who,
                                   struct pen_error *reterr)
{
    uint32_t *into = o->level, done = 0, *ready = malloc(((size_t)o->count + 1) * sizeof *ready), count = 0;
    if (ready == NULL)
        return no_memory(reterr, who);
    memset(into, 0, o->count * sizeof *into);
    for (uint32_t i = 0; i < o->count; i++) {
        uint32_t node = o->node[i];
        if (s->mode[node] != FOREST_LEAF) {
            into[o->place[s->yes[node]]]++;
            into[o->place[s->no[node]]]++;
        }
    }
    for (uint32_t i = 0; i < o->count; i++) {
        if (into[i] == 0)
            ready[count++] = i;
    }
    for (; done < count; done++) {
        uint32_t node = o->node[ready[done]];
        if (s->mode[node] == FOREST_LEAF)
            continue;
        uint32_t next[2] = {o->place[s->yes[node]], o->place[s->no[node]]};
        for (int i = 0; i < 2; i++) {
            if (--into[next[i]] == 0)
                ready[count++] = next[i];
        }
    }
    free(ready);
    return done == o->count ? PEN_OK : broken(reterr, who, "branches lead in a circle", o->node[0]);
}

/* One tree after another, each level by level. */
static enum pen_status order_make(struct order *o, const struct forest_source *s, const char *who,
                                  struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    memset(o->place, 0xFF, (size_t)s->nodes * sizeof *o->place);
    for (uint32_t r = 0; status == PEN_OK && r < s->roots; r++) {
        uint32_t at = o->count;
        status = order_add(o, s, s->root[r], 0, who, reterr);
        for (; status == PEN_OK && at < o->count; at++) {
            uint32_t node = o->node[at];
            if (s->mode[node] == FOREST_LEAF)
                continue;
            status = order_add(o, s, s->no[node], o->level[at] + 1, who, reterr);
            if (status == PEN_OK)
                status = order_add(o, s, s->yes[node], o->level[at] + 1, who, reterr);
        }
    }
    return status;
}

/* The least number above all features that are asked, or the failure. */
static enum pen_status features_count(const struct forest_source *s, const struct order *o, const char *who,
                                      uint32_t *ret, struct pen_error *reterr)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        uint32_t node = o->node[i];
        if (s->mode[node] == FOREST_LEAF)
            continue;
        if (s->feature[node] >= FOREST_FEATURES)
            return broken(reterr, who, "its feature is out of range", node);
        most = s->feature[node] + 1 > most ? s->feature[node] + 1 : most;
    }
    *ret = most;
    return PEN_OK;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Sizes and offsets; counts of leaves and sets. */
static void head_fill(struct forest *f, const struct forest_source *s, const struct order *o)
{
    *f = (struct forest){.magic = MAGIC,
                         .nodes = o->count,
                         .roots = s->roots,
                         .entries = s->entries,
                         .depth = o->depth,
                         .members = s->members,
                         .targets = (uint32_t)s->targets,
                         .wide = s->wide,
                         .plain = 1};
    for (uint32_t i = 0; i < o->count; i++) {
        uint8_t mode = s->mode[o->node[i]];
        f->leaves += mode == FOREST_LEAF;
        f->sets += mode == FOREST_MEMBER;
        f->plain = f->plain && mode != FOREST_MEMBER && mode != FOREST_EQ && mode != FOREST_NEQ;
    }
    f->node_at = aligned(sizeof *f);
    f->root_at =
        f->node_at + aligned(f->nodes * (s->wide ? sizeof(struct forest_wide_node) : sizeof(struct forest_node)));
    f->first_at = f->root_at + aligned(f->roots * sizeof(uint32_t));
    f->entry_at = f->first_at + aligned(((uint64_t)f->leaves + 1) * sizeof(uint32_t));
    f->set_at =
        f->entry_at + aligned(f->entries * (s->wide ? sizeof(struct forest_wide_entry) : sizeof(struct forest_entry)));
    f->member_at = f->set_at + aligned(((uint64_t)f->sets + 1) * sizeof(uint32_t));
    f->bytes = f->member_at + aligned(f->members * sizeof(double)) + BLOCK_TAIL;
}

/* A comparison of the file as ours: `*split` and the bits, and whether the branches change places. */
static uint32_t compare_bits(uint8_t mode, bool nan_yes, bool wide, double *split, bool *ret_swap)
{
    bool strict = mode == FOREST_LT || mode == FOREST_GTE;
    *ret_swap = mode == FOREST_GT || mode == FOREST_GTE || mode == FOREST_NEQ;
    if (strict && *split == -INFINITY)
        *split = NAN; /* nothing is below it */
    else if (strict)
        *split = wide ? nextafter(*split, -INFINITY) : (double)nextafterf((float)*split, -INFINITY);
    bool nan = mode == FOREST_NEQ ? false : *ret_swap ? !nan_yes : nan_yes;
    return (nan ? FOREST_NAN_YES : 0) | (mode == FOREST_EQ || mode == FOREST_NEQ ? FOREST_EQUAL : 0) |
           (mode == FOREST_MEMBER ? FOREST_IN_SET : 0);
}

/* is_number: its number (of a leaf, or of a set) stands in the place of the split, where nodes are narrow. */
static void node_put(unsigned char *block, const struct forest *f, uint32_t at, const struct forest_wide_node *node,
                     bool is_number)
{
    if (f->wide) {
        ((struct forest_wide_node *)(void *)(block + f->node_at))[at] = *node;
        return;
    }
    struct forest_node *n = (struct forest_node *)(void *)(block + f->node_at) + at;
    *n = (struct forest_node){(float)node->split, node->feature, {node->child[0], node->child[1]}};
    if (is_number)
        memcpy(&n->split, &node->leaf, sizeof node->leaf);
}

static void nodes_put(unsigned char *block, const struct forest *f, const struct forest_source *s,
                      const struct order *o, uint32_t *leaf_of)
{
    uint32_t *sets = (uint32_t *)(void *)(block + f->set_at), leaves = 0, set = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        uint32_t node = o->node[i];
        uint8_t mode = s->mode[node];
        if (mode == FOREST_LEAF) {
            leaf_of[node] = leaves;
            node_put(block, f, i, &(struct forest_wide_node){0.0, 0, {i, i}, leaves++}, true);
            continue;
        }
        double split = s->split[node];
        bool swap = false, nan_yes = s->nan_yes != NULL && s->nan_yes[node];
        uint32_t bits = compare_bits(mode, nan_yes, f->wide, &split, &swap);
        uint32_t no = o->place[swap ? s->yes[node] : s->no[node]], yes = o->place[swap ? s->no[node] : s->yes[node]];
        if (mode == FOREST_MEMBER)
            sets[set] = s->set_first[node];
        node_put(block, f, i, &(struct forest_wide_node){split, s->feature[node] | bits, {no, yes}, set},
                 mode == FOREST_MEMBER);
        set += mode == FOREST_MEMBER;
    }
}

/* Leaves name their entries by leaf_first: count, sum up, fill. */
static enum pen_status entries_put(unsigned char *block, struct forest *f, const struct forest_source *s,
                                   const uint32_t *leaf_of, const char *who, struct pen_error *reterr)
{
    uint32_t *first = (uint32_t *)(void *)(block + f->first_at), kept = 0;
    for (uint32_t i = 0; i < s->entries; i++) {
        if (s->entry_node[i] >= s->nodes || s->entry_target[i] >= f->targets)
            return broken(reterr, who, "a weight is for a node or a target that is not there", s->entry_node[i]);
        uint32_t leaf = leaf_of[s->entry_node[i]];
        if (leaf != NONE)
            first[leaf + 1]++;
    }
    f->single = f->targets == 1;
    for (uint32_t i = 0; i < f->leaves; i++) {
        f->single = f->single && first[i + 1] == 1;
        first[i + 1] += first[i];
    }
    for (uint32_t i = 0; i < s->entries; i++) {
        uint32_t leaf = leaf_of[s->entry_node[i]];
        if (leaf == NONE)
            continue;
        uint32_t at = first[leaf]++;
        if (f->wide)
            ((struct forest_wide_entry *)(void *)(block + f->entry_at))[at] =
                (struct forest_wide_entry){s->entry_target[i], 0, s->entry_weight[i]};
        else
            ((struct forest_entry *)(void *)(block + f->entry_at))[at] =
                (struct forest_entry){s->entry_target[i], (float)s->entry_weight[i]};
        kept++;
    }
    memmove(first + 1, first, f->leaves * sizeof *first);
    first[0] = 0;
    f->entries = kept;
    return PEN_OK;
}

static enum pen_status block_make(struct graph *g, const struct forest_source *s, const struct order *o,
                                  const char *who, void **ret_block, struct pen_error *reterr)
{
    struct forest f;
    head_fill(&f, s, o);
    enum pen_status status = features_count(s, o, who, &f.features, reterr);
    if (status != PEN_OK)
        return status;
    unsigned char *block = graph_alloc_data(g, f.bytes);
    uint32_t *leaf_of = malloc(((size_t)s->nodes + 1) * sizeof *leaf_of);
    if (block == NULL || leaf_of == NULL) {
        free(leaf_of);
        return no_memory(reterr, who);
    }
    memset(leaf_of, 0xFF, s->nodes * sizeof *leaf_of);
    nodes_put(block, &f, s, o, leaf_of);
    for (uint32_t i = 0; i < s->roots; i++)
        ((uint32_t *)(void *)(block + f.root_at))[i] = o->place[s->root[i]];
    if (s->members > 0)
        memcpy(block + f.member_at, s->member, s->members * sizeof *s->member);
    status = entries_put(block, &f, s, leaf_of, who, reterr);
    free(leaf_of);
    memcpy(block, &f, sizeof f);
    *ret_block = block;
    return status;
}

enum pen_status forest_new(struct graph *g, const struct forest_source *s, const char *who, uint32_t *ret_value,
                           struct pen_error *reterr)
{
    if (s->nodes == 0 || s->nodes > NODES_MAX || s->roots == 0 || s->entries > NODES_MAX || s->members > NODES_MAX ||
        s->targets < 1 || s->targets > INT32_MAX / 64)
        return pen_error_set(reterr, PEN_ERR_INVALID, "node %s has no trees, no targets, or too many of them", who);
    uint32_t *lists = malloc((size_t)s->nodes * 3 * sizeof *lists);
    struct order o = {.node = lists};
    void *block = NULL;
    enum pen_status status = no_memory(reterr, who);
    if (lists != NULL) {
        o.place = lists + s->nodes;
        o.level = o.place + s->nodes;
        status = order_make(&o, s, who, reterr);
    }
    if (status == PEN_OK)
        status = order_check(&o, s, who, reterr);
    if (status == PEN_OK)
        status = block_make(g, s, &o, who, &block, reterr);
    free(lists);
    if (status != PEN_OK)
        return status;
    int64_t bytes = (int64_t)((const struct forest *)block)->bytes;
    struct shape shape = shape_of(1, &bytes);
    return graph_constant(g, NULL, PEN_DTYPE_U8, &shape, block, (size_t)bytes, false, ret_value);
}

const struct forest *forest_of(const void *data, size_t bytes)
{
    const struct forest *f = data;
    return f != NULL && bytes >= sizeof *f && f->magic == MAGIC && f->bytes <= bytes ? f : NULL;
}
