/*
 * nbits.glsl - what the kernels of MatMulNBits share: y[m][n] = act(bias[n] + sum over blocks of scale (sum code x - zero sum x)), perhaps with a residual r[m][n]. Codes of BITS bits lie along k, the
 * first in the low bits, as the file has them: each row of w begins with a word, and so does each block.
 */
layout(constant_id = 0) const uint ACT = 0;
layout(constant_id = 1) const float ACT_A = 0.0;
layout(constant_id = 2) const float ACT_B = 0.0;
layout(constant_id = 3) const uint BITS = 4;
layout(constant_id = 4) const bool ZEROS = false; /* zero points are given; else the middle of the codes */
layout(constant_id = 5) const bool BIAS = false;
layout(constant_id = 6) const uint TILE = 1; /* rows of an invocation */
layout(constant_id = 7) const uint WIDE = 0; /* f32 though floats are stored as f16: bit 0 scales, bit 1 bias, bit 4 zero points. A residual is added: bit 2 before ACT, bit 3 behind it */
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(std430, binding = 2) readonly buffer Codes { uint codes[]; };
layout(std430, binding = 3) readonly buffer Scale { REAL scale[]; };
layout(std430, binding = 3) readonly buffer Scale32 { float scale32[]; };
layout(std430, binding = 4) readonly buffer Zero { REAL zero[]; };
layout(std430, binding = 4) readonly buffer Zero32 { float zero32[]; };
layout(std430, binding = 5) readonly buffer Bias { REAL bias[]; };
layout(std430, binding = 5) readonly buffer Bias32 { float bias32[]; };
layout(std430, binding = 6) readonly buffer Residual { REAL residual[]; }; /* as y */
layout(push_constant) uniform Push
{
    uint m, n, k;
    uint words;       /* of a row of w */
    uint block_words; /* of a block */
    uint blocks;      /* of a row */
} p;

#define PER_WORD (32u / BITS)

float scale_of(uint i)
{
    return (WIDE & 1u) != 0u ? scale32[i] : float(scale[i]);
}

float zero_of(uint i)
{
    return !ZEROS ? float(1u << (BITS - 1u)) : (WIDE & 16u) != 0u ? zero32[i] : float(zero[i]);
}

float bias_of(uint i)
{
    return !BIAS ? 0.0 : (WIDE & 2u) != 0u ? bias32[i] : float(bias[i]);
}

float code_of(uint word, uint j)
{
    return float(bitfieldExtract(word, int(BITS * j), int(BITS)));
}

/* The sum with its bias, to element `at` of y. */
void sum_store(uint at, float sum)
{
    if ((WIDE & 4u) != 0u) {
        sum += float(residual[at]);
    }
    sum = activate(sum, ACT, ACT_A, ACT_B);
    y[at] = TO_REAL((WIDE & 8u) != 0u ? sum + float(residual[at]) : sum);
}
