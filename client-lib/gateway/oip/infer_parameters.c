#include "infer_parameters.h"

#include <string.h>

#include "decimal.h"
#include "digest.h"

bool tensor_parameters_read(struct json *json, struct tensor_parameters *to)
{
    char member[64];
    bool first = true;
    uint64_t classes = 0;
    json_open(json, '{');
    while (json_member(json, &first, member, sizeof member)) {
        if (strcmp(member, "binary_data_size") == 0)
            to->has_binary = json_u64(json, &to->binary_bytes);
        else if (strcmp(member, "binary_data") == 0)
            to->has_binary_data = json_flag(json, &to->binary_data);
        else if (strcmp(member, "shared_memory_region") == 0)
            json_string(json, to->region, sizeof to->region);
        else if (strcmp(member, "shared_memory_offset") == 0)
            json_u64(json, &to->region_offset);
        else if (strcmp(member, "shared_memory_byte_size") == 0)
            json_u64(json, &to->region_bytes);
        else if (strcmp(member, "classification") == 0)
            json_u64(json, &classes);
        else
            json_skip(json);
    }
    if (classes > INFERENCE_CLASSES_MAX)
        return json_fail(json, "classification gives at most 1000 classes");
    to->classes = (uint32_t)classes;
    return !json->why;
}

bool sequence_id_of_text(const char *text, uint64_t *ret_id)
{
    struct digest_stream *stream = digest_new(DIGEST_XXH3);
    if (!stream)
        return false;
    digest_update_text(stream, text);
    struct digest digest = digest_final(stream);
    digest_free(stream);
    memcpy(ret_id, digest.bytes, sizeof *ret_id);
    *ret_id |= *text ? UINT64_C(1) << 63 : 0;
    *ret_id = *text ? *ret_id : 0;
    return true;
}

static bool read_sequence_id(struct json *json, uint64_t *ret_id)
{
    char text[PARAMETER_NAME_BYTES];
    if (json_peek(json) != JSON_STRING)
        return json_u64(json, ret_id);
    if (!json_string(json, text, sizeof text) || !sequence_id_of_text(text, ret_id))
        return json_fail(json, "a sequence_id is a number or a short text");
    return true;
}

static bool read_priority(struct json *json, uint8_t *ret_priority)
{
    uint64_t value;
    if (!json_u64(json, &value))
        return false;
    if (value > UINT8_MAX)
        return json_fail(json, "a priority is 0 (the model's default) or 1 (most urgent) to 255");
    *ret_priority = (uint8_t)value;
    return true;
}

static bool read_require(struct json *json, struct inference *inference)
{
    char text[PARAMETER_TEXT_BYTES];
    if (!json_string(json, text, sizeof text))
        return false;
    const char *why = inference_require(inference, text);
    return !why || json_fail(json, why);
}

static bool read_number(struct json *json, struct pen_parameter *to)
{
    struct decimal number;
    if (!decimal_scan(&json->at, json->end, &number))
        return json_fail(json, "a number is expected");
    bool whole = decimal_i64(&number, INT64_MIN, INT64_MAX, &to->value.integer);
    to->kind = whole ? PEN_PARAMETER_INTEGER : PEN_PARAMETER_NUMBER;
    if (!whole)
        to->value.number = decimal_f64(&number);
    return true;
}

static bool read_text(struct json *json, struct inference *inference, struct pen_parameter *to)
{
    char text[PARAMETER_TEXT_BYTES];
    to->kind = PEN_PARAMETER_TEXT;
    if (!json_string(json, text, sizeof text))
        return false;
    to->value.text = inference_text(inference, text);
    return to->value.text || json_fail(json, "no memory is left for a parameter");
}

/* One of the model's own. */
static bool read_custom(struct json *json, struct inference *inference, const char *name)
{
    struct pen_parameter *to = &inference->parameters[inference->parameters_count];
    if (inference->parameters_count == INFERENCE_PARAMETERS_MAX || !*name)
        return json_fail(json, "a request has at most 64 parameters, each with a name of at most 255 bytes");
    to->name = inference_text(inference, name);
    inference->parameters_count++;
    switch (json_peek(json)) {
    case JSON_STRING:
        return read_text(json, inference, to);
    case JSON_NUMBER:
        return read_number(json, to);
    case JSON_TRUE:
    case JSON_FALSE:
        to->kind = PEN_PARAMETER_FLAG;
        return json_flag(json, &to->value.flag);
    default:
        return json_fail(json, "a parameter is a text, a number, true or false");
    }
}

/* Who states a precision is told what the answer keeps. */
static bool read_precision(struct json *json, struct inference *inference)
{
    char text[PARAMETER_TEXT_BYTES];
    if (!json_string(json, text, sizeof text))
        return false;
    inference->provenance = true;
    inference->precision = inference_text(inference, text);
    return inference->precision || json_fail(json, "no memory is left for a parameter");
}

static bool read_one(struct json *json, struct inference *inference, const char *name)
{
    if (strcmp(name, "sequence_id") == 0)
        return read_sequence_id(json, &inference->sequence_id);
    if (strcmp(name, "sequence_start") == 0)
        return json_flag(json, &inference->sequence_start);
    if (strcmp(name, "sequence_end") == 0)
        return json_flag(json, &inference->sequence_end);
    if (strcmp(name, "priority") == 0)
        return read_priority(json, &inference->priority);
    if (strcmp(name, "timeout") == 0)
        return json_u64(json, &inference->timeout_us);
    if (strcmp(name, "binary_data_output") == 0)
        return json_flag(json, &inference->binary_default);
    if (strcmp(name, "penstock_precision") == 0)
        return read_precision(json, inference);
    if (strcmp(name, "penstock_provenance") == 0)
        return json_flag(json, &inference->provenance);
    if (strcmp(name, INFERENCE_DEBUG) == 0)
        return json_flag(json, &inference->debug);
    if (strcmp(name, INFERENCE_REQUIRE) == 0)
        return read_require(json, inference);
    return read_custom(json, inference, name);
}

bool request_parameters_read(struct json *json, struct inference *inference)
{
    char name[PARAMETER_NAME_BYTES];
    bool first = true;
    json_open(json, '{');
    while (json_member(json, &first, name, sizeof name))
        if (!read_one(json, inference, name))
            return false;
    return !json->why;
}
