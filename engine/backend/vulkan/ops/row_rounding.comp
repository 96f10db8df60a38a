#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"

/* RowRounding (backend/row_rounding.h): each row as 8-bit steps over its range, and back. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const bool SYMMETRIC = false;
layout(constant_id = 1) const bool WIDE = false; /* a workgroup per row; else an invocation per row */
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(push_constant) uniform Push { uint rows, row; } p;

shared float low_part[64], high_part[64];

void join(inout float low, inout float high)
{
    if (!WIDE) {
        return;
    }
    uint i = gl_LocalInvocationID.x;
    low_part[i] = low;
    high_part[i] = high;
    for (uint half_ = 32u; half_ > 0u; half_ >>= 1) {
        barrier();
        if (i < half_) {
            low_part[i] = min(low_part[i], low_part[i + half_]);
            high_part[i] = max(high_part[i], high_part[i + half_]);
        }
    }
    barrier();
    low = low_part[0];
    high = high_part[0];
}

/* The step of 0.0: the range's end whose error is smaller says it. */
float zero_of(float low, float high, float scale)
{
    float below = low / scale, above = high / scale;
    float zero = 128.0 + abs(below) < 127.0 + abs(above) ? -128.0 - below : 127.0 - above;
    return clamp(sign(zero) * floor(abs(zero) + 0.5), -128.0, 127.0);
}

void main()
{
    uint row = WIDE ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : linear_id();
    if (row >= p.rows) {
        return;
    }
    uint from = row * p.row + (WIDE ? gl_LocalInvocationID.x : 0u), to = (row + 1u) * p.row, step_ = WIDE ? 64u : 1u;
    float low = 0.0, high = 0.0;
    for (uint a = from; a < to; a += step_) {
        float v = float(x[a]);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    join(low, high);
    bool flat_ = low == 0.0 && high == 0.0;
    float range = SYMMETRIC ? max(-low, high) : high - low, steps = SYMMETRIC ? 127.0 : 255.0;
    float scale = flat_ ? 1.0 : range / steps, inverse = flat_ ? 1.0 : SYMMETRIC ? 127.0 / range : 1.0 / scale;
    float zero = flat_ || SYMMETRIC ? 0.0 : zero_of(low, high, scale), lowest = SYMMETRIC ? -127.0 : -128.0;
    for (uint a = from; a < to; a += step_) {
        float v = float(x[a]), t = clamp(v * inverse + zero, lowest, 127.0);
        t = float(int(t + (t < 0.0 ? -0.49999997 : 0.49999997)));
        y[a] = TO_REAL(is_nan(v) ? v : (t - zero) * scale);
    }
}
