#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"

/* Max, average and Lp pools, NHWC: one output per invocation. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint ACT = 0;
layout(constant_id = 1) const float ACT_A = 0.0;
layout(constant_id = 2) const float ACT_B = 0.0;
layout(constant_id = 3) const uint KIND = 0; /* 0 maximum, 1 average of what is inside, 2 average with the padding, 3 Lp */
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(push_constant) uniform Push
{
    uint n;
    uint in_h, in_w, channels;
    uint out_h, out_w;
    uint kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int pad_top, pad_left, end_h, end_w; /* end: first row and column behind the padded input */
    float power;
} p;

void main()
{
    uint i = linear_id();
    if (i >= p.n) {
        return;
    }
    uint m = i / p.channels, c = i - m * p.channels;
    uint row = m / p.out_w, image = row / p.out_h;
    int y0 = int((row - image * p.out_h) * p.stride_h) - p.pad_top;
    int x0 = int((m - row * p.out_w) * p.stride_w) - p.pad_left;
    float best = -INFINITY, sum = 0.0;
    uint inside = 0, padded = 0;
    for (uint ky = 0; ky < p.kernel_h; ky++) {
        int iy = y0 + int(ky * p.dilation_h);
        float run = 0.0; /* a row apart: rounding errors of large windows stay small */
        for (uint kx = 0; kx < p.kernel_w; kx++) {
            int ix = x0 + int(kx * p.dilation_w);
            padded += iy < p.end_h && ix < p.end_w ? 1u : 0u;
            if (iy >= 0 && ix >= 0 && iy < int(p.in_h) && ix < int(p.in_w)) {
                float v = float(x[((image * p.in_h + uint(iy)) * p.in_w + uint(ix)) * p.channels + c]);
                best = v > best || is_nan(v) ? v : best;
                run += KIND == 3 ? pow_f(abs(v), p.power) : v;
                inside++;
            }
        }
        sum += run;
    }
    uint count = KIND == 2 ? padded : inside;
    float v = KIND == 0 ? best : KIND == 3 ? pow_f(sum, 1.0 / p.power) : count > 0 ? sum / float(count) : 0.0;
    y[i] = TO_REAL(activate(v, ACT, ACT_A, ACT_B));
}
