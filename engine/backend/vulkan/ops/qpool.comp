#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"

/*
 * The largest, or the requantised mean, of the bytes under a window, NHWC: y = saturate(round(sum x_scale / (count y_scale)) + y_zero). The scales are whole
 * numbers times powers of two, so that the mean is rounded once, as exactly as the reference does it.
 */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const bool MEAN = false;
layout(constant_id = 1) const bool PADDED = false; /* what lies in the padding counts */
layout(constant_id = 2) const bool SIGNED = false;
layout(std430, binding = 0) writeonly buffer Y { uint8_t y[]; };
layout(std430, binding = 1) readonly buffer XU { uint8_t x_u8[]; };
layout(std430, binding = 1) readonly buffer XI { int8_t x_i8[]; };
layout(push_constant) uniform Push
{
    uint n;
    uint in_h, in_w, channels;
    uint out_h, out_w;
    uint kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
    int pad_top, pad_left, end_h, end_w; /* end: first row and column behind the padded input */
    int x_zero, y_zero;
    uint top, bottom;                    /* x_scale / y_scale = top / bottom 2^exponent */
    int exponent;
    float ratio; /* the same in f32 */
} p;

int mean_of(int sum, uint count)
{
    if (count == 0u || sum == 0) {
        return clamp(p.y_zero, SIGNED ? -128 : 0, SIGNED ? 127 : 255);
    }
    uint size = uint(abs(sum));
    float near = float(size) * p.ratio / float(count);
    float v = ratio_rounded(near, big_product(size, uvec2(p.top, 0u)), p.exponent, big_product(count, uvec2(p.bottom, 0u)));
    return clamp(int(sum < 0 ? -v : v) + p.y_zero, SIGNED ? -128 : 0, SIGNED ? 127 : 255);
}

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
    int best = -1000, sum = 0;
    uint inside = 0, padded = 0;
    for (uint ky = 0; ky < p.kernel_h; ky++) {
        int iy = y0 + int(ky * p.dilation_h);
        for (uint kx = 0; kx < p.kernel_w; kx++) {
            int ix = x0 + int(kx * p.dilation_w);
            padded += iy < p.end_h && ix < p.end_w ? 1u : 0u;
            if (iy >= 0 && ix >= 0 && iy < int(p.in_h) && ix < int(p.in_w)) {
                uint at = ((image * p.in_h + uint(iy)) * p.in_w + uint(ix)) * p.channels + c;
                int v = SIGNED ? int(x_i8[at]) : int(x_u8[at]);
                best = max(v, best);
                sum += v - p.x_zero;
                inside++;
            }
        }
    }
    int v = MEAN ? mean_of(sum, PADDED ? padded : inside) : best;
    y[i] = uint8_t(uint(v) & 255u);
}
