#include <string.h>

#include "import/importer.h"
#include "import/onnx/message.h"
#include "import/onnx/tensor.h"

#define ITEMS_MAX 1000000u

enum { SEQUENCE_NAME = 1, SEQUENCE_TYPE = 2, SEQUENCE_TENSORS = 3, OPTIONAL_TENSOR = 3, OPTIONAL_SEQUENCE = 5 };

static const char *copy_name(struct graph_arena *arena, struct bytes name)
{
    char *text = arena_alloc(arena, name.size + 1);
    if (text && name.size)
        memcpy(text, name.at, name.size);
    return text;
}

static enum pen_status read_tensor(const struct tensor_source *source, struct bytes message, struct onnx_value *ret,
                                   struct pen_error *reterr)
{
    struct tensor t;
    enum pen_status status = tensor_load(source, message, &t, reterr);
    if (status != PEN_OK)
        return status;
    *ret = (struct onnx_value){.name = copy_name(source->arena, t.name),
                               .kind = VALUE_TENSOR,
                               .dtype = t.dtype,
                               .shape = t.shape,
                               .data = t.data,
                               .bytes = t.bytes};
    return ret->name ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a tensor's name");
}

/* SequenceProto of tensors. */
static enum pen_status read_sequence(const struct tensor_source *source, struct bytes message, struct onnx_value *ret,
                                     struct pen_error *reterr)
{
    struct bytes cursor = message, part, name = {0};
    struct onnx_value v = {.kind = VALUE_SEQUENCE, .shape = shape_unknown()};
    while (pb_each(&cursor, SEQUENCE_TENSORS, &part) == 1)
        v.item_count++;
    cursor = message;
    (void)pb_each(&cursor, SEQUENCE_NAME, &name);
    v.name = copy_name(source->arena, name);
    v.items = v.item_count <= ITEMS_MAX ? arena_alloc(source->arena, v.item_count * sizeof *v.items) : NULL;
    if (!v.items || !v.name)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a sequence has too many elements");
    enum pen_status status = PEN_OK;
    cursor = message;
    for (uint32_t i = 0; i < v.item_count && status == PEN_OK && pb_each(&cursor, SEQUENCE_TENSORS, &part) == 1; i++)
        status = read_tensor(source, part, &v.items[i], reterr);
    if (status != PEN_OK)
        return status;
    if (v.item_count > 0)
        v.dtype = v.items[0].dtype;
    *ret = v;
    return PEN_OK;
}

/* OptionalProto: empty, or one tensor or sequence. */
static enum pen_status read_optional(const struct tensor_source *source, struct bytes message, struct onnx_value *ret,
                                     struct pen_error *reterr)
{
    struct bytes cursor = message, part, name = {0};
    struct onnx_value v = {.kind = VALUE_OPTIONAL, .shape = shape_unknown()};
    (void)pb_each(&cursor, SEQUENCE_NAME, &name);
    v.name = copy_name(source->arena, name);
    v.items = arena_alloc(source->arena, sizeof *v.items);
    if (!v.items || !v.name)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for an optional value");
    enum pen_status status = PEN_OK;
    cursor = message;
    if (pb_each(&cursor, OPTIONAL_TENSOR, &part) == 1) {
        status = read_tensor(source, part, v.items, reterr);
        v.item_count = 1;
    } else {
        cursor = message;
        if (pb_each(&cursor, OPTIONAL_SEQUENCE, &part) == 1) {
            status = read_sequence(source, part, v.items, reterr);
            v.item_count = 1;
        }
    }
    if (status != PEN_OK)
        return status;
    v.dtype = v.item_count ? v.items->dtype : PEN_DTYPE_NONE;
    *ret = v;
    return PEN_OK;
}

enum pen_status onnx_value_read(const void *bytes, size_t size, enum value_kind kind, struct graph_arena *arena,
                                struct onnx_value *ret_value, struct pen_error *reterr)
{
    struct graph_limits limits = graph_limits_default();
    struct tensor_source source = {.arena = arena, .tensor_limit = limits.tensor_bytes, .file = {bytes, size}};
    struct bytes message = {bytes, size};
    if (kind == VALUE_SEQUENCE)
        return read_sequence(&source, message, ret_value, reterr);
    if (kind == VALUE_OPTIONAL)
        return read_optional(&source, message, ret_value, reterr);
    return read_tensor(&source, message, ret_value, reterr);
}

enum pen_status onnx_tensor_read(const void *bytes, size_t size, struct graph_arena *arena,
                                 struct onnx_value *ret_value, struct pen_error *reterr)
{
    return onnx_value_read(bytes, size, VALUE_TENSOR, arena, ret_value, reterr);
}
