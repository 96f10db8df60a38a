#include <limits.h>
#include <string.h>

#include "import/tflite/reader.h"

#define READ_PAD 64 /* bytes that kernels may read behind a constant */

enum pen_dtype tflite_dtype(int64_t type)
{
    static const enum pen_dtype types[] = {
        PEN_DTYPE_F32,  PEN_DTYPE_F16, PEN_DTYPE_I32, PEN_DTYPE_U8,  PEN_DTYPE_I64,  PEN_DTYPE_STRING, PEN_DTYPE_BOOL,
        PEN_DTYPE_I16,  PEN_DTYPE_C64, PEN_DTYPE_I8,  PEN_DTYPE_F64, PEN_DTYPE_C128, PEN_DTYPE_U64,    PEN_DTYPE_NONE,
        PEN_DTYPE_NONE, PEN_DTYPE_U32, PEN_DTYPE_U16, PEN_DTYPE_I4,  PEN_DTYPE_BF16,
    };
    return type >= 0 && type < (int64_t)(sizeof types / sizeof types[0]) ? types[type] : PEN_DTYPE_NONE;
}

static void fail(struct scope *s, const struct tensor *t, enum pen_status status, const char *what)
{
    int bytes = t->name.bytes < 120 ? (int)t->name.bytes : 120;
    build_stop(s->b, status, "tensor '%.*s' %s", bytes, t->name.at, what);
}

/* False when the list is longer than our ranks. least: smallest dim that makes sense. */
static bool shape_read(const struct fb_list *l, int64_t least, struct shape *ret)
{
    if (l->count > PEN_MAX_RANK)
        return false;
    ret->rank = (int32_t)l->count;
    for (uint32_t i = 0; i < l->count; i++) {
        ret->dim[i] = fb_list_int(l, i);
        if (ret->dim[i] < least)
            return false;
    }
    return true;
}

static void quant_read(struct scope *s, const struct fb_table *table, struct tensor *t)
{
    struct fb_table q = fb_child(table, TENSOR_QUANT);
    struct fb_list scales = fb_vector(&q, QUANT_SCALE, 4), zeros = fb_vector(&q, QUANT_ZERO, 8);
    int64_t axis = fb_int(&q, QUANT_AXIS, 4, 0);
    if (scales.count == 0)
        return;
    float *scale = graph_alloc(s->b->g, scales.count * sizeof *scale);
    int32_t *zero = graph_alloc(s->b->g, scales.count * sizeof *zero);
    if (!scale || !zero) {
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for quantisation parameters");
        return;
    }
    bool one = scales.count == 1;
    if (!one && (axis < 0 || axis >= t->shape.rank || t->shape.dim[axis] != (int64_t)scales.count)) {
        fail(s, t, PEN_ERR_CORRUPT, "has a number of scales that does not fit its shape");
        return;
    }
    for (uint32_t i = 0; i < scales.count; i++) {
        int64_t z = zeros.count == 0 ? 0 : fb_list_int(&zeros, zeros.count == 1 ? 0 : i);
        scale[i] = fb_list_float(&scales, i);
        zero[i] = z < INT_MIN || z > INT_MAX ? 0 : (int32_t)z;
        if (!(scale[i] >= 0.0f) || z != zero[i] || (zeros.count > 1 && zeros.count != scales.count)) {
            fail(s, t, PEN_ERR_CORRUPT, "has a scale or zero point that makes no sense");
            return;
        }
    }
    t->quant = (struct quant){.count = scales.count, .axis = (int32_t)axis, .scale = scale, .zero_point = zero};
}

/* Where a buffer's bytes lie: in the vector, or, beyond 2 GiB, at an offset of the file. */
static bool buffer_find(struct scope *s, uint64_t index, const uint8_t **ret_at, uint64_t *ret_bytes)
{
    struct fb *f = s->r->f;
    if (index >= s->r->buffers.count) {
        f->broken = true;
        return false;
    }
    struct fb_table buffer = fb_list_table(&s->r->buffers, (uint32_t)index);
    struct fb_list data = fb_vector(&buffer, BUFFER_DATA, 1);
    uint64_t offset = fb_uint(&buffer, BUFFER_OFFSET, 8, 0), bytes = fb_uint(&buffer, BUFFER_SIZE, 8, 0);
    *ret_at = fb_list_data(&data);
    *ret_bytes = data.count;
    if (data.count == 0 && offset > 1) {
        if (offset > f->size || bytes > f->size - offset) {
            f->broken = true;
            return false;
        }
        *ret_at = f->at + offset;
        *ret_bytes = bytes;
    }
    return *ret_bytes > 0;
}

/* Borrowed where alignment and the bytes behind allow, else copied. */
static const void *data_keep(struct scope *s, const uint8_t *at, size_t bytes, enum pen_dtype dtype)
{
    size_t align = pen_dtype_bits(dtype) / 8;
    const uint8_t *end = s->r->f->at + s->r->f->size;
    if (align == 0)
        align = 1;
    if ((uintptr_t)at % align == 0 && (size_t)(end - at) >= bytes + READ_PAD)
        return at;
    void *copy = graph_alloc_data(s->b->g, bytes + READ_PAD);
    if (copy && bytes)
        memcpy(copy, at, bytes);
    return copy;
}

/* Strings: count, offsets [count + 1], bytes; all offsets from the start of the buffer. */
static void strings_read(struct scope *s, struct tensor *t, const uint8_t *at, uint64_t bytes)
{
    struct fb inner = {.at = at, .size = (size_t)bytes};
    int64_t count = shape_elements(&t->shape);
    struct string_view *items = NULL;
    if (count < 0 || fb_read(&inner, 0, 4) != (uint64_t)count || inner.broken || (uint64_t)count > bytes / 4) {
        fail(s, t, PEN_ERR_CORRUPT, "does not hold as many strings as its shape says");
        return;
    }
    items = graph_alloc(s->b->g, ((size_t)count + 1) * sizeof *items);
    for (int64_t i = 0; items && i < count; i++) {
        uint64_t from = fb_read(&inner, 4 + 4 * (size_t)i, 4), to = fb_read(&inner, 8 + 4 * (size_t)i, 4);
        if (inner.broken || from > to || to > bytes) {
            fail(s, t, PEN_ERR_CORRUPT, "has a string outside its buffer");
            return;
        }
        items[i] = (struct string_view){(const char *)at + from, (size_t)(to - from)};
    }
    if (!items)
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for strings");
    t->data = items;
    t->bytes = (size_t)count * sizeof *items;
}

/* Constants of 4 bits become bytes: the low half of a byte comes first. The scales stay. */
static void bytes_of_halves(struct scope *s, struct tensor *t)
{
    size_t count = (size_t)shape_elements(&t->shape);
    const uint8_t *from = t->data;
    int8_t *to = graph_alloc_data(s->b->g, count + READ_PAD);
    for (size_t i = 0; to && i < count; i++) {
        int half = from[i / 2] >> (i % 2 ? 4 : 0) & 15;
        to[i] = (int8_t)(half < 8 ? half : half - 16);
    }
    if (!to)
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for a constant");
    t->data = to;
    t->bytes = count;
    t->dtype = PEN_DTYPE_I8;
}

static void data_read(struct scope *s, const struct fb_table *table, struct tensor *t)
{
    const uint8_t *at = NULL;
    uint64_t bytes = 0;
    uint64_t index = fb_uint(table, TENSOR_BUFFER, 4, 0);
    if (index == 0 || !buffer_find(s, index, &at, &bytes) || t->variable)
        return;
    t->constant = true;
    if (fb_has(table, TENSOR_SPARSITY)) {
        t->sparse = true;
        t->data = at;
        t->bytes = (size_t)bytes;
        (void)lite_densify(s, table, t);
        return;
    }
    if (t->dtype == PEN_DTYPE_STRING) {
        strings_read(s, t, at, bytes);
        return;
    }
    size_t need = 0;
    enum pen_status status = shape_bytes(&t->shape, t->dtype, s->b->g->limits.tensor_bytes, &need);
    if (status != PEN_OK || bytes < need) {
        fail(s, t, status == PEN_ERR_TOO_LARGE ? status : PEN_ERR_CORRUPT,
             "has a shape that does not fit its data or the budget");
        return;
    }
    t->data = data_keep(s, at, need, t->dtype);
    t->bytes = need;
    if (!t->data)
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for a constant");
    else if (t->dtype == PEN_DTYPE_I4)
        bytes_of_halves(s, t);
}

static void tensor_read(struct scope *s, const struct fb_table *table, struct tensor *t)
{
    struct fb_list shape = fb_vector(table, TENSOR_SHAPE, 4), signature = fb_vector(table, TENSOR_SIGNATURE, 4);
    int64_t type = fb_int(table, TENSOR_TYPE, 1, 0);
    *t = (struct tensor){.name = fb_string(table, TENSOR_NAME), .value = VALUE_NONE};
    t->dtype = tflite_dtype(type);
    t->variable = fb_bool(table, TENSOR_VARIABLE, false);
    if (!shape_read(&shape, 0, &t->shape)) {
        fail(s, t, PEN_ERR_CORRUPT, "has a negative dimension or more than 8 of them");
        return;
    }
    t->signature = t->shape;
    if (signature.count == shape.count && signature.count > 0 && !shape_read(&signature, -1, &t->signature)) {
        fail(s, t, PEN_ERR_CORRUPT, "has a dimension below -1");
        return;
    }
    quant_read(s, table, t);
    if (s->b->status == PEN_OK && t->dtype != PEN_DTYPE_NONE)
        data_read(s, table, t);
    if (!t->constant && !t->variable)
        t->shape = t->signature; /* what stands in the other is a placeholder */
}

enum pen_status lite_tensors(struct scope *s, const struct fb_table *subgraph)
{
    struct fb_list tensors = fb_vector(subgraph, SUBGRAPH_TENSORS, 4);
    if (tensors.count > s->b->g->limits.values) {
        build_stop(s->b, PEN_ERR_TOO_LARGE, "the model has %u tensors", tensors.count);
        return s->b->status;
    }
    s->tensors = graph_alloc(s->b->g, ((size_t)tensors.count + 1) * sizeof *s->tensors);
    if (!s->tensors) {
        build_stop(s->b, PEN_ERR_NO_MEMORY, "no memory for %u tensors", tensors.count);
        return s->b->status;
    }
    s->tensor_count = tensors.count;
    for (uint32_t i = 0; i < tensors.count && s->b->status == PEN_OK; i++) {
        struct fb_table table = fb_list_table(&tensors, i);
        tensor_read(s, &table, &s->tensors[i]);
        if (s->r->f->broken)
            build_stop(s->b, PEN_ERR_CORRUPT, "the model file is broken: tensor %u leads outside it", i);
    }
    return s->b->status;
}
