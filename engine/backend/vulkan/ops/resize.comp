#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/* One axis of a Resize: y[outer, i, inner] = sum over taps of weight[i][k] * x[outer, at[i][k], inner]. The table is [i][k] of (position, weight). */
layout(local_size_x = LOCAL) in;
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(std430, binding = 2) readonly buffer Table { uvec2 table[]; };
layout(push_constant) uniform Push { uint n, in_, out_, inner, taps; } p;

void main()
{
    uint i = linear_id();
    if (i >= p.n) {
        return;
    }
    uint row = i / p.inner, c = i - row * p.inner, outer = row / p.out_, o = row - outer * p.out_;
    float sum = 0.0;
    for (uint k = 0; k < p.taps; k++) {
        uvec2 t = table[o * p.taps + k];
        float w = uintBitsToFloat(t.y);
        float v = float(x[(outer * p.in_ + t.x) * p.inner + c]);
        sum += w == 0.0 ? 0.0 : w * v;
    }
    y[i] = TO_REAL(sum);
}
