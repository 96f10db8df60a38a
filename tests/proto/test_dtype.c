#include "penstock/dtype.h"

#include <criterion/criterion.h>

Test(dtype, names_parse_back_and_are_unique)
{
    for (int i = 1; i < PEN_DTYPE_COUNT; i++)
        cr_assert_eq((int)pen_dtype_parse(pen_dtype_name((enum pen_dtype)i)), i, "dtype %d", i);
    cr_assert_str_eq(pen_dtype_name(PEN_DTYPE_COUNT), "none");
    cr_assert_str_eq(pen_dtype_name(PEN_DTYPE_NONE), "none");
}

Test(dtype, three_vocabularies_are_understood)
{
    cr_assert_eq(pen_dtype_parse("f32"), PEN_DTYPE_F32);
    cr_assert_eq(pen_dtype_parse("float32"), PEN_DTYPE_F32);
    cr_assert_eq(pen_dtype_parse("FP32"), PEN_DTYPE_F32);
    cr_assert_eq(pen_dtype_parse("UINT8"), PEN_DTYPE_U8);
    cr_assert_eq(pen_dtype_parse("BYTES"), PEN_DTYPE_STRING);
    cr_assert_eq(pen_dtype_parse("BF16"), PEN_DTYPE_BF16);
    cr_assert_eq(pen_dtype_parse("bool"), PEN_DTYPE_BOOL);
}

Test(dtype, other_words_are_none)
{
    static const char *const words[] = {"", "F32", "fp32", "float", "none", "f32 ", "uint", NULL};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        cr_assert_eq(pen_dtype_parse(words[i]), PEN_DTYPE_NONE);
}

Test(dtype, values_are_those_of_onnx)
{
    cr_assert_eq(PEN_DTYPE_F32, 1);
    cr_assert_eq(PEN_DTYPE_STRING, 8);
    cr_assert_eq(PEN_DTYPE_F16, 10);
    cr_assert_eq(PEN_DTYPE_BF16, 16);
    cr_assert_eq(PEN_DTYPE_I4, 22);
}

Test(dtype, bytes_are_packed_and_rounded_up)
{
    static const struct {
        enum pen_dtype dtype;
        uint64_t elements;
        size_t bytes;
    } cases[] = {
        {PEN_DTYPE_F32, 3, 12}, {PEN_DTYPE_C128, 2, 32}, {PEN_DTYPE_U4, 0, 0},
        {PEN_DTYPE_U4, 1, 1},   {PEN_DTYPE_I4, 2, 1},    {PEN_DTYPE_I4, 3, 2},
        {PEN_DTYPE_U2, 4, 1},   {PEN_DTYPE_I2, 5, 2},    {PEN_DTYPE_BOOL, 7, 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t bytes = 999;
        cr_assert_eq(pen_dtype_bytes(cases[i].dtype, cases[i].elements, &bytes), 0);
        cr_assert_eq(bytes, cases[i].bytes, "case %zu: %zu", i, bytes);
    }
}

Test(dtype, bytes_refuse_overflow_and_types_without_size)
{
    size_t bytes = 7;
    cr_assert_eq(pen_dtype_bytes(PEN_DTYPE_F32, UINT64_MAX / 4 + 1, &bytes), -1);
    cr_assert_eq(pen_dtype_bytes(PEN_DTYPE_STRING, 1, &bytes), -1);
    cr_assert_eq(pen_dtype_bytes(PEN_DTYPE_NONE, 1, &bytes), -1);
    cr_assert_eq(pen_dtype_bytes((enum pen_dtype)77, 1, &bytes), -1);
    cr_assert_eq(bytes, 7);
    cr_assert_eq(pen_dtype_bytes(PEN_DTYPE_U4, UINT64_MAX, &bytes), 0);
    cr_assert_eq(bytes, (size_t)1 << 63);
}
