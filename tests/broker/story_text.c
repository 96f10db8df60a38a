#include "story_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ------------------------------------------------------------------------------------------------------------- */

static _Noreturn void bad(const char *what, const char *at)
{
    fprintf(stderr, "story: %s at \"%.60s\"\n", what, at);
    abort();
}

static void skip(const char **text)
{
    while (isspace((unsigned char)**text))
        ++*text;
}

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static char *read_string(const char **text)
{
    if (**text != '"')
        bad("a text in quotes is missing", *text);
    const char *end = strchr(*text + 1, '"');
    if (!end)
        bad("a text has no end", *text);
    char *value = must(strndup(*text + 1, (size_t)(end - *text - 1)));
    *text = end + 1;
    return value;
}

static ProtobufCBinaryData read_bytes(const char **text)
{
    char *end;
    ProtobufCBinaryData value = {.len = strtoul(*text, &end, 10)};
    if (*end != 'x')
        bad("bytes are COUNTxHH", *text);
    value.data = must(malloc(value.len + 1));
    memset(value.data, (int)strtoul(end + 1, &end, 16), value.len);
    *text = end;
    return value;
}

/* One value of the field's type to `to`. */
static void read_value(const ProtobufCFieldDescriptor *field, const char **text, void *to)
{
    char *end = NULL;
    skip(text);
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE: {
        ProtobufCMessage *inner = story_parse(field->descriptor, text);
        memcpy(to, &inner, sizeof inner);
        return;
    }
    case PROTOBUF_C_TYPE_STRING: {
        char *value = read_string(text);
        memcpy(to, &value, sizeof value);
        return;
    }
    case PROTOBUF_C_TYPE_BYTES: {
        ProtobufCBinaryData value = read_bytes(text);
        memcpy(to, &value, sizeof value);
        return;
    }
    case PROTOBUF_C_TYPE_BOOL: {
        protobuf_c_boolean value = strncmp(*text, "true", 4) == 0;
        end = (char *)(uintptr_t)*text + (value ? 4 : 5);
        memcpy(to, &value, sizeof value);
        break;
    }
    case PROTOBUF_C_TYPE_DOUBLE: {
        double value = strtod(*text, &end);
        memcpy(to, &value, sizeof value);
        break;
    }
    case PROTOBUF_C_TYPE_FLOAT: {
        float value = strtof(*text, &end);
        memcpy(to, &value, sizeof value);
        break;
    }
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: {
        uint64_t value = **text == '-' ? (uint64_t)strtoll(*text, &end, 0) : strtoull(*text, &end, 0);
        memcpy(to, &value, sizeof value);
        break;
    }
    case PROTOBUF_C_TYPE_UINT32: {
        uint32_t value = (uint32_t)strtoul(*text, &end, 0);
        memcpy(to, &value, sizeof value);
        break;
    }
    default:
        bad("a field of a type that stories do not have", *text);
    }
    if (end == *text)
        bad("a number is missing", *text);
    *text = end;
}

static size_t size_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FLOAT:
        return 4;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 8;
    }
}

static void read_field(ProtobufCMessage *message, const ProtobufCFieldDescriptor *field, const char **text)
{
    uint8_t *base = (uint8_t *)message;
    if (field->label != PROTOBUF_C_LABEL_REPEATED) {
        if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
            memcpy(base + field->quantifier_offset, &field->id, sizeof field->id);
        read_value(field, text, base + field->offset);
        return;
    }
    size_t count, each = size_of(field->type);
    uint8_t *items;
    memcpy(&count, base + field->quantifier_offset, sizeof count);
    memcpy(&items, base + field->offset, sizeof items);
    items = must(realloc(count ? items : NULL, (count + 1) * each));
    read_value(field, text, items + count * each);
    count++;
    memcpy(base + field->quantifier_offset, &count, sizeof count);
    memcpy(base + field->offset, &items, sizeof items);
}

ProtobufCMessage *story_parse(const ProtobufCMessageDescriptor *type, const char **text)
{
    ProtobufCMessage *message = must(calloc(1, type->sizeof_message));
    protobuf_c_message_init(type, message);
    skip(text);
    if (**text != '{')
        bad("{ is missing", *text);
    ++*text;
    for (skip(text); **text != '}'; skip(text)) {
        char name[64];
        size_t bytes = strcspn(*text, " :{");
        snprintf(name, sizeof name, "%.*s", (int)bytes, *text);
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(type, name);
        if (!field)
            bad("no such field", *text);
        *text += bytes;
        *text += **text == ':';
        read_field(message, field, text);
    }
    ++*text;
    return message;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------- */

static bool varies(const char *name)
{
    static const char *const names[] = {"software",       "broker_uuid",  "broker",      "rss_bytes",  "sealed_secret",
                                        "stored_unix_us", "since_unix_s", "hour_unix_s", "sealed_name"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static void print_bytes(FILE *to, const ProtobufCBinaryData *value)
{
    bool alike = value->len > 0;
    for (size_t i = 1; i < value->len; i++)
        alike = alike && value->data[i] == value->data[0];
    if (alike)
        fprintf(to, "%zux%02x", value->len, value->data[0]);
    for (size_t i = 0; !alike && i < value->len; i++)
        fprintf(to, "%02x", value->data[i]);
}

static void print_value(FILE *to, const ProtobufCFieldDescriptor *field, const void *from)
{
    uint64_t whole = 0;
    double number;
    float single;
    const void *pointer;
    if (varies(field->name)) {
        fprintf(to, " %s: ?", field->name);
        return;
    }
    fprintf(to, " %s%s", field->name, field->type == PROTOBUF_C_TYPE_MESSAGE ? "" : ": ");
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        memcpy(&pointer, from, sizeof pointer);
        fputs(" {", to);
        story_print(to, pointer);
        fputs(" }", to);
        break;
    case PROTOBUF_C_TYPE_STRING:
        memcpy(&pointer, from, sizeof pointer);
        fprintf(to, "\"%s\"", (const char *)pointer);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        print_bytes(to, from);
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(&number, from, sizeof number);
        fprintf(to, "%g", number);
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        memcpy(&single, from, sizeof single);
        fprintf(to, "%g", (double)single);
        break;
    case PROTOBUF_C_TYPE_INT64:
        memcpy(&whole, from, sizeof whole);
        fprintf(to, "%" PRId64, (int64_t)whole);
        break;
    default:
        memcpy(&whole, from, size_of(field->type));
        fprintf(to, "%" PRIu64, whole);
    }
}

static bool is_default(const ProtobufCFieldDescriptor *field, const uint8_t *at)
{
    static const uint8_t zeros[16];
    const char *text;
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        memcpy(&text, at, sizeof text);
        return !text || !*text;
    }
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)(const void *)at)->len == 0;
    return memcmp(at, zeros, size_of(field->type)) == 0;
}

void story_print(FILE *to, const ProtobufCMessage *message)
{
    const uint8_t *base = (const uint8_t *)message;
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t count = 0;
        const uint8_t *items = base + field->offset;
        if (field->label == PROTOBUF_C_LABEL_REPEATED) {
            memcpy(&count, base + field->quantifier_offset, sizeof count);
            memcpy(&items, base + field->offset, sizeof items);
        } else if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
            uint32_t which;
            memcpy(&which, base + field->quantifier_offset, sizeof which);
            count = which == field->id;
        } else {
            count = !is_default(field, items);
        }
        for (size_t k = 0; k < count; k++)
            print_value(to, field, items + k * size_of(field->type));
    }
}
