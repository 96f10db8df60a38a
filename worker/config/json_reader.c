/* json_reader.c - typed values out of cJSON, and sentences about what is wrong with them. */
#include "json_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "words.h"

#define KEY_EDITS 3u /* edits between a written key and the known key */

/* The known key with the most similar name, else the first that contains the name (max_batch); NULL: none. */
static const char *key_meant(const char *name, const struct json_field *fields)
{
    struct nearest nearest;
    nearest_begin_strict(&nearest, name, strlen(name), KEY_EDITS);
    for (const struct json_field *field = fields; field->name; field++)
        nearest_offer(&nearest, field->name);
    for (; !nearest.found && *name && fields->name; fields++)
        nearest.found = strstr(fields->name, name) ? fields->name : NULL;
    return nearest.found;
}

void json_fields_list(const struct json_field *fields, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct json_field *field = fields; field->name && used < room; field++) {
        int wrote = snprintf(text + used, room - used, "%s%s", field == fields ? "" : ", ", field->name);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

static enum pen_status unknown_key(const char *path, const char *name, const struct json_field *fields,
                                   struct pen_error *reterr)
{
    char known[512];
    const char *near = key_meant(name, fields);
    const char *where = path[0] ? path : "the top level";
    json_fields_list(fields, known, sizeof known);
    if (near)
        return pen_error_set(reterr, PEN_ERR_INVALID, "unknown key '%.64s' in %s: did you mean '%s'? It may have %s",
                             name, where, near, known);
    return pen_error_set(reterr, PEN_ERR_INVALID, "unknown key '%.64s' in %s: it may have %s", name, where, known);
}

static const struct json_field *field_find(const struct json_field *fields, const char *name)
{
    for (; fields->name; fields++)
        if (strcmp(fields->name, name) == 0)
            return fields;
    return NULL;
}

enum pen_status json_object(const cJSON *object, const char *path, const struct json_field *fields, void *target,
                            struct pen_error *reterr)
{
    if (!cJSON_IsObject(object))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be an object", path[0] ? path : "the document");
    for (const cJSON *item = object->child; item; item = item->next) {
        char below[JSON_PATH_BYTES];
        const struct json_field *field = field_find(fields, item->string);
        if (!field)
            return unknown_key(path, item->string, fields, reterr);
        snprintf(below, sizeof below, "%s%s%s", path, path[0] ? "." : "", field->name);
        if (cJSON_GetObjectItemCaseSensitive(object, field->name) != item)
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s is given twice", below);
        enum pen_status status = field->read(item, below, target, reterr);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

enum pen_status json_bool(const cJSON *value, const char *path, bool *ret_value, struct pen_error *reterr)
{
    if (!cJSON_IsBool(value))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be true or false", path);
    *ret_value = cJSON_IsTrue(value) != 0;
    return PEN_OK;
}

enum pen_status json_u64(const cJSON *value, const char *path, uint64_t min, uint64_t max, uint64_t *ret_value,
                         struct pen_error *reterr)
{
    double number = cJSON_IsNumber(value) ? value->valuedouble : -1;
    if (!(number >= (double)min && number <= (double)max) || number != floor(number))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be a whole number from %" PRIu64 " to %" PRIu64, path,
                             min, max);
    *ret_value = (uint64_t)number;
    return PEN_OK;
}

enum pen_status json_u32(const cJSON *value, const char *path, uint32_t min, uint32_t max, uint32_t *ret_value,
                         struct pen_error *reterr)
{
    uint64_t wide = 0;
    enum pen_status status = json_u64(value, path, min, max, &wide, reterr);
    if (status == PEN_OK)
        *ret_value = (uint32_t)wide;
    return status;
}

enum pen_status json_text(const cJSON *value, const char *path, size_t limit_bytes, const char **ret_text,
                          struct pen_error *reterr)
{
    if (!cJSON_IsString(value) || value->valuestring[0] == '\0' || strlen(value->valuestring) > limit_bytes)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be a text of 1 to %zu bytes", path, limit_bytes);
    *ret_text = value->valuestring;
    return PEN_OK;
}

enum pen_status json_choice(const cJSON *value, const char *path, const char *choices, uint32_t *ret_index,
                            struct pen_error *reterr)
{
    const char *text = cJSON_IsString(value) ? value->valuestring : "";
    uint32_t index = 0;
    for (const char *at = choices; at; index++) {
        const char *end = strchr(at, '|');
        size_t length = end ? (size_t)(end - at) : strlen(at);
        if (strlen(text) == length && memcmp(text, at, length) == 0) {
            *ret_index = index;
            return PEN_OK;
        }
        at = end ? end + 1 : NULL;
    }
    return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be one of %s", path, choices);
}

enum pen_status json_floats(const cJSON *value, const char *path, size_t room, float *ret_values, size_t *ret_count,
                            struct pen_error *reterr)
{
    size_t count = 0;
    enum pen_status status = json_array(value, path, room, &count, reterr);
    if (status != PEN_OK)
        return status;
    if (count == 0)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must have 1 to %zu numbers", path, room);
    size_t i = 0;
    for (const cJSON *item = value->child; item; item = item->next, i++) {
        if (!cJSON_IsNumber(item) || !isfinite((float)item->valuedouble))
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s[%zu] must be a finite number", path, i);
        ret_values[i] = (float)item->valuedouble;
    }
    *ret_count = count;
    return PEN_OK;
}

enum pen_status json_array(const cJSON *value, const char *path, size_t limit, size_t *ret_count,
                           struct pen_error *reterr)
{
    size_t count = 0;
    if (!cJSON_IsArray(value))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s must be an array", path);
    for (const cJSON *item = value->child; item; item = item->next)
        count++;
    if (count > limit)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "%s has %zu entries, at most %zu are allowed", path, count,
                             limit);
    *ret_count = count;
    return PEN_OK;
}
