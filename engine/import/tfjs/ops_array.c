/* TensorArray: its state flows with the flow value, which is the list here; the handle says nothing. A place that was not written holds a zero. */
#include "import/build/tensorflow.h"
#include "import/tfjs/list.h"

static uint32_t flow_in(struct call *c)
{
    return js_in(c, c->in_count - 1);
}

/* size -> handle, flow */
static void array(struct call *c)
{
    js_give(c, 0, build_scalar(c->b, PEN_DTYPE_I32, 0));
    struct shape item = js_shape(tfjs_json_get(js_attr_get(c, "element_shape"), "shape"));
    uint32_t dims = item.rank > 0 ? build_i64(c->b, item.dim, (uint32_t)item.rank) : VALUE_NONE;
    js_give(c, 1, tf_list_reserve(c->b, js_list_place(c, 0), dims, js_attr_dtype(c, "dtype", PEN_DTYPE_F32)));
}

/* handle, index, value, flow */
static void put(struct call *c)
{
    if (c->in_count < 4)
        build_stop(c->b, PEN_ERR_CORRUPT, "it lacks inputs");
    else
        js_give(c, 0, tf_list_set(c->b, flow_in(c), js_list_place(c, 1), js_in(c, 2)));
}

static void get(struct call *c)
{
    js_give(c, 0, tf_list_get(c->b, flow_in(c), js_list_place(c, 1)));
}

static void gather(struct call *c)
{
    uint32_t in[] = {tf_list_stack(c->b, flow_in(c), VALUE_NONE), js_in(c, 1)};
    js_give(c, 0, build_axis_op(c->b, OP_Gather, in, 2, 0));
}

/* handle, indices, rows, flow */
static void scatter(struct call *c)
{
    uint32_t count = build_cast(c->b, tf_list_length(c->b, flow_in(c)), PEN_DTYPE_I64);
    js_give(c, 0, tf_list_scattered(c->b, js_in(c, 2), js_list_place(c, 1), count));
}

static void concat(struct call *c)
{
    js_give(c, 0, tf_list_concat(c->b, flow_in(c)));
}

/* handle, value, lengths, flow */
static void split(struct call *c)
{
    js_give(c, 0, tf_list_split(c->b, js_in(c, 1), js_list_place(c, 2)));
}

static void size(struct call *c)
{
    js_give(c, 0, tf_list_length(c->b, flow_in(c)));
}

static void close_of(struct call *c)
{
    (void)c;
}

const struct tfjs_row js_rows_array[] = {
    JS_ROW(TensorArrayV3, array, 0),          JS_ROW(TensorArrayWriteV3, put, 0),
    JS_ROW(TensorArrayReadV3, get, 0),        JS_ROW(TensorArrayGatherV3, gather, 0),
    JS_ROW(TensorArrayScatterV3, scatter, 0), JS_ROW(TensorArrayConcatV3, concat, 0),
    JS_ROW(TensorArraySplitV3, split, 0),     JS_ROW(TensorArraySizeV3, size, 0),
    JS_ROW(TensorArrayCloseV3, close_of, 0),  {NULL, NULL, 0},
};
