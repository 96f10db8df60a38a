#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/* OneHot into floats: y is [outer, depth, inner], indices [outer, inner]; an index outside of the depth makes a row of off values. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint KIND = 0; /* of indices: 0 floats, 1 i32, 2 i64 */
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer I { REAL real[]; };
layout(std430, binding = 1) readonly buffer W { int word[]; };
layout(std430, binding = 2) readonly buffer V { REAL value[]; };
layout(push_constant) uniform Push { uint n, depth, inner; } p;

void main()
{
    uint i = linear_id();
    if (i >= p.n) {
        return;
    }
    uint row = i / p.inner, outer = row / p.depth, at = outer * p.inner + (i - row * p.inner);
    int v = 0;
    bool wide = false;
    if (KIND == 0) {
        float f = float(real[at]);
        wide = !(abs(f) <= float(p.depth));
        v = wide ? 0 : int(f);
    } else {
        v = word[KIND * at];
        wide = KIND == 2 && word[2u * at + 1u] != v >> 31;
    }
    v = v < 0 ? v + int(p.depth) : v;
    bool on = !wide && v == int(row - outer * p.depth);
    y[i] = value[on ? 1u : 0u];
}
