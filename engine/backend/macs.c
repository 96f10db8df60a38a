#include "backend/backend.h"

static uint64_t product(const struct shape *s, int32_t from, int32_t to)
{
    uint64_t p = 1;
    for (int32_t i = from; i < to; i++) {
        p *= (uint64_t)(s->dim[i] < 0 ? 0 : s->dim[i]);
    }
    return p;
}

/* Output elements x (input channels of a group x kernel area): the weight holds both factors behind its first dim. */
static uint64_t conv_macs(const struct fact *weight, const struct fact *out, const struct node *n)
{
    if (weight->shape.rank < 3 || !shape_known(&out->shape)) {
        return 0;
    }
    uint64_t weights = product(&weight->shape, 0, weight->shape.rank);
    int64_t layout = node_int(n, ATTR_layout, LAYOUT_NCHW);
    int64_t channels = out->shape.dim[layout == LAYOUT_NHWC ? out->shape.rank - 1 : 1];
    uint64_t positions = channels > 0 ? product(&out->shape, 0, out->shape.rank) / (uint64_t)channels : 0;
    return weights * positions;
}

static uint64_t deconv_macs(const struct fact *weight, const struct fact *in, const struct node *n)
{
    return conv_macs(weight, in, n);
}

static uint64_t matmul_macs(const struct fact *a, const struct fact *out)
{
    if (a->shape.rank < 1 || !shape_known(&a->shape) || !shape_known(&out->shape)) {
        return 0;
    }
    return product(&out->shape, 0, out->shape.rank) * (uint64_t)a->shape.dim[a->shape.rank - 1];
}

static uint64_t gemm_macs(const struct node *n, const struct fact *a, const struct fact *out)
{
    if (a->shape.rank != 2 || !shape_known(&a->shape) || !shape_known(&out->shape)) {
        return 0;
    }
    return product(&out->shape, 0, out->shape.rank) * (uint64_t)a->shape.dim[node_int(n, ATTR_transA, 0) != 0 ? 0 : 1];
}

/* LSTM, GRU, RNN: W [dirs, gates * hidden, input], R [dirs, gates * hidden, hidden], X [steps, batch, input]. */
static uint64_t rnn_macs(const struct fact *x, const struct fact *w, const struct fact *r)
{
    if (x->shape.rank != 3 || !shape_known(&x->shape) || !shape_known(&w->shape) || !shape_known(&r->shape)) {
        return 0;
    }
    return product(&x->shape, 0, 2) * (product(&w->shape, 0, w->shape.rank) + product(&r->shape, 0, r->shape.rank));
}

static const struct fact *fact_of(const struct fact *facts, const struct node *n, uint32_t input)
{
    static const struct fact none = {.shape = {.rank = SHAPE_RANK_UNKNOWN}};
    return input < n->in_count && n->in[input] != VALUE_NONE ? &facts[n->in[input]] : &none;
}

uint64_t node_macs(const struct graph *g, const struct node *n, const struct fact *facts)
{
    (void)g;
    if ((op_def(n->op)->traits & OP_MACS) == 0 || n->out_count == 0 || n->out[0] == VALUE_NONE) {
        return 0;
    }
    const struct fact *out = &facts[n->out[0]];
    const struct fact *a = fact_of(facts, n, 0);
    const struct fact *b = fact_of(facts, n, 1);
    switch (n->op) {
    case OP_Conv:
    case OP_ConvInteger:
        return conv_macs(b, out, n);
    case OP_QLinearConv:
        return conv_macs(fact_of(facts, n, 3), out, n);
    case OP_ConvTranspose:
        return deconv_macs(b, a, n);
    case OP_Gemm:
        return gemm_macs(n, a, out);
    case OP_MatMul:
    case OP_MatMulInteger:
    case OP_QLinearMatMul:
        return matmul_macs(a, out);
    case OP_LSTM:
    case OP_GRU:
    case OP_RNN:
        return rnn_macs(a, b, fact_of(facts, n, 2));
    default:
        return 0;
    }
}
