#include <math.h>
#include <string.h>

#include "graph/askew.h"
#include "graph/axes.h"
#include "graph/fuse.h"

#define CHANNELS_MAX (1 << 24)

/* y = x * mul[c] + add[c] per channel; either may be NULL. */
struct affine {
    int64_t channels;
    const float *mul, *add;
};

/* ---- into weights ---------------------------------------------------------------------------------------------------- */

static enum weight_layout layout_of(const struct node *n)
{
    return (enum weight_layout)node_int(n, ATTR_weight_layout, WEIGHT_OIHW);
}

/* A node whose weights are ours to change: constants and no activation. */
static bool open_weights(const struct rewrite *r, const struct node *n)
{
    bool linear = n->op == OP_Conv || n->op == OP_ConvTranspose || n->op == OP_Gemm;
    if (!linear || node_int(n, ATTR_act, ACT_NONE) != ACT_NONE || (n->op != OP_Conv && layout_of(n) != WEIGHT_OIHW))
        return false;
    if (!rewrite_floats(r, n->in[1], 0))
        return false;
    return n->in_count < 3 || n->in[2] == VALUE_NONE || rewrite_floats(r, n->in[2], 0);
}

/* Output channel of each weight. */
static int64_t out_channels(const struct node *n, const struct shape *w)
{
    if (n->op == OP_Conv) {
        int64_t last = w->dim[w->rank - 1];
        return layout_of(n) == WEIGHT_HWIO   ? last
               : layout_of(n) == WEIGHT_HWIM ? last * w->dim[w->rank - 2]
                                             : w->dim[0];
    }
    if (n->op == OP_Gemm)
        return w->dim[node_int(n, ATTR_transB, 0) ? 0 : 1];
    return w->dim[1] * node_int(n, ATTR_group, 1);
}

/* Are neighbours of different channels? Rows of a Gemm, and filters whose channels come last. */
static bool channels_last(const struct node *n)
{
    return n->op == OP_Gemm ? !node_int(n, ATTR_transB, 0) : layout_of(n) == WEIGHT_HWIO || layout_of(n) == WEIGHT_HWIM;
}

/* to = from * mul[output channel], also in place: weights lie in runs of one channel, or channel by channel in rows. */
static void scale_by_channel(const struct node *n, const struct shape *w, const float *mul, const float *from,
                             float *to)
{
    int64_t group = node_int(n, ATTR_group, 1), run = 1, runs = w->dim[0];
    bool rows = channels_last(n), transposed = n->op == OP_ConvTranspose;
    for (int32_t i = transposed ? 2 : 1; i < w->rank; i++)
        run *= w->dim[i];
    if (rows) {
        run = out_channels(n, w);
        runs = shape_elements(w) / run;
    }
    for (int64_t r = 0; rows && r < runs; r++) {
        for (int64_t c = 0; c < run; c++)
            to[r * run + c] = from[r * run + c] * mul[c];
    }
    if (rows)
        return;
    if (transposed) /* [in, out / group, k...] */
        runs *= w->dim[1];
    for (int64_t r = 0; r < runs; r++) {
        int64_t in = transposed ? r / w->dim[1] : 0;
        float factor = mul[transposed ? in / (w->dim[0] / group) * w->dim[1] + r % w->dim[1] : r];
        for (int64_t i = 0; i < run; i++)
            to[r * run + i] = from[r * run + i] * factor;
    }
}

static enum pen_status scale_weights(struct rewrite *r, uint32_t node, const struct affine *a)
{
    struct graph *g = r->g;
    const struct node *n = &g->nodes[node];
    const struct value *w = &g->values[n->in[1]];
    int64_t count = shape_elements(&w->shape);
    const float *from = w->data;
    struct shape shape = w->shape;
    float *to = graph_alloc_data(g, w->bytes);
    uint32_t id;
    if (!to)
        return PEN_ERR_NO_MEMORY;
    if (value_is_askew(w))
        from = memcpy(to, w->data, w->bytes);
    scale_by_channel(n, &shape, a->mul, from, to);
    graph_cool(g, n->in[1]);
    g->folded_bytes += w->bytes;
    enum pen_status status = graph_constant(g, NULL, PEN_DTYPE_F32, &shape, to, (size_t)count * sizeof *to, false, &id);
    return status == PEN_OK ? uses_set(&r->uses, node, 1, id) : status;
}

/* bias' = bias * mul + add; Gemm's beta is multiplied in. */
static enum pen_status scale_bias(struct rewrite *r, uint32_t node, const struct affine *a)
{
    struct graph *g = r->g;
    struct node *n = &g->nodes[node];
    const float *bias = n->in_count > 2 && n->in[2] != VALUE_NONE ? g->values[n->in[2]].data : NULL;
    bool single = bias && g->values[n->in[2]].bytes == sizeof(float);
    float beta = n->op == OP_Gemm ? node_float(n, ATTR_beta, 1.0f) : 1.0f;
    float *to = graph_alloc(g, (size_t)a->channels * sizeof *to);
    uint32_t id;
    if (!to)
        return PEN_ERR_NO_MEMORY;
    for (int64_t c = 0; c < a->channels; c++) {
        double b = bias ? (double)bias[single ? 0 : c] * (double)beta : 0.0;
        to[c] = (float)(b * (a->mul ? (double)a->mul[c] : 1.0) + (a->add ? (double)a->add[c] : 0.0));
    }
    enum pen_status status = graph_constant_f32(g, to, (size_t)a->channels, false, &id);
    n = &g->nodes[node];
    if (status == PEN_OK && n->in_count < 3) {
        uint32_t *in = graph_alloc(g, 3 * sizeof *in);
        if (!in)
            return PEN_ERR_NO_MEMORY;
        memcpy(in, n->in, n->in_count * sizeof *in);
        in[2] = VALUE_NONE;
        n->in = in;
        n->in_count = 3;
    }
    if (status == PEN_OK && n->op == OP_Gemm)
        status = graph_attr_float(g, node, ATTR_beta, 1.0f);
    return status == PEN_OK ? uses_set(&r->uses, node, 2, id) : status;
}

/* Gemm's C may be a whole matrix: then only one row or one item will do. */
static bool bias_fits(const struct rewrite *r, const struct node *n, int64_t channels)
{
    if (n->in_count < 3 || n->in[2] == VALUE_NONE)
        return true;
    const struct shape *s = &r->g->values[n->in[2]].shape;
    int64_t count = shape_elements(s);
    bool row = s->rank >= 1 && s->dim[s->rank - 1] == channels && count == channels;
    return row || (count == 1 && n->op == OP_Gemm);
}

static bool absorb_affine(struct rewrite *r, uint32_t maker, uint32_t last, const struct affine *a)
{
    const struct node *n = &r->g->nodes[maker];
    const struct shape *w = &r->g->values[n->in[1]].shape;
    if (out_channels(n, w) != a->channels || !bias_fits(r, n, a->channels))
        return false;
    enum pen_status status = a->mul ? scale_weights(r, maker, a) : PEN_OK;
    if (status == PEN_OK)
        status = scale_bias(r, maker, a);
    if (status != PEN_OK)
        return rewrite_failed(r, status);
    rewrite_absorb(r, maker, last);
    return true;
}

/* ---- batch normalisation ------------------------------------------------------------------------------------------------ */

static bool norm_affine(struct rewrite *r, const struct node *n, struct affine *ret)
{
    const struct shape *s = &r->g->values[n->in[1]].shape;
    int64_t channels = shape_elements(s);
    if (channels < 1 || channels > CHANNELS_MAX || node_int(n, ATTR_training_mode, 0) || n->out_count > 1)
        return false;
    const float *p[4];
    for (uint32_t i = 0; i < 4; i++) {
        p[i] = rewrite_floats(r, n->in[1 + i], channels);
        if (!p[i])
            return false;
    }
    float *mul = graph_alloc(r->g, 2 * (size_t)channels * sizeof *mul), *add = mul ? mul + channels : NULL;
    double epsilon = (double)node_float(n, ATTR_epsilon, 1e-5f);
    if (!mul)
        return rewrite_failed(r, PEN_ERR_NO_MEMORY);
    for (int64_t c = 0; c < channels; c++) {
        double scale = (double)p[0][c] / sqrt((double)p[3][c] + epsilon);
        mul[c] = (float)scale;
        add[c] = (float)((double)p[1][c] - (double)p[2][c] * scale);
    }
    *ret = (struct affine){channels, mul, add};
    return true;
}

/* Without a convolution before it: a multiplication and an addition, which later passes know how to fuse. */
static bool expand_norm(struct rewrite *r, uint32_t node, const struct affine *a)
{
    struct graph *g = r->g;
    const struct node *n = &g->nodes[node];
    const struct shape *x = &rewrite_fact(r, n->in[0])->shape;
    struct spatial_axes at;
    if (x->rank < 2 || !spatial_axes_of(n, x->rank, &at))
        return false;
    struct shape s = {.rank = x->rank};
    for (int32_t i = 0; i < s.rank; i++)
        s.dim[i] = i == at.channel ? a->channels : 1;
    uint32_t mul, add, out, in = n->in[0];
    size_t bytes = (size_t)a->channels * sizeof(float);
    enum pen_status status = graph_constant(g, NULL, PEN_DTYPE_F32, &s, a->mul, bytes, false, &mul);
    if (status == PEN_OK)
        status = graph_constant(g, NULL, PEN_DTYPE_F32, &s, a->add, bytes, true, &add);
    if (status != PEN_OK)
        return rewrite_failed(r, status);
    out = rewrite_node(r, OP_Mul, n->name, (uint32_t[]){in, mul}, 2);
    out = rewrite_node(r, OP_Add, g->nodes[node].name, (uint32_t[]){out, add}, 2);
    if (r->status != PEN_OK)
        return false;
    rewrite_absorb(r, g->values[out].producer, node);
    return true;
}

bool fuse_batch_norm(struct rewrite *r, uint32_t node)
{
    const struct node *n = &r->g->nodes[node];
    struct affine a;
    if (n->op != OP_BatchNormalization || rewrite_fact(r, n->out[0])->dtype != PEN_DTYPE_F32 || !norm_affine(r, n, &a))
        return false;
    struct node *before = rewrite_maker(r, n->in[0]);
    bool fits = before && rewrite_only_maker(r, n->in[0], before->op) && open_weights(r, before);
    if (fits && absorb_affine(r, r->g->values[n->in[0]].producer, node, &a))
        return true;
    return r->status == PEN_OK && expand_norm(r, node, &a);
}

/* ---- Mul and Add ------------------------------------------------------------------------------------------------------------ */

/* A constant that has one item per channel of an output with this shape: [C] laid along `channel`, all else 1. */
static const float *per_channel(struct rewrite *r, uint32_t value, const struct shape *out, int32_t channel,
                                int64_t channels)
{
    const float *items = rewrite_floats(r, value, 0);
    if (!items)
        return NULL;
    const struct shape *s = &r->g->values[value].shape;
    int64_t count = shape_elements(s);
    int32_t at = channel - (out->rank - s->rank);
    if (s->rank > out->rank || (count != 1 && (count != channels || at < 0 || s->dim[at] != channels)))
        return NULL;
    if (count == channels)
        return items;
    float *spread = graph_alloc(r->g, (size_t)channels * sizeof *spread);
    for (int64_t c = 0; spread && c < channels; c++)
        spread[c] = items[0];
    return spread;
}

bool fuse_channel_mul_add(struct rewrite *r, uint32_t node)
{
    const struct node *n = &r->g->nodes[node];
    if ((n->op != OP_Mul && n->op != OP_Add) || node_int(n, ATTR_act, ACT_NONE) != ACT_NONE)
        return false;
    uint32_t constant = r->g->values[n->in[1]].data ? 1 : 0;
    if (!r->g->values[n->in[constant]].data)
        return false;
    uint32_t x = n->in[1 - constant];
    struct node *before = rewrite_maker(r, x);
    if (!before || !rewrite_only_maker(r, x, before->op) || !open_weights(r, before))
        return false;
    const struct shape *out = &rewrite_fact(r, x)->shape;
    struct spatial_axes at = {.channel = 1};
    if (out->rank < 2 || (before->op != OP_Gemm && !spatial_axes_of(before, out->rank, &at)))
        return false;
    int64_t channels = out_channels(before, &r->g->values[before->in[1]].shape);
    if (channels < 1 || channels > CHANNELS_MAX || rewrite_fact(r, n->out[0])->shape.rank != out->rank)
        return false;
    const float *items = per_channel(r, n->in[constant], out, at.channel, channels);
    if (!items)
        return false;
    struct affine a = {channels, n->op == OP_Mul ? items : NULL, n->op == OP_Add ? items : NULL};
    return absorb_affine(r, r->g->values[x].producer, node, &a);
}

bool fuse_gemm(struct rewrite *r, uint32_t node)
{
    const struct node *n = &r->g->nodes[node];
    if (n->op != OP_Add || node_int(n, ATTR_act, ACT_NONE) != ACT_NONE)
        return false;
    for (uint32_t side = 0; side < 2; side++) {
        struct node *product = rewrite_only_maker(r, n->in[side], OP_MatMul);
        uint32_t bias = n->in[1 - side];
        if (!product || node_int(product, ATTR_act, ACT_NONE) != ACT_NONE || !rewrite_floats(r, bias, 0))
            continue;
        const struct shape *a = &rewrite_fact(r, product->in[0])->shape, *b = &rewrite_fact(r, product->in[1])->shape;
        const struct shape *s = &r->g->values[bias].shape;
        if (a->rank != 2 || b->rank != 2 || !rewrite_floats(r, product->in[1], 0) || s->rank < 1 || s->rank > 2 ||
            s->dim[s->rank - 1] != b->dim[1] || shape_elements(s) != b->dim[1])
            continue;
        uint32_t in[3] = {product->in[0], product->in[1], bias};
        uint32_t out = rewrite_node(r, OP_Gemm, product->name, in, 3);
        if (r->status != PEN_OK)
            return false;
        uint32_t maker = r->g->values[r->g->nodes[node].in[side]].producer;
        rewrite_absorb(r, r->g->values[out].producer, node);
        uses_kill(&r->uses, maker);
        return true;
    }
    return false;
}
