/* show_output.c - the values of an output, numbers or texts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show.h"

#define VALUES_TEXT      8u
#define VALUES_JSON      1024u
#define TEXT_BYTES_SHOWN 80u /* of one text in a line */

/* Elements that can be shown: 0 where there are none, or where the numbers have no known form. */
static uint64_t elements_of(const struct pen_tensor *t)
{
    uint64_t elements = 0;
    bool known = pen_tensor_elements(t, &elements) == PEN_OK && elements > 0 && pen_tensor_check(t, NULL) == PEN_OK;
    return known && (t->dtype == PEN_DTYPE_STRING || number_form(t->dtype) != NUMBER_NONE) ? elements : 0;
}

#define WHOLE_BYTES 24 /* of a whole number, with its sign */

/* A whole number with all its digits. */
static const char *whole_text(const struct pen_tensor *t, uint64_t i, char text[WHOLE_BYTES])
{
    const uint64_t number = tensor_whole(t, i);
    if (number_form(t->dtype) == NUMBER_UNSIGNED) {
        snprintf(text, WHOLE_BYTES, "%" PRIu64, number);
    } else {
        snprintf(text, WHOLE_BYTES, "%" PRId64, (int64_t)number);
    }
    return text;
}

/* The text at *at, which moves on to the next. pen_tensor_check has seen that all lie within the tensor. */
static const char *text_next(const unsigned char **at, size_t *ret_bytes)
{
    const unsigned char *b = *at;
    *ret_bytes = b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
    *at += 4 + *ret_bytes;
    return (const char *)b + 4;
}

/* Bytes of the UTF-8 character at `at`; 0: there is none. */
static size_t character(const unsigned char *at, size_t room)
{
    size_t bytes = at[0] < 0x80 ? 1 : at[0] < 0xC2 ? 0 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : at[0] < 0xF5 ? 4 : 0;
    bool good = bytes > 0 && bytes <= room;
    for (size_t i = 1; good && i < bytes; i++) {
        good = (at[i] & 0xC0) == 0x80;
    }
    bool surrogate = good && at[0] == 0xED && at[1] >= 0xA0, wide = good && at[0] == 0xE0 && at[1] < 0xA0;
    bool beyond = good && ((at[0] == 0xF0 && at[1] < 0x90) || (at[0] == 0xF4 && at[1] >= 0x90));
    return good && !surrogate && !wide && !beyond && at[0] != 0 ? bytes : 0;
}

/* As UTF-8 without NUL; free it. */
static char *text_clean(const char *text, size_t bytes)
{
    char *clean = malloc(bytes + 1);
    for (size_t i = 0, step; clean && i < bytes; i += step) {
        size_t good = character((const unsigned char *)text + i, bytes - i);
        step = good ? good : 1;
        memcpy(clean + i, good ? text + i : "?", step);
    }
    if (clean) {
        clean[bytes] = 0;
    }
    return clean;
}

static void text_print(const char *text, size_t bytes)
{
    size_t shown = bytes < TEXT_BYTES_SHOWN ? bytes : TEXT_BYTES_SHOWN;
    char *clean = text_clean(text, shown);
    for (char *c = clean; c && *c; c++) {
        *c = (unsigned char)*c < ' ' || *c == 0x7F ? ' ' : *c; /* nothing that moves a terminal's cursor */
    }
    printf(" \"%s\"%s", clean ? clean : "", shown < bytes ? "..." : "");
    free(clean);
}

void show_output(const struct pen_tensor *t)
{
    char shape[128];
    uint64_t elements = elements_of(t);
    const unsigned char *at = t->data;
    size_t bytes = 0;
    printf("  %s: %s %s%s", t->name, pen_dtype_name(t->dtype), pen_shape_text(t->dims, t->rank, shape, sizeof shape),
           elements ? ":" : "");
    for (uint64_t i = 0; i < elements && i < VALUES_TEXT; i++) {
        char whole[WHOLE_BYTES];
        if (t->dtype == PEN_DTYPE_STRING) {
            const char *text = text_next(&at, &bytes);
            text_print(text, bytes);
        } else if (number_form(t->dtype) == NUMBER_FRACTION) {
            printf(" %.6g", tensor_value(t, i));
        } else {
            printf(" %s", whole_text(t, i, whole));
        }
    }
    printf("%s\n", elements > VALUES_TEXT ? " ..." : "");
}

static cJSON *value_json(const struct pen_tensor *t, uint64_t i, const unsigned char **at)
{
    char whole[WHOLE_BYTES];
    if (number_form(t->dtype) == NUMBER_FRACTION) {
        return cJSON_CreateNumber(tensor_value(t, i));
    }
    if (t->dtype != PEN_DTYPE_STRING) {
        return cJSON_CreateRaw(whole_text(t, i, whole));
    }
    size_t bytes = 0;
    const char *text = text_next(at, &bytes);
    char *clean = text_clean(text, bytes);
    cJSON *json = cJSON_CreateString(clean ? clean : "");
    free(clean);
    return json;
}

cJSON *show_output_json(const struct pen_tensor *t)
{
    cJSON *json = cJSON_CreateObject();
    uint64_t elements = elements_of(t);
    const unsigned char *at = t->data;
    cJSON_AddStringToObject(json, "name", t->name);
    cJSON_AddStringToObject(json, "dtype", pen_dtype_name(t->dtype));
    cJSON *dims = cJSON_AddArrayToObject(json, "dims");
    for (uint32_t d = 0; d < t->rank; d++) {
        cJSON_AddItemToArray(dims, cJSON_CreateNumber((double)t->dims[d]));
    }
    if (elements && elements <= VALUES_JSON) {
        cJSON *values = cJSON_AddArrayToObject(json, "values");
        for (uint64_t i = 0; i < elements; i++) {
            cJSON_AddItemToArray(values, value_json(t, i, &at));
        }
    }
    return json;
}
