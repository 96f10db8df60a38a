/*
 * Lists of tensors, which the converter leaves where it does not lower them to dense tensors. TensorFlow's own operators (Flex...) and those of TFLite's library
 * have the same inputs. A reserved list holds zeros until its places are set.
 */
#include <string.h>

#include "import/build/list.h"
#include "import/tflite/reader.h"

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

/* element shape, number of elements */
static void reserve(struct call *c)
{
    lite_give(c, 0, tf_list_reserve(c->b, place(c, 1), lite_in(c, 0), element(c)));
}

/* element shape, most elements */
static void empty(struct call *c)
{
    lite_give(c, 0, tf_list_empty(c->b, lite_in(c, 0), element(c)));
}

static void from_tensor(struct call *c)
{
    lite_give(c, 0, lite_in(c, 0));
}

static void get_item(struct call *c)
{
    lite_give(c, 0, tf_list_get(c->b, lite_in(c, 0), place(c, 1)));
}

/* list, place, item */
static void set_item(struct call *c)
{
    lite_give(c, 0, tf_list_set(c->b, lite_in(c, 0), place(c, 1), lite_in(c, 2)));
}

static void push_back(struct call *c)
{
    lite_give(c, 0, tf_list_push(c->b, lite_in(c, 0), lite_in(c, 1)));
}

static void pop_back(struct call *c)
{
    uint32_t item = VALUE_NONE, rest = tf_list_pop(c->b, lite_in(c, 0), &item);
    lite_give(c, 0, rest);
    lite_give(c, 1, item);
}

static void stack(struct call *c)
{
    lite_give(c, 0, tf_list_stack(c->b, lite_in(c, 0)));
}

static void concat(struct call *c)
{
    lite_give(c, 0, tf_list_concat(c->b, lite_in(c, 0)));
}

/* list, places */
static void gather(struct call *c)
{
    uint32_t in[] = {tf_list_stack(c->b, lite_in(c, 0)), lite_in(c, 1)};
    lite_give(c, 0, build_axis_op(c->b, OP_Gather, in, 2, 0));
}

static void length(struct call *c)
{
    lite_give(c, 0, tf_list_length(c->b, lite_in(c, 0)));
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
