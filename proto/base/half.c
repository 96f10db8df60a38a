/*
 * half.c - binary16 and bfloat16 conversions by integer arithmetic: the same bits on every machine and under every rounding mode.
 *
 * binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits. binary32: 1, 8 (bias 127), 23. bfloat16: the upper half of binary32.
 */
#include "penstock/dtype.h"

#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float pen_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = (half >> 10) & 0x1Fu;
    uint32_t mantissa = half & 0x3FFu;

    if (exponent == 0x1F) /* infinity, NaN */
        return float_of(sign | 0x7F800000u | mantissa << 13);
    if (exponent != 0)
        return float_of(sign | (exponent + 127 - 15) << 23 | mantissa << 13);
    if (mantissa == 0)
        return float_of(sign);
    /* A subnormal is mantissa * 2^-24: shift its leading one into the implicit place. */
    uint32_t shift = (uint32_t)__builtin_clz(mantissa) - 21;
    return float_of(sign | (127 - 14 - shift) << 23 | ((mantissa << shift) & 0x3FFu) << 13);
}

/* value >> shift, rounded to nearest even; 1 <= shift <= 31. */
static uint32_t shift_round_even(uint32_t value, uint32_t shift)
{
    uint32_t half = 1u << (shift - 1);
    uint32_t kept = value >> shift;
    uint32_t rest = value & ((1u << shift) - 1);
    return kept + (rest > half || (rest == half && (kept & 1)));
}

uint16_t pen_f32_to_f16(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;

    if (magnitude > 0x7F800000u) /* NaN: quiet, the upper payload bits kept */
        return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
    if (magnitude >= 0x47800000u) /* >= 65536, infinity included */
        return (uint16_t)(sign | 0x7C00u);
    if (magnitude >= 0x38800000u) /* normal: rounding may carry into the exponent, up to infinity, which is right */
        return (uint16_t)(sign | shift_round_even(magnitude - ((127u - 15u) << 23), 13));
    uint32_t exponent = magnitude >> 23;
    if (exponent < 102) /* below half of the least subnormal 2^-24 */
        return (uint16_t)sign;
    return (uint16_t)(sign | shift_round_even((magnitude & 0x7FFFFFu) | 0x800000u, 126 - exponent));
}

float pen_bf16_to_f32(uint16_t value)
{
    return float_of((uint32_t)value << 16);
}

uint16_t pen_f32_to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) /* NaN: quiet, or the kept half could read as infinity */
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)shift_round_even(bits, 16);
}
