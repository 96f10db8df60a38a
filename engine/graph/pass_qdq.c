#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/kept.h"
#include "graph/pass_qdq.h"

/*
 * Operators between DequantizeLinear and QuantizeLinear become operators on the bytes themselves: y = quantize(f(dequantize(x), dequantize(w))).
 * Sums of products are then exact integers, and one rounding is left; a result can differ from the float form by one step. Activations are per tensor with
 * constant parameters; weights may be per output channel. What does not fit stays as it is.
 */

static bool is_byte(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8;
}

static int32_t byte_at(const struct value *v, size_t i)
{
    return v->dtype == PEN_DTYPE_I8 ? ((const int8_t *)v->data)[i] : ((const uint8_t *)v->data)[i];
}

/* A zero of this type, where a node names none. */
static uint32_t zero_of(struct qdq *q, enum pen_dtype dtype)
{
    static const uint8_t nothing[1] = {0};
    const struct shape scalar = shape_scalar();
    uint32_t id = VALUE_NONE;
    enum pen_status status = graph_constant(q->r.g, NULL, dtype, &scalar, nothing, 1, true, &id);
    if (status != PEN_OK)
        rewrite_failed(&q->r, status);
    return id;
}

/* Reads scale and zero point of a QuantizeLinear or DequantizeLinear node for bytes of `dtype`. scales: how many the scale may have besides one. */
static bool params_read(struct qdq *q, const struct node *n, enum pen_dtype dtype, int64_t scales, struct params *ret)
{
    const struct graph *g = q->r.g;
    const float *scale = rewrite_floats(&q->r, n->in[1], 0);
    int64_t count = scale ? shape_elements(&g->values[n->in[1]].shape) : 0;
    const struct value *zero = node_in(g, n, 2);
    if (!scale || (count != 1 && count != scales) || node_int(n, ATTR_block_size, 0) != 0 || !is_byte(dtype) ||
        (zero && (!zero->data || zero->dtype != dtype)))
        return false;
    for (int64_t i = 0; i < count; i++) {
        if (!(scale[i] > 0))
            return false;
    }
    int64_t zeros = zero ? shape_elements(&zero->shape) : 0;
    for (int64_t i = 1; i < zeros; i++) { /* one zero point for all, or symmetric weights */
        if (byte_at(zero, (size_t)i) != byte_at(zero, 0))
            return false;
    }
    *ret = (struct params){n->in[0], n->in[1], zero ? n->in[2] : VALUE_NONE, dtype, scale[0], 0};
    ret->point = zero ? byte_at(zero, 0) : 0;
    return true;
}

bool qdq_fill_zero(struct qdq *q, struct params *p)
{
    const struct graph *g = q->r.g;
    if (p->zero == VALUE_NONE || shape_elements(&g->values[p->zero].shape) != 1) {
        uint8_t point = (uint8_t)p->point;
        const struct shape scalar = shape_scalar();
        if (p->zero == VALUE_NONE)
            p->zero = zero_of(q, p->dtype);
        else if (graph_constant(q->r.g, NULL, p->dtype, &scalar, &point, 1, true, &p->zero) != PEN_OK)
            return rewrite_failed(&q->r, PEN_ERR_NO_MEMORY);
    }
    return q->r.status == PEN_OK;
}

bool qdq_bytes_behind(struct qdq *q, uint32_t value, int64_t scales, struct params *ret)
{
    const struct node *n = rewrite_maker(&q->r, value);
    if (!n || n->op != OP_DequantizeLinear)
        return false;
    enum pen_dtype dtype = q->r.g->values[n->in[0]].dtype;
    if (dtype == PEN_DTYPE_NONE)
        dtype = rewrite_fact(&q->r, n->in[0])->dtype;
    return params_read(q, n, dtype, scales, ret);
}

/* ---- what is between ---------------------------------------------------------------------------------------------------- */

/* Nothing that `last` can hold lies outside of what the activation lets through. */
static bool range_holds(const struct params *last, float min, float max)
{
    float low = last->dtype == PEN_DTYPE_I8 ? -128.0f : 0.0f, high = low + 255.0f, slack = 1e-3f * last->step;
    return (low - (float)last->point) * last->step >= min - slack &&
           (high - (float)last->point) * last->step <= max + slack;
}

/* The value before an activation that the quantisation to `last` does anyway. */
static uint32_t before_activation(struct qdq *q, uint32_t value, const struct params *last)
{
    const struct node *relu = rewrite_only_maker(&q->r, value, OP_Relu);
    const struct node *clip = rewrite_only_maker(&q->r, value, OP_Clip);
    float min = -INFINITY, max = INFINITY;
    if (relu && range_holds(last, 0.0f, INFINITY))
        return relu->in[0];
    if (!clip || (clip->in_count > 1 && clip->in[1] != VALUE_NONE && !rewrite_scalar(&q->r, clip->in[1], &min)) ||
        (clip->in_count > 2 && clip->in[2] != VALUE_NONE && !rewrite_scalar(&q->r, clip->in[2], &max)))
        return value;
    return range_holds(last, min, max) ? clip->in[0] : value;
}

bool qdq_put(struct qdq *q, enum op op, uint32_t from, uint32_t last, const uint32_t *in, uint32_t in_count)
{
    struct graph *g = q->r.g;
    uint32_t made = rewrite_node(&q->r, op, g->nodes[from].name, in, in_count);
    if (made == VALUE_NONE)
        return false;
    uint32_t node = g->values[made].producer;
    for (uint32_t i = 0; i < g->nodes[from].attr_count && q->r.status == PEN_OK; i++)
        q->r.status = graph_attr_set(g, node, &g->nodes[from].attrs[i]);
    g->nodes[node].origin = g->nodes[from].origin;
    rewrite_absorb(&q->r, node, last);
    q->count++;
    return q->r.status == PEN_OK;
}

bool qdq_bias_sums(struct qdq *q, uint32_t bias, const struct params *x, const struct params *w, int64_t channels,
                   uint32_t *ret)
{
    struct graph *g = q->r.g;
    const struct node *made = bias == VALUE_NONE ? NULL : rewrite_maker(&q->r, bias);
    const float *floats = bias == VALUE_NONE ? NULL : rewrite_floats(&q->r, bias, channels);
    const float *scales = g->values[w->scale].data;
    bool single = shape_elements(&g->values[w->scale].shape) == 1;
    *ret = VALUE_NONE;
    if (bias == VALUE_NONE)
        return true;
    if (made && made->op == OP_DequantizeLinear && g->values[made->in[0]].dtype == PEN_DTYPE_I32 &&
        g->values[made->in[0]].data && shape_elements(&g->values[made->in[0]].shape) == channels) {
        const float *given = rewrite_floats(&q->r, made->in[1], 0);
        int64_t count = given ? shape_elements(&g->values[made->in[1]].shape) : 0;
        bool fits = count == 1 || count == channels;
        for (int64_t c = 0; fits && c < channels; c++) {
            float want = x->step * scales[single ? 0 : c], have = given[count == 1 ? 0 : c];
            fits = fabsf(have - want) <= 1e-4f * want;
        }
        *ret = made->in[0];
        return fits;
    }
    if (!floats)
        return false;
    int32_t *sums = graph_alloc(g, (size_t)channels * sizeof *sums);
    if (!sums)
        return rewrite_failed(&q->r, PEN_ERR_NO_MEMORY);
    for (int64_t c = 0; c < channels; c++) {
        float sum = nearbyintf(floats[c] / (x->step * scales[single ? 0 : c]));
        if (!(fabsf(sum) < 1e9f))
            return false;
        sums[c] = (int32_t)sum;
    }
    const struct shape shape = shape_of(1, &channels);
    enum pen_status status =
        graph_constant(g, NULL, PEN_DTYPE_I32, &shape, sums, (size_t)channels * sizeof *sums, false, ret);
    return status == PEN_OK || rewrite_failed(&q->r, status);
}

/* ---- families ----------------------------------------------------------------------------------------------------------------- */

typedef bool (*qdq_fn)(struct qdq *q, uint32_t node, uint32_t last, struct params *y);

static bool conv(struct qdq *q, uint32_t node, uint32_t last, struct params *y)
{
    const struct graph *g = q->r.g;
    const struct node n = g->nodes[node];
    struct params x, w;
    const struct node *weights = rewrite_maker(&q->r, n.in[1]);
    if (!weights || weights->op != OP_DequantizeLinear || !g->values[weights->in[0]].data)
        return false;
    int64_t channels = g->values[weights->in[0]].shape.dim[0], axis = node_int(weights, ATTR_axis, 1);
    uint32_t bias = n.in_count > 2 ? n.in[2] : VALUE_NONE, sums;
    if (!qdq_bytes_behind(q, n.in[0], 1, &x) || !qdq_bytes_behind(q, n.in[1], channels, &w) || x.dtype != y->dtype)
        return false;
    if (shape_elements(&g->values[w.scale].shape) != 1 && axis != 0)
        return false;
    if (!qdq_bias_sums(q, bias, &x, &w, channels, &sums) || !qdq_fill_zero(q, &x) || !qdq_fill_zero(q, &w) ||
        !qdq_fill_zero(q, y))
        return false;
    const uint32_t in[9] = {x.value, x.scale, x.zero, w.value, w.scale, w.zero, y->scale, y->zero, sums};
    return qdq_put(q, OP_QLinearConv, node, last, in, sums == VALUE_NONE ? 8 : 9);
}

/* The right side of a product: constant bytes of two dims, with one scale, or one for each column, which is dim `axis`. */
static bool columns_behind(struct qdq *q, uint32_t value, int32_t axis, struct params *ret)
{
    const struct graph *g = q->r.g;
    const struct node *n = rewrite_maker(&q->r, value);
    const struct value *w = n && n->op == OP_DequantizeLinear ? &g->values[n->in[0]] : NULL;
    if (!w || !w->data || w->shape.rank != 2 || !qdq_bytes_behind(q, value, w->shape.dim[axis], ret))
        return false;
    return shape_elements(&g->values[ret->scale].shape) == 1 || shape_axis(node_int(n, ATTR_axis, 1), 2) == axis;
}

/* Matrices that are computed, each beside one on the left. */
static bool matrices_behind(struct qdq *q, uint32_t left, uint32_t right, struct params *ret)
{
    const struct shape *a = &rewrite_fact(&q->r, left)->shape, *b = &rewrite_fact(&q->r, right)->shape;
    bool beside = a->rank == b->rank && a->rank >= 2;
    for (int32_t d = 0; beside && d < a->rank - 2; d++)
        beside = a->dim[d] == b->dim[d];
    return beside && b->dim[b->rank - 1] > 0 && b->dim[b->rank - 2] > 0 && qdq_bytes_behind(q, right, 1, ret);
}

static bool matmul(struct qdq *q, uint32_t node, uint32_t last, struct params *y)
{
    const struct node n = q->r.g->nodes[node];
    struct params a, b;
    if (!qdq_bytes_behind(q, n.in[0], 1, &a) ||
        !(columns_behind(q, n.in[1], 1, &b) || matrices_behind(q, n.in[0], n.in[1], &b)) || a.dtype != y->dtype ||
        !qdq_fill_zero(q, &a) || !qdq_fill_zero(q, &b) || !qdq_fill_zero(q, y))
        return false;
    const uint32_t in[8] = {a.value, a.scale, a.zero, b.value, b.scale, b.zero, y->scale, y->zero};
    return qdq_put(q, OP_QLinearMatMul, node, last, in, 8);
}

/* Weights [columns, k] are turned; the step folds. */
static uint32_t turned(struct qdq *q, uint32_t weights)
{
    static const int64_t perm[2] = {1, 0};
    uint32_t y = rewrite_node(&q->r, OP_Transpose, NULL, &weights, 1);
    if (y != VALUE_NONE && q->r.status == PEN_OK)
        q->r.status = graph_attr_ints(q->r.g, q->r.g->values[y].producer, ATTR_perm, perm, 2);
    return y;
}

static bool gemm(struct qdq *q, uint32_t node, uint32_t last, struct params *y)
{
    struct graph *g = q->r.g;
    const struct node n = g->nodes[node];
    const bool turn = node_int(&n, ATTR_transB, 0) != 0;
    const uint32_t out = g->nodes[last].out[0];
    struct params a, b;
    if (node_int(&n, ATTR_transA, 0) != 0 || node_float(&n, ATTR_alpha, 1.0f) != 1.0f ||
        node_float(&n, ATTR_beta, 1.0f) != 1.0f || !qdq_bytes_behind(q, n.in[0], 1, &a) ||
        !columns_behind(q, n.in[1], turn ? 0 : 1, &b) || a.dtype != y->dtype)
        return false;
    uint32_t bias = n.in_count > 2 ? n.in[2] : VALUE_NONE, sums;
    if (!qdq_bias_sums(q, bias, &a, &b, g->values[b.value].shape.dim[turn ? 0 : 1], &sums) || !qdq_fill_zero(q, &a) ||
        !qdq_fill_zero(q, &b) || !qdq_fill_zero(q, y))
        return false;
    uint32_t weights = turn ? turned(q, b.value) : b.value;
    const uint32_t in[9] = {a.value, a.scale, a.zero, weights, b.scale, b.zero, sums, y->scale, y->zero};
    if (q->r.status != PEN_OK || !qdq_put(q, OP_QGemm, node, last, in, 9))
        return false;
    enum pen_status status = graph_attr_int(g, g->values[out].producer, ATTR_transB, 0);
    return status == PEN_OK || rewrite_failed(&q->r, status);
}

static bool number(struct qdq *q, float item, uint32_t *ret)
{
    const struct shape scalar = shape_scalar();
    enum pen_status status = graph_constant(q->r.g, NULL, PEN_DTYPE_F32, &scalar, &item, sizeof item, true, ret);
    return status == PEN_OK || rewrite_failed(&q->r, status);
}

/* A difference is a sum whose second scale is negative. */
static bool pair(struct qdq *q, uint32_t node, uint32_t last, struct params *y)
{
    const struct node n = q->r.g->nodes[node];
    struct params a, b;
    if (!qdq_bytes_behind(q, n.in[0], 1, &a) || !qdq_bytes_behind(q, n.in[1], 1, &b) || a.dtype != y->dtype ||
        b.dtype != y->dtype || !qdq_fill_zero(q, &a) || !qdq_fill_zero(q, &b) || !qdq_fill_zero(q, y))
        return false;
    if (n.op == OP_Sub && !number(q, -b.step, &b.scale))
        return false;
    const uint32_t in[8] = {a.value, a.scale, a.zero, b.value, b.scale, b.zero, y->scale, y->zero};
    return qdq_put(q, n.op == OP_Mul ? OP_QLinearMul : OP_QLinearAdd, node, last, in, 8);
}

/* One tensor in, one out, with parameters of their own. */
static bool single(struct qdq *q, uint32_t node, uint32_t last, struct params *y)
{
    const struct node n = q->r.g->nodes[node];
    struct params x;
    enum op op = n.op == OP_Sigmoid             ? OP_QLinearSigmoid
                 : n.op == OP_LeakyRelu         ? OP_QLinearLeakyRelu
                 : n.op == OP_AveragePool       ? OP_QLinearAveragePool
                 : n.op == OP_GlobalAveragePool ? OP_QLinearGlobalAveragePool
                                                : OP_QLinearSoftmax;
    if (!qdq_bytes_behind(q, n.in[0], 1, &x) || x.dtype != y->dtype || !qdq_fill_zero(q, &x) || !qdq_fill_zero(q, y))
        return false;
    const uint32_t in[5] = {x.value, x.scale, x.zero, y->scale, y->zero};
    return qdq_put(q, op, node, last, in, 5);
}

/* Bytes are only moved or compared: the parameters must be the same on both sides. */
static bool move(struct qdq *q, uint32_t node, uint32_t last, struct params *y)
{
    struct graph *g = q->r.g;
    const struct node n = g->nodes[node];
    uint32_t data = n.op == OP_Concat ? n.in_count : 1;
    uint32_t *in = calloc((size_t)n.in_count + 1, sizeof *in);
    bool same = in != NULL && n.out_count == 1;
    for (uint32_t i = 0; same && i < n.in_count; i++) {
        struct params x;
        in[i] = n.in[i];
        if (i >= data)
            continue;
        same = qdq_bytes_behind(q, n.in[i], 1, &x) && x.dtype == y->dtype && x.step == y->step && x.point == y->point;
        in[i] = same ? x.value : VALUE_NONE;
    }
    same = same && qdq_put(q, n.op, node, last, in, n.in_count);
    free(in);
    return same;
}

/* Parts with parameters of their own. */
static bool concat(struct qdq *q, uint32_t node, uint32_t last, struct params *y)
{
    const struct node n = q->r.g->nodes[node];
    if (move(q, node, last, y))
        return true;
    uint32_t count = 2 + 3 * n.in_count, *in = q->r.status == PEN_OK ? calloc(count, sizeof *in) : NULL;
    bool fits = in != NULL && qdq_fill_zero(q, y);
    for (uint32_t i = 0; fits && i < n.in_count; i++) {
        struct params x;
        fits = qdq_bytes_behind(q, n.in[i], 1, &x) && x.dtype == y->dtype && qdq_fill_zero(q, &x);
        const uint32_t part[3] = {x.value, x.scale, x.zero};
        if (fits)
            memcpy(in + 2 + (size_t)3 * i, part, sizeof part);
    }
    if (fits) {
        in[0] = y->scale;
        in[1] = y->zero;
        fits = qdq_put(q, OP_QLinearConcat, node, last, in, count);
    }
    free(in);
    return fits;
}

/* Pixels that are only repeated. */
static bool nearest(struct qdq *q, uint32_t node, uint32_t last, struct params *y)
{
    return node_text_is(&q->r.g->nodes[node], ATTR_mode, "nearest", true) && move(q, node, last, y);
}

/* Whether the axes are all but the first dim and the second, or the last, of x. */
static bool are_spatial(const int64_t *axes, int64_t count, int32_t rank, bool *ret_last)
{
    bool seen[PEN_MAX_RANK] = {false};
    for (int64_t i = 0; i < count; i++) {
        int32_t axis = shape_axis(axes[i], rank);
        if (axis < 0 || seen[axis])
            return false;
        seen[axis] = true;
    }
    *ret_last = rank > 1 && seen[1];
    return rank > 2 && count == rank - 2 && !seen[0] && (*ret_last ? !seen[rank - 1] : !seen[1]);
}

/* The mean of each channel; without its dims the result is only seen otherwise. */
static bool mean(struct qdq *q, uint32_t node, uint32_t last, struct params *y)
{
    struct graph *g = q->r.g;
    const struct node n = g->nodes[node];
    const struct value *axes = n.in_count > 1 ? node_in(g, &n, 1) : NULL;
    bool channels_last = false;
    struct params x;
    if (!axes || !axes->data || axes->dtype != PEN_DTYPE_I64 ||
        !are_spatial(axes->data, shape_elements(&axes->shape), rewrite_fact(&q->r, n.in[0])->shape.rank,
                     &channels_last) ||
        !qdq_bytes_behind(q, n.in[0], 1, &x) || x.dtype != y->dtype || !qdq_fill_zero(q, &x) || !qdq_fill_zero(q, y))
        return false;
    const uint32_t in[5] = {x.value, x.scale, x.zero, y->scale, y->zero};
    uint32_t made = rewrite_node(&q->r, OP_QLinearGlobalAveragePool, n.name, in, 5);
    if (made != VALUE_NONE && channels_last)
        q->r.status = graph_attr_int(g, g->values[made].producer, ATTR_layout, LAYOUT_NHWC);
    if (made != VALUE_NONE)
        g->nodes[g->values[made].producer].origin = n.origin;
    if (made != VALUE_NONE && node_int(&n, ATTR_keepdims, 1) == 0)
        made = rewrite_node(&q->r, OP_Squeeze, NULL, (uint32_t[]){made, n.in[1]}, 2);
    if (made == VALUE_NONE || q->r.status != PEN_OK)
        return false;
    rewrite_absorb(&q->r, g->values[made].producer, last);
    q->count++;
    return true;
}

static qdq_fn family_of(enum op op)
{
    switch (op) {
    case OP_Conv:
        return conv;
    case OP_ConvTranspose:
        return qdq_deconv;
    case OP_MatMul:
        return matmul;
    case OP_Gemm:
        return KEPT(graph_QGemm) ? gemm : NULL;
    case OP_Add:
    case OP_Sub:
    case OP_Mul:
        return pair;
    case OP_ReduceMean:
        return mean;
    case OP_Sigmoid:
    case OP_LeakyRelu:
    case OP_AveragePool:
    case OP_GlobalAveragePool:
    case OP_Softmax:
        return single;
    case OP_MaxPool:
    case OP_Reshape:
    case OP_Flatten:
    case OP_Squeeze:
    case OP_Unsqueeze:
    case OP_Transpose:
    case OP_Slice:
    case OP_DepthToSpace:
    case OP_SpaceToDepth:
    case OP_Identity:
    case OP_Expand:
    case OP_Tile:
    case OP_Gather:
        return move;
    case OP_Concat:
        return concat;
    case OP_Resize:
        return nearest;
    default:
        return NULL;
    }
}

static void visit(struct qdq *q, uint32_t last)
{
    const struct graph *g = q->r.g;
    const struct node *n = &g->nodes[last];
    struct params y;
    const struct value *zero = node_in(g, n, 2);
    enum pen_dtype dtype = zero ? zero->dtype : PEN_DTYPE_U8;
    if (!params_read(q, n, dtype, 1, &y) || (!zero && node_int(n, ATTR_output_dtype, 0) != 0))
        return;
    uint32_t value = before_activation(q, n->in[0], &y);
    const struct node *from = rewrite_maker(&q->r, value);
    if (from && (op_def(from->op)->traits & OP_BINARY) && qdq_table(q, last))
        return;
    qdq_fn family = from && from->out[0] == value ? family_of(from->op) : NULL;
    bool alone = family && uses_count(&q->r.uses, value) == 1 && !rewrite_is_output(&q->r, value);
    if (alone && node_int(from, ATTR_act, ACT_NONE) == ACT_NONE && family(q, (uint32_t)(from - g->nodes), last, &y))
        return;
    if (q->r.status == PEN_OK)
        qdq_table(q, last);
}

enum pen_status pass_qdq(struct graph *g, uint32_t *ret_count, struct pen_error *reterr)
{
    bool any = false;
    for (uint32_t i = 0; i < g->node_count; i++)
        any = any || (!g->nodes[i].dead && (g->nodes[i].op == OP_QuantizeLinear || g->nodes[i].op == OP_QLinearMul ||
                                            g->nodes[i].op == OP_QLinearAdd));
    if (!any)
        return PEN_OK;
    struct qdq q = {.count = 0};
    enum pen_status status = rewrite_init(&q.r, g, false, reterr);
    if (status != PEN_OK)
        return status;
    uint32_t nodes = g->node_count;
    for (uint32_t i = 0; i < nodes && q.r.status == PEN_OK; i++) {
        if (!g->nodes[i].dead && g->nodes[i].op == OP_QuantizeLinear)
            visit(&q, i);
    }
    qdq_join_tables(&q);
    status = q.r.status;
    rewrite_fini(&q.r);
    if (status == PEN_OK)
        status = graph_compact(g);
    if (status != PEN_OK)
        return pen_error_set(reterr, status, "no memory to take quantised operators together");
    *ret_count += q.count;
    return PEN_OK;
}
