/*
 * wire_reader.h - reads the fields of a packed protobuf message one after the other, without unpacking it; and writes
 * single parts of one. Threads: any (pure functions).
 */
#ifndef WIRE_READER_H
#define WIRE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a field stands on the wire (protocol buffers, encoding). */
enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

/* Reads from `at` on; the caller sets both ends. */
struct wire_reader {
    const uint8_t *at, *end;
};

struct wire_field {
    uint64_t number,
        value;           /* number 0: a number of fixed size; value: of a varint or of eight bytes (a double's bits) */
    uint64_t fixed;      /* number of a field of eight bytes, else 0 */
    const uint8_t *data; /* of a text, bytes or message: borrowed; NULL = another kind */
    size_t bytes;
};

bool meta_varint_long(struct wire_reader *reader, uint64_t *ret_value);

/* Reads a number of fixed size: one of eight bytes gets its field's number into `fixed`, one of four is passed over. */
bool meta_fixed(struct wire_reader *reader, enum wire kind, struct wire_field *ret_field);

/* Reads a varint; false: it does not end before the reader does, or has more than 64 bits. */
static inline bool meta_varint(struct wire_reader *reader, uint64_t *ret_value)
{
    if (reader->at == reader->end || (*reader->at & 0x80))
        return meta_varint_long(reader, ret_value);
    *ret_value = *reader->at++;
    return true;
}

/* False at the end, or when the next bytes are no well-formed field. */
static inline bool meta_next(struct wire_reader *reader, struct wire_field *ret_field)
{
    uint64_t key, bytes;
    if (!meta_varint(reader, &key) || key >> 3 == 0)
        return false;
    *ret_field = (struct wire_field){.number = key >> 3};
    switch ((enum wire)(key & 7)) {
    case WIRE_VARINT:
        return meta_varint(reader, &ret_field->value);
    case WIRE_BYTES:
        if (!meta_varint(reader, &bytes) || bytes > (uint64_t)(reader->end - reader->at))
            return false;
        ret_field->data = reader->at;
        ret_field->bytes = (size_t)bytes;
        reader->at += bytes;
        return true;
    case WIRE_FIXED64:
    case WIRE_FIXED32:
        return meta_fixed(reader, (enum wire)(key & 7), ret_field);
    default:
        return false;
    }
}

/* Room for a key and the number that follows it. */
#define WIRE_KEY_BYTES    10u
#define WIRE_VARINT_BYTES 10u
/* Writers return how many bytes they wrote. */
size_t wire_put_varint(uint8_t *bytes, uint64_t value);
size_t wire_put_key(uint8_t *bytes, uint32_t field, enum wire kind);

#endif
