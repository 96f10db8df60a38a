#include "graph/infer_util.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool infer_has(const struct infer *c, uint32_t index)
{
    return index < c->n->in_count && c->n->in[index] != VALUE_NONE;
}

const struct shape *infer_shape_of(const struct infer *c, uint32_t index)
{
    static const struct shape unknown = {.rank = SHAPE_RANK_UNKNOWN};
    return infer_has(c, index) ? &c->in[index].shape : &unknown;
}

enum pen_dtype infer_dtype_of(const struct infer *c, uint32_t index)
{
    return infer_has(c, index) ? c->in[index].dtype : PEN_DTYPE_NONE;
}

int32_t infer_rank(const struct infer *c, uint32_t index)
{
    return infer_shape_of(c, index)->rank;
}

bool infer_integer_at(enum pen_dtype dtype, const void *data, size_t index, int64_t *ret)
{
    switch (dtype) {
    case PEN_DTYPE_I64:
        *ret = ((const int64_t *)data)[index];
        return true;
    case PEN_DTYPE_I32:
        *ret = ((const int32_t *)data)[index];
        return true;
    case PEN_DTYPE_I16:
        *ret = ((const int16_t *)data)[index];
        return true;
    case PEN_DTYPE_I8:
        *ret = ((const int8_t *)data)[index];
        return true;
    case PEN_DTYPE_U8:
    case PEN_DTYPE_BOOL:
        *ret = ((const uint8_t *)data)[index];
        return true;
    case PEN_DTYPE_U16:
        *ret = ((const uint16_t *)data)[index];
        return true;
    case PEN_DTYPE_U32:
        *ret = ((const uint32_t *)data)[index];
        return true;
    case PEN_DTYPE_U64: {
        uint64_t item = ((const uint64_t *)data)[index];
        *ret = item > INT64_MAX ? INT64_MAX : (int64_t)item;
        return true;
    }
    default:
        return false;
    }
}

bool infer_ask(const struct infer *c, uint32_t index)
{
    if (!infer_has(c, index))
        return false;
    if (!c->in[index].data && c->asked && index < 32)
        *c->asked |= 1u << index;
    return c->in[index].data != NULL;
}

int infer_ints(const struct infer *c, uint32_t index, int64_t *items, size_t room, size_t *ret_count)
{
    if (!infer_ask(c, index))
        return 0;
    const struct fact *f = &c->in[index];
    int64_t count = shape_elements(&f->shape);
    if (count < 0 || (uint64_t)count > room)
        return -1;
    for (int64_t i = 0; i < count; i++) {
        if (!infer_integer_at(f->dtype, f->data, (size_t)i, &items[i]))
            return 0;
    }
    *ret_count = (size_t)count;
    return 1;
}

enum pen_status infer_fail(const struct infer *c, struct pen_error *reterr, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return pen_error_set(reterr, PEN_ERR_SHAPE, "node %s (%s): %s", c->n->name, c->n->origin, text);
}

void infer_put(struct infer *c, uint32_t index, enum pen_dtype dtype, const struct shape *shape)
{
    if (index >= c->n->out_count)
        return;
    c->out[index].kind = VALUE_TENSOR;
    c->out[index].dtype = dtype;
    c->out[index].shape = *shape;
}

void infer_put_kind(struct infer *c, uint32_t index, enum value_kind kind, enum pen_dtype dtype)
{
    if (index >= c->n->out_count)
        return;
    c->out[index].kind = kind;
    c->out[index].dtype = dtype;
    c->out[index].shape = shape_unknown();
}

bool infer_list(const struct infer *c, enum attr_key key, int32_t count, int64_t def, int64_t least, int64_t *items)
{
    uint32_t given;
    const int64_t *list = node_ints(c->n, key, &given);
    if (list && given != (uint32_t)count)
        return false;
    for (int32_t i = 0; i < count; i++) {
        items[i] = list ? list[i] : def;
        if (items[i] < least || items[i] > INT32_MAX)
            return false;
    }
    return true;
}

int infer_int(const struct infer *c, uint32_t index, int64_t *ret_item)
{
    size_t count;
    int got = infer_ints(c, index, ret_item, 1, &count);
    return got == 1 && count != 1 ? -1 : got;
}

int infer_axes(const struct infer *c, uint32_t index, int32_t rank, bool *ret_marked, int64_t *ret_axes,
               size_t *ret_count)
{
    memset(ret_marked, 0, PEN_MAX_RANK * sizeof *ret_marked);
    int got = infer_ints(c, index, ret_axes, PEN_MAX_RANK, ret_count);
    for (size_t i = 0; got == 1 && i < *ret_count; i++) {
        int32_t axis = shape_axis(ret_axes[i], rank);
        if (axis < 0 || ret_marked[axis])
            return -1;
        ret_marked[axis] = true;
        ret_axes[i] = axis;
    }
    return got;
}

bool infer_mul_add(int64_t a, int64_t b, int64_t k, int64_t *ret)
{
    if (a < 0) {
        *ret = SHAPE_DIM_UNKNOWN;
        return true;
    }
    return !__builtin_mul_overflow(a, b, ret) && !__builtin_add_overflow(*ret, k, ret) && *ret >= 0;
}

enum pen_dtype infer_dtype_attr(const struct infer *c, enum attr_key key, enum pen_dtype def)
{
    int64_t dtype = node_int(c->n, key, def);
    return dtype > PEN_DTYPE_NONE && dtype < PEN_DTYPE_COUNT ? (enum pen_dtype)dtype : PEN_DTYPE_NONE;
}

struct shape infer_unknown_of_rank(int32_t rank)
{
    struct shape s = {.rank = rank};
    for (int32_t i = 0; i < rank && i < PEN_MAX_RANK; i++)
        s.dim[i] = SHAPE_DIM_UNKNOWN;
    return s;
}

bool infer_same_dim(int64_t a, int64_t b, int64_t *ret)
{
    *ret = a < 0 ? b : a;
    return a < 0 || b < 0 || a == b;
}

bool infer_number(const struct infer *c, uint32_t index, double *ret)
{
    int64_t item;
    if (infer_int(c, index, &item) == 1) {
        *ret = (double)item;
        return true;
    }
    const struct fact *f = infer_has(c, index) ? &c->in[index] : NULL;
    if (!f || !f->data || shape_elements(&f->shape) != 1)
        return false;
    if (f->dtype == PEN_DTYPE_F32)
        *ret = *(const float *)f->data;
    else if (f->dtype == PEN_DTYPE_F64)
        *ret = *(const double *)f->data;
    else if (f->dtype == PEN_DTYPE_F16)
        *ret = pen_f16_to_f32(*(const uint16_t *)f->data);
    else if (f->dtype == PEN_DTYPE_BF16)
        *ret = pen_bf16_to_f32(*(const uint16_t *)f->data);
    else
        return false;
    return true;
}
