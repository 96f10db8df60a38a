#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/* Weights that are computed: from any layout into [group][k][o padded to 4], k = kernel row, kernel column, channel. */
layout(local_size_x = LOCAL) in;
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(push_constant) uniform Push
{
    uint n;
    uint width, outs; /* of a packed row; of a group */
    uint kernel_h, kernel_w, channels;
    uint out_step, in_step, h_step, w_step;
    float scale;
} p;

void main()
{
    uint i = linear_id();
    if (i >= p.n) {
        return;
    }
    uint row = i / p.width, o = i - row * p.width;
    uint tap = row / p.channels, c = row - tap * p.channels;
    uint g = tap / (p.kernel_h * p.kernel_w);
    tap -= g * p.kernel_h * p.kernel_w;
    uint ky = tap / p.kernel_w, kx = tap - ky * p.kernel_w;
    uint at = (g * p.outs + o) * p.out_step + c * p.in_step + ky * p.h_step + kx * p.w_step;
    float v = 0.0;
    if (o < p.outs) {
        v = float(x[at]) * p.scale;
    }
    y[i] = TO_REAL(v);
}
