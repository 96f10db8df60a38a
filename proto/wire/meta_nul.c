/* meta_nul.c - finds NUL bytes in the texts of a packed meta: after unpacking they look like the end of a text. */
#include "tensor_codec.h"

#include <string.h>

#include "wire_reader.h"

#define DEPTH_MAX 16u /* depth of nested messages; ours have four */

struct cursor {
    const uint8_t *at, *end;
};

static inline uint64_t read_varint(struct cursor *cursor)
{
    uint64_t value = 0;
    if (cursor->at < cursor->end && *cursor->at < 0x80)
        return *cursor->at++;
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

/* The first NUL byte from there on; NULL: none. */
static const uint8_t *next_nul(const uint8_t *at, const uint8_t *end)
{
    return at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;
}

static const char *look(const ProtobufCMessageDescriptor *descriptor, struct cursor cursor, const uint8_t *nul,
                        unsigned depth);

/* A field with a NUL byte among its bytes. */
static const char *look_at_field(const ProtobufCFieldDescriptor *field, struct cursor bytes, const uint8_t *nul,
                                 unsigned depth)
{
    if (field && field->type == PROTOBUF_C_TYPE_STRING)
        return field->name;
    return field && field->type == PROTOBUF_C_TYPE_MESSAGE ? look(field->descriptor, bytes, nul, depth + 1) : NULL;
}

/* Passes over a field that is no text, bytes or message. False: a kind that we do not use; protobuf-c refuses it,
   too. */
static bool pass_number(struct cursor *cursor, enum wire kind)
{
    if (kind == WIRE_VARINT)
        read_varint(cursor);
    else if (kind == WIRE_FIXED64 || kind == WIRE_FIXED32)
        skip(cursor, kind == WIRE_FIXED64 ? 8 : 4);
    else
        return false;
    return true;
}

/* nul: the first NUL byte in the message. Fields before it are passed over; only the field around it is looked at. */
static const char *look(const ProtobufCMessageDescriptor *descriptor, struct cursor cursor, const uint8_t *nul,
                        unsigned depth)
{
    const char *found = NULL;
    while (!found && nul && cursor.at < cursor.end && depth < DEPTH_MAX) {
        uint64_t key = read_varint(&cursor);
        if ((key & 7) == WIRE_BYTES) {
            uint64_t told = read_varint(&cursor), left = (uint64_t)(cursor.end - cursor.at);
            struct cursor bytes = {cursor.at, cursor.at + (told < left ? told : left)};
            if (nul < bytes.at) /* in the key or the length: 5 spelt as 85 00 */
                nul = next_nul(bytes.at, cursor.end);
            if (nul && nul < bytes.end)
                found = look_at_field(protobuf_c_message_descriptor_get_field(descriptor, (unsigned)(key >> 3)), bytes,
                                      nul, depth);
            cursor.at = bytes.end;
        } else if (!pass_number(&cursor, (enum wire)(key & 7))) {
            return NULL;
        }
        if (nul && nul < cursor.at)
            nul = next_nul(cursor.at, cursor.end);
    }
    return found;
}

const char *meta_nul(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes, size_t size)
{
    const uint8_t *nul = next_nul(bytes, bytes + size);
    return nul ? look(descriptor, (struct cursor){bytes, bytes + size}, nul, 0) : NULL;
}
