#include "case_tensor.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum pen_dtype dtype;
    unsigned bytes;
} dtypes[] = {{"float32", PEN_DTYPE_F32, 4}, {"int32", PEN_DTYPE_I32, 4},   {"bool", PEN_DTYPE_BOOL, 1},
              {"int64", PEN_DTYPE_I64, 8},   {"int8", PEN_DTYPE_I8, 1},     {"uint8", PEN_DTYPE_U8, 1},
              {"int16", PEN_DTYPE_I16, 2},   {"float16", PEN_DTYPE_F16, 2}, {"uint16", PEN_DTYPE_U16, 2},
              {"uint32", PEN_DTYPE_U32, 4}};

static void refuse(const char *what, const char *name)
{
    fprintf(stderr, "case file: %s '%s'\n", what, name ? name : "?");
    exit(2);
}

static unsigned row_of(enum pen_dtype dtype)
{
    for (unsigned i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (dtypes[i].dtype == dtype)
            return i;
    }
    refuse("an element type that is not written here", NULL);
    return 0;
}

enum pen_dtype case_dtype(const char *name)
{
    for (unsigned i = 0; name && i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].name, name) == 0)
            return dtypes[i].dtype;
    }
    refuse("unknown element type", name);
    return PEN_DTYPE_NONE;
}

double case_number(const cJSON *item)
{
    const char *text = cJSON_GetStringValue(item);
    if (!text)
        return item->valuedouble;
    return strcmp(text, "nan") == 0 ? (double)NAN : strcmp(text, "inf") == 0 ? (double)INFINITY : -(double)INFINITY;
}

static uint16_t half_of(double value)
{
    return pen_f32_to_f16((float)value);
}

static void store(enum pen_dtype dtype, void *to, double value)
{
    float real = (float)value;
    int64_t whole = dtype == PEN_DTYPE_F32 || dtype == PEN_DTYPE_F16 ? 0 : (int64_t)value;
    uint16_t half = half_of(value);
    memcpy(to,
           dtype == PEN_DTYPE_F32   ? (const void *)&real
           : dtype == PEN_DTYPE_F16 ? (const void *)&half
                                    : &whole,
           dtypes[row_of(dtype)].bytes); /* little-endian: the low bytes are the narrow form */
}

void case_tensor_init(struct case_tensor *t, const cJSON *json)
{
    const cJSON *dim, *item, *shape = cJSON_GetArrayItem(json, 2), *values = cJSON_GetArrayItem(json, 3);
    *t = (struct case_tensor){.dtype = cJSON_GetStringValue(cJSON_GetArrayItem(json, 1))};
    t->tensor.name = cJSON_GetStringValue(cJSON_GetArrayItem(json, 0));
    t->tensor.dtype = case_dtype(t->dtype);
    size_t count = 1, at = 0, width = dtypes[row_of(t->tensor.dtype)].bytes;
    cJSON_ArrayForEach(dim, shape)
    {
        t->tensor.dims[t->tensor.rank++] = (int64_t)dim->valuedouble;
        count *= (size_t)dim->valuedouble;
    }
    if ((size_t)cJSON_GetArraySize(values) != count)
        refuse("values do not suit the shape of", t->tensor.name);
    uint8_t *data = calloc(count + 8, width);
    if (!data)
        refuse("no memory for", t->tensor.name);
    cJSON_ArrayForEach(item, values)
    {
        store(t->tensor.dtype, data + width * at++, case_number(item));
    }
    t->tensor.data = data;
    t->tensor.bytes = count * width;
}

void case_tensor_fini(struct case_tensor *t)
{
    free((void *)(uintptr_t)t->tensor.data);
}

double case_tensor_at(const struct pen_tensor *t, size_t index)
{
    unsigned width = dtypes[row_of(t->dtype)].bytes;
    const uint8_t *at = (const uint8_t *)t->data + index * width;
    float real;
    uint64_t bits = 0;
    memcpy(&bits, at, width);
    memcpy(&real, at, width < 4 ? width : 4);
    bool positive = t->dtype == PEN_DTYPE_U8 || t->dtype == PEN_DTYPE_BOOL || t->dtype == PEN_DTYPE_U16 ||
                    t->dtype == PEN_DTYPE_U32;
    if (t->dtype == PEN_DTYPE_F32)
        return (double)real;
    if (t->dtype == PEN_DTYPE_F16)
        return (double)pen_f16_to_f32((uint16_t)bits);
    return positive ? (double)bits : (double)((int64_t)(bits << (64 - 8 * width)) >> (64 - 8 * width));
}

bool case_tensor_same(const struct pen_tensor *got, const struct pen_tensor *want, double absolute, double relative,
                      char *text, size_t bytes)
{
    char shape[96], other[96];
    uint64_t count = 0;
    if (got->dtype != want->dtype) {
        snprintf(text, bytes, "its elements are %s, not %s", pen_dtype_name(got->dtype), pen_dtype_name(want->dtype));
        return false;
    }
    if (got->rank != want->rank || memcmp(got->dims, want->dims, got->rank * sizeof *got->dims) != 0) {
        snprintf(text, bytes, "its shape is %s, not %s", pen_shape_text(got->dims, got->rank, shape, sizeof shape),
                 pen_shape_text(want->dims, want->rank, other, sizeof other));
        return false;
    }
    (void)pen_tensor_elements(want, &count);
    for (size_t i = 0; i < count; i++) {
        double a = case_tensor_at(got, i), b = case_tensor_at(want, i);
        if ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= absolute + relative * fabs(b))
            continue;
        snprintf(text, bytes, "element %zu of %llu is %.9g, not %.9g", i, (unsigned long long)count, a, b);
        return false;
    }
    return true;
}
