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

bool meta_fixed(struct wire_reader *reader, enum wire kind, struct wire_field *ret_field)
{
    ptrdiff_t bytes = kind == WIRE_FIXED64 ? 8 : 4;
    if (bytes > reader->end - reader->at)
        return false;
    ret_field->fixed = kind == WIRE_FIXED64 ? ret_field->number : 0;
    for (ptrdiff_t i = 0; kind == WIRE_FIXED64 && i < bytes; i++)
        ret_field->value |= (uint64_t)reader->at[i] << 8 * i;
    reader->at += bytes;
    ret_field->number = 0;
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
