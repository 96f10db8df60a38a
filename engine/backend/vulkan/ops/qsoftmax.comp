#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"

/*
 * QLinearSoftmax over the middle of [outer, axis, inner]. table[d] = e^(-d x_scale) as a whole number of 2^-bits: 64 bits, two words. The sum of a lane is
 * exact, and y = saturate(round(table[d] / (sum y_scale)) + y_zero) is rounded once.
 */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const bool WIDE = false; /* a workgroup per lane; else an invocation per lane */
layout(constant_id = 1) const uint FLIP = 0;     /* brings bytes into the order of u8: the largest comes last */
layout(constant_id = 2) const bool SIGNED = false;
layout(std430, binding = 0) writeonly buffer Y { uint8_t y[]; };
layout(std430, binding = 1) readonly buffer X { uint8_t x[]; };
layout(std430, binding = 2) readonly buffer Table { uvec2 table[256]; };
layout(push_constant) uniform Push
{
    uint rows, axis, inner;
    int y_zero;
    uint bottom; /* y_scale = bottom 2^-exponent */
    int exponent;
    float scale; /* y_scale */
} p;

shared uint tops[64];
shared uvec2 sums[64];

uvec2 plus(uvec2 u, uvec2 v)
{
    uint carry, low = uaddCarry(u.x, v.x, carry);
    return uvec2(low, u.y + v.y + carry);
}

uint top_of_all(uint top)
{
    if (!WIDE) {
        return top;
    }
    uint i = gl_LocalInvocationID.x;
    tops[i] = top;
    for (uint left = 32u; left > 0u; left >>= 1) {
        barrier();
        if (i < left) {
            tops[i] = max(tops[i], tops[i + left]);
        }
    }
    barrier();
    return tops[0];
}

uvec2 sum_of_all(uvec2 sum)
{
    if (!WIDE) {
        return sum;
    }
    uint i = gl_LocalInvocationID.x;
    sums[i] = sum;
    for (uint left = 32u; left > 0u; left >>= 1) {
        barrier();
        if (i < left) {
            sums[i] = plus(sums[i], sums[i + left]);
        }
    }
    barrier();
    return sums[0];
}

float wide_to_float(uvec2 v)
{
    return float(v.y) * 4294967296.0 + float(v.x);
}

void main()
{
    uint row = WIDE ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : linear_id();
    if (row >= p.rows) {
        return;
    }
    uint from = WIDE ? gl_LocalInvocationID.x : 0u, step_ = WIDE ? 64u : 1u, top = 0u;
    uint outer = row / p.inner, at = outer * p.axis * p.inner + (row - outer * p.inner);
    for (uint a = from; a < p.axis; a += step_) {
        top = max(top, uint(x[at + a * p.inner]) ^ FLIP);
    }
    top = top_of_all(top);
    uvec2 sum = uvec2(0u);
    for (uint a = from; a < p.axis; a += step_) {
        sum = plus(sum, table[top - (uint(x[at + a * p.inner]) ^ FLIP)]);
    }
    sum = sum_of_all(sum);
    uvec3 bottom = big_product(p.bottom, sum);
    float whole = wide_to_float(sum) * p.scale;
    for (uint a = from; a < p.axis; a += step_) {
        uvec2 part = table[top - (uint(x[at + a * p.inner]) ^ FLIP)];
        float v = ratio_rounded(wide_to_float(part) / whole, uvec3(part, 0u), p.exponent, bottom);
        int q = clamp(int(v) + p.y_zero, SIGNED ? -128 : 0, SIGNED ? 127 : 255);
        y[at + a * p.inner] = uint8_t(uint(q) & 255u);
    }
}
