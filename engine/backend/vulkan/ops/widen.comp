#version 450
/* f16, two a word, to f32. */
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer X { uint x[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
layout(push_constant) uniform Push { uint n; } p;

void main()
{
    uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (2u * i < p.n) {
        vec2 v = unpackHalf2x16(x[i]);
        y[2u * i] = v.x;
        if (2u * i + 1u < p.n) {
            y[2u * i + 1u] = v.y;
        }
    }
}
