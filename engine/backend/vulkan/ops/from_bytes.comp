#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quantise.glsl"

/* DequantizeLinear: y = (x - zero) * scale, of bytes or of 32-bit numbers. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint KIND = 0; /* 0 u8, 1 i8, 2 i32 */
layout(constant_id = 1) const bool ZERO = false;
layout(constant_id = 2) const bool SINGLE = false; /* f32 scales whatever the storage */
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer XU { uint8_t x_u8[]; };
layout(std430, binding = 1) readonly buffer XI { int8_t x_i8[]; };
layout(std430, binding = 1) readonly buffer XW { int x_i32[]; };
layout(std430, binding = 2) readonly buffer Scale { REAL scale[]; };
layout(std430, binding = 2) readonly buffer Scale32 { float scale32[]; };
layout(std430, binding = 3) readonly buffer ZeroU { uint8_t zero_u8[]; };
layout(std430, binding = 3) readonly buffer ZeroI { int8_t zero_i8[]; };
layout(std430, binding = 3) readonly buffer ZeroW { int zero_i32[]; };
layout(push_constant) uniform Push
{
    uint n, inner, axis, block, along, full; /* as in to_bytes.comp */
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
    uint i = linear_id();
    if (i >= p.n) {
        return;
    }
    uint at = scale_at(i);
    int zero = 0, code = KIND == 0 ? int(x_u8[i]) : KIND == 1 ? int(x_i8[i]) : x_i32[i];
    if (ZERO) {
        zero = KIND == 0 ? int(zero_u8[at]) : KIND == 1 ? int(zero_i8[at]) : zero_i32[at];
    }
    precise float v = whole_to_float(code - zero) * (SINGLE ? scale32[at] : float(scale[at]));
    y[i] = TO_REAL(v);
}
