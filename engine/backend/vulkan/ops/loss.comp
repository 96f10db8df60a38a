#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/*
 * Negative log likelihood: logarithms x [batch, classes, positions], targets [batch, positions], weights [classes]. An invocation per target, or, where the
 * losses are summed, one workgroup for all of them. Targets are checked: one outside of the classes is reported in `flag`.
 */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint SUM = 0;         /* 0 none, 1 the sum, 2 the sum over that of the weights */
layout(constant_id = 1) const uint WORDS = 2;       /* of a target: i64 or i32 */
layout(constant_id = 2) const bool WEIGHTS = false;
layout(constant_id = 3) const bool IGNORES = false;
layout(constant_id = 4) const int IGNORE = 0;
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(std430, binding = 2) readonly buffer T { int target[]; };
layout(std430, binding = 3) readonly buffer W { REAL weight[]; };
layout(std430, binding = 4) buffer Flag { uint flag[]; };
layout(push_constant) uniform Push { uint n, node, classes, positions; } p;

shared vec2 part[LOCAL];

/* Loss and weight of target i. */
vec2 loss_of(uint i)
{
    int t = target[i * WORDS];
    bool wide = WORDS == 2u && target[i * WORDS + 1u] != t >> 31;
    if (IGNORES && !wide && t == IGNORE) {
        return vec2(0.0);
    }
    if (wide || t < 0 || t >= int(p.classes)) {
        if (atomicCompSwap(flag[0], 0u, p.node) == 0u) {
            flag[1] = uint(t);
        }
        return vec2(0.0);
    }
    uint batch = i / p.positions, position = i - batch * p.positions;
    float w = WEIGHTS ? float(weight[t]) : 1.0;
    return vec2(-w * float(x[(batch * p.classes + uint(t)) * p.positions + position]), w);
}

void main()
{
    if (SUM == 0) {
        uint i = linear_id();
        if (i < p.n) {
            y[i] = TO_REAL(loss_of(i).x);
        }
        return;
    }
    uint me = gl_LocalInvocationID.x, count = 0;
    vec2 sum = vec2(0.0), run = vec2(0.0); /* runs of 32 are added up apart: rounding errors of long sums stay small */
    for (uint i = me; i < p.n; i += LOCAL) {
        run += loss_of(i);
        if ((++count & 31u) == 0u) {
            sum += run;
            run = vec2(0.0);
        }
    }
    part[me] = sum + run;
    for (uint half_ = LOCAL / 2u; half_ > 0u; half_ >>= 1) {
        barrier();
        if (me < half_) {
            part[me] += part[me + half_];
        }
    }
    if (me == 0u) {
        y[0] = TO_REAL(SUM == 2 ? part[0].x / part[0].y : part[0].x);
    }
}
