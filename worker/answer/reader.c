/* reader.c - the keys of a step by a table, and sentences that name what there is. */
#include "parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "words.h"

#define NAMES_BYTES 400u

enum pen_status reader_refuse(const struct answer_reader *reader, enum pen_status status, const char *format, ...)
{
    char text[800];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const struct answer_step *step = reader->step;
    if (!step)
        return pen_error_set(reader->reterr, status, "answer: %s", text);
    return pen_error_set(reader->reterr, status, "answer.steps[%u]%s%s%s: %s", step->number, step->kind ? " (" : "",
                         step->kind ? step->kind->name : "", step->kind ? ")" : "", text);
}

/* "a, b, c"; cut to fit. */
static void name_append(char text[NAMES_BYTES], const char *name)
{
    size_t used = strlen(text);
    snprintf(text + used, NAMES_BYTES - used, "%s%s", used ? ", " : "", name);
}

/* ---- values ---- */

enum pen_status read_output(struct answer_reader *reader, const cJSON *value, const char *path, uint32_t *ret_output)
{
    char names[NAMES_BYTES] = "";
    struct answer *answer = reader->answer;
    if (!cJSON_IsString(value))
        return reader_refuse(reader, PEN_ERR_INVALID, "%s must be the name of an output", path);
    for (size_t i = 0; i < answer->model_outputs_count; i++) {
        if (strcmp(answer->model_outputs[i].name, value->valuestring) == 0) {
            *ret_output = (uint32_t)i;
            answer->read |= UINT64_C(1) << i;
            return PEN_OK;
        }
        name_append(names, answer->model_outputs[i].name);
    }
    return reader_refuse(reader, PEN_ERR_NOT_FOUND, "%s: the model has no output '%.128s'; it has %s", path,
                         value->valuestring, names);
}

static enum pen_status read_sources(struct answer_reader *reader, const cJSON *value, const char *path,
                                    struct answer_sources *sources)
{
    sources->count = 0;
    if (!cJSON_IsArray(value)) {
        sources->count = 1;
        return read_output(reader, value, path, &sources->output[0]);
    }
    int count = cJSON_GetArraySize(value);
    if (count < 1 || count > (int)ANSWER_SOURCES_MAX)
        return reader_refuse(reader, PEN_ERR_INVALID, "%s must name 1 to %u outputs", path, ANSWER_SOURCES_MAX);
    for (const cJSON *item = value->child; item; item = item->next) {
        enum pen_status status = read_output(reader, item, path, &sources->output[sources->count++]);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static enum pen_status read_source(struct answer_reader *reader, const cJSON *value, const char *path,
                                   struct answer_sources *sources)
{
    sources->count = 1;
    return read_output(reader, value, path, &sources->output[0]);
}

static enum pen_status read_number(const struct answer_reader *reader, const cJSON *value, const char *path, double min,
                                   double max, double *ret_number)
{
    double number = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    if (!(number >= min && number <= max))
        return reader_refuse(reader, PEN_ERR_INVALID, "%s must be a number from %g to %g", path, min, max);
    *ret_number = number;
    return PEN_OK;
}

enum pen_status read_numbers(const struct answer_reader *reader, const cJSON *value, const char *path, double min,
                             double max, struct answer_numbers *ret_numbers)
{
    int count = cJSON_IsArray(value) ? cJSON_GetArraySize(value) : 0;
    if (count < 1 || count > (int)ANSWER_NUMBERS_MAX)
        return reader_refuse(reader, PEN_ERR_INVALID, "%s must be a list of 1 to %u numbers", path, ANSWER_NUMBERS_MAX);
    ret_numbers->count = 0;
    for (const cJSON *item = value->child; item; item = item->next) {
        enum pen_status status = read_number(reader, item, path, min, max, &ret_numbers->value[ret_numbers->count++]);
        if (status != PEN_OK)
            return status;
    }
    return PEN_OK;
}

static enum pen_status read_whole(const struct answer_reader *reader, const cJSON *value, const char *path, double min,
                                  double max, uint32_t *ret_number)
{
    double number = cJSON_IsNumber(value) ? value->valuedouble : NAN;
    if (!(number >= min && number <= max) || number != floor(number))
        return reader_refuse(reader, PEN_ERR_INVALID, "%s must be a whole number from %.0f to %.0f", path, min, max);
    *ret_number = (uint32_t)number;
    return PEN_OK;
}

static enum pen_status read_flag(const struct answer_reader *reader, const cJSON *value, const char *path,
                                 bool *ret_flag)
{
    if (!cJSON_IsBool(value))
        return reader_refuse(reader, PEN_ERR_INVALID, "%s must be true or false", path);
    *ret_flag = cJSON_IsTrue(value) != 0;
    return PEN_OK;
}

static enum pen_status read_choice(const struct answer_reader *reader, const cJSON *value, const char *path,
                                   const char *choices, uint32_t *ret_choice)
{
    const char *text = cJSON_IsString(value) ? value->valuestring : "";
    uint32_t index = 0;
    for (const char *at = choices; at; index++) {
        const char *end = strchr(at, '|');
        size_t length = end ? (size_t)(end - at) : strlen(at);
        if (strlen(text) == length && memcmp(text, at, length) == 0) {
            *ret_choice = index;
            return PEN_OK;
        }
        at = end ? end + 1 : NULL;
    }
    return reader_refuse(reader, PEN_ERR_INVALID, "%s is '%.64s'; it must be one of %s", path, text, choices);
}

static enum pen_status option_read(struct answer_reader *reader, const struct answer_option *option, const cJSON *value,
                                   void *target)
{
    void *at = (char *)target + option->offset;
    const char *path = option->name;
    switch (option->type) {
    case OPTION_FLAG:
        return read_flag(reader, value, path, at);
    case OPTION_WHOLE:
        return read_whole(reader, value, path, option->min, option->max, at);
    case OPTION_NUMBER:
        return read_number(reader, value, path, option->min, option->max, at);
    case OPTION_NUMBERS:
        return read_numbers(reader, value, path, option->min, option->max, at);
    case OPTION_CHOICE:
        return read_choice(reader, value, path, option->choices, at);
    case OPTION_SOURCE:
        return read_source(reader, value, path, at);
    case OPTION_SOURCES:
        return read_sources(reader, value, path, at);
    case OPTION_READER:
    default:
        return option->read(reader, value, path);
    }
}

/* ---- objects ---- */

static enum pen_status unknown_key(const struct answer_reader *reader, const char *name,
                                   const struct answer_option *options)
{
    char names[NAMES_BYTES] = "";
    struct nearest nearest;
    nearest_begin_strict(&nearest, name, strlen(name), 3);
    for (const struct answer_option *option = options; option->name; option++) {
        nearest_offer(&nearest, option->name);
        name_append(names, option->name);
    }
    return reader_refuse(reader, PEN_ERR_INVALID, "unknown key '%.64s'%s%s%s; there are %s", name,
                         nearest.found ? ", did you mean '" : "", nearest.found ? nearest.found : "",
                         nearest.found ? "'?" : "", names);
}

static enum pen_status needed_check(const struct answer_reader *reader, const cJSON *object,
                                    const struct answer_option *options)
{
    for (const struct answer_option *option = options; option->name; option++)
        if (option->needed && !cJSON_GetObjectItemCaseSensitive(object, option->name))
            return reader_refuse(reader, PEN_ERR_INVALID, "the key '%s' is missing", option->name);
    return PEN_OK;
}

static enum pen_status key_read(struct answer_reader *reader, const cJSON *object, const cJSON *item,
                                const struct answer_option *options, void *target)
{
    const struct answer_option *option = options;
    while (option->name && strcmp(option->name, item->string) != 0)
        option++;
    if (!option->name)
        return unknown_key(reader, item->string, options);
    if (cJSON_GetObjectItemCaseSensitive(object, item->string) != item)
        return reader_refuse(reader, PEN_ERR_INVALID, "the key '%s' is given twice", option->name);
    return option_read(reader, option, item, target);
}

enum pen_status options_read(struct answer_reader *reader, const cJSON *object, const struct answer_option *options,
                             void *target, const char *skip)
{
    if (!cJSON_IsObject(object))
        return reader_refuse(reader, PEN_ERR_INVALID, "it must be an object");
    for (const cJSON *item = object->child; item; item = item->next) {
        if (skip && strcmp(item->string, skip) == 0)
            continue;
        enum pen_status status = key_read(reader, object, item, options, target);
        if (status != PEN_OK)
            return status;
    }
    return needed_check(reader, object, options);
}

/* ---- names of points, lines between them ---- */

enum pen_status read_names(struct answer_reader *reader, const cJSON *value, const char *path)
{
    struct answer *answer = reader->answer;
    answer->names_count = 0;
    for (const cJSON *item = cJSON_IsArray(value) ? value->child : NULL; item; item = item->next) {
        if (answer->names_count == ANSWER_NAMES_MAX || !cJSON_IsString(item) ||
            strlen(item->valuestring) >= ANSWER_NAME_BYTES)
            return reader_refuse(reader, PEN_ERR_INVALID, "%s must be at most %u names of less than %u bytes", path,
                                 ANSWER_NAMES_MAX, ANSWER_NAME_BYTES);
        snprintf(answer->names[answer->names_count++], ANSWER_NAME_BYTES, "%s", item->valuestring);
    }
    return answer->names_count ? PEN_OK : reader_refuse(reader, PEN_ERR_INVALID, "%s must be a list of names", path);
}

enum pen_status read_lines(struct answer_reader *reader, const cJSON *value, const char *path,
                           struct answer_line lines[ANSWER_LINES_MAX], uint32_t *ret_count)
{
    *ret_count = 0;
    for (const cJSON *item = cJSON_IsArray(value) ? value->child : NULL; item; item = item->next) {
        struct answer_numbers pair = {.count = 0};
        if (*ret_count == ANSWER_LINES_MAX)
            return reader_refuse(reader, PEN_ERR_TOO_LARGE, "%s has more than %u pairs", path, ANSWER_LINES_MAX);
        enum pen_status status = read_numbers(reader, item, path, 0, ANSWER_POINTS_MAX - 1, &pair);
        if (status != PEN_OK)
            return status;
        if (pair.count != 2)
            return reader_refuse(reader, PEN_ERR_INVALID, "%s must be pairs of points, such as [[0, 1], [1, 3]]", path);
        lines[(*ret_count)++] = (struct answer_line){(uint32_t)pair.value[0], (uint32_t)pair.value[1]};
    }
    return *ret_count
               ? PEN_OK
               : reader_refuse(reader, PEN_ERR_INVALID, "%s must be pairs of points, such as [[0, 1], [1, 3]]", path);
}

enum pen_status reader_needs_size(const struct answer_reader *reader)
{
    if (reader->answer->height > 0 && reader->answer->width > 0)
        return PEN_OK;
    return reader_refuse(reader, PEN_ERR_INVALID,
                         "the size of the model's input is not known: give \"size\": [height, width] in answer");
}

enum pen_status reader_needs_rank(const struct answer_reader *reader, uint32_t output, uint32_t least, uint32_t most)
{
    char text[128];
    const struct pen_tensor *tensor = &reader->answer->model_outputs[output];
    bool unknown = tensor->rank == 0; /* known only when it has run */
    if (unknown || (tensor->rank >= least && tensor->rank <= most))
        return PEN_OK;
    return reader_refuse(reader, PEN_ERR_SHAPE, "output '%.128s' is %s; this step takes %u to %u dimensions",
                         tensor->name, pen_shape_text(tensor->dims, tensor->rank, text, sizeof text), least, most);
}
