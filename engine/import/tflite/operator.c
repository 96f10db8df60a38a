#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/tflite/reader.h"

/* ---- tensors as values --------------------------------------------------------------------------------------------------- */

static bool narrow_integer(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8 || dtype == PEN_DTYPE_I16;
}

static uint32_t constant_make(struct scope *s, const struct tensor *t)
{
    uint32_t id;
    if (t->dtype == PEN_DTYPE_STRING) {
        if (graph_value(s->b->g, NULL, &id) != PEN_OK) {
            build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for a constant");
            return VALUE_NONE;
        }
        struct value *v = &s->b->g->values[id];
        v->dtype = t->dtype;
        v->shape = t->shape;
        v->data = t->data;
        v->bytes = t->bytes;
        return id;
    }
    id = build_const(s->b, t->dtype, &t->shape, t->data, t->bytes, false);
    if (id != VALUE_NONE)
        s->b->g->values[id].quant = t->quant;
    return id;
}

/* State starts fresh in every run: a variable tensor reads as zeros (real zeros: its zero point). */
static uint32_t variable_make(struct scope *s, const struct tensor *t)
{
    size_t bytes = 0;
    void *zeros = NULL;
    if (shape_bytes(&t->shape, t->dtype, s->b->g->limits.tensor_bytes, &bytes) == PEN_OK)
        zeros = graph_alloc(s->b->g, bytes + 64);
    if (!zeros) {
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for a variable");
        return VALUE_NONE;
    }
    if (t->quant.count == 1 && (t->dtype == PEN_DTYPE_I8 || t->dtype == PEN_DTYPE_U8))
        memset(zeros, t->quant.zero_point[0], bytes);
    return build_const(s->b, t->dtype, &t->shape, zeros, bytes, false);
}

uint32_t lite_value(struct scope *s, int64_t index)
{
    if (s->b->status != PEN_OK || index < 0 || index >= (int64_t)s->tensor_count)
        return VALUE_NONE;
    struct tensor *t = &s->tensors[index];
    if (t->value != VALUE_NONE)
        return t->value;
    if (t->dtype == PEN_DTYPE_NONE)
        build_stop(s->b, PEN_ERR_UNSUPPORTED, "a tensor has an element type that this build does not know");
    else if (t->constant)
        t->value = constant_make(s, t);
    else if (t->variable)
        t->value = variable_make(s, t);
    else if (shape_elements(&t->shape) == 0 && t->shape.rank > 0)
        t->value = build_const(s->b, t->dtype, &t->shape, NULL, 0, false);
    else
        build_stop(s->b, PEN_ERR_CORRUPT, "it reads '%.*s', which nothing before it gives",
                   (int)(t->name.bytes < 100 ? t->name.bytes : 100), t->name.at);
    return t->value;
}

uint32_t lite_in(struct call *c, uint32_t index)
{
    return index < c->in.count ? lite_value(c->s, fb_list_int(&c->in, index)) : VALUE_NONE;
}

static const struct tensor *tensor_of(const struct call *c, const struct fb_list *l, uint32_t index)
{
    int64_t at = index < l->count ? fb_list_int(l, index) : -1;
    return at >= 0 && at < (int64_t)c->s->tensor_count ? &c->s->tensors[at] : NULL;
}

const struct tensor *lite_tensor(struct call *c, uint32_t index)
{
    return tensor_of(c, &c->in, index);
}

const struct tensor *lite_result(struct call *c, uint32_t index)
{
    return tensor_of(c, &c->out, index);
}

static bool quantised(const struct tensor *t)
{
    return t && t->quant.count > 0 && t->quant.scale[0] > 0.0f && narrow_integer(t->dtype);
}

bool lite_quantised(struct call *c, uint32_t index)
{
    return quantised(lite_tensor(c, index));
}

bool lite_result_quantised(struct call *c, uint32_t index)
{
    return quantised(lite_result(c, index));
}

static int64_t integer_at(const struct tensor *t, size_t i)
{
    switch (t->dtype) {
    case PEN_DTYPE_I8:
        return ((const int8_t *)t->data)[i];
    case PEN_DTYPE_U8:
        return ((const uint8_t *)t->data)[i];
    case PEN_DTYPE_I32:
        return ((const int32_t *)t->data)[i];
    default:
        return ((const int16_t *)t->data)[i];
    }
}

/* real = scale * (q - zero), the scale by the index along quant.axis */
static void dequantise(const struct tensor *t, float *to, size_t count)
{
    size_t inner = 1;
    for (int32_t d = t->quant.axis + 1; t->quant.count > 1 && d < t->shape.rank; d++)
        inner *= (size_t)t->shape.dim[d];
    for (size_t i = 0; i < count; i++) {
        size_t which = t->quant.count > 1 ? i / inner % t->quant.count : 0;
        to[i] = t->quant.scale[which] * (float)(integer_at(t, i) - t->quant.zero_point[which]);
    }
}

uint32_t lite_constant(struct scope *s, const struct tensor *t)
{
    bool half = t->dtype == PEN_DTYPE_F16;
    size_t count, bytes;
    if (!t->constant || !t->data ||
        !(half || (t->quant.count > 0 && (narrow_integer(t->dtype) || t->dtype == PEN_DTYPE_I32))))
        return VALUE_NONE;
    count = (size_t)shape_elements(&t->shape);
    if (shape_bytes(&t->shape, PEN_DTYPE_F32, s->b->g->limits.tensor_bytes, &bytes) != PEN_OK) {
        build_stop(s->b, PEN_ERR_TOO_LARGE, "a constant exceeds the budget as float");
        return VALUE_NONE;
    }
    float *to = graph_alloc_data(s->b->g, bytes + 64);
    if (!to) {
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for a constant of %zu floats", count);
        return VALUE_NONE;
    }
    if (half) {
        for (size_t i = 0; i < count; i++)
            to[i] = pen_f16_to_f32(((const uint16_t *)t->data)[i]);
    } else {
        dequantise(t, to, count);
    }
    return build_const(s->b, PEN_DTYPE_F32, &t->shape, to, bytes, false);
}

void lite_affine(struct call *c, const struct tensor *t, uint32_t *ret_scale, uint32_t *ret_zero)
{
    uint32_t n = t->quant.count;
    size_t width = pen_dtype_bits(t->dtype) / 8;
    int64_t dim = n;
    struct shape shape = n > 1 ? shape_of(1, &dim) : shape_scalar();
    uint8_t *zeros = graph_alloc(c->b->g, n * width + 8);
    *ret_scale = *ret_zero = VALUE_NONE;
    if (!zeros || n == 0) {
        build_stop(c->b, n ? PEN_ERR_NO_MEMORY : PEN_ERR_CORRUPT, "a quantised tensor without scales");
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        memcpy(zeros + i * width, &t->quant.zero_point[i], width < 4 ? width : 4); /* little-endian: the low bytes */
    *ret_scale = build_const(c->b, PEN_DTYPE_F32, &shape, t->quant.scale, n * sizeof(float), false);
    *ret_zero = build_const(c->b, t->dtype, &shape, zeros, n * width, false);
}

uint32_t lite_real(struct call *c, uint32_t index)
{
    const struct tensor *t = lite_tensor(c, index);
    uint32_t x, scale, zero;
    if (!t || (!quantised(t) && t->dtype != PEN_DTYPE_F16))
        return lite_in(c, index);
    x = t->constant ? lite_constant(c->s, t) : VALUE_NONE;
    if (x != VALUE_NONE || c->b->status != PEN_OK)
        return x;
    x = lite_in(c, index);
    if (t->dtype == PEN_DTYPE_F16)
        return build_cast(c->b, x, PEN_DTYPE_F32);
    lite_affine(c, t, &scale, &zero);
    uint32_t y = build_3(c->b, OP_DequantizeLinear, x, scale, zero);
    if (t->quant.count > 1)
        build_int(c->b, ATTR_axis, t->quant.axis);
    return y;
}

/* ---- results ---------------------------------------------------------------------------------------------------------------- */

void lite_give(struct call *c, uint32_t index, uint32_t value)
{
    int64_t at = index < c->out.count ? fb_list_int(&c->out, index) : -1;
    if (c->b->status != PEN_OK || value == VALUE_NONE || at < 0 || at >= (int64_t)c->s->tensor_count)
        return;
    struct tensor *t = &c->s->tensors[at];
    if (t->value != VALUE_NONE || t->constant) {
        build_stop(c->b, PEN_ERR_CORRUPT, "its result is given twice");
        return;
    }
    struct value *v = &c->b->g->values[value];
    if (v->name[0] == '~' && v->producer != NODE_NONE && !v->data)
        value = build_bind(c->b, value, t->name.at, t->name.bytes);
    t->value = value;
    if (value != VALUE_NONE && quantised(t) && c->b->g->values[value].producer != NODE_NONE)
        c->b->g->values[value].quant = t->quant;
}

void lite_give_real(struct call *c, uint32_t index, uint32_t value)
{
    const struct tensor *t = lite_result(c, index);
    if (quantised(t)) {
        uint32_t scale, zero;
        lite_affine(c, t, &scale, &zero);
        value = build_3(c->b, OP_QuantizeLinear, value, scale, zero);
        if (t->quant.count > 1)
            build_int(c->b, ATTR_axis, t->quant.axis);
    }
    lite_give(c, index, value);
}

/* ---- options ------------------------------------------------------------------------------------------------------------------ */

int64_t lite_option(const struct call *c, unsigned field, int64_t def)
{
    return fb_int(&c->options, field, 4, def);
}

enum tf_activation lite_activation(struct call *c, unsigned field)
{
    static const enum tf_activation kinds[] = {TF_ACT_NONE, TF_ACT_RELU, TF_ACT_RELU_N1, TF_ACT_RELU6, TF_ACT_TANH};
    int64_t kind = fb_int(&c->options, field, 1, 0);
    if (kind >= 0 && kind < (int64_t)(sizeof kinds / sizeof kinds[0]))
        return kinds[kind];
    build_stop(c->b, PEN_ERR_UNSUPPORTED, "fused activation %lld is not known", (long long)kind);
    return TF_ACT_NONE;
}

enum tf_padding lite_padding(struct call *c, unsigned field)
{
    return fb_int(&c->options, field, 1, 0) == 0 ? TF_SAME : TF_VALID;
}

/* q of a real bound, rounded and saturated, as the interpreter prepares it. */
static double bound(const struct tensor *t, double real, double low, double high)
{
    double q = (double)t->quant.zero_point[0] + round(real / (double)t->quant.scale[0]);
    return q < low ? low : q > high ? high : q;
}

uint32_t lite_clamp(struct call *c, uint32_t y, enum tf_activation act)
{
    const struct tensor *t = lite_result(c, 0);
    if (!quantised(t) || act == TF_ACT_NONE || c->b->status != PEN_OK)
        return y;
    if (act == TF_ACT_TANH) {
        build_stop(c->b, PEN_ERR_UNSUPPORTED, "a fused tanh on a quantised result");
        return VALUE_NONE;
    }
    bool wide = t->dtype == PEN_DTYPE_I16;
    double low = t->dtype == PEN_DTYPE_U8 ? 0
                 : wide                   ? -32768
                                          : -128,
           high = t->dtype == PEN_DTYPE_U8 ? 255
                  : wide                   ? 32767
                                           : 127;
    double from = bound(t, act == TF_ACT_RELU_N1 ? -1.0 : 0.0, low, high);
    double to = act == TF_ACT_RELU ? high : bound(t, act == TF_ACT_RELU6 ? 6.0 : 1.0, low, high);
    if (from <= low && to >= high)
        return y; /* saturation does it already */
    return build_3(c->b, OP_Clip, y, build_scalar(c->b, t->dtype, from), build_scalar(c->b, t->dtype, to));
}

/* ---- the table -------------------------------------------------------------------------------------------------------------------- */

static const struct tflite_row rows[] = {
    {0, "ADD", lower_binary, OP_Add},
    {1, "AVERAGE_POOL_2D", lower_pool, OP_AveragePool},
    {2, "CONCATENATION", lower_concat, 0},
    {3, "CONV_2D", lower_conv_2d, 0},
    {4, "DEPTHWISE_CONV_2D", lower_depthwise, 0},
    {5, "DEPTH_TO_SPACE", lower_depth_to_space, 0},
    {6, "DEQUANTIZE", lower_dequantize, 0},
    {7, "EMBEDDING_LOOKUP", lower_embedding, 0},
    {8, "FLOOR", lower_unary, OP_Floor},
    {9, "FULLY_CONNECTED", lower_fully_connected, 0},
    {11, "L2_NORMALIZATION", lower_l2_norm, 0},
    {12, "L2_POOL_2D", lower_pool, OP_LpPool},
    {13, "LOCAL_RESPONSE_NORMALIZATION", lower_lrn, 0},
    {14, "LOGISTIC", lower_unary, OP_Sigmoid},
    {17, "MAX_POOL_2D", lower_pool, OP_MaxPool},
    {18, "MUL", lower_binary, OP_Mul},
    {19, "RELU", lower_relu, TF_ACT_RELU},
    {20, "RELU_N1_TO_1", lower_relu, TF_ACT_RELU_N1},
    {21, "RELU6", lower_relu, TF_ACT_RELU6},
    {22, "RESHAPE", lower_reshape, 0},
    {23, "RESIZE_BILINEAR", lower_resize, 0},
    {24, "RNN", lower_rnn, 0},
    {25, "SOFTMAX", lower_softmax, 0},
    {26, "SPACE_TO_DEPTH", lower_space_to_depth, 0},
    {28, "TANH", lower_unary, OP_Tanh},
    {31, "CALL", lower_call, 0},
    {34, "PAD", lower_pad, 0},
    {35, "UNIDIRECTIONAL_SEQUENCE_RNN", lower_sequence_rnn, 0},
    {36, "GATHER", lower_gather, 0},
    {37, "BATCH_TO_SPACE_ND", lower_batch_to_space, 0},
    {38, "SPACE_TO_BATCH_ND", lower_space_to_batch, 0},
    {39, "TRANSPOSE", lower_transpose, 0},
    {40, "MEAN", lower_reduce, OP_ReduceMean},
    {41, "SUB", lower_binary, OP_Sub},
    {42, "DIV", lower_binary, OP_Div},
    {43, "SQUEEZE", lower_squeeze, 0},
    {44, "UNIDIRECTIONAL_SEQUENCE_LSTM", lower_sequence_lstm, 0},
    {45, "STRIDED_SLICE", lower_strided_slice, 0},
    {46, "BIDIRECTIONAL_SEQUENCE_RNN", lower_bidirectional_rnn, 0},
    {47, "EXP", lower_unary, OP_Exp},
    {48, "TOPK_V2", lower_top_k, 0},
    {49, "SPLIT", lower_split, 0},
    {50, "LOG_SOFTMAX", lower_log_softmax, 0},
    {52, "BIDIRECTIONAL_SEQUENCE_LSTM", lower_bidirectional_lstm, 0},
    {53, "CAST", lower_cast, 0},
    {54, "PRELU", lower_prelu, 0},
    {55, "MAXIMUM", lower_binary, OP_Max},
    {56, "ARG_MAX", lower_arg, OP_ArgMax},
    {57, "MINIMUM", lower_binary, OP_Min},
    {58, "LESS", lower_compare, OP_Less},
    {59, "NEG", lower_unary, OP_Neg},
    {60, "PADV2", lower_pad, 0},
    {61, "GREATER", lower_compare, OP_Greater},
    {62, "GREATER_EQUAL", lower_compare, OP_GreaterOrEqual},
    {63, "LESS_EQUAL", lower_compare, OP_LessOrEqual},
    {64, "SELECT", lower_select, 0},
    {65, "SLICE", lower_slice, 0},
    {66, "SIN", lower_unary, OP_Sin},
    {67, "TRANSPOSE_CONV", lower_transpose_conv, 0},
    {68, "SPARSE_TO_DENSE", lower_sparse_to_dense, 0},
    {69, "TILE", lower_tile, 0},
    {70, "EXPAND_DIMS", lower_expand_dims, 0},
    {71, "EQUAL", lower_compare, OP_Equal},
    {72, "NOT_EQUAL", lower_not_equal, 0},
    {73, "LOG", lower_unary, OP_Log},
    {74, "SUM", lower_reduce, OP_ReduceSum},
    {75, "SQRT", lower_unary, OP_Sqrt},
    {76, "RSQRT", lower_rsqrt, 0},
    {77, "SHAPE", lower_shape, 0},
    {78, "POW", lower_binary, OP_Pow},
    {79, "ARG_MIN", lower_arg, OP_ArgMin},
    {80, "FAKE_QUANT", lower_fake_quant, 0},
    {81, "REDUCE_PROD", lower_reduce, OP_ReduceProd},
    {82, "REDUCE_MAX", lower_reduce, OP_ReduceMax},
    {83, "PACK", lower_pack, 0},
    {84, "LOGICAL_OR", lower_compare, OP_Or},
    {85, "ONE_HOT", lower_one_hot, 0},
    {86, "LOGICAL_AND", lower_compare, OP_And},
    {87, "LOGICAL_NOT", lower_unary, OP_Not},
    {88, "UNPACK", lower_unpack, 0},
    {89, "REDUCE_MIN", lower_reduce, OP_ReduceMin},
    {90, "FLOOR_DIV", lower_floor_div, 0},
    {91, "REDUCE_ANY", lower_reduce_bool, OP_ReduceMax},
    {92, "SQUARE", lower_square, 0},
    {93, "ZEROS_LIKE", lower_zeros_like, 0},
    {94, "FILL", lower_fill, 0},
    {95, "FLOOR_MOD", lower_floor_mod, 0},
    {96, "RANGE", lower_range, 0},
    {97, "RESIZE_NEAREST_NEIGHBOR", lower_resize, 1},
    {98, "LEAKY_RELU", lower_leaky, 0},
    {99, "SQUARED_DIFFERENCE", lower_squared_difference, 0},
    {100, "MIRROR_PAD", lower_mirror_pad, 0},
    {101, "ABS", lower_unary, OP_Abs},
    {102, "SPLIT_V", lower_split_v, 0},
    {103, "UNIQUE", lower_unique, 0},
    {104, "CEIL", lower_unary, OP_Ceil},
    {105, "REVERSE_V2", lower_reverse, 0},
    {106, "ADD_N", lower_add_n, 0},
    {107, "GATHER_ND", lower_gather_nd, 0},
    {108, "COS", lower_unary, OP_Cos},
    {109, "WHERE", lower_where, 0},
    {110, "RANK", lower_rank, 0},
    {111, "ELU", lower_unary, OP_Elu},
    {112, "REVERSE_SEQUENCE", lower_reverse_sequence, 0},
    {113, "MATRIX_DIAG", lower_matrix_diag, 0},
    {114, "QUANTIZE", lower_quantize, 0},
    {116, "ROUND", lower_unary, OP_Round},
    {117, "HARD_SWISH", lower_unary, OP_HardSwish},
    {118, "IF", lower_if, 0},
    {119, "WHILE", lower_while, 0},
    {120, "NON_MAX_SUPPRESSION_V4", lower_nms, 4},
    {121, "NON_MAX_SUPPRESSION_V5", lower_nms, 5},
    {122, "SCATTER_ND", lower_scatter_nd, 0},
    {123, "SELECT_V2", lower_select, 1},
    {124, "DENSIFY", lower_identity, 0},
    {126, "BATCH_MATMUL", lower_batch_matmul, 0},
    {128, "CUMSUM", lower_cumsum, 0},
    {130, "BROADCAST_TO", lower_broadcast_to, 0},
    {132, "CONV_3D", lower_conv_3d, 0},
    {135, "COMPLEX_ABS", lower_complex_abs, 0},
    {140, "REDUCE_ALL", lower_reduce_bool, OP_ReduceMin},
    {141, "CONV_3D_TRANSPOSE", lower_conv_3d_transpose, 0},
    {145, "BROADCAST_ARGS", lower_broadcast_args, 0},
    {150, "GELU", lower_gelu, 0},
    {151, "DYNAMIC_UPDATE_SLICE", lower_update_slice, 0},
    {152, "RELU_0_TO_1", lower_relu, TF_ACT_RELU_01},
    {156, "ATAN2", lower_atan2, 0},
    {158, "SIGN", lower_unary, OP_Sign},
    {159, "BITCAST", lower_bitcast, 0},
    {160, "BITWISE_XOR", lower_compare, OP_BitwiseXor},
    {161, "RIGHT_SHIFT", lower_right_shift, 0},
};

const struct tflite_row *tflite_row_find(int code)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].code == code)
            return &rows[i];
    }
    return NULL;
}

/* What a missing operator leaves behind, so that those after it can be read and all missing ones be listed. */
static void leave_unknown(struct call *c)
{
    for (uint32_t i = 0; i < c->out.count && c->b->status == PEN_OK; i++) {
        const struct tensor *t = lite_result(c, i);
        uint32_t id;
        if (graph_value(c->b->g, NULL, &id) != PEN_OK) {
            build_stop(c->b, PEN_ERR_NO_MEMORY, "no memory, or too many values");
            return;
        }
        struct tensor *to = &c->s->tensors[t - c->s->tensors];
        if (to->value == VALUE_NONE)
            to->value = id;
    }
}

/* The least that every operator has, so that lowerings need not ask. */
static bool ends_there(struct call *c)
{
    bool source = c->in.count == 0 && (c->code == 118 || c->code == 119 || c->code == 31);
    if (c->out.count == 0 && c->code != 119 && c->code != 31) {
        build_stop(c->b, PEN_ERR_CORRUPT, "it gives nothing");
        return false;
    }
    if (!source && c->code != 119 && c->code != 31 && !lite_tensor(c, 0) && c->code != 7) {
        build_stop(c->b, PEN_ERR_CORRUPT, "it lacks its first input");
        return false;
    }
    return true;
}

void lite_lower(struct call *c)
{
    const struct tflite_row *row = tflite_row_find(c->code);
    lower_fn lower = row ? row->lower : c->code == 32 ? tflite_custom_find(&c->custom) : NULL;
    char text[160];
    if (!lower) {
        int bytes = c->custom.bytes < 100 ? (int)c->custom.bytes : 100;
        if (c->code == 32)
            snprintf(text, sizeof text, "custom %.*s", bytes, c->custom.at);
        else
            snprintf(text, sizeof text, "builtin %d", c->code);
        build_miss(c->b, text);
        leave_unknown(c);
        return;
    }
    if (!ends_there(c))
        return;
    lower(c);
    for (uint32_t i = 0; i < c->out.count && c->b->status == PEN_OK; i++) {
        const struct tensor *t = lite_result(c, i);
        if (t->value == VALUE_NONE) /* an output of a form that we do not compute, which something may still read */
            build_miss(c->b, c->b->origin);
        if (t->value == VALUE_NONE)
            leave_unknown(c);
    }
}
