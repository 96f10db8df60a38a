#include "backend/reference/element_io.h"

#include <math.h>

/*
 * One row per format: value = (-1)^s * 2^(e - bias) * 1.m, subnormal 2^(1 - bias) * 0.m. Sources: OCP 8-bit floating point specification (E4M3FN, E5M2),
 * the FNUZ variants of Noune et al. 2022 (finite, one NaN at 0x80, no negative zero), OCP microscaling formats (E2M1, E8M0).
 * E2M1 has no NaN: it becomes negative zero, as the official cases have it.
 */
struct format {
    int mantissa, bias, bits;
    uint8_t max_code;      /* largest finite magnitude */
    uint8_t overflow_code; /* what a magnitude beyond it becomes when not saturating */
    uint8_t nan_code;
    bool unsigned_zero; /* FNUZ */
};

static const struct format *format_of(enum pen_dtype dtype)
{
    static const struct format e4m3fn = {3, 7, 8, 0x7E, 0x7F, 0x7F, false};
    static const struct format e4m3fnuz = {3, 8, 8, 0x7F, 0x80, 0x80, true};
    static const struct format e5m2 = {2, 15, 8, 0x7B, 0x7C, 0x7E, false};
    static const struct format e5m2fnuz = {2, 16, 8, 0x7F, 0x80, 0x80, true};
    static const struct format e2m1 = {1, 1, 4, 0x7, 0x7, 0x8, false};
    switch (dtype) {
    case PEN_DTYPE_F8E4M3FN:
        return &e4m3fn;
    case PEN_DTYPE_F8E4M3FNUZ:
        return &e4m3fnuz;
    case PEN_DTYPE_F8E5M2:
        return &e5m2;
    case PEN_DTYPE_F8E5M2FNUZ:
        return &e5m2fnuz;
    default:
        return &e2m1;
    }
}

double small_float_decode(enum pen_dtype dtype, uint8_t code)
{
    if (dtype == PEN_DTYPE_F8E8M0) { /* an exponent alone */
        return code == 0xFF ? (double)NAN : ldexp(1.0, (int)code - 127);
    }
    const struct format *f = format_of(dtype);
    uint8_t sign = (uint8_t)(1u << (f->bits - 1));
    uint8_t magnitude = (uint8_t)(code & (sign - 1u));
    if (f->unsigned_zero ? code == 0x80 : (f->bits == 8 && magnitude > f->max_code)) {
        bool infinite = dtype == PEN_DTYPE_F8E5M2 && magnitude == f->overflow_code;
        return !infinite ? (double)NAN : (code & sign) != 0 ? -(double)INFINITY : (double)INFINITY;
    }
    int exponent = magnitude >> f->mantissa;
    int fraction = magnitude & ((1 << f->mantissa) - 1);
    double v = exponent == 0 ? ldexp((double)fraction, 1 - f->bias - f->mantissa)
                             : ldexp((double)(fraction + (1 << f->mantissa)), exponent - f->bias - f->mantissa);
    return (code & sign) != 0 ? -v : v;
}

static uint8_t e8m0_encode(double value, bool saturate, int round)
{
    if (isnan(value) || signbit(value) || (isinf(value) && !saturate)) {
        return 0xFF;
    }
    if (isinf(value)) {
        return 0xFE;
    }
    int exponent = 0;
    double m = value == 0.0 ? 0.0 : frexp(value, &exponent); /* value = m * 2^exponent, m in [0.5, 1) */
    int code = value == 0.0 ? 0 : exponent - 1 + 127;
    if (value != 0.0 && m > 0.5 && (round > 0 || (round == 0 && m >= 0.75))) {
        code++;
    }
    if (code > 0xFE) {
        return saturate ? 0xFE : 0xFF;
    }
    return (uint8_t)(code < 0 ? 0 : code);
}

uint8_t small_float_encode(enum pen_dtype dtype, double value, bool saturate, int round)
{
    if (dtype == PEN_DTYPE_F8E8M0) {
        return e8m0_encode(value, saturate, round);
    }
    const struct format *f = format_of(dtype);
    unsigned sign = signbit(value) ? 1u << (f->bits - 1) : 0u;
    if (isnan(value)) {
        return f->unsigned_zero ? f->nan_code : (uint8_t)(f->nan_code | sign);
    }
    double x = fabs(value);
    uint8_t over = saturate ? f->max_code : f->overflow_code;
    unsigned code = over;
    if (isfinite(x)) {
        int exponent = 0;
        (void)frexp(x, &exponent);
        exponent = exponent - 1 < 1 - f->bias || x == 0.0 ? 1 - f->bias : exponent - 1;
        double q = nearbyint(ldexp(x, f->mantissa - exponent)); /* to nearest, ties to even */
        double wide = ldexp((double)(exponent - (1 - f->bias)), f->mantissa) + q;
        code = wide > (double)f->max_code ? over : (unsigned)wide;
    }
    if (f->unsigned_zero && (code == 0 || code == f->nan_code)) {
        return (uint8_t)code;
    }
    return (uint8_t)(code | sign);
}
