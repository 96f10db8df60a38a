#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"

/*
 * Rows of n elements normalised by their own statistics; a row's elements are [i][j] with steps, so that groups of channels are rows in either layout.
 * A workgroup per row. Statistics are f32 in two passes.
 */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint KIND = 0;        /* 0 mean and variance, 1 root mean square, 2 L2, 3 L1, 4 as 0 without scale: epsilon beside the root */
layout(constant_id = 1) const bool SCALE = false;
layout(constant_id = 2) const bool BIAS = false;
layout(constant_id = 3) const bool CHANNEL = false; /* scale and bias per channel (group * inner + j), else per element */
layout(constant_id = 4) const bool MEAN = false;    /* the mean is wanted */
layout(constant_id = 5) const bool INVERSE = false;
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(std430, binding = 2) readonly buffer Scale { REAL scale[]; };
layout(std430, binding = 3) readonly buffer Bias { REAL bias[]; };
layout(std430, binding = 4) writeonly buffer Mean { REAL mean_out[]; };
layout(std430, binding = 5) writeonly buffer Inverse { REAL inverse_out[]; };
layout(push_constant) uniform Push
{
    uint rows, n, groups, inner;             /* row = outer * groups + group; element = i * inner + j */
    uint outer_step, group_step, i_step, j_step;
    float epsilon;
} p;

shared float part[LOCAL];

float total(float v)
{
    uint i = gl_LocalInvocationID.x;
    part[i] = v;
    for (uint half_ = LOCAL / 2u; half_ > 0u; half_ >>= 1) {
        barrier();
        if (i < half_) {
            part[i] += part[i + half_];
        }
    }
    barrier();
    float all = part[0];
    barrier();
    return all;
}

uint place(uint base, uint e)
{
    uint i = e / p.inner;
    return base + i * p.i_step + (e - i * p.inner) * p.j_step;
}

void main()
{
    uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    if (row >= p.rows) {
        return;
    }
    uint outer = row / p.groups, group = row - outer * p.groups;
    uint base = outer * p.outer_step + group * p.group_step;
    bool centred = KIND == 0 || KIND == 4;
    float mean = 0.0, sum = 0.0;
    if (centred) {
        for (uint e = gl_LocalInvocationID.x; e < p.n; e += LOCAL) {
            sum += float(x[place(base, e)]);
        }
        mean = total(sum) / float(p.n);
        sum = 0.0;
    }
    for (uint e = gl_LocalInvocationID.x; e < p.n; e += LOCAL) {
        float d = float(x[place(base, e)]) - mean;
        sum += KIND == 3 ? abs(d) : d * d;
    }
    sum = total(sum);
    float inverse = KIND == 2 ? 1.0 / sqrt(sum) : KIND == 3 ? 1.0 / sum : KIND == 4 ? 1.0 / (sqrt(sum / float(p.n)) + p.epsilon)
                                                                                    : 1.0 / sqrt(sum / float(p.n) + p.epsilon);
    inverse = (KIND == 2 || KIND == 3) && sum == 0.0 ? 0.0 : inverse;
    for (uint e = gl_LocalInvocationID.x; e < p.n; e += LOCAL) {
        uint at = place(base, e), c = CHANNEL ? group * p.inner + e % p.inner : e;
        float v = (float(x[at]) - mean) * inverse;
        v = SCALE ? v * float(scale[c]) : v;
        y[at] = TO_REAL(BIAS ? v + float(bias[c]) : v);
    }
    if (gl_LocalInvocationID.x == 0u) {
        if (MEAN) {
            mean_out[row] = TO_REAL(mean);
        }
        if (INVERSE) {
            inverse_out[row] = TO_REAL(inverse);
        }
    }
}
