#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"

/* Last step: A^T m A is the tile's 2 x 2 results; then bias and activation. An invocation makes one output of a tile; m is [tile][16][output]. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint ACT = 0;
layout(constant_id = 1) const float ACT_A = 0.0;
layout(constant_id = 2) const float ACT_B = 0.0;
layout(constant_id = 3) const bool BIAS = false;

layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer M { REAL m[]; };
layout(std430, binding = 2) readonly buffer Bias { REAL bias[]; };

layout(push_constant) uniform Push
{
    uint tiles, first;
    uint out_h, out_w, outs;
    uint tiles_h, tiles_w;
} p;

vec2 line(vec4 m)
{
    return vec2(m.x + m.y + m.z, m.y - m.z - m.w);
}

void main()
{
    uint id = linear_id(), tile = id / p.outs, o = id - tile * p.outs;
    if (tile >= p.tiles) {
        return;
    }
    uint row = tile / p.tiles_w, image = row / p.tiles_h;
    uint y0 = 2u * (row - image * p.tiles_h), x0 = 2u * (tile - row * p.tiles_w);
    vec2 across[4];
    for (uint i = 0u; i < 4u; i++) {
        vec4 four;
        for (uint j = 0u; j < 4u; j++) {
            four[j] = float(m[(tile * 16u + 4u * i + j) * p.outs + o]);
        }
        across[i] = line(four);
    }
    float add = BIAS ? float(bias[o]) : 0.0;
    for (uint j = 0u; j < 2u; j++) {
        vec2 two = line(vec4(across[0][j], across[1][j], across[2][j], across[3][j]));
        for (uint i = 0u; i < 2u; i++) {
            if (y0 + i < p.out_h && x0 + j < p.out_w) {
                uint at = ((p.first + image) * p.out_h + y0 + i) * p.out_w + x0 + j;
                y[at * p.outs + o] = TO_REAL(activate(two[i] + add, ACT, ACT_A, ACT_B));
            }
        }
    }
}
