#include <string.h>

#include "graph/pass_qdq.h"

/*
 * A transposed convolution by strides of s is a plain one: output s * i + p takes the inputs i, i - 1, ... i - (taps - 1), with the weights p, p + s, ... of the window.
 * So each phase p is s * s channels of one convolution of taps x taps, whose pixels DepthToSpace lays out; what lies beyond the output is cut off. Windows that
 * no stride divides end in weights of zero.
 */

#define WORK_MOST 4 /* times the products of the transposed form */

struct phases {
    struct params x, w;
    const struct value *bytes;
    int64_t in, out, stride, kernel[2], taps[2], begin[2], end[2]; /* begin, end: what is cut off */
    size_t step[4]; /* bytes of the weights between neighbours in input, output, row and column */
    int64_t layout;
    int32_t first; /* spatial axis */
};

/* Bytes [in, out, rows, columns], perhaps behind a Transpose of their floats. */
static bool weights_read(struct qdq *q, const struct node *n, struct phases *p)
{
    static const int64_t as_it_is[4] = {0, 1, 2, 3};
    struct graph *g = q->r.g;
    const struct node *turn = rewrite_maker(&q->r, n->in[1]), *made = turn;
    const int64_t *perm = as_it_is;
    uint32_t count = 4;
    if (turn && turn->op == OP_Transpose) {
        perm = node_ints(turn, ATTR_perm, &count);
        made = rewrite_maker(&q->r, turn->in[0]);
    }
    p->bytes = made && made->op == OP_DequantizeLinear ? &g->values[made->in[0]] : NULL;
    if (!p->bytes || !p->bytes->data || p->bytes->shape.rank != 4 || !perm || count != 4)
        return false;
    for (int i = 0; i < 4; i++) {
        p->step[i] = 1;
        for (int64_t d = perm[i] + 1; d < 4; d++)
            p->step[i] *= (size_t)p->bytes->shape.dim[d];
    }
    p->in = p->bytes->shape.dim[perm[0]];
    p->out = p->bytes->shape.dim[perm[1]];
    p->kernel[0] = p->bytes->shape.dim[perm[2]];
    p->kernel[1] = p->bytes->shape.dim[perm[3]];
    return qdq_bytes_behind(q, made->out[0], p->out, &p->w) &&
           (shape_elements(&g->values[p->w.scale].shape) == 1 || node_int(made, ATTR_axis, 1) == perm[1]);
}

/* What is cut off of stride * (size + taps - 1) rows or columns; ONNX's ConvTranspose says where the padding is. */
static bool cut_read(const struct qdq *q, const struct node *n, int i, struct phases *p)
{
    const int64_t s = p->stride, size = rewrite_fact(&q->r, n->in[0])->shape.dim[p->first + i];
    const int64_t extra = node_item(n, ATTR_output_padding, i, 0), reach = p->kernel[i] + extra - s;
    const bool upper = node_text_is(n, ATTR_auto_pad, "SAME_UPPER", false);
    const bool same = upper || node_text_is(n, ATTR_auto_pad, "SAME_LOWER", false);
    const bool padded = node_text_is(n, ATTR_auto_pad, "NOTSET", true);
    uint32_t given = 0;
    const int64_t *shape = node_ints(n, ATTR_output_shape, &given);
    if ((shape && (given < 2 || size < 1)) || extra < 0)
        return false;
    /* the whole is s * size + reach, the output s * size + wanted */
    int64_t wanted = shape ? shape[given - 2 + (uint32_t)i] - s * size : 0, begin = 0;
    if (shape || same) {
        const int64_t total = reach > wanted ? reach - wanted : 0;
        begin = upper ? total / 2 : total - total / 2;
    } else {
        begin = padded ? node_item(n, ATTR_pads, i, 0) : 0;
        wanted = reach - begin - (padded ? node_item(n, ATTR_pads, 2 + i, 0) : 0);
    }
    p->begin[i] = begin;
    p->end[i] = s * (p->taps[i] - 1) - begin - wanted;
    return p->begin[i] >= 0 && p->end[i] >= 0;
}

static bool phases_read(struct qdq *q, const struct node *n, struct phases *p)
{
    const struct shape *x = &rewrite_fact(&q->r, n->in[0])->shape;
    if (x->rank != 4 || node_int(n, ATTR_group, 1) != 1 || node_attr(n, ATTR_weight_layout) ||
        node_item(n, ATTR_dilations, 0, 1) != 1 || node_item(n, ATTR_dilations, 1, 1) != 1 || !weights_read(q, n, p))
        return false;
    p->layout = node_int(n, ATTR_layout, LAYOUT_NCHW);
    p->first = p->layout == LAYOUT_NHWC ? 1 : 2;
    p->stride = node_item(n, ATTR_strides, 0, 1);
    if (p->stride < 1 || p->stride > 64 || node_item(n, ATTR_strides, 1, 1) != p->stride || p->in < 1 || p->out < 1)
        return false;
    for (int i = 0; i < 2; i++) {
        p->taps[i] = (p->kernel[i] + p->stride - 1) / p->stride;
        if (p->kernel[i] < 1 || !cut_read(q, n, i, p))
            return false;
    }
    return p->stride * p->stride * p->taps[0] * p->taps[1] <= WORK_MOST * p->kernel[0] * p->kernel[1];
}

/* The constant of `times` times the items of one, or itself where it is one item. */
static bool repeated(struct qdq *q, uint32_t *value, size_t times)
{
    struct graph *g = q->r.g;
    const struct value v = g->values[*value];
    int64_t count = shape_elements(&v.shape), all = count * (int64_t)times;
    if (count == 1)
        return true;
    const struct shape shape = shape_of(1, &all);
    uint8_t *to = graph_alloc(g, v.bytes * times);
    for (size_t i = 0; to && i < times; i++)
        memcpy(to + i * v.bytes, v.data, v.bytes);
    return (to && graph_constant(g, NULL, v.dtype, &shape, to, v.bytes * times, false, value) == PEN_OK) ||
           rewrite_failed(&q->r, PEN_ERR_NO_MEMORY);
}

/* One output channel of the plain convolution, [in][rows][columns]: that of `out` in the phase (row, column). */
static void channel_fill(const struct phases *p, int64_t row, int64_t column, int64_t out, uint8_t *to)
{
    const uint8_t *from = (const uint8_t *)p->bytes->data + (size_t)out * p->step[1];
    for (int64_t i = 0; i < p->in; i++) {
        for (int64_t u = 0; u < p->taps[0]; u++) {
            for (int64_t v = 0; v < p->taps[1]; v++) {
                const int64_t r = row + p->stride * (p->taps[0] - 1 - u), c = column + p->stride * (p->taps[1] - 1 - v);
                const size_t at = (size_t)i * p->step[0] + (size_t)r * p->step[2] + (size_t)c * p->step[3];
                *to++ = r < p->kernel[0] && c < p->kernel[1] ? from[at] : (uint8_t)p->w.point;
            }
        }
    }
}

/* The weights as [phases * out, in, rows, columns], into p->w.value. */
static bool turned(struct qdq *q, struct phases *p)
{
    const int64_t dims[4] = {p->stride * p->stride * p->out, p->in, p->taps[0], p->taps[1]};
    const struct shape shape = shape_of(4, dims);
    const enum pen_dtype dtype = p->bytes->dtype;
    const size_t channel = (size_t)(p->in * p->taps[0] * p->taps[1]), bytes = (size_t)dims[0] * channel;
    uint8_t *to = graph_alloc(q->r.g, bytes + 64);
    for (size_t i = 0; to && i < (size_t)dims[0]; i++) {
        const int64_t phase = (int64_t)i / p->out;
        channel_fill(p, phase / p->stride, phase % p->stride, (int64_t)i % p->out, to + i * channel);
    }
    return (to && graph_constant(q->r.g, NULL, dtype, &shape, to, bytes, false, &p->w.value) == PEN_OK) ||
           rewrite_failed(&q->r, PEN_ERR_NO_MEMORY);
}

static bool laid_out(struct qdq *q, const struct phases *p, uint32_t *value)
{
    struct graph *g = q->r.g;
    if (p->stride == 1)
        return true;
    *value = rewrite_node(&q->r, OP_DepthToSpace, NULL, value, 1);
    if (*value == VALUE_NONE)
        return false;
    uint32_t node = g->values[*value].producer;
    q->r.status = graph_attr_int(g, node, ATTR_blocksize, p->stride);
    if (q->r.status == PEN_OK)
        q->r.status = graph_attr_int(g, node, ATTR_layout, p->layout);
    return q->r.status == PEN_OK;
}

static bool cut_off(struct qdq *q, const struct phases *p, uint32_t *value)
{
    const int64_t axes[2] = {p->first, p->first + 1},
                  ends[2] = {p->end[0] > 0 ? -p->end[0] : INT64_MAX, p->end[1] > 0 ? -p->end[1] : INT64_MAX};
    uint32_t in[4] = {*value};
    if (p->begin[0] + p->begin[1] + p->end[0] + p->end[1] == 0)
        return true;
    q->r.status = graph_constant_i64(q->r.g, p->begin, 2, false, &in[1]);
    if (q->r.status == PEN_OK)
        q->r.status = graph_constant_i64(q->r.g, ends, 2, false, &in[2]);
    if (q->r.status == PEN_OK)
        q->r.status = graph_constant_i64(q->r.g, axes, 2, false, &in[3]);
    *value = q->r.status == PEN_OK ? rewrite_node(&q->r, OP_Slice, NULL, in, 4) : VALUE_NONE;
    return *value != VALUE_NONE;
}

static bool plain_conv(struct qdq *q, const struct node *n, const struct phases *p, const uint32_t *in, uint32_t count,
                       uint32_t *ret_value)
{
    struct graph *g = q->r.g;
    const int64_t pads[4] = {p->taps[0] - 1, p->taps[1] - 1, p->taps[0] - 1, p->taps[1] - 1};
    *ret_value = rewrite_node(&q->r, OP_QLinearConv, n->name, in, count);
    if (*ret_value == VALUE_NONE)
        return false;
    uint32_t node = g->values[*ret_value].producer;
    g->nodes[node].origin = n->origin;
    q->r.status = graph_attr_ints(g, node, ATTR_pads, pads, 4);
    if (q->r.status == PEN_OK)
        q->r.status = graph_attr_int(g, node, ATTR_layout, p->layout);
    return q->r.status == PEN_OK;
}

bool qdq_deconv(struct qdq *q, uint32_t node, uint32_t last, struct params *y)
{
    struct graph *g = q->r.g;
    const struct node n = g->nodes[node];
    uint32_t bias = n.in_count > 2 ? n.in[2] : VALUE_NONE, sums = VALUE_NONE, made = VALUE_NONE;
    struct phases p;
    if (!phases_read(q, &n, &p) || !qdq_bytes_behind(q, n.in[0], 1, &p.x) || p.x.dtype != y->dtype ||
        !qdq_bias_sums(q, bias, &p.x, &p.w, p.out, &sums))
        return false;
    const struct value bytes = *p.bytes; /* values move when constants are made */
    const size_t phases = (size_t)(p.stride * p.stride);
    p.bytes = &bytes;
    if (!qdq_fill_zero(q, &p.x) || !qdq_fill_zero(q, &p.w) || !qdq_fill_zero(q, y) || !turned(q, &p) ||
        !repeated(q, &p.w.scale, phases) || (sums != VALUE_NONE && !repeated(q, &sums, phases)))
        return false;
    const uint32_t in[9] = {p.x.value, p.x.scale, p.x.zero, p.w.value, p.w.scale, p.w.zero, y->scale, y->zero, sums};
    if (!plain_conv(q, &n, &p, in, sums == VALUE_NONE ? 8 : 9, &made) || !laid_out(q, &p, &made) ||
        !cut_off(q, &p, &made))
        return false;
    rewrite_absorb(&q->r, g->values[made].producer, last);
    q->count++;
    return q->r.status == PEN_OK;
}
