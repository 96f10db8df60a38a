#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/* BatchNormalization in inference: x is [outer, channels, inner]. */
layout(local_size_x = LOCAL) in;
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(std430, binding = 2) readonly buffer Scale { REAL scale[]; };
layout(std430, binding = 3) readonly buffer Bias { REAL bias[]; };
layout(std430, binding = 4) readonly buffer Mean { REAL mean[]; };
layout(std430, binding = 5) readonly buffer Variance { REAL variance[]; };
layout(push_constant) uniform Push { uint n, channels, inner; float epsilon; } p;

void main()
{
    uint i = linear_id();
    if (i < p.n) {
        uint c = i / p.inner % p.channels;
        float gain = float(scale[c]) / sqrt(float(variance[c]) + p.epsilon);
        y[i] = TO_REAL((float(x[i]) - float(mean[c])) * gain + float(bias[c]));
    }
}
