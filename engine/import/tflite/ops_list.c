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
 * A number among the attributes of TensorFlow's own operator: the options hold a NodeDef, in it each attribute as its name and AttrValue, which is 0x12, its size,
 * the tag of its kind (a truth: 0x28, a type: 0x30) and a number.
 */
static uint8_t attribute(const struct call *c, const char *key, uint8_t tag, uint8_t def)
{
    const uint8_t *at = fb_list_data(&c->custom_options);
    size_t bytes = c->custom_options.count, length = strlen(key);
    for (size_t i = 0; at && i + length + 4 <= bytes; i++) {
        const uint8_t *value = at + i + length;
        if (memcmp(at + i, key, length) == 0 && value[0] == 0x12 && value[2] == tag)
            return value[3];
    }
    return def;
}

static enum pen_dtype element(const struct call *c)
{
    static const struct {
        uint8_t number;
        enum pen_dtype dtype;
    } types[] = {{1, PEN_DTYPE_F32}, {2, PEN_DTYPE_F64}, {3, PEN_DTYPE_I32},  {4, PEN_DTYPE_U8},
                 {6, PEN_DTYPE_I8},  {9, PEN_DTYPE_I64}, {10, PEN_DTYPE_BOOL}};
    const uint8_t number = attribute(c, "element_dtype", 0x30, 1);
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        if (types[k].number == number)
            return types[k].dtype;
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
    const bool grows = attribute(c, "resize_if_index_out_of_bounds", 0x28, 0) != 0;
    const uint32_t at = place(c, 1);
    lite_give(c, 0, (grows ? tf_list_set_growing : tf_list_set)(c->b, lite_in(c, 0), at, lite_in(c, 2)));
}

/* list, rows, places */
static void scatter_into(struct call *c)
{
    lite_give(c, 0, tf_list_scatter(c->b, lite_in(c, 0), lite_i64(c, 2), lite_in(c, 1)));
}

/* rows, places, element shape, number of elements */
static void scatter(struct call *c)
{
    lite_give(c, 0, tf_list_scattered(c->b, lite_in(c, 0), lite_i64(c, 1), place(c, 3)));
}

/* rows, element shape, lengths */
static void split(struct call *c)
{
    lite_give(c, 0, tf_list_split(c->b, lite_in(c, 0), lite_i64(c, 2)));
}

/* list, number of elements */
static void resize(struct call *c)
{
    lite_give(c, 0, tf_list_resize(c->b, lite_in(c, 0), place(c, 1), VALUE_NONE));
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

/* list, element shape */
static void stack(struct call *c)
{
    lite_give(c, 0, tf_list_stack(c->b, lite_in(c, 0), lite_in(c, 1)));
}

/* -> all items, how long each is */
static void concat(struct call *c)
{
    lite_give(c, 0, tf_list_concat(c->b, lite_in(c, 0)));
    lite_give(c, 1, tf_list_lengths(c->b, lite_in(c, 0)));
}

/* list, places, element shape */
static void gather(struct call *c)
{
    uint32_t in[] = {tf_list_stack(c->b, lite_in(c, 0), lite_in(c, 2)), lite_in(c, 1)};
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
    {"EmptyTensorList", empty},
    {"TensorListConcatV2", concat},
    {"TensorListFromTensor", from_tensor},
    {"TensorListGather", gather},
    {"TensorListGetItem", get_item},
    {"TensorListLength", length},
    {"TensorListPopBack", pop_back},
    {"TensorListPushBack", push_back},
    {"TensorListReserve", reserve},
    {"TensorListResize", resize},
    {"TensorListScatterIntoExistingList", scatter_into},
    {"TensorListScatterV2", scatter},
    {"TensorListSetItem", set_item},
    {"TensorListSplit", split},
    {"TensorListStack", stack},
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
