#version 450
/* i32 to i64: the word, and its sign. */
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer X { int x[]; };
layout(std430, binding = 1) writeonly buffer Y { ivec2 y[]; };
layout(push_constant) uniform Push { uint n; } p;

void main()
{
    uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i < p.n) {
        y[i] = ivec2(x[i], x[i] >> 31);
    }
}
