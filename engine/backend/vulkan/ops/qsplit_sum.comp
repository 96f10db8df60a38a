#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "qproduct.glsl"

/* The second step of products of bytes in pieces: their sums are whole numbers, so that no order of them matters. An invocation makes a four of outputs. */
layout(local_size_x = LOCAL) in;

layout(std430, binding = 1) readonly buffer Sums { ivec4 sums[]; }; /* piece_at */

void main()
{
    uint id = linear_id(), width = p.groups * p.group_out4;
    if (id >= p.m * width) {
        return;
    }
    uint m = id / width, column = id - m * width, g = column / p.group_out4, o4 = column - g * p.group_out4;
    ivec4 sum = ivec4(0);
    for (uint i = 0u; i < p.splits; i++) {
        sum += sums[piece_at(i, m, g, o4)];
    }
    row_store(m, g, o4, sum, 0, x_zero());
}
