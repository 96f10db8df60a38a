/* config_input.c - model_warmup and input.preprocess. */
#include "config_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- model_warmup ------------------------------------------------------------------------------------------------------------------ */

static enum pen_status read_warm_dims(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_warm_input *input = target;
    size_t count = 0, i = 0;
    enum pen_status status = json_array(value, path, PEN_MAX_RANK, &count, reterr);
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next) {
        uint64_t dim = 0;
        status = json_u64(item, path, 1, INT32_MAX, &dim, reterr);
        input->dims[i++] = (int64_t)dim;
    }
    if (status == PEN_OK)
        input->rank = (uint32_t)count;
    return status;
}

static const struct json_field warm_input_fields[] = {{"dims", read_warm_dims}, {NULL, NULL}};

static enum pen_status read_warm_inputs(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_warmup *warmup = target;
    if (!cJSON_IsObject(value))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be an object", path);
    warmup->inputs = calloc(CONFIG_WARM_INPUTS_MAX, sizeof *warmup->inputs);
    if (!warmup->inputs)
        return config_no_memory(reterr);
    for (const cJSON *item = value->child; item; item = item->next) {
        char below[JSON_PATH_BYTES];
        if (warmup->inputs_count == CONFIG_WARM_INPUTS_MAX)
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%s names more than %u inputs", path,
                                 CONFIG_WARM_INPUTS_MAX);
        struct config_warm_input *input = &warmup->inputs[warmup->inputs_count++];
        snprintf(input->name, sizeof input->name, "%s", item->string);
        snprintf(below, sizeof below, "%s.%.64s", path, item->string);
        enum pen_status status = json_object(item, below, warm_input_fields, input, reterr);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static enum pen_status read_warm_batch(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 0, CONFIG_BATCH_MAX, &((struct config_warmup *)target)->batch_size, reterr);
}

static const struct json_field warmup_fields[] = {
    {"batch_size", read_warm_batch}, {"inputs", read_warm_inputs}, {NULL, NULL}};

enum pen_status config_read_warmups(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    size_t count = 0;
    enum pen_status status = json_array(value, path, CONFIG_WARMUPS_MAX, &count, reterr);
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next)
        status = json_object(item, path, warmup_fields, &config->warmups[config->warmups_count++], reterr);
    return status;
}

/* ---- input.preprocess -------------------------------------------------------------------------------------------------------------- */

static enum pen_status read_input_name(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return config_copy_text(value, path, ((struct config_preprocess *)target)->input, reterr);
}

static enum pen_status read_layout(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "NCHW|NHWC", &index, reterr);
    ((struct config_preprocess *)target)->nhwc = index == 1;
    return status;
}

static enum pen_status read_order(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "RGB|BGR", &index, reterr);
    ((struct config_preprocess *)target)->bgr = index == 1;
    return status;
}

static enum pen_status read_channels(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 1, CONFIG_CHANNELS_MAX, &((struct config_preprocess *)target)->channels, reterr);
}

static enum pen_status read_height(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 1, 65535, &((struct config_preprocess *)target)->height, reterr);
}

static enum pen_status read_width(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 1, 65535, &((struct config_preprocess *)target)->width, reterr);
}

/* The client does resize and fit. They are checked here and passed on in the text. */
static enum pen_status read_resize(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    (void)target;
    return json_choice(value, path, "bilinear|nearest|area", &index, reterr);
}

static enum pen_status read_fit(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    (void)target;
    return json_choice(value, path, "stretch|crop|pad", &index, reterr);
}

static enum pen_status read_invert(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_bool(value, path, &((struct config_preprocess *)target)->invert, reterr);
}

static enum pen_status read_mean(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_preprocess *pre = target;
    return json_floats(value, path, CONFIG_CHANNELS_MAX, pre->mean, &pre->mean_count, reterr);
}

static enum pen_status read_scale(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_preprocess *pre = target;
    return json_floats(value, path, CONFIG_CHANNELS_MAX, pre->scale, &pre->scale_count, reterr);
}

static enum pen_status read_normalisation(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "config|model", &index, reterr);
    ((struct config_preprocess *)target)->of_model = index == 1;
    return status;
}

static const struct json_field preprocess_fields[] = {
    {"input", read_input_name},
    {"layout", read_layout},
    {"order", read_order},
    {"channels", read_channels},
    {"height", read_height},
    {"width", read_width},
    {"resize", read_resize},
    {"fit", read_fit},
    {"invert", read_invert},
    {"mean", read_mean},
    {"scale", read_scale},
    {"normalisation", read_normalisation},
    {NULL, NULL},
};

static enum pen_status read_preprocess(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_preprocess *pre = &((struct config *)target)->preprocess;
    enum pen_status status = json_object(value, path, preprocess_fields, pre, reterr);
    if (status == PEN_OK && pre->of_model && pre->mean_count + pre->scale_count > 0)
        status =
            pen_error_set(reterr, PEN_ERR_INVALID,
                          "%s has normalisation 'model' and a mean or scale of its own: leave one of them out", path);
    if (status != PEN_OK)
        return status;
    pre->text = cJSON_PrintUnformatted(value);
    pre->present = true;
    return pre->text ? PEN_OK : config_no_memory(reterr);
}

static const struct json_field input_fields[] = {{"preprocess", read_preprocess}, {NULL, NULL}};

/* A list declares tensors: those of an ensemble, or those that a model must have. */
enum pen_status config_read_input(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    if (cJSON_IsArray(value))
        return config_read_inputs(value, path, target, reterr);
    return json_object(value, path, input_fields, target, reterr);
}
