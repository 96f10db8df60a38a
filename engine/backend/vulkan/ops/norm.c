#include "backend/vulkan/ops/ops.h"

/* Layer, RMS, instance, group, Lp and mean-variance normalisation; batch norm in inference; LRN. */
enum norm_kind { NORM_MEAN = 0, NORM_RMS = 1, NORM_L2 = 2, NORM_L1 = 3 };

struct norm {
    size_t rows, n, groups, inner, outer_step, group_step, i_step, j_step;
    bool channel; /* scale and bias per channel */
    enum norm_kind kind;
    size_t want; /* elements of scale and bias */
};

static bool norm_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (!vk_all_f32(g, n)) {
        return vk_refuse(ret_reason, "only f32");
    }
    int32_t rank = node_in(g, n, 0)->shape.rank;
    if (n->op == OP_InstanceNormalization || n->op == OP_GroupNormalization) {
        return rank >= 3 || vk_refuse(ret_reason, "fewer than three dims");
    }
    return (rank > 0 && shape_axis(node_int(n, ATTR_axis, -1), rank) >= 0) ||
           vk_refuse(ret_reason, "axis out of range");
}

/* Rows are groups of channels with all their pixels, in either layout. */
static bool groups_read(const struct vk_build *b, const struct shape *x, struct norm *q)
{
    bool last = node_int(b->n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC;
    size_t channels = (size_t)x->dim[last ? x->rank - 1 : 1], all = vk_elements(vk_in(b, 0)), outer = (size_t)x->dim[0];
    int64_t groups = b->n->op == OP_GroupNormalization ? node_int(b->n, ATTR_num_groups, 0) : (int64_t)channels;
    if (groups < 1 || channels % (size_t)groups != 0 || outer == 0) {
        return false;
    }
    size_t pixels = all / outer / channels, each = channels / (size_t)groups;
    *q = (struct norm){.rows = outer * (size_t)groups,
                       .n = pixels * each,
                       .groups = (size_t)groups,
                       .inner = each,
                       .outer_step = channels * pixels,
                       .group_step = last ? each : each * pixels,
                       .i_step = last ? channels : 1,
                       .j_step = last ? 1 : pixels,
                       .channel = true,
                       .want = channels};
    return true;
}

static bool rows_read(const struct vk_build *b, const struct shape *x, struct norm *q)
{
    int32_t axis = shape_axis(node_int(b->n, ATTR_axis, -1), x->rank);
    bool lp = b->n->op == OP_LpNormalization;
    size_t n = 1, inner = 1, all = vk_elements(vk_in(b, 0));
    for (int32_t d = axis; d < x->rank; d++) {
        *(lp && d > axis ? &inner : &n) *= (size_t)x->dim[d];
    }
    /* Lp: rows are columns of [outer, axis, inner]. */
    *q = (struct norm){.rows = all / n,
                       .n = n,
                       .groups = inner,
                       .inner = 1,
                       .outer_step = n * inner,
                       .group_step = 1,
                       .i_step = inner,
                       .want = n};
    q->kind = !lp                              ? (b->n->op == OP_RMSNormalization ? NORM_RMS : NORM_MEAN)
              : node_int(b->n, ATTR_p, 2) == 1 ? NORM_L1
                                               : NORM_L2;
    return true;
}

/* Scale and bias must have an element each: what broadcasts is refused. */
static bool parameters_fit(const struct vk_build *b, const struct norm *q)
{
    for (uint32_t i = 1; i < 3 && i < b->n->in_count; i++) {
        if (vk_in(b, i) != NULL && vk_elements(vk_in(b, i)) != q->want) {
            return false;
        }
    }
    for (uint32_t i = 1; i < b->n->out_count; i++) {
        if (vk_out(b, i) != NULL && vk_elements(vk_out(b, i)) != q->rows) {
            return false;
        }
    }
    return true;
}

static void norm_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape;
    bool grouped = b->n->op == OP_InstanceNormalization || b->n->op == OP_GroupNormalization;
    struct norm q;
    if (!(grouped ? groups_read(b, x, &q) : rows_read(b, x, &q)) || !parameters_fit(b, &q)) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "scale, bias or result have other sizes than the normalised dims");
        return;
    }
    uint32_t y = vk_out_cell(b, 0);
    struct vk_work *w = vk_dispatch(b, SHADER_norm);
    uint32_t in = vk_in_cell(b, 0);
    bool mean = vk_out(b, 1) != NULL, inverse = vk_out(b, 2) != NULL;
    vk_bind(w, y, VK_WRITE);
    vk_bind(w, in, VK_READ);
    vk_bind(w, vk_in(b, 1) != NULL ? vk_in_cell(b, 1) : in, VK_READ);
    vk_bind(w, vk_in(b, 2) != NULL ? vk_in_cell(b, 2) : in, VK_READ);
    vk_bind(w, mean ? vk_out_cell(b, 1) : y, VK_WRITE);
    vk_bind(w, inverse ? vk_out_cell(b, 2) : y, VK_WRITE);
    const uint32_t specs[] = {q.kind, vk_in(b, 1) != NULL, vk_in(b, 2) != NULL, q.channel, mean, inverse};
    for (size_t i = 0; i < 6; i++) {
        vk_spec(w, specs[i]);
    }
    const size_t words[] = {q.rows, q.n, q.groups, q.inner, q.outer_step, q.group_step, q.i_step, q.j_step};
    for (size_t i = 0; i < 8; i++) {
        vk_push(w, words[i]);
    }
    vk_push_float(w, node_float(b->n, ATTR_epsilon, 1e-5f));
    vk_items(w, q.rows * VK_LOCAL);
}

const struct vk_op vk_op_norm = {norm_supports, NULL, norm_build};

/* ---- BatchNormalization and LRN: x is [outer, channels, inner] ---- */

static size_t inner_of(const struct node *n, const struct shape *x)
{
    size_t inner = 1;
    for (int32_t d = 2; d < x->rank && node_int(n, ATTR_layout, LAYOUT_NCHW) != LAYOUT_NHWC; d++) {
        inner *= (size_t)x->dim[d];
    }
    return inner;
}

static size_t channels_of(const struct node *n, const struct shape *x)
{
    return (size_t)x->dim[node_int(n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC ? x->rank - 1 : 1];
}

static bool batch_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return (vk_all_f32(g, n) && n->out_count == 1 && node_int(n, ATTR_training_mode, 0) == 0 &&
            node_in(g, n, 0)->shape.rank >= 2) ||
           vk_refuse(ret_reason, "only inference in f32");
}

static void batch_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape;
    size_t channels = channels_of(b->n, x);
    for (uint32_t i = 1; i < 5; i++) {
        if (vk_elements(vk_in(b, i)) != channels) {
            vk_build_fail(b, PEN_ERR_SHAPE, "a parameter does not have one element per channel");
            return;
        }
    }
    struct vk_work *w = vk_dispatch(b, SHADER_batch_norm);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    for (uint32_t i = 0; i < 5; i++) {
        vk_bind(w, vk_in_cell(b, i), VK_READ);
    }
    vk_push(w, vk_elements(vk_in(b, 0)));
    vk_push(w, channels);
    vk_push(w, inner_of(b->n, x));
    vk_push_float(w, node_float(b->n, ATTR_epsilon, 1e-5f));
    vk_items(w, vk_elements(vk_in(b, 0)));
}

const struct vk_op vk_op_batch_norm = {batch_supports, NULL, batch_build};

static bool lrn_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    return (vk_all_f32(g, n) && node_in(g, n, 0)->shape.rank >= 3 && node_int(n, ATTR_size, 0) > 0) ||
           vk_refuse(ret_reason, "only f32 with a size");
}

static void lrn_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape;
    size_t size = (size_t)node_int(b->n, ATTR_size, 1);
    struct vk_work *w = vk_dispatch(b, SHADER_lrn);
    vk_bind(w, vk_out_cell(b, 0), VK_WRITE);
    vk_bind(w, vk_in_cell(b, 0), VK_READ);
    vk_push(w, vk_elements(vk_in(b, 0)));
    vk_push(w, channels_of(b->n, x));
    vk_push(w, inner_of(b->n, x));
    vk_push(w, size);
    vk_push_float(w, node_float(b->n, ATTR_alpha, 1e-4f) / (float)size);
    vk_push_float(w, node_float(b->n, ATTR_beta, 0.75f));
    vk_push_float(w, node_float(b->n, ATTR_bias, 1.0f));
    vk_items(w, vk_elements(vk_in(b, 0)));
}

const struct vk_op vk_op_lrn = {lrn_supports, NULL, lrn_build};
