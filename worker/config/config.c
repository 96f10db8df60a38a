/* config.c - the table of config.json's keys, and what concerns more than one. */
#include "config_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "penstock/model_folder.h"

static enum pen_status read_platform(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    static const char *const formats[] = {"onnx", "onnx", "tflite", "tfjs", NULL};
    uint32_t index = 0;
    enum pen_status status = json_choice(value, path, "onnx|onnxruntime_onnx|tflite|tfjs|ensemble", &index, reterr);
    if (status == PEN_OK)
        ((struct config *)target)->platform = formats[index];
    ((struct config *)target)->ensemble = status == PEN_OK && !formats[index];
    return status;
}

static enum pen_status read_max_batch_size(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    config->batch_given = true;
    return json_u32(value, path, 0, CONFIG_BATCH_MAX, &config->max_batch_size, reterr);
}

static enum pen_status read_name(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    const char *text = NULL;
    (void)target; /* ignored, because the folder names the model */
    return json_text(value, path, CONFIG_NAME_BYTES_MAX, &text, reterr);
}

static enum pen_status read_signature(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    const char *text = NULL;
    enum pen_status status = json_text(value, path, CONFIG_NAME_BYTES_MAX, &text, reterr);
    if (status == PEN_OK)
        snprintf(config->signature, sizeof config->signature, "%s", text);
    return status;
}

static const struct json_field top_fields[] = {
    {"name", read_name},
    {"platform", read_platform},
    {"max_batch_size", read_max_batch_size},
    {"dynamic_batching", config_read_batching},
    {"instance_group", config_read_instances},
    {"signature", read_signature},
    {"version_policy", config_read_policy},
    {"version_labels", config_read_version_labels},
    {"ensemble_scheduling", config_read_ensemble},
    {"sequence_batching", config_read_sequence},
    {"model_warmup", config_read_warmups},
    {"response_cache", config_read_cache},
    {"input", config_read_input},
    {"picture", config_read_picture},
    {"output", config_read_output},
    {"answer", config_read_answer},
    {"precision", config_read_precision},
    {"calibration", config_read_calibration},
    {NULL, NULL},
};

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

void config_init(struct config *config)
{
    *config = (struct config){.cache_enable = true, .policy = CONFIG_LATEST, .policy_latest = 1};
}

void config_fini(struct config *config)
{
    config_labels_free(config);
    free(config->preprocess.text);
    free(config->answer);
    free(config->picture.text);
    free(config->picture.steps);
    free(config->level_policies);
    free(config->version_labels);
    ensemble_plan_free(config->plan);
    ensemble_plan_free(config->declared);
    config_states_free(&config->sequence);
    config_calibration_free(&config->calibration);
    for (size_t i = 0; i < config->warmups_count; i++)
        free(config->warmups[i].inputs);
    config_init(config);
}

/* What concerns more than one key. */
static enum pen_status config_check(struct config *config, struct pen_error *reterr)
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
    for (size_t i = 0; i < config->level_policies_count; i++)
        if (config->level_policies[i].level > config->priority_levels)
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "priority_queue_policy has level %u, above priority_levels %u",
                                 config->level_policies[i].level, config->priority_levels);
    if (config->labels_count && config->labels_file[0])
        return pen_error_set(reterr, PEN_ERR_INVALID, "output has both labels and labels_file: keep one");
    enum pen_status status = config_check_sequence(config, reterr);
    return status == PEN_OK ? config_check_ensemble(config, reterr) : status;
}

/* version_policy changes no model, so a change of it alone loads nothing again: it is left out. A config without
   other keys counts as no file. */
static enum pen_status document_stamp(cJSON *document, struct config *config, struct pen_error *reterr)
{
    cJSON_DeleteItemFromObjectCaseSensitive(document, "version_policy");
    if (!document->child)
        return PEN_OK;
    char *text = cJSON_PrintUnformatted(document);
    if (!text)
        return config_no_memory(reterr);
    config->stamp = config_text_hash(CONFIG_HASH_BASIS, text, strlen(text));
    cJSON_free(text);
    return PEN_OK;
}

/* \u0000 in JSON would end a text in C, so a name or path would become another one. -1 = there is none. */
static long nul_at(const char *at, size_t size)
{
    bool text = false;
    for (size_t i = 0; i < size; i++) {
        if (at[i] == '\0')
            return (long)i;
        if (text && at[i] == '\\') {
            if (size - i >= 6 && memcmp(at + i, "\\u0000", 6) == 0)
                return (long)i;
            i++;
        } else if (at[i] == '"') {
            text = !text;
        }
    }
    return -1;
}

/* There is more behind the object: two files in one, or the end of an older, longer file. */
static enum pen_status behind_check(const char *text, const char *end, size_t bytes, struct pen_error *reterr)
{
    size_t at = (size_t)(end - text);
    while (at < bytes && strchr(" \t\r\n", text[at]))
        at++;
    if (at == bytes)
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_INVALID, "not JSON alone: something follows at byte %zu", at);
}

/* Owns the document. */
static enum pen_status document_read(cJSON *document, struct config *config, struct pen_error *reterr)
{
    enum pen_status status = json_object(document, "", top_fields, config, reterr);
    if (status == PEN_OK)
        status = document_stamp(document, config, reterr);
    cJSON_Delete(document);
    config->present = true;
    return status == PEN_OK ? config_check(config, reterr) : status;
}

enum pen_status config_parse(const char *text, size_t bytes, struct config *config, struct pen_error *reterr)
{
    const char *end = NULL;
    long nul = nul_at(text, bytes);
    if (nul >= 0 && text[nul] == '\0')
        return pen_error_set(reterr, PEN_ERR_INVALID, "byte %ld is 0: the file is damaged, put the right one back",
                             nul);
    if (nul >= 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "a text has a NUL byte in it, \\u0000 at byte %ld; take it out",
                             nul);
    cJSON *document = cJSON_ParseWithLengthOpts(text, bytes, &end, false);
    if (!document)
        return pen_error_set(reterr, PEN_ERR_INVALID, "not JSON: the fault is near byte %zu",
                             end ? (size_t)(end - text) : (size_t)0);
    enum pen_status status = behind_check(text, end, bytes, reterr);
    if (status == PEN_OK)
        return document_read(document, config, reterr);
    cJSON_Delete(document);
    config->present = true;
    return status;
}

enum pen_status config_parse_pbtxt(const char *text, size_t bytes, struct config *config, struct pen_error *reterr)
{
    cJSON *document = NULL;
    config->pbtxt = true;
    enum pen_status status = triton_convert(text, bytes, &document, config->ignored, reterr);
    return status == PEN_OK ? document_read(document, config, reterr) : status;
}

static enum pen_status labels_load(const struct config_place *place, struct config *config, struct pen_error *reterr)
{
    char *text = NULL;
    size_t bytes = 0;
    enum pen_status status = config_file_read(place, config->labels_file, CONFIG_FILE_BYTES_MAX, &text, &bytes, reterr);
    if (status == PEN_OK)
        status = config_labels_parse(text, bytes, config, reterr);
    if (status == PEN_OK)
        config->stamp = config_text_hash(config->stamp, text, bytes);
    free(text);
    return status;
}

static bool has_file(const char *folder, const char *name)
{
    char path[4096];
    return (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path && access(path, F_OK) == 0;
}

enum pen_status config_load(const struct config_place *place, struct config *config, struct pen_error *reterr)
{
    static const char *const names[] = {"config.json", "config.pbtxt"};
    char *text = NULL;
    struct pen_error inner = {0};
    size_t bytes = 0, which = 0;
    enum pen_status status = config_file_read(place, names[0], CONFIG_FILE_BYTES_MAX, &text, &bytes, &inner);
    if (status == PEN_ERR_NOT_FOUND)
        status = config_file_read(place, names[which = 1], CONFIG_FILE_BYTES_MAX, &text, &bytes, &inner);
    else
        config->pbtxt_beside = has_file(place->folder, names[1]);
    if (status == PEN_ERR_NOT_FOUND)
        return PEN_OK;
    if (status == PEN_OK)
        status =
            which == 0 ? config_parse(text, bytes, config, &inner) : config_parse_pbtxt(text, bytes, config, &inner);
    free(text);
    if (status == PEN_OK && config->labels_file[0])
        status = labels_load(place, config, &inner);
    if (status == PEN_OK)
        status = config_states_load(place, &config->sequence, &inner);
    for (size_t i = 0; status == PEN_OK && i < config->sequence.states_count; i++)
        config->stamp = config_text_hash(config->stamp, config->sequence.states[i].initial,
                                         config->sequence.states[i].initial_bytes);
    if (status == PEN_OK)
        status = config_calibration_load(place, config, &inner);
    if (status != PEN_OK)
        return pen_error_set(reterr, status, "%.256s/%s: %.700s", place->folder, names[which], inner.text);
    return PEN_OK;
}
