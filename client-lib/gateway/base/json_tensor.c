#include "json_tensor.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "decimal.h"
#include "json_read.h"

static const struct datatype {
    enum pen_dtype dtype;
    const char *name;
    int64_t min;
    uint64_t max; /* 0 = no whole numbers */
} datatypes[] = {
    {PEN_DTYPE_BOOL, "BOOL", 0, 0},
    {PEN_DTYPE_U8, "UINT8", 0, UINT8_MAX},
    {PEN_DTYPE_U16, "UINT16", 0, UINT16_MAX},
    {PEN_DTYPE_U32, "UINT32", 0, UINT32_MAX},
    {PEN_DTYPE_U64, "UINT64", 0, UINT64_MAX},
    {PEN_DTYPE_I8, "INT8", INT8_MIN, INT8_MAX},
    {PEN_DTYPE_I16, "INT16", INT16_MIN, INT16_MAX},
    {PEN_DTYPE_I32, "INT32", INT32_MIN, INT32_MAX},
    {PEN_DTYPE_I64, "INT64", INT64_MIN, INT64_MAX},
    {PEN_DTYPE_F16, "FP16", 0, 0},
    {PEN_DTYPE_F32, "FP32", 0, 0},
    {PEN_DTYPE_F64, "FP64", 0, 0},
    {PEN_DTYPE_STRING, "BYTES", 0, 0},
    {PEN_DTYPE_BF16, "BF16", 0, 0},
};

static const struct datatype *datatype_find(enum pen_dtype dtype)
{
    for (size_t i = 0; i < sizeof datatypes / sizeof *datatypes; i++)
        if (datatypes[i].dtype == dtype)
            return &datatypes[i];
    return NULL;
}

const char *datatype_name(enum pen_dtype dtype)
{
    const struct datatype *found = datatype_find(dtype);
    return found ? found->name : NULL;
}

enum pen_dtype datatype_parse(const char *name)
{
    for (size_t i = 0; i < sizeof datatypes / sizeof *datatypes; i++)
        if (strcmp(datatypes[i].name, name) == 0)
            return datatypes[i].dtype;
    return PEN_DTYPE_NONE;
}

/* ---- reading ---- */

struct reading {
    struct json json;
    const struct datatype *type;
    uint64_t elements, read;
    char *to;            /* the next element */
    struct bytes *texts; /* of BYTES */
};

/* The words that are no JSON and that everybody writes. */
static bool read_odd(struct json *json, double *ret_value)
{
    bool nan = json_word(json, "NaN"), plus = !nan && json_word(json, "Infinity");
    if (!nan && !plus && !json_word(json, "-Infinity"))
        return false;
    *ret_value = nan ? (double)NAN : plus ? (double)INFINITY : -(double)INFINITY;
    return true;
}

static bool read_float(struct reading *reading, bool single)
{
    struct decimal number;
    double odd;
    float small;
    if (decimal_scan(&reading->json.at, reading->json.end, &number)) {
        odd = single ? (double)(small = decimal_f32(&number)) : decimal_f64(&number);
        if (isinf(odd))
            return json_fail(&reading->json, "a number is too large for its datatype");
    } else if (!read_odd(&reading->json, &odd)) {
        return json_fail(&reading->json, "a number is expected");
    }
    small = (float)odd;
    memcpy(reading->to, single ? (void *)&small : (void *)&odd, single ? sizeof small : sizeof odd);
    reading->to += single ? sizeof small : sizeof odd;
    return true;
}

/* Most are short and have no sign: at most nine digits and what ends a number. Nothing is taken where that is not so. */
static bool read_short(struct json *json, uint64_t max, uint64_t *ret_value)
{
    const char *at = json->at, *end = json->end - json->at > 10 ? json->at + 9 : json->at;
    uint64_t value = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    if (at == json->at || (*at != ',' && *at != ']') || (*json->at == '0' && at - json->at > 1) || value > max)
        return false;
    json->at = at;
    *ret_value = value;
    return true;
}

/* Little-endian, as everything here. */
static bool read_whole(struct reading *reading, size_t size)
{
    struct decimal number;
    const struct datatype *type = reading->type;
    uint64_t value = 0;
    int64_t below = 0;
    if (read_short(&reading->json, type->max, &value)) {
        memcpy(reading->to, &value, size);
        reading->to += size;
        return true;
    }
    if (!decimal_scan(&reading->json.at, reading->json.end, &number))
        return json_fail(&reading->json, "a whole number is expected");
    bool well = type->min == 0 ? decimal_u64(&number, type->max, &value)
                               : decimal_i64(&number, type->min, (int64_t)type->max, &below);
    if (!well)
        return json_fail(&reading->json, "a whole number within the range of its datatype is expected");
    value = type->min == 0 ? value : (uint64_t)below;
    memcpy(reading->to, &value, size);
    reading->to += size;
    return true;
}

static bool read_text(struct reading *reading)
{
    struct bytes *texts = reading->texts;
    size_t start = texts->used;
    uint32_t length = 0;
    bytes_add(texts, &length, sizeof length);
    if (json_peek(&reading->json) != JSON_STRING || !json_string_add(&reading->json, texts) || texts->failed)
        return json_fail(&reading->json, "a string is expected");
    length = (uint32_t)(texts->used - start - sizeof length);
    memcpy(texts->data + start, &length, sizeof length);
    return true;
}

static bool read_flag(struct reading *reading)
{
    bool value;
    if (!json_flag(&reading->json, &value))
        return false;
    *reading->to++ = value;
    return true;
}

static bool read_one(struct reading *reading)
{
    if (reading->read++ == reading->elements)
        return json_fail(&reading->json, "there are more elements than its shape has");
    switch (reading->type->dtype) {
    case PEN_DTYPE_F32:
        return read_float(reading, true);
    case PEN_DTYPE_F64:
        return read_float(reading, false);
    case PEN_DTYPE_BOOL:
        return read_flag(reading);
    case PEN_DTYPE_STRING:
        return read_text(reading);
    default:
        return read_whole(reading, pen_dtype_bits(reading->type->dtype) / 8);
    }
}

static char next_char(struct json *json)
{
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r'))
        json->at++;
    return json->at < json->end ? *json->at : '\0';
}

/* The brackets are counted instead of called: depth costs nothing. */
static bool read_all(struct reading *reading)
{
    struct json *json = &reading->json;
    bool value_before = false, comma = false; /* what stands before `at` on this level */
    unsigned open = 0;
    do {
        char c = next_char(json);
        if (c == ']') {
            if (comma)
                return json_fail(json, "a value is expected behind a comma");
            json->at++;
            open--;
            value_before = true;
        } else if (c == ',') {
            if (!value_before)
                return json_fail(json, "a comma stands where a value is expected");
            json->at++;
            value_before = false;
            comma = true;
        } else if (value_before) {
            return json_fail(json, "a comma or ] is expected");
        } else if (c == '[') {
            json->at++;
            if (++open > JSON_DEPTH_MAX)
                return json_fail(json, "it is nested deeper than 100 levels");
            comma = false;
        } else {
            if (!read_one(reading))
                return false;
            value_before = true;
            comma = false;
        }
    } while (open > 0);
    return json_finish(json) &&
           (reading->read == reading->elements || json_fail(json, "there are fewer elements than its shape has"));
}

static enum pen_status run(struct reading *reading, const char *text, size_t bytes, struct pen_error *reterr)
{
    json_init(&reading->json, text, bytes);
    if (json_peek(&reading->json) != JSON_ARRAY)
        json_fail(&reading->json, "an array is expected");
    if (!reading->json.why && read_all(reading))
        return PEN_OK;
    return pen_error_set(reterr, PEN_ERR_INVALID, "its data is wrong at byte %zu, element %" PRIu64 ": %s",
                         json_where(&reading->json), reading->read ? reading->read - 1 : 0, reading->json.why);
}

enum pen_status json_tensor_read(const char *text, size_t bytes, enum pen_dtype dtype, uint64_t elements, void *to,
                                 struct pen_error *reterr)
{
    struct reading reading = {.type = datatype_find(dtype), .elements = elements, .to = to};
    if (!reading.type || dtype == PEN_DTYPE_F16 || dtype == PEN_DTYPE_BF16)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s has no form in JSON; send it as binary data",
                             reading.type ? reading.type->name : "that datatype");
    return run(&reading, text, bytes, reterr);
}

enum pen_status json_tensor_read_texts(const char *text, size_t bytes, uint64_t elements, struct bytes *to,
                                       struct pen_error *reterr)
{
    struct reading reading = {.type = datatype_find(PEN_DTYPE_STRING), .elements = elements, .texts = to};
    return run(&reading, text, bytes, reterr);
}

/* ---- writing ---- */

static size_t write_number(const struct pen_tensor *tensor, const char *at, char *text)
{
    uint64_t value = 0;
    double wide;
    float small;
    size_t size = pen_dtype_bits(tensor->dtype) / 8;
    switch (tensor->dtype) {
    case PEN_DTYPE_F32:
        memcpy(&small, at, sizeof small);
        return decimal_write_f32(small, text);
    case PEN_DTYPE_F64:
        memcpy(&wide, at, sizeof wide);
        return decimal_write_f64(wide, text);
    case PEN_DTYPE_BOOL:
        memcpy(text, *at ? "true" : "false", 5);
        return *at ? 4 : 5;
    default:
        memcpy(&value, at, size);
        break;
    }
    if (datatype_find(tensor->dtype)->min == 0)
        return decimal_write_u64(value, text);
    unsigned shift = 64 - (unsigned)size * 8;
    return decimal_write_i64((int64_t)(value << shift) >> shift, text);
}

static void write_numbers(const struct pen_tensor *tensor, struct bytes *to)
{
    size_t size = pen_dtype_bits(tensor->dtype) / 8;
    for (size_t i = 0; i < tensor->bytes / size; i++) {
        if (!bytes_reserve(to, DECIMAL_BYTES + 1))
            return;
        if (i)
            to->data[to->used++] = ',';
        to->used += write_number(tensor, (const char *)tensor->data + i * size, to->data + to->used);
    }
}

static void write_texts(const struct pen_tensor *tensor, struct bytes *to)
{
    const char *at = tensor->data, *end = at ? at + tensor->bytes : at;
    for (bool first = true; end - at >= 4; first = false) {
        uint32_t length;
        memcpy(&length, at, sizeof length);
        at += 4;
        if (length > (size_t)(end - at))
            return;
        if (!first)
            bytes_add(to, ",", 1);
        bytes_json(to, at, length);
        at += length;
    }
}

enum pen_status json_tensor_write(const struct pen_tensor *tensor, struct bytes *to, struct pen_error *reterr)
{
    const char *name = datatype_name(tensor->dtype);
    if (!name || tensor->dtype == PEN_DTYPE_F16 || tensor->dtype == PEN_DTYPE_BF16)
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "output %s is %s, which has no form in JSON; ask for it as binary data", tensor->name,
                             name ? name : pen_dtype_name(tensor->dtype));
    bytes_add(to, "[", 1);
    if (tensor->dtype == PEN_DTYPE_STRING)
        write_texts(tensor, to);
    else
        write_numbers(tensor, to);
    bytes_add(to, "]", 1);
    return PEN_OK;
}
