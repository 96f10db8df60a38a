/*
 * wire.h - a bounded reader of protobuf's wire format over borrowed bytes: no recursion, no allocation, no copies.
 *
 * Threads: any.
 */
#ifndef ONNX_WIRE_H
#define ONNX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    const uint8_t *at;
    size_t size;
};

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;     /* VARINT, FIXED64, FIXED32 */
    struct bytes bytes; /* BYTES */
};

/* Takes the next field off the front of *message: 1 = read, 0 = end, -1 = broken. */
int wire_next(struct bytes *message, struct wire_field *ret_field);

/* Bytes that a message's last field claims beyond its end: a file that was cut off. 0 = none, or broken in another way. */
uint64_t wire_lacks(struct bytes message);

/* Takes one number off a packed list. */
bool wire_varint(struct bytes *list, uint64_t *ret_value);

/*
 * Takes fields with this one-byte key off the front while they follow one another, at most `room` of them: varints to ints, 4 bytes each to floats; both NULL:
 * counts only. For lists of hundreds of thousands that a file did not pack.
 */
uint32_t wire_run(struct bytes *message, uint8_t key, uint32_t room, int64_t *ints, float *floats);

/* Numbers a repeated field holds in this one occurrence, packed or not; -1 when broken. item_bytes: 0 = varints, 4 or 8 = fixed. */
int64_t wire_count(const struct wire_field *field, unsigned item_bytes);

/* Reads them in turn: *list starts as field->bytes, or empty when the field is not packed. */
bool wire_item(const struct wire_field *field, struct bytes *list, unsigned item_bytes, uint64_t *ret_value);

bool bytes_are(struct bytes b, const char *text);
float bits_to_float(uint64_t bits);

#endif
