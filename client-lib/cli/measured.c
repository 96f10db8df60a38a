/* measured.c - one error, one object, one phrase. */
#include "measured.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static cJSON *number(double error)
{
    return isfinite(error) ? cJSON_CreateNumber(error) : cJSON_CreateNull();
}

cJSON *measured_json(const struct pen_offered_error *error)
{
    cJSON *json = error->measured ? cJSON_CreateObject() : NULL;
    if (!json) {
        return cJSON_CreateNull();
    }
    cJSON_AddItemToObject(json, "max_relative_error", number(error->largest));
    cJSON_AddItemToObject(json, "mean_relative_error", number(error->mean));
    cJSON_AddNumberToObject(json, "inputs", error->inputs);
    cJSON_AddStringToObject(json, "source", error->source);
    cJSON_AddBoolToObject(json, "repeatable", error->repeatable);
    return json;
}

const char *measured_text(const struct pen_offered_error *error, char text[MEASURED_TEXT_BYTES])
{
    const char *repeats = error->repeatable ? "" : ", not repeatable";
    if (!error->measured) {
        snprintf(text, MEASURED_TEXT_BYTES, error->measures ? "error being measured" : "error not measured");
    } else if (strcmp(error->source, "reference") == 0) {
        snprintf(text, MEASURED_TEXT_BYTES, "the reference itself");
    } else if (strcmp(error->source, "steps") == 0) {
        snprintf(text, MEASURED_TEXT_BYTES, "error at most %.2g (its last steps': those before them are exact)%s",
                 error->largest, repeats);
    } else {
        snprintf(text, MEASURED_TEXT_BYTES, "error at most %.2g, %.2g on average (%u %.20s %s of inputs)%s",
                 error->largest, error->mean, error->inputs, error->source, error->inputs == 1 ? "set" : "sets",
                 repeats);
    }
    return text;
}
