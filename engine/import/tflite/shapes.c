/*
 * What is known of the shapes of an operator's tensors. The file's own are those of a run with the sizes it was converted with; where a dimension follows from
 * data, a placeholder stands there and the signature says -1. What follows from the graph that was written so far goes first.
 */
#include "import/tflite/reader.h"

/* What the graph knows of a value, and what the file says where the graph does not. */
static void learn(struct build *b, struct tensor *t)
{
    int32_t rank = build_rank(b, t->value) - (t->dtype == PEN_DTYPE_C64 || t->dtype == PEN_DTYPE_C128);
    bool agree = rank == t->shape.rank;
    if (rank < 0 || rank > PEN_MAX_RANK)
        return;
    for (int32_t i = 0; i < rank; i++) {
        int64_t dim = build_dim(b, t->value, i);
        if (dim >= 0 || !agree)
            t->shape.dim[i] = dim;
    }
    t->shape.rank = rank;
}

void lite_learn(struct call *c)
{
    for (uint32_t i = 0; i < c->in.count && c->b->status == PEN_OK; i++) {
        int64_t at = fb_list_int(&c->in, i);
        struct tensor *t = at >= 0 && at < (int64_t)c->s->tensor_count ? &c->s->tensors[at] : NULL;
        if (t && t->value != VALUE_NONE && !t->constant)
            learn(c->b, t);
    }
}

void lite_output_shape(struct build *b, uint32_t value, const struct tensor *t, struct shape *ret)
{
    struct tensor known = *t;
    known.value = value;
    known.shape = t->signature;
    learn(b, &known);
    *ret = known.shape;
}

uint32_t lite_dims(struct call *c, uint32_t x, int64_t first, int64_t end)
{
    return build_slice(c->b, build_1(c->b, OP_Shape, x), 0, first, end, 1);
}

uint32_t lite_tail(struct call *c, uint32_t y, uint32_t index, const int64_t *tail, uint32_t count)
{
    const struct shape *s = &lite_tensor(c, index)->shape;
    int64_t dims[2 * PEN_MAX_RANK];
    int32_t front = s->rank > 0 ? s->rank - 1 : 0, open = 0;
    for (int32_t i = 0; i < front; i++) {
        dims[i] = s->dim[i];
        open += dims[i] < 0;
    }
    for (uint32_t i = 0; i < count; i++)
        dims[front + (int32_t)i] = tail[i];
    if (s->rank > 0 && open < 2 && (uint32_t)front + count <= PEN_MAX_RANK)
        return build_reshape(c->b, y, dims, (uint32_t)front + count);
    uint32_t parts[] = {lite_dims(c, lite_in(c, index), 0, -1), build_i64(c->b, tail, count)};
    return build_2(c->b, OP_Reshape, y, build_axis_op(c->b, OP_Concat, parts, 2, 0));
}
