#include "wire_reader.h"

bool meta_varint_long(struct wire_reader *reader, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && reader->at < reader->end; shift += 7) {
        uint8_t byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static bool skip(struct wire_reader *r, uint64_t bytes)
{
    if (bytes > (uint64_t)(r->end - r->at))
        return false;
    r->at += bytes;
    return true;
}

bool meta_next(struct wire_reader *reader, struct wire_field *ret_field)
{
    uint64_t key, value;
    struct wire_field field = {.data = NULL};
    if (!meta_varint(reader, &key) || key >> 3 == 0)
        return false;
    field.number = key >> 3;
    switch (key & 7) {
    case WIRE_VARINT:
        if (!meta_varint(reader, &field.value))
            return false;
        break;
    case WIRE_BYTES:
        if (!meta_varint(reader, &value) || !skip(reader, value))
            return false;
        field.data = reader->at - value;
        field.bytes = (size_t)value;
        break;
    case WIRE_FIXED64:
        if (!skip(reader, 8))
            return false;
        field.number = 0;
        break;
    case WIRE_FIXED32:
        if (!skip(reader, 4))
            return false;
        field.number = 0;
        break;
    default:
        return false;
    }
    *ret_field = field;
    return true;
}

size_t wire_put_varint(uint8_t *bytes, uint64_t value)
{
    size_t n = 0;
    while (value >= 0x80) {
        bytes[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    bytes[n++] = (uint8_t)value;
    return n;
}

size_t wire_put_key(uint8_t *bytes, uint32_t field, enum wire kind)
{
    return wire_put_varint(bytes, (uint64_t)field << 3 | kind);
}
