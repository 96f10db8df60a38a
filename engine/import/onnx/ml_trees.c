/* TreeEnsembleClassifier, TreeEnsembleRegressor (versions 1 and 3) and TreeEnsemble (5): their lists become a forest (graph/forest.h). Source: ONNX-ML. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/forest.h"
#include "graph/scores.h"
#include "import/onnx/ml.h"

#define NO_NODE UINT32_MAX

struct node_key {
    int64_t tree, id;
    uint32_t at;
};

/* Lists of a file while they are read: all from malloc, freed together. */
struct trees {
    struct forest_source s;
    int64_t *tree, *id, *yes, *no; /* version 1 and 3: names of nodes, [nodes] */
    struct node_key *sorted;       /* nodes by tree and id; NULL when they lie so */
    void *blocks[24];
    uint32_t block_count;
};

/* Cleared. */
static void *trees_alloc(struct call *c, struct trees *t, size_t count, size_t size)
{
    void *memory = t->block_count < sizeof t->blocks / sizeof t->blocks[0] ? calloc(count + 1, size) : NULL;
    if (!memory)
        call_fail(c, PEN_ERR_NO_MEMORY, "no memory for the trees of node %s", c->name);
    else
        t->blocks[t->block_count++] = memory;
    return memory;
}

static void trees_fini(struct trees *t)
{
    for (uint32_t i = 0; i < t->block_count; i++)
        free(t->blocks[i]);
}

/* ---- attributes as arrays ---------------------------------------------------------------------------------------------------- */

/* Integers of a list; NULL when absent. *count: must be so many unless it is 0, which is then set. */
static int64_t *ints_of(struct call *c, struct trees *t, const char *name, uint32_t *count, bool needed)
{
    const struct pb_attr *a = call_attr(c, name);
    uint32_t have = a && a->type == PB_INTS ? a->count : 0;
    if (have == 0 && !needed)
        return NULL;
    if (have == 0 || (*count != 0 && have != *count)) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s): %s has %u items, %u belong there", c->name, c->origin, name, have,
                  *count);
        return NULL;
    }
    *count = have;
    int64_t *items = trees_alloc(c, t, have, sizeof *items);
    struct bytes message = a->self;
    struct wire_field f;
    uint32_t at = 0;
    while (items && wire_next(&message, &f) == 1) {
        struct bytes list = f.bytes;
        int64_t here = f.number == 8 ? wire_count(&f, 0) : 0;
        uint64_t item;
        for (int64_t i = 0; i < here && at < have && wire_item(&f, &list, 0, &item); i++)
            items[at++] = (int64_t)item;
        if (here == 1 && f.type == WIRE_VARINT)
            at += wire_run(&message, 8 << 3 | WIRE_VARINT, have - at, items + at, NULL);
    }
    return items;
}

/* Floats of a list, or of a tensor (name_as_tensor; name itself where the newest form has tensors only). */
static double *floats_of(struct call *c, struct trees *t, const char *name, uint32_t *count, bool needed)
{
    char tensor_name[64];
    const struct pb_attr *a = call_attr(c, name);
    struct tensor tensor;
    if (!a || (a->type == PB_FLOATS && a->count == 0)) {
        memcpy(tensor_name, name, strlen(name));
        memcpy(tensor_name + strlen(name), "_as_tensor", sizeof "_as_tensor");
        a = call_attr(c, tensor_name);
    }
    if (!a && !needed)
        return NULL;
    bool is_tensor = a && a->type == PB_TENSOR;
    if (is_tensor && (c->status = tensor_load(&c->r->source, a->message, &tensor, c->r->reterr)) != PEN_OK)
        return NULL;
    int64_t have = is_tensor ? shape_elements(&tensor.shape) : a && a->type == PB_FLOATS ? (int64_t)a->count : 0;
    bool known = !is_tensor || tensor.dtype == PEN_DTYPE_F32 || tensor.dtype == PEN_DTYPE_F64;
    if (!known || have < 0 || have > UINT32_MAX || (*count != 0 && have != *count)) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s): %s has %lld items, %u floats belong there", c->name, c->origin,
                  name, (long long)have, *count);
        return NULL;
    }
    *count = (uint32_t)have;
    double *items = trees_alloc(c, t, (size_t)have, sizeof *items);
    const float *list = NULL;
    uint32_t listed = 0;
    if (items && !is_tensor && have > 0 && !call_floats(c, name, &list, &listed))
        return NULL;
    for (int64_t i = 0; items && i < have; i++)
        items[i] = !is_tensor                      ? (double)list[i]
                   : tensor.dtype == PEN_DTYPE_F64 ? ((const double *)tensor.data)[i]
                                                   : (double)((const float *)tensor.data)[i];
    return items;
}

static uint32_t *narrow(struct call *c, struct trees *t, const int64_t *from, uint32_t count)
{
    uint32_t *items = from ? trees_alloc(c, t, count, sizeof *items) : NULL;
    for (uint32_t i = 0; items && i < count; i++)
        items[i] = from[i] >= 0 && from[i] < UINT32_MAX ? (uint32_t)from[i] : UINT32_MAX;
    return items;
}

static bool *flags_of(struct call *c, struct trees *t, const char *name, uint32_t count)
{
    const int64_t *items = ints_of(c, t, name, &count, false);
    bool *flags = items ? trees_alloc(c, t, count, sizeof *flags) : NULL;
    for (uint32_t i = 0; flags && i < count; i++)
        flags[i] = items[i] != 0;
    return flags;
}

/* Whether x is compared in double: only where it is of that type. */
static bool is_wide(const struct call *c)
{
    return ml_dtype(c->g, call_input(c, 0)) == PEN_DTYPE_F64;
}

/* ---- versions 1 and 3: nodes by tree and id -------------------------------------------------------------------------------------- */

static int key_order(const void *a, const void *b)
{
    const struct node_key *x = a, *y = b;
    if (x->tree != y->tree)
        return x->tree < y->tree ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool nodes_in_order(const struct trees *t)
{
    for (uint32_t i = 1; i < t->s.nodes; i++) {
        if (t->tree[i] < t->tree[i - 1] || (t->tree[i] == t->tree[i - 1] && t->id[i] <= t->id[i - 1]))
            return false;
    }
    return true;
}

/* The node of this tree and id. near: an index where ids that count up would have it. */
static uint32_t node_find(const struct trees *t, int64_t tree, int64_t id, int64_t near)
{
    if (near >= 0 && near < (int64_t)t->s.nodes && t->tree[near] == tree && t->id[near] == id)
        return (uint32_t)near;
    const struct node_key want = {tree, id, 0};
    uint32_t low = 0, high = t->s.nodes;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct node_key key = t->sorted ? t->sorted[middle] : (struct node_key){t->tree[middle], t->id[middle], middle};
        int order = key_order(&key, &want);
        if (order == 0)
            return key.at;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NO_NODE;
}

static void modes_read(struct call *c, struct trees *t)
{
    static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
    const struct pb_attr *a = call_attr(c, "nodes_modes");
    t->s.mode = trees_alloc(c, t, t->s.nodes, 1);
    if (!t->s.mode || !a || a->type != PB_STRINGS || a->count != t->s.nodes) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s): nodes_modes does not have one mode per tree node", c->name,
                  c->origin);
        return;
    }
    struct bytes cursor = a->self, text;
    for (uint32_t i = 0; i < t->s.nodes && pb_each(&cursor, 9, &text) == 1; i++) {
        uint8_t mode = bytes_are(text, "LEAF") ? FOREST_LEAF : 0;
        while (mode < FOREST_LEAF && !bytes_are(text, names[mode]))
            mode++;
        mode = mode == FOREST_LEAF && !bytes_are(text, "LEAF") ? FOREST_LEAF + 1 : mode;
        if (mode > FOREST_LEAF || mode == FOREST_MEMBER) {
            call_fail(c, PEN_ERR_UNSUPPORTED, "node %s (%s): tree node %u has an unknown mode", c->name, c->origin, i);
            return;
        }
        t->s.mode[i] = mode;
    }
}

/* Ids of branches become indices; nodes that no branch leads to are roots. */
static void branches_resolve(struct call *c, struct trees *t)
{
    uint32_t n = t->s.nodes;
    bool *led = trees_alloc(c, t, n, sizeof *led);
    t->s.yes = trees_alloc(c, t, n, sizeof *t->s.yes);
    t->s.no = trees_alloc(c, t, n, sizeof *t->s.no);
    t->s.root = trees_alloc(c, t, n, sizeof *t->s.root);
    for (uint32_t i = 0; c->status == PEN_OK && i < n; i++) {
        if (t->s.mode[i] == FOREST_LEAF)
            continue;
        t->s.yes[i] = node_find(t, t->tree[i], t->yes[i], (int64_t)i + t->yes[i] - t->id[i]);
        t->s.no[i] = node_find(t, t->tree[i], t->no[i], (int64_t)i + t->no[i] - t->id[i]);
        if (t->s.yes[i] == NO_NODE || t->s.no[i] == NO_NODE) {
            call_fail(c, PEN_ERR_INVALID, "node %s (%s): a branch of tree %lld, node %lld leads to no node", c->name,
                      c->origin, (long long)t->tree[i], (long long)t->id[i]);
            return;
        }
        led[t->s.yes[i]] = led[t->s.no[i]] = true;
    }
    for (uint32_t i = 0; c->status == PEN_OK && i < n; i++) {
        if (!led[i])
            t->s.root[t->s.roots++] = i;
    }
}

static void nodes_read(struct call *c, struct trees *t)
{
    uint32_t *n = &t->s.nodes;
    t->tree = ints_of(c, t, "nodes_treeids", n, true);
    t->id = ints_of(c, t, "nodes_nodeids", n, true);
    t->yes = ints_of(c, t, "nodes_truenodeids", n, true);
    t->no = ints_of(c, t, "nodes_falsenodeids", n, true);
    t->s.feature = narrow(c, t, ints_of(c, t, "nodes_featureids", n, true), *n);
    t->s.split = floats_of(c, t, "nodes_values", n, true);
    t->s.nan_yes = flags_of(c, t, "nodes_missing_value_tracks_true", *n);
    if (c->status == PEN_OK)
        modes_read(c, t);
    if (c->status != PEN_OK)
        return;
    if (!nodes_in_order(t)) {
        t->sorted = trees_alloc(c, t, *n, sizeof *t->sorted);
        for (uint32_t i = 0; t->sorted && i < *n; i++)
            t->sorted[i] = (struct node_key){t->tree[i], t->id[i], i};
        if (t->sorted)
            qsort(t->sorted, *n, sizeof *t->sorted, key_order);
    }
    branches_resolve(c, t);
}

/* prefix: class or target */
static void weights_read(struct call *c, struct trees *t, bool classes)
{
    uint32_t *n = &t->s.entries;
    const int64_t *tree = ints_of(c, t, classes ? "class_treeids" : "target_treeids", n, true);
    const int64_t *id = ints_of(c, t, classes ? "class_nodeids" : "target_nodeids", n, true);
    t->s.entry_target = narrow(c, t, ints_of(c, t, classes ? "class_ids" : "target_ids", n, true), *n);
    t->s.entry_weight = floats_of(c, t, classes ? "class_weights" : "target_weights", n, true);
    t->s.entry_node = trees_alloc(c, t, *n, sizeof *t->s.entry_node);
    int64_t near = 0;
    for (uint32_t i = 0; c->status == PEN_OK && i < *n; i++) {
        uint32_t node = node_find(t, tree[i], id[i], i > 0 && tree[i] == tree[i - 1] ? near + id[i] - id[i - 1] : near);
        if (node == NO_NODE) {
            call_fail(c, PEN_ERR_INVALID, "node %s (%s): a weight is for tree %lld, node %lld, which is not there",
                      c->name, c->origin, (long long)tree[i], (long long)id[i]);
            return;
        }
        t->s.entry_node[i] = node;
        near = node;
    }
}

/* A leaf of a single target has one weight, the first that names it: skl2onnx writes the leaf of a decision path once for each class, and onnxruntime reads it so. */
static void weights_first(struct call *c, struct trees *t)
{
    bool *named = trees_alloc(c, t, t->s.nodes, sizeof *named);
    uint32_t kept = 0;
    for (uint32_t i = 0; named && i < t->s.entries; i++) {
        uint32_t node = t->s.entry_node[i];
        if (named[node])
            continue;
        named[node] = true;
        t->s.entry_node[kept] = node;
        t->s.entry_target[kept] = t->s.entry_target[i];
        t->s.entry_weight[kept++] = t->s.entry_weight[i];
    }
    t->s.entries = kept;
}

static uint32_t aggregate_of(const struct call *c)
{
    static const char *const names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (call_text_is(c, "aggregate_function", names[i]))
            return i;
    }
    return FOREST_SUM;
}

/* Emits the sums [rows, targets] of x over the trees. */
static uint32_t sums_of(struct call *c, struct trees *t, int64_t aggregate)
{
    uint32_t forest = VALUE_NONE;
    if (c->status == PEN_OK)
        c->status = forest_new(c->g, &t->s, c->name, &forest, c->r->reterr);
    uint32_t y = call_value(c, OP_TreeEnsemble, (uint32_t[]){call_input(c, 0), forest}, 2);
    if (c->status == PEN_OK) {
        call_set_int(c, c->g->values[y].producer, ATTR_n_targets, t->s.targets);
        call_set_int(c, c->g->values[y].producer, ATTR_aggregate_function, aggregate);
    }
    return y;
}

static float *base_of(struct call *c, struct trees *t, uint32_t *ret_count)
{
    const double *base = floats_of(c, t, "base_values", ret_count, false);
    float *items = base && *ret_count > 0 ? graph_alloc(c->g, *ret_count * sizeof *items) : NULL;
    for (uint32_t i = 0; items && i < *ret_count; i++)
        items[i] = (float)base[i];
    return items;
}

static void set_base(struct call *c, uint32_t y, const float *base, uint32_t count)
{
    if (c->status != PEN_OK || !base)
        return;
    struct attr a = {.key = ATTR_base_values, .type = ATTR_FLOATS, .count = count, .floats = base};
    c->status = graph_attr_set(c->g, c->g->values[y].producer, &a);
}

/* ---- the operators ----------------------------------------------------------------------------------------------------------------- */

/* The classes that have weights, in their order: [count], in the arena. */
static int64_t *weighted_classes(struct call *c, const struct trees *t, uint32_t *ret_count, bool *ret_positive)
{
    int64_t classes = t->s.targets, *list = graph_alloc(c->g, (size_t)classes * sizeof *list);
    *ret_count = 0;
    *ret_positive = true;
    for (uint32_t i = 0; list && i < t->s.entries; i++) {
        if (t->s.entry_target[i] < classes)
            list[t->s.entry_target[i]] = 1;
        *ret_positive = *ret_positive && !(t->s.entry_weight[i] < 0.0);
    }
    for (int64_t i = 0; list && i < classes; i++) {
        if (list[i])
            list[(*ret_count)++] = i;
    }
    if (!list)
        c->status = PEN_ERR_NO_MEMORY;
    return list;
}

/* Two classes of which one has weights are one sum. */
static void classes_put(struct call *c, struct trees *t, uint32_t classes)
{
    uint32_t base_count = 0, named = 0;
    bool positive = true;
    float *base = base_of(c, t, &base_count);
    const int64_t *list = weighted_classes(c, t, &named, &positive);
    if (c->status != PEN_OK)
        return;
    bool one = classes == 2 && named == 1, second = one && list[0] == 1;
    for (uint32_t i = 0; one && i < t->s.entries; i++)
        t->s.entry_target[i] = 0;
    t->s.targets = one ? 1 : t->s.targets;
    int64_t rule = second ? (positive ? SCORE_HALF_SECOND : SCORE_SIGN_SECOND)
                   : one  ? (positive ? SCORE_HALF : SCORE_SIGN)
                          : (classes == 2 ? SCORE_BOTH : SCORE_MOST);
    uint32_t scores = ml_put_classes(c, sums_of(c, t, FOREST_SUM), rule, classes, base, base_count,
                                     rule == SCORE_BOTH || classes == 1);
    if (c->status == PEN_OK && rule == SCORE_MOST && named < classes && base_count == 0)
        c->status = graph_attr_ints(c->g, scores, ATTR_class_ids, list, named);
}

void up_tree_classifier(struct call *c)
{
    struct trees t = {.s = {.targets = ml_label_count(c), .wide = is_wide(c)}};
    if (call_input(c, 0) == VALUE_NONE || t.s.targets < 1) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) has no input or no classes", c->name, c->origin);
        return;
    }
    nodes_read(c, &t);
    if (c->status == PEN_OK)
        weights_read(c, &t, true);
    if (c->status == PEN_OK)
        classes_put(c, &t, (uint32_t)t.s.targets);
    trees_fini(&t);
}

/* The transform of a regressor, as its text or its number. */
static void transform_put(struct call *c, uint32_t y, const char *text)
{
    if (c->status == PEN_OK)
        call_set_text(c, c->g->values[y].producer, ATTR_post_transform, text);
}

static const char *transform_name(const struct call *c)
{
    static const char *const names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    int64_t number = call_int(c, "post_transform", -1);
    for (int64_t i = 0; i < (int64_t)(sizeof names / sizeof names[0]); i++) {
        if (number == i || call_text_is(c, "post_transform", names[i]))
            return names[i];
    }
    return "NONE";
}

/* A target of several that no leaf names stays 0 in onnxruntime, whatever its base value: exporters that get the targets wrong are compared with that. */
static void base_of_named(const struct trees *t, float *base, uint32_t count)
{
    for (uint32_t target = 0; target < count && count > 1; target++) {
        uint32_t i = 0;
        while (i < t->s.entries && t->s.entry_target[i] != target)
            i++;
        base[target] = i < t->s.entries ? base[target] : 0.0f;
    }
}

void up_tree_regressor(struct call *c)
{
    struct trees t = {.s = {.targets = call_int(c, "n_targets", 1), .wide = is_wide(c)}};
    uint32_t base_count = 0;
    nodes_read(c, &t);
    if (c->status == PEN_OK)
        weights_read(c, &t, false);
    if (c->status == PEN_OK && t.s.targets == 1)
        weights_first(c, &t);
    if (c->status == PEN_OK) {
        float *base = base_of(c, &t, &base_count);
        base_of_named(&t, base, base_count);
        uint32_t y = sums_of(c, &t, aggregate_of(c));
        set_base(c, y, base, base_count);
        transform_put(c, y, transform_name(c));
        ml_put(c, ml_dtype(c->g, call_input(c, 0)) == PEN_DTYPE_F64 ? ml_cast(c, y, PEN_DTYPE_F32) : y);
    }
    trees_fini(&t);
}

/* ---- version 5: nodes and leaves in lists of their own -------------------------------------------------------------------------------- */

/* Leaves come behind the inner nodes: leaf i is node inner + i. */
static void children_read(struct call *c, struct trees *t, const char *ids, const char *leafs, uint32_t inner,
                          uint32_t leaves, uint32_t *to)
{
    uint32_t n = inner;
    const int64_t *id = ints_of(c, t, ids, &n, true), *leaf = ints_of(c, t, leafs, &n, true);
    for (uint32_t i = 0; c->status == PEN_OK && i < inner; i++) {
        int64_t limit = leaf[i] ? leaves : inner;
        if (id[i] < 0 || id[i] >= limit) {
            call_fail(c, PEN_ERR_INVALID, "node %s (%s): %s has %lld at place %u, below %lld is right", c->name,
                      c->origin, ids, (long long)id[i], i, (long long)limit);
            return;
        }
        to[i] = (uint32_t)id[i] + (leaf[i] ? inner : 0);
    }
}

/* Sets follow one another in the order of the membership nodes, NaN between them. */
static void sets_find(struct call *c, struct trees *t, uint32_t inner)
{
    uint32_t at = 0;
    t->s.member = floats_of(c, t, "membership_values", &t->s.members, false);
    t->s.set_first = trees_alloc(c, t, inner, sizeof *t->s.set_first);
    for (uint32_t i = 0; c->status == PEN_OK && i < inner; i++) {
        if (t->s.mode[i] != FOREST_MEMBER)
            continue;
        t->s.set_first[i] = at;
        while (at < t->s.members && !isnan(t->s.member[at]))
            at++;
        at += at < t->s.members;
    }
}

static void modes_of_tensor(struct call *c, struct trees *t, uint32_t inner)
{
    const struct pb_attr *a = call_attr(c, "nodes_modes");
    struct tensor tensor;
    if (!a || a->type != PB_TENSOR) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) has no nodes_modes", c->name, c->origin);
        return;
    }
    c->status = tensor_load(&c->r->source, a->message, &tensor, c->r->reterr);
    if (c->status != PEN_OK)
        return;
    bool fits = tensor.dtype == PEN_DTYPE_U8 && shape_elements(&tensor.shape) == inner;
    for (uint32_t i = 0; fits && i < inner; i++) {
        t->s.mode[i] = ((const uint8_t *)tensor.data)[i];
        fits = t->s.mode[i] <= FOREST_MEMBER;
    }
    if (!fits)
        call_fail(c, PEN_ERR_INVALID, "node %s (%s): nodes_modes does not have a known mode per node", c->name,
                  c->origin);
}

static void leaves_read(struct call *c, struct trees *t, uint32_t inner, uint32_t leaves)
{
    t->s.entries = leaves;
    t->s.entry_target = narrow(c, t, ints_of(c, t, "leaf_targetids", &leaves, true), leaves);
    t->s.entry_weight = floats_of(c, t, "leaf_weights", &leaves, true);
    t->s.entry_node = trees_alloc(c, t, leaves, sizeof *t->s.entry_node);
    for (uint32_t i = 0; c->status == PEN_OK && i < leaves; i++) {
        t->s.entry_node[i] = inner + i;
        t->s.mode[inner + i] = FOREST_LEAF;
    }
}

/* A root whose branches both lead to the same leaf is how this form writes a tree of one leaf. */
static void lone_leaves(struct trees *t)
{
    for (uint32_t r = 0; r < t->s.roots; r++) {
        uint32_t root = t->s.root[r];
        if (root < t->s.nodes && t->s.mode[root] != FOREST_LEAF && t->s.yes[root] == t->s.no[root])
            t->s.root[r] = t->s.yes[root];
    }
}

void up_tree_ensemble(struct call *c)
{
    struct trees t = {.s = {.targets = call_int(c, "n_targets", 1), .wide = is_wide(c)}};
    uint32_t inner = 0, leaves = 0;
    (void)ints_of(c, &t, "leaf_targetids", &leaves, true);
    int64_t *feature = ints_of(c, &t, "nodes_featureids", &inner, true);
    const int64_t *roots = ints_of(c, &t, "tree_roots", &t.s.roots, true);
    if (c->status == PEN_OK) {
        t.s.nodes = inner + leaves;
        t.s.mode = trees_alloc(c, &t, t.s.nodes, 1);
        t.s.yes = trees_alloc(c, &t, t.s.nodes, sizeof *t.s.yes);
        t.s.no = trees_alloc(c, &t, t.s.nodes, sizeof *t.s.no);
        t.s.feature = narrow(c, &t, feature, inner);
        t.s.root = narrow(c, &t, roots, t.s.roots);
        t.s.split = floats_of(c, &t, "nodes_splits", &inner, true);
        t.s.nan_yes = flags_of(c, &t, "nodes_missing_value_tracks_true", inner);
    }
    if (c->status == PEN_OK)
        modes_of_tensor(c, &t, inner);
    if (c->status == PEN_OK) {
        children_read(c, &t, "nodes_truenodeids", "nodes_trueleafs", inner, leaves, t.s.yes);
        children_read(c, &t, "nodes_falsenodeids", "nodes_falseleafs", inner, leaves, t.s.no);
        leaves_read(c, &t, inner, leaves);
        sets_find(c, &t, inner);
        lone_leaves(&t);
    }
    if (c->status == PEN_OK) {
        uint32_t y = sums_of(c, &t, call_int(c, "aggregate_function", FOREST_SUM));
        transform_put(c, y, transform_name(c));
        ml_put(c, y);
    }
    trees_fini(&t);
}
