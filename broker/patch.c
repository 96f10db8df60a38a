#include "patch.h"

#include <string.h>

enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* Field numbers of ResultMeta in proto/job.proto. */
enum {
    RESULT_ERROR = 2,
    RESULT_BACKEND = 5,
    RESULT_PRECISION = 8,
    RESULT_COMPUTE_US = 11,
    RESULT_WORKER_US = 13,
    RESULT_MODEL_DIGEST = 19,
};

static size_t varint_put(uint8_t *bytes, uint64_t value)
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

struct reader {
    const uint8_t *at, *end;
};

static bool varint_get(struct reader *r, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        uint8_t byte = *r->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static bool skip(struct reader *r, uint64_t bytes)
{
    if (bytes > (uint64_t)(r->end - r->at))
        return false;
    r->at += bytes;
    return true;
}

static void keep_number(struct result_facts *facts, uint64_t field, uint64_t value)
{
    if (field == RESULT_COMPUTE_US)
        facts->compute_us = value;
    else if (field == RESULT_WORKER_US)
        facts->worker_us = value;
    else if (field == RESULT_PRECISION)
        facts->precision = value;
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
    }
}

static bool read_field(struct reader *r, struct result_facts *facts)
{
    uint64_t key, value;
    if (!varint_get(r, &key) || key >> 3 == 0)
        return false;
    switch (key & 7) {
    case WIRE_VARINT:
        if (!varint_get(r, &value))
            return false;
        keep_number(facts, key >> 3, value);
        return true;
    case WIRE_BYTES:
        if (!varint_get(r, &value) || !skip(r, value))
            return false;
        keep_bytes(facts, key >> 3, r->at - value, (size_t)value);
        return true;
    case WIRE_FIXED64:
        return skip(r, 8);
    case WIRE_FIXED32:
        return skip(r, 4);
    default:
        return false;
    }
}

bool result_read(const uint8_t *meta, size_t bytes, struct result_facts *ret_facts)
{
    struct reader r = {meta, meta + bytes};
    struct result_facts facts = {0};
    while (r.at < r.end) {
        if (!read_field(&r, &facts))
            return false;
    }
    *ret_facts = facts;
    return true;
}
