#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "graph/arena.h"
#include "import/importer.h"
#include "tools/case.h"

uint32_t onnx_folder_sets(const char *folder)
{
    uint32_t count = 0;
    char path[4096];
    struct stat st;
    while (snprintf(path, sizeof path, "%s/test_data_set_%u", folder, count) < (int)sizeof path &&
           stat(path, &st) == 0) {
        count++;
    }
    return count;
}

static void value_from(const struct onnx_value *from, struct rt_value *to, struct rt_arena *arena)
{
    *to = (struct rt_value){.kind = from->kind,
                            .dtype = from->dtype,
                            .shape = from->shape,
                            .data = (void *)(uintptr_t)from->data,
                            .bytes = from->bytes,
                            .item_count = from->item_count};
    if (from->item_count > 0) {
        to->items = rt_arena_alloc(arena, from->item_count * sizeof *to->items);
        to->item_count = to->items != NULL ? from->item_count : 0;
        for (uint32_t i = 0; i < to->item_count; i++) {
            value_from(&from->items[i], &to->items[i], arena);
        }
    }
}

static enum pen_status value_read(const char *path, enum value_kind kind, struct rt_arena *arena, struct rt_value *ret,
                                  struct pen_error *reterr)
{
    void *bytes = NULL;
    size_t size = 0;
    enum pen_status status = case_file(arena, path, &bytes, &size, reterr);
    if (status != PEN_OK) {
        return status;
    }
    struct graph_arena *memory = arena_new((uint64_t)8 << 30);
    struct onnx_value value = {0};
    status = memory == NULL ? PEN_ERR_NO_MEMORY : onnx_value_read(bytes, size, kind, memory, &value, reterr);
    if (status == PEN_OK) {
        struct rt_value borrowed;
        value_from(&value, &borrowed, arena);
        status = case_value_copy(arena, &borrowed, ret);
    }
    arena_free(memory);
    return status;
}

/* Reads prefix_0.pb, prefix_1.pb ... as far as they exist. */
static enum pen_status values_read(const char *prefix, const struct pen_model *model, bool input,
                                   struct rt_arena *arena, struct rt_value *ret, uint32_t *ret_count,
                                   struct pen_error *reterr)
{
    size_t declared = 0;
    (void)(input ? pen_model_inputs(model, &declared) : pen_model_outputs(model, &declared));
    enum pen_status status = PEN_OK;
    uint32_t count = 0;
    for (; status == PEN_OK && count < CASE_VALUES_MAX; count++) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof path, "%s_%u.pb", prefix, count);
        if (stat(path, &st) != 0) {
            break;
        }
        enum value_kind kind = count >= declared ? VALUE_TENSOR
                               : input           ? model_input_kind(model, count)
                                                 : model_output_kind(model, count);
        status = value_read(path, kind, arena, &ret[count], reterr);
    }
    *ret_count = count;
    return status;
}

enum pen_status onnx_folder_read(const char *folder, uint32_t index, const struct pen_model *model,
                                 struct rt_arena *arena, struct case_set *set, struct pen_error *reterr)
{
    char prefix[4096];
    snprintf(prefix, sizeof prefix, "%s/test_data_set_%u/input", folder, index);
    enum pen_status status = values_read(prefix, model, true, arena, set->inputs, &set->input_count, reterr);
    if (status == PEN_OK) {
        snprintf(prefix, sizeof prefix, "%s/test_data_set_%u/output", folder, index);
        status = values_read(prefix, model, false, arena, set->expected, &set->expected_count, reterr);
    }
    return status;
}

/* Light models: input = arange(n) / n as float32 over the input's shape (data.md). */
enum pen_status light_read(const char *path, const struct pen_model *model, struct rt_arena *arena,
                           struct case_set *set, struct pen_error *reterr)
{
    size_t count = 0;
    const struct pen_tensor *sigs = pen_model_inputs(model, &count);
    struct rt_value *in = &set->inputs[0];
    if (count != 1 || sigs[0].dtype != PEN_DTYPE_F32) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "a light case has one float input");
    }
    *in = (struct rt_value){.dtype = PEN_DTYPE_F32, .shape = shape_of((int32_t)sigs[0].rank, sigs[0].dims)};
    enum pen_status status = shape_bytes(&in->shape, in->dtype, 0, &in->bytes);
    in->data = status == PEN_OK ? rt_arena_alloc(arena, in->bytes) : NULL;
    if (in->data == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the input");
    }
    int64_t n = shape_elements(&in->shape);
    for (int64_t i = 0; i < n; i++) {
        ((float *)in->data)[i] = (float)i / (float)n;
    }
    set->input_count = 1;
    char output[4096];
    snprintf(output, sizeof output, "%.*s_output_0.pb", (int)(strlen(path) - 5), path);
    set->expected_count = 1;
    return value_read(output, VALUE_TENSOR, arena, &set->expected[0], reterr);
}
