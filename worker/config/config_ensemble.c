/* config_ensemble.c - ensemble_scheduling, and the lists of tensors that an ensemble declares. */
#include "config_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum pen_status ensemble_plan_room(struct config *config, struct pen_error *reterr)
{
    if (!config->plan)
        config->plan = ensemble_plan_new();
    return config->plan ? PEN_OK : config_no_memory(reterr);
}

/* ---- declared tensors -------------------------------------------------------------------------------------------------------------- */

/* The fields of one entry of input or output. */
struct declaration {
    struct config *config;
    struct ensemble_plan *plan;
    struct pen_tensor tensor;
    bool dims;
};

enum pen_status config_read_dtype(const cJSON *value, const char *path, enum pen_dtype *ret_dtype,
                                  struct pen_error *reterr)
{
    const char *text = cJSON_IsString(value) ? value->valuestring : "";
    enum pen_dtype dtype = PEN_DTYPE_NONE;
    if (strcmp(text, "TYPE_STRING") == 0)
        dtype = PEN_DTYPE_STRING;
    else if (strncmp(text, "TYPE_", 5) == 0)
        dtype = pen_dtype_parse(text + 5);
    if (dtype == PEN_DTYPE_NONE)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be a type such as TYPE_FP32, TYPE_UINT8 or TYPE_INT64",
                             path);
    *ret_dtype = dtype;
    return PEN_OK;
}

enum pen_status config_read_dims(const cJSON *value, const char *path, struct pen_tensor *tensor,
                                 struct pen_error *reterr)
{
    size_t count = 0;
    enum pen_status status = json_array(value, path, PEN_MAX_RANK - 1, &count, reterr);
    uint32_t rank = 0;
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next) {
        uint64_t dim = 0;
        if (cJSON_IsNumber(item) && item->valuedouble == -1) {
            tensor->dims[rank++] = -1;
            continue;
        }
        status = json_u64(item, path, 1, INT32_MAX, &dim, reterr);
        tensor->dims[rank++] = (int64_t)dim;
    }
    tensor->rank = rank;
    return status;
}

static enum pen_status read_tensor_name(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct declaration *d = target;
    const char *text = NULL;
    uint32_t tensor = 0;
    enum pen_status status = json_text(value, path, CONFIG_NAME_BYTES_MAX, &text, reterr);
    if (status == PEN_OK)
        status = ensemble_plan_tensor(d->plan, text, &tensor, reterr);
    if (status == PEN_OK)
        d->tensor.name = d->plan->tensors[tensor];
    return status;
}

static enum pen_status read_tensor_type(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return config_read_dtype(value, path, &((struct declaration *)target)->tensor.dtype, reterr);
}

static enum pen_status read_tensor_dims(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    ((struct declaration *)target)->dims = true;
    return config_read_dims(value, path, &((struct declaration *)target)->tensor, reterr);
}

/* Triton's word for output.labels_file. */
static enum pen_status read_label_filename(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = ((struct declaration *)target)->config;
    if (config->labels_file[0])
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "%s: only one output can have labels here", path);
    enum pen_status status = config_copy_text(value, path, config->labels_file, reterr);
    if (status == PEN_OK && strchr(config->labels_file, '/'))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be a file beside the config, without a '/'", path);
    return status;
}

/* FORMAT_NHWC and the like only describe; what Triton would do with them is done by `preprocess` here. */
static enum pen_status read_format(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    const char *text = NULL;
    (void)target;
    return json_text(value, path, CONFIG_NAME_BYTES_MAX, &text, reterr);
}

static const struct json_field tensor_fields[] = {{"name", read_tensor_name}, {"data_type", read_tensor_type},
                                                  {"dims", read_tensor_dims}, {"label_filename", read_label_filename},
                                                  {"format", read_format},    {NULL, NULL}};

static bool named_before(const struct pen_tensor *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].name == name)
            return true;
    return false;
}

static enum pen_status read_tensors(const cJSON *value, const char *path, struct config *config,
                                    struct pen_tensor **list, size_t *ret_count, struct pen_error *reterr)
{
    size_t count = 0, read = 0;
    enum pen_status status = json_array(value, path, ENSEMBLE_PLAN_PORTS_MAX, &count, reterr);
    if (status != PEN_OK)
        return status;
    *list = calloc(count ? count : 1, sizeof **list);
    if (!*list)
        return config_no_memory(reterr);
    for (const cJSON *item = value->child; item; item = item->next) {
        struct declaration d = {.config = config, .plan = config->plan};
        status = json_object(item, path, tensor_fields, &d, reterr);
        if (status != PEN_OK)
            return status;
        if (!d.tensor.name || d.tensor.dtype == PEN_DTYPE_NONE || !d.dims)
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s[%zu] needs name, data_type and dims", path, read);
        if (named_before(*list, read, d.tensor.name))
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s names '%.64s' twice", path, d.tensor.name);
        (*list)[read++] = d.tensor;
        *ret_count = read;
    }
    return PEN_OK;
}

enum pen_status config_read_inputs(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    enum pen_status status = ensemble_plan_room(config, reterr);
    return status == PEN_OK
               ? read_tensors(value, path, config, &config->plan->inputs, &config->plan->inputs_count, reterr)
               : status;
}

enum pen_status config_read_outputs(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    enum pen_status status = ensemble_plan_room(config, reterr);
    return status == PEN_OK
               ? read_tensors(value, path, config, &config->plan->outputs, &config->plan->outputs_count, reterr)
               : status;
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------------- */

/* Which step is read. */
struct reading {
    struct ensemble_plan *plan;
    struct ensemble_plan_step *step;
};

static enum pen_status read_step_model(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct ensemble_plan_step *step = ((struct reading *)target)->step;
    const char *text = NULL;
    enum pen_status status = json_text(value, path, CONFIG_NAME_BYTES_MAX, &text, reterr);
    if (status != PEN_OK)
        return status;
    step->model = strdup(text);
    return step->model ? PEN_OK : config_no_memory(reterr);
}

/* -1 is Triton's "the latest by the model's own version_policy". */
static enum pen_status read_step_version(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    if (cJSON_IsNumber(value) && value->valuedouble == -1)
        return PEN_OK;
    if (json_u64(value, path, 1, UINT32_MAX, &((struct reading *)target)->step->version, NULL) == PEN_OK)
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be -1 (the latest) or a version from 1", path);
}

static enum pen_status read_map(const cJSON *value, const char *path, struct ensemble_plan *plan,
                                struct ensemble_plan_link **links, size_t *links_count, struct pen_error *reterr)
{
    size_t count = 0;
    if (!cJSON_IsObject(value))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be an object: a tensor of the model to one of the whole",
                             path);
    for (const cJSON *item = value->child; item; item = item->next)
        count++;
    if (count == 0 || count > ENSEMBLE_PLAN_LINKS_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must name 1 to %u tensors", path, ENSEMBLE_PLAN_LINKS_MAX);
    *links = calloc(count, sizeof **links);
    if (!*links)
        return config_no_memory(reterr);
    for (const cJSON *item = value->child; item; item = item->next) {
        char below[JSON_PATH_BYTES];
        const char *text = NULL;
        struct ensemble_plan_link *link = &(*links)[*links_count];
        snprintf(below, sizeof below, "%.96s.%.64s", path, item->string);
        if (!item->string[0] || strlen(item->string) > CONFIG_NAME_BYTES_MAX ||
            cJSON_GetObjectItemCaseSensitive(value, item->string) != item)
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s is given twice, or its name is not of 1 to %u bytes",
                                 below, CONFIG_NAME_BYTES_MAX);
        enum pen_status status = json_text(item, below, CONFIG_NAME_BYTES_MAX, &text, reterr);
        if (status == PEN_OK)
            status = ensemble_plan_tensor(plan, text, &link->tensor, reterr);
        if (status != PEN_OK)
            return status;
        link->port = strdup(item->string);
        if (!link->port)
            return config_no_memory(reterr);
        (*links_count)++;
    }
    return PEN_OK;
}

static enum pen_status read_input_map(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct reading *r = target;
    return read_map(value, path, r->plan, &r->step->inputs, &r->step->inputs_count, reterr);
}

static enum pen_status read_output_map(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct reading *r = target;
    return read_map(value, path, r->plan, &r->step->outputs, &r->step->outputs_count, reterr);
}

/* Its tensors stand behind those of input_map: it is read when the others are. */
static enum pen_status read_crop(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    (void)target;
    return cJSON_IsObject(value)
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_INVALID,
                               "%s must be an object such as {\"boxes\": \"boxes\", \"count\": \"count\"}", path);
}

static const struct json_field step_fields[] = {{"model_name", read_step_model},
                                                {"model_version", read_step_version},
                                                {"input_map", read_input_map},
                                                {"output_map", read_output_map},
                                                {"crop", read_crop},
                                                {NULL, NULL}};

static enum pen_status read_steps(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct ensemble_plan *plan = ((struct config *)target)->plan;
    size_t count = 0;
    enum pen_status status = json_array(value, path, ENSEMBLE_PLAN_STEPS_MAX, &count, reterr);
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next) {
        char below[JSON_PATH_BYTES];
        struct ensemble_plan_step *step = &plan->steps[plan->steps_count++];
        struct reading reading = {.plan = plan, .step = step};
        step->number = (uint32_t)plan->steps_count;
        snprintf(below, sizeof below, "%.96s[%u]", path, step->number - 1);
        status = json_object(item, below, step_fields, &reading, reterr);
        if (status == PEN_OK && (!step->model || !step->inputs || !step->outputs))
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s needs model_name, input_map and output_map", below);
        const cJSON *crop = cJSON_GetObjectItemCaseSensitive(item, "crop");
        if (status == PEN_OK && crop)
            status = config_crop_read(crop, below, plan, step, reterr);
    }
    return status;
}

static const struct json_field ensemble_fields[] = {{"step", read_steps}, {NULL, NULL}};

enum pen_status config_read_ensemble(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    enum pen_status status = ensemble_plan_room(target, reterr);
    return status == PEN_OK ? json_object(value, path, ensemble_fields, target, reterr) : status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

static enum pen_status not_here(const char *key, struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_INVALID, "an ensemble has no %s: it belongs to the models of its steps", key);
}

enum pen_status config_check_ensemble(struct config *config, struct pen_error *reterr)
{
    struct ensemble_plan *plan = config->plan;
    if (!plan)
        return config->ensemble ? pen_error_set(reterr, PEN_ERR_INVALID, "platform ensemble needs ensemble_scheduling")
                                : PEN_OK;
    if (plan->steps_count == 0 && !config->ensemble && (plan->inputs || plan->outputs)) {
        config->declared = plan; /* for a model: compared with its file */
        config->plan = NULL;
        return PEN_OK;
    }
    if (plan->steps_count == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "ensemble_scheduling.step needs at least one step");
    if (config->platform)
        return pen_error_set(reterr, PEN_ERR_INVALID, "ensemble_scheduling needs platform ensemble, not %s",
                             config->platform);
    if (config->warmups_count > 0)
        return not_here("model_warmup", reterr);
    if (config->instance_count > 0)
        return not_here("instance_group", reterr);
    if (config->labels_count > 0 || config->labels_file[0])
        return not_here("output.labels", reterr);
    if (plan->inputs_count == 0 || plan->outputs_count == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "an ensemble lists its input and output tensors");
    return ensemble_plan_order(plan, reterr);
}
