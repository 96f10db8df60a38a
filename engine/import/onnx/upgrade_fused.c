/* com.microsoft operators that optimisers write in place of several standard ones: taken apart again, so that our own passes and kernels see them. */
#include <string.h>

#include "import/onnx/reader.h"

#define EVER 9999
#define MS   "com.microsoft"

/* ---- helpers -------------------------------------------------------------------------------------------------------- */

/* The last step: a node that writes the call's output 0. */
static uint32_t finish(struct call *c, enum op op, const uint32_t *in, uint32_t count)
{
    return call_emit(c, op, in, count, c->out, 1);
}

static uint32_t add_if(struct call *c, uint32_t x, uint32_t more)
{
    return more == VALUE_NONE ? x : call_value(c, OP_Add, (uint32_t[]){x, more}, 2);
}

static bool need_inputs(struct call *c, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (call_input(c, i) == VALUE_NONE)
            call_fail(c, PEN_ERR_INVALID, "node %s (%s) lacks input %u", c->name, c->origin, i);
    }
    if (!call_wants(c, 0))
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) gives nothing", c->name, c->origin);
    return c->status == PEN_OK;
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

static void finish_clip(struct call *c, uint32_t x, const struct fused_act *p)
{
    uint32_t in[3] = {x, call_float_like(c, p->a, x), call_float_like(c, p->b, x)};
    (void)finish(c, OP_Clip, in, 3);
}

/* act(x) into the call's output. */
static void finish_act(struct call *c, uint32_t x)
{
    static const char *const names[] = {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "HardSwish"};
    static const enum op ops[] = {OP_Relu, OP_Sigmoid, OP_Tanh, OP_LeakyRelu, OP_HardSigmoid, OP_HardSwish};
    struct fused_act p = act_params(c);
    if (call_text_is(c, "activation", "Clip") && p.given) {
        finish_clip(c, x, &p);
        return;
    }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (!call_text_is(c, "activation", names[i]))
            continue;
        uint32_t node = finish(c, ops[i], &x, 1);
        if (p.given && (ops[i] == OP_LeakyRelu || ops[i] == OP_HardSigmoid))
            call_set_float(c, node, ATTR_alpha, p.a);
        if (p.given && ops[i] == OP_HardSigmoid)
            call_set_float(c, node, ATTR_beta, p.b);
        return;
    }
    if (!call_attr(c, "activation"))
        (void)finish(c, OP_Identity, &x, 1);
    else
        call_fail(c, PEN_ERR_UNSUPPORTED, "node %s (%s): its activation is not supported", c->name, c->origin);
}

static const char *const act_attrs[] = {"activation",      "activation_params", "activation_alpha",
                                        "activation_beta", "activation_gamma",  NULL};

static void producer_attrs(struct call *c, uint32_t value, const char *const *except)
{
    if (c->status == PEN_OK)
        call_copy_attrs(c, c->g->values[value].producer, except);
}

static void up_fused_conv(struct call *c)
{
    if (!need_inputs(c, 2))
        return;
    uint32_t in[3] = {call_input(c, 0), call_input(c, 1), call_input(c, 2)};
    uint32_t y = call_value(c, OP_Conv, in, in[2] == VALUE_NONE ? 2 : 3);
    producer_attrs(c, y, act_attrs);
    finish_act(c, add_if(c, y, call_input(c, 3)));
}

static void up_fused_gemm(struct call *c)
{
    if (!need_inputs(c, 2))
        return;
    uint32_t y = call_value(c, OP_Gemm, c->in, c->in_count < 3 ? c->in_count : 3);
    producer_attrs(c, y, act_attrs);
    finish_act(c, y);
}

/* Transposed operands by an equation, which needs no rank. */
static void up_fused_matmul(struct call *c)
{
    static const char *const equations[] = {"...ij,...jk->...ik", "...ij,...kj->...ik", "...ji,...jk->...ik",
                                            "...ji,...kj->...ik"};
    bool ta = call_int(c, "transA", 0) != 0, tb = call_int(c, "transB", 0) != 0;
    float alpha = call_float(c, "alpha", 1.0f);
    if (call_int(c, "transBatchA", 0) || call_int(c, "transBatchB", 0))
        call_fail(c, PEN_ERR_UNSUPPORTED, "node %s: FusedMatMul with transposed batch axes is not supported", c->name);
    if (!need_inputs(c, 2))
        return;
    uint32_t y = call_value(c, ta || tb ? OP_Einsum : OP_MatMul, c->in, 2);
    if ((ta || tb) && c->status == PEN_OK)
        call_set_text(c, c->g->values[y].producer, ATTR_equation, equations[(ta ? 2 : 0) + (tb ? 1 : 0)]);
    if (alpha == 1.0f)
        (void)finish(c, OP_Identity, &y, 1);
    else
        (void)finish(c, OP_Mul, (uint32_t[]){y, call_float_like(c, alpha, c->in[0])}, 2);
}

static void gelu(struct call *c, bool tanh_form)
{
    if (!need_inputs(c, 1))
        return;
    uint32_t x = add_if(c, call_input(c, 0), call_input(c, 1));
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
    uint32_t node = need_inputs(c, 1) ? finish(c, OP_Swish, c->in, 1) : NODE_NONE;
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
    if (!need_inputs(c, 3) || !refuse_outputs(c, 1, 2))
        return;
    uint32_t sum = call_value(c, OP_Add, c->in, 2);
    sum = add_if(c, sum, call_input(c, 4));
    hand_out(c, sum, 3);
    finish_norm(c, true, sum, call_input(c, 2), call_input(c, 3), call_float(c, "epsilon", 1e-12f));
}

static void up_skip_rms_norm(struct call *c)
{
    if (!need_inputs(c, 3) || !refuse_outputs(c, 1, 2))
        return;
    uint32_t sum = call_value(c, OP_Add, c->in, 2);
    sum = add_if(c, sum, call_input(c, 3));
    hand_out(c, sum, 3);
    finish_norm(c, false, sum, call_input(c, 2), VALUE_NONE, call_float(c, "epsilon", 1e-5f));
}

static void up_rms_norm(struct call *c)
{
    if (!need_inputs(c, 2) || !refuse_outputs(c, 1, 1))
        return;
    uint32_t node = finish(c, OP_RMSNormalization, c->in, 2);
    call_copy_attrs(c, node, NULL);
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

/* Tokens of each row that are not masked; 0 without a mask, as the operator's own runtime gives. */
static void mask_index(struct call *c)
{
    static const int64_t second[1] = {1};
    if (!call_wants(c, 1))
        return;
    uint32_t mask = call_input(c, 7), ids = call_input(c, 0);
    if (mask == VALUE_NONE)
        mask = call_value(c, OP_Sub, (uint32_t[]){ids, ids}, 2);
    uint32_t node = call_emit(c, OP_ReduceSum, (uint32_t[]){mask, call_i64(c, second, 1, false)}, 2, &c->out[1], 1);
    call_set_int(c, node, ATTR_keepdims, 0);
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
        sum = add_if(c, sum, call_value(c, OP_Gather, (uint32_t[]){call_input(c, 4), call_input(c, 1)}, 2));
    mask_index(c);
    hand_out(c, sum, 2);
    finish_norm(c, true, sum, call_input(c, 5), call_input(c, 6), call_float(c, "epsilon", 1e-12f));
}

/* ---- quantised products --------------------------------------------------------------------------------------------------------- */

/* float(a b) * a_scale * b_scale + bias into output 0. */
static void finish_product(struct call *c, const uint32_t in[4], uint32_t a_scale, uint32_t b_scale, uint32_t bias)
{
    uint32_t count = in[3] != VALUE_NONE ? 4 : in[2] != VALUE_NONE ? 3 : 2;
    uint32_t y = call_value(c, OP_MatMulInteger, in, count);
    y = call_value(c, OP_Cast, &y, 1);
    if (c->status == PEN_OK)
        call_set_int(c, c->g->values[y].producer, ATTR_to, PEN_DTYPE_F32);
    uint32_t scale = call_value(c, OP_Mul, (uint32_t[]){a_scale, b_scale}, 2);
    if (bias == VALUE_NONE) {
        (void)finish(c, OP_Mul, (uint32_t[]){y, scale}, 2);
        return;
    }
    y = call_value(c, OP_Mul, (uint32_t[]){y, scale}, 2);
    (void)finish(c, OP_Add, (uint32_t[]){y, bias}, 2);
}

static void up_dynamic_quantize_matmul(struct call *c)
{
    uint32_t made[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    if (!need_inputs(c, 3))
        return;
    for (uint32_t i = 0; i < 3 && c->status == PEN_OK; i++)
        c->status = graph_value(c->g, NULL, &made[i]);
    (void)call_emit(c, OP_DynamicQuantizeLinear, c->in, 1, made, 3);
    uint32_t in[4] = {made[0], call_input(c, 1), made[2], call_input(c, 3)};
    finish_product(c, in, made[1], call_input(c, 2), call_input(c, 4));
}

static void up_matmul_integer_to_float(struct call *c)
{
    if (!need_inputs(c, 4))
        return;
    uint32_t in[4] = {call_input(c, 0), call_input(c, 1), call_input(c, 4), call_input(c, 5)};
    finish_product(c, in, call_input(c, 2), call_input(c, 3), call_input(c, 6));
}

const struct op_row rows_fused[] = {
    UP_ROW(MS, FusedConv, 1, EVER, OP_NONE, up_fused_conv),
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
    UP_ROW(MS, DynamicQuantizeMatMul, 1, EVER, OP_NONE, up_dynamic_quantize_matmul),
    UP_ROW(MS, MatMulIntegerToFloat, 1, EVER, OP_NONE, up_matmul_integer_to_float),
    {"", NULL, 0, 0, OP_NONE, NULL},
};
