/* Older forms of ai.onnx operators, and those that are lowered to others, to the newest form (README.md lists them). */
#include <float.h>
#include <string.h>

#include "import/onnx/reader.h"

#define EVER 9999

/* ---- constants ---------------------------------------------------------------------------------------------------------- */

static void set_constant(struct call *c, enum pen_dtype dtype, const struct shape *shape, const void *data,
                         size_t bytes)
{
    static const uint64_t nothing[2];
    if (c->status != PEN_OK)
        return;
    if (!call_wants(c, 0) || c->out_count != 1 || c->g->values[c->out[0]].data) {
        call_fail(c, PEN_ERR_INVALID, "node %s (Constant) does not give exactly one value", c->name);
        return;
    }
    struct value *v = &c->g->values[c->out[0]];
    v->dtype = dtype;
    v->shape = *shape;
    v->data = bytes ? data : nothing;
    v->bytes = bytes;
}

static void constant_list(struct call *c, enum pen_dtype dtype, const void *data, uint32_t count, size_t item_bytes)
{
    int64_t dim = count;
    struct shape shape = shape_of(1, &dim);
    set_constant(c, dtype, &shape, data, count * item_bytes);
}

static void constant_texts(struct call *c, const struct pb_attr *a, bool scalar)
{
    uint32_t count = scalar ? 1 : a->count;
    struct string_view *views = graph_alloc(c->g, ((size_t)count + 1) * sizeof *views);
    if (!views) {
        c->status = PEN_ERR_NO_MEMORY;
        return;
    }
    struct bytes cursor = a->self, text = a->s;
    for (uint32_t i = 0; i < count; i++) {
        if (!scalar && pb_each(&cursor, 9, &text) != 1)
            break;
        views[i] = (struct string_view){text.size ? (const char *)text.at : "", text.size};
    }
    struct shape shape = shape_scalar();
    if (scalar)
        set_constant(c, PEN_DTYPE_STRING, &shape, views, sizeof *views);
    else
        constant_list(c, PEN_DTYPE_STRING, views, count, sizeof *views);
}

static void constant_scalar(struct call *c, enum pen_dtype dtype, const void *item, size_t bytes)
{
    struct shape shape = shape_scalar();
    void *copy = graph_alloc(c->g, bytes);
    if (!copy) {
        c->status = PEN_ERR_NO_MEMORY;
        return;
    }
    memcpy(copy, item, bytes);
    set_constant(c, dtype, &shape, copy, bytes);
}

static void up_constant(struct call *c)
{
    const struct pb_attr *a = c->attr_count ? &c->attrs[0].pb : NULL;
    struct tensor t;
    const int64_t *ints;
    const float *floats;
    uint32_t count;
    if (!a || c->attr_count != 1) {
        call_fail(c, PEN_ERR_INVALID, "node %s (Constant) needs exactly one attribute that holds its value", c->name);
    } else if (a->type == PB_TENSOR || a->type == PB_SPARSE_TENSOR) {
        c->status = a->type == PB_TENSOR ? tensor_load(&c->r->source, a->message, &t, c->r->reterr)
                                         : tensor_load_sparse(&c->r->source, a->message, &t, c->r->reterr);
        if (c->status == PEN_OK)
            set_constant(c, t.dtype, &t.shape, t.data, t.bytes);
    } else if (call_ints(c, "value_ints", &ints, &count)) {
        constant_list(c, PEN_DTYPE_I64, ints, count, sizeof *ints);
    } else if (call_floats(c, "value_floats", &floats, &count)) {
        constant_list(c, PEN_DTYPE_F32, floats, count, sizeof *floats);
    } else if (a->type == PB_STRING || a->type == PB_STRINGS) {
        constant_texts(c, a, a->type == PB_STRING);
    } else if (a->type == PB_INT) {
        constant_scalar(c, PEN_DTYPE_I64, &a->i, sizeof a->i);
    } else if (a->type == PB_FLOAT) {
        constant_scalar(c, PEN_DTYPE_F32, &a->f, sizeof a->f);
    } else {
        call_fail(c, PEN_ERR_INVALID, "node %s (Constant) has no value that we understand", c->name);
    }
}

/* ---- element-wise --------------------------------------------------------------------------------------------------------- */

/*
 * Before opset 7: broadcast=1, axis=k lays B's axes onto A's from axis k. B is given trailing ones: shape(B) ++ ones(rank A - k - rank B).
 * Shapes are computed in the graph; they fold as soon as A's rank is known.
 */
static uint32_t align_to_axis(struct call *c, uint32_t a, uint32_t b, int64_t axis)
{
    static const int64_t zero[1] = {0}, one[1] = {1};
    uint32_t shape_a = call_value(c, OP_Shape, &a, 1), shape_b = call_value(c, OP_Shape, &b, 1);
    uint32_t rank_a = call_value(c, OP_Size, &shape_a, 1), rank_b = call_value(c, OP_Size, &shape_b, 1);
    uint32_t behind = call_value(c, OP_Sub, (uint32_t[]){rank_a, rank_b}, 2);
    uint32_t skip = call_i64(c, &axis, 1, true);
    behind = call_value(c, OP_Sub, (uint32_t[]){behind, skip}, 2);
    behind = call_value(c, OP_Unsqueeze, (uint32_t[]){behind, call_i64(c, zero, 1, false)}, 2);
    uint32_t ones = call_value(c, OP_Expand, (uint32_t[]){call_i64(c, one, 1, false), behind}, 2);
    uint32_t shape = call_value_axis(c, OP_Concat, (uint32_t[]){shape_b, ones}, 2, 0);
    return call_value(c, OP_Reshape, (uint32_t[]){b, shape}, 2);
}

static void binary_old(struct call *c, enum op op)
{
    uint32_t in[2] = {call_input(c, 0), call_input(c, 1)};
    const struct pb_attr *axis = call_attr(c, "axis");
    if (in[0] != VALUE_NONE && in[1] != VALUE_NONE && call_int(c, "broadcast", 0) && axis && axis->i >= 0)
        in[1] = align_to_axis(c, in[0], in[1], axis->i);
    (void)call_emit(c, op, in, c->in_count < 2 ? c->in_count : 2, c->out, c->out_count);
}

#define BINARY_OLD(name)                                                                                               \
    static void up_##name(struct call *c)                                                                              \
    {                                                                                                                  \
        binary_old(c, OP_##name);                                                                                      \
    }
BINARY_OLD(Add)
BINARY_OLD(Sub)
BINARY_OLD(Mul)
BINARY_OLD(Div)
BINARY_OLD(Pow)
BINARY_OLD(And)
BINARY_OLD(Or)
BINARY_OLD(Xor)
BINARY_OLD(Equal)
BINARY_OLD(Greater)
BINARY_OLD(Less)

/* An integer exponent of a float base: a float, which every backend takes. */
static void up_pow(struct call *c)
{
    uint32_t in[2] = {call_input(c, 0), call_input(c, 1)};
    const struct value *power = in[1] == VALUE_NONE ? NULL : &c->g->values[in[1]];
    if (in[0] != VALUE_NONE && power && power->data && (power->dtype == PEN_DTYPE_I64 || power->dtype == PEN_DTYPE_I32))
        in[1] = call_value(c, OP_CastLike, (uint32_t[]){in[1], in[0]}, 2);
    (void)call_emit(c, OP_Pow, in, c->in_count < 2 ? c->in_count : 2, c->out, c->out_count);
}

/* Before opset 7 a slope of several items is per channel. */
static void up_prelu(struct call *c)
{
    uint32_t in[2] = {call_input(c, 0), call_input(c, 1)};
    const struct value *slope = in[1] == VALUE_NONE ? NULL : &c->g->values[in[1]];
    if (in[0] != VALUE_NONE && slope && slope->shape.rank == 1 && slope->shape.dim[0] != 1)
        in[1] = align_to_axis(c, in[0], in[1], 1);
    (void)call_emit(c, OP_PRelu, in, c->in_count < 2 ? c->in_count : 2, c->out, c->out_count);
}

static void up_clip(struct call *c)
{
    uint32_t in[3] = {call_input(c, 0), VALUE_NONE, VALUE_NONE};
    const struct pb_attr *low = call_attr(c, "min"), *high = call_attr(c, "max");
    if (low && low->f > -FLT_MAX)
        in[1] = call_float_like(c, low->f, in[0]);
    if (high && high->f < FLT_MAX)
        in[2] = call_float_like(c, high->f, in[0]);
    uint32_t count = in[2] != VALUE_NONE ? 3 : in[1] != VALUE_NONE ? 2 : 1;
    (void)call_emit(c, OP_Clip, in, count, c->out, c->out_count);
}

static void up_cast_text(struct call *c)
{
    static const struct {
        const char *name;
        enum pen_dtype dtype;
    } names[] = {{"FLOAT", PEN_DTYPE_F32},   {"UINT8", PEN_DTYPE_U8},      {"INT8", PEN_DTYPE_I8},
                 {"UINT16", PEN_DTYPE_U16},  {"INT16", PEN_DTYPE_I16},     {"INT32", PEN_DTYPE_I32},
                 {"INT64", PEN_DTYPE_I64},   {"STRING", PEN_DTYPE_STRING}, {"BOOL", PEN_DTYPE_BOOL},
                 {"FLOAT16", PEN_DTYPE_F16}, {"DOUBLE", PEN_DTYPE_F64},    {"UINT32", PEN_DTYPE_U32},
                 {"UINT64", PEN_DTYPE_U64}};
    int64_t to = call_int(c, "to", PEN_DTYPE_NONE);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (call_text_is(c, "to", names[i].name))
            to = names[i].dtype;
    }
    uint32_t node = call_emit(c, OP_Cast, c->in, c->in_count, c->out, c->out_count);
    call_set_int(c, node, ATTR_to, to);
}

/* ---- normalisation, pooling ------------------------------------------------------------------------------------------------- */

/*
 * Inference form: the running statistics that old forms could also give are for training. The saved ones (outputs 3 and 4) are for the backward pass:
 * PyTorch names them for layers without running statistics, and nobody reads them. Who does gets a sentence from graph_verify.
 */
static void up_batch_norm(struct call *c)
{
    static const char *const except[] = {"spatial", "is_test", "consumed_inputs", NULL};
    bool training = call_wants(c, 1) || call_wants(c, 2);
    if (call_int(c, "spatial", 1) == 0) {
        call_fail(c, PEN_ERR_UNSUPPORTED,
                  "node %s: BatchNormalization with spatial=0 is not supported; export with opset 9 or newer", c->name);
        return;
    }
    uint32_t node = call_emit(c, OP_BatchNormalization, c->in, c->in_count, c->out, training ? 3 : 1);
    call_copy_attrs(c, node, except);
    if (training)
        call_set_int(c, node, ATTR_training_mode, 1);
}

static void up_dropout(struct call *c)
{
    uint32_t count = c->out_count < 2 ? c->out_count : 2;
    (void)call_emit(c, OP_Dropout, c->in, c->in_count < 1 ? c->in_count : 1, c->out, count);
}

/* From opset 12 training_mode is an input: when it may be true, results are random. */
static void up_dropout_12(struct call *c)
{
    uint32_t mode = call_input(c, 2);
    const struct value *v = mode == VALUE_NONE ? NULL : &c->g->values[mode];
    bool random = v && (!v->data || (v->bytes == 1 && *(const unsigned char *)v->data != 0));
    uint32_t node = call_emit(c, OP_Dropout, c->in, c->in_count, c->out, c->out_count);
    call_copy_attrs(c, node, NULL);
    c->g->stochastic |= random;
}

/*
 * Softmax family before opset 13: x is seen as a matrix cut at axis (default 1). Flatten, softmax over the last axis, and back; a pass drops the
 * views when axis is the last one anyway.
 */
static void softmax_old(struct call *c, enum op op)
{
    uint32_t x = call_input(c, 0);
    int64_t axis = call_int(c, "axis", 1);
    if (axis == -1 || x == VALUE_NONE || !call_wants(c, 0)) {
        uint32_t node = call_emit(c, op, c->in, c->in_count, c->out, c->out_count);
        call_set_int(c, node, ATTR_axis, -1);
        return;
    }
    uint32_t shape = call_value(c, OP_Shape, &x, 1);
    uint32_t matrix = call_value_axis(c, OP_Flatten, &x, 1, axis);
    uint32_t y = call_value_axis(c, op, &matrix, 1, -1);
    (void)call_emit(c, OP_Reshape, (uint32_t[]){y, shape}, 2, c->out, 1);
}

static void up_softmax(struct call *c)
{
    softmax_old(c, OP_Softmax);
}

static void up_log_softmax(struct call *c)
{
    softmax_old(c, OP_LogSoftmax);
}

static void up_hardmax(struct call *c)
{
    softmax_old(c, OP_Hardmax);
}

/* Before opset 21 scale and bias were per group: repeat each for its channels. */
static uint32_t spread_groups(struct call *c, uint32_t per_group, uint32_t channels, int64_t groups)
{
    const int64_t column[2] = {groups, 1}, flat[1] = {-1};
    uint32_t g = call_i64(c, &groups, 1, false);
    uint32_t each = call_value(c, OP_Div, (uint32_t[]){channels, g}, 2);
    uint32_t grid = call_value_axis(c, OP_Concat, (uint32_t[]){g, each}, 2, 0);
    uint32_t v = call_value(c, OP_Reshape, (uint32_t[]){per_group, call_i64(c, column, 2, false)}, 2);
    v = call_value(c, OP_Expand, (uint32_t[]){v, grid}, 2);
    return call_value(c, OP_Reshape, (uint32_t[]){v, call_i64(c, flat, 1, false)}, 2);
}

static void up_group_norm(struct call *c)
{
    static const int64_t first[1] = {1};
    int64_t groups = call_int(c, "num_groups", 0);
    if (c->in_count != 3 || groups < 1) {
        call_fail(c, PEN_ERR_INVALID, "node %s (GroupNormalization) needs three inputs and num_groups", c->name);
        return;
    }
    uint32_t x = call_input(c, 0), shape = call_value(c, OP_Shape, &x, 1);
    uint32_t channels = call_value_axis(c, OP_Gather, (uint32_t[]){shape, call_i64(c, first, 1, false)}, 2, 0);
    uint32_t in[3] = {x, spread_groups(c, call_input(c, 1), channels, groups),
                      spread_groups(c, call_input(c, 2), channels, groups)};
    uint32_t node = call_emit(c, OP_GroupNormalization, in, 3, c->out, c->out_count);
    call_copy_attrs(c, node, NULL);
}

static void up_lp_pool(struct call *c)
{
    static const char *const except[] = {"p", NULL};
    const struct pb_attr *p = call_attr(c, "p");
    uint32_t node = call_emit(c, bytes_are(c->op_type, "LpPool") ? OP_LpPool : OP_GlobalLpPool, c->in, c->in_count,
                              c->out, c->out_count);
    call_copy_attrs(c, node, except);
    if (p)
        call_set_int(c, node, ATTR_p, p->type == PB_FLOAT && p->f >= 1 && p->f < 1e6f ? (int64_t)p->f : p->i);
}

static bool has_negative(const int64_t *items, uint32_t count)
{
    bool found = false;
    for (uint32_t i = 0; i < count; i++)
        found |= items[i] < 0;
    return found;
}

/* The data without the rows that negative pads of its spatial axes take away; pads keeps what is to be added. */
static uint32_t crop_by_pads(struct call *c, int64_t *pads, uint32_t count)
{
    int64_t cut[2 * PEN_MAX_RANK] = {0};
    uint32_t spatial = count / 2;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i < spatial ? 2 + i : 4 + i; /* begins of N, C, spatial..., then ends */
        cut[at] = pads[i] < 0 ? pads[i] : 0;
        pads[i] -= cut[at];
    }
    uint32_t amounts = call_i64(c, cut, count + 4, false);
    return call_value(c, OP_Pad, (uint32_t[]){call_input(c, 0), amounts}, 2);
}

/* PyTorch undoes the last column of a Pad with a negative pad of the pool behind it. */
static void up_pool(struct call *c)
{
    static const char *const except[] = {"pads", NULL};
    const int64_t *given = NULL;
    uint32_t count = 0;
    bool crops = call_ints(c, "pads", &given, &count) && count % 2 == 0 && count + 4 <= 2 * PEN_MAX_RANK &&
                 c->in_count == 1 && c->out_count == 1 && has_negative(given, count);
    int64_t *pads = crops ? graph_alloc(c->g, count * sizeof *pads) : NULL;
    if (crops && !pads)
        c->status = PEN_ERR_NO_MEMORY;
    if (pads)
        memcpy(pads, given, count * sizeof *pads);
    uint32_t x = pads ? crop_by_pads(c, pads, count) : VALUE_NONE;
    uint32_t node = call_emit(c, bytes_are(c->op_type, "MaxPool") ? OP_MaxPool : OP_AveragePool, pads ? &x : c->in,
                              c->in_count, c->out, c->out_count);
    call_copy_attrs(c, node, pads ? except : NULL);
    if (pads && c->status == PEN_OK)
        c->status = graph_attr_ints(c->g, node, ATTR_pads, pads, count);
}

static void up_roi_align(struct call *c)
{
    uint32_t node = call_emit(c, OP_RoiAlign, c->in, c->in_count, c->out, c->out_count);
    call_copy_attrs(c, node, NULL);
    call_set_text(c, node, ATTR_coordinate_transformation_mode, "output_half_pixel");
}

static void up_grid_sample(struct call *c)
{
    uint32_t node = call_emit(c, OP_GridSample, c->in, c->in_count, c->out, c->out_count);
    call_copy_attrs(c, node, NULL);
    if (call_text_is(c, "mode", "bilinear"))
        call_set_text(c, node, ATTR_mode, "linear");
    else if (call_text_is(c, "mode", "bicubic"))
        call_set_text(c, node, ATTR_mode, "cubic");
}

static void up_dft(struct call *c)
{
    static const char *const except[] = {"axis", NULL};
    int64_t axis = call_int(c, "axis", 1);
    uint32_t in[3] = {call_input(c, 0), call_input(c, 1), call_i64(c, &axis, 1, true)};
    uint32_t node = call_emit(c, OP_DFT, in, 3, c->out, c->out_count);
    call_copy_attrs(c, node, except);
}

const struct op_row rows_onnx[] = {
    UP_ROW("", Constant, 1, EVER, OP_NONE, up_constant),
    UP_ROW("", If, 1, EVER, OP_NONE, control_if),
    UP_ROW("", Loop, 1, EVER, OP_NONE, control_loop),
    UP_ROW("", Scan, 1, EVER, OP_NONE, control_scan),
    UP_ROW("", SequenceMap, 1, EVER, OP_NONE, control_sequence_map),
    UP_ROW("", Add, 1, 6, OP_NONE, up_Add),
    UP_ROW("", Sub, 1, 6, OP_NONE, up_Sub),
    UP_ROW("", Mul, 1, 6, OP_NONE, up_Mul),
    UP_ROW("", Div, 1, 6, OP_NONE, up_Div),
    UP_ROW("", Pow, 1, 6, OP_NONE, up_Pow),
    UP_ROW("", Pow, 7, EVER, OP_NONE, up_pow),
    UP_ROW("", And, 1, 6, OP_NONE, up_And),
    UP_ROW("", Or, 1, 6, OP_NONE, up_Or),
    UP_ROW("", Xor, 1, 6, OP_NONE, up_Xor),
    UP_ROW("", Equal, 1, 6, OP_NONE, up_Equal),
    UP_ROW("", Greater, 1, 6, OP_NONE, up_Greater),
    UP_ROW("", Less, 1, 6, OP_NONE, up_Less),
    UP_ROW("", PRelu, 1, 6, OP_NONE, up_prelu),
    UP_ROW("", Clip, 1, 10, OP_NONE, up_clip),
    UP_ROW("", Cast, 1, 5, OP_NONE, up_cast_text),
    UP_ROW("", BatchNormalization, 1, 13, OP_NONE, up_batch_norm),
    UP_ROW("", Dropout, 1, 11, OP_NONE, up_dropout),
    UP_ROW("", Dropout, 12, EVER, OP_NONE, up_dropout_12),
    UP_ROW("", Softmax, 1, 12, OP_NONE, up_softmax),
    UP_ROW("", LogSoftmax, 1, 12, OP_NONE, up_log_softmax),
    UP_ROW("", Hardmax, 1, 12, OP_NONE, up_hardmax),
    UP_ROW("", GroupNormalization, 1, 20, OP_NONE, up_group_norm),
    UP_ROW("", AveragePool, 1, EVER, OP_NONE, up_pool),
    UP_ROW("", MaxPool, 1, EVER, OP_NONE, up_pool),
    UP_ROW("", LpPool, 1, 1, OP_NONE, up_lp_pool),
    UP_ROW("", GlobalLpPool, 1, 1, OP_NONE, up_lp_pool),
    UP_ROW("", RoiAlign, 1, 15, OP_NONE, up_roi_align),
    UP_ROW("", GridSample, 1, 19, OP_NONE, up_grid_sample),
    UP_ROW("", DFT, 1, 19, OP_NONE, up_dft),
    {"", NULL, 0, 0, OP_NONE, NULL},
};
