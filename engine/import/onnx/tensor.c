#include "import/onnx/tensor.h"

#include <string.h>

#include "graph/askew.h"
#include "graph/lifetime.h"
#include "import/onnx/external.h"
#include "import/onnx/message.h"

enum {
    DIMS = 1,
    DTYPE = 2,
    FLOATS = 4,
    INT32S = 5,
    STRINGS = 6,
    INT64S = 7,
    NAME = 8,
    RAW = 9,
    DOUBLES = 10,
    UINT64S = 11,
    LOCATION = 14
};

/* TensorProto as found. */
struct header {
    struct bytes name, raw, self;
    enum pen_dtype dtype;
    struct shape shape;
    bool has_raw, external;
};

static bool add_dims(struct header *h, const struct wire_field *f)
{
    struct bytes list = f->bytes;
    int64_t count = wire_count(f, 0);
    for (int64_t i = 0; i < count; i++) {
        uint64_t dim;
        if (h->shape.rank >= PEN_MAX_RANK || !wire_item(f, &list, 0, &dim) || dim > INT64_MAX)
            return false;
        h->shape.dim[h->shape.rank++] = (int64_t)dim;
    }
    return true;
}

static bool parse_header(struct bytes message, struct header *h)
{
    struct wire_field f;
    int got;
    *h = (struct header){.self = message, .shape = shape_scalar()};
    while ((got = wire_next(&message, &f)) == 1) {
        if (f.number == DIMS && !add_dims(h, &f))
            return false;
        if (f.number == DTYPE)
            h->dtype = f.value < PEN_DTYPE_COUNT ? (enum pen_dtype)f.value : PEN_DTYPE_NONE;
        else if (f.number == NAME)
            h->name = f.bytes;
        else if (f.number == LOCATION)
            h->external = f.value == 1;
        else if (f.number == RAW && f.type == WIRE_BYTES) {
            h->raw = f.bytes;
            h->has_raw = true;
        }
    }
    return got == 0;
}

static enum pen_status broken(const struct header *h, const char *what, struct pen_error *reterr)
{
    char text[160];
    return pen_error_set(reterr, PEN_ERR_CORRUPT, "tensor '%.*s' (%s %s) %s",
                         (int)(h->name.size < 80 ? h->name.size : 80), h->name.at ? (const char *)h->name.at : "",
                         pen_dtype_name(h->dtype), shape_text(&h->shape, text, sizeof text), what);
}

/* Where typed data of each dtype lies and how wide an item is on the wire. */
static uint32_t typed_field(enum pen_dtype dtype, unsigned *ret_item_bytes)
{
    *ret_item_bytes = 0;
    switch (dtype) {
    case PEN_DTYPE_F32:
    case PEN_DTYPE_C64:
        *ret_item_bytes = 4;
        return FLOATS;
    case PEN_DTYPE_F64:
    case PEN_DTYPE_C128:
        *ret_item_bytes = 8;
        return DOUBLES;
    case PEN_DTYPE_I64:
        return INT64S;
    case PEN_DTYPE_U32:
    case PEN_DTYPE_U64:
        return UINT64S;
    default:
        return INT32S;
    }
}

/* Bytes that one wire item fills in memory: parts of complex numbers, packed sub-byte pairs. */
static unsigned unit_bytes(enum pen_dtype dtype)
{
    unsigned bits = pen_dtype_bits(dtype);
    if (dtype == PEN_DTYPE_C64 || dtype == PEN_DTYPE_C128)
        bits /= 2;
    return bits < 8 ? 1 : bits / 8;
}

static enum pen_status copy_typed(const struct header *h, uint8_t *to, size_t bytes, struct pen_error *reterr)
{
    unsigned item_bytes, unit = unit_bytes(h->dtype);
    uint32_t number = typed_field(h->dtype, &item_bytes);
    struct bytes message = h->self;
    struct wire_field f;
    size_t at = 0;
    while (wire_next(&message, &f) == 1) {
        if (f.number != number)
            continue;
        struct bytes list = f.bytes;
        int64_t count = wire_count(&f, item_bytes);
        if (count < 0 || (uint64_t)count > (bytes - at) / unit)
            return broken(h, "holds more data than its shape", reterr);
        if (f.type == WIRE_BYTES && item_bytes == unit) { /* items lie as memory has them, little-endian */
            memcpy(to + at, list.at, list.size);
            at += list.size;
            continue;
        }
        for (int64_t i = 0; i < count; i++, at += unit) {
            uint64_t item;
            if (!wire_item(&f, &list, item_bytes, &item))
                return broken(h, "has broken data", reterr);
            memcpy(to + at, &item, unit); /* little-endian */
        }
    }
    return at == bytes ? PEN_OK : broken(h, "holds less data than its shape", reterr);
}

static enum pen_status no_room(const struct tensor_source *source, const struct header *h, struct pen_error *reterr)
{
    enum pen_status status = broken(h, "does not fit the memory budget", reterr);
    return arena_starved(source->arena)
               ? pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a tensor of the model's file")
               : status;
}

static enum pen_status load_strings(const struct tensor_source *source, const struct header *h, struct tensor *t,
                                    struct pen_error *reterr)
{
    int64_t elements = shape_elements(&h->shape);
    struct bytes cursor = h->self, text;
    if ((uint64_t)elements > h->self.size) /* each takes two bytes at least */
        return broken(h, "holds less data than its shape", reterr);
    struct string_view *views = arena_alloc(source->arena, t->bytes);
    if (!views)
        return no_room(source, h, reterr);
    for (int64_t i = 0; i < elements; i++) {
        if (pb_each(&cursor, STRINGS, &text) != 1)
            return broken(h, "holds less data than its shape", reterr);
        views[i] = (struct string_view){text.size ? (const char *)text.at : "", text.size};
    }
    if (pb_each(&cursor, STRINGS, &text) == 1)
        return broken(h, "holds more data than its shape", reterr);
    t->data = views;
    return PEN_OK;
}

/* It can be read where it lies, or stays there all the same. */
static bool stays(const struct tensor_source *source, const struct tensor *t, struct bytes raw)
{
    return (uintptr_t)raw.at % value_alignment(t->dtype) == 0 || (source->askew && t->bytes >= ASKEW_BYTES);
}

/* Raw or external bytes: borrowed when aligned and padded, else copied. Bools are copied to make every byte 0 or 1. */
static enum pen_status take_raw(const struct tensor_source *source, const struct header *h, struct bytes raw, bool copy,
                                struct tensor *t, struct pen_error *reterr)
{
    if (raw.size != t->bytes)
        return broken(h, "has raw data of another size than its shape", reterr);
    if (!copy && h->dtype != PEN_DTYPE_BOOL && stays(source, t, raw)) {
        t->data = raw.at;
        return PEN_OK;
    }
    uint8_t *memory = arena_alloc_data(source->arena, t->bytes);
    if (!memory)
        return no_room(source, h, reterr);
    if (raw.size)
        memcpy(memory, raw.at, raw.size);
    for (size_t i = 0; i < raw.size && h->dtype == PEN_DTYPE_BOOL; i++)
        memory[i] = memory[i] != 0;
    t->data = memory;
    return PEN_OK;
}

static enum pen_status take_data(const struct tensor_source *source, const struct header *h, struct tensor *t,
                                 struct pen_error *reterr)
{
    static const uint64_t nothing[2];
    if (t->bytes == 0) {
        t->data = nothing;
        return PEN_OK;
    }
    if (h->external) {
        struct bytes data;
        bool copy;
        enum pen_status status = external_data(source->external, h->self, t->bytes, LIFETIME_PAD, &data, &copy, reterr);
        return status == PEN_OK ? take_raw(source, h, data, copy, t, reterr) : status;
    }
    if (h->dtype == PEN_DTYPE_STRING)
        return load_strings(source, h, t, reterr);
    if (h->has_raw) {
        const uint8_t *end = source->file.at + source->file.size;
        bool near_end = !source->file.at || (size_t)(end - (h->raw.at + h->raw.size)) < LIFETIME_PAD;
        return take_raw(source, h, h->raw, near_end, t, reterr);
    }
    /* An item takes at least one byte on the wire: a huge shape over a small message is refused before memory is taken. */
    if (t->bytes / 16 > h->self.size)
        return broken(h, "holds less data than its shape", reterr);
    uint8_t *memory = arena_alloc_data(source->arena, t->bytes);
    if (!memory)
        return no_room(source, h, reterr);
    t->data = memory;
    return copy_typed(h, memory, t->bytes, reterr);
}

enum pen_status tensor_load(const struct tensor_source *source, struct bytes message, struct tensor *ret_tensor,
                            struct pen_error *reterr)
{
    struct header h;
    if (!parse_header(message, &h))
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "a tensor is broken: bad fields, or more than %d dimensions",
                             PEN_MAX_RANK);
    if (h.dtype == PEN_DTYPE_NONE)
        return broken(&h, "has an unknown element type", reterr);
    struct tensor t = {.name = h.name, .dtype = h.dtype, .shape = h.shape};
    if (shape_bytes(&h.shape, h.dtype, source->tensor_limit, &t.bytes) != PEN_OK) {
        char text[160];
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "tensor '%.*s' of shape %s exceeds the budget of %llu bytes",
                             (int)(h.name.size < 80 ? h.name.size : 80), h.name.at ? (const char *)h.name.at : "",
                             shape_text(&h.shape, text, sizeof text), (unsigned long long)source->tensor_limit);
    }
    enum pen_status status = take_data(source, &h, &t, reterr);
    if (status == PEN_OK)
        *ret_tensor = t;
    return status;
}

/* ---- sparse ------------------------------------------------------------------------------------------------------ */

struct sparse {
    struct bytes values, indices;
    struct header dims; /* only its shape is used */
};

static bool parse_sparse(struct bytes message, struct sparse *s)
{
    struct wire_field f;
    int got;
    *s = (struct sparse){.dims = {.shape = shape_scalar()}};
    while ((got = wire_next(&message, &f)) == 1) {
        if (f.number == 1 && f.type == WIRE_BYTES)
            s->values = f.bytes;
        else if (f.number == 2 && f.type == WIRE_BYTES)
            s->indices = f.bytes;
        else if (f.number == 3 && !add_dims(&s->dims, &f))
            return false;
    }
    return got == 0;
}

/* Linear position of item `i`: indices are [nnz] (linear) or [nnz, rank]. -1 = out of range. */
static int64_t sparse_position(const struct tensor *indices, const struct shape *dense, int64_t i)
{
    const int64_t *index = indices->data;
    int64_t at = 0, limit = shape_elements(dense);
    if (indices->shape.rank == 1)
        return index[i] >= 0 && index[i] < limit ? index[i] : -1;
    for (int32_t k = 0; k < dense->rank; k++) {
        int64_t step = index[i * dense->rank + k];
        if (step < 0 || step >= dense->dim[k])
            return -1;
        at = at * dense->dim[k] + step;
    }
    return at;
}

static enum pen_status scatter(const struct tensor *values, const struct tensor *indices, struct tensor *t,
                               uint8_t *memory, struct pen_error *reterr)
{
    size_t unit = pen_dtype_bits(values->dtype) / 8;
    int64_t count = shape_elements(&values->shape);
    bool fits = values->shape.rank == 1 && indices->dtype == PEN_DTYPE_I64 && indices->shape.rank >= 1 &&
                indices->shape.rank <= 2 && indices->shape.dim[0] == count && unit > 0 &&
                (indices->shape.rank == 1 || indices->shape.dim[1] == t->shape.rank);
    for (int64_t i = 0; i < count && fits; i++) {
        int64_t at = sparse_position(indices, &t->shape, i);
        fits = at >= 0;
        if (fits)
            memcpy(memory + (size_t)at * unit, (const uint8_t *)values->data + (size_t)i * unit, unit);
    }
    return fits ? PEN_OK : pen_error_set(reterr, PEN_ERR_CORRUPT, "a sparse tensor's indices do not fit its shape");
}

enum pen_status tensor_load_sparse(const struct tensor_source *source, struct bytes message, struct tensor *ret_tensor,
                                   struct pen_error *reterr)
{
    struct sparse s;
    struct tensor values, indices;
    if (!parse_sparse(message, &s))
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "a sparse tensor is broken");
    enum pen_status status = tensor_load(source, s.values, &values, reterr);
    if (status == PEN_OK)
        status = tensor_load(source, s.indices, &indices, reterr);
    if (status != PEN_OK)
        return status;
    struct tensor t = {.name = values.name, .dtype = values.dtype, .shape = s.dims.shape};
    uint8_t *memory = NULL;
    if (values.dtype == PEN_DTYPE_STRING)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "sparse tensors of strings are not supported");
    uint64_t limit = source->dense_limit > 0 ? source->dense_limit : source->tensor_limit;
    if (shape_bytes(&t.shape, t.dtype, limit, &t.bytes) == PEN_OK)
        memory = arena_alloc(source->arena, t.bytes);
    if (!memory && arena_starved(source->arena))
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a sparse tensor");
    if (!memory)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a sparse tensor does not fit the memory budget when dense");
    t.data = memory;
    status = scatter(&values, &indices, &t, memory, reterr);
    if (status == PEN_OK)
        *ret_tensor = t;
    return status;
}
