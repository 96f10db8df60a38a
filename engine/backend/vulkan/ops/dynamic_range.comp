#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quantise.glsl"

/* The range of all of x, 0 in it: first pieces of x, a workgroup each, then the pieces' ranges. The last one makes scale and zero point of DynamicQuantizeLinear. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const bool LAST = false;
layout(std430, binding = 0) readonly buffer X { REAL x[]; };
layout(std430, binding = 1) buffer Pieces { vec2 pieces[]; }; /* smallest, largest */
layout(std430, binding = 2) writeonly buffer Scale { REAL scale[]; };
layout(std430, binding = 3) writeonly buffer Zero { uint zero[]; };
layout(std430, binding = 4) writeonly buffer Exact { float exact[]; }; /* the scale as f32 */
layout(push_constant) uniform Push { uint n, groups; } p; /* n: elements of x, or pieces */

shared vec2 part[64];

vec2 both(vec2 a, vec2 b)
{
    return vec2(b.x < a.x ? b.x : a.x, b.y > a.y ? b.y : a.y);
}

void main()
{
    uint id = gl_LocalInvocationID.x, group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    vec2 range = vec2(0.0);
    for (uint i = group * LOCAL + id; i < p.n; i += p.groups * LOCAL) {
        range = both(range, LAST ? pieces[i] : vec2(float(x[i])));
    }
    part[id] = range;
    for (uint left = LOCAL / 2u; left > 0u; left /= 2u) {
        barrier();
        if (id < left) {
            part[id] = both(part[id], part[id + left]);
        }
    }
    if (id != 0u) {
        return;
    }
    range = part[0];
    if (!LAST) {
        pieces[group] = range;
        return;
    }
    precise float width = range.y - range.x;
    float step_ = quotient(width, 255.0);
    exact[0] = step_;
    scale[0] = TO_REAL(step_);
    zero[0] = uint(clamp(quotient_rounded(-range.x, step_), 0.0, 255.0));
}
