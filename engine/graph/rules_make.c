/* Tensors made from shapes, lengths and types; quantisation. */
#include <math.h>
#include <string.h>

#include "graph/infer_util.h"
#include "graph/rules.h"

/* The one attribute tensor, as the importer leaves it. */
static const struct value *tensor_attr(const struct infer *c, enum attr_key key)
{
    const struct attr *a = node_attr(c->n, key);
    return a && a->type == ATTR_TENSOR && a->value < c->g->value_count ? &c->g->values[a->value] : NULL;
}

enum pen_status infer_constant(struct infer *c, struct pen_error *reterr)
{
    const struct value *v = tensor_attr(c, ATTR_value);
    if (!v)
        return infer_fail(c, reterr, "there is no value");
    infer_put(c, 0, v->dtype, &v->shape);
    return PEN_OK;
}

/* A shape given as the items of input `index`. */
static int shape_from_input(const struct infer *c, uint32_t index, struct shape *ret)
{
    int64_t dims[PEN_MAX_RANK];
    size_t count;
    const struct shape *list = infer_shape_of(c, index);
    *ret = shape_unknown();
    int got = infer_ints(c, index, dims, PEN_MAX_RANK, &count);
    if (got == 1)
        *ret = shape_of((int32_t)count, dims);
    else if (got == 0 && list->rank == 1 && list->dim[0] >= 0 && list->dim[0] <= PEN_MAX_RANK)
        *ret = infer_unknown_of_rank((int32_t)list->dim[0]);
    for (int32_t i = 0; i < ret->rank && got == 1; i++) {
        if (ret->dim[i] < 0)
            return -1;
    }
    return got;
}

enum pen_status infer_constant_of_shape(struct infer *c, struct pen_error *reterr)
{
    const struct value *v = tensor_attr(c, ATTR_value);
    struct shape y;
    if (shape_from_input(c, 0, &y) < 0)
        return infer_fail(c, reterr, "the shape is negative or has more than %d dimensions", PEN_MAX_RANK);
    infer_put(c, 0, v ? v->dtype : PEN_DTYPE_F32, &y);
    return PEN_OK;
}

enum pen_status infer_random(struct infer *c, struct pen_error *reterr)
{
    uint32_t count;
    const int64_t *dims = node_ints(c->n, ATTR_shape, &count);
    struct shape y = shape_scalar();
    if (!dims || count > PEN_MAX_RANK)
        return infer_fail(c, reterr, "the shape is missing or has more than %d dimensions", PEN_MAX_RANK);
    y = shape_of((int32_t)count, dims);
    for (int32_t i = 0; i < y.rank; i++) {
        if (y.dim[i] < 0)
            return infer_fail(c, reterr, "the shape is negative");
    }
    infer_put(c, 0, infer_dtype_attr(c, ATTR_dtype, PEN_DTYPE_F32), &y);
    return PEN_OK;
}

enum pen_status infer_multinomial(struct infer *c, struct pen_error *reterr)
{
    struct shape y = infer_unknown_of_rank(2);
    const struct shape *x = infer_shape_of(c, 0);
    y.dim[1] = node_int(c->n, ATTR_sample_size, 1);
    if ((x->rank >= 0 && x->rank != 2) || y.dim[1] < 0)
        return infer_fail(c, reterr, "the input is not a matrix, or sample_size is negative");
    if (x->rank == 2)
        y.dim[0] = x->dim[0];
    infer_put(c, 0, infer_dtype_attr(c, ATTR_dtype, PEN_DTYPE_I32), &y);
    return PEN_OK;
}

enum pen_status infer_range(struct infer *c, struct pen_error *reterr)
{
    struct shape y = infer_unknown_of_rank(1);
    double start, limit, delta;
    bool known = infer_number(c, 0, &start), ends = infer_number(c, 1, &limit); /* each is asked for */
    known = infer_number(c, 2, &delta) && ends && known;
    if (known) {
        double count = delta == 0 ? NAN : ceil((limit - start) / delta);
        if (!(count < 9e15))
            return infer_fail(c, reterr, "a range from %g to %g by %g has no end", start, limit, delta);
        y.dim[0] = count > 0 ? (int64_t)count : 0;
    }
    infer_put(c, 0, infer_dtype_of(c, 0), &y);
    return PEN_OK;
}

/* infer.c fills in the numbers when the shape is known. */
enum pen_status infer_shape(struct infer *c, struct pen_error *reterr)
{
    struct shape y = infer_unknown_of_rank(1);
    int32_t rank = infer_rank(c, 0);
    (void)reterr;
    if (rank >= 0) {
        int64_t start = node_int(c->n, ATTR_start, 0), end = node_int(c->n, ATTR_end, rank);
        start = start < 0 ? start + rank : start;
        end = end < 0 ? end + rank : end;
        start = start < 0 ? 0 : start > rank ? rank : start;
        end = end < 0 ? 0 : end > rank ? rank : end;
        y.dim[0] = end > start ? end - start : 0;
    }
    infer_put(c, 0, PEN_DTYPE_I64, &y);
    return PEN_OK;
}

enum pen_status infer_size(struct infer *c, struct pen_error *reterr)
{
    return infer_scalar_i64(c, reterr);
}

enum pen_status infer_window(struct infer *c, struct pen_error *reterr)
{
    struct shape y = infer_unknown_of_rank(1);
    int64_t size;
    int got = infer_int(c, 0, &size);
    if (got < 0 || (got == 1 && size < 0))
        return infer_fail(c, reterr, "the size is not one number that is not negative");
    if (got == 1)
        y.dim[0] = size;
    infer_put(c, 0, infer_dtype_attr(c, ATTR_output_datatype, PEN_DTYPE_F32), &y);
    return PEN_OK;
}

enum pen_status infer_mel(struct infer *c, struct pen_error *reterr)
{
    struct shape y = infer_unknown_of_rank(2);
    int64_t bins, length;
    for (uint32_t i = 0; i < 5; i++)
        (void)infer_ask(c, i); /* the contents follow from scalars alone */
    if (infer_int(c, 1, &length) == 1 && infer_int(c, 0, &bins) == 1) {
        if (bins < 0 || length < 0)
            return infer_fail(c, reterr, "the number of bins or the length is negative");
        y.dim[0] = length / 2 + 1;
        y.dim[1] = bins;
    }
    infer_put(c, 0, infer_dtype_attr(c, ATTR_output_datatype, PEN_DTYPE_F32), &y);
    return PEN_OK;
}

/* ---- quantisation ------------------------------------------------------------------------------------------------------ */

enum pen_status infer_quantize(struct infer *c, struct pen_error *reterr)
{
    enum pen_dtype dtype = infer_dtype_of(c, 2);
    (void)reterr;
    if (!infer_has(c, 2))
        dtype = infer_dtype_attr(c, ATTR_output_dtype, PEN_DTYPE_U8);
    if (!infer_has(c, 2) && dtype == PEN_DTYPE_NONE)
        dtype = PEN_DTYPE_U8;
    infer_put(c, 0, dtype, infer_shape_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_dequantize(struct infer *c, struct pen_error *reterr)
{
    enum pen_dtype dtype = infer_dtype_attr(c, ATTR_output_dtype, PEN_DTYPE_NONE);
    (void)reterr;
    infer_put(c, 0, dtype != PEN_DTYPE_NONE ? dtype : infer_dtype_of(c, 1), infer_shape_of(c, 0));
    return PEN_OK;
}

enum pen_status infer_dynamic_quantize(struct infer *c, struct pen_error *reterr)
{
    struct shape scalar = shape_scalar();
    (void)reterr;
    infer_put(c, 0, PEN_DTYPE_U8, infer_shape_of(c, 0));
    infer_put(c, 1, PEN_DTYPE_F32, &scalar);
    infer_put(c, 2, PEN_DTYPE_U8, &scalar);
    return PEN_OK;
}

/* Parts are inputs 2, 5, 8 ...: x, scale, zero point each. */
enum pen_status infer_qlinear_concat(struct infer *c, struct pen_error *reterr)
{
    struct shape y = *infer_shape_of(c, 2);
    if (y.rank >= 0) {
        int32_t axis = shape_axis(node_int(c->n, ATTR_axis, 0), y.rank);
        if (axis < 0)
            return infer_fail(c, reterr, "axis is out of range");
        for (uint32_t i = 5; i < c->n->in_count; i += 3) {
            const struct shape *x = infer_shape_of(c, i);
            if (x->rank >= 0 && x->rank != y.rank)
                return infer_fail(c, reterr, "parts differ in rank");
            y.dim[axis] =
                x->rank < 0 || x->dim[axis] < 0 || y.dim[axis] < 0 ? SHAPE_DIM_UNKNOWN : y.dim[axis] + x->dim[axis];
        }
    }
    infer_put(c, 0, infer_dtype_of(c, 2), &y);
    return PEN_OK;
}
