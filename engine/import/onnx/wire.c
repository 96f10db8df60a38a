#include "import/onnx/wire.h"

#include <string.h>

bool wire_varint(struct bytes *list, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && list->size > 0; shift += 7) {
        uint8_t byte = *list->at++;
        list->size--;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static bool fixed(struct bytes *list, unsigned size, uint64_t *ret_value)
{
    if (list->size < size)
        return false;
    uint64_t value = 0;
    for (unsigned i = 0; i < size; i++)
        value |= (uint64_t)list->at[i] << (8 * i);
    list->at += size;
    list->size -= size;
    *ret_value = value;
    return true;
}

static bool delimited(struct bytes *message, struct bytes *ret)
{
    uint64_t size;
    if (!wire_varint(message, &size) || size > message->size)
        return false;
    *ret = (struct bytes){message->at, (size_t)size};
    message->at += size;
    message->size -= (size_t)size;
    return true;
}

int wire_next(struct bytes *message, struct wire_field *ret_field)
{
    uint64_t key;
    if (message->size == 0)
        return 0;
    if (!wire_varint(message, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff)
        return -1;
    struct wire_field f = {.number = (uint32_t)(key >> 3)};
    bool ok = false;
    switch (key & 7) {
    case WIRE_VARINT:
        f.type = WIRE_VARINT;
        ok = wire_varint(message, &f.value);
        break;
    case WIRE_FIXED64:
        f.type = WIRE_FIXED64;
        ok = fixed(message, 8, &f.value);
        break;
    case WIRE_BYTES:
        f.type = WIRE_BYTES;
        ok = delimited(message, &f.bytes);
        break;
    case WIRE_FIXED32:
        f.type = WIRE_FIXED32;
        ok = fixed(message, 4, &f.value);
        break;
    default: /* groups are not used by any ONNX message */
        break;
    }
    if (!ok)
        return -1;
    *ret_field = f;
    return 1;
}

uint32_t wire_run(struct bytes *message, uint8_t key, uint32_t room, int64_t *ints, float *floats)
{
    uint32_t count = 0;
    for (struct bytes m = *message; count < room && m.size > 1 && m.at[0] == key; count++) {
        uint64_t value = m.at[1];
        if ((key & 7) == WIRE_VARINT && value < 0x80) {
            m = (struct bytes){m.at + 2, m.size - 2}; /* most are small */
        } else {
            m = (struct bytes){m.at + 1, m.size - 1};
            if ((key & 7) == WIRE_VARINT ? !wire_varint(&m, &value) : !fixed(&m, 4, &value))
                break;
        }
        if (ints)
            ints[count] = (int64_t)value;
        else if (floats)
            floats[count] = bits_to_float(value);
        *message = m;
    }
    return count;
}

uint64_t wire_lacks(struct bytes message)
{
    struct wire_field f;
    struct bytes last;
    int got;
    do {
        last = message;
        got = wire_next(&message, &f);
    } while (got == 1);
    uint64_t key = 0, size = 0;
    bool claims = got < 0 && wire_varint(&last, &key) && (key & 7) == WIRE_BYTES && wire_varint(&last, &size);
    return claims && size > last.size ? size - last.size : 0;
}

int64_t wire_count(const struct wire_field *field, unsigned item_bytes)
{
    if (field->type != WIRE_BYTES)
        return 1;
    if (item_bytes)
        return field->bytes.size % item_bytes ? -1 : (int64_t)(field->bytes.size / item_bytes);
    int64_t count = 0;
    for (size_t i = 0; i < field->bytes.size; i++)
        count += !(field->bytes.at[i] & 0x80);
    return count;
}

bool wire_item(const struct wire_field *field, struct bytes *list, unsigned item_bytes, uint64_t *ret_value)
{
    if (field->type != WIRE_BYTES) {
        *ret_value = field->value;
        return true;
    }
    return item_bytes ? fixed(list, item_bytes, ret_value) : wire_varint(list, ret_value);
}

bool bytes_are(struct bytes b, const char *text)
{
    return b.size == strlen(text) && memcmp(b.at ? (const void *)b.at : "", text, b.size) == 0;
}

float bits_to_float(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}
