/*
 * penstock/dtype.h - tensor element types.
 *
 * Values equal ONNX's TensorProto.DataType (onnx.proto, IR 13), so that models, wire and API share one numbering.
 * Threads: any (pure functions).
 */
#ifndef PENSTOCK_DTYPE_H
#define PENSTOCK_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default) /* part of the public interface of every library that contains it */
#endif

enum pen_dtype {
    PEN_DTYPE_NONE = 0,
    PEN_DTYPE_F32 = 1,
    PEN_DTYPE_U8 = 2,
    PEN_DTYPE_I8 = 3,
    PEN_DTYPE_U16 = 4,
    PEN_DTYPE_I16 = 5,
    PEN_DTYPE_I32 = 6,
    PEN_DTYPE_I64 = 7,
    PEN_DTYPE_STRING = 8, /* on the wire: BYTES, each element a little-endian u32 length and its bytes */
    PEN_DTYPE_BOOL = 9,   /* one byte, 0 or 1 */
    PEN_DTYPE_F16 = 10,
    PEN_DTYPE_F64 = 11,
    PEN_DTYPE_U32 = 12,
    PEN_DTYPE_U64 = 13,
    PEN_DTYPE_C64 = 14,
    PEN_DTYPE_C128 = 15,
    PEN_DTYPE_BF16 = 16,
    PEN_DTYPE_F8E4M3FN = 17,
    PEN_DTYPE_F8E4M3FNUZ = 18,
    PEN_DTYPE_F8E5M2 = 19,
    PEN_DTYPE_F8E5M2FNUZ = 20,
    PEN_DTYPE_U4 = 21, /* two elements a byte, first in the low nibble */
    PEN_DTYPE_I4 = 22,
    PEN_DTYPE_F4E2M1 = 23,
    PEN_DTYPE_F8E8M0 = 24,
    PEN_DTYPE_U2 = 25, /* four elements a byte, first in the low bits */
    PEN_DTYPE_I2 = 26,
    PEN_DTYPE_COUNT
};

/* "f32", "u8", ...; "none" for values this build does not know. */
const char *pen_dtype_name(enum pen_dtype dtype);

/* Accepts our names ("f32"), NumPy's ("float32") and Triton's ("FP32"), case-sensitive; PEN_DTYPE_NONE when unknown. */
enum pen_dtype pen_dtype_parse(const char *name);

/* Bits of one element; 0 for NONE and STRING. */
unsigned pen_dtype_bits(enum pen_dtype dtype);

/*
 * Bytes that `elements` elements occupy, sub-byte types packed and rounded up to whole bytes.
 * Returns 0 and stores *ret_bytes, or -1 on overflow or for STRING and NONE (which have no fixed size).
 */
int pen_dtype_bytes(enum pen_dtype dtype, uint64_t elements, size_t *ret_bytes);

/* IEEE 754 binary16 and bfloat16 conversions, round to nearest even; NaN stays NaN, overflow becomes infinity. */
float pen_f16_to_f32(uint16_t half);
uint16_t pen_f32_to_f16(float value);
float pen_bf16_to_f32(uint16_t value);
uint16_t pen_f32_to_bf16(float value);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
