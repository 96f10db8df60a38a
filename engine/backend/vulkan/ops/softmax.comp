#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"

/* Softmax, LogSoftmax over the middle of [outer, axis, inner]: ROWS invocations share a workgroup's 64, 64 / ROWS of them one row each. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const bool LOG = false;
layout(constant_id = 1) const bool WIDE = false; /* a workgroup per row; else an invocation per row */
layout(constant_id = 2) const bool ZERO = false; /* a row of minus infinity becomes 0, not NaN */
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(push_constant) uniform Push { uint rows, axis, inner; } p;

shared float part[64];

float fold(float v, bool largest)
{
    if (!WIDE) {
        return v;
    }
    uint i = gl_LocalInvocationID.x;
    part[i] = v;
    for (uint half_ = 32u; half_ > 0u; half_ >>= 1) {
        barrier();
        if (i < half_) {
            float other = part[i + half_];
            part[i] = largest ? (other > part[i] || is_nan(other) ? other : part[i]) : part[i] + other;
        }
    }
    barrier();
    float all = part[0];
    barrier();
    return all;
}

void main()
{
    uint row = WIDE ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : linear_id();
    if (row >= p.rows) {
        return;
    }
    uint from = WIDE ? gl_LocalInvocationID.x : 0u, step_ = WIDE ? 64u : 1u;
    uint outer = row / p.inner, at = outer * p.axis * p.inner + (row - outer * p.inner);
    float top = -INFINITY, sum = 0.0;
    for (uint a = from; a < p.axis; a += step_) {
        float v = float(x[at + a * p.inner]);
        top = v > top || is_nan(v) ? v : top;
    }
    top = fold(top, true);
    bool nothing = ZERO && top == -INFINITY;
    for (uint a = from; a < p.axis; a += step_) {
        sum += exp_f(float(x[at + a * p.inner]) - top);
    }
    sum = fold(sum, false);
    float shift = LOG ? log_f(sum) : 1.0 / sum;
    for (uint a = from; a < p.axis; a += step_) {
        float v = float(x[at + a * p.inner]) - top;
        y[at + a * p.inner] = TO_REAL(nothing ? 0.0 : LOG ? v - shift : exp_f(v) * shift);
    }
}
