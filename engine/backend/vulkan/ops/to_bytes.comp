#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quantise.glsl"

/* QuantizeLinear: y = saturate(round(x / scale) + zero), bytes; an invocation makes four neighbours, a word. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const bool SIGNED = false;
layout(constant_id = 1) const bool ZERO = false;   /* zero points are given */
layout(constant_id = 2) const bool SINGLE = false; /* f32 scales whatever the storage */
layout(std430, binding = 0) writeonly buffer Y { uint y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(std430, binding = 2) readonly buffer Scale { REAL scale[]; };
layout(std430, binding = 2) readonly buffer Scale32 { float scale32[]; };
layout(std430, binding = 3) readonly buffer ZeroU { uint8_t zero_u8[]; };
layout(std430, binding = 3) readonly buffer ZeroI { int8_t zero_i8[]; };
layout(push_constant) uniform Push
{
    uint n, inner, axis; /* x is [outer, axis, inner] */
    uint block, along;   /* elements of the axis with one scale; scales along it; 0 = one scale for all */
    uint full;           /* scales are [outer, along, inner], else [along] */
} p;

uint scale_at(uint i)
{
    if (p.along == 0u) {
        return 0u;
    }
    uint row = i / p.inner, outer = row / p.axis, at = (row - outer * p.axis) / p.block;
    return p.full != 0u ? (outer * p.along + at) * p.inner + (i - row * p.inner) : at;
}

void main()
{
    uint id = linear_id();
    if (4u * id >= p.n) {
        return;
    }
    uint word = 0u;
    for (uint k = 0u; k < 4u && 4u * id + k < p.n; k++) {
        uint i = 4u * id + k, at = scale_at(i);
        float s = SINGLE ? scale32[at] : float(scale[at]);
        int zero = !ZERO ? 0 : SIGNED ? int(zero_i8[at]) : int(zero_u8[at]);
        int q = quantised(float(x[i]), s, zero, SIGNED ? -128 : 0, SIGNED ? 127 : 255);
        word |= (uint(q) & 255u) << (8u * k);
    }
    y[id] = word;
}
