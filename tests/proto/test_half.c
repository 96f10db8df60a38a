/* Conversions against definitions written with doubles and ldexp: slower and in another way than the code under test. */
#include "penstock/dtype.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double f16_by_definition(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double magnitude = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return half >> 15 ? -magnitude : magnitude;
}

Test(half, every_f16_means_what_the_definition_says)
{
    for (uint32_t half = 0; half < 65536; half++) {
        float value = pen_f16_to_f32((uint16_t)half);
        if ((half & 0x7C00) == 0x7C00) {
            cr_assert((half & 0x3FF) ? isnan(value) : isinf(value), "0x%04x", half);
            cr_assert_eq(signbit(value) != 0, half >> 15);
            continue;
        }
        cr_assert_eq((double)value, f16_by_definition((uint16_t)half), "0x%04x", half);
        cr_assert_eq(bits_of(value) >> 31, half >> 15, "0x%04x", half);
    }
}

Test(half, every_f16_survives_the_round_trip)
{
    for (uint32_t half = 0; half < 65536; half++) {
        uint16_t back = pen_f32_to_f16(pen_f16_to_f32((uint16_t)half));
        if ((half & 0x7C00) == 0x7C00 && (half & 0x3FF))
            cr_assert_eq(back, half | 0x200, "NaN 0x%04x gave 0x%04x", half, back);
        else
            cr_assert_eq(back, half, "0x%04x gave 0x%04x", half, back);
    }
}

/* Between each two neighbours: just below, at and just above the middle. */
Test(half, f16_rounds_to_nearest_even_between_all_neighbours)
{
    for (uint32_t half = 0; half < 0x7C00; half++) {
        double low = f16_by_definition((uint16_t)half),
               high = half == 0x7BFF ? 65536.0 : f16_by_definition((uint16_t)(half + 1));
        float middle = (float)((low + high) / 2);
        uint32_t even = half & 1 ? half + 1 : half;
        cr_assert_eq(pen_f32_to_f16(middle), even, "middle above 0x%04x", half);
        cr_assert_eq(pen_f32_to_f16(nextafterf(middle, 0)), half, "below the middle above 0x%04x", half);
        cr_assert_eq(pen_f32_to_f16(nextafterf(middle, INFINITY)), half + 1, "above the middle above 0x%04x", half);
        cr_assert_eq(pen_f32_to_f16(-middle), even | 0x8000u);
    }
}

Test(half, f16_overflow_infinity_nan_and_tiny)
{
    cr_assert_eq(pen_f32_to_f16(65504.0f), 0x7BFF);
    cr_assert_eq(pen_f32_to_f16(65519.0f), 0x7BFF);
    cr_assert_eq(pen_f32_to_f16(65520.0f), 0x7C00);
    cr_assert_eq(pen_f32_to_f16(INFINITY), 0x7C00);
    cr_assert_eq(pen_f32_to_f16(-3e38f), 0xFC00);
    cr_assert_eq(pen_f32_to_f16(1e-30f), 0);
    cr_assert_eq(pen_f32_to_f16(float_of(1)), 0);
    cr_assert_eq(pen_f32_to_f16(-0.0f), 0x8000);
    cr_assert_eq(pen_f32_to_f16(float_of(0x7F800001)), 0x7E00);
    cr_assert_eq(pen_f32_to_f16(float_of(0xFFC00000)), 0xFE00);
}

Test(half, every_bf16_survives_the_round_trip)
{
    for (uint32_t value = 0; value < 65536; value++) {
        float wide = pen_bf16_to_f32((uint16_t)value);
        cr_assert_eq(bits_of(wide) & 0x7FFFFFFF, (value & 0x7FFF) << 16);
        uint16_t back = pen_f32_to_bf16(wide);
        if ((value & 0x7F80) == 0x7F80 && (value & 0x7F))
            cr_assert_eq(back, value | 0x40, "NaN 0x%04x", value);
        else
            cr_assert_eq(back, value, "0x%04x", value);
    }
}

Test(half, bf16_rounds_to_nearest_even)
{
    cr_assert_eq(pen_f32_to_bf16(float_of(0x3F808000)), 0x3F80);
    cr_assert_eq(pen_f32_to_bf16(float_of(0x3F808001)), 0x3F81);
    cr_assert_eq(pen_f32_to_bf16(float_of(0x3F818000)), 0x3F82);
    cr_assert_eq(pen_f32_to_bf16(float_of(0x3F817FFF)), 0x3F81);
    cr_assert_eq(pen_f32_to_bf16(float_of(0x7F7FFFFF)), 0x7F80);
    cr_assert_eq(pen_f32_to_bf16(float_of(0x00000001)), 0);
    cr_assert_eq(pen_f32_to_bf16(float_of(0x7F800001)), 0x7FC0);
    cr_assert_eq(pen_f32_to_bf16(float_of(0xFFFFFFFF)), 0xFFFF);
}
