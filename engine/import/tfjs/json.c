#include "import/tfjs/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What JSON writes as \u0000 would end a text in C: a path or name would be another one. Raw NUL bytes are no JSON. */
static bool has_nul(const char *at, size_t size)
{
    bool text = false;
    for (size_t i = 0; i < size; i++) {
        if (at[i] == '\0')
            return true;
        if (text && at[i] == '\\') {
            if (size - i >= 6 && memcmp(at + i, "\\u0000", 6) == 0)
                return true;
            i++;
        } else if (at[i] == '"') {
            text = !text;
        }
    }
    return false;
}

#include "import/importer.h"

/* Depth of brackets outside strings. */
static bool depth_fits(const char *at, size_t size)
{
    unsigned depth = 0;
    bool text = false;
    for (size_t i = 0; i < size; i++) {
        char ch = at[i];
        if (text) {
            if (ch == '\\')
                i++;
            else if (ch == '"')
                text = false;
        } else if (ch == '"') {
            text = true;
        } else if (ch == '{' || ch == '[') {
            if (++depth > JSON_DEPTH_MAX)
                return false;
        } else if ((ch == '}' || ch == ']') && depth > 0) {
            depth--;
        }
    }
    return true;
}

enum pen_status tfjs_json_parse(const void *bytes, size_t size, cJSON **ret_json, struct pen_error *reterr)
{
    if (size > JSON_BYTES_MAX)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the model's JSON has %zu bytes, at most %u are read", size,
                             JSON_BYTES_MAX);
    if (!depth_fits(bytes, size))
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the model's JSON is nested more than %d deep", JSON_DEPTH_MAX);
    if (has_nul(bytes, size))
        return pen_error_set(reterr, PEN_ERR_INVALID,
                             "a text in the model's JSON has a NUL in it (\\u0000); paths and names have none");
    cJSON *json = cJSON_ParseWithLength(bytes, size);
    if (!json && json_cut(bytes, size))
        return pen_error_set(reterr, PEN_ERR_CORRUPT,
                             "the model's JSON is truncated: it ends before its brackets close, after %zu bytes; copy "
                             "it again",
                             size);
    if (!json)
        return pen_error_set(reterr, PEN_ERR_CORRUPT, "the model's JSON is garbled");
    *ret_json = json;
    return PEN_OK;
}

const cJSON *tfjs_json_get(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, name) : NULL;
    return cJSON_IsNull(item) ? NULL : item;
}

const cJSON *tfjs_json_list(const cJSON *object, const char *name)
{
    const cJSON *item = tfjs_json_get(object, name);
    return cJSON_IsArray(item) ? item : NULL; /* an object can be gone through too, but counts as none */
}

const char *tfjs_json_text(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(tfjs_json_get(object, name));
}

bool tfjs_json_integer(const cJSON *item, int64_t *ret)
{
    if (cJSON_IsNumber(item)) {
        if (!(fabs(item->valuedouble) < 9.2e18))
            return false;
        *ret = (int64_t)item->valuedouble;
        return true;
    }
    if (!cJSON_IsString(item))
        return false;
    char *end = NULL;
    errno = 0;
    long long value = strtoll(item->valuestring, &end, 10);
    if (errno != 0 || end == item->valuestring || *end != '\0')
        return false;
    *ret = value;
    return true;
}

int64_t tfjs_json_int(const cJSON *object, const char *name, int64_t def)
{
    int64_t value;
    return tfjs_json_integer(tfjs_json_get(object, name), &value) ? value : def;
}

double tfjs_json_number(const cJSON *object, const char *name, double def)
{
    const cJSON *item = tfjs_json_get(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : def;
}

bool tfjs_json_bool(const cJSON *object, const char *name, bool def)
{
    const cJSON *item = tfjs_json_get(object, name);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : def;
}

int tfjs_json_ints(const cJSON *item, int64_t *items, int room, int one)
{
    int count = 0;
    int64_t value;
    if (tfjs_json_integer(item, &value)) {
        for (; count < one && count < room; count++)
            items[count] = value;
        return count;
    }
    if (!cJSON_IsArray(item))
        return -1;
    const cJSON *part;
    cJSON_ArrayForEach(part, item)
    {
        if (count == room || !tfjs_json_integer(part, &items[count]))
            return -1;
        count++;
    }
    return count;
}
