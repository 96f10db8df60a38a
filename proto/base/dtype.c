/* dtype.c - names and sizes of tensor element types. */
#include "penstock/dtype.h"

#include <string.h>

static const struct {
    const char *name, *numpy, *triton; /* NULL: that vocabulary has no word for it */
    unsigned bits;
} dtypes[PEN_DTYPE_COUNT] = {
    [PEN_DTYPE_NONE] = {"none", NULL, NULL, 0},
    [PEN_DTYPE_F32] = {"f32", "float32", "FP32", 32},
    [PEN_DTYPE_U8] = {"u8", "uint8", "UINT8", 8},
    [PEN_DTYPE_I8] = {"i8", "int8", "INT8", 8},
    [PEN_DTYPE_U16] = {"u16", "uint16", "UINT16", 16},
    [PEN_DTYPE_I16] = {"i16", "int16", "INT16", 16},
    [PEN_DTYPE_I32] = {"i32", "int32", "INT32", 32},
    [PEN_DTYPE_I64] = {"i64", "int64", "INT64", 64},
    [PEN_DTYPE_STRING] = {"string", "object", "BYTES", 0},
    [PEN_DTYPE_BOOL] = {"bool", "bool", "BOOL", 8},
    [PEN_DTYPE_F16] = {"f16", "float16", "FP16", 16},
    [PEN_DTYPE_F64] = {"f64", "float64", "FP64", 64},
    [PEN_DTYPE_U32] = {"u32", "uint32", "UINT32", 32},
    [PEN_DTYPE_U64] = {"u64", "uint64", "UINT64", 64},
    [PEN_DTYPE_C64] = {"c64", "complex64", NULL, 64},
    [PEN_DTYPE_C128] = {"c128", "complex128", NULL, 128},
    [PEN_DTYPE_BF16] = {"bf16", "bfloat16", "BF16", 16},
    [PEN_DTYPE_F8E4M3FN] = {"f8e4m3fn", "float8_e4m3fn", NULL, 8},
    [PEN_DTYPE_F8E4M3FNUZ] = {"f8e4m3fnuz", "float8_e4m3fnuz", NULL, 8},
    [PEN_DTYPE_F8E5M2] = {"f8e5m2", "float8_e5m2", NULL, 8},
    [PEN_DTYPE_F8E5M2FNUZ] = {"f8e5m2fnuz", "float8_e5m2fnuz", NULL, 8},
    [PEN_DTYPE_U4] = {"u4", "uint4", NULL, 4},
    [PEN_DTYPE_I4] = {"i4", "int4", NULL, 4},
    [PEN_DTYPE_F4E2M1] = {"f4e2m1", "float4_e2m1fn", NULL, 4},
    [PEN_DTYPE_F8E8M0] = {"f8e8m0", "float8_e8m0fnu", NULL, 8},
    [PEN_DTYPE_U2] = {"u2", "uint2", NULL, 2},
    [PEN_DTYPE_I2] = {"i2", "int2", NULL, 2},
};

const char *pen_dtype_name(enum pen_dtype dtype)
{
    return (unsigned)dtype < PEN_DTYPE_COUNT ? dtypes[dtype].name : dtypes[PEN_DTYPE_NONE].name;
}

static int name_matches(const char *ours, const char *name)
{
    return ours && strcmp(ours, name) == 0;
}

enum pen_dtype pen_dtype_parse(const char *name)
{
    if (!name)
        return PEN_DTYPE_NONE;
    for (unsigned i = 1; i < PEN_DTYPE_COUNT; i++)
        if (name_matches(dtypes[i].name, name) || name_matches(dtypes[i].numpy, name) ||
            name_matches(dtypes[i].triton, name))
            return (enum pen_dtype)i;
    return PEN_DTYPE_NONE;
}

unsigned pen_dtype_bits(enum pen_dtype dtype)
{
    return (unsigned)dtype < PEN_DTYPE_COUNT ? dtypes[dtype].bits : 0;
}

int pen_dtype_bytes(enum pen_dtype dtype, uint64_t elements, size_t *ret_bytes)
{
    unsigned bits = pen_dtype_bits(dtype);
    uint64_t bytes;
    if (bits == 0)
        return -1;
    if (bits < 8) {
        unsigned per_byte = 8 / bits;
        bytes = elements / per_byte + (elements % per_byte != 0);
    } else if (__builtin_mul_overflow(elements, (uint64_t)(bits / 8), &bytes)) {
        return -1;
    }
    if (bytes > SIZE_MAX)
        return -1;
    *ret_bytes = (size_t)bytes;
    return 0;
}
