/* com.microsoft's attention as the standard's: masks become sums on the scores, packed inputs come apart, caches are joined there. */
#include "import/onnx/contrib.h"

/* What the standard's Attention is given. past and present: VALUE_NONE without caches. */
struct parts {
    uint32_t qkv[3], past[2];
    uint32_t bias;  /* on the scores, or VALUE_NONE */
    uint32_t valid; /* keys of each batch entry that count, or VALUE_NONE */
};

/* ---- masks --------------------------------------------------------------------------------------------------------------- */

/* (1 - flag) * filter: what hides a key. */
static uint32_t hiding(struct call *c, uint32_t flags, uint32_t like)
{
    float filter = call_float(c, "mask_filter_value", -10000.0f);
    uint32_t one = contrib_f32(c, 1.0f), low = contrib_f32(c, filter);
    uint32_t hidden = call_value(c, OP_Sub, (uint32_t[]){one, contrib_cast(c, flags, PEN_DTYPE_F32)}, 2);
    uint32_t bias = call_value(c, OP_Mul, (uint32_t[]){hidden, low}, 2);
    return c->r->other_floats ? call_value(c, OP_CastLike, (uint32_t[]){bias, like}, 2) : bias;
}

/* Rows of ends, and of starts where they follow, [rows * batch]: keys in [start, end) are seen. -> bool [batch, keys] */
static uint32_t between(struct call *c, uint32_t rows, uint32_t batch, uint32_t keys)
{
    const int64_t whole[1] = {-1};
    uint32_t width = contrib_reshape(c, batch, whole, 1);
    uint32_t table = call_value_axis(c, OP_Concat, (uint32_t[]){contrib_list(c, -1), width}, 2, 0);
    uint32_t none = call_value(c, OP_Expand, (uint32_t[]){contrib_scalar(c, 0), width}, 2);
    uint32_t ends = call_value(c, OP_Reshape, (uint32_t[]){contrib_cast(c, rows, PEN_DTYPE_I64), table}, 2);
    ends = call_value_axis(c, OP_Concat, (uint32_t[]){ends, contrib_unsqueeze(c, none, 0)}, 2, 0);
    uint32_t end = contrib_unsqueeze(c, contrib_pick(c, ends, 0, 0), 1);
    uint32_t start = contrib_unsqueeze(c, contrib_pick(c, ends, 0, 1), 1), at = contrib_steps(c, keys);
    uint32_t before = call_value(c, OP_Less, (uint32_t[]){at, end}, 2);
    uint32_t behind = call_value(c, OP_GreaterOrEqual, (uint32_t[]){at, start}, 2);
    return call_value(c, OP_And, (uint32_t[]){before, behind}, 2);
}

/*
 * Input `index`, a mask of flags [batch, keys] or [batch, queries, keys] (0 hides), or of lengths, as what is added to scores [batch, heads, queries, keys].
 * x: its first axis is the batch. keys: how many there are, a scalar.
 */
static uint32_t mask_bias(struct call *c, uint32_t index, uint32_t x, uint32_t keys)
{
    const int64_t by_row[1] = {1}, by_key[2] = {1, 2};
    uint32_t mask = call_input(c, index);
    if (mask == VALUE_NONE)
        return VALUE_NONE;
    int32_t rank = contrib_rank(c, index);
    uint32_t seen = rank == 1 ? between(c, mask, contrib_dim(c, x, 0), keys) : contrib_cast(c, mask, PEN_DTYPE_BOOL);
    uint32_t axes = rank == 3 ? call_i64(c, by_row, 1, false) : call_i64(c, by_key, 2, false);
    return call_value(c, OP_Unsqueeze, (uint32_t[]){hiding(c, seen, x), axes}, 2);
}

static bool mask_fits(struct call *c, uint32_t index)
{
    int32_t rank = contrib_rank(c, index);
    return call_input(c, index) == VALUE_NONE || (rank >= 1 && rank <= 3);
}

/* ---- the core ------------------------------------------------------------------------------------------------------------ */

/* Outputs: y, the caches, the scores. */
static void finish_attention(struct call *c, const struct parts *p, const uint32_t *out, uint32_t out_count)
{
    int64_t heads = call_int(c, "num_heads", 0);
    float scale = call_float(c, "scale", 0.0f);
    uint32_t in[7] = {p->qkv[0], p->qkv[1], p->qkv[2], p->bias, p->past[0], p->past[1], p->valid}, count = 7;
    while (count > 3 && in[count - 1] == VALUE_NONE)
        count--;
    uint32_t node = call_emit(c, OP_Attention, in, count, out, out_count);
    call_set_int(c, node, ATTR_q_num_heads, heads);
    call_set_int(c, node, ATTR_kv_num_heads, heads);
    call_set_int(c, node, ATTR_is_causal, call_int(c, "unidirectional", 0));
    if (scale != 0.0f)
        call_set_float(c, node, ATTR_scale, scale);
}

/* The columns of queries, keys and values: equal thirds, or by qkv_hidden_sizes. */
static void split_columns(struct call *c, uint32_t all, int64_t axis, uint32_t ret[3])
{
    const int64_t *sizes;
    uint32_t count = 0, in[2] = {all, VALUE_NONE};
    bool given = call_ints(c, "qkv_hidden_sizes", &sizes, &count);
    if (given && count != 3)
        call_fail(c, PEN_ERR_INVALID, "node %s (%s): qkv_hidden_sizes needs 3 numbers", c->name, c->origin);
    else if (given)
        in[1] = call_i64(c, sizes, 3, false);
    for (uint32_t i = 0; i < 3; i++) {
        ret[i] = VALUE_NONE;
        if (c->status == PEN_OK)
            c->status = graph_value(c->g, NULL, &ret[i]);
    }
    uint32_t node = call_emit(c, OP_Split, in, given ? 2 : 1, ret, 3);
    call_set_int(c, node, ATTR_axis, axis);
    if (!given)
        call_set_int(c, node, ATTR_num_outputs, 3);
}

/* Keys in all, a scalar: new ones along `axis` of k, and the cache's. */
static uint32_t keys_of(struct call *c, uint32_t k, int64_t axis, uint32_t past)
{
    uint32_t fresh = contrib_dim(c, k, axis);
    return past == VALUE_NONE ? fresh : call_value(c, OP_Add, (uint32_t[]){fresh, contrib_dim(c, past, 2)}, 2);
}

/* Attention and QAttention from their projections [batch, length, q + k + v]; past and present are [2, batch, heads, length, size]. */
static void finish_projected(struct call *c, uint32_t all, uint32_t mask, uint32_t past, uint32_t added)
{
    struct parts p = {.valid = VALUE_NONE, .past = {VALUE_NONE, VALUE_NONE}};
    uint32_t out[3] = {c->out[0], VALUE_NONE, VALUE_NONE}, cache = call_input(c, past);
    split_columns(c, all, 2, p.qkv);
    for (uint32_t i = 0; i < 2 && cache != VALUE_NONE; i++)
        p.past[i] = contrib_pick(c, cache, 0, i);
    if (call_input(c, mask) != VALUE_NONE)
        p.bias = mask_bias(c, mask, call_input(c, 0), keys_of(c, call_input(c, 0), 1, p.past[0]));
    else
        p.bias = VALUE_NONE;
    p.bias = contrib_sum(c, p.bias, added);
    bool present = call_wants(c, 1);
    for (uint32_t i = 1; i < 3 && present && c->status == PEN_OK; i++)
        c->status = graph_value(c->g, NULL, &out[i]);
    finish_attention(c, &p, out, 3);
    if (present) {
        uint32_t halves[2] = {contrib_unsqueeze(c, out[1], 0), contrib_unsqueeze(c, out[2], 0)};
        uint32_t node = call_emit(c, OP_Concat, halves, 2, &c->out[1], 1);
        call_set_int(c, node, ATTR_axis, 0);
    }
}

static bool projection_fits(struct call *c, uint32_t mask)
{
    if (call_int(c, "num_heads", 0) < 1)
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) needs num_heads", c->name, c->origin);
    else if (call_int(c, "do_rotary", 0) != 0 || call_int(c, "past_present_share_buffer", 0) != 0)
        contrib_refuse(c, "rotary positions and shared caches are not supported");
    else if (!mask_fits(c, mask))
        contrib_refuse(c, "a mask of lengths, or of flags of 2 or 3 dimensions is needed");
    return c->status == PEN_OK;
}

static void up_attention(struct call *c)
{
    if (contrib_lacks(c, 2))
        return;
    if (call_input(c, 3) != VALUE_NONE && contrib_rank(c, 3) < 0) { /* the kernel looks at the mask when it comes */
        contrib_whole(c, OP_MsAttention);
    } else if (projection_fits(c, 3)) {
        uint32_t all = contrib_sum(c, call_value(c, OP_MatMul, c->in, 2), call_input(c, 2));
        finish_projected(c, all, 3, 4, call_input(c, 5));
    }
}

/* input, weight, bias, their scales, mask, their zero points, past */
static void up_quantised_attention(struct call *c)
{
    if (contrib_lacks(c, 5) || !projection_fits(c, 5))
        return;
    const uint32_t in[4] = {call_input(c, 0), call_input(c, 1), call_input(c, 6), call_input(c, 7)};
    uint32_t all = contrib_product(c, in, call_input(c, 3), call_input(c, 4), call_input(c, 2));
    finish_projected(c, all, 5, 8, VALUE_NONE);
}

/* ---- queries, keys and values apart ----------------------------------------------------------------------------------------- */

/* Columns of the bias [q + k + v] for queries (0), keys (1) or values (2); q: as wide as queries and keys are. */
static uint32_t bias_part(struct call *c, uint32_t bias, uint32_t q, uint32_t i)
{
    const int64_t whole[1] = {-1};
    uint32_t width = contrib_reshape(c, contrib_dim(c, q, -1), whole, 1);
    uint32_t from = call_value(c, OP_Mul, (uint32_t[]){width, contrib_list(c, i)}, 2);
    uint32_t to = i == 2 ? contrib_list(c, INT32_MAX) : call_value(c, OP_Add, (uint32_t[]){from, width}, 2);
    return contrib_slice(c, bias, 0, from, to);
}

/* Part i of [batch, length, heads, parts, size] as [batch, length, heads * size]. */
static uint32_t unpacked(struct call *c, uint32_t x, int64_t i)
{
    const int64_t flat[3] = {0, 0, -1};
    return contrib_reshape(c, contrib_pick(c, x, 3, i), flat, 3);
}

/* Queries, keys and values of MultiHeadAttention, biases added; false when the file does not say enough of their shapes. */
static bool sides_read(struct call *c, uint32_t bias, struct parts *p)
{
    int32_t q = contrib_rank(c, 0), k = contrib_rank(c, 1);
    bool packed = q == 5 && call_input(c, 1) == VALUE_NONE, pair = q == 3 && k == 5;
    bool apart = q == 3 && (k == 3 || k == 4) && contrib_rank(c, 2) == k;
    if (!packed && !pair && !apart)
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        p->qkv[i] = packed          ? unpacked(c, call_input(c, 0), i)
                    : pair && i > 0 ? unpacked(c, call_input(c, 1), i - 1)
                                    : call_input(c, i);
    }
    uint32_t plain = p->qkv[0];
    for (uint32_t i = 0; i < 3 && bias != VALUE_NONE && (k != 4 || i == 0); i++)
        p->qkv[i] = contrib_sum(c, p->qkv[i], bias_part(c, bias, plain, i));
    return true;
}

static void up_multi_head_attention(struct call *c)
{
    struct parts p = {.valid = VALUE_NONE, .past = {call_input(c, 6), call_input(c, 7)}};
    if (contrib_lacks(c, 1))
        return;
    for (uint32_t i = 8; i < c->in_count; i++) {
        if (call_input(c, i) != VALUE_NONE)
            contrib_refuse(c, "shared caches and beams are not supported");
    }
    if (!mask_fits(c, 4) || call_int(c, "num_heads", 0) < 1 || !sides_read(c, call_input(c, 3), &p)) {
        contrib_whole(c, OP_MultiHeadAttention);
        return;
    }
    p.bias = VALUE_NONE;
    if (call_input(c, 4) != VALUE_NONE)
        p.bias = mask_bias(c, 4, call_input(c, 0), keys_of(c, p.qkv[1], contrib_rank(c, 1) == 4 ? 2 : 1, p.past[0]));
    p.bias = contrib_sum(c, p.bias, call_input(c, 5));
    finish_attention(c, &p, c->out, c->out_count);
}

/* ---- one token at a time ------------------------------------------------------------------------------------------------------ */

/* The cache [batch, heads, room, size] with the new row [batch, 1, heads * size] behind `past` rows. */
static uint32_t row_put(struct call *c, uint32_t cache, uint32_t row, uint32_t past, uint32_t output)
{
    const int64_t perm[4] = {0, 2, 1, 3}, apart[4] = {0, 0, call_int(c, "num_heads", 0), -1}, whole[1] = {-1};
    uint32_t by_head = contrib_transpose(c, contrib_reshape(c, row, apart, 4), perm, 4);
    uint32_t batch = contrib_reshape(c, contrib_dim(c, row, 0), whole, 1);
    uint32_t at = call_value(c, OP_Expand, (uint32_t[]){contrib_cast(c, past, PEN_DTYPE_I64), batch}, 2);
    uint32_t all = call_value_axis(c, OP_TensorScatter, (uint32_t[]){cache, by_head, at}, 3, -2);
    contrib_give(c, all, output);
    return all;
}

/* The caches have room for rows to come: the new one is written behind those that are there. */
static void decoder_shared(struct call *c, struct parts *p)
{
    const int64_t whole[1] = {-1};
    uint32_t past = contrib_reshape(c, call_input(c, 7), whole, 1), out[1] = {c->out[0]};
    p->qkv[1] = row_put(c, p->past[0], p->qkv[1], past, 1);
    p->qkv[2] = row_put(c, p->past[1], p->qkv[2], past, 2);
    uint32_t count = call_value(c, OP_Add, (uint32_t[]){contrib_cast(c, past, PEN_DTYPE_I64), contrib_scalar(c, 1)}, 2);
    uint32_t batch = contrib_reshape(c, contrib_dim(c, call_input(c, 0), 0), whole, 1);
    p->valid = call_value(c, OP_Expand, (uint32_t[]){count, batch}, 2);
    p->past[0] = p->past[1] = VALUE_NONE;
    finish_attention(c, p, out, 1);
}

/* query, key, value, mask, attention bias, past key and value, past length, beams, cache indirection, bias */
static void up_decoder_attention(struct call *c)
{
    struct parts p = {.valid = VALUE_NONE, .past = {call_input(c, 5), call_input(c, 6)}};
    bool shared = call_int(c, "past_present_share_buffer", 0) != 0 && p.past[0] != VALUE_NONE;
    if (contrib_lacks(c, 1))
        return;
    if (call_input(c, 9) != VALUE_NONE || !mask_fits(c, 3) || call_int(c, "num_heads", 0) < 1 ||
        (shared && (call_input(c, 7) == VALUE_NONE || call_input(c, 3) != VALUE_NONE))) {
        contrib_refuse(c, "beams, and masks over shared caches, are not supported");
        return;
    }
    if (!sides_read(c, call_input(c, 10), &p)) {
        contrib_refuse(c, "the file must say the shapes of query, key and value");
        return;
    }
    p.bias = VALUE_NONE;
    if (call_input(c, 3) != VALUE_NONE)
        p.bias = mask_bias(c, 3, call_input(c, 0), keys_of(c, p.qkv[1], contrib_rank(c, 1) == 4 ? 2 : 1, p.past[0]));
    p.bias = contrib_sum(c, p.bias, call_input(c, 4));
    if (shared)
        decoder_shared(c, &p);
    else
        finish_attention(c, &p, c->out, c->out_count < 3 ? c->out_count : 3);
}

/* Quantised and rolling caches, norms of queries and keys, and scores as an output are not there. */
static void up_group_query_attention(struct call *c)
{
    bool plain = call_int(c, "qk_output", 0) == 0 && !call_wants(c, 3) && call_int(c, "kv_cache_bit_width", 0) == 0 &&
                 call_int(c, "causal", 1) != 0 && call_int(c, "sliding_window_cache", 0) == 0;
    for (uint32_t i = 12; i < c->in_count; i++)
        plain = plain && call_input(c, i) == VALUE_NONE;
    if (!plain) {
        contrib_refuse(c, "quantised or rolling caches, norms inside, no causal mask, and scores as an output are not "
                          "supported");
        return;
    }
    c->in_count = c->in_count > 12 ? 12 : c->in_count;
    contrib_whole(c, OP_GroupQueryAttention);
}

/* ---- sequences without their padding --------------------------------------------------------------------------------------------- */

/* Rows of [tokens, width] to their places of [batch, length, width]; the others are zero. */
static uint32_t padded(struct call *c, uint32_t x, uint32_t offsets)
{
    const int64_t flat[1] = {-1}, list[1] = {0};
    uint32_t where = contrib_reshape(c, contrib_cast(c, offsets, PEN_DTYPE_I64), flat, 1);
    uint32_t tokens = contrib_reshape(c, contrib_dim(c, x, 0), flat, 1);
    uint32_t width = contrib_reshape(c, contrib_dim(c, x, 1), flat, 1), shape = call_value(c, OP_Shape, &offsets, 1);
    where = contrib_slice(c, where, 0, call_i64(c, list, 1, false), tokens);
    uint32_t all = contrib_reshape(c, call_value(c, OP_Size, &offsets, 1), flat, 1);
    uint32_t table = call_value_axis(c, OP_Concat, (uint32_t[]){all, width}, 2, 0);
    uint32_t zero = call_float_like(c, 0.0f, x);
    uint32_t room = call_value(c, OP_Expand, (uint32_t[]){zero, table}, 2);
    room = call_value(c, OP_ScatterND, (uint32_t[]){room, contrib_unsqueeze(c, where, 1), x}, 3);
    uint32_t full = call_value_axis(c, OP_Concat, (uint32_t[]){shape, width}, 2, 0);
    return call_value(c, OP_Reshape, (uint32_t[]){room, full}, 2);
}

static void up_restore_padding(struct call *c)
{
    if (!contrib_lacks(c, 2))
        contrib_give(c, padded(c, call_input(c, 0), call_input(c, 1)), 0);
}

/* The rows of [batch, length, width] that belong to tokens, as the call's output. like: [tokens, ...] */
static void give_rows(struct call *c, uint32_t x, uint32_t offsets, uint32_t like)
{
    const int64_t flat[1] = {-1}, list[1] = {0};
    uint32_t where = contrib_reshape(c, contrib_cast(c, offsets, PEN_DTYPE_I64), flat, 1);
    uint32_t tokens = contrib_reshape(c, contrib_dim(c, like, 0), flat, 1);
    uint32_t width = contrib_reshape(c, contrib_dim(c, x, 2), flat, 1);
    where = contrib_slice(c, where, 0, call_i64(c, list, 1, false), tokens);
    uint32_t table = call_value_axis(c, OP_Concat, (uint32_t[]){contrib_list(c, -1), width}, 2, 0);
    uint32_t all = call_value(c, OP_Reshape, (uint32_t[]){x, table}, 2);
    uint32_t node = call_emit(c, OP_Gather, (uint32_t[]){all, where}, 2, c->out, 1);
    call_set_int(c, node, ATTR_axis, 0);
}

/* Attention over padded queries, keys and values, keys hidden by the lengths that cumulated ones say; then the padding goes again. */
static void finish_packed(struct call *c, struct parts *p, uint32_t offsets, uint32_t ends, uint32_t added,
                          uint32_t like)
{
    uint32_t y[1] = {VALUE_NONE};
    uint32_t lengths =
        call_value(c, OP_Sub,
                   (uint32_t[]){contrib_slice(c, ends, 0, contrib_list(c, 1), contrib_list(c, INT32_MAX)),
                                contrib_slice(c, ends, 0, contrib_list(c, 0), contrib_list(c, -1))},
                   2);
    for (uint32_t i = 0; i < 3; i++)
        p->qkv[i] = padded(c, p->qkv[i], offsets);
    uint32_t seen = between(c, lengths, contrib_dim(c, offsets, 0), contrib_dim(c, offsets, 1));
    const int64_t by_key[2] = {1, 2};
    p->bias = call_value(c, OP_Unsqueeze, (uint32_t[]){hiding(c, seen, p->qkv[0]), call_i64(c, by_key, 2, false)}, 2);
    p->bias = contrib_sum(c, p->bias, added);
    if (c->status == PEN_OK)
        c->status = graph_value(c->g, NULL, &y[0]);
    finish_attention(c, p, y, 1);
    give_rows(c, y[0], offsets, like);
}

/* input [tokens, width], weights, bias, token offsets [batch, length], cumulated lengths [batch + 1], attention bias */
static void up_packed_attention(struct call *c)
{
    struct parts p = {.valid = VALUE_NONE, .past = {VALUE_NONE, VALUE_NONE}};
    if (contrib_lacks(c, 5))
        return;
    uint32_t all = contrib_sum(c, call_value(c, OP_MatMul, c->in, 2), call_input(c, 2));
    split_columns(c, all, 1, p.qkv);
    finish_packed(c, &p, call_input(c, 3), call_input(c, 4), call_input(c, 5), call_input(c, 0));
}

/* query [tokens, width] or [tokens, heads, 3, size], key, value, bias, token offsets, cumulated lengths, attention bias */
static void up_packed_multi_head(struct call *c)
{
    const int64_t flat[2] = {0, -1};
    struct parts p = {.valid = VALUE_NONE, .past = {VALUE_NONE, VALUE_NONE}};
    uint32_t q = call_input(c, 0), bias = call_input(c, 3);
    bool packed = call_input(c, 1) == VALUE_NONE;
    if (q == VALUE_NONE || call_input(c, 4) == VALUE_NONE || call_input(c, 5) == VALUE_NONE || !call_wants(c, 0)) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) lacks queries, offsets or lengths", c->name, c->origin);
        return;
    }
    for (uint32_t i = 0; i < 3; i++)
        p.qkv[i] = packed ? contrib_reshape(c, contrib_pick(c, q, 2, i), flat, 2) : call_input(c, i);
    uint32_t plain = p.qkv[0];
    for (uint32_t i = 0; i < 3 && bias != VALUE_NONE; i++)
        p.qkv[i] = contrib_sum(c, p.qkv[i], bias_part(c, bias, plain, i));
    finish_packed(c, &p, call_input(c, 4), call_input(c, 5), call_input(c, 6), q);
}

/* x [batch, length, width], tokens of each sequence -> rows without padding, where they and the padding were, cumulated lengths, the longest */
static void up_remove_padding(struct call *c)
{
    const int64_t flat[1] = {-1};
    if (contrib_lacks(c, 2))
        return;
    uint32_t x = call_input(c, 0), count = call_input(c, 1), width = contrib_reshape(c, contrib_dim(c, x, 2), flat, 1);
    uint32_t seen = between(c, count, contrib_dim(c, x, 0), contrib_dim(c, x, 1));
    uint32_t line = contrib_reshape(c, seen, flat, 1), rest = call_value(c, OP_Not, &line, 1);
    uint32_t at = contrib_reshape(c, call_value(c, OP_NonZero, &line, 1), flat, 1);
    uint32_t other = contrib_reshape(c, call_value(c, OP_NonZero, &rest, 1), flat, 1);
    uint32_t table = call_value_axis(c, OP_Concat, (uint32_t[]){contrib_list(c, -1), width}, 2, 0);
    uint32_t all = call_value(c, OP_Reshape, (uint32_t[]){x, table}, 2);
    contrib_give(c, call_value_axis(c, OP_Gather, (uint32_t[]){all, at}, 2, 0), 0);
    uint32_t both = call_value_axis(c, OP_Concat, (uint32_t[]){at, other}, 2, 0);
    uint32_t shape = call_value(c, OP_Shape, &seen, 1);
    both = call_value(c, OP_Reshape, (uint32_t[]){contrib_cast(c, both, PEN_DTYPE_I32), shape}, 2);
    contrib_give(c, both, 1);
    uint32_t sums = call_value(c, OP_CumSum, (uint32_t[]){count, contrib_zero_i32(c)}, 2);
    uint32_t first = contrib_reshape(c, contrib_zero_i32(c), (const int64_t[]){1}, 1);
    contrib_give(c, call_value_axis(c, OP_Concat, (uint32_t[]){first, sums}, 2, 0), 2);
    contrib_give(c, call_value(c, OP_ReduceMax, (uint32_t[]){count, contrib_list(c, 0)}, 2), 3);
}

/* ---- positions ------------------------------------------------------------------------------------------------------------------- */

/* Position ids [batch, length] from one offset: those of a row that starts there. */
static uint32_t ids_from(struct call *c, uint32_t x, uint32_t offset, int64_t length_axis)
{
    const int64_t flat[1] = {-1};
    uint32_t steps = contrib_steps(c, contrib_dim(c, x, length_axis));
    uint32_t row = call_value(c, OP_Add, (uint32_t[]){steps, contrib_cast(c, offset, PEN_DTYPE_I64)}, 2);
    uint32_t batch = contrib_reshape(c, contrib_dim(c, x, 0), flat, 1);
    uint32_t length = contrib_reshape(c, contrib_dim(c, x, length_axis), flat, 1);
    uint32_t table = call_value_axis(c, OP_Concat, (uint32_t[]){batch, length}, 2, 0);
    return call_value(c, OP_Expand, (uint32_t[]){row, table}, 2);
}

/* x, position ids ([1]: the first of a row of them; [batch, length]), cosines, sines. */
static void up_rotary(struct call *c)
{
    if (contrib_lacks(c, 4))
        return;
    uint32_t x = call_input(c, 0), ids = call_input(c, 1);
    struct shape cosines = call_shape(c, call_input(c, 2)), xs = call_shape(c, x);
    int32_t rank = xs.rank, given = contrib_rank(c, 1);
    int64_t heads = call_int(c, "num_heads", 0), size = cosines.rank == 2 ? 2 * cosines.dim[1] : 0;
    if (heads == 0 && rank == 3 && xs.dim[2] > 0 && size > 0)
        heads = xs.dim[2] / size;
    if ((given != 1 && given != 2) || (rank != 3 && rank != 4) || call_float(c, "scale", 1.0f) != 1.0f ||
        (rank == 3 && heads < 1)) {
        contrib_refuse(c, "the shapes of x and of the position ids, num_heads, and no scale are needed");
        return;
    }
    if (given == 1)
        ids = ids_from(c, x, ids, rank == 4 ? 2 : 1);
    uint32_t node =
        call_emit(c, OP_RotaryEmbedding, (uint32_t[]){x, call_input(c, 2), call_input(c, 3), ids}, 4, c->out, 1);
    if (rank == 3)
        call_set_int(c, node, ATTR_num_heads, heads);
    call_set_int(c, node, ATTR_interleaved, call_int(c, "interleaved", 0));
    call_set_int(c, node, ATTR_rotary_embedding_dim, call_int(c, "rotary_embedding_dim", 0));
}

const struct op_row rows_attention[] = {
    UP_ROW(MS, Attention, 1, EVER, OP_NONE, up_attention),
    UP_ROW(MS, QAttention, 1, EVER, OP_NONE, up_quantised_attention),
    UP_ROW(MS, MultiHeadAttention, 1, EVER, OP_NONE, up_multi_head_attention),
    UP_ROW(MS, DecoderMaskedMultiHeadAttention, 1, EVER, OP_NONE, up_decoder_attention),
    UP_ROW(MS, GroupQueryAttention, 1, EVER, OP_NONE, up_group_query_attention),
    UP_ROW(MS, PackedAttention, 1, EVER, OP_NONE, up_packed_attention),
    UP_ROW(MS, PackedMultiHeadAttention, 1, EVER, OP_NONE, up_packed_multi_head),
    UP_ROW(MS, RemovePadding, 1, EVER, OP_NONE, up_remove_padding),
    UP_ROW(MS, RestorePadding, 1, EVER, OP_NONE, up_restore_padding),
    UP_ROW(MS, RotaryEmbedding, 1, EVER, OP_NONE, up_rotary),
    {"", NULL, 0, 0, OP_NONE, NULL},
};
