/* More of com.microsoft: attention as our own Attention, rotary positions, group norms, forms of other layouts and of packed weights. */
#include <string.h>

#include "import/onnx/reader.h"

#define EVER 9999
#define MS   "com.microsoft"

static const int64_t first_axis[1] = {0}, middle_axes[2] = {1, 2};

static int32_t rank_of(const struct call *c, uint32_t index)
{
    uint32_t v = call_input(c, index);
    return v == VALUE_NONE ? SHAPE_RANK_UNKNOWN : c->g->values[v].shape.rank;
}

static void set_int(struct call *c, uint32_t value, enum attr_key key, int64_t item)
{
    if (c->status == PEN_OK)
        call_set_int(c, c->g->values[value].producer, key, item);
}

static uint32_t cast(struct call *c, uint32_t x, enum pen_dtype to)
{
    uint32_t y = call_value(c, OP_Cast, &x, 1);
    set_int(c, y, ATTR_to, to);
    return y;
}

static bool lacks(struct call *c, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (call_input(c, i) == VALUE_NONE)
            call_fail(c, PEN_ERR_INVALID, "node %s (%s) lacks input %u", c->name, c->origin, i);
    }
    if (!call_wants(c, 0))
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) gives nothing", c->name, c->origin);
    return c->status != PEN_OK;
}

/* The operator's own kernel, where its parts do not say the same. */
static void whole(struct call *c, enum op op)
{
    uint32_t node = call_emit(c, op, c->in, c->in_count, c->out, c->out_count);
    call_copy_attrs(c, node, NULL);
}

/* ---- attention ---------------------------------------------------------------------------------------------------------- */

/* 0 / 1 flags [batch, keys] of input `index` as what is added to scores: (1 - flag) * filter, [batch, 1, 1, keys]. */
static uint32_t padding_bias(struct call *c, uint32_t index)
{
    if (call_input(c, index) == VALUE_NONE)
        return VALUE_NONE;
    float filter = call_float(c, "mask_filter_value", -10000.0f);
    uint32_t flags = cast(c, cast(c, call_input(c, index), PEN_DTYPE_BOOL), PEN_DTYPE_F32), one = VALUE_NONE, low = one;
    const float values[2] = {1.0f, filter};
    if (c->status == PEN_OK)
        c->status = graph_constant_f32(c->g, &values[0], 1, true, &one);
    if (c->status == PEN_OK)
        c->status = graph_constant_f32(c->g, &values[1], 1, true, &low);
    uint32_t hidden = call_value(c, OP_Sub, (uint32_t[]){one, flags}, 2);
    uint32_t bias = call_value(c, OP_Mul, (uint32_t[]){hidden, low}, 2);
    return call_value(c, OP_Unsqueeze, (uint32_t[]){bias, call_i64(c, middle_axes, 2, false)}, 2);
}

static uint32_t sum_of(struct call *c, uint32_t a, uint32_t b)
{
    return a == VALUE_NONE ? b : b == VALUE_NONE ? a : call_value(c, OP_Add, (uint32_t[]){a, b}, 2);
}

/* Attention over q, k, v with what biases the scores; past key and value may be VALUE_NONE. Outputs: y and the caches. */
static void finish_attention(struct call *c, const uint32_t qkv[3], uint32_t bias, const uint32_t past[2],
                             const uint32_t *out, uint32_t out_count)
{
    int64_t heads = call_int(c, "num_heads", 0);
    float scale = call_float(c, "scale", 0.0f);
    uint32_t in[6] = {qkv[0], qkv[1], qkv[2], bias, past[0], past[1]}, count = 6;
    while (count > 3 && in[count - 1] == VALUE_NONE)
        count--;
    uint32_t node = call_emit(c, OP_Attention, in, count, out, out_count);
    call_set_int(c, node, ATTR_q_num_heads, heads);
    call_set_int(c, node, ATTR_kv_num_heads, heads);
    call_set_int(c, node, ATTR_is_causal, call_int(c, "unidirectional", 0));
    if (scale != 0.0f)
        call_set_float(c, node, ATTR_scale, scale);
}

/* Columns of x w + bias: queries, keys and values. */
static bool projected(struct call *c, uint32_t x, uint32_t w, uint32_t bias, uint32_t ret[3])
{
    uint32_t all = sum_of(c, call_value(c, OP_MatMul, (uint32_t[]){x, w}, 2), bias);
    for (uint32_t i = 0; i < 3 && c->status == PEN_OK; i++)
        c->status = graph_value(c->g, NULL, &ret[i]);
    uint32_t node = call_emit(c, OP_Split, &all, 1, ret, 3);
    call_set_int(c, node, ATTR_axis, 2);
    call_set_int(c, node, ATTR_num_outputs, 3);
    return c->status == PEN_OK;
}

/* In parts when nothing is cached, q, k and v are equally wide and the mask is of flags. */
static bool parts_say_it(const struct call *c, uint32_t mask, uint32_t past)
{
    return !call_attr(c, "qkv_hidden_sizes") && call_int(c, "do_rotary", 0) == 0 && call_int(c, "num_heads", 0) > 0 &&
           call_input(c, past) == VALUE_NONE && !call_wants(c, 1) &&
           (call_input(c, mask) == VALUE_NONE || rank_of(c, mask) == 2);
}

static void up_attention(struct call *c)
{
    uint32_t qkv[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    const uint32_t none[2] = {VALUE_NONE, VALUE_NONE};
    if (lacks(c, 2))
        return;
    if (!parts_say_it(c, 3, 4)) {
        whole(c, OP_MsAttention);
        return;
    }
    if (projected(c, call_input(c, 0), call_input(c, 1), call_input(c, 2), qkv))
        finish_attention(c, qkv, sum_of(c, padding_bias(c, 3), call_input(c, 5)), none, c->out, 1);
}

/* input, weight, bias, their scales, mask, their zero points, past: bytes made floats again. */
static void up_quantised_attention(struct call *c)
{
    uint32_t qkv[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    const uint32_t none[2] = {VALUE_NONE, VALUE_NONE};
    if (lacks(c, 5))
        return;
    if (!parts_say_it(c, 5, 8)) {
        call_fail(c, PEN_ERR_UNSUPPORTED, "node %s (%s): caches and masks of lengths are not supported", c->name,
                  c->origin);
        return;
    }
    uint32_t zeros[2] = {call_input(c, 6), call_input(c, 7)};
    uint32_t x = call_value(c, OP_DequantizeLinear, (uint32_t[]){call_input(c, 0), call_input(c, 3), zeros[0]},
                            zeros[0] == VALUE_NONE ? 2 : 3);
    uint32_t w = call_value(c, OP_DequantizeLinear, (uint32_t[]){call_input(c, 1), call_input(c, 4), zeros[1]},
                            zeros[1] == VALUE_NONE ? 2 : 3);
    set_int(c, w, ATTR_axis, 1);
    if (projected(c, x, w, call_input(c, 2), qkv))
        finish_attention(c, qkv, padding_bias(c, 5), none, c->out, 1);
}

/* Part i of the bias [3 * width] of queries, keys and values of equal width. */
static uint32_t with_bias(struct call *c, uint32_t i)
{
    static const int64_t parts = 3;
    uint32_t x = call_input(c, i), bias = call_input(c, 3);
    if (bias == VALUE_NONE)
        return x;
    uint32_t made[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    for (uint32_t k = 0; k < 3 && c->status == PEN_OK; k++)
        c->status = graph_value(c->g, NULL, &made[k]);
    uint32_t node = call_emit(c, OP_Split, &bias, 1, made, 3);
    call_set_int(c, node, ATTR_axis, 0);
    call_set_int(c, node, ATTR_num_outputs, parts);
    return sum_of(c, x, made[i]);
}

static void up_multi_head_attention(struct call *c)
{
    bool apart = call_input(c, 1) != VALUE_NONE && call_input(c, 2) != VALUE_NONE && call_int(c, "num_heads", 0) > 0;
    bool biased = call_input(c, 3) != VALUE_NONE;
    for (uint32_t i = 0; i < 3 && apart; i++)
        apart = rank_of(c, i) == 3 || (rank_of(c, i) == 4 && i > 0 && !biased);
    for (uint32_t i = 0; biased && apart && i < 3; i++)
        apart = c->g->values[call_input(c, i)].shape.dim[2] >= 0 &&
                c->g->values[call_input(c, i)].shape.dim[2] == c->g->values[call_input(c, 0)].shape.dim[2];
    bool mask = call_input(c, 4) == VALUE_NONE || rank_of(c, 4) == 2;
    if (lacks(c, 1))
        return;
    if (!apart || !mask || call_wants(c, 3) || c->in_count > 8) {
        whole(c, OP_MultiHeadAttention);
        return;
    }
    const uint32_t qkv[3] = {with_bias(c, 0), with_bias(c, 1), with_bias(c, 2)};
    const uint32_t past[2] = {call_input(c, 6), call_input(c, 7)};
    finish_attention(c, qkv, sum_of(c, padding_bias(c, 4), call_input(c, 5)), past, c->out, c->out_count);
}

/* Positions, biases, sinks and scores of its newer forms are not there. */
static void up_group_query_attention(struct call *c)
{
    bool plain = call_int(c, "smooth_softmax", 0) <= 0 && call_int(c, "qk_output", 0) == 0 && !call_wants(c, 3) &&
                 call_int(c, "kv_cache_bit_width", 0) == 0;
    for (uint32_t i = 9; i < c->in_count; i++)
        plain = plain && call_input(c, i) == VALUE_NONE;
    if (!plain) {
        call_fail(c, PEN_ERR_UNSUPPORTED,
                  "node %s (%s): position ids, biases, sinks, smoothing and quantised caches are not supported",
                  c->name, c->origin);
        return;
    }
    c->in_count = c->in_count > 9 ? 9 : c->in_count;
    whole(c, OP_GroupQueryAttention);
}

/* x, position ids ([1]: the first of a row of them; [batch, length]), cosines, sines. */
static void up_rotary(struct call *c)
{
    if (lacks(c, 4))
        return;
    uint32_t x = call_input(c, 0), ids = call_input(c, 1);
    const struct shape *cosines = &c->g->values[call_input(c, 2)].shape, *xs = &c->g->values[x].shape;
    int64_t heads = call_int(c, "num_heads", 0), size = cosines->rank == 2 ? 2 * cosines->dim[1] : 0;
    if (heads == 0 && xs->rank == 3 && xs->dim[2] > 0 && size > 0)
        heads = xs->dim[2] / size;
    if (rank_of(c, 1) != 2 || call_float(c, "scale", 1.0f) != 1.0f || (xs->rank != 4 && heads < 1)) {
        call_fail(c, PEN_ERR_UNSUPPORTED, "node %s (%s) needs position ids [batch, length], no scale, and num_heads",
                  c->name, c->origin);
        return;
    }
    uint32_t node =
        call_emit(c, OP_RotaryEmbedding, (uint32_t[]){x, call_input(c, 2), call_input(c, 3), ids}, 4, c->out, 1);
    if (xs->rank != 4)
        call_set_int(c, node, ATTR_num_heads, heads);
    call_set_int(c, node, ATTR_interleaved, call_int(c, "interleaved", 0));
    call_set_int(c, node, ATTR_rotary_embedding_dim, call_int(c, "rotary_embedding_dim", 0));
}

/* ---- group norms -------------------------------------------------------------------------------------------------------- */

static uint32_t moved(struct call *c, uint32_t x, const int64_t perm[4])
{
    uint32_t y = call_value(c, OP_Transpose, &x, 1);
    if (c->status == PEN_OK)
        c->status = graph_attr_ints(c->g, c->g->values[y].producer, ATTR_perm, perm, 4);
    return y;
}

/* GroupNormalization of four dims, channels last unless told otherwise, and a Swish behind it when activation is 1. */
static void finish_group_norm(struct call *c, uint32_t x, uint32_t scale, uint32_t bias)
{
    static const int64_t to_first[4] = {0, 3, 1, 2}, to_last[4] = {0, 2, 3, 1};
    bool last = call_int(c, "channels_last", 1) != 0, swish = call_int(c, "activation", 0) != 0;
    uint32_t in[3] = {last ? moved(c, x, to_first) : x, scale, bias};
    uint32_t y = call_value(c, OP_GroupNormalization, in, 3);
    set_int(c, y, ATTR_num_groups, call_int(c, "groups", 1));
    if (c->status == PEN_OK)
        call_set_float(c, c->g->values[y].producer, ATTR_epsilon, call_float(c, "epsilon", 1e-5f));
    y = last ? moved(c, y, to_last) : y;
    (void)call_emit(c, swish ? OP_Swish : OP_Identity, &y, 1, c->out, 1);
}

static void up_ms_group_norm(struct call *c)
{
    if (!lacks(c, 3))
        finish_group_norm(c, call_input(c, 0), call_input(c, 1), call_input(c, 2));
}

/* The skip may be [batch, 1, 1, channels], or [batch, channels]; output 1 is the sum. */
static void up_skip_group_norm(struct call *c)
{
    if (lacks(c, 4))
        return;
    uint32_t skip = call_input(c, 3);
    if (rank_of(c, 3) == 2)
        skip = call_value(c, OP_Unsqueeze, (uint32_t[]){skip, call_i64(c, middle_axes, 2, false)}, 2);
    uint32_t sum = sum_of(c, sum_of(c, call_input(c, 0), skip), call_input(c, 4));
    if (call_wants(c, 1))
        (void)call_emit(c, OP_Identity, &sum, 1, &c->out[1], 1);
    finish_group_norm(c, sum, call_input(c, 1), call_input(c, 2));
}

/* ---- the rest -------------------------------------------------------------------------------------------------------------- */

/* left * gelu(right) of the halves of x + bias. */
static void up_bias_split_gelu(struct call *c)
{
    uint32_t half[2] = {VALUE_NONE, VALUE_NONE};
    if (lacks(c, 2))
        return;
    uint32_t sum = call_value(c, OP_Add, c->in, 2);
    for (uint32_t i = 0; i < 2 && c->status == PEN_OK; i++)
        c->status = graph_value(c->g, NULL, &half[i]);
    uint32_t node = call_emit(c, OP_Split, &sum, 1, half, 2);
    call_set_int(c, node, ATTR_axis, -1);
    call_set_int(c, node, ATTR_num_outputs, 2);
    uint32_t gate = call_value(c, OP_Gelu, &half[1], 1);
    (void)call_emit(c, OP_Mul, (uint32_t[]){half[0], gate}, 2, c->out, 1);
}

/* x + bias + skip */
static void up_bias_add(struct call *c)
{
    if (!lacks(c, 3))
        (void)call_emit(c, OP_Add, (uint32_t[]){call_value(c, OP_Add, c->in, 2), c->in[2]}, 2, c->out, 1);
}

static void up_nhwc(struct call *c)
{
    whole(c, bytes_are(c->op_type, "NhwcMaxPool") ? OP_MaxPool : OP_Conv);
    if (c->status == PEN_OK)
        call_set_int(c, c->g->node_count - 1, ATTR_layout, LAYOUT_NHWC);
}

/* Rows of a table of blocks: data, scales and zero points are gathered alike, then made floats. */
static void up_gather_blocks(struct call *c)
{
    if (lacks(c, 3))
        return;
    enum pen_dtype dtype = c->g->values[call_input(c, 0)].dtype;
    int32_t rank = rank_of(c, 0);
    int64_t along = call_int(c, "quantize_axis", 1);
    along = along < 0 ? along + rank : along;
    if ((dtype != PEN_DTYPE_I4 && dtype != PEN_DTYPE_U4) || call_int(c, "gather_axis", 0) != 0 || along != rank - 1) {
        call_fail(c, PEN_ERR_UNSUPPORTED, "node %s (%s): only tables of int4 or uint4, rows gathered, blocks in a row",
                  c->name, c->origin);
        return;
    }
    uint32_t parts[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    static const uint32_t from[3] = {0, 2, 3};
    for (uint32_t i = 0; i < 3; i++) {
        if (call_input(c, from[i]) != VALUE_NONE)
            parts[i] =
                call_value_axis(c, OP_Gather, (uint32_t[]){call_input(c, from[i]), call_input(c, 1)}, 2, first_axis[0]);
    }
    uint32_t node = call_emit(c, OP_DequantizeLinear, parts, parts[2] == VALUE_NONE ? 2 : 3, c->out, 1);
    call_set_int(c, node, ATTR_axis, -1);
    call_set_int(c, node, ATTR_block_size, call_int(c, "block_size", 128));
}

const struct op_row rows_contrib[] = {
    UP_ROW(MS, Attention, 1, EVER, OP_NONE, up_attention),
    UP_ROW(MS, QAttention, 1, EVER, OP_NONE, up_quantised_attention),
    UP_ROW(MS, MultiHeadAttention, 1, EVER, OP_NONE, up_multi_head_attention),
    UP_ROW(MS, GroupQueryAttention, 1, EVER, OP_NONE, up_group_query_attention),
    UP_ROW(MS, RotaryEmbedding, 1, EVER, OP_NONE, up_rotary),
    UP_ROW(MS, GroupNorm, 1, EVER, OP_NONE, up_ms_group_norm),
    UP_ROW(MS, SkipGroupNorm, 1, EVER, OP_NONE, up_skip_group_norm),
    UP_ROW(MS, BiasSplitGelu, 1, EVER, OP_NONE, up_bias_split_gelu),
    UP_ROW(MS, BiasAdd, 1, EVER, OP_NONE, up_bias_add),
    UP_ROW(MS, NhwcMaxPool, 1, EVER, OP_NONE, up_nhwc),
    UP_ROW(MS, NhwcConv, 1, EVER, OP_NONE, up_nhwc),
    UP_ROW(MS, GatherBlockQuantized, 1, EVER, OP_NONE, up_gather_blocks),
    UP_SAME(MS, QuantizeLinear, 1, EVER, OP_QuantizeLinear),
    UP_SAME(MS, DequantizeLinear, 1, EVER, OP_DequantizeLinear),
    {"", NULL, 0, 0, OP_NONE, NULL},
};
