/* map_input.c - a map becomes the two inputs in which a model takes it: its keys and its values. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "penstock/client.h"

#define ENTRIES_MAX 1000000u

/* The input NAME.PART of the model, which has the form of a half of a map. */
static const struct pen_signature *half_of(const struct pen_model *model, const char *name, const char *part)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < model->inputs_count; i++) {
        const struct pen_signature *sig = &model->inputs[i];
        if (sig->rank == 2 && strncmp(sig->name, name, length) == 0 && strcmp(sig->name + length, part) == 0) {
            return sig;
        }
    }
    return NULL;
}

bool pen_model_has_map(const struct pen_model *model, const char *name)
{
    return half_of(model, name, ".keys") && half_of(model, name, ".values");
}

/* Bytes of the text in wire form. */
static size_t text_bytes(const char *text)
{
    return 4 + strlen(text);
}

static uint8_t *text_put(uint8_t *to, const char *text)
{
    uint32_t length = (uint32_t)strlen(text);
    for (unsigned i = 0; i < 4; i++) {
        *to++ = (uint8_t)(length >> 8 * i);
    }
    memcpy(to, text, length);
    return to + length;
}

static int by_key(const void *a, const void *b)
{
    const struct pen_map_entry *x = *(const struct pen_map_entry *const *)a,
                               *y = *(const struct pen_map_entry *const *)b;
    if (x->key && y->key) {
        return strcmp(x->key, y->key);
    }
    return x->key || y->key ? (x->key != NULL) - (y->key != NULL)
                            : (x->key_number > y->key_number) - (x->key_number < y->key_number);
}

/* No key is there twice. */
static enum pen_status keys_differ(const char *name, const struct pen_map_entry *entries, size_t count,
                                   struct pen_error *reterr)
{
    const struct pen_map_entry **sorted = calloc(count + 1, sizeof(*sorted));
    size_t twice = 0;
    if (!sorted) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a map of %zu entries.", count);
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &entries[i];
    }
    qsort((void *)sorted, count, sizeof(*sorted), by_key);
    for (size_t i = 1; i < count && !twice; i++) {
        twice = by_key(&sorted[i - 1], &sorted[i]) == 0 ? i : 0;
    }
    const struct pen_map_entry *e = sorted[twice];
    enum pen_status status = PEN_OK;
    if (twice && e->key) {
        status = pen_error_set(reterr, PEN_ERR_INVALID, "the map \"%s\" has the key \"%.64s\" twice.", name, e->key);
    } else if (twice) {
        status = pen_error_set(reterr, PEN_ERR_INVALID, "the map \"%s\" has the key %" PRId64 " twice.", name,
                               e->key_number);
    }
    free((void *)sorted);
    return status;
}

/* A number in the element type of the input; false: it has no such value. */
static bool number_put(enum pen_dtype dtype, double value, uint8_t *to)
{
    bool whole = value == floor(value);
    if (dtype == PEN_DTYPE_F32) {
        float f = (float)value;
        memcpy(to, &f, sizeof f);
        return true;
    }
    if (dtype == PEN_DTYPE_F64) {
        memcpy(to, &value, sizeof value);
        return true;
    }
    if (dtype == PEN_DTYPE_I64 && whole && fabs(value) < 0x1p63) {
        int64_t i = (int64_t)value;
        memcpy(to, &i, sizeof i);
        return true;
    }
    if (dtype == PEN_DTYPE_I32 && whole && fabs(value) < 0x1p31) {
        int32_t i = (int32_t)value;
        memcpy(to, &i, sizeof i);
        return true;
    }
    return false;
}

static enum pen_status key_check(const struct pen_signature *keys, const struct pen_map_entry *e,
                                 struct pen_error *reterr)
{
    bool texts = keys->dtype == PEN_DTYPE_STRING;
    return texts == (e->key != NULL) ? PEN_OK
                                     : pen_error_set(reterr, PEN_ERR_DTYPE, "\"%s\" takes %s as keys.", keys->name,
                                                     texts ? "texts" : "integers");
}

static enum pen_status value_put(const struct pen_signature *values, const struct pen_map_entry *e, uint8_t **to,
                                 struct pen_error *reterr)
{
    if (values->dtype == PEN_DTYPE_STRING && e->text) {
        *to = text_put(*to, e->text);
        return PEN_OK;
    }
    if (e->text) {
        return pen_error_set(reterr, PEN_ERR_DTYPE, "\"%s\" takes values of the type %s; \"%.64s\" is a text.",
                             values->name, pen_dtype_name(values->dtype), e->text);
    }
    if (!number_put(values->dtype, e->value, *to)) {
        return pen_error_set(reterr, PEN_ERR_DTYPE, "\"%s\" takes values of the type %s; the value %g is none.",
                             values->name, pen_dtype_name(values->dtype), e->value);
    }
    *to += pen_dtype_bits(values->dtype) / 8;
    return PEN_OK;
}

/* One block: the data of the keys, then those of the values, then both names. */
static size_t block_bytes(const struct pen_signature *keys, const struct pen_signature *values,
                          const struct pen_map_entry *entries, size_t count, size_t *ret_keys_bytes)
{
    size_t key_bytes = 0, value_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        key_bytes += entries[i].key ? text_bytes(entries[i].key) : sizeof(int64_t);
        value_bytes += entries[i].text ? text_bytes(entries[i].text) : sizeof(double);
    }
    *ret_keys_bytes = key_bytes;
    return key_bytes + value_bytes + strlen(keys->name) + strlen(values->name) + 2;
}

static enum pen_status block_fill(const struct pen_signature *keys, const struct pen_signature *values,
                                  const struct pen_map_entry *entries, size_t count, uint8_t *to, uint8_t **ret_end,
                                  struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        status = key_check(keys, &entries[i], reterr);
        if (status == PEN_OK && entries[i].key) {
            to = text_put(to, entries[i].key);
        } else if (status == PEN_OK) {
            memcpy(to, &entries[i].key_number, sizeof(int64_t));
            to += sizeof(int64_t);
        }
    }
    for (size_t i = 0; i < count && status == PEN_OK; i++) {
        status = value_put(values, &entries[i], &to, reterr);
    }
    *ret_end = to;
    return status;
}

enum pen_status pen_model_map(const struct pen_model *model, const char *name, const struct pen_map_entry *entries,
                              size_t count, struct pen_tensor ret_tensors[2], struct pen_error *reterr)
{
    const struct pen_signature *keys = half_of(model, name, ".keys"), *values = half_of(model, name, ".values");
    if (!keys || !values) {
        return pen_error_set(reterr, PEN_ERR_NOT_FOUND,
                             "model \"%s\" has no map \"%s\": a map is the two inputs NAME.keys and NAME.values.",
                             model->name, name);
    }
    if (count > ENTRIES_MAX) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "the map \"%s\" has %zu entries, at most %u are taken.", name,
                             count, ENTRIES_MAX);
    }
    enum pen_status status = keys_differ(name, entries, count, reterr);
    if (status != PEN_OK) {
        return status;
    }
    size_t keys_bytes = 0;
    uint8_t *block = malloc(block_bytes(keys, values, entries, count, &keys_bytes)), *end = block;
    if (!block) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a map of %zu entries.", count);
    }
    status = block_fill(keys, values, entries, count, block, &end, reterr);
    if (status != PEN_OK) {
        free(block);
        return status;
    }
    char *names = (char *)end;
    strcpy(names, keys->name);
    strcpy(names + strlen(keys->name) + 1, values->name);
    struct pen_tensor half = {.name = names, .dtype = keys->dtype, .rank = 2, .dims = {1, (int64_t)count}};
    half.data = block;
    half.bytes = keys_bytes;
    ret_tensors[0] = half;
    half.name = names + strlen(keys->name) + 1;
    half.dtype = values->dtype;
    half.data = block + keys_bytes;
    half.bytes = (size_t)(end - block) - keys_bytes;
    ret_tensors[1] = half;
    return PEN_OK;
}

void pen_map_free(struct pen_tensor tensors[2])
{
    free((void *)(uintptr_t)tensors[0].data);
    tensors[0] = tensors[1] = (struct pen_tensor){.name = ""};
}
