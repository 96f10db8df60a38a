/*
 * forest.h - decision trees in the form that is walked: one block of bytes, made once at load, a constant input of OP_TreeEnsemble.
 *
 * Importers fill a forest_source from whatever lists their format has; forest_new checks every id, so that a walk needs no check but the number of features.
 * All comparisons are brought to `x <= split`, `x == split` or `x in set`: x < s is x <= the float below s, and the branches of >, >= and != are exchanged.
 * Nodes of a tree lie level by level. In a block the order is: forest, nodes, roots, leaf_first, entries, set_first, members.
 * Threads: any.
 */
#ifndef FOREST_H
#define FOREST_H

#include "graph/graph.h"

/* Numbers as ONNX's TreeEnsemble of version 5 has them; LEAF is ours. */
enum forest_mode {
    FOREST_LEQ = 0,
    FOREST_LT = 1,
    FOREST_GTE = 2,
    FOREST_GT = 3,
    FOREST_EQ = 4,
    FOREST_NEQ = 5,
    FOREST_MEMBER = 6,
    FOREST_LEAF = 7,
};
enum forest_aggregate { FOREST_AVERAGE = 0, FOREST_SUM = 1, FOREST_MIN = 2, FOREST_MAX = 3 };

/* Trees as a file has them. Lists have `nodes` items; yes and no are indices of nodes, of which a leaf has none. */
struct forest_source {
    uint32_t nodes, roots, entries, members;
    uint32_t *root;
    uint8_t *mode;
    uint32_t *feature, *yes, *no;
    bool *nan_yes; /* NULL: not a number goes the way that the comparison says */
    double *split;
    uint32_t *set_first; /* MEMBER: its set is member[set_first[i]] and those behind it, until NaN or the end */
    const double *member;
    uint32_t *entry_node, *entry_target; /* what leaves add: [entries], those of one node side by side */
    double *entry_weight;
    int64_t targets;
    bool wide; /* splits and weights are double: for inputs of double */
};

/* A node of 16 or 24 bytes: float or double splits. A leaf leads to itself. */
struct forest_node {
    float split;
    uint32_t feature;  /* with the FOREST_ bits; 0 for a leaf */
    uint32_t child[2]; /* no, yes */
};
struct forest_wide_node {
    double split;
    uint32_t feature, child[2], leaf;
};
#define FOREST_NAN_YES  0x80000000u
#define FOREST_EQUAL    0x40000000u
#define FOREST_IN_SET   0x20000000u /* split's bits (of the float) are the number of the set */
#define FOREST_FEATURES 0x1FFFFFFFu

struct forest_entry {
    uint32_t target;
    float weight;
};
struct forest_wide_entry {
    uint32_t target, unused;
    double weight;
};

/* The head of a block; offsets in bytes from its begin. A leaf's split holds its number as bits (struct forest_node), or `leaf` does. */
struct forest {
    uint64_t magic, bytes;
    uint32_t nodes, roots, leaves, entries, sets, members;
    uint32_t targets, features;          /* features: the least width of a row */
    uint32_t depth;                      /* of the deepest tree */
    uint8_t wide, plain, single, unused; /* plain: `<=` alone; single: one target, and each leaf has one entry */
    uint64_t node_at, root_at, first_at, entry_at, set_at, member_at;
};

/* A constant of g (u8). INVALID with a sentence about `who` when ids lead nowhere or in circles. */
enum pen_status forest_new(struct graph *g, const struct forest_source *s, const char *who, uint32_t *ret_value,
                           struct pen_error *reterr);
/* NULL when these bytes are no block of forest_new. */
const struct forest *forest_of(const void *data, size_t bytes);

#endif
