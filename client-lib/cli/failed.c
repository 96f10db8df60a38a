/* failed.c - one name, one object. */
#include "failed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *failed_name(const struct pen_failed_model *failed, char text[FAILED_NAME_BYTES])
{
    if (failed->version) {
        snprintf(text, FAILED_NAME_BYTES, "%.255s:%" PRIu64, failed->name, failed->version);
    } else {
        snprintf(text, FAILED_NAME_BYTES, "%.255s", failed->name);
    }
    return text;
}

cJSON *failed_json(const struct pen_failed_model *failed)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "worker", failed->worker);
    cJSON_AddStringToObject(json, "name", failed->name);
    cJSON_AddNumberToObject(json, "version", (double)failed->version);
    cJSON_AddStringToObject(json, "status", pen_status_name(failed->status));
    cJSON_AddStringToObject(json, "error", failed->error);
    cJSON_AddNumberToObject(json, "since_unix_us", (double)failed->since_unix_us);
    cJSON_AddBoolToObject(json, "serving", failed->serving);
    return json;
}

enum pen_status failed_why(const struct pen_model_list *models, const char *name, uint64_t version,
                           struct pen_error *reterr)
{
    for (size_t i = 0; i < models->failures_count; i++) {
        const struct pen_failed_model *f = &models->failures[i];
        if (strcmp(f->name, name) == 0 && (!version || !f->version || f->version == version)) {
            return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                                 "model \"%s\" is not served; worker %s could not load it: %s", name, f->worker,
                                 f->error);
        }
    }
    return PEN_OK;
}
