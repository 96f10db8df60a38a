#include "transcode.h"

#include <string.h>

/* ---- wire format ---- */

void wire_varint(struct bytes *to, uint64_t value)
{
    unsigned char text[10];
    size_t used = 0;
    for (; value > 127; value >>= 7)
        text[used++] = (unsigned char)(value | 128);
    text[used++] = (unsigned char)value;
    bytes_add(to, text, used);
}

void wire_number(struct bytes *to, uint32_t field, uint64_t value)
{
    wire_varint(to, (uint64_t)field << 3);
    wire_varint(to, value);
}

void wire_head(struct bytes *to, uint32_t field, uint64_t bytes)
{
    wire_varint(to, (uint64_t)field << 3 | 2);
    wire_varint(to, bytes);
}

void wire_bytes(struct bytes *to, uint32_t field, const void *data, size_t bytes)
{
    wire_head(to, field, bytes);
    if (bytes)
        bytes_add(to, data, bytes);
}

void wire_text(struct bytes *to, uint32_t field, const char *text)
{
    wire_bytes(to, field, text, strlen(text));
}

const char *message_text(const ProtobufCMessage *message, const char *name)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
    const char *text = NULL;
    if (field && field->type == PROTOBUF_C_TYPE_STRING && field->label != PROTOBUF_C_LABEL_REPEATED)
        memcpy(&text, (const char *)message + field->offset, sizeof text);
    return text ? text : "";
}

/* ---- values ---- */

#define ENUM_TEXT_BYTES 64
#define MAP_KEY_BYTES   256

static bool take_text(struct json *json, uint32_t id, struct bytes *to)
{
    struct bytes text = {.data = NULL};
    bool well = json_string_add(json, &text);
    if (well)
        wire_bytes(to, id, text.data, text.used);
    bytes_fini(&text);
    return well;
}

static bool take_enum(struct json *json, const ProtobufCFieldDescriptor *field, struct bytes *to)
{
    char text[ENUM_TEXT_BYTES];
    if (!json_string(json, text, sizeof text))
        return false;
    const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value_by_name(field->descriptor, text);
    if (!value)
        return json_fail(json, "the message has no such value");
    wire_number(to, field->id, (uint64_t)(int64_t)value->value);
    return true;
}

static bool take_number(struct json *json, uint32_t id, struct bytes *to)
{
    int64_t value = 0;
    uint64_t large = 0;
    struct json before = *json;
    if (!json_i64(json, &value)) { /* beyond 2^63 */
        *json = before;
        if (!json_u64(json, &large))
            return false;
        value = (int64_t)large;
    }
    wire_number(to, id, (uint64_t)value);
    return true;
}

static bool take_flag(struct json *json, uint32_t id, struct bytes *to)
{
    bool flag = false;
    if (!json_flag(json, &flag))
        return false;
    wire_number(to, id, flag);
    return true;
}

static bool take_object(struct json *json, const ProtobufCMessageDescriptor *descriptor, uint32_t id, struct bytes *to)
{
    struct bytes inner = {.data = NULL};
    bool well = transcode_object(json, descriptor, &inner);
    if (well)
        wire_bytes(to, id, inner.data, inner.used);
    to->failed |= inner.failed;
    bytes_fini(&inner);
    return well;
}

static bool take_value(struct json *json, const ProtobufCFieldDescriptor *field, struct bytes *to)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return take_text(json, field->id, to);
    case PROTOBUF_C_TYPE_BOOL:
        return take_flag(json, field->id, to);
    case PROTOBUF_C_TYPE_ENUM:
        return take_enum(json, field, to);
    case PROTOBUF_C_TYPE_MESSAGE:
        return take_object(json, field->descriptor, field->id, to);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
        return take_number(json, field->id, to);
    default:
        return json_fail(json, "this type of field is in no answer");
    }
}

/* An entry of a map has its key as field 1 and its value as field 2. */
static bool is_map(const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *entry = field->type == PROTOBUF_C_TYPE_MESSAGE ? field->descriptor : NULL;
    return entry && entry->n_fields == 2 && strcmp(entry->fields[0].name, "key") == 0 &&
           entry->fields[0].type == PROTOBUF_C_TYPE_STRING && strcmp(entry->fields[1].name, "value") == 0;
}

static bool take_map(struct json *json, const ProtobufCFieldDescriptor *field, struct bytes *to)
{
    const ProtobufCMessageDescriptor *of = field->descriptor;
    char key[MAP_KEY_BYTES];
    bool first = true;
    json_open(json, '{');
    while (json_member(json, &first, key, sizeof key)) {
        struct bytes entry = {.data = NULL};
        wire_bytes(&entry, 1, key, strlen(key));
        bool well = take_value(json, &of->fields[1], &entry);
        wire_bytes(to, field->id, entry.data, entry.used);
        to->failed |= entry.failed;
        bytes_fini(&entry);
        if (!well)
            return false;
    }
    return !json->why;
}

static bool take_field(struct json *json, const ProtobufCFieldDescriptor *field, struct bytes *to)
{
    bool first = true;
    if (field->label != PROTOBUF_C_LABEL_REPEATED)
        return take_value(json, field, to);
    if (json_peek(json) != JSON_ARRAY)
        return is_map(field) ? take_map(json, field, to) : json_skip(json);
    json_open(json, '[');
    while (json_element(json, &first))
        if (!take_value(json, field, to))
            return false;
    return !json->why;
}

bool transcode_object(struct json *json, const ProtobufCMessageDescriptor *descriptor, struct bytes *to)
{
    char member[ENUM_TEXT_BYTES];
    bool first = true;
    json_open(json, '{');
    while (json_member(json, &first, member, sizeof member)) {
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(descriptor, member);
        if (!(field ? take_field(json, field, to) : json_skip(json)))
            return false;
    }
    return !json->why;
}

bool transcode_list(struct json *json, const ProtobufCMessageDescriptor *descriptor, const char *name, struct bytes *to)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(descriptor, name);
    return field && take_field(json, field, to);
}

/* ---- maps ---- */

static const ProtobufCFieldDescriptor *entry_field(const ProtobufCFieldDescriptor *map, unsigned id)
{
    return protobuf_c_message_descriptor_get_field(map->descriptor, id);
}

static bool read_name(struct json json, struct bytes *to)
{
    char member[ENUM_TEXT_BYTES];
    bool first = true;
    json_open(&json, '{');
    while (json_member(&json, &first, member, sizeof member))
        if (strcmp(member, "name") == 0)
            return json_string_add(&json, to);
        else if (!json_skip(&json))
            return false;
    return false;
}

bool transcode_named(struct json *json, const ProtobufCMessageDescriptor *descriptor, const char *name,
                     struct bytes *to)
{
    const ProtobufCFieldDescriptor *map = protobuf_c_message_descriptor_get_field_by_name(descriptor, name);
    bool first = true;
    json_open(json, '[');
    while (map && json_element(json, &first)) {
        struct bytes key = {.data = NULL}, entry = {.data = NULL};
        bool well = read_name(*json, &key);
        wire_bytes(&entry, 1, key.data, key.used);
        well = well && take_value(json, entry_field(map, 2), &entry);
        wire_bytes(to, map->id, entry.data, entry.used);
        to->failed |= key.failed || entry.failed;
        bytes_fini(&key);
        bytes_fini(&entry);
        if (!well)
            return json_fail(json, "a row without a name");
    }
    return map && !json->why;
}

/* SettingValue of traces is a list of texts; that of the log has one of three types. */
static bool take_setting(struct json *json, const ProtobufCMessageDescriptor *value, struct bytes *to)
{
    const ProtobufCFieldDescriptor *list = protobuf_c_message_descriptor_get_field_by_name(value, "value");
    enum json_kind kind = json_peek(json);
    const char *name = kind == JSON_STRING ? "string_param" : kind == JSON_NUMBER ? "uint32_param" : "bool_param";
    if (list)
        return kind == JSON_ARRAY ? take_field(json, list, to) : take_value(json, list, to);
    return take_value(json, protobuf_c_message_descriptor_get_field_by_name(value, name), to);
}

bool transcode_settings(struct json *json, const ProtobufCMessageDescriptor *descriptor, struct bytes *to)
{
    const ProtobufCFieldDescriptor *map = protobuf_c_message_descriptor_get_field_by_name(descriptor, "settings");
    char member[ENUM_TEXT_BYTES];
    bool first = true;
    json_open(json, '{');
    while (map && json_member(json, &first, member, sizeof member)) {
        struct bytes value = {.data = NULL}, entry = {.data = NULL};
        bool well = take_setting(json, entry_field(map, 2)->descriptor, &value);
        wire_text(&entry, 1, member);
        wire_bytes(&entry, 2, value.data, value.used);
        wire_bytes(to, map->id, entry.data, entry.used);
        to->failed |= value.failed || entry.failed;
        bytes_fini(&value);
        bytes_fini(&entry);
        if (!well)
            return false;
    }
    return map && !json->why;
}
