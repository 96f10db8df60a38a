#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/* ArgMax, ArgMin over the middle of [outer, axis, inner], as i64; Hardmax writes ones instead. The first NaN wins, as in NumPy. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const bool LEAST = false;
layout(constant_id = 1) const bool LAST = false; /* of equals */
layout(constant_id = 2) const bool HARD = false;
layout(constant_id = 3) const uint KIND = 0; /* of x: 0 floats, 1 u8, 2 i8 */
layout(std430, binding = 0) writeonly buffer Y { uvec2 y[]; };
layout(std430, binding = 0) writeonly buffer H { REAL hard[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(std430, binding = 1) readonly buffer XU { uint8_t x_u8[]; };
layout(std430, binding = 1) readonly buffer XI { int8_t x_i8[]; };
layout(push_constant) uniform Push { uint rows, axis, inner; } p;

float taken(uint at)
{
    return KIND == 1 ? float(uint(x_u8[at])) : KIND == 2 ? float(int(x_i8[at])) : float(x[at]);
}

void main()
{
    uint row = linear_id();
    if (row >= p.rows) {
        return;
    }
    uint outer = row / p.inner, at = outer * p.axis * p.inner + (row - outer * p.inner), found = 0;
    float best = taken(at);
    for (uint a = 1; a < p.axis; a++) {
        float v = taken(at + a * p.inner);
        bool better = LEAST ? v < best : v > best;
        if (better || (LAST && v == best) || (is_nan(v) && !is_nan(best))) {
            best = v;
            found = a;
        }
    }
    if (!HARD) {
        y[row] = uvec2(found, 0u);
        return;
    }
    for (uint a = 0; a < p.axis; a++) {
        hard[at + a * p.inner] = TO_REAL(a == found ? 1.0 : 0.0);
    }
}
