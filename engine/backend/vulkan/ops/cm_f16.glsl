/* cm_f16.glsl - operands of conv_cm.glsl that are f16 in buffers, too: they pass into shared memory as they are. */
#define NUMBER float16_t
#define PIECE  uvec4 /* eight operands on their way to shared memory */

layout(std430, binding = 0) writeonly buffer Y8 { uvec4 y8[]; };
layout(std430, binding = 1) readonly buffer X8 { uvec4 x8[]; };
#ifndef CODES
layout(std430, binding = 2) readonly buffer W4 { uvec2 w4[]; };
layout(std430, binding = 2) readonly buffer W8 { uvec4 w8[]; };
#define WEIGHTS_EIGHT(i)       w8[i]
#define WEIGHTS_FOURS(one, two) uvec4(one, two)
#endif
#define ROWS_EIGHT(i)       x8[i]
#define ROWS_KEPT(piece)    (piece)
#define WEIGHTS_KEPT(piece) (piece)
#define NOTHING             uvec4(0u)

uvec4 eight_of(float16_t v[8])
{
    return uvec4(packFloat2x16(f16vec2(v[0], v[1])), packFloat2x16(f16vec2(v[2], v[3])),
                 packFloat2x16(f16vec2(v[4], v[5])), packFloat2x16(f16vec2(v[6], v[7])));
}

/* Two operands as they lie in shared memory. */
vec2 pair_of(uint bits)
{
    return unpackHalf2x16(bits);
}

void results_put(uint at8, vec4 low, vec4 high)
{
    f16vec4 l = TO_REAL4(low), h = TO_REAL4(high);
    y8[at8] = uvec4(packFloat2x16(l.xy), packFloat2x16(l.zw), packFloat2x16(h.xy), packFloat2x16(h.zw));
}

#ifndef SCALAR
#define LEFT  fcoopmatNV<16, gl_ScopeSubgroup, CM, CK>
#define RIGHT fcoopmatNV<16, gl_ScopeSubgroup, CK, CN>
#define SUM   fcoopmatNV<32, gl_ScopeSubgroup, CM, CN>

#define MATRIX_LOAD(matrix, at, pitch, by_columns) coopMatLoadNV(matrix, room, at, pitch, by_columns)
#define MATRIX_STORE(matrix, at, pitch)            coopMatStoreNV(matrix, room, at, pitch, false)
#define MATRIX_ADD(left, right, sum)               coopMatMulAddNV(left, right, sum)
#endif
