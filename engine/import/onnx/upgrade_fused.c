/* com.microsoft operators that optimisers write in place of several standard ones: taken apart again, so that our own passes and kernels see them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/onnx/contrib.h"

/* ---- helpers -------------------------------------------------------------------------------------------------------- */

/* The last step: a node that writes the call's output 0. */
static uint32_t finish(struct call *c, enum op op, const uint32_t *in, uint32_t count)
{
    return call_emit(c, op, in, count, c->out, 1);
}

/* Outputs that we do not compute must not be wanted. */
static bool refuse_outputs(struct call *c, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++) {
        if (call_wants(c, i))
            call_fail(c, PEN_ERR_UNSUPPORTED, "node %s (%s): its output %u is not supported", c->name, c->origin, i);
    }
    return c->status == PEN_OK;
}

/* ---- fused activations -------------------------------------------------------------------------------------------------- */

struct fused_act {
    float a, b;
    bool given;
};

/* activation_params as a list, or activation_alpha / activation_beta. */
static struct fused_act act_params(struct call *c)
{
    const float *items;
    uint32_t count;
    struct fused_act p = {.given = false};
    if (call_floats(c, "activation_params", &items, &count) && count > 0)
        p = (struct fused_act){items[0], count > 1 ? items[1] : 0, true};
    else if (call_attr(c, "activation_alpha"))
        p = (struct fused_act){call_float(c, "activation_alpha", 0), call_float(c, "activation_beta", 0), true};
    return p;
}

/* An activation with one or two parameters; NaN: the operator's own default. */
struct act_row {
    const char *name;
    enum op op;
    float a, b;
};

static const struct act_row act_rows[] = {
    {"Relu", OP_Relu, NAN, NAN},
    {"Sigmoid", OP_Sigmoid, NAN, NAN},
    {"Tanh", OP_Tanh, NAN, NAN},
    {"LeakyRelu", OP_LeakyRelu, 0.01f, NAN},
    {"Elu", OP_Elu, 1.0f, NAN},
    {"HardSigmoid", OP_HardSigmoid, 0.2f, 0.5f},
    {"HardSwish", OP_HardSwish, NAN, NAN},
    {"ThresholdedRelu", OP_ThresholdedRelu, 1.0f, NAN},
    {"Softplus", OP_Softplus, NAN, NAN},
    {"Softsign", OP_Softsign, NAN, NAN},
};

static uint32_t scaled(struct call *c, uint32_t x, float factor)
{
    return call_value(c, OP_Mul, (uint32_t[]){x, call_float_like(c, factor, x)}, 2);
}

/* Activations of parts: Clip, a x + b, a tanh(b x), a softplus(b x). VALUE_NONE: none of these. */
static uint32_t act_parts(struct call *c, uint32_t x, const struct fused_act *p)
{
    float a = p->given ? p->a : 1.0f, b = p->given ? p->b : 1.0f;
    if (call_text_is(c, "activation", "Clip") && p->given)
        return call_value(c, OP_Clip, (uint32_t[]){x, call_float_like(c, a, x), call_float_like(c, b, x)}, 3);
    if (call_text_is(c, "activation", "Affine"))
        return call_value(c, OP_Add, (uint32_t[]){scaled(c, x, a), call_float_like(c, p->given ? b : 0.0f, x)}, 2);
    bool tangent = call_text_is(c, "activation", "ScaledTanh");
    if (!tangent && !call_text_is(c, "activation", "ParametricSoftplus"))
        return VALUE_NONE;
    x = scaled(c, x, b);
    return scaled(c, call_value(c, tangent ? OP_Tanh : OP_Softplus, &x, 1), a);
}

void contrib_finish_act(struct call *c, uint32_t x)
{
    struct fused_act p = act_params(c);
    uint32_t made = act_parts(c, x, &p);
    if (made != VALUE_NONE || !call_attr(c, "activation") || call_text_is(c, "activation", "")) {
        uint32_t last = made == VALUE_NONE ? x : made;
        (void)finish(c, OP_Identity, &last, 1);
        return;
    }
    for (size_t i = 0; i < sizeof act_rows / sizeof act_rows[0] && c->status == PEN_OK; i++) {
        const struct act_row *row = &act_rows[i];
        if (!call_text_is(c, "activation", row->name))
            continue;
        uint32_t node = finish(c, row->op, &x, 1);
        if (!isnan(row->a))
            call_set_float(c, node, ATTR_alpha, p.given ? p.a : row->a);
        if (!isnan(row->b))
            call_set_float(c, node, ATTR_beta, p.given ? p.b : row->b);
        return;
    }
    call_fail(c, PEN_ERR_UNSUPPORTED, "node %s (%s): its activation is not supported", c->name, c->origin);
}

const char *const contrib_act_attrs[] = {"activation",      "activation_params", "activation_alpha",
                                         "activation_beta", "activation_gamma",  NULL};

static void producer_attrs(struct call *c, uint32_t value, const char *const *except)
{
    if (c->status == PEN_OK)
        call_copy_attrs(c, c->g->values[value].producer, except);
}

static void up_fused_conv(struct call *c)
{
    if (contrib_lacks(c, 2))
        return;
    uint32_t in[3] = {call_input(c, 0), call_input(c, 1), call_input(c, 2)};
    uint32_t y = call_value(c, OP_Conv, in, in[2] == VALUE_NONE ? 2 : 3);
    producer_attrs(c, y, contrib_act_attrs);
    if (bytes_are(c->op_type, "NhwcFusedConv"))
        contrib_set_int(c, y, ATTR_layout, LAYOUT_NHWC);
    contrib_finish_act(c, contrib_sum(c, y, call_input(c, 3)));
}

static void up_fused_gemm(struct call *c)
{
    if (contrib_lacks(c, 2))
        return;
    uint32_t y = call_value(c, OP_Gemm, c->in, c->in_count < 3 ? c->in_count : 3);
    producer_attrs(c, y, contrib_act_attrs);
    contrib_finish_act(c, y);
}

/* One operand as MatMul wants it. batched: its first axis stands before the batch, [rows, batch..., columns]; turned: rows and columns are exchanged. */
static uint32_t operand(struct call *c, uint32_t index, bool turned, bool batched)
{
    int32_t rank = contrib_rank(c, index);
    int64_t perm[PEN_MAX_RANK];
    uint32_t x = call_input(c, index);
    if (rank < 2 || (!turned && !batched))
        return x;
    for (int32_t i = 0; i < rank; i++)
        perm[i] = batched && i < rank - 1 ? (i + 1) % (rank - 1) : i;
    if (turned) {
        int64_t last = perm[rank - 1];
        perm[rank - 1] = perm[rank - 2];
        perm[rank - 2] = last;
    }
    return contrib_transpose(c, x, perm, (uint32_t)rank);
}

/* Operands of unknown rank: by an equation. */
static uint32_t by_equation(struct call *c, const bool turned[2], const bool batched[2])
{
    static const char *const left[4] = {"...ij", "...ji", "i...j", "j...i"}, *const right[4] = {"...jk", "...kj",
                                                                                                "j...k", "k...j"};
    char text[32];
    snprintf(text, sizeof text, "%s,%s->...ik", left[2 * batched[0] + turned[0]], right[2 * batched[1] + turned[1]]);
    uint32_t y = call_value(c, OP_Einsum, c->in, 2);
    if (c->status == PEN_OK)
        call_set_text(c, c->g->values[y].producer, ATTR_equation, text);
    return y;
}

static void up_fused_matmul(struct call *c)
{
    const bool turned[2] = {call_int(c, "transA", 0) != 0, call_int(c, "transB", 0) != 0};
    const bool batched[2] = {call_int(c, "transBatchA", 0) != 0, call_int(c, "transBatchB", 0) != 0};
    float alpha = call_float(c, "alpha", 1.0f);
    if (contrib_lacks(c, 2))
        return;
    bool known = true;
    for (uint32_t i = 0; i < 2; i++)
        known = known && (contrib_rank(c, i) >= 0 || (!turned[i] && !batched[i]));
    uint32_t in[2] = {c->in[0], c->in[1]};
    for (uint32_t i = 0; i < 2 && known; i++)
        in[i] = operand(c, i, turned[i], batched[i]);
    uint32_t y = known ? call_value(c, OP_MatMul, in, 2) : by_equation(c, turned, batched);
    contrib_give(c, alpha == 1.0f ? y : scaled(c, y, alpha), 0);
}

static void gelu(struct call *c, bool tanh_form)
{
    if (contrib_lacks(c, 1))
        return;
    uint32_t x = contrib_sum(c, call_input(c, 0), call_input(c, 1));
    uint32_t node = finish(c, OP_Gelu, &x, 1);
    if (tanh_form)
        call_set_text(c, node, ATTR_approximate, "tanh");
}

static void up_gelu(struct call *c)
{
    gelu(c, false);
}

static void up_fast_gelu(struct call *c)
{
    gelu(c, true);
}

static void up_quick_gelu(struct call *c)
{
    uint32_t node = !contrib_lacks(c, 1) ? finish(c, OP_Swish, c->in, 1) : NODE_NONE;
    call_set_float(c, node, ATTR_alpha, call_float(c, "alpha", 1.702f));
}

/* ---- normalisation ---------------------------------------------------------------------------------------------------------- */

/* Norm over the last axis into output 0; bias may be VALUE_NONE. */
static void finish_norm(struct call *c, bool mean, uint32_t x, uint32_t gain, uint32_t bias, float epsilon)
{
    uint32_t in[3] = {x, gain, bias};
    uint32_t node =
        finish(c, mean ? OP_LayerNormalization : OP_RMSNormalization, in, mean && bias != VALUE_NONE ? 3 : 2);
    call_set_int(c, node, ATTR_axis, -1);
    call_set_float(c, node, ATTR_epsilon, epsilon);
}

/* The sum before the norm goes to `wanted`, when that output is wanted. */
static void hand_out(struct call *c, uint32_t sum, uint32_t wanted)
{
    if (call_wants(c, wanted))
        (void)call_emit(c, OP_Identity, &sum, 1, &c->out[wanted], 1);
}

static void up_skip_layer_norm(struct call *c)
{
    if (contrib_lacks(c, 3) || !refuse_outputs(c, 1, 2))
        return;
    uint32_t sum = call_value(c, OP_Add, c->in, 2);
    sum = contrib_sum(c, sum, call_input(c, 4));
    hand_out(c, sum, 3);
    finish_norm(c, true, sum, call_input(c, 2), call_input(c, 3), call_float(c, "epsilon", 1e-12f));
}

static void up_skip_rms_norm(struct call *c)
{
    if (contrib_lacks(c, 3) || !refuse_outputs(c, 1, 2))
        return;
    uint32_t sum = call_value(c, OP_Add, c->in, 2);
    sum = contrib_sum(c, sum, call_input(c, 3));
    hand_out(c, sum, 3);
    finish_norm(c, false, sum, call_input(c, 2), VALUE_NONE, call_float(c, "epsilon", 1e-5f));
}

/* 1 / sqrt(mean(x^2) + epsilon) over the axes that are normed. */
static void give_deviation(struct call *c)
{
    int64_t axis = call_int(c, "axis", -1), axes[PEN_MAX_RANK];
    int32_t rank = contrib_rank(c, 0);
    uint32_t count = 0, x = call_input(c, 0);
    if (!call_wants(c, 1))
        return;
    if (rank < 1) {
        contrib_refuse(c, "the file must say the shape of its input");
        return;
    }
    for (int64_t i = axis < 0 ? axis + rank : axis; i >= 0 && i < rank; i++)
        axes[count++] = i;
    uint32_t square = call_value(c, OP_Mul, (uint32_t[]){x, x}, 2);
    uint32_t mean = call_value(c, OP_ReduceMean, (uint32_t[]){square, call_i64(c, axes, count, false)}, 2);
    uint32_t epsilon = call_float_like(c, call_float(c, "epsilon", 1e-5f), x);
    uint32_t root = call_value(c, OP_Sqrt, (uint32_t[]){call_value(c, OP_Add, (uint32_t[]){mean, epsilon}, 2)}, 1);
    (void)call_emit(c, OP_Reciprocal, &root, 1, &c->out[1], 1);
}

static void up_rms_norm(struct call *c)
{
    if (contrib_lacks(c, 2))
        return;
    uint32_t node = finish(c, OP_RMSNormalization, c->in, 2);
    call_copy_attrs(c, node, NULL);
    give_deviation(c);
}

/* Rows of the position table: those asked for, or the first ones, as many as there are tokens. */
static uint32_t positions(struct call *c)
{
    static const int64_t second[1] = {1}, zero[1] = {0};
    uint32_t table = call_input(c, 3), ids = call_input(c, 0);
    if (call_input(c, 8) != VALUE_NONE)
        return call_value(c, OP_Gather, (uint32_t[]){table, call_input(c, 8)}, 2);
    uint32_t shape = call_value(c, OP_Shape, &ids, 1);
    uint32_t length = call_value(c, OP_Gather, (uint32_t[]){shape, call_i64(c, second, 1, false)}, 2);
    uint32_t in[4] = {table, call_i64(c, zero, 1, false), length, call_i64(c, zero, 1, false)};
    return call_value(c, OP_Slice, in, 4);
}

static void up_embed_layer_norm(struct call *c)
{
    if (call_input(c, 0) == VALUE_NONE || call_input(c, 2) == VALUE_NONE || call_input(c, 3) == VALUE_NONE ||
        call_input(c, 5) == VALUE_NONE || !call_wants(c, 0)) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) lacks ids, tables or gain", c->name, c->origin);
        return;
    }
    uint32_t sum = call_value(c, OP_Gather, (uint32_t[]){call_input(c, 2), call_input(c, 0)}, 2);
    sum = call_value(c, OP_Add, (uint32_t[]){sum, positions(c)}, 2);
    if (call_input(c, 1) != VALUE_NONE && call_input(c, 4) != VALUE_NONE)
        sum = contrib_sum(c, sum, call_value(c, OP_Gather, (uint32_t[]){call_input(c, 4), call_input(c, 1)}, 2));
    contrib_mask_index(c, call_input(c, 0), call_input(c, 7));
    hand_out(c, sum, 2);
    finish_norm(c, true, sum, call_input(c, 5), call_input(c, 6), call_float(c, "epsilon", 1e-12f));
}

const struct op_row rows_fused[] = {
    UP_ROW(MS, FusedConv, 1, EVER, OP_NONE, up_fused_conv),
    UP_ROW(MS, NhwcFusedConv, 1, EVER, OP_NONE, up_fused_conv),
    UP_ROW(MS, FusedGemm, 1, EVER, OP_NONE, up_fused_gemm),
    UP_ROW(MS, FusedMatMul, 1, EVER, OP_NONE, up_fused_matmul),
    UP_ROW(MS, TransposeMatMul, 1, EVER, OP_NONE, up_fused_matmul),
    UP_ROW(MS, Gelu, 1, EVER, OP_NONE, up_gelu),
    UP_ROW(MS, BiasGelu, 1, EVER, OP_NONE, up_gelu),
    UP_ROW(MS, FastGelu, 1, EVER, OP_NONE, up_fast_gelu),
    UP_ROW(MS, QuickGelu, 1, EVER, OP_NONE, up_quick_gelu),
    UP_ROW(MS, SkipLayerNormalization, 1, EVER, OP_NONE, up_skip_layer_norm),
    UP_ROW(MS, SkipSimplifiedLayerNormalization, 1, EVER, OP_NONE, up_skip_rms_norm),
    UP_ROW(MS, SimplifiedLayerNormalization, 1, EVER, OP_NONE, up_rms_norm),
    UP_ROW("", SimplifiedLayerNormalization, 1, EVER, OP_NONE, up_rms_norm),
    UP_SAME(MS, LayerNormalization, 1, EVER, OP_LayerNormalization),
    UP_ROW(MS, EmbedLayerNormalization, 1, EVER, OP_NONE, up_embed_layer_norm),
    {"", NULL, 0, 0, OP_NONE, NULL},
};
