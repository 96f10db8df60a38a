/* TreeEnsemble: sums of leaves reached from each root. Source: ONNX-ML TreeEnsemble (version 5). */
#include "backend/reference/kernels.h"

#include <math.h>

enum branch { BRANCH_LEQ, BRANCH_LT, BRANCH_GTE, BRANCH_GT, BRANCH_EQ, BRANCH_NEQ, BRANCH_MEMBER };
enum aggregate { AGGREGATE_AVERAGE, AGGREGATE_SUM, AGGREGATE_MIN, AGGREGATE_MAX };

struct tree {
    const int64_t *roots, *features, *true_ids, *false_ids, *true_leafs, *false_leafs, *nan_true, *leaf_targets;
    uint32_t root_count, node_count, leaf_count;
    const struct value *modes, *splits, *leaf_weights, *members;
    int64_t *member_at; /* [node_count] first member of a membership node's set */
    int64_t targets, width;
    enum aggregate aggregate;
};

static const struct value *tensor_of(const struct kernel_call *k, enum attr_key key, uint32_t count)
{
    const struct attr *a = node_attr(k->n, key);
    const struct value *v =
        a != NULL && a->type == ATTR_TENSOR && a->value < k->g->value_count ? &k->g->values[a->value] : NULL;
    return v != NULL && v->data != NULL && (count == 0 || shape_elements(&v->shape) == (int64_t)count) ? v : NULL;
}

/* A list that must have `count` items (or any number when *count is 0, which is then set). */
static const int64_t *list_of(const struct kernel_call *k, enum attr_key key, uint32_t *count)
{
    uint32_t have = 0;
    const int64_t *items = node_ints(k->n, key, &have);
    if (items == NULL || (*count != 0 && have != *count)) {
        return NULL;
    }
    *count = have;
    return items;
}

/* Sets follow one another in the order of the membership nodes, NaN between them. */
static enum pen_status members_find(struct kernel_call *k, struct tree *t)
{
    int64_t at = 0, count = t->members != NULL ? shape_elements(&t->members->shape) : 0;
    t->member_at = kernel_scratch(k, t->node_count * sizeof *t->member_at);
    if (t->member_at == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %u nodes", t->node_count);
    }
    for (uint32_t i = 0; i < t->node_count; i++) {
        t->member_at[i] = at;
        if (load_one_i64(t->modes->data, t->modes->dtype, i) == BRANCH_MEMBER) {
            while (at < count && !isnan(load_one_f64(t->members->data, t->members->dtype, at))) {
                at++;
            }
            at++;
        }
    }
    return PEN_OK;
}

static enum pen_status tree_init(struct kernel_call *k, struct tree *t)
{
    const struct shape *s = &k->in[0].shape;
    *t = (struct tree){.targets = node_int(k->n, ATTR_n_targets, 1),
                       .aggregate = (enum aggregate)node_int(k->n, ATTR_aggregate_function, AGGREGATE_SUM)};
    t->width = s->rank > 0 ? s->dim[s->rank - 1] : 0;
    t->roots = list_of(k, ATTR_tree_roots, &t->root_count);
    t->features = list_of(k, ATTR_nodes_featureids, &t->node_count);
    t->true_ids = list_of(k, ATTR_nodes_truenodeids, &t->node_count);
    t->false_ids = list_of(k, ATTR_nodes_falsenodeids, &t->node_count);
    t->true_leafs = list_of(k, ATTR_nodes_trueleafs, &t->node_count);
    t->false_leafs = list_of(k, ATTR_nodes_falseleafs, &t->node_count);
    t->nan_true = list_of(k, ATTR_nodes_missing_value_tracks_true, &t->node_count);
    t->leaf_targets = list_of(k, ATTR_leaf_targetids, &t->leaf_count);
    t->modes = tensor_of(k, ATTR_nodes_modes, t->node_count);
    t->splits = tensor_of(k, ATTR_nodes_splits, t->node_count);
    t->leaf_weights = tensor_of(k, ATTR_leaf_weights, t->leaf_count);
    t->members = tensor_of(k, ATTR_membership_values, 0);
    if (t->roots == NULL || t->features == NULL || t->true_ids == NULL || t->false_ids == NULL ||
        t->true_leafs == NULL || t->false_leafs == NULL || t->leaf_targets == NULL || t->modes == NULL ||
        t->splits == NULL || t->leaf_weights == NULL || s->rank != 2 || t->targets < 1 ||
        node_int(k->n, ATTR_post_transform, 0) != 0) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "its lists do not fit together, or a post_transform");
    }
    return members_find(k, t);
}

static bool branch_true(const struct tree *t, int64_t node, double v)
{
    double split = load_one_f64(t->splits->data, t->splits->dtype, node);
    if (isnan(v)) {
        return t->nan_true != NULL && t->nan_true[node] != 0;
    }
    switch ((enum branch)load_one_i64(t->modes->data, t->modes->dtype, node)) {
    case BRANCH_LT:
        return v < split;
    case BRANCH_GTE:
        return v >= split;
    case BRANCH_GT:
        return v > split;
    case BRANCH_EQ:
        return v == split;
    case BRANCH_NEQ:
        return v != split;
    case BRANCH_MEMBER:
        for (int64_t i = t->member_at[node]; t->members != NULL && i < shape_elements(&t->members->shape); i++) {
            double m = load_one_f64(t->members->data, t->members->dtype, i);
            if (isnan(m) || m == v) {
                return m == v;
            }
        }
        return false;
    case BRANCH_LEQ:
    default:
        return v <= split;
    }
}

/* The leaf that a row reaches, or -1 when ids lead nowhere (or round in circles). */
static int64_t leaf_find(const struct kernel_call *k, const struct tree *t, int64_t row, int64_t node)
{
    for (uint32_t steps = 0; steps <= t->node_count; steps++) {
        if (node < 0 || node >= (int64_t)t->node_count || t->features[node] < 0 || t->features[node] >= t->width) {
            return -1;
        }
        bool yes =
            branch_true(t, node, load_one_f64(k->in[0].data, k->in[0].dtype, row * t->width + t->features[node]));
        bool leaf = (yes ? t->true_leafs : t->false_leafs)[node] != 0;
        node = (yes ? t->true_ids : t->false_ids)[node];
        if (leaf) {
            return node >= 0 && node < (int64_t)t->leaf_count ? node : -1;
        }
    }
    return -1;
}

static double aggregate(const struct tree *t, double acc, double v, bool first)
{
    switch (t->aggregate) {
    case AGGREGATE_MIN:
        return first || v < acc ? v : acc;
    case AGGREGATE_MAX:
        return first || v > acc ? v : acc;
    case AGGREGATE_AVERAGE:
        return acc + v / (double)t->root_count;
    case AGGREGATE_SUM:
    default:
        return acc + v;
    }
}

enum pen_status kernel_tree_ensemble(struct kernel_call *k)
{
    struct tree t;
    enum pen_status status = tree_init(k, &t);
    if (status != PEN_OK) {
        return status;
    }
    struct shape out = shape_of(2, (const int64_t[]){k->in[0].shape.dim[0], t.targets});
    double *acc = kernel_scratch(k, (size_t)t.targets * sizeof *acc);
    bool *touched = kernel_scratch(k, (size_t)t.targets * sizeof *touched);
    status = kernel_output(k, 0, k->in[0].dtype, &out);
    if (status == PEN_OK && (acc == NULL || touched == NULL)) {
        status = kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %lld targets", (long long)t.targets);
    }
    for (int64_t row = 0; status == PEN_OK && row < out.dim[0]; row++) {
        for (int64_t i = 0; i < t.targets; i++) {
            acc[i] = 0.0;
            touched[i] = false;
        }
        for (uint32_t r = 0; r < t.root_count; r++) {
            int64_t leaf = leaf_find(k, &t, row, t.roots[r]);
            int64_t target = leaf < 0 ? -1 : t.leaf_targets[leaf];
            if (target < 0 || target >= t.targets) {
                return kernel_fail(k, PEN_ERR_INVALID, "tree %u leads to no leaf", r);
            }
            acc[target] = aggregate(&t, acc[target], load_one_f64(t.leaf_weights->data, t.leaf_weights->dtype, leaf),
                                    !touched[target]);
            touched[target] = true;
        }
        store_f64(k->out[0].data, k->in[0].dtype, row * t.targets, 1, t.targets, acc);
    }
    return status;
}
