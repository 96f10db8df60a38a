/* Operators lowered to others: SwiGLU, and those of com.microsoft that no optimiser has to write: distances, crops, biases of positions. */
#include <string.h>

#include "import/onnx/contrib.h"

static uint32_t mul(struct call *c, uint32_t a, uint32_t b)
{
    return call_value(c, OP_Mul, (uint32_t[]){a, b}, 2);
}

static uint32_t sub(struct call *c, uint32_t a, uint32_t b)
{
    return call_value(c, OP_Sub, (uint32_t[]){a, b}, 2);
}

static uint32_t to_float(struct call *c, uint32_t x)
{
    return contrib_cast(c, x, PEN_DTYPE_F32);
}

/* Distances of the rows of a [m, k] and b [n, k]. */
static void up_cdist(struct call *c)
{
    if (contrib_lacks(c, 2))
        return;
    uint32_t apart = sub(c, contrib_unsqueeze(c, call_input(c, 0), 1), contrib_unsqueeze(c, call_input(c, 1), 0));
    uint32_t y = call_value(c, OP_ReduceSumSquare, (uint32_t[]){apart, contrib_list(c, 2)}, 2);
    contrib_set_int(c, y, ATTR_keepdims, 0);
    bool root = !call_text_is(c, "metric", "sqeuclidean");
    (void)call_emit(c, root ? OP_Sqrt : OP_Identity, &y, 1, c->out, 1);
}

static void up_scaled_silu(struct call *c)
{
    if (contrib_lacks(c, 1))
        return;
    uint32_t x = call_input(c, 0), scale = call_input(c, 1);
    scale = scale == VALUE_NONE ? call_float_like(c, call_float(c, "alpha", 1.0f), x) : scale;
    uint32_t z = mul(c, x, scale);
    (void)call_emit(c, OP_Swish, &z, 1, c->out, 1);
}

/* swish(a) b: ONNX 28 */
static void up_swiglu(struct call *c)
{
    if (contrib_lacks(c, 2))
        return;
    uint32_t gate = call_value(c, OP_Swish, c->in, 1);
    if (c->status == PEN_OK)
        call_set_float(c, c->g->values[gate].producer, ATTR_alpha, call_float(c, "alpha", 1.0f));
    (void)call_emit(c, OP_Mul, (uint32_t[]){gate, call_input(c, 1)}, 2, c->out, 1);
}

static void up_gemm_fast_gelu(struct call *c)
{
    if (contrib_lacks(c, 2))
        return;
    uint32_t x = contrib_sum(c, call_value(c, OP_MatMul, c->in, 2), call_input(c, 2));
    uint32_t node = call_emit(c, OP_Gelu, &x, 1, c->out, 1);
    call_set_text(c, node, ATTR_approximate, "tanh");
}

/* softmax(x + bias) over all that stands from the axis on. */
static void up_bias_softmax(struct call *c)
{
    if (contrib_lacks(c, 2))
        return;
    uint32_t x = call_value(c, OP_Add, c->in, 2), shape = call_value(c, OP_Shape, &x, 1);
    x = call_value_axis(c, OP_Flatten, &x, 1, call_int(c, "axis", 1));
    x = call_value_axis(c, OP_Softmax, &x, 1, -1);
    (void)call_emit(c, OP_Reshape, (uint32_t[]){x, shape}, 2, c->out, 1);
}

/* x, weights, pads (constant), bias */
static void up_conv_transpose_pads(struct call *c)
{
    static const char *const except[] = {"pads", NULL};
    if (contrib_lacks(c, 2))
        return;
    uint32_t in[3] = {call_input(c, 0), call_input(c, 1), call_input(c, 3)}, pads = call_input(c, 2);
    uint32_t node = call_emit(c, OP_ConvTranspose, in, in[2] == VALUE_NONE ? 2 : 3, c->out, 1);
    call_copy_attrs(c, node, except);
    if (pads == VALUE_NONE || c->status != PEN_OK)
        return;
    const struct value *v = &c->g->values[pads];
    if (v->data && v->dtype == PEN_DTYPE_I64 && v->bytes <= 2 * PEN_MAX_RANK * sizeof(int64_t))
        c->status = graph_attr_ints(c->g, node, ATTR_pads, v->data, (uint32_t)(v->bytes / sizeof(int64_t)));
    else
        contrib_refuse(c, "pads must be a constant");
}

/* ---- crops ---------------------------------------------------------------------------------------------------------------- */

/*
 * Where the `count` samples of each box lie, as shares of the side: [boxes, count]. from, to: [boxes, 1]. Corners are aligned; one sample lies in the
 * middle.
 */
static uint32_t samples(struct call *c, uint32_t from, uint32_t to, int64_t count)
{
    if (count < 2)
        return mul(c, contrib_sum(c, from, to), contrib_f32(c, 0.5f));
    uint32_t steps = to_float(c, contrib_steps(c, contrib_scalar(c, count)));
    uint32_t pace = call_value(c, OP_Div, (uint32_t[]){sub(c, to, from), contrib_f32(c, (float)(count - 1))}, 2);
    return contrib_sum(c, from, mul(c, pace, steps));
}

/* Samples within the image: 0 <= share <= 1. */
static uint32_t inside(struct call *c, uint32_t shares)
{
    uint32_t low = call_value(c, OP_GreaterOrEqual, (uint32_t[]){shares, contrib_f32(c, 0.0f)}, 2);
    uint32_t high = call_value(c, OP_LessOrEqual, (uint32_t[]){shares, contrib_f32(c, 1.0f)}, 2);
    return call_value(c, OP_And, (uint32_t[]){low, high}, 2);
}

/* Grid [boxes, h, w, 2] of GridSample: x, y from -1 to 1. */
static uint32_t grid_of(struct call *c, uint32_t ys, uint32_t xs)
{
    uint32_t two = contrib_f32(c, 2.0f), one = contrib_f32(c, 1.0f);
    uint32_t y = contrib_unsqueeze(c, sub(c, mul(c, ys, two), one), 2);
    uint32_t x = contrib_unsqueeze(c, sub(c, mul(c, xs, two), one), 1);
    uint32_t zero = contrib_f32(c, 0.0f);
    uint32_t wide_x = contrib_sum(c, x, mul(c, y, zero)), wide_y = contrib_sum(c, y, mul(c, x, zero));
    return call_value_axis(c, OP_Concat, (uint32_t[]){contrib_unsqueeze(c, wide_x, 3), contrib_unsqueeze(c, wide_y, 3)},
                           2, 3);
}

/* x [n, channels, h, w], boxes [boxes, 4] (y1, x1, y2, x2 as shares), the image of each box, [crop h, crop w] */
static void up_crop_and_resize(struct call *c)
{
    if (contrib_lacks(c, 4))
        return;
    const struct value *size = &c->g->values[call_input(c, 3)];
    int32_t crop[2] = {0, 0};
    if (size->data && size->dtype == PEN_DTYPE_I32 && size->bytes == sizeof crop)
        memcpy(crop, size->data, sizeof crop);
    if (crop[0] < 1 || crop[1] < 1) {
        contrib_refuse(c, "the crop's size must be a constant of two positive numbers");
        return;
    }
    uint32_t side[4];
    for (int64_t i = 0; i < 4; i++)
        side[i] = contrib_unsqueeze(c, contrib_pick(c, call_input(c, 1), 1, i), 1);
    uint32_t ys = samples(c, side[0], side[2], crop[0]), xs = samples(c, side[1], side[3], crop[1]);
    uint32_t images = call_value_axis(c, OP_Gather, (uint32_t[]){call_input(c, 0), call_input(c, 2)}, 2, 0);
    uint32_t y = call_value(c, OP_GridSample, (uint32_t[]){images, grid_of(c, ys, xs)}, 2);
    contrib_set_int(c, y, ATTR_align_corners, 1);
    if (c->status == PEN_OK) {
        call_set_text(c, c->g->values[y].producer, ATTR_mode,
                      call_text_is(c, "mode", "nearest") ? "nearest" : "linear");
        call_set_text(c, c->g->values[y].producer, ATTR_padding_mode, "border");
    }
    const int64_t rows[2] = {1, 3}, columns[2] = {1, 2};
    uint32_t in_y = call_value(c, OP_Unsqueeze, (uint32_t[]){inside(c, ys), call_i64(c, rows, 2, false)}, 2);
    uint32_t in_x = call_value(c, OP_Unsqueeze, (uint32_t[]){inside(c, xs), call_i64(c, columns, 2, false)}, 2);
    uint32_t both = call_value(c, OP_And, (uint32_t[]){in_y, in_x}, 2);
    uint32_t other = contrib_f32(c, call_float(c, "extrapolation_value", 0.0f));
    (void)call_emit(c, OP_Where, (uint32_t[]){both, y, other}, 3, c->out, 1);
}

/* ---- biases of positions ------------------------------------------------------------------------------------------------------ */

/* T5's buckets of distances [queries, keys], as floats: exact up to half of them, then by their logarithm. buckets: for one direction. */
static uint32_t bucket_of(struct call *c, uint32_t distance, int64_t buckets, int64_t most)
{
    float exact = (float)(buckets / 2), rest = (float)(buckets - buckets / 2);
    uint32_t first = contrib_f32(c, exact), one = contrib_f32(c, 1.0f);
    uint32_t far = call_value(c, OP_Max, (uint32_t[]){distance, one}, 2);
    uint32_t ratio = call_value(c, OP_Div, (uint32_t[]){far, first}, 2);
    uint32_t whole = contrib_f32(c, (float)most / exact);
    ratio = call_value(c, OP_Div, (uint32_t[]){call_value(c, OP_Log, &ratio, 1), call_value(c, OP_Log, &whole, 1)}, 2);
    ratio = mul(c, ratio, contrib_f32(c, rest));
    uint32_t large = contrib_sum(c, first, call_value(c, OP_Floor, &ratio, 1));
    large = call_value(c, OP_Min, (uint32_t[]){large, contrib_f32(c, (float)(buckets - 1))}, 2);
    uint32_t near = call_value(c, OP_Less, (uint32_t[]){distance, first}, 2);
    return call_value(c, OP_Where, (uint32_t[]){near, distance, large}, 3);
}

/* table (buckets, heads), stored by columns: [heads, buckets]; number of queries, of keys -> [1, heads, queries, keys] */
static void up_relative_position_bias(struct call *c)
{
    int64_t most = call_int(c, "max_distance", 0);
    bool both = call_int(c, "is_bidirectional", 0) != 0;
    if (contrib_lacks(c, 3))
        return;
    struct shape s = call_shape(c, call_input(c, 0));
    int64_t buckets = s.rank == 2 ? s.dim[0] : 0, heads = s.rank == 2 ? s.dim[1] : 0,
            each = both ? buckets / 2 : buckets;
    if (heads < 1 || each < 2 || most <= each / 2) {
        contrib_refuse(c, "a table of known shape and a larger max_distance are needed");
        return;
    }
    uint32_t queries = contrib_reshape(c, contrib_cast(c, call_input(c, 1), PEN_DTYPE_I64), NULL, 0);
    uint32_t keys = contrib_reshape(c, contrib_cast(c, call_input(c, 2), PEN_DTYPE_I64), NULL, 0);
    uint32_t at = contrib_unsqueeze(c, to_float(c, contrib_steps(c, queries)), 1), zero = contrib_f32(c, 0.0f);
    uint32_t ahead = sub(c, to_float(c, contrib_steps(c, keys)), at); /* key - query */
    uint32_t distance =
        both ? call_value(c, OP_Abs, &ahead, 1) : call_value(c, OP_Max, (uint32_t[]){sub(c, zero, ahead), zero}, 2);
    uint32_t bucket = bucket_of(c, distance, each, most);
    if (both) {
        uint32_t right = to_float(c, call_value(c, OP_Greater, (uint32_t[]){ahead, zero}, 2));
        bucket = contrib_sum(c, bucket, mul(c, right, contrib_f32(c, (float)each)));
    }
    const int64_t turned[2] = {heads, buckets};
    uint32_t table = contrib_reshape(c, call_input(c, 0), turned, 2);
    uint32_t bias = call_value_axis(c, OP_Gather, (uint32_t[]){table, contrib_cast(c, bucket, PEN_DTYPE_I64)}, 2, 1);
    contrib_give(c, contrib_unsqueeze(c, bias, 0), 0);
}

/* query [batch, length, heads * size], its bias, positions [1, heads, length, length], gate weights [size, d] and bias [d], eco_a [1, heads, 1, 1] */
static void up_gated_position_bias(struct call *c)
{
    const int64_t apart[4] = {0, 0, call_int(c, "num_heads", 0), -1}, perm[4] = {0, 2, 1, 3},
                  pairs[5] = {0, 0, 0, 2, -1};
    if (contrib_lacks(c, 6))
        return;
    if (call_input(c, 6) != VALUE_NONE) {
        contrib_refuse(c, "queries without padding are not supported");
        return;
    }
    uint32_t q = contrib_reshape(c, contrib_sum(c, call_input(c, 0), call_input(c, 1)), apart, 4);
    q = call_value(c, OP_MatMul, (uint32_t[]){contrib_transpose(c, q, perm, 4), call_input(c, 3)}, 2);
    q = contrib_reshape(c, contrib_sum(c, q, call_input(c, 4)), pairs, 5);
    uint32_t gate =
        call_value(c, OP_ReduceSum, (uint32_t[]){q, contrib_list(c, 4)}, 2); /* [batch, heads, length, 2, 1] */
    gate = call_value(c, OP_Sigmoid, &gate, 1);
    uint32_t u = contrib_pick(c, gate, 3, 0), r = contrib_pick(c, gate, 3, 1);
    uint32_t scale = mul(c, u, sub(c, mul(c, r, call_input(c, 5)), contrib_f32(c, 1.0f)));
    scale = contrib_sum(c, scale, contrib_f32(c, 2.0f));
    (void)call_emit(c, OP_Mul, (uint32_t[]){scale, call_input(c, 2)}, 2, c->out, 1);
}

/* PyTorch's own operator: rows of a table. The inputs behind these two matter when it is trained. */
static void up_torch_embedding(struct call *c)
{
    if (!contrib_lacks(c, 2))
        (void)call_emit(c, OP_Gather, c->in, 2, c->out, 1);
}

const struct op_row rows_lowered[] = {
    UP_ROW(MS, TorchEmbedding, 1, EVER, OP_NONE, up_torch_embedding),
    UP_ROW(MS, CDist, 1, EVER, OP_NONE, up_cdist),
    UP_ROW(MS, ScaledSiLU, 1, EVER, OP_NONE, up_scaled_silu),
    UP_ROW("", SwiGLU, 28, EVER, OP_NONE, up_swiglu),
    UP_ROW(MS, GemmFastGelu, 1, EVER, OP_NONE, up_gemm_fast_gelu),
    UP_ROW(MS, BiasSoftmax, 1, EVER, OP_NONE, up_bias_softmax),
    UP_ROW(MS, ConvTransposeWithDynamicPads, 1, EVER, OP_NONE, up_conv_transpose_pads),
    UP_ROW(MS, CropAndResize, 1, EVER, OP_NONE, up_crop_and_resize),
    UP_ROW(MS, RelativePositionBias, 1, EVER, OP_NONE, up_relative_position_bias),
    UP_ROW(MS, GatedRelativePositionBias, 1, EVER, OP_NONE, up_gated_position_bias),
    {"", NULL, 0, 0, OP_NONE, NULL},
};
