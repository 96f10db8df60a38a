#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"

/* Family `split`, second step: y = act(bias + the sums of the pieces of k), perhaps with a residual, always in the order of the pieces. An invocation makes a four of outputs. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint ACT = 0;
layout(constant_id = 1) const float ACT_A = 0.0;
layout(constant_id = 2) const float ACT_B = 0.0;
layout(constant_id = 3) const bool BIAS = false;
layout(constant_id = 4) const bool WIDE = false; /* the bias is f32 though floats are stored as f16 */
layout(constant_id = 5) const uint RESIDUAL = 0; /* 4: added before ACT, 8: behind it */

layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer Sums { vec4 sums[]; }; /* [piece][row][group][fours of outputs] */
layout(std430, binding = 2) readonly buffer Bias { REAL4 bias[]; };
layout(std430, binding = 3) readonly buffer Residual { REAL residual[]; }; /* as y */
#ifdef STORAGE_F16
layout(std430, binding = 2) readonly buffer Bias32 { vec4 bias32[]; };
#endif

layout(push_constant) uniform Push
{
    uint m, groups, group_out, group_out4, splits;
} p;

void main()
{
    uint id = linear_id(), width = p.groups * p.group_out4;
    if (id >= p.m * width) {
        return;
    }
    uint m = id / width, column = id - m * width, g = column / p.group_out4, o = 4u * (column - g * p.group_out4);
    vec4 sum = sums[id];
    for (uint i = 1u; i < p.splits; i++) {
        sum += sums[i * p.m * width + id];
    }
    if (BIAS) {
#ifdef STORAGE_F16
        sum += WIDE ? bias32[column] : vec4(bias[column]);
#else
        sum += bias[column];
#endif
    }
    uint at = (m * p.groups + g) * p.group_out + o;
    for (uint j = 0; j < 4u && o + j < p.group_out; j++) {
        float r = RESIDUAL != 0u ? float(residual[at + j]) : 0.0;
        float x = activate(RESIDUAL == 4u ? sum[j] + r : sum[j], ACT, ACT_A, ACT_B);
        y[at + j] = TO_REAL(RESIDUAL == 8u ? x + r : x);
    }
}
