#include "patch.h"

#include <string.h>

#include "wire_reader.h"

/* Field numbers of ResultMeta in proto/job.proto. */
enum {
    RESULT_ERROR = 2,
    RESULT_BACKEND = 5,
    RESULT_PRECISION = 8,
    RESULT_COMPUTE_US = 11,
    RESULT_BATCH_SIZE = 14,
    RESULT_WORKER_US = 13,
    RESULT_MODEL_DIGEST = 19,
    RESULT_WORKER_WAIT_US = 30,
    RESULT_GATHER_US = 31,
    RESULT_SPLIT_US = 32,
    RESULT_LAYERS = 33,
};

size_t varint_put(uint8_t *bytes, uint64_t value)
{
    size_t n = 0;
    while (value >= 0x80) {
        bytes[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    bytes[n++] = (uint8_t)value;
    return n;
}

void patch_number(struct patch *patch, uint32_t field, uint64_t value)
{
    if (patch->used + 15 > sizeof patch->bytes)
        return;
    patch->used += varint_put(patch->bytes + patch->used, (uint64_t)field << 3 | WIRE_VARINT);
    patch->used += varint_put(patch->bytes + patch->used, value);
}

void patch_text(struct patch *patch, uint32_t field, const char *text)
{
    size_t length = strlen(text);
    if (patch->used + 10 + length > sizeof patch->bytes)
        return;
    patch->used += varint_put(patch->bytes + patch->used, (uint64_t)field << 3 | WIRE_BYTES);
    patch->used += varint_put(patch->bytes + patch->used, length);
    memcpy(patch->bytes + patch->used, text, length);
    patch->used += length;
}

static void keep_number(struct result_facts *facts, uint64_t field, uint64_t value)
{
    switch (field) {
    case RESULT_COMPUTE_US:
        facts->compute_us = value;
        break;
    case RESULT_WORKER_US:
        facts->worker_us = value;
        break;
    case RESULT_BATCH_SIZE:
        facts->batch = value;
        break;
    case RESULT_PRECISION:
        facts->precision = value;
        break;
    case RESULT_WORKER_WAIT_US:
        facts->wait_us = value;
        break;
    case RESULT_GATHER_US:
        facts->gather_us = value;
        break;
    case RESULT_SPLIT_US:
        facts->split_us = value;
        break;
    default:
        break;
    }
}

static void keep_bytes(struct result_facts *facts, uint64_t field, const uint8_t *bytes, size_t count)
{
    if (field == RESULT_BACKEND) {
        facts->backend = bytes;
        facts->backend_bytes = count;
    } else if (field == RESULT_MODEL_DIGEST) {
        facts->model_digest = count == 16 ? bytes : NULL;
    } else if (field == RESULT_ERROR) {
        facts->error = bytes;
        facts->error_bytes = count;
    } else if (field == RESULT_LAYERS) {
        facts->layers = true;
    }
}

bool result_read(const uint8_t *meta, size_t bytes, struct result_facts *ret_facts)
{
    struct wire_reader reader = {meta, meta + bytes};
    struct wire_field field;
    struct result_facts facts = {0};
    while (reader.at < reader.end) {
        if (!wire_next(&reader, &field))
            return false;
        if (field.data)
            keep_bytes(&facts, field.number, field.data, field.bytes);
        else
            keep_number(&facts, field.number, field.value);
    }
    *ret_facts = facts;
    return true;
}
