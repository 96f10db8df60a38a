#include <string.h>

#include "graph/pass_qdq.h"

/* A list of this many equal items, or none at all. */
static bool all_are(const struct node *n, enum attr_key key, int64_t item)
{
    uint32_t count = 0;
    const int64_t *items = node_ints(n, key, &count);
    bool are = true;
    for (uint32_t i = 0; items && i < count; i++)
        are &= items[i] == item;
    return are;
}

/* Weights [in, out, k, k] whose windows, k apart, neither meet nor leave a gap. */
static bool side_by_side(const struct node *n, const struct shape *w)
{
    uint32_t count = 0, shape = 0;
    const int64_t *strides = node_ints(n, ATTR_strides, &count);
    bool square = w->rank == 4 && w->dim[2] == w->dim[3] && w->dim[2] > 1 && strides && count == 2;
    return square && strides[0] == w->dim[2] && strides[1] == w->dim[2] && node_int(n, ATTR_group, 1) == 1 &&
           all_are(n, ATTR_pads, 0) && all_are(n, ATTR_dilations, 1) && all_are(n, ATTR_output_padding, 0) &&
           !node_ints(n, ATTR_output_shape, &shape) && node_text_is(n, ATTR_auto_pad, "NOTSET", true) &&
           node_int(n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NCHW && !node_attr(n, ATTR_weight_layout);
}

/* The constant of `pixels` times the items of one, or itself where it is one item. */
static bool repeated(struct qdq *q, uint32_t *value, size_t pixels)
{
    struct graph *g = q->r.g;
    const struct value v = g->values[*value];
    int64_t count = shape_elements(&v.shape), all = count * (int64_t)pixels;
    if (count == 1)
        return true;
    const struct shape shape = shape_of(1, &all);
    uint8_t *to = graph_alloc(g, v.bytes * pixels);
    for (size_t i = 0; to && i < pixels; i++)
        memcpy(to + i * v.bytes, v.data, v.bytes);
    return (to && graph_constant(g, NULL, v.dtype, &shape, to, v.bytes * pixels, false, value) == PEN_OK) ||
           rewrite_failed(&q->r, PEN_ERR_NO_MEMORY);
}

/* [in, out, k, k] as [k * k * out, in, 1, 1] */
static bool turned(struct qdq *q, uint32_t *value)
{
    struct graph *g = q->r.g;
    const struct value v = g->values[*value];
    const size_t in = (size_t)v.shape.dim[0], out = (size_t)v.shape.dim[1],
                 pixels = (size_t)(v.shape.dim[2] * v.shape.dim[3]);
    const int64_t dims[4] = {(int64_t)(pixels * out), (int64_t)in, 1, 1};
    const struct shape shape = shape_of(4, dims);
    const uint8_t *from = v.data;
    uint8_t *to = graph_alloc(g, in * out * pixels + 64);
    for (size_t i = 0; to && i < in * out * pixels; i++)
        to[(i % pixels * out + i / pixels % out) * in + i / pixels / out] = from[i];
    return (to && graph_constant(g, NULL, v.dtype, &shape, to, in * out * pixels, false, value) == PEN_OK) ||
           rewrite_failed(&q->r, PEN_ERR_NO_MEMORY);
}

bool qdq_deconv(struct qdq *q, uint32_t node, uint32_t last, struct params *y)
{
    struct graph *g = q->r.g;
    const struct node n = g->nodes[node];
    const struct node *weights = rewrite_maker(&q->r, n.in[1]);
    const struct value *bytes = weights && weights->op == OP_DequantizeLinear ? &g->values[weights->in[0]] : NULL;
    uint32_t bias = n.in_count > 2 ? n.in[2] : VALUE_NONE, sums = VALUE_NONE;
    struct params x, w;
    if (!bytes || !bytes->data || !side_by_side(&n, &bytes->shape))
        return false;
    const int64_t channels = bytes->shape.dim[1], axis = node_int(weights, ATTR_axis, 1), k = bytes->shape.dim[2];
    if (!qdq_bytes_behind(q, n.in[0], 1, &x) || !qdq_bytes_behind(q, n.in[1], channels, &w) || x.dtype != y->dtype ||
        (shape_elements(&g->values[w.scale].shape) != 1 && axis != 1) ||
        !qdq_bias_sums(q, bias, &x, &w, channels, &sums) || !qdq_fill_zero(q, &x) || !qdq_fill_zero(q, &w) ||
        !qdq_fill_zero(q, y))
        return false;
    const size_t pixels = (size_t)(k * k);
    if (!turned(q, &w.value) || !repeated(q, &w.scale, pixels) || (sums != VALUE_NONE && !repeated(q, &sums, pixels)))
        return false;
    const uint32_t in[9] = {x.value, x.scale, x.zero, w.value, w.scale, w.zero, y->scale, y->zero, sums};
    uint32_t made = rewrite_node(&q->r, OP_QLinearConv, n.name, in, sums == VALUE_NONE ? 8 : 9);
    if (made == VALUE_NONE)
        return false;
    g->nodes[g->values[made].producer].origin = n.origin;
    made = rewrite_node(&q->r, OP_DepthToSpace, NULL, &made, 1);
    if (made == VALUE_NONE)
        return false;
    q->r.status = graph_attr_int(g, g->values[made].producer, ATTR_blocksize, k);
    rewrite_absorb(&q->r, g->values[made].producer, last);
    q->count++;
    return q->r.status == PEN_OK;
}
