/* More of com.microsoft: group norms, gates, forms of other layouts, and older names of what the standard has now. */
#include "import/onnx/contrib.h"

static const int64_t middle_axes[2] = {1, 2};

/* ---- group norms -------------------------------------------------------------------------------------------------------- */

/* GroupNormalization of four dims, channels last unless told otherwise, and a Swish behind it when activation is 1. */
static void finish_group_norm(struct call *c, uint32_t x, uint32_t scale, uint32_t bias)
{
    static const int64_t to_first[4] = {0, 3, 1, 2}, to_last[4] = {0, 2, 3, 1};
    bool last = call_int(c, "channels_last", 1) != 0, swish = call_int(c, "activation", 0) != 0;
    uint32_t in[3] = {last ? contrib_transpose(c, x, to_first, 4) : x, scale, bias};
    uint32_t y = call_value(c, OP_GroupNormalization, in, 3);
    contrib_set_int(c, y, ATTR_num_groups, call_int(c, "groups", 1));
    if (c->status == PEN_OK)
        call_set_float(c, c->g->values[y].producer, ATTR_epsilon, call_float(c, "epsilon", 1e-5f));
    y = last ? contrib_transpose(c, y, to_last, 4) : y;
    (void)call_emit(c, swish ? OP_Swish : OP_Identity, &y, 1, c->out, 1);
}

static void up_ms_group_norm(struct call *c)
{
    if (!contrib_lacks(c, 3))
        finish_group_norm(c, call_input(c, 0), call_input(c, 1), call_input(c, 2));
}

/* The skip may be [batch, 1, 1, channels], or [batch, channels]; output 1 is the sum. */
static void up_skip_group_norm(struct call *c)
{
    if (contrib_lacks(c, 4))
        return;
    uint32_t skip = call_input(c, 3);
    if (contrib_rank(c, 3) == 2)
        skip = call_value(c, OP_Unsqueeze, (uint32_t[]){skip, call_i64(c, middle_axes, 2, false)}, 2);
    uint32_t sum = contrib_sum(c, contrib_sum(c, call_input(c, 0), skip), call_input(c, 4));
    if (call_wants(c, 1))
        (void)call_emit(c, OP_Identity, &sum, 1, &c->out[1], 1);
    finish_group_norm(c, sum, call_input(c, 1), call_input(c, 2));
}

/* ---- the rest -------------------------------------------------------------------------------------------------------------- */

/* left * gelu(right) of the halves of x + bias. */
static void up_bias_split_gelu(struct call *c)
{
    uint32_t half[2] = {VALUE_NONE, VALUE_NONE};
    if (contrib_lacks(c, 2))
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
    if (!contrib_lacks(c, 3))
        (void)call_emit(c, OP_Add, (uint32_t[]){call_value(c, OP_Add, c->in, 2), c->in[2]}, 2, c->out, 1);
}

static void up_nhwc(struct call *c)
{
    contrib_whole(c, bytes_are(c->op_type, "NhwcMaxPool") ? OP_MaxPool : OP_Conv);
    if (c->status == PEN_OK)
        call_set_int(c, c->g->node_count - 1, ATTR_layout, LAYOUT_NHWC);
}

/* ---- names that the standard has by now -------------------------------------------------------------------------------- */

static void up_trilu(struct call *c)
{
    contrib_whole(c, OP_Trilu);
}

/* Values in the order of their first places, where each item is found, how often. */
static void up_unique(struct call *c)
{
    uint32_t out[4] = {VALUE_NONE, VALUE_NONE, VALUE_NONE, VALUE_NONE};
    if (contrib_lacks(c, 1))
        return;
    out[0] = c->out[0];
    out[2] = call_wants(c, 1) ? c->out[1] : VALUE_NONE;
    out[3] = call_wants(c, 2) ? c->out[2] : VALUE_NONE;
    uint32_t node = call_emit(c, OP_Unique, c->in, 1, out, 4);
    call_set_int(c, node, ATTR_sorted, 0);
}

static void up_expand_dims(struct call *c)
{
    static const int64_t flat[1] = {-1};
    if (contrib_lacks(c, 2))
        return;
    uint32_t axis = contrib_reshape(c, contrib_cast(c, call_input(c, 1), PEN_DTYPE_I64), flat, 1);
    (void)call_emit(c, OP_Unsqueeze, (uint32_t[]){call_input(c, 0), axis}, 2, c->out, 1);
}

/* The three numbers may be lists of one; a step that is left out is 1. */
static void up_range(struct call *c)
{
    if (contrib_lacks(c, 2))
        return;
    uint32_t in[3];
    for (uint32_t i = 0; i < 3; i++) {
        bool given = call_input(c, i) != VALUE_NONE;
        in[i] = given ? contrib_reshape(c, call_input(c, i), NULL, 0)
                      : call_value(c, OP_CastLike, (uint32_t[]){contrib_scalar(c, 1), call_input(c, 0)}, 2);
    }
    (void)call_emit(c, OP_Range, in, 3, c->out, 1);
}

/* pads may be [1, n], the value [1]. */
static void up_ms_pad(struct call *c)
{
    static const int64_t flat[1] = {-1};
    if (contrib_lacks(c, 2))
        return;
    bool valued = call_input(c, 2) != VALUE_NONE;
    uint32_t in[3] = {call_input(c, 0), contrib_reshape(c, call_input(c, 1), flat, 1), VALUE_NONE};
    if (valued)
        in[2] = contrib_reshape(c, call_input(c, 2), NULL, 0);
    uint32_t node = call_emit(c, OP_Pad, in, valued ? 3 : 2, c->out, 1);
    call_copy_attrs(c, node, NULL);
}

static void up_ms_grid_sample(struct call *c)
{
    contrib_whole(c, OP_GridSample);
    if (c->status == PEN_OK)
        call_set_text(c, c->g->node_count - 1, ATTR_mode,
                      call_text_is(c, "mode", "nearest")   ? "nearest"
                      : call_text_is(c, "mode", "bicubic") ? "cubic"
                                                           : "linear");
}

const struct op_row rows_contrib[] = {
    UP_ROW(MS, Trilu, 1, EVER, OP_NONE, up_trilu),
    UP_ROW(MS, Unique, 1, EVER, OP_NONE, up_unique),
    UP_ROW(MS, ExpandDims, 1, EVER, OP_NONE, up_expand_dims),
    UP_ROW(MS, Range, 1, EVER, OP_NONE, up_range),
    UP_ROW(MS, Pad, 1, EVER, OP_NONE, up_ms_pad),
    UP_ROW(MS, GridSample, 1, EVER, OP_NONE, up_ms_grid_sample),
    UP_SAME(MS, GatherND, 1, EVER, OP_GatherND),
    UP_SAME(MS, Inverse, 1, EVER, OP_Inverse),
    UP_SAME(MS, MurmurHash3, 1, EVER, OP_MurmurHash3),
    UP_SAME(MS, SampleOp, 1, EVER, OP_Identity),
    UP_ROW(MS, GroupNorm, 1, EVER, OP_NONE, up_ms_group_norm),
    UP_ROW(MS, SkipGroupNorm, 1, EVER, OP_NONE, up_skip_group_norm),
    UP_ROW(MS, BiasSplitGelu, 1, EVER, OP_NONE, up_bias_split_gelu),
    UP_ROW(MS, BiasAdd, 1, EVER, OP_NONE, up_bias_add),
    UP_ROW(MS, NhwcMaxPool, 1, EVER, OP_NONE, up_nhwc),
    UP_ROW(MS, NhwcConv, 1, EVER, OP_NONE, up_nhwc),
    UP_SAME(MS, QuantizeLinear, 1, EVER, OP_QuantizeLinear),
    UP_SAME(MS, DequantizeLinear, 1, EVER, OP_DequantizeLinear),
    {"", NULL, 0, 0, OP_NONE, NULL},
};
