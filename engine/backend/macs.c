#include "backend/backend.h"
#include "graph/kept.h"

/* What a counter reads: the node and the facts of its values. */
struct call {
    const struct node *n;
    const struct fact *facts;
};

static const struct shape *in_shape(const struct call *c, uint32_t input)
{
    static const struct shape none = {.rank = SHAPE_RANK_UNKNOWN};
    const struct node *n = c->n;
    return input < n->in_count && n->in[input] != VALUE_NONE ? &c->facts[n->in[input]].shape : &none;
}

static const struct shape *out_shape(const struct call *c)
{
    static const struct shape none = {.rank = SHAPE_RANK_UNKNOWN};
    return c->n->out_count > 0 && c->n->out[0] != VALUE_NONE ? &c->facts[c->n->out[0]].shape : &none;
}

/* 0 for a dim that is not there or not known: whatever it is multiplied with is then not counted. */
static uint64_t dim(const struct shape *s, int32_t axis)
{
    return axis >= 0 && axis < s->rank && s->dim[axis] > 0 ? (uint64_t)s->dim[axis] : 0;
}

static uint64_t last_dim(const struct shape *s)
{
    return dim(s, s->rank - 1);
}

static uint64_t product(const struct shape *s)
{
    uint64_t p = s->rank >= 0;
    for (int32_t i = 0; i < s->rank; i++) {
        p *= dim(s, i);
    }
    return p;
}

/* Output positions x weights: the weights hold output channels, input channels of a group and kernel area in whatever order. */
static uint64_t conv_at(const struct call *c, const struct shape *weights, const struct shape *positions)
{
    bool last = node_int(c->n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC;
    uint64_t channels = dim(positions, last ? positions->rank - 1 : 1);
    return weights->rank >= 3 && channels > 0 ? product(weights) * (product(positions) / channels) : 0;
}

static uint64_t conv_macs(const struct call *c)
{
    return conv_at(c, in_shape(c, 1), out_shape(c));
}

static uint64_t qlinear_conv_macs(const struct call *c)
{
    return conv_at(c, in_shape(c, 3), out_shape(c));
}

/* Each input element meets each weight of its channel once. */
static uint64_t deconv_macs(const struct call *c)
{
    return conv_at(c, in_shape(c, 1), in_shape(c, 0));
}

/* x [batch, channels, length], weights [channels, 1, taps]: the state takes the place of padding, so every output has all taps. */
static uint64_t causal_conv_macs(const struct call *c)
{
    return product(in_shape(c, 0)) * dim(in_shape(c, 1), 2);
}

/* A [..., m, k] x B [..., k, n]: k for each output element. */
static uint64_t matmul_macs(const struct call *c)
{
    return product(out_shape(c)) * last_dim(in_shape(c, 0));
}

static uint64_t gemm_macs(const struct call *c)
{
    return product(out_shape(c)) * dim(in_shape(c, 0), node_int(c->n, ATTR_transA, 0) != 0 ? 0 : 1);
}

/* Every row with every support vector, or with the coefficients where there are none. */
static uint64_t svm_macs(const struct call *c)
{
    const struct attr *list = node_attr(c->n, ATTR_support_vectors);
    uint64_t features = last_dim(in_shape(c, 0));
    list = list != NULL && list->count > 0 ? list : node_attr(c->n, ATTR_coefficients);
    return list != NULL && features > 0 ? product(in_shape(c, 0)) / features * list->count : 0;
}

/* Rows of x that go through k experts each: weights [experts, out, in] of two layers or three. */
static uint64_t experts_macs(const struct call *c)
{
    const struct shape *x = in_shape(c, 0), *w = in_shape(c, 2);
    uint64_t rows = last_dim(x) > 0 ? product(x) / last_dim(x) : 0, experts = dim(w, 0),
             k = (uint64_t)node_int(c->n, ATTR_k, 1);
    uint64_t all = product(w) + product(in_shape(c, 4)) + (c->n->in_count > 6 ? product(in_shape(c, 6)) : 0);
    return experts > 0 ? rows * k * (all / experts) : 0;
}

/* LSTM, GRU, RNN: W [dirs, gates * hidden, input], R [dirs, gates * hidden, hidden], X [steps, batch, input] or [batch, steps, input]. */
static uint64_t rnn_macs(const struct call *c)
{
    const struct shape *x = in_shape(c, 0), *w = in_shape(c, 1), *r = in_shape(c, 2);
    return x->rank == 3 ? dim(x, 0) * dim(x, 1) * (product(w) + product(r)) : 0;
}

/* The same for LSTMInteger, whose weights have no directions, and a projection [out, units]. */
static uint64_t lstm_integer_macs(const struct call *c)
{
    const struct shape *x = in_shape(c, 0);
    const uint64_t weights = product(in_shape(c, 1)) + product(in_shape(c, 2));
    const uint64_t projection = c->n->in_count > 8 && c->n->in[8] != VALUE_NONE ? product(in_shape(c, 8)) : 0;
    return x->rank == 3 ? dim(x, 0) * dim(x, 1) * (weights + projection) : 0;
}

/* One operand of attention: [batch, heads, length, size], or [batch, length, heads * size]. */
struct heads {
    uint64_t batch, heads, length, size;
};

static struct heads heads_of(const struct shape *s, int64_t heads)
{
    if (s->rank == 4) {
        return (struct heads){dim(s, 0), dim(s, 1), dim(s, 2), dim(s, 3)};
    }
    uint64_t count = heads > 0 ? (uint64_t)heads : 1;
    return (struct heads){dim(s, 0), count, dim(s, 1), dim(s, 2) / count};
}

/*
 * Scores Q K^T and their weighted sum of V (Vaswani et al. 2017, section 3.2.1): queries x keys x (width of a key + width of a value), the widths taken over
 * all heads. Masks, causality and windows take nothing off, as the field's profilers count; softmax has no multiply-adds.
 */
static uint64_t attention_core(uint64_t batch, uint64_t queries, uint64_t keys, uint64_t key_width,
                               uint64_t value_width)
{
    return batch * queries * keys * (key_width + value_width);
}

/* ai.onnx: q, k, v, mask, past k [batch, heads, past, size], past v. */
static uint64_t attention_macs(const struct call *c)
{
    int64_t kv_heads = node_int(c->n, ATTR_kv_num_heads, 0);
    struct heads q = heads_of(in_shape(c, 0), node_int(c->n, ATTR_q_num_heads, 0)),
                 k = heads_of(in_shape(c, 1), kv_heads), v = heads_of(in_shape(c, 2), kv_heads);
    return attention_core(q.batch, q.length, k.length + dim(in_shape(c, 4), 2), q.heads * q.size, q.heads * v.size);
}

/* com.microsoft Attention: x [batch, length, in] x weights [in, q + k + v], then attention; past [2, batch, heads, past, size] is input 4. */
static uint64_t ms_attention_macs(const struct call *c)
{
    const struct shape *x = in_shape(c, 0), *w = in_shape(c, 1);
    uint32_t count = 0;
    const int64_t *sizes = node_ints(c->n, ATTR_qkv_hidden_sizes, &count);
    uint64_t keys = sizes != NULL && count == 3 && sizes[0] > 0 ? (uint64_t)sizes[0] : dim(w, 1) / 3;
    return dim(x, 0) * dim(x, 1) * product(w) +
           attention_core(dim(x, 0), dim(x, 1), dim(x, 1) + dim(in_shape(c, 4), 3), keys, dim(out_shape(c), 2));
}

/*
 * com.microsoft: q [batch, length, width] or all packed [batch, length, heads, 3, size]; k [batch, keys, width], [batch, heads, keys, size] or with the values
 * [batch, keys, heads, 2, size]; past k [batch, heads, past, size] is input 6.
 */
static uint64_t multi_head_attention_macs(const struct call *c)
{
    const struct shape *q = in_shape(c, 0), *k = in_shape(c, 1);
    uint64_t width = q->rank == 5 ? dim(q, 2) * dim(q, 4) : dim(q, 2);
    uint64_t keys = k->rank == 4 ? dim(k, 2) : k->rank >= 0 ? dim(k, 1) : dim(q, 1);
    return attention_core(dim(q, 0), dim(q, 1), keys + dim(in_shape(c, 6), 2), width, dim(out_shape(c), 2));
}

/* com.microsoft: the output is [batch, length, heads * size]; past k [batch, kv heads, rows, size] is input 3. The rows in use are data: all are counted. */
static uint64_t group_query_attention_macs(const struct call *c)
{
    const struct shape *y = out_shape(c);
    return attention_core(dim(y, 0), dim(y, 1), dim(y, 1) + dim(in_shape(c, 3), 2), dim(y, 2), dim(y, 2));
}

/*
 * ONNX, opset 27: for each token and head a state S [key size, value size] is added to (S += k v^T), asked by the delta rules (S^T k), and read by every query
 * head (q^T S). The decay of the gated rules multiplies without adding: it is not counted.
 */
static uint64_t linear_attention_macs(const struct call *c)
{
    int64_t kv_heads = node_int(c->n, ATTR_kv_num_heads, 0);
    struct heads q = heads_of(in_shape(c, 0), node_int(c->n, ATTR_q_num_heads, 0)),
                 v = heads_of(in_shape(c, 2), kv_heads);
    bool plain =
        node_text_is(c->n, ATTR_update_rule, "linear", false) || node_text_is(c->n, ATTR_update_rule, "gated", false);
    uint64_t per_token = (v.heads * (plain ? 1 : 2) + q.heads) * q.size * v.size;
    return q.batch * q.length * per_token;
}

/* Sizes of the labels of an equation; what "..." covers is counted from the right. */
struct labels {
    uint64_t letter[128], dots[PEN_MAX_RANK];
};

static void label_add(uint64_t *size, uint64_t seen)
{
    *size = *size == 0 || *size == 1 ? seen : *size; /* a dim of 1 broadcasts */
}

static bool is_letter(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
}

/* Lays one term over its operand's shape; returns where the term ends. */
static const char *term_add(struct labels *l, const char *at, const char *end, const struct shape *s)
{
    int32_t letters = 0, axis = 0;
    const char *stop = at;
    for (; stop < end && *stop != ',' && *stop != '-'; stop++) {
        letters += is_letter(*stop);
    }
    for (; at < stop; at++) {
        if (is_letter(*at)) {
            label_add(&l->letter[(unsigned char)*at], dim(s, axis++));
        } else if (*at == '.') {
            for (int32_t left = s->rank - letters; left > 0 && axis < s->rank; left--) {
                label_add(&l->dots[left - 1], dim(s, axis++));
            }
            at += 2;
        }
    }
    return stop;
}

/* NumPy's meaning taken word for word: for each combination of all labels, a product of all operands that is added. One operand is only summed. */
static uint64_t einsum_macs(const struct call *c)
{
    struct labels l = {{0}, {0}};
    const struct attr *a = node_attr(c->n, ATTR_equation);
    const char *at = a != NULL && a->type == ATTR_TEXT ? a->text.text : "";
    const char *end = at + (*at != '\0' ? a->text.bytes : 0);
    uint64_t macs = c->n->in_count > 1 ? c->n->in_count - 1 : 0;
    for (uint32_t i = 0; i < c->n->in_count; i++) {
        at = term_add(&l, at, end, in_shape(c, i));
        at += at < end && *at == ',';
        macs *= product(in_shape(c, i)) > 0;
    }
    for (size_t i = 0; i < sizeof l.letter / sizeof l.letter[0]; i++) {
        macs *= l.letter[i] > 0 ? l.letter[i] : 1;
    }
    for (size_t i = 0; i < sizeof l.dots / sizeof l.dots[0]; i++) {
        macs *= l.dots[i] > 0 ? l.dots[i] : 1;
    }
    return macs;
}

/* One row per operator with OP_MACS in op.def (tests/engine/ops/test_macs.c counts a sample of each). */
static uint64_t (*const counters[OP_COUNT])(const struct call *c) = {
    [OP_Conv] = KEPT_ROW(graph_Conv, conv_macs),
    [OP_ConvInteger] = KEPT_ROW(graph_ConvInteger, conv_macs),
    [OP_ConvTranspose] = KEPT_ROW(graph_ConvTranspose, deconv_macs),
    [OP_DeformConv] = KEPT_ROW(graph_DeformConv, conv_macs), /* the four-point sampling before it is not counted */
    [OP_QLinearConv] = KEPT_ROW(graph_QLinearConv, qlinear_conv_macs),
    [OP_CausalConvWithState] = KEPT_ROW(graph_CausalConvWithState, causal_conv_macs),
    [OP_Gemm] = KEPT_ROW(graph_Gemm, gemm_macs),
    [OP_MatMul] = KEPT_ROW(graph_MatMul, matmul_macs),
    [OP_MatMulInteger] = KEPT_ROW(graph_MatMulInteger, matmul_macs),
    [OP_QLinearMatMul] = KEPT_ROW(graph_QLinearMatMul, matmul_macs),
    [OP_Einsum] = KEPT_ROW(graph_Einsum, einsum_macs),
    [OP_QGemm] = KEPT_ROW(graph_QGemm, gemm_macs),
    [OP_MatMulNBits] = KEPT_ROW(graph_MatMulNBits, matmul_macs),
    [OP_MoE] = KEPT_ROW(graph_MoE, experts_macs),
    [OP_GRU] = KEPT_ROW(graph_GRU, rnn_macs),
    [OP_LSTM] = KEPT_ROW(graph_LSTM, rnn_macs),
    [OP_RNN] = KEPT_ROW(graph_RNN, rnn_macs),
    [OP_LSTMInteger] = KEPT_ROW(graph_LSTMInteger, lstm_integer_macs),
    [OP_Attention] = KEPT_ROW(graph_Attention, attention_macs),
    [OP_LinearAttention] = KEPT_ROW(graph_LinearAttention, linear_attention_macs),
    [OP_MsAttention] = KEPT_ROW(graph_MsAttention, ms_attention_macs),
    [OP_MultiHeadAttention] = KEPT_ROW(graph_MultiHeadAttention, multi_head_attention_macs),
    [OP_GroupQueryAttention] = KEPT_ROW(graph_GroupQueryAttention, group_query_attention_macs),
    [OP_SVMClassifier] = KEPT_ROW(graph_SVMClassifier, svm_macs),
    [OP_SVMRegressor] = KEPT_ROW(graph_SVMRegressor, svm_macs),
};

uint64_t node_macs(const struct graph *g, const struct node *n, const struct fact *facts)
{
    struct call c = {n, facts};
    (void)g;
    return counters[n->op] != NULL ? counters[n->op](&c) : 0;
}
