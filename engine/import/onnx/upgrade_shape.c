/* Attributes that became inputs, and older resizing: the part of the upgrades that moves data about. */
#include <string.h>

#include "import/onnx/reader.h"

#define EVER 9999

/* An integer list attribute as a constant input; VALUE_NONE when absent. */
static uint32_t ints_input(struct call *c, const char *name)
{
    const int64_t *items;
    uint32_t count;
    return call_ints(c, name, &items, &count) ? call_i64(c, items, count, false) : VALUE_NONE;
}

/* Emits op with `in`, trailing omitted inputs cut, and the attributes that did not become inputs. */
static void emit_moved(struct call *c, enum op op, const uint32_t *in, uint32_t count, const char *const *except)
{
    while (count > op_def(op)->min_in && in[count - 1] == VALUE_NONE)
        count--;
    for (uint32_t i = 0; i < op_def(op)->min_in; i++) {
        if (in[i] == VALUE_NONE)
            call_fail(c, PEN_ERR_INVALID, "node %s (%s) lacks input or attribute %u", c->name, c->origin, i);
    }
    uint32_t node = call_emit(c, op, in, count, c->out, c->out_count);
    call_copy_attrs(c, node, except);
}

static void axes_to_input(struct call *c, enum op op)
{
    static const char *const except[] = {"axes", NULL};
    uint32_t in[2] = {call_input(c, 0), ints_input(c, "axes")};
    if (in[1] == VALUE_NONE)
        in[1] = call_input(c, 1);
    emit_moved(c, op, in, 2, except);
}

static void up_axes(struct call *c)
{
    char name[32] = {0};
    memcpy(name, c->op_type.at, c->op_type.size < sizeof name ? c->op_type.size : sizeof name - 1);
    axes_to_input(c, op_find(name));
}

static void up_reshape(struct call *c)
{
    static const char *const except[] = {"shape", NULL};
    uint32_t in[2] = {call_input(c, 0), ints_input(c, "shape")};
    emit_moved(c, OP_Reshape, in, 2, except);
}

static void up_slice(struct call *c)
{
    static const char *const except[] = {"starts", "ends", "axes", NULL};
    uint32_t in[4] = {call_input(c, 0), ints_input(c, "starts"), ints_input(c, "ends"), ints_input(c, "axes")};
    emit_moved(c, OP_Slice, in, 4, except);
}

static void up_pad(struct call *c)
{
    static const char *const except[] = {"pads", "paddings", "value", NULL};
    uint32_t in[3] = {call_input(c, 0), ints_input(c, "pads"), VALUE_NONE};
    if (in[1] == VALUE_NONE)
        in[1] = ints_input(c, "paddings");
    const struct pb_attr *value = call_attr(c, "value");
    if (value && value->f != 0.0f)
        in[2] = call_float_like(c, value->f, in[0]);
    emit_moved(c, OP_Pad, in, 3, except);
}

/* PyTorch's older exporter writes axes of a permutation from behind, where it does not know the rank: perm has it. */
static void up_transpose(struct call *c)
{
    uint32_t in = call_input(c, 0), count = 0;
    const int64_t *perm = NULL;
    int64_t axes[PEN_MAX_RANK];
    emit_moved(c, OP_Transpose, &in, 1, NULL);
    if (c->status != PEN_OK || !call_ints(c, "perm", &perm, &count) || count > PEN_MAX_RANK)
        return;
    for (uint32_t i = 0; i < count; i++)
        axes[i] = perm[i] < 0 ? perm[i] + count : perm[i];
    c->status = graph_attr_ints(c->g, c->g->node_count - 1, ATTR_perm, axes, count);
}

/* Lengths as an attribute until opset 12; equal parts by the number of outputs until 17. */
static void up_split(struct call *c)
{
    static const char *const except[] = {"split", "num_outputs", NULL};
    uint32_t in[2] = {call_input(c, 0), ints_input(c, "split")};
    if (in[1] == VALUE_NONE)
        in[1] = call_input(c, 1);
    emit_moved(c, OP_Split, in, 2, except);
    if (in[1] == VALUE_NONE && c->status == PEN_OK)
        call_set_int(c, c->g->node_count - 1, ATTR_num_outputs, c->out_count);
}

static void up_topk(struct call *c)
{
    static const char *const except[] = {"k", NULL};
    int64_t k = call_int(c, "k", 0);
    uint32_t in[2] = {call_input(c, 0), call_i64(c, &k, 1, false)};
    emit_moved(c, OP_TopK, in, 2, except);
}

static void up_concat(struct call *c)
{
    uint32_t node = call_emit(c, OP_Concat, c->in, c->in_count, c->out, c->out_count);
    call_copy_attrs(c, node, NULL);
    if (!call_attr(c, "axis"))
        call_set_int(c, node, ATTR_axis, 1);
}

static void up_scatter(struct call *c)
{
    uint32_t node = call_emit(c, OP_ScatterElements, c->in, c->in_count, c->out, c->out_count);
    call_copy_attrs(c, node, NULL);
}

/* An experimental operator of the first opsets; PyTorch wrote it for zeros of a computed shape until opset 8. */
static void up_constant_fill(struct call *c)
{
    uint32_t x = call_input(c, 0), like = VALUE_NONE;
    uint32_t shape = x == VALUE_NONE ? ints_input(c, "shape") : x;
    float value = call_float(c, "value", 0.0f);
    if (x != VALUE_NONE && call_int(c, "input_as_shape", 0) == 0)
        shape = call_value(c, OP_Shape, &x, 1);
    if (shape == VALUE_NONE || call_attr(c, "extra_shape")) {
        call_fail(c, PEN_ERR_UNSUPPORTED, "node %s: ConstantFill needs a shape, and none besides", c->name);
        return;
    }
    if (c->status == PEN_OK)
        c->status = graph_constant_f32(c->g, &value, 1, true, &like);
    uint32_t item = call_value(c, OP_Cast, &like, 1);
    if (c->status == PEN_OK)
        call_set_int(c, c->g->values[item].producer, ATTR_to, call_int(c, "dtype", PEN_DTYPE_F32));
    (void)call_emit(c, OP_Expand, (uint32_t[]){item, shape}, 2, c->out, c->out_count);
}

/* ---- resizing -------------------------------------------------------------------------------------------------------------- */

static void asymmetric(struct call *c, uint32_t scales)
{
    uint32_t in[3] = {call_input(c, 0), VALUE_NONE, scales};
    bool linear = call_text_is(c, "mode", "linear") || call_text_is(c, "mode", "bilinear");
    if (in[0] == VALUE_NONE || scales == VALUE_NONE) {
        call_fail(c, PEN_ERR_INVALID, "node %s (%s) has no scales", c->name, c->origin);
        return;
    }
    uint32_t node = call_emit(c, OP_Resize, in, 3, c->out, c->out_count);
    call_set_text(c, node, ATTR_mode, linear ? "linear" : "nearest");
    call_set_text(c, node, ATTR_coordinate_transformation_mode, "asymmetric");
    call_set_text(c, node, ATTR_nearest_mode, "floor");
}

static uint32_t scales_input(struct call *c)
{
    const float *items;
    uint32_t count, id = VALUE_NONE;
    if (call_floats(c, "scales", &items, &count) && c->status == PEN_OK)
        c->status = graph_constant_f32(c->g, items, count, false, &id);
    return id;
}

static void up_upsample_1(struct call *c)
{
    float scales[4] = {1, 1, call_float(c, "height_scale", 1), call_float(c, "width_scale", 1)};
    uint32_t id = VALUE_NONE;
    if (c->status == PEN_OK)
        c->status = graph_constant_f32(c->g, scales, 4, false, &id);
    asymmetric(c, id);
}

static void up_upsample_7(struct call *c)
{
    asymmetric(c, scales_input(c));
}

/* Upsample 9 and Resize 10. */
static void up_upsample_9(struct call *c)
{
    asymmetric(c, call_input(c, 1));
}

/* An omitted input was written as an empty tensor until opset 12. */
static uint32_t unless_empty(const struct call *c, uint32_t index)
{
    uint32_t id = call_input(c, index);
    if (id == VALUE_NONE)
        return id;
    const struct value *v = &c->g->values[id];
    return v->data && v->bytes == 0 ? VALUE_NONE : id;
}

static void up_resize(struct call *c)
{
    uint32_t in[4] = {call_input(c, 0), unless_empty(c, 1), unless_empty(c, 2), unless_empty(c, 3)};
    emit_moved(c, OP_Resize, in, 4, NULL);
}

const struct op_row rows_shape[] = {
    UP_ROW("", Reshape, 1, 4, OP_NONE, up_reshape),
    UP_ROW("", Slice, 1, 9, OP_NONE, up_slice),
    UP_ROW("", Pad, 1, 10, OP_NONE, up_pad),
    UP_ROW("", Split, 1, 17, OP_NONE, up_split),
    UP_ROW("", Squeeze, 1, 12, OP_NONE, up_axes),
    UP_ROW("", Unsqueeze, 1, 12, OP_NONE, up_axes),
    UP_ROW("", ReduceSum, 1, 12, OP_NONE, up_axes),
    UP_ROW("", ReduceL1, 1, 17, OP_NONE, up_axes),
    UP_ROW("", ReduceL2, 1, 17, OP_NONE, up_axes),
    UP_ROW("", ReduceLogSum, 1, 17, OP_NONE, up_axes),
    UP_ROW("", ReduceLogSumExp, 1, 17, OP_NONE, up_axes),
    UP_ROW("", ReduceMax, 1, 17, OP_NONE, up_axes),
    UP_ROW("", ReduceMean, 1, 17, OP_NONE, up_axes),
    UP_ROW("", ReduceMin, 1, 17, OP_NONE, up_axes),
    UP_ROW("", ReduceProd, 1, 17, OP_NONE, up_axes),
    UP_ROW("", ReduceSumSquare, 1, 17, OP_NONE, up_axes),
    UP_ROW("", TopK, 1, 9, OP_NONE, up_topk),
    UP_ROW("", Transpose, 1, EVER, OP_NONE, up_transpose),
    UP_ROW("", Concat, 1, 3, OP_NONE, up_concat),
    UP_ROW("", Scatter, 1, EVER, OP_NONE, up_scatter),
    UP_ROW("", ConstantFill, 1, EVER, OP_NONE, up_constant_fill),
    UP_ROW("", Upsample, 1, 6, OP_NONE, up_upsample_1),
    UP_ROW("", Upsample, 7, 8, OP_NONE, up_upsample_7),
    UP_ROW("", Upsample, 9, EVER, OP_NONE, up_upsample_9),
    UP_ROW("", Resize, 10, 10, OP_NONE, up_upsample_9),
    UP_ROW("", Resize, 11, EVER, OP_NONE, up_resize),
    {"", NULL, 0, 0, OP_NONE, NULL},
};
