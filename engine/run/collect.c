#include "run/collect.h"

#include <string.h>

#include "assertion.h"

size_t element_bytes(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_STRING ? sizeof(struct string_view) : pen_dtype_bits(dtype) / 8;
}

enum pen_status value_copy(struct kernel_call *k, const struct rt_value *from, struct rt_value *ret)
{
    *ret = *from;
    if (from->data != NULL && from->bytes > 0) {
        ret->data = kernel_scratch(k, from->bytes);
        if (ret->data == NULL) {
            return kernel_fail(k, PEN_ERR_NO_MEMORY, "the session's memory budget is spent");
        }
        memcpy(ret->data, from->data, from->bytes);
    }
    if (from->item_count > 0) {
        ret->items = kernel_scratch(k, from->item_count * sizeof *ret->items);
        if (ret->items == NULL) {
            return kernel_fail(k, PEN_ERR_NO_MEMORY, "the session's memory budget is spent");
        }
        for (uint32_t i = 0; i < from->item_count; i++) {
            enum pen_status status = value_copy(k, &from->items[i], &ret->items[i]);
            if (status != PEN_OK) {
                return status;
            }
        }
    }
    return PEN_OK;
}

enum pen_status collect_add(struct collect *c, struct kernel_call *k, const struct rt_value *item)
{
    if (item->kind != VALUE_TENSOR || element_bytes(item->dtype) == 0) {
        return kernel_fail(k, PEN_ERR_UNSUPPORTED, "a scan output must be a tensor of whole-byte elements");
    }
    if (c->count > 0 && (item->dtype != c->dtype || !shape_equal(&item->shape, &c->shape))) {
        return kernel_fail(k, PEN_ERR_SHAPE, "a scan output changes its shape or type between turns");
    }
    PEN_ASSERT((c->last == NULL) == (c->count == 0), "the list of collected items has as many as it counts");
    struct rt_value copy;
    enum pen_status status = value_copy(k, item, &copy);
    if (status != PEN_OK) {
        return status;
    }
    struct collect_item *entry = kernel_scratch(k, sizeof *entry);
    if (entry == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "the session's memory budget is spent");
    }
    *entry = (struct collect_item){.data = copy.data};
    if (c->last != NULL) {
        c->last->next = entry;
    } else {
        c->first = entry;
        c->dtype = item->dtype;
        c->shape = item->shape;
        c->bytes = (size_t)shape_elements(&item->shape) * element_bytes(item->dtype);
    }
    c->last = entry;
    c->count++;
    return PEN_OK;
}

/* No turn was made: the shape that was planned, if it says so, too, or what the body declares. */
static enum pen_status stack_empty(struct kernel_call *k, uint32_t output, int32_t axis, const struct value *declared)
{
    const struct rt_value *planned = &k->out[output];
    const int32_t at = planned->data != NULL ? shape_axis(axis, planned->shape.rank) : -1;
    struct shape shape = {.rank = 1};
    if (at >= 0 && planned->shape.dim[at] == 0) {
        const struct shape known = planned->shape;
        return kernel_output(k, output, planned->dtype, &known);
    }
    if (declared->shape.rank >= 0 && declared->shape.rank < PEN_MAX_RANK) {
        shape.rank = declared->shape.rank + 1;
        for (int32_t d = 1; d < shape.rank; d++) {
            shape.dim[d] = declared->shape.dim[d - 1] < 0 ? 0 : declared->shape.dim[d - 1];
        }
    }
    return kernel_output(k, output, declared->dtype == PEN_DTYPE_NONE ? PEN_DTYPE_F32 : declared->dtype, &shape);
}

enum pen_status collect_stack(const struct collect *c, struct kernel_call *k, uint32_t output, int32_t axis,
                              bool reverse, const struct value *declared)
{
    if (c->count == 0) {
        return stack_empty(k, output, axis, declared);
    }
    if (c->shape.rank >= PEN_MAX_RANK) {
        return kernel_fail(k, PEN_ERR_TOO_LARGE, "a stacked scan output has more than %d dimensions", PEN_MAX_RANK);
    }
    axis = shape_axis(axis, c->shape.rank + 1);
    if (axis < 0) {
        return kernel_fail(k, PEN_ERR_INVALID, "a scan output axis is out of range");
    }
    struct shape shape = {.rank = c->shape.rank + 1};
    size_t outer = 1;
    for (int32_t d = 0; d < shape.rank; d++) {
        shape.dim[d] = d < axis ? c->shape.dim[d] : d == axis ? (int64_t)c->count : c->shape.dim[d - 1];
        outer *= d < axis ? (size_t)shape.dim[d] : 1;
    }
    enum pen_status status = kernel_output(k, output, c->dtype, &shape);
    if (status != PEN_OK || c->bytes == 0) {
        return status;
    }
    size_t inner = c->bytes / outer;
    uint64_t turn = 0;
    for (const struct collect_item *item = c->first; item != NULL; item = item->next, turn++) {
        uint64_t at = reverse ? c->count - 1 - turn : turn;
        for (size_t o = 0; o < outer; o++) {
            memcpy((char *)k->out[output].data + (o * c->count + at) * inner, (const char *)item->data + o * inner,
                   inner);
        }
    }
    return PEN_OK;
}
