#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"

/* LRN: y = x / (bias + alpha / size * sum of x^2 over `size` neighbouring channels)^beta; x is [outer, channels, inner]. */
layout(local_size_x = LOCAL) in;
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(push_constant) uniform Push { uint n, channels, inner, size; float scale, beta, bias; } p;

void main()
{
    uint i = linear_id();
    if (i >= p.n) {
        return;
    }
    int c = int(i / p.inner % p.channels), before = int(p.size - 1u) / 2, after = int(p.size) - 1 - before;
    float sum = 0.0;
    for (int k = max(0, c - before); k <= min(int(p.channels) - 1, c + after); k++) {
        float v = float(x[int(i) + (k - c) * int(p.inner)]);
        sum += v * v;
    }
    y[i] = TO_REAL(float(x[i]) / pow_f(p.bias + p.scale * sum, p.beta));
}
