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

uint32_t js_list_split(struct call *c, uint32_t x, uint32_t lengths)
{
    uint32_t in[] = {x, build_cast(c->b, lengths, PEN_DTYPE_I64)}, y = tf_sequence(c->b, OP_SplitToSequence, in, 2);
    build_int(c->b, ATTR_axis, 0);
    return y;
}

/* Where each of the places comes from, then the rows in that order. */
uint32_t js_list_scattered(struct call *c, uint32_t x, uint32_t indices, uint32_t count)
{
    struct build *b = c->b;
    uint32_t places = build_unsqueeze(b, build_cast(b, indices, PEN_DTYPE_I64), 1), zero = build_i64_scalar(b, 0);
    uint32_t rows = build_1(b, OP_Size, indices), order = build_3(b, OP_Range, zero, rows, build_i64_scalar(b, 1));
    uint32_t none = build_2(b, OP_Expand, zero, build_reshape(b, count, (int64_t[]){1}, 1));
    uint32_t in[] = {x, build_3(b, OP_ScatterND, none, places, order)};
    return build_axis_op(b, OP_Gather, in, 2, 0);
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

/* list, indices */
static void gather(struct call *c)
{
    uint32_t in[] = {tf_list_stack(c->b, js_in(c, 0)), js_in(c, 1)};
    js_give(c, 0, build_axis_op(c->b, OP_Gather, in, 2, 0));
}

/* rows, indices, element shape, number of elements (-1 or absent: as many as the indices need) */
static void scatter(struct call *c)
{
    struct build *b = c->b;
    uint32_t most = build_reduce(b, OP_ReduceMax, js_list_place(c, 1), build_i64(b, (int64_t[]){0}, 1), false);
    uint32_t count = build_2(b, OP_Add, most, build_i64_scalar(b, 1));
    if (c->op == 2)
        count = build_2(b, OP_Max, count, js_list_place(c, 3));
    js_give(c, 0, js_list_scattered(c, js_in(c, 0), js_in(c, 1), count));
}

/* value, element shape, lengths */
static void split(struct call *c)
{
    js_give(c, 0, js_list_split(c, js_in(c, 0), js_in(c, 2)));
}

/* Cut, or lengthened by zeros of the items' shape. */
static void resize(struct call *c)
{
    struct build *b = c->b;
    uint32_t rows = tf_list_stack(c->b, js_in(c, 0)), one = build_i64(b, (int64_t[]){1}, 1);
    uint32_t count = build_2(b, OP_Reshape, js_list_place(c, 1), one), shape = build_1(b, OP_Shape, rows);
    uint32_t have = build_slice(b, shape, 0, 0, 1, 1), tail = build_slice(b, shape, 0, 1, INT64_MAX, 1);
    uint32_t lack = build_2(b, OP_Max, build_2(b, OP_Sub, count, have), build_i64(b, (int64_t[]){0}, 1));
    enum pen_dtype dtype = build_dtype(b, rows);
    uint32_t dims[] = {lack, tail}, zero = build_scalar(b, dtype == PEN_DTYPE_NONE ? element(c) : dtype, 0);
    uint32_t parts[] = {rows, build_2(b, OP_Expand, zero, build_axis_op(b, OP_Concat, dims, 2, 0))};
    uint32_t all = build_axis_op(b, OP_Concat, parts, 2, 0), begin = build_i64(b, (int64_t[]){0}, 1);
    uint32_t in[] = {all, begin, count, begin};
    js_give(c, 0, build_op(b, OP_Slice, in, 4));
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

static void stack(struct call *c)
{
    js_give(c, 0, tf_list_stack(c->b, js_in(c, 0)));
}

static void concat(struct call *c)
{
    js_give(c, 0, tf_list_concat(c->b, js_in(c, 0)));
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
