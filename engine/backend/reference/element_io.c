#include "backend/reference/element_io.h"

#include <math.h>

#include "graph/graph.h"

unsigned element_class(enum pen_dtype dtype)
{
    static const uint8_t classes[PEN_DTYPE_COUNT] = {
        [PEN_DTYPE_F32] = ELEMENT_FLOAT,      [PEN_DTYPE_F64] = ELEMENT_FLOAT,
        [PEN_DTYPE_F16] = ELEMENT_FLOAT,      [PEN_DTYPE_BF16] = ELEMENT_FLOAT,
        [PEN_DTYPE_F8E4M3FN] = ELEMENT_FLOAT, [PEN_DTYPE_F8E4M3FNUZ] = ELEMENT_FLOAT,
        [PEN_DTYPE_F8E5M2] = ELEMENT_FLOAT,   [PEN_DTYPE_F8E5M2FNUZ] = ELEMENT_FLOAT,
        [PEN_DTYPE_F8E8M0] = ELEMENT_FLOAT,   [PEN_DTYPE_F4E2M1] = ELEMENT_FLOAT,
        [PEN_DTYPE_I8] = ELEMENT_SIGNED,      [PEN_DTYPE_I16] = ELEMENT_SIGNED,
        [PEN_DTYPE_I32] = ELEMENT_SIGNED,     [PEN_DTYPE_I64] = ELEMENT_SIGNED,
        [PEN_DTYPE_I4] = ELEMENT_SIGNED,      [PEN_DTYPE_I2] = ELEMENT_SIGNED,
        [PEN_DTYPE_U8] = ELEMENT_UNSIGNED,    [PEN_DTYPE_U16] = ELEMENT_UNSIGNED,
        [PEN_DTYPE_U32] = ELEMENT_UNSIGNED,   [PEN_DTYPE_U64] = ELEMENT_UNSIGNED,
        [PEN_DTYPE_U4] = ELEMENT_UNSIGNED,    [PEN_DTYPE_U2] = ELEMENT_UNSIGNED,
        [PEN_DTYPE_BOOL] = ELEMENT_BOOL,      [PEN_DTYPE_STRING] = ELEMENT_TEXT,
        [PEN_DTYPE_C64] = ELEMENT_COMPLEX,    [PEN_DTYPE_C128] = ELEMENT_COMPLEX,
    };
    return (unsigned)dtype < PEN_DTYPE_COUNT ? classes[dtype] : 0;
}

bool element_packed(enum pen_dtype dtype)
{
    unsigned bits = pen_dtype_bits(dtype);
    return bits != 0 && bits < 8;
}

size_t element_size(enum pen_dtype dtype)
{
    if (dtype == PEN_DTYPE_STRING) {
        return sizeof(struct string_view);
    }
    unsigned bits = pen_dtype_bits(dtype);
    return bits < 8 ? 1 : bits / 8;
}

int64_t i64_from_f64(double value)
{
    if (isnan(value)) {
        return 0;
    }
    if (value >= 9223372036854775808.0) {
        return INT64_MAX;
    }
    return value < -9223372036854775808.0 ? INT64_MIN : (int64_t)value;
}

/* Element `index` of a packed array: two or four to a byte, the first in the low bits. */
static uint8_t packed_get(const void *data, unsigned bits, int64_t index)
{
    unsigned per_byte = 8 / bits;
    uint8_t byte = ((const uint8_t *)data)[(uint64_t)index / per_byte];
    unsigned shift = (unsigned)((uint64_t)index % per_byte) * bits;
    return (uint8_t)((unsigned)(byte >> shift) & ((1u << bits) - 1u));
}

static void packed_set(void *data, unsigned bits, int64_t index, uint8_t code)
{
    unsigned per_byte = 8 / bits;
    uint8_t *byte = (uint8_t *)data + (uint64_t)index / per_byte;
    unsigned shift = (unsigned)((uint64_t)index % per_byte) * bits;
    unsigned mask = (1u << bits) - 1u;
    *byte = (uint8_t)((*byte & ~(mask << shift)) | ((code & mask) << shift));
}

static int64_t sign_extend(uint8_t code, unsigned bits)
{
    int64_t half = (int64_t)1 << (bits - 1);
    return ((int64_t)code ^ half) - half;
}

static int64_t packed_i64(const void *data, enum pen_dtype dtype, int64_t index)
{
    unsigned bits = pen_dtype_bits(dtype);
    uint8_t code = packed_get(data, bits, index);
    return element_class(dtype) == ELEMENT_SIGNED ? sign_extend(code, bits) : (int64_t)code;
}

#define AT         (first + i * stride)
#define LOAD(type) ((const type *)data)[AT]
#define EACH(STMT)                                                                                                     \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        STMT;                                                                                                          \
    }                                                                                                                  \
    break

void load_f64(const void *data, enum pen_dtype dtype, int64_t first, int64_t stride, int64_t count, double *ret)
{
    switch (dtype) {
    case PEN_DTYPE_F32:
        EACH(ret[i] = (double)LOAD(float));
    case PEN_DTYPE_F64:
        EACH(ret[i] = LOAD(double));
    case PEN_DTYPE_F16:
        EACH(ret[i] = (double)pen_f16_to_f32(LOAD(uint16_t)));
    case PEN_DTYPE_BF16:
        EACH(ret[i] = (double)pen_bf16_to_f32(LOAD(uint16_t)));
    case PEN_DTYPE_U8:
        EACH(ret[i] = (double)LOAD(uint8_t));
    case PEN_DTYPE_I8:
        EACH(ret[i] = (double)LOAD(int8_t));
    case PEN_DTYPE_U16:
        EACH(ret[i] = (double)LOAD(uint16_t));
    case PEN_DTYPE_I16:
        EACH(ret[i] = (double)LOAD(int16_t));
    case PEN_DTYPE_U32:
        EACH(ret[i] = (double)LOAD(uint32_t));
    case PEN_DTYPE_I32:
        EACH(ret[i] = (double)LOAD(int32_t));
    case PEN_DTYPE_U64:
        EACH(ret[i] = (double)LOAD(uint64_t));
    case PEN_DTYPE_I64:
        EACH(ret[i] = (double)LOAD(int64_t));
    case PEN_DTYPE_BOOL:
        EACH(ret[i] = LOAD(uint8_t) != 0 ? 1.0 : 0.0);
    case PEN_DTYPE_F8E4M3FN:
    case PEN_DTYPE_F8E4M3FNUZ:
    case PEN_DTYPE_F8E5M2:
    case PEN_DTYPE_F8E5M2FNUZ:
    case PEN_DTYPE_F8E8M0:
        EACH(ret[i] = small_float_decode(dtype, LOAD(uint8_t)));
    case PEN_DTYPE_F4E2M1:
        EACH(ret[i] = small_float_decode(dtype, packed_get(data, 4, AT)));
    case PEN_DTYPE_U4:
    case PEN_DTYPE_I4:
    case PEN_DTYPE_U2:
    case PEN_DTYPE_I2:
        EACH(ret[i] = (double)packed_i64(data, dtype, AT));
    default:
        EACH(ret[i] = NAN); /* strings and complex numbers never come here: kernels.def */
    }
}

void load_i64(const void *data, enum pen_dtype dtype, int64_t first, int64_t stride, int64_t count, int64_t *ret)
{
    switch (dtype) {
    case PEN_DTYPE_U8:
        EACH(ret[i] = LOAD(uint8_t));
    case PEN_DTYPE_I8:
        EACH(ret[i] = LOAD(int8_t));
    case PEN_DTYPE_U16:
        EACH(ret[i] = LOAD(uint16_t));
    case PEN_DTYPE_I16:
        EACH(ret[i] = LOAD(int16_t));
    case PEN_DTYPE_U32:
        EACH(ret[i] = LOAD(uint32_t));
    case PEN_DTYPE_I32:
        EACH(ret[i] = LOAD(int32_t));
    case PEN_DTYPE_U64:
        EACH(ret[i] = (int64_t)LOAD(uint64_t));
    case PEN_DTYPE_I64:
        EACH(ret[i] = LOAD(int64_t));
    case PEN_DTYPE_BOOL:
        EACH(ret[i] = LOAD(uint8_t) != 0);
    case PEN_DTYPE_U4:
    case PEN_DTYPE_I4:
    case PEN_DTYPE_U2:
    case PEN_DTYPE_I2:
        EACH(ret[i] = packed_i64(data, dtype, AT));
    default:
        EACH(double v; load_f64(data, dtype, AT, 1, 1, &v); ret[i] = i64_from_f64(v));
    }
}

#define STORE(type, value) ((type *)data)[AT] = (type)(value)

void store_i64(void *data, enum pen_dtype dtype, int64_t first, int64_t stride, int64_t count, const int64_t *items)
{
    switch (dtype) {
    case PEN_DTYPE_U8:
    case PEN_DTYPE_I8:
        EACH(STORE(uint8_t, items[i]));
    case PEN_DTYPE_U16:
    case PEN_DTYPE_I16:
        EACH(STORE(uint16_t, items[i]));
    case PEN_DTYPE_U32:
    case PEN_DTYPE_I32:
        EACH(STORE(uint32_t, items[i]));
    case PEN_DTYPE_U64:
    case PEN_DTYPE_I64:
        EACH(STORE(int64_t, items[i]));
    case PEN_DTYPE_BOOL:
        EACH(STORE(uint8_t, items[i] != 0));
    case PEN_DTYPE_U4:
    case PEN_DTYPE_I4:
        EACH(packed_set(data, 4, AT, (uint8_t)((uint64_t)items[i] & 15u)));
    case PEN_DTYPE_U2:
    case PEN_DTYPE_I2:
        EACH(packed_set(data, 2, AT, (uint8_t)((uint64_t)items[i] & 3u)));
    default:
        EACH(double v = (double)items[i]; store_f64(data, dtype, AT, 1, 1, &v));
    }
}

void store_f64(void *data, enum pen_dtype dtype, int64_t first, int64_t stride, int64_t count, const double *items)
{
    switch (dtype) {
    case PEN_DTYPE_F32:
        EACH(STORE(float, items[i]));
    case PEN_DTYPE_F64:
        EACH(STORE(double, items[i]));
    case PEN_DTYPE_F16:
        EACH(STORE(uint16_t, pen_f32_to_f16((float)items[i])));
    case PEN_DTYPE_BF16:
        EACH(STORE(uint16_t, pen_f32_to_bf16((float)items[i])));
    case PEN_DTYPE_BOOL:
        EACH(STORE(uint8_t, items[i] != 0.0));
    case PEN_DTYPE_U64:
        EACH(STORE(uint64_t, items[i] >= 9223372036854775808.0 && items[i] < 18446744073709551616.0
                                 ? (uint64_t)items[i]
                                 : (uint64_t)i64_from_f64(items[i])));
    case PEN_DTYPE_F8E4M3FN:
    case PEN_DTYPE_F8E4M3FNUZ:
    case PEN_DTYPE_F8E5M2:
    case PEN_DTYPE_F8E5M2FNUZ:
    case PEN_DTYPE_F8E8M0:
        EACH(STORE(uint8_t, small_float_encode(dtype, items[i], true, 0)));
    case PEN_DTYPE_F4E2M1:
        EACH(packed_set(data, 4, AT, small_float_encode(dtype, items[i], true, 0)));
    default:
        EACH(int64_t v = i64_from_f64(items[i]); store_i64(data, dtype, AT, 1, 1, &v));
    }
}

double load_one_f64(const void *data, enum pen_dtype dtype, int64_t index)
{
    double v;
    load_f64(data, dtype, index, 1, 1, &v);
    return v;
}

int64_t load_one_i64(const void *data, enum pen_dtype dtype, int64_t index)
{
    int64_t v;
    load_i64(data, dtype, index, 1, 1, &v);
    return v;
}

void store_one_f64(void *data, enum pen_dtype dtype, int64_t index, double value)
{
    store_f64(data, dtype, index, 1, 1, &value);
}

void store_one_i64(void *data, enum pen_dtype dtype, int64_t index, int64_t value)
{
    store_i64(data, dtype, index, 1, 1, &value);
}
