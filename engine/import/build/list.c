#include "import/build/list.h"

#include "import/build/tensorflow.h"

bool tf_list_is_sequence(const struct build *b, uint32_t list)
{
    const struct value *v = build_value(b, list);
    return v && v->kind == VALUE_SEQUENCE;
}

uint32_t tf_sequence(struct build *b, enum op op, const uint32_t *in, uint32_t count)
{
    uint32_t y = build_op(b, op, in, count);
    if (y != VALUE_NONE)
        b->g->values[y].kind = VALUE_SEQUENCE;
    return y;
}

uint32_t tf_list_apart(struct build *b, uint32_t x)
{
    uint32_t y = tf_sequence(b, OP_SplitToSequence, &x, 1);
    build_int(b, ATTR_axis, 0);
    build_int(b, ATTR_keepdims, 0);
    return y;
}

/* The shape of an item when all of it is known. */
static bool item_known(struct build *b, uint32_t item, int64_t *dims, uint32_t *ret_rank)
{
    if (item == VALUE_NONE || !build_ints_of(b, item, dims, PEN_MAX_RANK - 1, ret_rank))
        return false;
    const struct value *v = build_value(b, item);
    if (v && v->data && v->shape.rank == 0)
        return false; /* -1: not even the rank */
    for (uint32_t i = 0; i < *ret_rank; i++) {
        if (dims[i] < 0)
            return false;
    }
    return true;
}

uint32_t tf_list_reserve(struct build *b, uint32_t count, uint32_t item, enum pen_dtype dtype)
{
    int64_t dims[PEN_MAX_RANK];
    uint32_t rank = 0, zero = build_scalar(b, dtype, 0), length = build_reshape(b, count, (int64_t[]){1}, 1);
    if (!item_known(b, item, dims, &rank))
        return tf_list_apart(b, build_2(b, OP_Expand, zero, length));
    uint32_t parts[] = {length, build_i64(b, dims, rank)};
    return rank > 0 ? tf_fill(b, build_axis_op(b, OP_Concat, parts, 2, 0), zero) : build_2(b, OP_Expand, zero, length);
}

uint32_t tf_list_empty(struct build *b, uint32_t item, enum pen_dtype dtype)
{
    int64_t dims[PEN_MAX_RANK];
    uint32_t rank = 0;
    if (item_known(b, item, dims, &rank))
        return tf_list_reserve(b, build_i64_scalar(b, 0), item, dtype);
    uint32_t y = tf_sequence(b, OP_SequenceEmpty, NULL, 0);
    build_int(b, ATTR_dtype, dtype);
    return y;
}

uint32_t tf_list_get(struct build *b, uint32_t list, uint32_t at)
{
    uint32_t in[] = {list, at};
    return tf_list_is_sequence(b, list) ? build_2(b, OP_SequenceAt, list, at) : build_axis_op(b, OP_Gather, in, 2, 0);
}

uint32_t tf_row_set(struct build *b, uint32_t x, uint32_t at, uint32_t row)
{
    uint32_t place = build_reshape(b, at, (int64_t[]){1, 1}, 2);
    return build_3(b, OP_ScatterND, x, place, build_unsqueeze(b, row, 0));
}

uint32_t tf_list_set(struct build *b, uint32_t list, uint32_t at, uint32_t item)
{
    uint32_t gone[] = {list, at};
    if (!tf_list_is_sequence(b, list))
        return tf_row_set(b, list, at, item);
    uint32_t in[] = {tf_sequence(b, OP_SequenceErase, gone, 2), item, at};
    return tf_sequence(b, OP_SequenceInsert, in, 3);
}

uint32_t tf_list_push(struct build *b, uint32_t list, uint32_t item)
{
    uint32_t in[] = {list, item};
    if (tf_list_is_sequence(b, list))
        return tf_sequence(b, OP_SequenceInsert, in, 2);
    in[1] = build_unsqueeze(b, item, 0);
    return build_axis_op(b, OP_Concat, in, 2, 0);
}

uint32_t tf_list_pop(struct build *b, uint32_t list, uint32_t *ret_item)
{
    uint32_t last = build_i64_scalar(b, -1), in[] = {list, last};
    *ret_item = tf_list_get(b, list, last);
    return tf_list_is_sequence(b, list) ? tf_sequence(b, OP_SequenceErase, in, 2) : build_slice(b, list, 0, 0, -1, 1);
}

uint32_t tf_list_stack(struct build *b, uint32_t list)
{
    if (!tf_list_is_sequence(b, list))
        return list;
    uint32_t y = build_axis_op(b, OP_ConcatFromSequence, &list, 1, 0);
    build_int(b, ATTR_new_axis, 1);
    return y;
}

uint32_t tf_list_concat(struct build *b, uint32_t list)
{
    if (tf_list_is_sequence(b, list))
        return build_axis_op(b, OP_ConcatFromSequence, &list, 1, 0);
    uint32_t dims = build_1(b, OP_Shape, list), tail = build_slice(b, dims, 0, 2, INT64_MAX, 1);
    uint32_t rows = build_reduce(b, OP_ReduceProd, build_slice(b, dims, 0, 0, 2, 1), VALUE_NONE, true);
    uint32_t parts[] = {rows, tail};
    return build_2(b, OP_Reshape, list, build_axis_op(b, OP_Concat, parts, 2, 0));
}

uint32_t tf_list_length(struct build *b, uint32_t list)
{
    uint32_t y = VALUE_NONE;
    if (tf_list_is_sequence(b, list))
        y = build_1(b, OP_SequenceLength, list);
    else
        y = build_reshape(b, build_slice(b, build_1(b, OP_Shape, list), 0, 0, 1, 1), NULL, 0);
    return build_cast(b, y, PEN_DTYPE_I32);
}

void tf_list_kinds(struct build *b, const uint32_t *out, uint32_t count, const struct graph *body, uint32_t first)
{
    for (uint32_t i = 0; i < count && b->status == PEN_OK && first + i < body->output_count; i++)
        b->g->values[out[i]].kind = body->values[body->outputs[first + i]].kind;
}
