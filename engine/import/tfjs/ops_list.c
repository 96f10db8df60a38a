/* TensorList. A reserved list holds zeros until its places are set. */
#include "import/build/tensorflow.h"
#include "import/tfjs/list.h"

uint32_t js_list_place(struct call *c, uint32_t index)
{
    return build_cast(c->b, js_in(c, index), PEN_DTYPE_I64);
}

static enum pen_dtype element(const struct call *c)
{
    return js_attr_dtype(c, "element_dtype", PEN_DTYPE_F32);
}

static void from_tensor(struct call *c)
{
    js_give(c, 0, js_in(c, 0));
}

/* element shape, number of elements */
static void reserve(struct call *c)
{
    js_give(c, 0, tf_list_reserve(c->b, js_list_place(c, 1), js_in(c, 0), element(c)));
}

static void empty(struct call *c)
{
    js_give(c, 0, tf_list_empty(c->b, js_in(c, 0), element(c)));
}

static void get_item(struct call *c)
{
    js_give(c, 0, tf_list_get(c->b, js_in(c, 0), js_list_place(c, 1)));
}

static void set_item(struct call *c)
{
    bool grows = js_attr_bool(c, "resize_if_index_out_of_bounds", false);
    uint32_t at = js_list_place(c, 1);
    js_give(c, 0, (grows ? tf_list_set_growing : tf_list_set)(c->b, js_in(c, 0), at, js_in(c, 2)));
}

/* list, indices, element shape */
static void gather(struct call *c)
{
    uint32_t in[] = {tf_list_stack(c->b, js_in(c, 0), js_in(c, 2)), js_in(c, 1)};
    js_give(c, 0, build_axis_op(c->b, OP_Gather, in, 2, 0));
}

/* rows, indices, element shape, number of elements (-1 or absent: as many as the indices need) */
static void scatter(struct call *c)
{
    uint32_t count = c->op == 2 ? js_list_place(c, 3) : VALUE_NONE;
    js_give(c, 0, tf_list_scattered(c->b, js_in(c, 0), js_list_place(c, 1), count));
}

/* value, element shape, lengths */
static void split(struct call *c)
{
    js_give(c, 0, tf_list_split(c->b, js_in(c, 0), js_list_place(c, 2)));
}

/* Cut, or lengthened by zeros of the items' shape. */
static void resize(struct call *c)
{
    js_give(c, 0, tf_list_resize(c->b, js_in(c, 0), js_list_place(c, 1), VALUE_NONE));
}

static void push_back(struct call *c)
{
    js_give(c, 0, tf_list_push(c->b, js_in(c, 0), js_in(c, 1)));
}

static void pop_back(struct call *c)
{
    uint32_t item = VALUE_NONE, rest = tf_list_pop(c->b, js_in(c, 0), &item);
    js_give(c, 0, rest);
    js_give(c, 1, item);
}

/* list, element shape */
static void stack(struct call *c)
{
    js_give(c, 0, tf_list_stack(c->b, js_in(c, 0), js_in(c, 1)));
}

/* -> all items, how long each is */
static void concat(struct call *c)
{
    js_give(c, 0, tf_list_concat(c->b, js_in(c, 0)));
    js_give(c, 1, build_cast(c->b, tf_list_lengths(c->b, js_in(c, 0)), PEN_DTYPE_I32));
}

static void length(struct call *c)
{
    js_give(c, 0, tf_list_length(c->b, js_in(c, 0)));
}

const struct tfjs_row js_rows_list[] = {
    JS_ROW(EmptyTensorList, empty, 0),
    JS_ROW(TensorListConcat, concat, 0),
    JS_ROW(TensorListConcatV2, concat, 0),
    JS_ROW(TensorListFromTensor, from_tensor, 0),
    JS_ROW(TensorListGather, gather, 0),
    JS_ROW(TensorListGetItem, get_item, 0),
    JS_ROW(TensorListLength, length, 0),
    JS_ROW(TensorListPopBack, pop_back, 0),
    JS_ROW(TensorListPushBack, push_back, 0),
    JS_ROW(TensorListReserve, reserve, 0),
    JS_ROW(TensorListResize, resize, 0),
    JS_ROW(TensorListScatter, scatter, 1),
    JS_ROW(TensorListScatterV2, scatter, 2),
    JS_ROW(TensorListSetItem, set_item, 0),
    JS_ROW(TensorListSplit, split, 0),
    JS_ROW(TensorListStack, stack, 0),
    {NULL, NULL, 0},
};
