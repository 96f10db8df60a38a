#include "graph/infer_util.h"
#include "graph/rules.h"

/* One attention operand: [batch, heads, length, size], or [batch, length, heads * size] with the number of heads as an attribute. */
struct operand {
    int64_t batch, heads, length, size;
};

static struct operand operand_of(const struct shape *s, int64_t heads)
{
    struct operand o = {SHAPE_DIM_UNKNOWN, heads > 0 ? heads : SHAPE_DIM_UNKNOWN, SHAPE_DIM_UNKNOWN, SHAPE_DIM_UNKNOWN};
    if (s->rank == 4) {
        o = (struct operand){s->dim[0], s->dim[1], s->dim[2], s->dim[3]};
    } else if (s->rank == 3) {
        o.batch = s->dim[0];
        o.length = s->dim[1];
        if (heads > 0 && s->dim[2] >= 0)
            o.size = s->dim[2] / heads;
    }
    return o;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? SHAPE_DIM_UNKNOWN : product;
}

static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ? SHAPE_DIM_UNKNOWN : sum;
}

/* Past keys and values [batch, heads, past, size] lengthen the present ones. */
static int64_t total_length(const struct infer *c, uint32_t past, int64_t length)
{
    if (!infer_has(c, past))
        return length;
    return infer_rank(c, past) == 4 ? plus(c->in[past].shape.dim[2], length) : SHAPE_DIM_UNKNOWN;
}

enum pen_status infer_attention(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    int64_t q_heads = node_int(c->n, ATTR_q_num_heads, 0), kv_heads = node_int(c->n, ATTR_kv_num_heads, 0);
    if (x->rank >= 0 && x->rank != 3 && x->rank != 4)
        return infer_fail(c, reterr, "queries must have 3 or 4 dimensions");
    if (x->rank == 3 && (q_heads < 1 || kv_heads < 1))
        return infer_fail(c, reterr, "queries of 3 dimensions need q_num_heads and kv_num_heads");
    struct operand q = operand_of(x, q_heads), k = operand_of(infer_shape_of(c, 1), kv_heads),
                   v = operand_of(infer_shape_of(c, 2), kv_heads);
    int64_t total = total_length(c, 4, k.length);
    struct shape y = shape_unknown();
    if (x->rank == 4)
        y = shape_of(4, (int64_t[]){q.batch, q.heads, q.length, v.size});
    else if (x->rank == 3)
        y = shape_of(3, (int64_t[]){q.batch, q.length, times(q.heads, v.size)});
    struct shape key = shape_of(4, (int64_t[]){k.batch, k.heads, total, k.size});
    struct shape value = shape_of(4, (int64_t[]){v.batch, v.heads, total, v.size});
    struct shape scores = shape_of(4, (int64_t[]){q.batch, q.heads, q.length, total});
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    infer_put(c, 1, infer_dtype_of(c, 1), &key);
    infer_put(c, 2, infer_dtype_of(c, 2), &value);
    infer_put(c, 3, infer_dtype_of(c, 0), &scores);
    return PEN_OK;
}

/* Packed [batch, length, heads * size]; the state is [batch, kv heads, key size, value size]. */
enum pen_status infer_linear_attention(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0);
    int64_t q_heads = node_int(c->n, ATTR_q_num_heads, 0), kv_heads = node_int(c->n, ATTR_kv_num_heads, 0);
    if (x->rank >= 0 && x->rank != 3 && x->rank != 4)
        return infer_fail(c, reterr, "queries must have 3 or 4 dimensions");
    struct operand q = operand_of(x, q_heads), k = operand_of(infer_shape_of(c, 1), kv_heads),
                   v = operand_of(infer_shape_of(c, 2), kv_heads);
    struct shape y = shape_unknown();
    if (x->rank == 4)
        y = shape_of(4, (int64_t[]){q.batch, q.heads, q.length, v.size});
    else if (x->rank == 3)
        y = shape_of(3, (int64_t[]){q.batch, q.length, times(q.heads, v.size)});
    struct shape state =
        infer_has(c, 3) ? *infer_shape_of(c, 3) : shape_of(4, (int64_t[]){k.batch, k.heads, k.size, v.size});
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    infer_put(c, 1, infer_has(c, 3) ? infer_dtype_of(c, 3) : infer_dtype_of(c, 0), &state);
    return PEN_OK;
}

/* com.microsoft: x [batch, length, in], weights [in, 3 * hidden] (or by qkv_hidden_sizes). */
enum pen_status infer_ms_attention(struct infer *c, struct pen_error *reterr)
{
    const struct shape *x = infer_shape_of(c, 0), *w = infer_shape_of(c, 1);
    uint32_t count;
    const int64_t *sizes = node_ints(c->n, ATTR_qkv_hidden_sizes, &count);
    struct shape y = infer_unknown_of_rank(3);
    struct shape present = infer_unknown_of_rank(5);
    int64_t heads = node_int(c->n, ATTR_num_heads, 0);
    if ((x->rank >= 0 && x->rank != 3) || (w->rank >= 0 && w->rank != 2) || heads < 1)
        return infer_fail(c, reterr, "the input needs 3 dimensions, the weights 2, num_heads a positive number");
    if (x->rank == 3) {
        y.dim[0] = x->dim[0];
        y.dim[1] = x->dim[1];
    }
    if (sizes && count == 3)
        y.dim[2] = sizes[2] >= 0 ? sizes[2] : SHAPE_DIM_UNKNOWN;
    else if (w->rank == 2 && w->dim[1] >= 0)
        y.dim[2] = w->dim[1] / 3;
    present.dim[0] = 2;
    present.dim[1] = y.dim[0];
    present.dim[2] = heads;
    present.dim[3] = infer_has(c, 4)
                         ? (infer_rank(c, 4) == 5 ? plus(c->in[4].shape.dim[3], y.dim[1]) : SHAPE_DIM_UNKNOWN)
                         : y.dim[1];
    int64_t width = sizes && count == 3 ? sizes[0] : y.dim[2];
    present.dim[4] = width >= 0 ? width / heads : SHAPE_DIM_UNKNOWN;
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    infer_put(c, 1, infer_dtype_of(c, 0), &present);
    return PEN_OK;
}

/* com.microsoft: query [batch, length, hidden] or packed; value decides the result's width where it is given. */
enum pen_status infer_multi_head_attention(struct infer *c, struct pen_error *reterr)
{
    const struct shape *q = infer_shape_of(c, 0), *v = infer_shape_of(c, 2);
    struct shape y = infer_unknown_of_rank(3), present = infer_unknown_of_rank(4), scores = present;
    int64_t heads = node_int(c->n, ATTR_num_heads, 0);
    (void)reterr;
    if (q->rank >= 2) {
        y.dim[0] = q->dim[0];
        y.dim[1] = q->dim[1];
    }
    if (v->rank == 3)
        y.dim[2] = v->dim[2];
    else if (v->rank == 4)
        y.dim[2] = times(v->dim[1], v->dim[3]);
    else if (q->rank == 5)
        y.dim[2] = times(q->dim[2], q->dim[4]);
    else if (q->rank == 3)
        y.dim[2] = q->dim[2];
    present.dim[0] = scores.dim[0] = y.dim[0];
    present.dim[1] = scores.dim[1] = heads > 0 ? heads : SHAPE_DIM_UNKNOWN;
    struct operand keys = operand_of(infer_shape_of(c, 1), heads), values = operand_of(v, heads);
    struct shape present_value = present;
    present.dim[2] = total_length(c, 6, keys.length);
    present.dim[3] = keys.size;
    present_value.dim[2] = total_length(c, 7, values.length);
    present_value.dim[3] = values.size;
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    infer_put(c, 1, infer_dtype_of(c, 0), &present);
    infer_put(c, 2, infer_dtype_of(c, 0), &present_value);
    infer_put(c, 3, infer_dtype_of(c, 0), &scores);
    return PEN_OK;
}

/*
 * com.microsoft: query [batch, length, heads * size], or queries, keys and values packed; caches [batch, kv heads, rows, size], where the present ones have
 * as many rows as there are tokens in all, or as the past ones have, whichever is more. The number of tokens changes with every call: nobody asks for it here.
 */
enum pen_status infer_group_query_attention(struct infer *c, struct pen_error *reterr)
{
    const struct shape *q = infer_shape_of(c, 0);
    int64_t heads = node_int(c->n, ATTR_num_heads, 0), kv = node_int(c->n, ATTR_kv_num_heads, 0);
    if ((q->rank >= 0 && q->rank != 3) || heads < 1 || kv < 1)
        return infer_fail(c, reterr, "queries need 3 dimensions, and both numbers of heads must be positive");
    struct shape y = *q, present = infer_unknown_of_rank(4);
    bool packed = !infer_has(c, 1);
    present.dim[1] = kv;
    if (q->rank == 3) {
        int64_t all = packed ? heads + 2 * kv : heads;
        present.dim[0] = q->dim[0];
        present.dim[3] = q->dim[2] >= 0 ? q->dim[2] / all : SHAPE_DIM_UNKNOWN;
        y.dim[2] = times(heads, present.dim[3]);
    }
    const struct shape *past = infer_has(c, 3) ? infer_shape_of(c, 3) : NULL;
    int64_t total = 0, room = past == NULL ? 0 : past->rank == 4 ? past->dim[2] : SHAPE_DIM_UNKNOWN;
    size_t count = 0;
    if (infer_has(c, 6) && infer_ints(c, 6, &total, 1, &count) == 1 && count == 1 && room >= 0)
        present.dim[2] = total > room ? total : room;
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    infer_put(c, 1, infer_dtype_of(c, 0), &present);
    infer_put(c, 2, infer_dtype_of(c, 0), &present);
    return PEN_OK;
}
