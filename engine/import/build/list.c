#include "import/build/list.h"

#include "graph/internal.h"

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

uint32_t tf_list_same(struct build *b, uint32_t x)
{
    return tf_list_is_sequence(b, x) ? tf_sequence(b, OP_Identity, &x, 1) : build_1(b, OP_Identity, x);
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
    list = tf_list_for(b, list, item);
    uint32_t gone[] = {list, at};
    if (!tf_list_is_sequence(b, list))
        return tf_row_set(b, list, at, item);
    uint32_t in[] = {tf_sequence(b, OP_SequenceErase, gone, 2), item, at};
    return tf_sequence(b, OP_SequenceInsert, in, 3);
}

/* A subgraph in the making, ret_inner->g: its operators are told as those of the node that is built. False after a failure, and without memory. */
static bool child_begin(struct build *b, struct build *ret_inner)
{
    struct graph *g = NULL;
    if (b->status == PEN_OK && graph_new_child(b->g, &g) != PEN_OK)
        build_stop(b, PEN_ERR_NO_MEMORY, "no memory for a subgraph");
    *ret_inner =
        (struct build){.g = g, .missing = b->missing, .reterr = b->reterr, .name = b->name, .origin = b->origin};
    return b->status == PEN_OK;
}

/* A branch of the If below: the list that it is fed, without the item at the place it is fed when `erase`. */
static struct graph *branch_make(struct build *b, enum pen_dtype dtype, bool erase)
{
    static const struct shape any = {.rank = SHAPE_RANK_UNKNOWN};
    struct shape scalar = shape_scalar();
    struct build inner;
    if (!child_begin(b, &inner))
        return NULL;
    struct graph *g = inner.g;
    uint32_t in[] = {build_input(&inner, "list", 4, dtype, &any),
                     build_input(&inner, "place", 5, PEN_DTYPE_I64, &scalar)};
    if (inner.status == PEN_OK)
        g->values[in[0]].kind = VALUE_SEQUENCE;
    uint32_t y = tf_sequence(&inner, erase ? OP_SequenceErase : OP_Identity, in, erase ? 2 : 1);
    if (inner.status == PEN_OK && graph_output_add(g, y) != PEN_OK)
        build_stop(&inner, PEN_ERR_NO_MEMORY, "no memory for outputs");
    build_fini(&inner);
    b->status = inner.status;
    return g;
}

/* The item goes in before the old one, which then goes if there was one. */
static uint32_t sequence_set_growing(struct build *b, uint32_t list, uint32_t at, uint32_t item)
{
    enum pen_dtype known = build_dtype(b, list), dtype = known == PEN_DTYPE_NONE ? build_dtype(b, item) : known;
    uint32_t in[] = {list, item, at}, next = build_2(b, OP_Add, at, build_i64_scalar(b, 1)), y = VALUE_NONE;
    uint32_t there = build_2(b, OP_Less, at, build_1(b, OP_SequenceLength, list)),
             more = tf_sequence(b, OP_SequenceInsert, in, 3);
    dtype = dtype == PEN_DTYPE_NONE ? PEN_DTYPE_F32 : dtype;
    struct graph *yes = branch_make(b, dtype, true), *no = branch_make(b, dtype, false);
    uint32_t fed[] = {there, more, next, more, next};
    if (b->status != PEN_OK)
        return VALUE_NONE;
    build_many(b, OP_If, fed, 5, &y, 1);
    build_graph(b, ATTR_then_branch, yes);
    build_graph(b, ATTR_else_branch, no);
    tf_list_kinds(b, &y, 1, yes, 0);
    return y;
}

uint32_t tf_list_lengthened(struct build *b, uint32_t list, uint32_t need)
{
    uint32_t shape = build_1(b, OP_Shape, list), have = build_slice(b, shape, 0, 0, 1, 1);
    uint32_t more = build_2(b, OP_Sub, build_reshape(b, need, (int64_t[]){1}, 1), have);
    uint32_t lack = build_2(b, OP_Max, more, build_i64(b, (int64_t[]){0}, 1));
    enum pen_dtype known = build_dtype(b, list);
    uint32_t dims[] = {lack, build_slice(b, shape, 0, 1, INT64_MAX, 1)};
    uint32_t zero = build_scalar(b, known == PEN_DTYPE_NONE ? PEN_DTYPE_F32 : known, 0);
    uint32_t parts[] = {list, tf_fill(b, build_axis_op(b, OP_Concat, dims, 2, 0), zero)};
    return build_axis_op(b, OP_Concat, parts, 2, 0);
}

uint32_t tf_list_set_growing(struct build *b, uint32_t list, uint32_t at, uint32_t item)
{
    list = tf_list_for(b, list, item);
    if (tf_list_is_sequence(b, list))
        return sequence_set_growing(b, list, at, item);
    return tf_row_set(b, tf_list_lengthened(b, list, build_2(b, OP_Add, at, build_i64_scalar(b, 1))), at, item);
}

/* Places (int64, in one dimension) lie below this i64 scalar. */
static uint32_t behind_all(struct build *b, uint32_t places)
{
    uint32_t most = build_reduce(b, OP_ReduceMax, places, build_i64(b, (int64_t[]){0}, 1), false);
    return build_2(b, OP_Add, most, build_i64_scalar(b, 1));
}

uint32_t tf_list_scatter(struct build *b, uint32_t list, uint32_t places, uint32_t rows)
{
    list = tf_list_for_rows(b, list, rows);
    if (tf_list_is_sequence(b, list)) {
        build_miss(b, "TensorListScatterIntoExistingList of items whose shape the file does not tell");
        return VALUE_NONE;
    }
    uint32_t whole = tf_list_lengthened(b, list, behind_all(b, places));
    return build_3(b, OP_ScatterND, whole, build_unsqueeze(b, places, 1), rows);
}

/* Where each of the items comes from, then the rows in that order. */
uint32_t tf_list_scattered(struct build *b, uint32_t rows, uint32_t places, uint32_t count)
{
    uint32_t zero = build_i64_scalar(b, 0), least = behind_all(b, places);
    count = count == VALUE_NONE ? least : build_2(b, OP_Max, least, count);
    uint32_t order = build_3(b, OP_Range, zero, build_1(b, OP_Size, places), build_i64_scalar(b, 1));
    uint32_t none = build_2(b, OP_Expand, zero, build_reshape(b, count, (int64_t[]){1}, 1));
    uint32_t in[] = {rows, build_3(b, OP_ScatterND, none, build_unsqueeze(b, places, 1), order)};
    return build_axis_op(b, OP_Gather, in, 2, 0);
}

uint32_t tf_list_split(struct build *b, uint32_t rows, uint32_t lengths)
{
    uint32_t in[] = {rows, lengths}, y = tf_sequence(b, OP_SplitToSequence, in, 2);
    build_int(b, ATTR_axis, 0);
    return y;
}

uint32_t tf_list_resize(struct build *b, uint32_t list, uint32_t count, uint32_t item)
{
    uint32_t rows = tf_list_lengthened(b, tf_list_stack(b, list, item), count), begin = build_i64(b, (int64_t[]){0}, 1);
    uint32_t in[] = {rows, begin, build_reshape(b, count, (int64_t[]){1}, 1), begin};
    return build_op(b, OP_Slice, in, 4);
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

uint32_t tf_list_stack(struct build *b, uint32_t list, uint32_t item)
{
    int64_t dims[PEN_MAX_RANK];
    uint32_t rank = 0;
    enum pen_dtype dtype = build_dtype(b, list);
    if (!tf_list_is_sequence(b, list))
        return list;
    bool known = dtype != PEN_DTYPE_NONE && item_known(b, item, dims, &rank);
    if (known) { /* a list without items has a shape, too: an item in front, which goes again */
        uint32_t zeros = tf_fill(b, build_i64(b, dims, rank), build_scalar(b, dtype, 0));
        uint32_t in[] = {list, zeros, build_i64_scalar(b, 0)};
        list = tf_sequence(b, OP_SequenceInsert, in, 3);
    }
    uint32_t y = build_axis_op(b, OP_ConcatFromSequence, &list, 1, 0);
    build_int(b, ATTR_new_axis, 1);
    return known ? build_slice(b, y, 0, 1, INT64_MAX, 1) : y;
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

/* How long an item is: turn, condition, list -> condition, length. */
static struct graph *length_body(struct build *b, enum pen_dtype dtype)
{
    static const struct shape any = {.rank = SHAPE_RANK_UNKNOWN};
    struct shape scalar = shape_scalar();
    struct build inner;
    if (!child_begin(b, &inner))
        return NULL;
    struct graph *g = inner.g;
    uint32_t turn = build_input(&inner, "turn", 4, PEN_DTYPE_I64, &scalar);
    uint32_t go = build_input(&inner, "condition", 9, PEN_DTYPE_BOOL, &scalar);
    uint32_t list = build_input(&inner, "list", 4, dtype == PEN_DTYPE_NONE ? PEN_DTYPE_F32 : dtype, &any);
    if (inner.status == PEN_OK)
        g->values[list].kind = VALUE_SEQUENCE;
    uint32_t dims = build_1(&inner, OP_Shape, build_2(&inner, OP_SequenceAt, list, turn));
    uint32_t y = build_reshape(&inner, build_slice(&inner, dims, 0, 0, 1, 1), NULL, 0);
    uint32_t out[] = {build_1(&inner, OP_Identity, go), y};
    for (int i = 0; i < 2 && inner.status == PEN_OK; i++) {
        if (graph_output_add(g, out[i]) != PEN_OK)
            build_stop(&inner, PEN_ERR_NO_MEMORY, "no memory for outputs");
    }
    build_fini(&inner);
    b->status = inner.status;
    return g;
}

uint32_t tf_list_lengths(struct build *b, uint32_t list)
{
    uint32_t y = VALUE_NONE;
    if (!tf_list_is_sequence(b, list)) {
        uint32_t dims = build_1(b, OP_Shape, list);
        return build_2(b, OP_Expand, build_slice(b, dims, 0, 1, 2, 1), build_slice(b, dims, 0, 0, 1, 1));
    }
    struct graph *g = length_body(b, build_dtype(b, list));
    uint32_t in[] = {build_1(b, OP_SequenceLength, list), VALUE_NONE, list};
    if (b->status != PEN_OK)
        return VALUE_NONE;
    build_many(b, OP_Loop, in, 3, &y, 1);
    build_graph(b, ATTR_body, g);
    build_int(b, ATTR_carried, 0);
    return y;
}

void tf_list_kinds(struct build *b, const uint32_t *out, uint32_t count, const struct graph *body, uint32_t first)
{
    for (uint32_t i = 0; i < count && b->status == PEN_OK && first + i < body->output_count; i++)
        b->g->values[out[i]].kind = body->values[body->outputs[first + i]].kind;
}
