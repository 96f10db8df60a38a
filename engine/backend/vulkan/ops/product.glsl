/*
 * product.glsl - what the kernels of one product share: y[m][o] = act(sum_k a[m][k] w[k][o] + bias[o]), perhaps with a residual r[m][o], where row m of `a` is the window of output pixel m
 * (k = kernel row, kernel column, channel of the group) or, with a 1 x 1 window, a row of a matrix. w is packed [group][k][o padded to 4].
 */
layout(constant_id = 0) const uint ACT = 0;
layout(constant_id = 1) const float ACT_A = 0.0;
layout(constant_id = 2) const float ACT_B = 0.0;
layout(constant_id = 3) const bool BIAS = false;
layout(constant_id = 4) const bool VEC4 = false; /* channels of a group are a multiple of 4: x is read in fours */
layout(constant_id = 5) const bool POINT = false; /* 1 x 1, stride 1, no padding: row m of x is a row */
layout(constant_id = 6) const uint TILE = 4; /* rows of an invocation */
layout(constant_id = 7) const uint WIDE = 0; /* f32 though floats are stored as f16: bit 0 w, bit 1 bias. A residual is added: bit 2 before ACT, bit 3 behind it. Bit 4: w is bf16 though floats are f32 */

#ifdef SPLIT
layout(std430, binding = 0) writeonly buffer Sums { vec4 sums[]; };
#else
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
#endif
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(std430, binding = 1) readonly buffer X4 { REAL4 x4[]; };
layout(std430, binding = 2) readonly buffer W { REAL4 w[]; };
layout(std430, binding = 3) readonly buffer Bias { REAL4 bias[]; };
#ifndef SPLIT
layout(std430, binding = 4) readonly buffer Residual { REAL residual[]; }; /* as y */
#endif
#ifdef STORAGE_F16
layout(std430, binding = 2) readonly buffer W32 { vec4 w32[]; };
layout(std430, binding = 3) readonly buffer Bias32 { vec4 bias32[]; };
#else
layout(std430, binding = 2) readonly buffer W16 { uvec2 w16[]; };
#endif

layout(push_constant) uniform Push
{
    uint m;                 /* rows: batch x output height x output width */
    uint in_h, in_w, in_c;  /* in_c: of all groups */
    uint out_h, out_w, out_c;
    uint kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int pad_top, pad_left;
    uint group_in, group_out, group_out4; /* group_out4: fours of a packed row */
    uint groups;
    uint splits; /* pieces of k */
#if defined MATRICES && !defined CODES
    uint dim[4], a_step[4], b_step[4]; /* of a batch of matrices: steps in matrices, 0 = the same for all */
#endif
} p;

#include "pixel.glsl"

#if defined MATRICES && !defined CODES
/* Of matrix i of the batch: which ones of x and w. */
uvec2 matrices_of(uint i)
{
    uvec2 at = uvec2(0u);
    [[unroll]] for (int d = 3; d >= 0; d--) {
        uint q = i / p.dim[d], c = i - q * p.dim[d];
        i = q;
        at += c * uvec2(p.a_step[d], p.b_step[d]);
    }
    return at;
}
#endif

#ifndef SPLIT
/* What leaves at element `at` of y. */
float finished(float sum, uint at)
{
    if ((WIDE & 4u) != 0u) {
        sum += float(residual[at]);
    }
    sum = activate(sum, ACT, ACT_A, ACT_B);
    return (WIDE & 8u) != 0u ? sum + float(residual[at]) : sum;
}

/* Outputs o to o + 3 of a group, to element `at` on. */
void four_store(uint at, uint o, vec4 sum)
{
    for (uint j = 0; j < 4u && o + j < p.group_out; j++) {
        y[at + j] = TO_REAL(finished(sum[j], at + j));
    }
}

void row_store(uint m, uint g, uint o4, vec4 sum)
{
    four_store(m * p.out_c + g * p.group_out + 4u * o4, 4u * o4, sum);
}
#endif

vec4 bias_of(uint g, uint o4)
{
    uint i = g * p.group_out4 + o4;
#ifdef STORAGE_F16
    if (BIAS && (WIDE & 2u) != 0u) {
        return bias32[i];
    }
#endif
    return BIAS ? vec4(bias[i]) : vec4(0.0);
}

vec4 w_at(uint i)
{
#ifdef STORAGE_F16
    if ((WIDE & 1u) != 0u) {
        return w32[i];
    }
#else
    if ((WIDE & 16u) != 0u) {
        uvec2 two = w16[i];
        return uintBitsToFloat(uvec4(two.x << 16, two.x & 0xFFFF0000u, two.y << 16, two.y & 0xFFFF0000u));
    }
#endif
    return vec4(w[i]);
}

/* An element of x times four weights: in f32 where these are. */
vec4 weighted(float v, vec4 weights)
{
    return (WIDE & 1u) != 0u ? v * weights : TIMES(v, weights);
}
