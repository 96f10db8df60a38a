/*
 * cm_bf16.glsl - operands of conv_cm.glsl that become bf16 on their way into shared memory: x is f32 in its buffer, as are both sides of a batch; packed weights are bf16
 * there. Rounded to nearest, ties to even, by the bits, so that every device gives the same operands. Floats wait in registers as they came: nothing waits for memory
 * before the matrices of a step are multiplied.
 */
#define NUMBER float
#define PIECE  Piece

struct Piece {
    uvec4 low, high; /* eight floats; of packed weights eight bf16 in `low` */
};

layout(std430, binding = 1) readonly buffer X4u { uvec4 x4u[]; };
layout(std430, binding = 2) readonly buffer W4 { uvec2 w4[]; };
layout(std430, binding = 2) readonly buffer W8 { uvec4 w8[]; };

#define ROWS_EIGHT(i)           Piece(x4u[2u * (i)], x4u[2u * (i) + 1u])
#define WEIGHTS_EIGHT(i)        weights_eight(i)
#define WEIGHTS_FOURS(one, two) Piece(uvec4(one, two), uvec4(0u))
#define ROWS_KEPT(piece)        rounded_eight(piece)
#define WEIGHTS_KEPT(piece)     (BATCH ? rounded_eight(piece) : piece.low)
#define NOTHING                 Piece(uvec4(0u), uvec4(0u))

/* In the upper halves. NaN stays NaN, and quiet: its kept half could read as infinity. */
uvec4 rounded_bits(uvec4 u)
{
    return mix(u + 0x7FFFu + ((u >> 16) & 1u), u | 0x00400000u, greaterThan(u & 0x7FFFFFFFu, uvec4(0x7F800000u)));
}

uvec4 rounded_eight(Piece piece)
{
    uvec4 l = rounded_bits(piece.low), h = rounded_bits(piece.high);
    return (uvec4(l.xz, h.xz) >> 16) | (uvec4(l.yw, h.yw) & 0xFFFF0000u);
}

Piece weights_eight(uint i)
{
    return BATCH ? Piece(w8[2u * i], w8[2u * i + 1u]) : Piece(w8[i], uvec4(0u));
}

Piece eight_of(float v[8])
{
    return Piece(floatBitsToUint(vec4(v[0], v[1], v[2], v[3])), floatBitsToUint(vec4(v[4], v[5], v[6], v[7])));
}

vec2 pair_of(uint bits)
{
    return uintBitsToFloat(uvec2(bits << 16, bits & 0xFFFF0000u));
}

void results_put(uint at8, vec4 low, vec4 high)
{
    sums[2u * at8] = low;
    sums[2u * at8 + 1u] = high;
}

#ifndef SCALAR
#define LEFT  coopmat<bfloat16_t, gl_ScopeSubgroup, CM, CK, gl_MatrixUseA>
#define RIGHT coopmat<bfloat16_t, gl_ScopeSubgroup, CK, CN, gl_MatrixUseB>
#define SUM   coopmat<float, gl_ScopeSubgroup, CM, CN, gl_MatrixUseAccumulator>

#define MATRIX_LOAD(matrix, at, pitch, by_columns) coopMatLoad(matrix, room, at, pitch, gl_CooperativeMatrixLayoutRowMajor)
#define MATRIX_STORE(matrix, at, pitch)            coopMatStore(matrix, room, at, pitch, gl_CooperativeMatrixLayoutRowMajor)
#define MATRIX_ADD(left, right, sum)               coopMatMulAdd(left, right, sum)
#endif
