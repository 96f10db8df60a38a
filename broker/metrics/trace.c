#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meta_fields.h"
#include "wire_reader.h"

/* ---- W3C trace context ---- */

static int hex(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1; /* upper case is not allowed */
}

/* False unless all digits are hexadecimal; *ret_any: some byte is not zero. */
static bool read_hex(const char *text, uint8_t *to, size_t bytes, bool *ret_any)
{
    *ret_any = false;
    for (size_t i = 0; i < bytes; i++) {
        int high = hex(text[2 * i]), low = high < 0 ? -1 : hex(text[2 * i + 1]);
        if (low < 0)
            return false;
        to[i] = (uint8_t)(high * 16 + low);
        *ret_any |= to[i] != 0;
    }
    return true;
}

bool trace_context_parse(const char *text, struct trace_context *ret_context)
{
    struct trace_context context = {.valid = false};
    bool trace = false, parent = false, flags;
    if (strlen(text) != TRACE_PARENT_BYTES || strncmp(text, "00-", 3) != 0 || text[35] != '-' || text[52] != '-' ||
        !read_hex(text + 3, context.trace_id, 16, &trace) || !read_hex(text + 36, context.parent_id, 8, &parent) ||
        !read_hex(text + 53, &context.flags, 1, &flags))
        trace = false;
    context.valid = trace && parent;
    *ret_context = context;
    return context.valid;
}

static char *put_hex(char *to, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *to++ = "0123456789abcdef"[bytes[i] >> 4];
        *to++ = "0123456789abcdef"[bytes[i] & 15];
    }
    return to;
}

void trace_context_write(const struct trace_context *context, const uint8_t span_id[8],
                         char text[TRACE_PARENT_BYTES + 1])
{
    char *at = text;
    memcpy(at, "00-", 3);
    at = put_hex(at + 3, context->trace_id, 16);
    *at++ = '-';
    at = put_hex(at, span_id, 8);
    *at++ = '-';
    at = put_hex(at, &context->flags, 1);
    *at = '\0';
}

/* ---- layers ---- */

static void copy_text(char *to, size_t room, const struct wire_field *field)
{
    size_t count = field->bytes < room - 1 ? field->bytes : room - 1;
    if (count)
        memcpy(to, field->data, count);
    to[count] = '\0';
}

static bool read_layer(const struct wire_field *from, struct trace_layer *to)
{
    struct wire_reader reader = {from->data, from->data + from->bytes};
    struct wire_field field;
    *to = (struct trace_layer){.us = 0};
    while (reader.at < reader.end) {
        if (!meta_next(&reader, &field))
            return false;
        if (field.number == LAYER_TIME_NAME)
            copy_text(to->name, sizeof to->name, &field);
        else if (field.number == LAYER_TIME_OP)
            copy_text(to->op, sizeof to->op, &field);
        else if (field.number == LAYER_TIME_BACKEND)
            copy_text(to->backend, sizeof to->backend, &field);
        else if (field.number == LAYER_TIME_US)
            to->us = (uint32_t)field.value;
    }
    return true;
}

struct trace_layers *trace_layers_read(const uint8_t *meta, size_t bytes)
{
    struct wire_field field;
    uint32_t count = 0;
    for (struct wire_reader r = {meta, meta + bytes}; r.at < r.end && count < TRACE_LAYERS_MAX;) {
        if (!meta_next(&r, &field))
            return NULL;
        count += field.number == RESULT_META_LAYERS && field.data;
    }
    struct trace_layers *layers = count ? calloc(1, sizeof *layers + count * sizeof layers->rows[0]) : NULL;
    if (!layers)
        return NULL;
    atomic_init(&layers->users, 1);
    for (struct wire_reader r = {meta, meta + bytes}; layers->count < count && meta_next(&r, &field);) {
        if (field.number == RESULT_META_LAYERS && field.data && read_layer(&field, &layers->rows[layers->count]))
            layers->count++;
    }
    return layers;
}

struct trace_layers *trace_layers_keep(struct trace_layers *layers)
{
    if (layers)
        atomic_fetch_add_explicit(&layers->users, 1, memory_order_relaxed);
    return layers;
}

void trace_layers_release(struct trace_layers *layers)
{
    if (layers && atomic_fetch_sub_explicit(&layers->users, 1, memory_order_acq_rel) == 1)
        free(layers);
}

/* ---- notes ---- */

void trace_note_attempt(struct trace_note *note, const char *worker, uint64_t sent_us, uint64_t lost_us)
{
    uint32_t at = note->attempts_count < TRACE_ATTEMPTS ? note->attempts_count++ : TRACE_ATTEMPTS - 1;
    struct trace_attempt *attempt = &note->attempts[at];
    snprintf(attempt->worker, sizeof attempt->worker, "%s", worker);
    attempt->sent_us = sent_us;
    attempt->lost_us = lost_us;
}
