#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "run/internal.h"
#include "tools/case.h"

static const char *folder_of(struct rt_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);
    char *folder = rt_arena_alloc(arena, length + 2);
    if (folder != NULL) {
        snprintf(folder, length + 2, "%.*s", length == 0 ? 1 : (int)length, length == 0 ? "." : path);
    }
    return folder;
}

static cJSON *json_read(const char *path, struct rt_arena *arena, struct pen_error *reterr)
{
    void *bytes = NULL;
    size_t size = 0;
    if (case_file(arena, path, &bytes, &size, reterr) != PEN_OK) {
        return NULL;
    }
    cJSON *json = cJSON_ParseWithLength(bytes, size);
    if (json == NULL) {
        pen_error_set(reterr, PEN_ERR_CORRUPT, "%s is not JSON", path);
    }
    return json;
}

const char *golden_model_path(const char *json_path, struct rt_arena *arena, struct pen_error *reterr)
{
    cJSON *json = json_read(json_path, arena, reterr);
    if (json == NULL) {
        return NULL;
    }
    const char *model = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "model"));
    const char *golden = folder_of(arena, json_path);
    const char *folder = golden != NULL ? folder_of(arena, golden) : NULL;
    const char *path = model != NULL && folder != NULL ? case_join(arena, folder, model) : NULL;
    if (path == NULL) {
        pen_error_set(reterr, PEN_ERR_CORRUPT, "%s names no model", json_path);
    }
    cJSON_Delete(json);
    return path;
}

/* One {name, dtype, shape, file} entry. */
static enum pen_status tensor_read(const cJSON *entry, const char *folder, struct rt_arena *arena, struct rt_value *ret,
                                   const char **ret_name, struct pen_error *reterr)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "name"));
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "dtype"));
    const char *file = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "file"));
    const cJSON *dims = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    *ret = (struct rt_value){.kind = VALUE_TENSOR, .dtype = pen_dtype_parse(dtype != NULL ? dtype : "float32")};
    if (file == NULL || ret->dtype == PEN_DTYPE_NONE || !cJSON_IsArray(dims) ||
        cJSON_GetArraySize(dims) > PEN_MAX_RANK) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT,
                             "tensor '%s' of the golden case has no usable file, dtype or shape",
                             name != NULL ? name : "?");
    }
    const cJSON *dim = NULL;
    cJSON_ArrayForEach(dim, dims)
    {
        ret->shape.dim[ret->shape.rank++] = (int64_t)cJSON_GetNumberValue(dim);
    }
    size_t need = 0;
    enum pen_status status = shape_bytes(&ret->shape, ret->dtype, 0, &need);
    const char *path = case_join(arena, folder, file);
    if (status == PEN_OK && path != NULL) {
        status = case_file(arena, path, &ret->data, &ret->bytes, reterr);
    }
    if (status == PEN_OK && ret->bytes != need) {
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "%s has %zu bytes, its shape needs %zu", file, ret->bytes, need);
    }
    if (name != NULL) {
        char *copy = rt_arena_alloc(arena, strlen(name) + 1);
        if (copy != NULL) {
            memcpy(copy, name, strlen(name) + 1);
        }
        *ret_name = copy;
    }
    return status;
}

/* What made a value; a node that only moves elements is passed over. */
static const struct node *maker_of(const struct graph *g, uint32_t value)
{
    const struct node *n = NULL;
    for (uint32_t hops = 0; hops < 8; hops++) {
        uint32_t producer = g->values[value].producer;
        n = producer != NODE_NONE ? &g->nodes[producer] : NULL;
        if (n == NULL || (n->op != OP_Transpose && n->op != OP_Reshape && n->op != OP_Identity)) {
            break;
        }
        value = n->in[0];
    }
    return n;
}

/* The scale behind a float output that a DequantizeLinear with one constant scale gives; 0 when it is not so. */
static double output_step(const struct pen_model *model, uint32_t output)
{
    const struct graph *g = model->graph;
    const struct node *n = maker_of(g, g->outputs[output]);
    const struct value *scale = n != NULL && n->op == OP_DequantizeLinear ? node_in(g, n, 1) : NULL;
    float step = 0;
    if (scale != NULL && scale->data != NULL && scale->dtype == PEN_DTYPE_F32 && scale->bytes == sizeof step) {
        memcpy(&step, scale->data, sizeof step);
    }
    return (double)step;
}

static bool quantised_model(const struct pen_model *model, struct case_set *set)
{
    bool all = set->expected_count > 0;
    for (uint32_t i = 0; i < set->expected_count; i++) {
        bool small = set->expected[i].dtype == PEN_DTYPE_I8 || set->expected[i].dtype == PEN_DTYPE_U8;
        set->step[i] = !small && i < model->graph->output_count ? output_step(model, i) : 0;
        all = all && (small || set->step[i] > 0);
    }
    return all;
}

/* Inputs given by name may stand in another order than the model's. */
static void order_by_name(struct case_set *set, const struct pen_model *model)
{
    size_t count = 0;
    const struct pen_tensor *sigs = pen_model_inputs(model, &count);
    for (uint32_t i = 0; i < count && i < set->input_count; i++) {
        for (uint32_t k = i + 1; k < set->input_count; k++) {
            bool here = set->input_names[i] != NULL && strcmp(set->input_names[i], sigs[i].name) == 0;
            if (!here && set->input_names[k] != NULL && strcmp(set->input_names[k], sigs[i].name) == 0) {
                struct rt_value v = set->inputs[i];
                set->inputs[i] = set->inputs[k];
                set->inputs[k] = v;
                const char *name = set->input_names[i];
                set->input_names[i] = set->input_names[k];
                set->input_names[k] = name;
            }
        }
    }
}

static enum pen_status read_lists(const cJSON *json, const char *folder, struct rt_arena *arena, struct case_set *set,
                                  struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    const cJSON *entry = NULL;
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(json, "inputs"))
    {
        if (status == PEN_OK && set->input_count < CASE_VALUES_MAX) {
            status = tensor_read(entry, folder, arena, &set->inputs[set->input_count],
                                 &set->input_names[set->input_count], reterr);
            set->input_count++;
        }
    }
    cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(json, "outputs"))
    {
        const char *name = NULL;
        if (status == PEN_OK && set->expected_count < CASE_VALUES_MAX) {
            const cJSON *noise = cJSON_GetObjectItemCaseSensitive(entry, "second_rel_to_range");
            set->noise[set->expected_count] = cJSON_IsNumber(noise) ? cJSON_GetNumberValue(noise) : 0;
            status = tensor_read(entry, folder, arena, &set->expected[set->expected_count], &name, reterr);
            set->expected_count++;
        }
    }
    return status;
}

enum pen_status golden_read(const char *json_path, const struct pen_model *model, enum pen_precision precision,
                            struct rt_arena *arena, struct case_set *set, struct tolerance *tolerance,
                            struct pen_error *reterr)
{
    const char *folder = folder_of(arena, json_path);
    cJSON *json = json_read(json_path, arena, reterr);
    if (json == NULL || folder == NULL) {
        cJSON_Delete(json);
        return PEN_ERR_CORRUPT;
    }
    enum pen_status status = read_lists(json, folder, arena, set, reterr);
    bool classifier = cJSON_HasObjectItem(json, "top5");
    cJSON_Delete(json);
    if (status != PEN_OK) {
        return status;
    }
    order_by_name(set, model);
    *tolerance = tolerance_golden(precision, quantised_model(model, set), classifier);
    return PEN_OK;
}
