/* meta_nul.c - finds NUL bytes in the texts of a packed meta: after unpacking they look like the end of a text. */
#include "tensor_codec.h"

#include <string.h>

#include "wire_reader.h"

#define DEPTH_MAX 16u /* depth of nested messages; ours have four */

struct cursor {
    const uint8_t *at, *end;
};

static uint64_t read_varint(struct cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0; cursor->at < cursor->end && shift < 64; shift += 7) {
        uint8_t byte = *cursor->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            break;
    }
    return value;
}

static void skip(struct cursor *cursor, size_t bytes)
{
    size_t left = (size_t)(cursor->end - cursor->at);
    cursor->at += bytes < left ? bytes : left;
}

static const char *look(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size,
                        unsigned depth);

/* A field of that many bytes. */
static const char *look_at_field(const ProtobufCFieldDescriptor *field, const uint8_t *bytes, size_t size,
                                 unsigned depth)
{
    if (field && field->type == PROTOBUF_C_TYPE_STRING)
        return memchr(bytes, '\0', size) ? field->name : NULL;
    return field && field->type == PROTOBUF_C_TYPE_MESSAGE ? look(field->descriptor, bytes, size, depth + 1) : NULL;
}

static const char *look(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size, unsigned depth)
{
    struct cursor cursor = {bytes, bytes + size};
    const char *found = NULL;
    while (!found && cursor.at < cursor.end && depth < DEPTH_MAX) {
        uint64_t key = read_varint(&cursor);
        switch ((enum wire)(key & 7)) {
        case WIRE_VARINT:
            read_varint(&cursor);
            break;
        case WIRE_FIXED64:
            skip(&cursor, 8);
            break;
        case WIRE_FIXED32:
            skip(&cursor, 4);
            break;
        case WIRE_BYTES: {
            uint64_t told = read_varint(&cursor), left = (uint64_t)(cursor.end - cursor.at);
            size_t length = (size_t)(told < left ? told : left);
            found = look_at_field(protobuf_c_message_descriptor_get_field(descriptor, (unsigned)(key >> 3)), cursor.at,
                                  length, depth);
            skip(&cursor, length);
            break;
        }
        default:
            return NULL; /* a kind that we do not use: protobuf-c refuses it, too */
        }
    }
    return found;
}

const char *meta_nul(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size)
{
    return size > 0 && memchr(bytes, '\0', size) ? look(descriptor, bytes, size, 0) : NULL;
}
