/*
 * Lists of tensors, which the converter leaves where it does not lower them to dense tensors: ONNX's sequences. TensorFlow's own operators (Flex...) and those of
 * TFLite's library have the same inputs. A reserved list holds zeros until its places are set.
 */
#include <string.h>

#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

static uint32_t sequence(struct call *c, enum op op, const uint32_t *in, uint32_t count)
{
    uint32_t y = build_op(c->b, op, in, count);
    if (y != VALUE_NONE)
        c->b->g->values[y].kind = VALUE_SEQUENCE;
    return y;
}

static uint32_t place(struct call *c, uint32_t index)
{
    return build_reshape(c->b, build_cast(c->b, lite_in(c, index), PEN_DTYPE_I64), NULL, 0);
}

/*
 * Element type of a list that a Flex operator makes: its options hold a NodeDef, in it the attribute "element_dtype" = AttrValue{type}: 0x12, its size, 0x30
 * (field 6, a number), the type.
 */
static enum pen_dtype element(const struct call *c)
{
    static const char key[] = "element_dtype";
    static const struct {
        uint8_t number;
        enum pen_dtype dtype;
    } types[] = {{1, PEN_DTYPE_F32}, {2, PEN_DTYPE_F64}, {3, PEN_DTYPE_I32},  {4, PEN_DTYPE_U8},
                 {6, PEN_DTYPE_I8},  {9, PEN_DTYPE_I64}, {10, PEN_DTYPE_BOOL}};
    const uint8_t *at = fb_list_data(&c->custom_options);
    size_t bytes = c->custom_options.count, length = sizeof key - 1;
    for (size_t i = 0; at && i + length + 4 <= bytes; i++) {
        const uint8_t *value = at + i + length;
        if (memcmp(at + i, key, length) != 0 || value[0] != 0x12 || value[2] != 0x30)
            continue;
        for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
            if (types[k].number == value[3])
                return types[k].dtype;
        }
    }
    return PEN_DTYPE_F32;
}

/* x [n, ...] -> n items [...] */
static uint32_t apart(struct call *c, uint32_t x)
{
    uint32_t y = sequence(c, OP_SplitToSequence, &x, 1);
    build_int(c->b, ATTR_axis, 0);
    build_int(c->b, ATTR_keepdims, 0);
    return y;
}

static uint32_t stacked(struct call *c, bool new_axis)
{
    uint32_t list = lite_in(c, 0), y = build_axis_op(c->b, OP_ConcatFromSequence, &list, 1, 0);
    if (new_axis)
        build_int(c->b, ATTR_new_axis, 1);
    return y;
}

/* element shape, number of elements */
static void reserve(struct call *c)
{
    uint32_t count = build_reshape(c->b, place(c, 1), (int64_t[]){1}, 1);
    lite_give(c, 0, apart(c, build_2(c->b, OP_Expand, build_scalar(c->b, element(c), 0), count)));
}

static void empty(struct call *c)
{
    uint32_t y = sequence(c, OP_SequenceEmpty, NULL, 0);
    build_int(c->b, ATTR_dtype, element(c));
    lite_give(c, 0, y);
}

static void from_tensor(struct call *c)
{
    lite_give(c, 0, apart(c, lite_in(c, 0)));
}

static void get_item(struct call *c)
{
    lite_give(c, 0, build_2(c->b, OP_SequenceAt, lite_in(c, 0), place(c, 1)));
}

/* list, place, item */
static void set_item(struct call *c)
{
    uint32_t at = place(c, 1), gone[] = {lite_in(c, 0), at};
    uint32_t in[] = {sequence(c, OP_SequenceErase, gone, 2), lite_in(c, 2), at};
    lite_give(c, 0, sequence(c, OP_SequenceInsert, in, 3));
}

static void push_back(struct call *c)
{
    uint32_t in[] = {lite_in(c, 0), lite_in(c, 1)};
    lite_give(c, 0, sequence(c, OP_SequenceInsert, in, 2));
}

static void pop_back(struct call *c)
{
    uint32_t last = build_i64_scalar(c->b, -1), in[] = {lite_in(c, 0), last};
    uint32_t item = build_2(c->b, OP_SequenceAt, in[0], last);
    lite_give(c, 0, sequence(c, OP_SequenceErase, in, 2));
    lite_give(c, 1, item);
}

static void stack(struct call *c)
{
    lite_give(c, 0, stacked(c, true));
}

static void concat(struct call *c)
{
    lite_give(c, 0, stacked(c, false));
}

/* list, places */
static void gather(struct call *c)
{
    uint32_t in[] = {stacked(c, true), lite_in(c, 1)};
    lite_give(c, 0, build_axis_op(c->b, OP_Gather, in, 2, 0));
}

static void length(struct call *c)
{
    lite_give(c, 0, build_cast(c->b, build_1(c->b, OP_SequenceLength, lite_in(c, 0)), PEN_DTYPE_I32));
}

static const struct {
    const char *name;
    lower_fn lower;
} rows[] = {
    {"EmptyTensorList", empty},      {"TensorListConcatV2", concat},    {"TensorListFromTensor", from_tensor},
    {"TensorListGather", gather},    {"TensorListGetItem", get_item},   {"TensorListLength", length},
    {"TensorListPopBack", pop_back}, {"TensorListPushBack", push_back}, {"TensorListReserve", reserve},
    {"TensorListSetItem", set_item}, {"TensorListStack", stack},
};

lower_fn lite_list_find(const struct fb_text *name)
{
    bool flex = name->bytes > 4 && memcmp(name->at, "Flex", 4) == 0;
    size_t skip = flex ? 4 : 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strlen(rows[i].name) == name->bytes - skip &&
            memcmp(rows[i].name, name->at + skip, name->bytes - skip) == 0)
            return rows[i].lower;
    }
    return NULL;
}

bool lite_is_list(const struct build *b, uint32_t value)
{
    const struct value *v = build_value(b, value);
    return v && v->kind == VALUE_SEQUENCE;
}
