/* config_versions.c - version_labels: {"stable": 1, "canary": {"version": 2, "share": 0.05}}. */
#include "config_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_FULL 1000000u

static enum pen_status read_version(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_version_label *label = target;
    return json_u64(value, path, 1, UINT32_MAX, &label->version, reterr);
}

static enum pen_status read_share(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_version_label *label = target;
    if (!cJSON_IsNumber(value) || !(value->valuedouble >= 0 && value->valuedouble <= 1))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be a number from 0 to 1, the part of the jobs", path);
    label->share_ppm = (uint32_t)lround(value->valuedouble * SHARE_FULL);
    return PEN_OK;
}

static const struct json_field label_fields[] = {{"version", read_version}, {"share", read_share}, {NULL, NULL}};

static bool is_label(const char *text)
{
    size_t length = strlen(text);
    for (const char *c = text; *c; c++) {
        if (!isalnum((unsigned char)*c) && *c != '.' && *c != '_' && *c != '-')
            return false;
    }
    return length > 0 && length <= CONFIG_VERSION_LABEL_BYTES_MAX;
}

static bool stands(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->version_labels_count; i++) {
        if (strcmp(config->version_labels[i].label, name) == 0)
            return true;
    }
    return false;
}

static enum pen_status read_label(const cJSON *item, const char *path, struct config *config, struct pen_error *reterr)
{
    char below[JSON_PATH_BYTES];
    if (!is_label(item->string) || stands(config, item->string))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s: '%.70s' %s", path, item->string,
                             is_label(item->string) ? "stands twice"
                                                    : "is no label: 1 to 64 letters, digits, '.', '_', '-'");
    snprintf(below, sizeof below, "%s.%s", path, item->string);
    if (config->version_labels_count == CONFIG_VERSION_LABELS_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%s: a model has at most %u labels", path,
                             CONFIG_VERSION_LABELS_MAX);
    struct config_version_label *label = &config->version_labels[config->version_labels_count++];
    snprintf(label->label, sizeof label->label, "%s", item->string);
    if (!cJSON_IsObject(item))
        return read_version(item, below, label, reterr);
    enum pen_status status = json_object(item, below, label_fields, label, reterr);
    if (status == PEN_OK && label->version == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s needs version", below);
    return status;
}

enum pen_status config_read_version_labels(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    uint64_t shared_ppm = 0;
    if (!cJSON_IsObject(value))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be an object of labels, {\"stable\": 1}", path);
    config->version_labels = calloc(CONFIG_VERSION_LABELS_MAX, sizeof *config->version_labels);
    if (!config->version_labels)
        return config_no_memory(reterr);
    for (const cJSON *item = value->child; item; item = item->next) {
        enum pen_status status = read_label(item, path, config, reterr);
        if (status != PEN_OK)
            return status;
        shared_ppm += config->version_labels[config->version_labels_count - 1].share_ppm;
    }
    if (shared_ppm > SHARE_FULL)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s share out more than all jobs", path);
    return PEN_OK;
}
