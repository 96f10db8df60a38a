#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/* f32 to f16, two a word: how inputs arrive where floats are stored as f16, and Cast. */
layout(local_size_x = LOCAL) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 0) readonly buffer X2 { vec2 x2[]; };
layout(std430, binding = 1) writeonly buffer Y { uint y[]; };
layout(push_constant) uniform Push { uint n; } p;

void main()
{
    uint i = linear_id();
    if (2u * i < p.n) {
        vec2 v = 2u * i + 1u < p.n ? x2[i] : vec2(x[2u * i], 0.0);
        y[i] = packHalf2x16(rounded(vec4(v, 0.0, 0.0)).xy);
    }
}
