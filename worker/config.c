/* config.c - the tables of config.json's keys and what each may say. */
#include "config.h"
#include "json_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_US_MAX 86400000000u /* a day: longer queue times are a slip of the unit */

static enum pen_status no_memory(struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for the model's settings");
}

static enum pen_status copy_text(const cJSON *value, const char *path, char *ret_text, struct pen_error *reterr)
{
    const char *text = NULL;
    enum pen_status status = json_text(value, path, CONFIG_NAME_BYTES_MAX, &text, reterr);
    if (status == PEN_OK)
        snprintf(ret_text, CONFIG_NAME_BYTES_MAX + 1, "%s", text);
    return status;
}

static enum pen_status read_platform(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    (void)target;
    return json_choice(value, path, "onnx|onnxruntime_onnx", &index, reterr);
}

static enum pen_status read_max_batch_size(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    config->batch_given = true;
    return json_u32(value, path, 0, CONFIG_BATCH_MAX, &config->max_batch_size, reterr);
}

/* ---- dynamic_batching ------------------------------------------------------------------------------------------------------------ */

static enum pen_status read_preferred(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    size_t count = 0;
    enum pen_status status = json_array(value, path, CONFIG_PREFERRED_MAX, &count, reterr);
    size_t i = 0;
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next)
        status = json_u32(item, path, 1, CONFIG_BATCH_MAX, &config->preferred[i++], reterr);
    if (status == PEN_OK)
        config->preferred_count = count;
    return status;
}

static enum pen_status read_delay(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u64(value, path, 0, TIME_US_MAX, &((struct config *)target)->max_queue_delay_us, reterr);
}

static enum pen_status read_levels(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 0, 255, &((struct config *)target)->priority_levels, reterr);
}

static enum pen_status read_default_level(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 0, 255, &((struct config *)target)->default_priority_level, reterr);
}

static enum pen_status read_timeout(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u64(value, path, 0, TIME_US_MAX, &((struct config *)target)->default_timeout_us, reterr);
}

static enum pen_status read_queue_size(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 0, 100000000, &((struct config *)target)->max_queue_size, reterr);
}

static enum pen_status read_timeout_action(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    (void)target;
    enum pen_status status = json_choice(value, path, "REJECT|DELAY", &index, reterr);
    if (status == PEN_OK && index == 1)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "%s DELAY is not supported: expired jobs are rejected", path);
    return status;
}

static enum pen_status read_override(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    bool allow = true;
    (void)target;
    enum pen_status status = json_bool(value, path, &allow, reterr);
    if (status == PEN_OK && !allow)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "%s false is not supported: a job's own deadline counts",
                             path);
    return status;
}

static const struct json_field queue_policy_fields[] = {
    {"timeout_action", read_timeout_action},
    {"default_timeout_microseconds", read_timeout},
    {"allow_timeout_override", read_override},
    {"max_queue_size", read_queue_size},
    {NULL, NULL},
};

static enum pen_status read_queue_policy(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_object(value, path, queue_policy_fields, target, reterr);
}

static const struct json_field batching_fields[] = {
    {"preferred_batch_size", read_preferred},
    {"max_queue_delay_microseconds", read_delay},
    {"priority_levels", read_levels},
    {"default_priority_level", read_default_level},
    {"default_queue_policy", read_queue_policy},
    {NULL, NULL},
};

static enum pen_status read_batching(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_object(value, path, batching_fields, target, reterr);
}

/* ---- instance_group, version_policy, response_cache ------------------------------------------------------------------------------- */

static enum pen_status read_count(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 1, 64, &((struct config *)target)->instance_count, reterr);
}

static enum pen_status read_kind(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "KIND_AUTO|KIND_CPU|KIND_GPU", &index, reterr);
    if (status == PEN_OK)
        ((struct config *)target)->instance_kind = (enum config_kind)index;
    return status;
}

static const struct json_field instance_fields[] = {{"count", read_count}, {"kind", read_kind}, {NULL, NULL}};

static enum pen_status read_instances(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    size_t count = 0;
    enum pen_status status = json_array(value, path, 1, &count, reterr);
    if (status != PEN_OK || count == 0)
        return status;
    return json_object(value->child, path, instance_fields, target, reterr);
}

static enum pen_status read_num_versions(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_u32(value, path, 1, CONFIG_VERSIONS_MAX, &((struct config *)target)->policy_latest, reterr);
}

static const struct json_field latest_fields[] = {{"num_versions", read_num_versions}, {NULL, NULL}};

static enum pen_status read_latest(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    ((struct config *)target)->policy = CONFIG_LATEST;
    return json_object(value, path, latest_fields, target, reterr);
}

static enum pen_status read_all(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    static const struct json_field no_fields[] = {{NULL, NULL}};
    ((struct config *)target)->policy = CONFIG_ALL;
    return json_object(value, path, no_fields, target, reterr);
}

static enum pen_status read_versions(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    size_t count = 0, i = 0;
    enum pen_status status = json_array(value, path, CONFIG_VERSIONS_MAX, &count, reterr);
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next)
        status = json_u64(item, path, 1, UINT32_MAX, &config->policy_versions[i++], reterr);
    if (status == PEN_OK && count == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must name at least one version", path);
    if (status == PEN_OK)
        config->policy_count = count;
    return status;
}

static const struct json_field specific_fields[] = {{"versions", read_versions}, {NULL, NULL}};

static enum pen_status read_specific(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    config->policy = CONFIG_SPECIFIC;
    enum pen_status status = json_object(value, path, specific_fields, target, reterr);
    if (status == PEN_OK && config->policy_count == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s needs versions", path);
    return status;
}

static const struct json_field policy_fields[] = {
    {"latest", read_latest}, {"all", read_all}, {"specific", read_specific}, {NULL, NULL}};

static enum pen_status read_policy(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    enum pen_status status = json_object(value, path, policy_fields, target, reterr);
    if (status == PEN_OK && (!value->child || value->child->next))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must hold exactly one of latest, all, specific", path);
    return status;
}

static enum pen_status read_cache_enable(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_bool(value, path, &((struct config *)target)->cache_enable, reterr);
}

static const struct json_field cache_fields[] = {{"enable", read_cache_enable}, {NULL, NULL}};

static enum pen_status read_cache(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_object(value, path, cache_fields, target, reterr);
}

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
        return no_memory(reterr);
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

static enum pen_status read_warmups(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
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
    return copy_text(value, path, ((struct config_preprocess *)target)->input, reterr);
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

/* resize and fit are the client's to do: they are checked here and travel in the text. */
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

static const struct json_field preprocess_fields[] = {
    {"input", read_input_name}, {"layout", read_layout}, {"order", read_order},   {"channels", read_channels},
    {"height", read_height},    {"width", read_width},   {"resize", read_resize}, {"fit", read_fit},
    {"invert", read_invert},    {"mean", read_mean},     {"scale", read_scale},   {NULL, NULL},
};

static enum pen_status read_preprocess(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_preprocess *pre = &((struct config *)target)->preprocess;
    enum pen_status status = json_object(value, path, preprocess_fields, pre, reterr);
    if (status != PEN_OK)
        return status;
    pre->text = cJSON_PrintUnformatted(value);
    pre->present = true;
    return pre->text ? PEN_OK : no_memory(reterr);
}

static const struct json_field input_fields[] = {{"preprocess", read_preprocess}, {NULL, NULL}};

static enum pen_status read_input(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_object(value, path, input_fields, target, reterr);
}

/* ---- output ------------------------------------------------------------------------------------------------------------------------ */

static enum pen_status label_add(struct config *config, const char *text, size_t bytes, struct pen_error *reterr)
{
    if (bytes > CONFIG_LABEL_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "label %zu is longer than %u bytes", config->labels_count,
                             CONFIG_LABEL_BYTES_MAX);
    config->labels[config->labels_count] = strndup(text, bytes);
    if (!config->labels[config->labels_count])
        return no_memory(reterr);
    config->labels_count++;
    return PEN_OK;
}

static void labels_free(struct config *config)
{
    for (size_t i = 0; i < config->labels_count; i++)
        free(config->labels[i]);
    free(config->labels);
    config->labels = NULL;
    config->labels_count = 0;
}

static enum pen_status labels_room(struct config *config, size_t count, struct pen_error *reterr)
{
    labels_free(config);
    config->labels = calloc(count ? count : 1, sizeof *config->labels);
    return config->labels ? PEN_OK : no_memory(reterr);
}

static enum pen_status read_labels(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    size_t count = 0;
    enum pen_status status = json_array(value, path, CONFIG_LABELS_MAX, &count, reterr);
    if (status == PEN_OK)
        status = labels_room(config, count, reterr);
    for (const cJSON *item = status == PEN_OK ? value->child : NULL; item && status == PEN_OK; item = item->next) {
        const char *text = NULL;
        status = json_text(item, path, CONFIG_LABEL_BYTES_MAX, &text, reterr);
        if (status == PEN_OK)
            status = label_add(config, text, strlen(text), reterr);
    }
    return status;
}

static enum pen_status read_labels_file(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    enum pen_status status = copy_text(value, path, config->labels_file, reterr);
    if (status == PEN_OK && strchr(config->labels_file, '/'))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be a file beside config.json, without a '/'", path);
    return status;
}

static enum pen_status read_softmax(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_bool(value, path, &((struct config *)target)->softmax, reterr);
}

static const struct json_field output_fields[] = {
    {"labels", read_labels}, {"labels_file", read_labels_file}, {"softmax", read_softmax}, {NULL, NULL}};

static enum pen_status read_output(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    return json_object(value, path, output_fields, target, reterr);
}

static enum pen_status read_name(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    const char *text = NULL;
    (void)target; /* for people: the folder is what names a model */
    return json_text(value, path, CONFIG_NAME_BYTES_MAX, &text, reterr);
}

static const struct json_field top_fields[] = {
    {"name", read_name},
    {"platform", read_platform},
    {"max_batch_size", read_max_batch_size},
    {"dynamic_batching", read_batching},
    {"instance_group", read_instances},
    {"version_policy", read_policy},
    {"model_warmup", read_warmups},
    {"response_cache", read_cache},
    {"input", read_input},
    {"output", read_output},
    {NULL, NULL},
};

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

void config_init(struct config *config)
{
    *config = (struct config){.cache_enable = true, .policy = CONFIG_LATEST, .policy_latest = 1};
}

void config_fini(struct config *config)
{
    labels_free(config);
    free(config->preprocess.text);
    for (size_t i = 0; i < config->warmups_count; i++)
        free(config->warmups[i].inputs);
    config_init(config);
}

/* What concerns more than one key. */
static enum pen_status config_check(const struct config *config, struct pen_error *reterr)
{
    for (size_t i = 0; i < config->preferred_count; i++)
        if (config->preferred[i] > config->max_batch_size)
            return pen_error_set(reterr, PEN_ERR_INVALID, "preferred_batch_size %u is above max_batch_size %u",
                                 config->preferred[i], config->max_batch_size);
    for (size_t i = 0; i < config->warmups_count; i++)
        if (config->warmups[i].batch_size > config->max_batch_size)
            return pen_error_set(reterr, PEN_ERR_INVALID, "model_warmup batch_size %u is above max_batch_size %u",
                                 config->warmups[i].batch_size, config->max_batch_size);
    if (config->default_priority_level > config->priority_levels)
        return pen_error_set(reterr, PEN_ERR_INVALID, "default_priority_level %u is above priority_levels %u",
                             config->default_priority_level, config->priority_levels);
    if (config->labels_count && config->labels_file[0])
        return pen_error_set(reterr, PEN_ERR_INVALID, "output has both labels and labels_file: keep one");
    return PEN_OK;
}

enum pen_status config_parse(const char *text, size_t bytes, struct config *config, struct pen_error *reterr)
{
    const char *end = NULL;
    cJSON *document = cJSON_ParseWithLengthOpts(text, bytes, &end, false);
    if (!document)
        return pen_error_set(reterr, PEN_ERR_INVALID, "not JSON: the fault is near byte %zu",
                             end ? (size_t)(end - text) : (size_t)0);
    enum pen_status status = json_object(document, "", top_fields, config, reterr);
    cJSON_Delete(document);
    config->present = true;
    return status == PEN_OK ? config_check(config, reterr) : status;
}

/* Gives *ret_text (free it), NUL-terminated. */
static enum pen_status file_read(const char *path, size_t limit, char **ret_text, size_t *ret_bytes,
                                 struct pen_error *reterr)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return pen_error_set(reterr, errno == ENOENT ? PEN_ERR_NOT_FOUND : PEN_ERR_IO, "cannot open %.256s: %s", path,
                             strerror(errno));
    char *text = malloc(limit + 1);
    size_t bytes = text ? fread(text, 1, limit + 1, file) : 0;
    bool failed = ferror(file) != 0;
    fclose(file);
    if (!text)
        return no_memory(reterr);
    if (failed || bytes > limit) {
        free(text);
        return failed ? pen_error_set(reterr, PEN_ERR_IO, "cannot read %.256s", path)
                      : pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%.256s is larger than %zu bytes", path, limit);
    }
    text[bytes] = '\0';
    *ret_text = text;
    *ret_bytes = bytes;
    return PEN_OK;
}

enum pen_status config_labels_parse(const char *text, size_t bytes, struct config *config, struct pen_error *reterr)
{
    size_t lines = 0;
    while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r'))
        bytes--;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    if (lines >= CONFIG_LABELS_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "more than %u labels", CONFIG_LABELS_MAX);
    enum pen_status status = labels_room(config, lines + 1, reterr);
    for (const char *at = text, *end = text + bytes; status == PEN_OK && at < end;) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((next ? next : end) - at);
        if (length > 0 && at[length - 1] == '\r')
            length--;
        status = label_add(config, at, length, reterr);
        at = next ? next + 1 : end;
    }
    return status;
}

static enum pen_status labels_load(const char *folder, struct config *config, struct pen_error *reterr)
{
    char path[4096], *text = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, config->labels_file);
    enum pen_status status = file_read(path, CONFIG_FILE_BYTES_MAX, &text, &bytes, reterr);
    if (status == PEN_OK)
        status = config_labels_parse(text, bytes, config, reterr);
    free(text);
    return status;
}

enum pen_status config_load(const char *folder, struct config *config, struct pen_error *reterr)
{
    char path[4096], *text = NULL;
    struct pen_error inner = {0};
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/config.json", folder);
    enum pen_status status = file_read(path, CONFIG_FILE_BYTES_MAX, &text, &bytes, &inner);
    if (status == PEN_ERR_NOT_FOUND)
        return PEN_OK;
    if (status == PEN_OK)
        status = config_parse(text, bytes, config, &inner);
    free(text);
    if (status == PEN_OK && config->labels_file[0])
        status = labels_load(folder, config, &inner);
    if (status != PEN_OK)
        return pen_error_set(reterr, status, "%.256s: %.700s", path, inner.text);
    return PEN_OK;
}
