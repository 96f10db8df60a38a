#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"

/* ConvTranspose, NHWC: each output pixel gathers the input pixels whose window covers it. 4 outputs per invocation; w is [group][tap, channel][o padded to 4]. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint ACT = 0;
layout(constant_id = 1) const float ACT_A = 0.0;
layout(constant_id = 2) const float ACT_B = 0.0;
layout(constant_id = 3) const bool BIAS = false;
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(std430, binding = 2) readonly buffer W { REAL4 w[]; };
layout(std430, binding = 3) readonly buffer Bias { REAL4 bias[]; };
layout(push_constant) uniform Push
{
    uint m;
    uint in_h, in_w, in_c, out_h, out_w, out_c;
    uint kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int pad_top, pad_left;
    uint group_in, group_out, group_out4, groups;
} p;

void main()
{
    uint id = linear_id(), columns = p.groups * p.group_out4;
    uint m = id / columns, column = id - m * columns;
    uint g = column / p.group_out4, o4 = column - g * p.group_out4;
    if (m >= p.m) {
        return;
    }
    uint row = m / p.out_w, image = row / p.out_h;
    int oy = int(row - image * p.out_h) + p.pad_top, ox = int(m - row * p.out_w) + p.pad_left;
    vec4 sum = BIAS ? vec4(bias[column]) : vec4(0.0);
    for (uint ky = 0; ky < p.kernel_h; ky++) {
        int ty = oy - int(ky * p.dilation_h);
        if (ty < 0 || ty % int(p.stride_h) != 0 || ty / int(p.stride_h) >= int(p.in_h)) {
            continue;
        }
        for (uint kx = 0; kx < p.kernel_w; kx++) {
            int tx = ox - int(kx * p.dilation_w);
            if (tx < 0 || tx % int(p.stride_w) != 0 || tx / int(p.stride_w) >= int(p.in_w)) {
                continue;
            }
            uint at = ((image * p.in_h + uint(ty / int(p.stride_h))) * p.in_w + uint(tx / int(p.stride_w))) * p.in_c + g * p.group_in;
            uint wi = ((g * p.kernel_h + ky) * p.kernel_w + kx) * p.group_in * p.group_out4 + o4;
            for (uint c = 0; c < p.group_in; c++) {
                sum += float(x[at + c]) * vec4(w[wi + c * p.group_out4]);
            }
        }
    }
    uint o = 4u * o4, to = m * p.out_c + g * p.group_out + o;
    for (uint j = 0; j < 4u && o + j < p.group_out; j++) {
        y[to + j] = TO_REAL(activate(sum[j], ACT, ACT_A, ACT_B));
    }
}
