/* com.microsoft operators on bytes and on weights of few bits, as the parts that the standard and our own operators have. */
#include <string.h>

#include "graph/askew.h"
#include "import/onnx/contrib.h"

static uint32_t quantise(struct call *c, uint32_t x, uint32_t scale, uint32_t zero)
{
    return call_value(c, OP_QuantizeLinear, (uint32_t[]){x, scale, zero}, zero == VALUE_NONE ? 2 : 3);
}

/* Input `index` with its scale and zero point behind it, as floats. */
static uint32_t real_input(struct call *c, uint32_t index)
{
    return contrib_dequantise(c, call_input(c, index), call_input(c, index + 1), call_input(c, index + 2), 0);
}

/* ---- element-wise, pools ------------------------------------------------------------------------------------------------- */

/* condition, x, x_scale, x_zero, y, y_scale, y_zero, z_scale, z_zero: both sides get z's parameters, then bytes are chosen. */
static void up_where(struct call *c)
{
    if (contrib_lacks(c, 9))
        return;
    uint32_t x = quantise(c, real_input(c, 1), call_input(c, 7), call_input(c, 8));
    uint32_t y = quantise(c, real_input(c, 4), call_input(c, 7), call_input(c, 8));
    (void)call_emit(c, OP_Where, (uint32_t[]){call_input(c, 0), x, y}, 3, c->out, 1);
}

/* data, scale, zero, reduced scale, reduced zero */
static void up_reduce_mean(struct call *c)
{
    const int64_t *axes;
    uint32_t count = 0, in[2] = {VALUE_NONE, VALUE_NONE};
    if (call_input(c, 0) == VALUE_NONE || call_input(c, 1) == VALUE_NONE || call_input(c, 3) == VALUE_NONE) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) lacks data or scales", c->name, c->origin);
        return;
    }
    in[0] = real_input(c, 0);
    if (call_ints(c, "axes", &axes, &count) && count > 0)
        in[1] = call_i64(c, axes, count, false);
    uint32_t mean = call_value(c, OP_ReduceMean, in, in[1] == VALUE_NONE ? 1 : 2);
    contrib_set_int(c, mean, ATTR_keepdims, call_int(c, "keepdims", 1));
    uint32_t last[3] = {mean, call_input(c, 3), call_input(c, 4)};
    (void)call_emit(c, OP_QuantizeLinear, last, last[2] == VALUE_NONE ? 2 : 3, c->out, 1);
}

/* Pools and convolutions with channels behind. */
static void channels_last(struct call *c, enum op op)
{
    static const char *const except[] = {"channels_last", NULL};
    uint32_t node = call_emit(c, op, c->in, c->in_count, c->out, c->out_count);
    call_copy_attrs(c, node, except);
    if (call_int(c, "channels_last", 0) != 0)
        call_set_int(c, node, ATTR_layout, LAYOUT_NHWC);
}

static void up_average_pool(struct call *c)
{
    channels_last(c, OP_QLinearAveragePool);
}

static void up_global_average_pool(struct call *c)
{
    channels_last(c, OP_QLinearGlobalAveragePool);
}

static void up_conv(struct call *c)
{
    channels_last(c, OP_QLinearConv);
}

/* Of opsets before 13: a matrix cut at the axis, as the float operator was. */
static void up_softmax(struct call *c)
{
    static const char *const except[] = {"opset", "axis", NULL};
    int64_t axis = call_int(c, "axis", -1);
    if (contrib_lacks(c, 1))
        return;
    if (call_int(c, "opset", 13) >= 13 || axis == -1) {
        contrib_whole(c, OP_QLinearSoftmax);
        return;
    }
    uint32_t in[5] = {call_input(c, 0), call_input(c, 1), call_input(c, 2), call_input(c, 3), call_input(c, 4)};
    uint32_t shape = call_value(c, OP_Shape, in, 1);
    in[0] = call_value_axis(c, OP_Flatten, in, 1, axis);
    uint32_t y = call_value_axis(c, OP_QLinearSoftmax, in, 5, -1);
    if (c->status == PEN_OK)
        call_copy_attrs(c, c->g->values[y].producer, except);
    (void)call_emit(c, OP_Reshape, (uint32_t[]){y, shape}, 2, c->out, 1);
}

/* ---- products ---------------------------------------------------------------------------------------------------------------- */

/* Sums that stay floats: (a b + c) * a_scale * b_scale. a and b are in order here. */
static void gemm_to_float(struct call *c, uint32_t a, uint32_t b)
{
    uint32_t in[4] = {a, b, call_input(c, 2), call_input(c, 5)};
    uint32_t count = in[3] != VALUE_NONE ? 4 : in[2] != VALUE_NONE ? 3 : 2;
    uint32_t sums = contrib_sum(c, call_value(c, OP_MatMulInteger, in, count), call_input(c, 6));
    uint32_t scale = call_value(c, OP_Mul, (uint32_t[]){call_input(c, 1), call_input(c, 4)}, 2);
    (void)call_emit(c, OP_Mul, (uint32_t[]){contrib_cast(c, sums, PEN_DTYPE_F32), scale}, 2, c->out, 1);
}

/* a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero */
static void up_gemm(struct call *c)
{
    static const char *const except[] = {"transA", "transB", NULL};
    static const int64_t turn[2] = {1, 0};
    if (contrib_lacks(c, 2) || call_input(c, 3) == VALUE_NONE || call_float(c, "alpha", 1.0f) != 1.0f) {
        if (c->status == PEN_OK)
            contrib_whole(c, OP_QGemm);
        return;
    }
    uint32_t in[9];
    for (uint32_t i = 0; i < 9; i++)
        in[i] = call_input(c, i);
    in[0] = call_int(c, "transA", 0) != 0 ? contrib_transpose(c, in[0], turn, 2) : in[0];
    in[3] = call_int(c, "transB", 0) != 0 ? contrib_transpose(c, in[3], turn, 2) : in[3];
    if (in[7] == VALUE_NONE) {
        gemm_to_float(c, in[0], in[3]);
        return;
    }
    uint32_t node = call_emit(c, OP_QGemm, in, in[8] == VALUE_NONE ? 8 : 9, c->out, 1);
    call_copy_attrs(c, node, except);
}

static void up_dynamic_quantize_matmul(struct call *c)
{
    uint32_t made[3];
    if (contrib_lacks(c, 3))
        return;
    contrib_dynamic_bytes(c, call_input(c, 0), made);
    const uint32_t in[4] = {made[0], call_input(c, 1), made[2], call_input(c, 3)};
    contrib_give(c, contrib_product(c, in, made[1], call_input(c, 2), call_input(c, 4)), 0);
}

static void up_matmul_integer_to_float(struct call *c)
{
    if (contrib_lacks(c, 4))
        return;
    const uint32_t in[4] = {call_input(c, 0), call_input(c, 1), call_input(c, 4), call_input(c, 5)};
    contrib_give(c, contrib_product(c, in, call_input(c, 2), call_input(c, 3), call_input(c, 6)), 0);
}

/* 16-bit integers, sums of 32 bits. */
static void up_matmul_integer16(struct call *c)
{
    if (contrib_lacks(c, 2))
        return;
    uint32_t in[2] = {contrib_cast(c, call_input(c, 0), PEN_DTYPE_I32),
                      contrib_cast(c, call_input(c, 1), PEN_DTYPE_I32)};
    (void)call_emit(c, OP_MatMul, in, 2, c->out, 1);
}

/* ---- weights of few bits ------------------------------------------------------------------------------------------------------ */

/* The 16 numbers that bitsandbytes' codes stand for: FP4 (sign, 2 bits exponent, 1 bit mantissa, its own order) and NF4 (quantiles of the normal distribution). */
static const float fp4[16] = {0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
                              -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f};
static const float nf4[16] = {-1.0f,
                              -0.6961928009986877f,
                              -0.5250730514526367f,
                              -0.39491748809814453f,
                              -0.28444138169288635f,
                              -0.18477343022823334f,
                              -0.09105003625154495f,
                              0.0f,
                              0.07958029955625534f,
                              0.16093020141124725f,
                              0.24611230194568634f,
                              0.33791524171829224f,
                              0.44070982933044434f,
                              0.5626170039176941f,
                              0.7229568362236023f,
                              1.0f};

/* codes of [n, k], high bits first, times the largest of their block, as f32: [k, n] when turned, else [n, k]. */
static uint32_t bnb_weights(struct call *c, int64_t n, int64_t k, bool turned)
{
    const struct value *codes = &c->g->values[call_input(c, 1)], *most = &c->g->values[call_input(c, 2)];
    int64_t block = call_int(c, "block_size", 0), count = n * k;
    const float *book = call_int(c, "quant_type", 0) == 0 ? fp4 : nf4;
    uint32_t id = VALUE_NONE;
    if (!codes->data || !most->data || most->dtype != PEN_DTYPE_F32 || codes->dtype != PEN_DTYPE_U8 || block < 1 ||
        codes->bytes != (size_t)(count + 1) / 2 ||
        most->bytes / sizeof(float) != (size_t)((count + block - 1) / block)) {
        contrib_refuse(c, "constant codes and f32 scales that fit N, K and block_size are needed");
        return id;
    }
    float *to = graph_alloc_data(c->g, (size_t)count * sizeof *to);
    for (int64_t i = 0; to && i < count; i++) {
        unsigned pair = ((const uint8_t *)codes->data)[i / 2], code = i % 2 == 0 ? pair >> 4 : pair & 15u;
        float scale;
        memcpy(&scale, (const char *)most->data + (size_t)(i / block) * sizeof scale, sizeof scale);
        to[turned ? i % k * n + i / k : i] = book[code] * scale;
    }
    struct shape shape = shape_of(2, (const int64_t[]){turned ? k : n, turned ? n : k});
    if (to)
        c->status = graph_constant(c->g, NULL, PEN_DTYPE_F32, &shape, to, (size_t)count * sizeof *to, false, &id);
    else
        call_fail(c, PEN_ERR_NO_MEMORY, "no memory for the weights of node %s", c->name);
    return id;
}

static void up_matmul_bnb4(struct call *c)
{
    int64_t n = call_int(c, "N", 0), k = call_int(c, "K", 0);
    if (contrib_lacks(c, 3))
        return;
    if (n < 1 || k < 1 || n > INT32_MAX || k > INT32_MAX) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) needs N and K", c->name, c->origin);
        return;
    }
    uint32_t w = bnb_weights(c, n, k, call_int(c, "transB", 1) != 0);
    (void)call_emit(c, OP_MatMul, (uint32_t[]){call_input(c, 0), w}, 2, c->out, 1);
}

/* Zero points for codes whose file has none: the middle of their range, as many as there are scales. */
static uint32_t middle_zeros(struct call *c, uint32_t scales, int64_t bits)
{
    const struct value *s = scales == VALUE_NONE ? NULL : &c->g->values[scales];
    int64_t count = s && shape_known(&s->shape) ? shape_elements(&s->shape) : -1;
    uint32_t id = VALUE_NONE;
    if (count < 1) {
        contrib_refuse(c, "the file must say the shape of its scales");
        return id;
    }
    size_t bytes = (size_t)((count * bits + 7) / 8);
    uint8_t *to = graph_alloc(c->g, bytes);
    if (!to) {
        call_fail(c, PEN_ERR_NO_MEMORY, "no memory for the zero points of node %s", c->name);
        return id;
    }
    memset(to, bits == 2 ? 0xaa : bits == 4 ? 0x88 : 0x80, bytes);
    enum pen_dtype dtype = bits == 2 ? PEN_DTYPE_U2 : bits == 4 ? PEN_DTYPE_U4 : PEN_DTYPE_U8;
    c->status = graph_constant(c->g, NULL, dtype, &s->shape, to, bytes, false, &id);
    return id;
}

/* Codes and zero points of whole bytes become elements of `bits`. scales: [..., blocks of a row]. */
static bool codes_read(struct call *c, int64_t bits, int64_t block, uint32_t *codes, uint32_t scales, uint32_t *zeros)
{
    const struct value *data = &c->g->values[*codes];
    int64_t row = data->shape.rank > 0 ? data->shape.dim[data->shape.rank - 1] * 8 / (bits > 0 ? bits : 8) : 0;
    if (row < 1 || block < 1 || (bits != 2 && bits != 4 && bits != 8)) {
        contrib_refuse(c, "codes of 2, 4 or 8 bits in blocks are needed");
        return false;
    }
    *codes = contrib_unpack(c, *codes, bits, row);
    *zeros = *zeros == VALUE_NONE ? middle_zeros(c, scales, bits)
                                  : contrib_unpack(c, *zeros, bits, (row + block - 1) / block);
    return c->status == PEN_OK;
}

/* Rows of a table of blocks: data, scales and zero points are gathered alike, then made floats. */
static void up_gather_blocks(struct call *c)
{
    if (contrib_lacks(c, 3))
        return;
    uint32_t parts[3] = {call_input(c, 0), call_input(c, 2), call_input(c, 3)};
    int32_t rank = contrib_rank(c, 0), indices = contrib_rank(c, 1);
    int64_t from = call_int(c, "gather_axis", 0), along = call_int(c, "quantize_axis", 1);
    int64_t block = call_int(c, "block_size", 128);
    from = from < 0 ? from + rank : from;
    along = along < 0 ? along + rank : along;
    bool packed = c->g->values[parts[0]].dtype == PEN_DTYPE_U8;
    if (rank < 1 || indices < 0 || from < 0 || from >= rank || along < 0 || along >= rank || from == along ||
        (packed && along != rank - 1)) {
        contrib_refuse(c, "known shapes, and blocks along another axis than the gathered one, are needed");
        return;
    }
    if (packed && !codes_read(c, call_int(c, "bits", 4), block, &parts[0], parts[1], &parts[2]))
        return;
    for (uint32_t i = 0; i < 3; i++) {
        if (parts[i] != VALUE_NONE)
            parts[i] = call_value_axis(c, OP_Gather, (uint32_t[]){parts[i], call_input(c, 1)}, 2, from);
    }
    uint32_t node = call_emit(c, OP_DequantizeLinear, parts, parts[2] == VALUE_NONE ? 2 : 3, c->out, 1);
    call_set_int(c, node, ATTR_axis, along + (along > from ? indices - 1 : 0));
    call_set_int(c, node, ATTR_block_size, block);
}

/* ---- recurrent, embedding ---------------------------------------------------------------------------------------------------- */

static const struct value *constant_of(struct call *c, uint32_t index)
{
    uint32_t value = call_input(c, index);
    const struct value *v = value == VALUE_NONE ? NULL : &c->g->values[value];
    return v && v->data && shape_known(&v->shape) && graph_align(c->g, value) == PEN_OK ? v : NULL;
}

/* Constant weights of signed bytes without a zero point, with the scales that they came with: a backend may multiply the bytes. Else VALUE_NONE. */
static uint32_t gates_known(struct call *c, uint32_t weights, uint32_t params)
{
    const struct value *w = constant_of(c, weights), *scale = constant_of(c, params),
                       *zero = constant_of(c, params + 1);
    uint32_t y = VALUE_NONE;
    if (!w || w->dtype != PEN_DTYPE_I8 || w->shape.rank != 3 || !scale || scale->dtype != PEN_DTYPE_F32 ||
        (call_input(c, params + 1) != VALUE_NONE && !zero))
        return VALUE_NONE;
    const int64_t d = w->shape.dim[0], k = w->shape.dim[1], n = w->shape.dim[2], scales = shape_elements(&scale->shape);
    const bool wide = scale->shape.rank == 2, fits = wide ? d == 1 && scales == n : scales == d;
    for (size_t i = 0; zero && i < zero->bytes; i++) {
        if (((const uint8_t *)zero->data)[i] != 0)
            return VALUE_NONE;
    }
    const size_t bytes = (size_t)(d * k * n) * sizeof(float);
    float *to = fits && d * k * n > 0 ? graph_alloc_data(c->g, bytes + 64) : NULL;
    int32_t *zeros = to ? graph_alloc(c->g, (size_t)scales * sizeof *zeros) : NULL;
    if (!zeros)
        return VALUE_NONE;
    const int8_t *from = w->data;
    const float *s = scale->data;
    for (int64_t i = 0; i < d * k * n; i++) {
        const int64_t column = i % n, direction = i / n / k;
        to[(direction * n + column) * k + i / n % k] = (float)from[i] * s[wide ? column : direction];
    }
    const struct quant quant = {.count = (uint32_t)scales, .axis = wide ? 1 : 0, .scale = s, .zero_point = zeros};
    const struct shape shape = shape_of(3, (int64_t[]){d, n, k});
    c->status = graph_constant(c->g, NULL, PEN_DTYPE_F32, &shape, to, bytes, false, &y);
    if (c->status == PEN_OK)
        c->g->values[y].quant = quant;
    return c->status == PEN_OK ? y : VALUE_NONE;
}

/* Weights [directions, in, 4 * hidden] of bytes as floats [directions, 4 * hidden, in]; one scale for each direction, or for each of its columns. */
static uint32_t gates_read(struct call *c, uint32_t weights, uint32_t params)
{
    static const int64_t perm[3] = {0, 2, 1}, one[3] = {-1, 1, 1}, columns[3] = {0, 1, -1};
    uint32_t scale = call_input(c, params), zero = call_input(c, params + 1);
    bool wide = contrib_rank(c, params) == 2;
    uint32_t known = gates_known(c, weights, params);
    if (known != VALUE_NONE)
        return known;
    uint32_t w = contrib_cast(c, call_input(c, weights), PEN_DTYPE_F32);
    if (zero != VALUE_NONE) {
        zero = contrib_reshape(c, contrib_cast(c, zero, PEN_DTYPE_F32), wide ? columns : one, 3);
        w = call_value(c, OP_Sub, (uint32_t[]){w, zero}, 2);
    }
    w = call_value(c, OP_Mul, (uint32_t[]){w, contrib_reshape(c, scale, wide ? columns : one, 3)}, 2);
    return contrib_transpose(c, w, perm, 3);
}

/* x with zeros in the steps that no sequence has: they do not count for the range of its bytes. */
static uint32_t steps_kept(struct call *c, uint32_t x, uint32_t lengths)
{
    static const int64_t column[3] = {-1, 1, 1};
    if (lengths == VALUE_NONE)
        return x;
    uint32_t most = contrib_cast(c, lengths, PEN_DTYPE_F32);
    most = call_value(c, OP_ReduceMax, (uint32_t[]){most, contrib_list(c, 0)}, 2);
    uint32_t at = contrib_cast(c, contrib_steps(c, contrib_dim(c, x, 0)), PEN_DTYPE_F32);
    uint32_t kept = contrib_reshape(c, call_value(c, OP_Less, (uint32_t[]){at, most}, 2), column, 3);
    return call_value(c, OP_Where, (uint32_t[]){kept, x, contrib_f32(c, 0.0f)}, 3);
}

/* x, w, r, b, lengths, h, c, p, w_scale, w_zero, r_scale, r_zero: x is rounded to bytes as a whole, the hidden state at each step. */
static void up_dynamic_lstm(struct call *c)
{
    uint32_t in[8];
    if (contrib_lacks(c, 3) || call_input(c, 8) == VALUE_NONE || call_input(c, 10) == VALUE_NONE) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) lacks weights or scales", c->name, c->origin);
        return;
    }
    in[0] = steps_kept(c, call_input(c, 0), call_input(c, 4));
    in[1] = gates_read(c, 1, 8);
    in[2] = gates_read(c, 2, 10);
    for (uint32_t i = 3; i < 8; i++)
        in[i] = call_input(c, i);
    uint32_t count = 8;
    while (count > 3 && in[count - 1] == VALUE_NONE)
        count--;
    uint32_t node = call_emit(c, OP_LSTM, in, count, c->out, c->out_count);
    call_copy_attrs(c, node, NULL);
    call_set_int(c, node, ATTR_rounded_state, ROUNDED_ALL);
}

/* Rows of a table of bytes, as floats. */
static uint32_t rows_of(struct call *c, uint32_t table, uint32_t ids, uint32_t scale, uint32_t zero)
{
    uint32_t rows = call_value_axis(c, OP_Gather, (uint32_t[]){call_input(c, table), ids}, 2, 0);
    return contrib_dequantise(c, rows, call_input(c, scale), call_input(c, zero), 0);
}

/*
 * ids, segments, tables of words, positions and segments, gain, bias, mask, then scales of words, positions, segments, gain and bias, and their zero
 * points.
 */
static void up_embed(struct call *c)
{
    static const uint32_t needed[] = {0, 2, 3, 5, 6, 8, 9, 11, 12};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (call_input(c, needed[i]) == VALUE_NONE)
            call_fail(c, PEN_ERR_INVALID, "node %s (%s) lacks input %u", c->name, c->origin, needed[i]);
    }
    if (c->status != PEN_OK || !call_wants(c, 0))
        return;
    uint32_t ids = call_input(c, 0), steps = contrib_steps(c, contrib_dim(c, ids, 1));
    uint32_t sum = contrib_sum(c, rows_of(c, 2, ids, 8, 13), rows_of(c, 3, steps, 9, 14));
    if (call_input(c, 1) != VALUE_NONE && call_input(c, 4) != VALUE_NONE)
        sum = contrib_sum(c, sum, rows_of(c, 4, call_input(c, 1), 10, 15));
    uint32_t gain = contrib_dequantise(c, call_input(c, 5), call_input(c, 11), call_input(c, 16), 0);
    uint32_t bias = contrib_dequantise(c, call_input(c, 6), call_input(c, 12), call_input(c, 17), 0);
    uint32_t node = call_emit(c, OP_LayerNormalization, (uint32_t[]){sum, gain, bias}, 3, c->out, 1);
    call_set_int(c, node, ATTR_axis, -1);
    call_set_float(c, node, ATTR_epsilon, call_float(c, "epsilon", 1e-12f));
    contrib_mask_index(c, ids, call_input(c, 7));
}

/* ---- experts ------------------------------------------------------------------------------------------------------------------ */

/* Constant scales [experts, rows] as [experts, rows, 1]. */
static uint32_t scales_by_row(struct call *c, uint32_t scales)
{
    const struct value *s = &c->g->values[scales];
    struct shape shape = s->shape;
    uint32_t id = VALUE_NONE;
    shape.dim[shape.rank++] = 1;
    if (!s->data)
        contrib_refuse(c, "scales must be constants");
    else
        c->status = graph_constant(c->g, NULL, s->dtype, &shape, s->data, s->bytes, false, &id);
    return id;
}

/* Codes [experts, out, in] of few bits with a scale for each row, or for each block of it, as floats. */
static uint32_t expert_weights(struct call *c, uint32_t codes, uint32_t scales, uint32_t zeros, int64_t bits)
{
    int64_t block = call_int(c, "block_size", 0);
    const struct value *data = codes == VALUE_NONE ? NULL : &c->g->values[codes];
    if (!data || scales == VALUE_NONE) {
        if (codes != VALUE_NONE)
            call_fail(c, PEN_ERR_INVALID, "node %s (%s) lacks scales", c->name, c->origin);
        return VALUE_NONE;
    }
    if (block < 1 && data->shape.rank == 3) {
        block = bits > 0 ? data->shape.dim[2] * 8 / bits : 0;
        if (c->g->values[scales].shape.rank == 2)
            scales = scales_by_row(c, scales);
    }
    if (data->shape.rank != 3 || c->status != PEN_OK || !codes_read(c, bits, block, &codes, scales, &zeros))
        return VALUE_NONE;
    uint32_t w = contrib_dequantise(c, codes, scales, zeros, -1);
    contrib_set_int(c, w, ATTR_block_size, block);
    return w;
}

/* x, router, then weights, scales and bias of the three layers; zero points from input 11 on. */
static void up_quantised_experts(struct call *c)
{
    static const char *const own[3] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"};
    int64_t bits = call_int(c, "expert_weight_bits", 4);
    bool plain = call_int(c, "weights_prepacked", 0) <= 0 &&
                 (!call_attr(c, "quant_type") || call_text_is(c, "quant_type", "int"));
    uint32_t in[8] = {call_input(c, 0), call_input(c, 1), VALUE_NONE, VALUE_NONE,
                      VALUE_NONE,       VALUE_NONE,       VALUE_NONE, VALUE_NONE};
    if (contrib_lacks(c, 3))
        return;
    for (uint32_t i = 14; i < c->in_count; i++)
        plain = plain && call_input(c, i) == VALUE_NONE;
    if (!plain) {
        contrib_refuse(c, "only codes of 2, 4 or 8 bits with scales and zero points");
        return;
    }
    for (uint32_t i = 0; i < 3; i++) {
        in[2 + 2 * i] = expert_weights(c, call_input(c, 2 + 3 * i), call_input(c, 3 + 3 * i), call_input(c, 11 + i),
                                       call_int(c, own[i], bits));
        in[3 + 2 * i] = call_input(c, 4 + 3 * i);
    }
    uint32_t count = 8;
    while (count > 5 && in[count - 1] == VALUE_NONE)
        count--;
    uint32_t node = call_emit(c, OP_MoE, in, count, c->out, 1);
    call_copy_attrs(c, node, NULL);
    call_set_int(c, node, ATTR_normalize_routing_weights, 1); /* onnxruntime's CPU kernel always does */
}

const struct op_row rows_quantised[] = {
    UP_ROW(MS, QLinearWhere, 1, EVER, OP_NONE, up_where),
    UP_ROW(MS, QLinearReduceMean, 1, EVER, OP_NONE, up_reduce_mean),
    UP_ROW(MS, QLinearAveragePool, 1, EVER, OP_NONE, up_average_pool),
    UP_ROW(MS, QLinearGlobalAveragePool, 1, EVER, OP_NONE, up_global_average_pool),
    UP_ROW(MS, QLinearConv, 1, EVER, OP_NONE, up_conv),
    UP_ROW(MS, QLinearSoftmax, 1, EVER, OP_NONE, up_softmax),
    UP_ROW(MS, QGemm, 1, EVER, OP_NONE, up_gemm),
    UP_ROW(MS, DynamicQuantizeMatMul, 1, EVER, OP_NONE, up_dynamic_quantize_matmul),
    UP_ROW(MS, MatMulIntegerToFloat, 1, EVER, OP_NONE, up_matmul_integer_to_float),
    UP_ROW(MS, MatMulInteger16, 1, EVER, OP_NONE, up_matmul_integer16),
    UP_ROW(MS, MatMulBnb4, 1, EVER, OP_NONE, up_matmul_bnb4),
    UP_ROW(MS, GatherBlockQuantized, 1, EVER, OP_NONE, up_gather_blocks),
    UP_ROW(MS, DynamicQuantizeLSTM, 1, EVER, OP_NONE, up_dynamic_lstm),
    UP_ROW(MS, QEmbedLayerNormalization, 1, EVER, OP_NONE, up_embed),
    UP_ROW(MS, QMoE, 1, EVER, OP_NONE, up_quantised_experts),
    {"", NULL, 0, 0, OP_NONE, NULL},
};
