/*
 * fixed_point.h - numbers of 16 bits with a fixed point, as TFLite's integer kernels compute with them: multiplied by a scale of 31 bits, sigmoid, tanh.
 *
 * A number Qm.n has m bits before the point and n = 15 - m behind it. All functions are exact integers, so that every compiler and processor gives the same
 * bits; loops around them become vectors. Source: gemmlowp's fixedpoint (exp by a Taylor series and a table of powers, quotients by Newton's steps) and
 * TFLite's MultiplyByQuantizedMultiplier.
 * Threads: any (pure).
 */
#ifndef FIXED_POINT_H
#define FIXED_POINT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* A factor: multiplier * 2^(shift - 31). */
struct fixed_scale {
    int32_t multiplier, shift;
};

/* The factor nearest to `real`, which is not negative. Factors below 2^-32 are 0. */
static inline struct fixed_scale fixed_scale_of(double real)
{
    int shift = 0;
    int64_t q = llround(frexp(real, &shift) * 2147483648.0);
    if (q == (int64_t)1 << 31) {
        q /= 2;
        shift++;
    }
    if (shift < -31 || !(real > 0.0)) {
        return (struct fixed_scale){0, 0};
    }
    return shift > 30 ? (struct fixed_scale){INT32_MAX, 30} : (struct fixed_scale){(int32_t)q, shift};
}

/* x / 2^bits; halves go away from zero. */
static inline int32_t fixed_shift(int32_t x, int bits)
{
    int32_t mask = (int32_t)((1u << bits) - 1), rest = x & mask;
    return (x >> bits) + (rest > (mask >> 1) + (x < 0));
}

/* x times a factor. It rounds twice, as TFLite does: after the product and after the shift. A shift to the left wraps. */
static inline int32_t fixed_scaled(int32_t x, struct fixed_scale s)
{
    const int left = s.shift > 0 ? s.shift : 0, right = s.shift > 0 ? 0 : -s.shift;
    const int64_t product = (int64_t)(int32_t)((uint32_t)x << left) * s.multiplier;
    return fixed_shift((int32_t)((product + ((int64_t)1 << 30)) >> 31), right);
}

static inline int16_t fixed_clamp(int32_t x)
{
    return (int16_t)(x < -32768 ? -32768 : x > 32767 ? 32767 : x);
}

/* Qa * Qb = Q(a + b), rounded; never of -1 and -1. */
static inline int16_t fixed_mul(int16_t a, int16_t b)
{
    return (int16_t)((((int32_t)a * b >> 14) + 1) >> 1);
}

/* e^a of a in [-1/4, 0), both Q0.15: a Taylor series around -1/8. */
static inline int16_t fixed_exp_quarter(int16_t a)
{
    const int16_t at = 28918, third = 10923; /* e^(-1/8), 1/3 */
    const int16_t x = (int16_t)(a + (1 << 12)), x2 = fixed_mul(x, x), x3 = fixed_mul(x2, x), x4 = fixed_mul(x2, x2);
    const int16_t high = (int16_t)(fixed_mul((int16_t)(fixed_shift(x4, 2) + x3), third) + x2);
    return fixed_clamp(at + fixed_mul(at, (int16_t)(x + fixed_shift(high, 1))));
}

/* e^a of a <= 0, a of Q(bits), 0 to 13. Q0.15 */
static inline int16_t fixed_exp(int16_t a, int bits)
{
    static const int16_t powers[] = {25520, 19875, 12055, 4435, 600, 11, 0}; /* e^-(2^i), i from -2 on */
    const int fraction = 15 - bits;
    const int16_t quarter = (int16_t)(1 << (fraction - 2)), part = (int16_t)((a & (quarter - 1)) - quarter),
                  rest = (int16_t)(part - a);
    int16_t y = fixed_exp_quarter(fixed_clamp(part * (1 << bits)));
    for (int i = 0; i < 7; i++) {
        const int32_t bit = bits > i - 2 ? 1 << (fraction + i - 2) : 0;
        y = (rest & bit) != 0 ? fixed_mul(y, powers[i]) : y;
    }
    const int32_t least = bits > 5 ? -(1 << (20 - bits)) : -32768; /* -32 */
    return (int16_t)(a == 0 ? 32767 : a < least ? 0 : y);
}

/* 2 / (1 + a) of a in [0, 1]: Q2.13 from Q0.15. */
static inline int16_t fixed_quotient(int16_t a)
{
    const int16_t half = (int16_t)((a + 32768) >> 1);       /* (1 + a) / 2 */
    int16_t x = (int16_t)(23130 + fixed_mul(half, -15420)); /* 48/17 - 32/17 half */
    for (int i = 0; i < 3; i++) {
        const int16_t off = (int16_t)((1 << 13) - fixed_mul(half, x));
        x = (int16_t)(x + fixed_clamp(fixed_mul(x, off) * 4));
    }
    return x;
}

/* 1 / (1 + e^-x), Q0.15 from Q3.12. */
static inline int16_t fixed_sigmoid(int16_t x)
{
    const int16_t from = (int16_t)(x > 0 ? -x : x);
    const int16_t y = fixed_clamp(fixed_quotient(fixed_exp(from, 3)) * 2);
    return (int16_t)(x == 0 ? 16384 : x > 0 ? y : 32767 - y);
}

/* tanh x, Q0.15 from Q(bits), 0 to 12. */
static inline int16_t fixed_tanh(int16_t x, int bits)
{
    const int16_t from = (int16_t)(x > 0 ? -x : x);
    const int16_t y = fixed_clamp((fixed_quotient(fixed_exp(from, bits + 1)) - (1 << 13)) * 4);
    return (int16_t)(x == 0 ? 0 : x > 0 ? y : -y);
}

/* a * b of numbers whose points lie anywhere, rounded. */
static inline int32_t fixed_high_mul(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

static inline int32_t fixed_raised(int32_t x, int bits)
{
    const int64_t y = (int64_t)x * ((int64_t)1 << bits);
    return (int32_t)(y < INT32_MIN ? INT32_MIN : y > INT32_MAX ? INT32_MAX : y);
}

/* 1 / sqrt(x) as a factor, by five of Newton's steps from 1; the numbers between are Q3.28. */
static inline struct fixed_scale fixed_inverse_root(int32_t x)
{
    int right = 11;
    if (x <= 1) {
        return (struct fixed_scale){INT32_MAX, 0};
    }
    for (; x >= 1 << 29; right++) {
        x /= 4;
    }
    const int pairs = (__builtin_clz((uint32_t)x) - 1) / 2 - 1;
    right -= pairs;
    x = x * (1 << 2 * pairs);
    const int32_t half = fixed_shift(x >> 1, 1), three_halves = (1 << 28) + (1 << 27);
    int32_t y = 1 << 28;
    for (int i = 0; i < 5; i++) {
        const int32_t cube = fixed_raised(fixed_high_mul(fixed_high_mul(y, y), y), 6);
        y = fixed_raised(fixed_high_mul(three_halves, y) - fixed_high_mul(half, cube), 3);
    }
    y = fixed_high_mul(y, 1518500250); /* sqrt(1/2) */
    return right < 0 ? (struct fixed_scale){(int32_t)((uint32_t)y << -right), 0} : (struct fixed_scale){y, -right};
}

#endif
