#include "patch.h"

#include <math.h>
#include <string.h>

#include "meta_fields.h"
#include "wire_reader.h"

void patch_number(struct patch *patch, uint32_t field, uint64_t value)
{
    if (patch->used + 15 > sizeof patch->bytes)
        return;
    patch->used += wire_put_key(patch->bytes + patch->used, field, WIRE_VARINT);
    patch->used += wire_put_varint(patch->bytes + patch->used, value);
}

void patch_text(struct patch *patch, uint32_t field, const char *text)
{
    size_t length = strlen(text);
    if (patch->used + 10 + length > sizeof patch->bytes)
        return;
    patch->used += wire_put_key(patch->bytes + patch->used, field, WIRE_BYTES);
    patch->used += wire_put_varint(patch->bytes + patch->used, length);
    memcpy(patch->bytes + patch->used, text, length);
    patch->used += length;
}

static void keep_number(struct result_facts *facts, uint64_t field, uint64_t value)
{
    switch (field) {
    case RESULT_META_COMPUTE_US:
        facts->compute_us = value;
        break;
    case RESULT_META_WORKER_US:
        facts->worker_us = value;
        break;
    case RESULT_META_BATCH_SIZE:
        facts->batch = value;
        break;
    case RESULT_META_BATCH_ROWS:
        facts->batch_rows = value;
        break;
    case RESULT_META_BATCH_PLACE:
        facts->batch_place = value;
        break;
    case RESULT_META_PRECISION:
        facts->precision = value;
        break;
    case RESULT_META_WORKER_WAIT_US:
        facts->wait_us = value;
        break;
    case RESULT_META_DECODE_US:
        facts->decode_us = value;
        break;
    case RESULT_META_GATHER_US:
        facts->gather_us = value;
        break;
    case RESULT_META_SPLIT_US:
        facts->split_us = value;
        break;
    case RESULT_META_STORED_UNIX_US:
        facts->stored_unix_us = value;
        break;
    default:
        break;
    }
}

/* A MeasuredError. One that is no well-formed message has measured nothing. */
static void keep_measured(struct result_facts *facts, const uint8_t *bytes, size_t count)
{
    struct wire_reader reader = {bytes, bytes + count};
    struct wire_field field;
    double error = 0.0; /* proto3 leaves zeros out */
    bool repeatable = false, whole = true;
    while (whole && reader.at < reader.end) {
        whole = meta_next(&reader, &field);
        if (whole && field.fixed == MEASURED_ERROR_LARGEST)
            memcpy(&error, &field.value, sizeof error);
        else if (whole && field.number == MEASURED_ERROR_REPEATABLE && !field.data)
            repeatable = field.value != 0;
        else if (whole && field.data)
            facts->nul |= field.bytes > 0 && memchr(field.data, '\0', field.bytes) != NULL;
    }
    facts->error_measured = whole ? error : (double)INFINITY;
    facts->repeatable = whole && repeatable;
}

static void keep_bytes(struct result_facts *facts, uint64_t field, const uint8_t *bytes, size_t count)
{
    if (field == RESULT_META_MODEL_DIGEST) {
        facts->model_digest = count == 16 ? bytes : NULL;
        return; /* no text */
    }
    if (field == RESULT_META_MEASURED) {
        keep_measured(facts, bytes, count);
        return;
    }
    if (field == RESULT_META_BACKEND) {
        facts->backend = bytes;
        facts->backend_bytes = count;
    } else if (field == RESULT_META_ERROR) {
        facts->error = bytes;
        facts->error_bytes = count;
    } else if (field == RESULT_META_LAYERS) {
        facts->layers = true;
    }
    facts->nul |= count > 0 && memchr(bytes, '\0', count) != NULL;
}

bool result_read(const uint8_t *meta, size_t bytes, struct result_facts *ret_facts)
{
    struct wire_reader reader = {meta, meta + bytes};
    struct wire_field field;
    struct result_facts facts = {.error_measured = (double)INFINITY};
    while (reader.at < reader.end) {
        size_t at = (size_t)(reader.at - meta);
        if (!meta_next(&reader, &field))
            return false;
        if (field.number == RESULT_META_OUTPUTS && field.data) {
            facts.outputs = facts.past_outputs ? facts.outputs : at;
            facts.past_outputs = (size_t)(reader.at - meta);
        } else if (field.data)
            keep_bytes(&facts, field.number, field.data, field.bytes);
        else
            keep_number(&facts, field.number, field.value);
    }
    *ret_facts = facts;
    return true;
}
