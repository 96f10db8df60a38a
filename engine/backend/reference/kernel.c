#include "backend/reference/kernels.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"

enum pen_status kernel_fail(struct kernel_call *k, enum pen_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return pen_error_set(k->error, status, "node %s (%s): %s", k->n->name != NULL ? k->n->name : "?",
                         op_def(k->n->op)->name, text);
}

void *kernel_scratch(struct kernel_call *k, size_t bytes)
{
    return k->memory == NULL ? NULL : k->memory->alloc(k->memory, bytes == 0 ? 1 : bytes);
}

static size_t tensor_bytes(enum pen_dtype dtype, int64_t elements, bool *ret_ok)
{
    size_t bytes = 0;
    *ret_ok = elements >= 0;
    if (dtype == PEN_DTYPE_STRING) {
        *ret_ok = *ret_ok && (uint64_t)elements <= SIZE_MAX / sizeof(struct string_view);
        return *ret_ok ? (size_t)elements * sizeof(struct string_view) : 0;
    }
    *ret_ok = *ret_ok && pen_dtype_bytes(dtype, (uint64_t)elements, &bytes) == 0;
    return bytes;
}

/* A planned buffer must be exactly what the kernel computed, or the plan is wrong. */
static enum pen_status planned_check(struct kernel_call *k, uint32_t index, enum pen_dtype dtype,
                                     const struct shape *shape, size_t bytes)
{
    const struct rt_value *out = &k->out[index];
    if (out->dtype == dtype && shape_equal(&out->shape, shape) && out->bytes >= bytes) {
        return PEN_OK;
    }
    char have[96], want[96];
    return kernel_fail(k, PEN_ERR_INTERNAL, "output %u was planned as %s %s but is %s %s", index,
                       pen_dtype_name(out->dtype), shape_text(&out->shape, have, sizeof have), pen_dtype_name(dtype),
                       shape_text(shape, want, sizeof want));
}

enum pen_status kernel_output(struct kernel_call *k, uint32_t index, enum pen_dtype dtype, const struct shape *shape)
{
    if (index >= k->n->out_count) {
        return kernel_fail(k, PEN_ERR_INTERNAL, "has no output %u", index);
    }
    struct rt_value *out = &k->out[index];
    bool ok = false;
    size_t bytes = tensor_bytes(dtype, shape_elements(shape), &ok);
    if (!ok) {
        char text[96];
        return kernel_fail(k, PEN_ERR_TOO_LARGE, "output %u of shape %s is too large", index,
                           shape_text(shape, text, sizeof text));
    }
    if (out->data != NULL) {
        return planned_check(k, index, dtype, shape, bytes);
    }
    void *data = kernel_scratch(k, bytes);
    if (data == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for output %u of %zu bytes", index, bytes);
    }
    *out = (struct rt_value){.kind = VALUE_TENSOR, .dtype = dtype, .shape = *shape, .data = data, .bytes = bytes};
    if (element_packed(dtype)) {
        memset(data, 0, bytes); /* the unused bits of the last byte */
    }
    return PEN_OK;
}

enum pen_status kernel_output_like(struct kernel_call *k, uint32_t index, uint32_t input)
{
    return kernel_output(k, index, k->in[input].dtype, &k->in[input].shape);
}

bool kernel_has(const struct kernel_call *k, uint32_t index)
{
    return index < k->n->in_count && k->in[index].dtype != PEN_DTYPE_NONE;
}

bool kernel_wants(const struct kernel_call *k, uint32_t index)
{
    return index < k->n->out_count && k->n->out[index] != VALUE_NONE && (k->wanted == NULL || k->wanted[index]);
}

enum pen_status kernel_cancelled(struct kernel_call *k)
{
    if (!cancel_wanted(k->cancel)) {
        return PEN_OK;
    }
    bool stopped = atomic_load_explicit(&k->cancel->stop, memory_order_relaxed) != 0;
    return kernel_fail(k, stopped ? PEN_ERR_CANCELLED : PEN_ERR_DEADLINE, "stopped %s",
                       stopped ? "by the caller" : "at its deadline");
}

enum pen_status kernel_ints(struct kernel_call *k, uint32_t index, int64_t *items, size_t room, size_t *ret_count)
{
    *ret_count = 0;
    if (!kernel_has(k, index)) {
        return PEN_OK;
    }
    const struct rt_value *in = &k->in[index];
    int64_t count = shape_elements(&in->shape);
    if ((element_class(in->dtype) & (ELEMENT_INTEGER | ELEMENT_BOOL)) == 0) {
        return kernel_fail(k, PEN_ERR_DTYPE, "input %u must hold integers", index);
    }
    if (count < 0 || (uint64_t)count > room) {
        return kernel_fail(k, PEN_ERR_INVALID, "input %u has %lld items, at most %zu make sense", index,
                           (long long)count, room);
    }
    load_i64(in->data, in->dtype, 0, 1, count, items);
    *ret_count = (size_t)count;
    return PEN_OK;
}

enum pen_status kernel_axis(struct kernel_call *k, int64_t axis, int32_t rank, int32_t *ret_axis)
{
    int32_t at = shape_axis(axis, rank);
    if (at < 0) {
        return kernel_fail(k, PEN_ERR_INVALID, "axis %lld is outside rank %d", (long long)axis, rank);
    }
    *ret_axis = at;
    return PEN_OK;
}

enum pen_status kernel_axes(struct kernel_call *k, uint32_t index, int32_t rank, bool all, bool *ret_is_axis)
{
    int64_t axes[PEN_MAX_RANK];
    size_t count = 0;
    enum pen_status status = kernel_ints(k, index, axes, PEN_MAX_RANK, &count);
    if (status != PEN_OK) {
        return status;
    }
    for (int32_t d = 0; d < PEN_MAX_RANK; d++) {
        ret_is_axis[d] = count == 0 && all && d < rank;
    }
    for (size_t i = 0; i < count; i++) {
        int32_t axis = 0;
        status = kernel_axis(k, axes[i], rank, &axis);
        if (status != PEN_OK) {
            return status;
        }
        ret_is_axis[axis] = true;
    }
    return PEN_OK;
}

double kernel_scalar(const struct kernel_call *k, uint32_t index, double def)
{
    if (!kernel_has(k, index) || shape_elements(&k->in[index].shape) < 1) {
        return def;
    }
    return load_one_f64(k->in[index].data, k->in[index].dtype, 0);
}

int64_t dims_product(const struct shape *s, int32_t from, int32_t to)
{
    uint64_t product = 1; /* wraps only beside a dim of 0: then no loop over it runs */
    for (int32_t d = from; d < to; d++) {
        product *= (uint64_t)s->dim[d];
    }
    return (int64_t)product;
}

void dims_strides(const struct shape *s, int64_t *ret_strides)
{
    uint64_t stride = 1;
    for (int32_t d = s->rank - 1; d >= 0; d--) {
        ret_strides[d] = (int64_t)stride;
        stride *= (uint64_t)s->dim[d];
    }
}

enum pen_status kernel_doubles(struct kernel_call *k, uint32_t index, double **ret)
{
    const struct rt_value *in = &k->in[index];
    int64_t count = shape_elements(&in->shape);
    double *items = count < 0 || (uint64_t)count > SIZE_MAX / sizeof *items
                        ? NULL
                        : kernel_scratch(k, (size_t)count * sizeof *items);
    if (items == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for a working copy of input %u", index);
    }
    load_f64(in->data, in->dtype, 0, 1, count, items);
    *ret = items;
    return PEN_OK;
}
