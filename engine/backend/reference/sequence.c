/* Sequences and optionals: items share their tensors' memory, only the list is new. Source: ONNX. */
#include "backend/reference/concat.h"

#include <string.h>

static struct rt_value *items_new(struct kernel_call *k, uint32_t count)
{
    struct rt_value *items = kernel_scratch(k, ((size_t)count + 1) * sizeof *items);
    if (items != NULL) {
        memset(items, 0, ((size_t)count + 1) * sizeof *items);
    }
    return items;
}

static enum pen_status sequence_set(struct kernel_call *k, enum pen_dtype dtype, struct rt_value *items, uint32_t count)
{
    if (items == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for a sequence of %u", count);
    }
    k->out[0] = (struct rt_value){
        .kind = VALUE_SEQUENCE, .dtype = dtype, .shape = shape_unknown(), .items = items, .item_count = count};
    return PEN_OK;
}

/* Position input `index`, negative from the end; `behind`: the place after the last counts too. Absent: `def`. */
static enum pen_status position(struct kernel_call *k, uint32_t index, int64_t def, bool behind, uint32_t *ret)
{
    int64_t at = def, count = k->in[0].item_count;
    size_t have = 0;
    enum pen_status status = kernel_ints(k, index, &at, 1, &have);
    if (status != PEN_OK) {
        return status;
    }
    at = have == 1 && at < 0 ? at + count : have == 1 ? at : def;
    if (at < 0 || at > count || (at == count && !behind)) {
        return kernel_fail(k, PEN_ERR_INVALID, "position %lld in a sequence of %lld", (long long)at, (long long)count);
    }
    *ret = (uint32_t)at;
    return PEN_OK;
}

enum pen_status kernel_sequence_construct(struct kernel_call *k)
{
    struct rt_value *items = items_new(k, k->n->in_count);
    for (uint32_t i = 0; i < k->n->in_count && items != NULL; i++) {
        items[i] = k->in[i];
    }
    return sequence_set(k, k->in[0].dtype, items, k->n->in_count);
}

enum pen_status kernel_sequence_empty(struct kernel_call *k)
{
    return sequence_set(k, (enum pen_dtype)node_int(k->n, ATTR_dtype, PEN_DTYPE_F32), items_new(k, 0), 0);
}

enum pen_status kernel_sequence_at(struct kernel_call *k)
{
    uint32_t at = 0;
    enum pen_status status = position(k, 1, 0, false, &at);
    if (status == PEN_OK) {
        k->out[0] = k->in[0].items[at];
    }
    return status;
}

enum pen_status kernel_sequence_insert(struct kernel_call *k)
{
    uint32_t at = 0, count = k->in[0].item_count;
    enum pen_status status = position(k, 2, count, true, &at);
    struct rt_value *items = items_new(k, count + 1);
    for (uint32_t i = 0; i <= count && items != NULL && status == PEN_OK; i++) {
        items[i] = i == at ? k->in[1] : k->in[0].items[i - (i > at)];
    }
    return status == PEN_OK ? sequence_set(k, k->in[1].dtype, items, count + 1) : status;
}

enum pen_status kernel_sequence_erase(struct kernel_call *k)
{
    uint32_t at = 0, count = k->in[0].item_count;
    enum pen_status status = count == 0 ? kernel_fail(k, PEN_ERR_INVALID, "the sequence is empty")
                                        : position(k, 1, (int64_t)count - 1, false, &at);
    struct rt_value *items = items_new(k, count);
    for (uint32_t i = 0; i + 1 < count && items != NULL && status == PEN_OK; i++) {
        items[i] = k->in[0].items[i + (i >= at)];
    }
    return status == PEN_OK ? sequence_set(k, k->in[0].dtype, items, count - 1) : status;
}

enum pen_status kernel_sequence_length(struct kernel_call *k)
{
    struct shape scalar = shape_scalar();
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_I64, &scalar);
    if (status == PEN_OK) {
        *(int64_t *)k->out[0].data = k->in[0].item_count;
    }
    return status;
}

/* One piece of the input along the axis, as an item of its own; keep: the axis stays. */
static enum pen_status piece(struct kernel_call *k, int32_t axis, int64_t first, int64_t length, bool keep,
                             struct rt_value *ret)
{
    const struct shape *in = &k->in[0].shape;
    struct shape walk = *in, shape = *in;
    int64_t strides[PEN_MAX_RANK];
    size_t size = element_size(k->in[0].dtype);
    walk.dim[axis] = shape.dim[axis] = length;
    if (!keep) {
        memmove(shape.dim + axis, shape.dim + axis + 1, (size_t)(shape.rank - axis - 1) * sizeof shape.dim[0]);
        shape.rank--;
    }
    size_t bytes = (size_t)shape_elements(&walk) * size;
    uint8_t *data = kernel_scratch(k, bytes);
    if (data == NULL || element_packed(k->in[0].dtype)) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for a piece of %zu bytes", bytes);
    }
    dims_strides(in, strides);
    raw_gather(data, k->in[0].data, size, &walk, strides, first * strides[axis]);
    *ret =
        (struct rt_value){.kind = VALUE_TENSOR, .dtype = k->in[0].dtype, .shape = shape, .data = data, .bytes = bytes};
    return PEN_OK;
}

/* Lengths of the pieces: one by one without input 1, chunks for a scalar, else as listed. */
static enum pen_status piece_sizes(struct kernel_call *k, int64_t dim, int64_t **ret_sizes, uint32_t *ret_count)
{
    bool listed = kernel_has(k, 1) && k->in[1].shape.rank > 0;
    int64_t chunk = kernel_has(k, 1) && !listed ? load_one_i64(k->in[1].data, k->in[1].dtype, 0) : 1, sum = 0;
    int64_t count = listed ? shape_elements(&k->in[1].shape) : chunk < 1 ? -1 : (dim + chunk - 1) / chunk;
    if (count < 0 || count > INT32_MAX) {
        return kernel_fail(k, PEN_ERR_INVALID, "pieces of %lld", (long long)chunk);
    }
    int64_t *sizes = kernel_scratch(k, (size_t)count * sizeof *sizes);
    for (int64_t i = 0; i < count && sizes != NULL; i++) {
        sizes[i] = listed                    ? load_one_i64(k->in[1].data, k->in[1].dtype, i)
                   : dim - i * chunk < chunk ? dim - i * chunk
                                             : chunk;
        sum += sizes[i] < 0 ? dim + 1 : sizes[i];
    }
    if (sizes == NULL || sum != dim) {
        return kernel_fail(k, PEN_ERR_SHAPE, "%lld pieces do not make up %lld", (long long)count, (long long)dim);
    }
    *ret_sizes = sizes;
    *ret_count = (uint32_t)count;
    return PEN_OK;
}

enum pen_status kernel_split_to_sequence(struct kernel_call *k)
{
    const struct shape *in = &k->in[0].shape;
    bool keep = kernel_has(k, 1) || node_int(k->n, ATTR_keepdims, 1) != 0;
    int32_t axis = 0;
    int64_t *sizes = NULL, at = 0;
    uint32_t count = 0;
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, 0), in->rank, &axis);
    if (status == PEN_OK) {
        status = piece_sizes(k, in->dim[axis], &sizes, &count);
    }
    struct rt_value *items = status == PEN_OK ? items_new(k, count) : NULL;
    for (uint32_t i = 0; i < count && items != NULL && status == PEN_OK; i++) {
        status = piece(k, axis, at, sizes[i], keep, &items[i]);
        at += sizes[i];
    }
    return status == PEN_OK ? sequence_set(k, k->in[0].dtype, items, count) : status;
}

enum pen_status kernel_concat_from_sequence(struct kernel_call *k)
{
    uint32_t count = k->in[0].item_count;
    bool stack = node_int(k->n, ATTR_new_axis, 0) != 0;
    int32_t axis = 0, rank = count > 0 ? k->in[0].items[0].shape.rank + stack : 0;
    if (count == 0 || rank > PEN_MAX_RANK) {
        return kernel_fail(k, PEN_ERR_INVALID, "cannot join %u items", count);
    }
    enum pen_status status = kernel_axis(k, node_int(k->n, ATTR_axis, 0), rank, &axis);
    struct rt_value *parts = items_new(k, count);
    if (status != PEN_OK || parts == NULL) {
        return status != PEN_OK ? status : kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for %u parts", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        parts[i] = k->in[0].items[i];
        if (stack && parts[i].shape.rank < PEN_MAX_RANK) { /* a dim of 1 where the parts are joined */
            struct shape *s = &parts[i].shape;
            int32_t behind = s->rank - axis;
            memmove(s->dim + axis + 1, s->dim + axis, (size_t)(behind > 0 ? behind : 0) * sizeof s->dim[0]);
            s->dim[axis] = 1;
            s->rank++;
        }
    }
    return concat_run(k, parts, count, axis);
}

/* An optional holds nothing, or one value in items[0]. */
enum pen_status kernel_optional(struct kernel_call *k)
{
    bool full = k->n->in_count > 0 && (kernel_has(k, 0) || k->in[0].kind != VALUE_TENSOR);
    struct rt_value *items = items_new(k, 1);
    if (items == NULL) {
        return kernel_fail(k, PEN_ERR_NO_MEMORY, "no room for an optional");
    }
    if (full) {
        items[0] = k->in[0];
    }
    k->out[0] = (struct rt_value){.kind = VALUE_OPTIONAL,
                                  .dtype = full ? k->in[0].dtype : PEN_DTYPE_NONE,
                                  .shape = shape_unknown(),
                                  .items = items,
                                  .item_count = full};
    return PEN_OK;
}

enum pen_status kernel_optional_get(struct kernel_call *k)
{
    if (k->in[0].kind == VALUE_OPTIONAL && k->in[0].item_count == 0) {
        return kernel_fail(k, PEN_ERR_INVALID, "the optional is empty");
    }
    k->out[0] = k->in[0].kind == VALUE_OPTIONAL ? k->in[0].items[0] : k->in[0];
    return PEN_OK;
}

enum pen_status kernel_optional_has(struct kernel_call *k)
{
    struct shape scalar = shape_scalar();
    enum pen_status status = kernel_output(k, 0, PEN_DTYPE_BOOL, &scalar);
    if (status == PEN_OK) {
        const struct rt_value *v = k->n->in_count > 0 && k->n->in[0] != VALUE_NONE ? &k->in[0] : NULL;
        bool has = v != NULL && (v->kind == VALUE_OPTIONAL ? v->item_count > 0
                                                           : v->kind == VALUE_SEQUENCE || v->dtype != PEN_DTYPE_NONE);
        *(uint8_t *)k->out[0].data = has;
    }
    return status;
}
