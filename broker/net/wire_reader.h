/*
 * wire_reader.h - the fields of a packed protobuf message, one after the other, without unpacking it. Threads: any (pure functions).
 */
#ifndef WIRE_READER_H
#define WIRE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a field stands on the wire (protocol buffers, encoding). */
enum wire { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_reader {
    const uint8_t *at, *end;
};

struct wire_field {
    uint64_t number, value; /* number 0: of a kind that no meta of ours uses; value: of a varint */
    const uint8_t *data;    /* of a text, bytes or message: borrowed; NULL = another kind */
    size_t bytes;
};

/* False at the end, and where what follows is no well-formed field. */
bool wire_next(struct wire_reader *reader, struct wire_field *ret_field);

#endif
