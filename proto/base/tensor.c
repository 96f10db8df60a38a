/* tensor.c - checks of tensor views and the text form of shapes. */
#include "penstock/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum pen_status pen_tensor_elements(const struct pen_tensor *tensor, uint64_t *ret_elements)
{
    uint64_t elements = 1;
    int overflow = 0, empty = 0;
    if (tensor->rank > PEN_MAX_RANK)
        return PEN_ERR_SHAPE;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] < 0)
            return PEN_ERR_SHAPE;
        empty |= tensor->dims[i] == 0;
        overflow |= __builtin_mul_overflow(elements, (uint64_t)tensor->dims[i], &elements);
    }
    if (overflow && !empty)
        return PEN_ERR_TOO_LARGE;
    *ret_elements = empty ? 0 : elements;
    return PEN_OK;
}

static uint32_t load_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static const char *name_of(const struct pen_tensor *tensor)
{
    return tensor->name ? tensor->name : "";
}

/* STRING: each element is a u32 length and its bytes; they must use up the payload exactly. */
static enum pen_status strings_check(const struct pen_tensor *tensor, uint64_t elements, struct pen_error *reterr)
{
    const uint8_t *at = tensor->data;
    size_t left = tensor->bytes;
    if (elements > left / 4) /* each element needs a prefix: this ends the loop early even for huge dims */
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "tensor '%s': %" PRIu64
                             " strings need at least 4 bytes each, but the payload has %zu bytes",
                             name_of(tensor), elements, left);
    for (uint64_t i = 0; i < elements; i++) {
        if (left < 4 || load_u32(at) > left - 4)
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "tensor '%s': string %" PRIu64 " of %" PRIu64 " runs past the payload of %zu bytes",
                                 name_of(tensor), i, elements, tensor->bytes);
        size_t step = 4 + (size_t)load_u32(at);
        at += step;
        left -= step;
    }
    if (left != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "tensor '%s': %zu bytes are left behind its %" PRIu64 " strings",
                             name_of(tensor), left, elements);
    return PEN_OK;
}

static enum pen_status shape_error(const struct pen_tensor *tensor, enum pen_status status, struct pen_error *reterr)
{
    char shape[160];
    if (tensor->rank > PEN_MAX_RANK)
        return pen_error_set(reterr, status, "tensor '%s' has %" PRIu32 " dimensions, at most %d are allowed",
                             name_of(tensor), tensor->rank, PEN_MAX_RANK);
    pen_shape_text(tensor->dims, tensor->rank, shape, sizeof shape);
    if (status == PEN_ERR_TOO_LARGE)
        return pen_error_set(reterr, status, "tensor '%s': shape %s is larger than any memory", name_of(tensor), shape);
    return pen_error_set(reterr, status,
                         "tensor '%s': shape %s has a negative dimension; a tensor's shape must be known",
                         name_of(tensor), shape);
}

enum pen_status pen_tensor_check(const struct pen_tensor *tensor, struct pen_error *reterr)
{
    uint64_t elements = 0;
    size_t needed = 0;
    if ((unsigned)tensor->dtype >= PEN_DTYPE_COUNT || tensor->dtype == PEN_DTYPE_NONE)
        return pen_error_set(reterr, PEN_ERR_DTYPE, "tensor '%s' has the unknown element type %d", name_of(tensor),
                             (int)tensor->dtype);
    enum pen_status status = pen_tensor_elements(tensor, &elements);
    if (status != PEN_OK)
        return shape_error(tensor, status, reterr);
    if (!tensor->data && tensor->bytes != 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "tensor '%s' claims %zu bytes but has no data", name_of(tensor),
                             tensor->bytes);
    if (tensor->dtype == PEN_DTYPE_STRING)
        return strings_check(tensor, elements, reterr);
    if (pen_dtype_bytes(tensor->dtype, elements, &needed) != 0)
        return shape_error(tensor, PEN_ERR_TOO_LARGE, reterr);
    if (tensor->bytes != needed) {
        char shape[160];
        pen_shape_text(tensor->dims, tensor->rank, shape, sizeof shape);
        return pen_error_set(reterr, PEN_ERR_INVALID, "tensor '%s': %s %s needs %zu bytes, but %zu were given",
                             name_of(tensor), pen_dtype_name(tensor->dtype), shape, needed, tensor->bytes);
    }
    return PEN_OK;
}

const char *pen_shape_text(const int64_t *dims, uint32_t rank, char *text, size_t bytes)
{
    size_t used = 0;
    if (bytes == 0)
        return text;
    if (rank == 0)
        snprintf(text, bytes, "scalar");
    for (uint32_t i = 0; i < rank && used < bytes; i++) {
        const char *separator = i ? "x" : "";
        int n = dims[i] == -1 ? snprintf(text + used, bytes - used, "%s?", separator)
                              : snprintf(text + used, bytes - used, "%s%" PRId64, separator, dims[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    return text;
}
