#version 450
/* f16, two a word, to f32: a pair is one store, as y may lie in the host's memory. */
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer X { uint x[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
layout(std430, binding = 1) writeonly buffer Y2 { vec2 y2[]; };
layout(push_constant) uniform Push { uint n; } p;

void main()
{
    uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (2u * i + 1u < p.n) {
        y2[i] = unpackHalf2x16(x[i]);
    } else if (2u * i < p.n) {
        y[2u * i] = unpackHalf2x16(x[i]).x;
    }
}
