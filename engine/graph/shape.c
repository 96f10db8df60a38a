#include "graph/shape.h"

#include <stdio.h>
#include <string.h>

struct shape shape_unknown(void)
{
    struct shape s = {.rank = SHAPE_RANK_UNKNOWN};
    return s;
}

struct shape shape_scalar(void)
{
    struct shape s = {.rank = 0};
    return s;
}

struct shape shape_of(int32_t rank, const int64_t *dims)
{
    struct shape s = {.rank = rank};
    for (int32_t i = 0; i < rank && i < PEN_MAX_RANK; i++)
        s.dim[i] = dims[i];
    return s;
}

bool shape_known(const struct shape *s)
{
    if (s->rank < 0)
        return false;
    for (int32_t i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0)
            return false;
    }
    return true;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int32_t i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i])
            return false;
    }
    return true;
}

int64_t shape_elements(const struct shape *s)
{
    if (!shape_known(s))
        return -1;
    int64_t product = 1;
    for (int32_t i = 0; i < s->rank; i++) {
        if (s->dim[i] == 0)
            return 0;
    }
    for (int32_t i = 0; i < s->rank; i++) {
        if (__builtin_mul_overflow(product, s->dim[i], &product))
            return -1;
    }
    return product;
}

/* The same with zeros as ones: an empty tensor of huge rows is refused too, since what goes through its rows would never end. */
static int64_t shape_extent(const struct shape *s)
{
    int64_t product = 1;
    for (int32_t i = 0; i < s->rank; i++) {
        if (s->dim[i] > 1 && __builtin_mul_overflow(product, s->dim[i], &product))
            return -1;
    }
    return product;
}

enum pen_status shape_bytes(const struct shape *s, enum pen_dtype dtype, uint64_t limit, size_t *ret_bytes)
{
    if (!shape_known(s))
        return PEN_ERR_SHAPE;
    int64_t elements = shape_elements(s), extent = shape_extent(s);
    size_t bytes = 0;
    if (elements < 0 || (limit != 0 && (extent < 0 || (uint64_t)extent > limit)))
        return PEN_ERR_TOO_LARGE;
    if (dtype == PEN_DTYPE_STRING) { /* in memory: one view per element */
        if (__builtin_mul_overflow((size_t)elements, sizeof(const char *) + sizeof(size_t), &bytes))
            return PEN_ERR_TOO_LARGE;
    } else if (pen_dtype_bytes(dtype, (uint64_t)elements, &bytes) != 0) {
        return pen_dtype_bits(dtype) == 0 ? PEN_ERR_DTYPE : PEN_ERR_TOO_LARGE;
    }
    if (limit != 0 && bytes > limit)
        return PEN_ERR_TOO_LARGE;
    *ret_bytes = bytes;
    return PEN_OK;
}

const char *shape_text(const struct shape *s, char *text, size_t bytes)
{
    if (bytes == 0)
        return "";
    if (s->rank <= 0) {
        (void)snprintf(text, bytes, "%s", s->rank == 0 ? "scalar" : "unknown");
        return text;
    }
    size_t at = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < s->rank && at < bytes; i++) {
        const char *cross = i ? "x" : "";
        int n = s->dim[i] < 0 ? snprintf(text + at, bytes - at, "%s?", cross)
                              : snprintf(text + at, bytes - at, "%s%lld", cross, (long long)s->dim[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    return text;
}

int32_t shape_axis(int64_t axis, int32_t rank)
{
    if (axis < -(int64_t)rank || axis >= rank)
        return -1;
    return (int32_t)(axis < 0 ? axis + rank : axis);
}

/* One axis: 1 stretches; unknown against 1 stays unknown; unknown against n > 1 must be n (or 1, which stretches to it). */
static bool broadcast_dim(int64_t a, int64_t b, int64_t *ret)
{
    if (a == b || b == 1)
        *ret = a;
    else if (a == 1)
        *ret = b;
    else if (a < 0)
        *ret = b;
    else if (b < 0)
        *ret = a;
    else
        return false;
    return true;
}

bool shape_broadcast(const struct shape *a, const struct shape *b, struct shape *ret)
{
    if (a->rank < 0 || b->rank < 0) {
        *ret = shape_unknown();
        return true;
    }
    struct shape out = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int32_t i = 0; i < out.rank; i++) {
        int32_t in_a = i - (out.rank - a->rank), in_b = i - (out.rank - b->rank);
        int64_t dim_a = in_a < 0 ? 1 : a->dim[in_a], dim_b = in_b < 0 ? 1 : b->dim[in_b];
        if (!broadcast_dim(dim_a, dim_b, &out.dim[i]))
            return false;
    }
    *ret = out;
    return true;
}
