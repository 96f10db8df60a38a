/* TensorList: ONNX's sequences. A reserved list holds zeros until its places are set. */
#include "import/build/tensorflow.h"
#include "import/tfjs/reader.h"

static uint32_t sequence(struct call *c, enum op op, const uint32_t *in, uint32_t count)
{
    uint32_t y = build_op(c->b, op, in, count);
    if (y != VALUE_NONE)
        c->b->g->values[y].kind = VALUE_SEQUENCE;
    return y;
}

static uint32_t place(struct call *c, uint32_t index)
{
    return build_cast(c->b, js_in(c, index), PEN_DTYPE_I64);
}

static enum pen_dtype element(const struct call *c)
{
    return js_attr_dtype(c, "element_dtype", PEN_DTYPE_F32);
}

/* x [n, ...] -> n items [...] */
static uint32_t taken_apart(struct call *c, uint32_t x)
{
    uint32_t y = sequence(c, OP_SplitToSequence, &x, 1);
    build_int(c->b, ATTR_axis, 0);
    build_int(c->b, ATTR_keepdims, 0);
    return y;
}

static void from_tensor(struct call *c)
{
    js_give(c, 0, taken_apart(c, js_in(c, 0)));
}

/* element shape, number of elements */
static void reserve(struct call *c)
{
    uint32_t count = build_reshape(c->b, place(c, 1), (int64_t[]){1}, 1);
    js_give(c, 0, taken_apart(c, build_2(c->b, OP_Expand, build_scalar(c->b, element(c), 0), count)));
}

static void empty(struct call *c)
{
    uint32_t y = sequence(c, OP_SequenceEmpty, NULL, 0);
    build_int(c->b, ATTR_dtype, element(c));
    js_give(c, 0, y);
}

static void get_item(struct call *c)
{
    js_give(c, 0, build_2(c->b, OP_SequenceAt, js_in(c, 0), place(c, 1)));
}

static void set_item(struct call *c)
{
    uint32_t at = place(c, 1), gone[] = {js_in(c, 0), at};
    uint32_t in[] = {sequence(c, OP_SequenceErase, gone, 2), js_in(c, 2), at};
    js_give(c, 0, sequence(c, OP_SequenceInsert, in, 3));
}

static void push_back(struct call *c)
{
    uint32_t in[] = {js_in(c, 0), js_in(c, 1)};
    js_give(c, 0, sequence(c, OP_SequenceInsert, in, 2));
}

static void pop_back(struct call *c)
{
    uint32_t last = build_i64_scalar(c->b, -1), in[] = {js_in(c, 0), last};
    uint32_t item = build_2(c->b, OP_SequenceAt, js_in(c, 0), last);
    js_give(c, 0, sequence(c, OP_SequenceErase, in, 2));
    js_give(c, 1, item);
}

static void stack(struct call *c)
{
    uint32_t x = js_in(c, 0), y = build_axis_op(c->b, OP_ConcatFromSequence, &x, 1, 0);
    build_int(c->b, ATTR_new_axis, 1);
    js_give(c, 0, y);
}

static void concat(struct call *c)
{
    uint32_t x = js_in(c, 0);
    js_give(c, 0, build_axis_op(c->b, OP_ConcatFromSequence, &x, 1, 0));
}

static void length(struct call *c)
{
    js_give(c, 0, build_cast(c->b, build_1(c->b, OP_SequenceLength, js_in(c, 0)), PEN_DTYPE_I32));
}

const struct tfjs_row js_rows_list[] = {
    {"TensorListFromTensor", from_tensor, 0}, {"TensorListReserve", reserve, 0},  {"EmptyTensorList", empty, 0},
    {"TensorListGetItem", get_item, 0},       {"TensorListSetItem", set_item, 0}, {"TensorListPushBack", push_back, 0},
    {"TensorListPopBack", pop_back, 0},       {"TensorListStack", stack, 0},      {"TensorListConcat", concat, 0},
    {"TensorListConcatV2", concat, 0},        {"TensorListLength", length, 0},    {NULL, NULL, 0},
};
