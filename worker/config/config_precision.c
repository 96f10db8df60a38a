/* config_precision.c - precision: what holds for every answer of the model; calibration: the inputs on which its error is measured. */
#include "config_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npy.h"

enum pen_status config_read_precision(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    const char *text = NULL;
    struct pen_error inner = {0};
    struct config *config = target;
    enum pen_status status = json_text(value, path, CONFIG_NAME_BYTES_MAX, &text, reterr);
    if (status != PEN_OK)
        return status;
    status = contract_parse(text, &config->contract, &inner);
    return status == PEN_OK ? status : pen_error_set(reterr, status, "%s: %s", path, inner.text);
}

/* ---- calibration --------------------------------------------------------------------------------------------------------------------- */

void config_calibration_free(struct config_calibration *calibration)
{
    for (size_t i = 0; i < calibration->files_count; i++)
        free(calibration->files[i].bytes);
    free(calibration->files);
    free(calibration->ranges);
    *calibration = (struct config_calibration){.sets = 0};
}

static enum pen_status file_add(const cJSON *item, const char *path, struct config_calibration *calibration,
                                struct pen_error *reterr)
{
    const char *file = NULL;
    if (!item->string || !item->string[0] || strlen(item->string) > CONFIG_NAME_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s: an input has a name of 1 to %u bytes", path,
                             CONFIG_NAME_BYTES_MAX);
    enum pen_status status = json_text(item, path, CONFIG_NAME_BYTES_MAX, &file, reterr);
    if (status == PEN_OK && strchr(file, '/'))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s: '%s' must be a .npy file beside config.json, without a '/'",
                             path, file);
    if (status != PEN_OK)
        return status;
    struct config_calibration_file *to = &calibration->files[calibration->files_count++];
    to->set = (uint32_t)calibration->sets;
    snprintf(to->input, sizeof to->input, "%s", item->string);
    snprintf(to->file, sizeof to->file, "%s", file);
    return PEN_OK;
}

/* "sets": [{"x": "x1.npy", "y": "y1.npy"}, ...] */
static enum pen_status read_sets(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_calibration *calibration = target;
    size_t count = 0, files = 0;
    enum pen_status status = json_array(value, path, CONFIG_CALIBRATION_SETS_MAX, &count, reterr);
    for (const cJSON *set = status == PEN_OK ? value->child : NULL; set; set = set->next) {
        if (!cJSON_IsObject(set) || !set->child || cJSON_GetArraySize(set) > (int)CONFIG_CALIBRATION_INPUTS_MAX)
            return pen_error_set(reterr, PEN_ERR_INVALID,
                                 "%s: each set is an object of 1 to %u inputs with their files: {\"x\": \"x1.npy\"}",
                                 path, CONFIG_CALIBRATION_INPUTS_MAX);
        files += (size_t)cJSON_GetArraySize(set);
    }
    if (status != PEN_OK)
        return status;
    calibration->files = calloc(files ? files : 1, sizeof *calibration->files);
    if (!calibration->files)
        return config_no_memory(reterr);
    for (const cJSON *set = value->child; set && status == PEN_OK; set = set->next, calibration->sets++)
        for (const cJSON *item = set->child; item && status == PEN_OK; item = item->next)
            status = file_add(item, path, calibration, reterr);
    return status;
}

/* "ranges": {"x": [0, 255]} */
static enum pen_status read_ranges(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config_calibration *calibration = target;
    enum pen_status status = PEN_OK;
    if (!cJSON_IsObject(value) || cJSON_GetArraySize(value) > (int)CONFIG_CALIBRATION_INPUTS_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s is an object of at most %u inputs: {\"x\": [0, 255]}", path,
                             CONFIG_CALIBRATION_INPUTS_MAX);
    calibration->ranges = calloc(CONFIG_CALIBRATION_INPUTS_MAX, sizeof *calibration->ranges);
    if (!calibration->ranges)
        return config_no_memory(reterr);
    for (const cJSON *item = value->child; item && status == PEN_OK; item = item->next) {
        struct config_range *range = &calibration->ranges[calibration->ranges_count++];
        float ends[2];
        size_t count = 0;
        status = json_floats(item, path, 2, ends, &count, reterr);
        if (status == PEN_OK && (count != 2 || !(ends[0] < ends[1])))
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s: a range is two numbers, the smaller one first", path);
        snprintf(range->input, sizeof range->input, "%s", item->string ? item->string : "");
        range->low = (double)ends[0];
        range->high = (double)ends[1];
    }
    return status;
}

static const struct json_field calibration_fields[] = {{"sets", read_sets}, {"ranges", read_ranges}, {NULL, NULL}};

enum pen_status config_read_calibration(const cJSON *value, const char *path, void *target, struct pen_error *reterr)
{
    struct config *config = target;
    return json_object(value, path, calibration_fields, &config->calibration, reterr);
}

enum pen_status config_calibration_load(const struct config_place *place, struct config *config,
                                        struct pen_error *reterr)
{
    struct config_calibration *calibration = &config->calibration;
    size_t left = CONFIG_CALIBRATION_BYTES_MAX;
    for (size_t i = 0; i < calibration->files_count; i++) {
        struct config_calibration_file *file = &calibration->files[i];
        size_t bytes = 0;
        enum pen_status status = config_file_read(place, file->file, left, &file->bytes, &bytes, reterr);
        if (status == PEN_OK)
            status = npy_view((const uint8_t *)file->bytes, bytes, file->file, &file->tensor, reterr);
        if (status != PEN_OK)
            return status;
        left -= bytes;
        config->stamp = config_text_hash(config->stamp, file->bytes, bytes);
    }
    return PEN_OK;
}
