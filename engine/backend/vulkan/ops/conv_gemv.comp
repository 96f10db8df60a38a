#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "product.glsl"

/*
 * Family `gemv`: few rows, or few outputs. A workgroup makes TILE rows (y) of LANES fours of outputs (x) of one group (z); its other invocations share the depth:
 * neighbours read neighbouring fours of w and, with few outputs, neighbouring k. The slices are added pairwise, always in the same order.
 */
#define INVOCATIONS 128u /* every device has them */
layout(local_size_x = 128) in;
layout(constant_id = 8) const uint LANES = 8; /* a power of two, at most INVOCATIONS */

shared vec4 slices[INVOCATIONS];

/* Element k of row m's window; 0 in the padding. */
float taken(Pixel pixel, uint m, uint g, uint k)
{
    if (POINT) {
        return float(x[m * p.in_c + g * p.group_in + k]);
    }
    uint tap = k / p.group_in, c = k - tap * p.group_in;
    int iy = pixel.y + int(tap / p.kernel_w * p.dilation_h), ix = pixel.x + int(tap % p.kernel_w * p.dilation_w);
    if (iy < 0 || ix < 0 || iy >= int(p.in_h) || ix >= int(p.in_w)) {
        return 0.0;
    }
    return float(x[((pixel.image * p.in_h + uint(iy)) * p.in_w + uint(ix)) * p.in_c + g * p.group_in + c]);
}

void main()
{
    uint id = gl_LocalInvocationID.x, lane = id % LANES, slice = id / LANES, count = INVOCATIONS / LANES;
    uint o4 = gl_WorkGroupID.x * LANES + lane, m0 = gl_WorkGroupID.y * TILE, g = gl_WorkGroupID.z;
    uint depth = p.kernel_h * p.kernel_w * p.group_in;
    bool there = o4 < p.group_out4;
    vec4 sum[TILE];
    Pixel pixel[TILE];
    for (uint t = 0; t < TILE; t++) {
        sum[t] = vec4(0.0);
        pixel[t] = pixel_of(min(m0 + t, p.m - 1u));
    }
    uint wi = g * depth * p.group_out4 + min(o4, p.group_out4 - 1u);
    if (VEC4 && POINT) {
        for (uint k = 4u * slice; k < depth; k += 4u * count) {
            uint at = wi + k * p.group_out4;
            vec4 w0 = w_at(at), w1 = w_at(at + p.group_out4), w2 = w_at(at + 2u * p.group_out4),
                 w3 = w_at(at + 3u * p.group_out4);
            for (uint t = 0; t < TILE; t++) {
                vec4 v = vec4(x4[(min(m0 + t, p.m - 1u) * p.in_c + g * p.group_in + k) / 4u]);
                sum[t] += (weighted(v.x, w0) + weighted(v.y, w1)) + (weighted(v.z, w2) + weighted(v.w, w3));
            }
        }
    } else {
        for (uint k = slice; k < depth; k += count) {
            vec4 v = w_at(wi + k * p.group_out4);
            for (uint t = 0; t < TILE; t++) {
                sum[t] += weighted(taken(pixel[t], min(m0 + t, p.m - 1u), g, k), v);
            }
        }
    }
    for (uint t = 0; t < TILE; t++) {
        slices[id] = sum[t];
        for (uint left = count / 2u; left > 0u; left /= 2u) {
            barrier();
            if (slice < left) {
                slices[id] += slices[id + left * LANES];
            }
        }
        if (slice == 0u && there && m0 + t < p.m) {
            row_store(m0 + t, g, o4, slices[id] + bias_of(g, o4));
        }
        barrier(); /* before the next row overwrites them */
    }
}
