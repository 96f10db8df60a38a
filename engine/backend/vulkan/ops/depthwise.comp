#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"

/* One input channel per output channel: an invocation makes 4 channels of one pixel. w is [tap][channel padded to 4]. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint ACT = 0;
layout(constant_id = 1) const float ACT_A = 0.0;
layout(constant_id = 2) const float ACT_B = 0.0;
layout(constant_id = 3) const bool BIAS = false;
layout(constant_id = 4) const bool VEC4 = false; /* channels are a multiple of 4 */
layout(constant_id = 5) const uint WIDE = 0; /* f32 though floats are stored as f16: bit 0 w, bit 1 bias */

layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 0) writeonly buffer Y4 { REAL4 y4[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(std430, binding = 1) readonly buffer X4 { REAL4 x4[]; };
layout(std430, binding = 2) readonly buffer W { REAL4 w[]; };
layout(std430, binding = 3) readonly buffer Bias { REAL4 bias[]; };
#ifdef STORAGE_F16
layout(std430, binding = 2) readonly buffer W32 { vec4 w32[]; };
layout(std430, binding = 3) readonly buffer Bias32 { vec4 bias32[]; };
#endif

layout(push_constant) uniform Push
{
    uint m;
    uint in_h, in_w, channels, channels4;
    uint out_h, out_w;
    uint kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int pad_top, pad_left;
} p;

vec4 w_at(uint i)
{
#ifdef STORAGE_F16
    if ((WIDE & 1u) != 0u) {
        return w32[i];
    }
#endif
    return vec4(w[i]);
}

vec4 bias_at(uint i)
{
#ifdef STORAGE_F16
    if ((WIDE & 2u) != 0u) {
        return bias32[i];
    }
#endif
    return vec4(bias[i]);
}

vec4 taken(uint at, uint c)
{
    if (VEC4) {
        return vec4(x4[(at + c) / 4u]);
    }
    vec4 v = vec4(0.0);
    for (uint j = 0; j < 4u && c + j < p.channels; j++) {
        v[j] = float(x[at + c + j]);
    }
    return v;
}

void main()
{
    uint id = linear_id();
    uint m = id / p.channels4, c4 = id - m * p.channels4, c = 4u * c4;
    if (m >= p.m) {
        return;
    }
    uint row = m / p.out_w, image = row / p.out_h;
    int y0 = int((row - image * p.out_h) * p.stride_h) - p.pad_top;
    int x0 = int((m - row * p.out_w) * p.stride_w) - p.pad_left;
    vec4 sum = BIAS ? bias_at(c4) : vec4(0.0);
    for (uint ky = 0; ky < p.kernel_h; ky++) {
        int iy = y0 + int(ky * p.dilation_h);
        for (uint kx = 0; kx < p.kernel_w && iy >= 0 && iy < int(p.in_h); kx++) {
            int ix = x0 + int(kx * p.dilation_w);
            if (ix >= 0 && ix < int(p.in_w)) {
                uint at = ((image * p.in_h + uint(iy)) * p.in_w + uint(ix)) * p.channels;
                vec4 four = w_at((ky * p.kernel_w + kx) * p.channels4 + c4);
                sum += (WIDE & 1u) != 0u ? taken(at, c) * four : TIMES_FOURS(taken(at, c), four);
            }
        }
    }
    for (uint j = 0; j < 4u; j++) {
        sum[j] = activate(sum[j], ACT, ACT_A, ACT_B);
    }
    if (VEC4) {
        y4[m * p.channels4 + c4] = TO_REAL4(sum);
        return;
    }
    for (uint j = 0; j < 4u && c + j < p.channels; j++) {
        y[m * p.channels + c + j] = TO_REAL(sum[j]);
    }
}
