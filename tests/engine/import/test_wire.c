/* The wire reader: bounds and broken encodings. */
#include <criterion/criterion.h>

#include "import/onnx/wire.h"

static int next(const uint8_t *bytes, size_t size, struct wire_field *field)
{
    struct bytes message = {bytes, size};
    return wire_next(&message, field);
}

Test(wire, fields_of_every_type)
{
    const uint8_t bytes[] = {0x08, 0x96, 0x01, 0x12, 0x02, 'h', 'i', 0x1d, 0, 0, 0x80,
                             0x3f, 0x21, 1,    0,    0,    0,   0,   0,    0, 0};
    struct bytes message = {bytes, sizeof bytes};
    struct wire_field f;
    cr_assert_eq(wire_next(&message, &f), 1);
    cr_assert_eq(f.value, 150);
    cr_assert_eq(wire_next(&message, &f), 1);
    cr_assert(bytes_are(f.bytes, "hi"));
    cr_assert_eq(wire_next(&message, &f), 1);
    cr_assert_float_eq(bits_to_float(f.value), 1, 0);
    cr_assert_eq(wire_next(&message, &f), 1);
    cr_assert_eq(f.value, 1);
    cr_assert_eq(wire_next(&message, &f), 0);
}

Test(wire, lengths_beyond_the_end_and_endless_varints_are_broken)
{
    static const uint8_t too_long[] = {0x12, 0x05, 'a'},
                         endless[11] = {0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    static const uint8_t huge[] = {0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
                         zero_field[] = {0x00, 0x00};
    static const uint8_t group[] = {0x0b}, short_fixed[] = {0x0d, 1, 2};
    struct wire_field f;
    cr_assert_eq(next(too_long, sizeof too_long, &f), -1);
    cr_assert_eq(next(endless, sizeof endless, &f), -1);
    cr_assert_eq(next(huge, sizeof huge, &f), -1);
    cr_assert_eq(next(zero_field, sizeof zero_field, &f), -1);
    cr_assert_eq(next(group, sizeof group, &f), -1);
    cr_assert_eq(next(short_fixed, sizeof short_fixed, &f), -1);
}

Test(wire, packed_lists_are_counted_before_they_are_read)
{
    static const uint8_t bytes[] = {0x3a, 0x04, 0x80, 0x01, 0x02, 0x03};
    struct wire_field f;
    uint64_t item;
    cr_assert_eq(next(bytes, sizeof bytes, &f), 1);
    cr_assert_eq(wire_count(&f, 0), 3);
    cr_assert_eq(wire_count(&f, 4), 1);
    cr_assert_eq(wire_count(&f, 8), -1);
    struct bytes list = f.bytes;
    cr_assert(wire_item(&f, &list, 0, &item));
    cr_assert_eq(item, 128);
}
