/* config_output.c - output: what the classes are called. */
#include "config_internal.h"

#include <stdlib.h>
#include <string.h>

static enum pen_status label_add(struct config *config, const char *text, size_t bytes, struct pen_error *reterr)
{
    if (bytes > CONFIG_LABEL_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "label %zu is longer than %u bytes", config->labels_count,
                             CONFIG_LABEL_BYTES_MAX);
    config->labels[config->labels_count] = strndup(text, bytes);
    if (!config->labels[config->labels_count])
        return config_no_memory(reterr);
    config->labels_count++;
    return PEN_OK;
}

void config_labels_free(struct config *config)
{
    for (size_t i = 0; i < config->labels_count; i++)
        free(config->labels[i]);
    free(config->labels);
    config->labels = NULL;
    config->labels_count = 0;
}

static enum pen_status labels_room(struct config *config, size_t count, struct pen_error *reterr)
{
    config_labels_free(config);
    config->labels = calloc(count ? count : 1, sizeof *config->labels);
    return config->labels ? PEN_OK : config_no_memory(reterr);
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
    enum pen_status status = config_copy_text(value, path, config->labels_file, reterr);
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

enum pen_status config_read_output(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    if (cJSON_IsArray(value))
        return config_read_outputs(value, path, target, reterr);
    return json_object(value, path, output_fields, target, reterr);
}

/* Its steps are read when the model's outputs are known. */
enum pen_status config_read_answer(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    if (!cJSON_IsObject(value))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be an object", path);
    config->answer = cJSON_PrintUnformatted(value);
    return config->answer ? PEN_OK : config_no_memory(reterr);
}

enum pen_status config_labels_parse(const char *text, size_t bytes, struct config *config, struct pen_error *reterr)
{
    size_t lines = 0;
    if (memchr(text, '\0', bytes))
        return pen_error_set(reterr, PEN_ERR_INVALID, "a byte of the labels is 0: the file is damaged");
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
    if (status != PEN_OK)
        config_labels_free(config);
    return status;
}
