#include "backend/xnnpack/number.h"

#include <math.h>
#include <string.h>

bool number_integer(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_I64 || dtype == PEN_DTYPE_I32;
}

size_t number_bytes(enum pen_dtype dtype)
{
    return pen_dtype_bits(dtype) / 8;
}

#define ARITHMETIC(name, type, wide)                                                                                   \
    static type name##_div(type a, type b)                                                                             \
    {                                                                                                                  \
        return b == 0 ? 0 : b == -1 ? (type)(0 - (wide)a) : (type)(a / b);                                             \
    }                                                                                                                  \
    static type name##_mod(type a, type b, bool python)                                                                \
    {                                                                                                                  \
        type m = b == 0 || b == -1 ? 0 : (type)(a % b);                                                                \
        return python && m != 0 && (m < 0) != (b < 0) ? (type)(m + b) : m;                                             \
    }                                                                                                                  \
    /* a^b modulo 2^bits; a negative power of anything but 1 and -1 is 0. */                                           \
    static type name##_pow(type a, type b)                                                                             \
    {                                                                                                                  \
        wide base = (wide)a, y = 1;                                                                                    \
        if (b < 0) {                                                                                                   \
            return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0;                                                   \
        }                                                                                                              \
        for (; b > 0; b = (type)(b / 2), base *= base) {                                                               \
            y = b % 2 != 0 ? y * base : y;                                                                             \
        }                                                                                                              \
        return (type)y;                                                                                                \
    }                                                                                                                  \
    static void name(enum binary_fn fn, bool python, const type *a, size_t sa, const type *b, size_t sb, type *y,      \
                     size_t n)                                                                                         \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            type p = a[i * sa], q = b[i * sb];                                                                         \
            switch (fn) {                                                                                              \
            case BINARY_ADD:                                                                                           \
                y[i] = (type)((wide)p + (wide)q);                                                                      \
                break;                                                                                                 \
            case BINARY_SUB:                                                                                           \
                y[i] = (type)((wide)p - (wide)q);                                                                      \
                break;                                                                                                 \
            case BINARY_MUL:                                                                                           \
                y[i] = (type)((wide)p * (wide)q);                                                                      \
                break;                                                                                                 \
            case BINARY_DIV:                                                                                           \
                y[i] = name##_div(p, q);                                                                               \
                break;                                                                                                 \
            case BINARY_MAX:                                                                                           \
                y[i] = p > q ? p : q;                                                                                  \
                break;                                                                                                 \
            case BINARY_MIN:                                                                                           \
                y[i] = p < q ? p : q;                                                                                  \
                break;                                                                                                 \
            case BINARY_MOD:                                                                                           \
            case BINARY_FMOD:                                                                                          \
                y[i] = name##_mod(p, q, python);                                                                       \
                break;                                                                                                 \
            case BINARY_POW:                                                                                           \
                y[i] = name##_pow(p, q);                                                                               \
                break;                                                                                                 \
            default:                                                                                                   \
                y[i] = 0;                                                                                              \
                break;                                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }

ARITHMETIC(arithmetic_i64, int64_t, uint64_t)
ARITHMETIC(arithmetic_i32, int32_t, uint32_t)

bool number_double(enum pen_dtype dtype, enum binary_fn fn)
{
    return dtype == PEN_DTYPE_F64 && fn <= BINARY_MIN;
}

/* NaN wins, as NumPy's maximum. */
static double arithmetic_f64_one(enum binary_fn fn, double p, double q)
{
    switch (fn) {
    case BINARY_ADD:
        return p + q;
    case BINARY_SUB:
        return p - q;
    case BINARY_MUL:
        return p * q;
    case BINARY_DIV:
        return p / q;
    case BINARY_MAX:
        return p > q || p != p ? p : q;
    default:
        return p < q || p != p ? p : q;
    }
}

static void arithmetic_f64(enum binary_fn fn, struct number_run a, struct number_run b, double *y, size_t n)
{
    const double *p = a.at, *q = b.at;
    for (size_t i = 0; i < n; i++) {
        y[i] = arithmetic_f64_one(fn, p[i * a.step], q[i * b.step]);
    }
}

void number_binary(enum pen_dtype dtype, enum binary_fn fn, bool python_mod, struct number_run a, struct number_run b,
                   void *y, size_t n)
{
    if (dtype == PEN_DTYPE_I64) {
        arithmetic_i64(fn, python_mod, a.at, a.step, b.at, b.step, y, n);
    } else if (dtype == PEN_DTYPE_F64) {
        arithmetic_f64(fn, a, b, y, n);
    } else {
        arithmetic_i32(fn, python_mod, a.at, a.step, b.at, b.step, y, n);
    }
}

#define COMPARE_LOOP(op)                                                                                               \
    for (size_t i = 0; i < n; i++) {                                                                                   \
        y[i] = a[i * sa] op b[i * sb];                                                                                 \
    }                                                                                                                  \
    break

#define COMPARE(name, type)                                                                                            \
    static void name(enum compare_fn fn, const type *a, size_t sa, const type *b, size_t sb, uint8_t *y, size_t n)     \
    {                                                                                                                  \
        switch (fn) {                                                                                                  \
        case COMPARE_EQUAL:                                                                                            \
            COMPARE_LOOP(==);                                                                                          \
        case COMPARE_GREATER:                                                                                          \
            COMPARE_LOOP(>);                                                                                           \
        case COMPARE_GREATER_EQUAL:                                                                                    \
            COMPARE_LOOP(>=);                                                                                          \
        case COMPARE_LESS:                                                                                             \
            COMPARE_LOOP(<);                                                                                           \
        case COMPARE_LESS_EQUAL:                                                                                       \
        default:                                                                                                       \
            COMPARE_LOOP(<=);                                                                                          \
        }                                                                                                              \
    }

COMPARE(compare_f32, float)
COMPARE(compare_f64, double)
COMPARE(compare_i64, int64_t)
COMPARE(compare_i32, int32_t)
COMPARE(compare_u8, uint8_t)
COMPARE(compare_i8, int8_t)

bool number_compares(enum pen_dtype dtype)
{
    return dtype == PEN_DTYPE_F32 || dtype == PEN_DTYPE_F64 || dtype == PEN_DTYPE_I64 || dtype == PEN_DTYPE_I32 ||
           dtype == PEN_DTYPE_U8 || dtype == PEN_DTYPE_I8 || dtype == PEN_DTYPE_BOOL;
}

void number_compare(enum pen_dtype dtype, enum compare_fn fn, const void *a, size_t a_step, const void *b,
                    size_t b_step, uint8_t *y, size_t n)
{
    switch (dtype) {
    case PEN_DTYPE_F32:
        compare_f32(fn, a, a_step, b, b_step, y, n);
        break;
    case PEN_DTYPE_F64:
        compare_f64(fn, a, a_step, b, b_step, y, n);
        break;
    case PEN_DTYPE_I64:
        compare_i64(fn, a, a_step, b, b_step, y, n);
        break;
    case PEN_DTYPE_I32:
        compare_i32(fn, a, a_step, b, b_step, y, n);
        break;
    case PEN_DTYPE_I8:
        compare_i8(fn, a, a_step, b, b_step, y, n);
        break;
    default:
        compare_u8(fn, a, a_step, b, b_step, y, n);
        break;
    }
}

void number_logic(enum logic_fn fn, const uint8_t *a, size_t a_step, const uint8_t *b, size_t b_step, uint8_t *y,
                  size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool p = a[i * a_step] != 0, q = b[i * b_step] != 0;
        y[i] = fn == LOGIC_AND ? (p && q) : fn == LOGIC_OR ? (p || q) : p != q;
    }
}

#define BITS(name, type)                                                                                               \
    static void name(enum logic_fn fn, const type *a, size_t sa, const type *b, size_t sb, type *y, size_t n)          \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            type p = a[i * sa], q = b[i * sb];                                                                         \
            y[i] = (type)(fn == LOGIC_AND ? p & q : fn == LOGIC_OR ? p | q : p ^ q);                                   \
        }                                                                                                              \
    }

BITS(bits_8, uint8_t)
BITS(bits_16, uint16_t)
BITS(bits_32, uint32_t)
BITS(bits_64, uint64_t)

void number_bits(size_t bytes, enum logic_fn fn, struct number_run a, struct number_run b, void *y, size_t n)
{
    switch (bytes) {
    case 1:
        bits_8(fn, a.at, a.step, b.at, b.step, y, n);
        break;
    case 2:
        bits_16(fn, a.at, a.step, b.at, b.step, y, n);
        break;
    case 4:
        bits_32(fn, a.at, a.step, b.at, b.step, y, n);
        break;
    default:
        bits_64(fn, a.at, a.step, b.at, b.step, y, n);
        break;
    }
}

#define SELECT(name, type)                                                                                             \
    static void name(const uint8_t *m, size_t sm, const type *a, size_t sa, const type *b, size_t sb, type *y,         \
                     size_t n)                                                                                         \
    {                                                                                                                  \
        for (size_t i = 0; i < n; i++) {                                                                               \
            type p = a[i * sa], q = b[i * sb];                                                                         \
            y[i] = m[i * sm] != 0 ? p : q;                                                                             \
        }                                                                                                              \
    }

SELECT(select_8, uint8_t)
SELECT(select_16, uint16_t)
SELECT(select_32, uint32_t)
SELECT(select_64, uint64_t)

void number_select(size_t bytes, struct number_run mask, struct number_run a, struct number_run b, void *y, size_t n)
{
    switch (bytes) {
    case 1:
        select_8(mask.at, mask.step, a.at, a.step, b.at, b.step, y, n);
        break;
    case 2:
        select_16(mask.at, mask.step, a.at, a.step, b.at, b.step, y, n);
        break;
    case 4:
        select_32(mask.at, mask.step, a.at, a.step, b.at, b.step, y, n);
        break;
    default:
        select_64(mask.at, mask.step, a.at, a.step, b.at, b.step, y, n);
        break;
    }
}

/* Casts go through double or int64, whichever holds the source exactly. Floats beyond the integer's range saturate; NaN gives 0. */
struct number {
    bool real;
    double d;
    int64_t i;
};

static struct number number_read(enum pen_dtype from, const void *x, size_t at)
{
    switch (from) {
    case PEN_DTYPE_F32:
        return (struct number){true, (double)((const float *)x)[at], 0};
    case PEN_DTYPE_F64:
        return (struct number){true, ((const double *)x)[at], 0};
    case PEN_DTYPE_F16:
        return (struct number){true, (double)pen_f16_to_f32(((const uint16_t *)x)[at]), 0};
    case PEN_DTYPE_BF16:
        return (struct number){true, (double)pen_bf16_to_f32(((const uint16_t *)x)[at]), 0};
    case PEN_DTYPE_I64:
        return (struct number){false, 0.0, ((const int64_t *)x)[at]};
    case PEN_DTYPE_I32:
        return (struct number){false, 0.0, ((const int32_t *)x)[at]};
    case PEN_DTYPE_I8:
        return (struct number){false, 0.0, ((const int8_t *)x)[at]};
    default:
        return (struct number){false, 0.0, ((const uint8_t *)x)[at]};
    }
}

static int64_t integer_of(struct number v, double low, double high)
{
    if (!v.real) {
        return v.i;
    }
    return v.d != v.d    ? 0
           : v.d <= low  ? (int64_t)low
           : v.d >= high ? (high >= 9.2e18 ? INT64_MAX : (int64_t)high)
                         : (int64_t)v.d;
}

static void number_write(enum pen_dtype to, void *y, size_t at, struct number v)
{
    switch (to) {
    case PEN_DTYPE_F32:
        ((float *)y)[at] = v.real ? (float)v.d : (float)v.i;
        break;
    case PEN_DTYPE_F64:
        ((double *)y)[at] = v.real ? v.d : (double)v.i;
        break;
    case PEN_DTYPE_F16:
        ((uint16_t *)y)[at] = pen_f32_to_f16(v.real ? (float)v.d : (float)v.i);
        break;
    case PEN_DTYPE_BF16:
        ((uint16_t *)y)[at] = pen_f32_to_bf16(v.real ? (float)v.d : (float)v.i);
        break;
    case PEN_DTYPE_I64:
        ((int64_t *)y)[at] = integer_of(v, -9223372036854775808.0, 9223372036854775808.0);
        break;
    case PEN_DTYPE_I32:
        ((int32_t *)y)[at] = (int32_t)integer_of(v, -2147483648.0, 2147483647.0);
        break;
    case PEN_DTYPE_BOOL:
        ((uint8_t *)y)[at] = v.real ? v.d != 0.0 : v.i != 0;
        break;
    default:
        break;
    }
}

bool number_casts(enum pen_dtype from, enum pen_dtype to)
{
    bool reads = number_compares(from) || from == PEN_DTYPE_F16 || from == PEN_DTYPE_BF16;
    bool writes = to == PEN_DTYPE_F32 || to == PEN_DTYPE_F64 || to == PEN_DTYPE_F16 || to == PEN_DTYPE_BF16 ||
                  number_integer(to) || to == PEN_DTYPE_BOOL;
    return reads && writes &&
           !(from == PEN_DTYPE_F64 && (to == PEN_DTYPE_F16 || to == PEN_DTYPE_BF16)); /* that one would round twice */
}

/* The pairs that models use get loops of their own. */
static bool cast_fast(enum pen_dtype from, const void *x, enum pen_dtype to, void *y, size_t n)
{
    if (from == PEN_DTYPE_U8 && to == PEN_DTYPE_F32) {
        for (size_t i = 0; i < n; i++) {
            ((float *)y)[i] = (float)((const uint8_t *)x)[i];
        }
    } else if (from == PEN_DTYPE_I64 && to == PEN_DTYPE_F32) {
        for (size_t i = 0; i < n; i++) {
            ((float *)y)[i] = (float)((const int64_t *)x)[i];
        }
    } else if (from == PEN_DTYPE_I32 && to == PEN_DTYPE_F32) {
        for (size_t i = 0; i < n; i++) {
            ((float *)y)[i] = (float)((const int32_t *)x)[i];
        }
    } else if (from == to) {
        memmove(y, x, n * number_bytes(from));
    } else {
        return false;
    }
    return true;
}

void number_cast(enum pen_dtype from, const void *x, enum pen_dtype to, void *y, size_t n)
{
    if (cast_fast(from, x, to, y, n)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        number_write(to, y, i, number_read(from, x, i));
    }
}
