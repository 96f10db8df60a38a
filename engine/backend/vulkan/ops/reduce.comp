#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"

/* Folds the reduced dims of x into each element of y; a workgroup per result (WIDE) or an invocation. Two steps of log-sum-exp: the largest first. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint KIND = 0; /* 0 sum, 1 mean, 2 max, 3 min, 4 product, 5 L1, 6 L2, 7 log sum, 8 log sum exp, 9 sum of squares, 10 Lp */
layout(constant_id = 1) const bool WIDE = false;
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(push_constant) uniform Push
{
    uint outs, items;
    uint kept[4], kept_step[4], gone[4], gone_step[4];
    float power;
} p;

shared float part[LOCAL];

float start(uint kind)
{
    return kind == 2 ? -INFINITY : kind == 3 ? INFINITY : kind == 4 ? 1.0 : 0.0;
}

float join(uint kind, float a, float b)
{
    switch (kind) {
    case 2:
        return b > a || is_nan(b) ? b : a;
    case 3:
        return b < a || is_nan(b) ? b : a;
    case 4:
        return a * b;
    default:
        return a + b;
    }
}

float mapped(uint kind, float v, float top)
{
    switch (kind) {
    case 5:
        return abs(v);
    case 6:
    case 9:
        return v * v;
    case 8:
        return exp_f(v - top);
    case 10:
        return pow_f(abs(v), p.power);
    default:
        return v;
    }
}

uint offset_of(uint i, uint dim[4], uint step_[4])
{
    uint at = 0;
    for (int d = 3; d >= 0; d--) {
        uint q = i / dim[d];
        at += (i - q * dim[d]) * step_[d];
        i = q;
    }
    return at;
}

float folded(uint kind, uint at, float top)
{
    float v = start(kind), run = v; /* runs of 32 are folded apart: rounding errors of long sums stay small */
    uint count = 0;
    for (uint i = WIDE ? gl_LocalInvocationID.x : 0u; i < p.items; i += WIDE ? LOCAL : 1u) {
        float m = mapped(kind, float(x[at + offset_of(i, p.gone, p.gone_step)]), top);
        run = join(kind, run, m);
        if ((++count & 31u) == 0u) {
            v = join(kind, v, run);
            run = start(kind);
        }
    }
    v = join(kind, v, run);
    if (!WIDE) {
        return v;
    }
    uint me = gl_LocalInvocationID.x;
    part[me] = v;
    for (uint half_ = LOCAL / 2u; half_ > 0u; half_ >>= 1) {
        barrier();
        if (me < half_) {
            part[me] = join(kind, part[me], part[me + half_]);
        }
    }
    barrier();
    float all = part[0];
    barrier();
    return all;
}

void main()
{
    uint o = WIDE ? gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x : linear_id();
    if (o >= p.outs) {
        return;
    }
    uint at = offset_of(o, p.kept, p.kept_step);
    float top = 0.0;
    if (KIND == 8) {
        top = folded(2, at, 0.0);
        top = abs(top) == INFINITY ? 0.0 : top;
    }
    float v = folded(KIND, at, top);
    switch (KIND) {
    case 1:
        v /= float(p.items);
        break;
    case 6:
        v = sqrt(v);
        break;
    case 7:
        v = log_f(v);
        break;
    case 8:
        v = log_f(v) + top;
        break;
    case 10:
        v = pow_f(v, 1.0 / p.power);
        break;
    default:
        break;
    }
    if (!WIDE || gl_LocalInvocationID.x == 0u) {
        y[o] = TO_REAL(v);
    }
}
