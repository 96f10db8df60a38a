#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "product.glsl"

/* Family `simple`: no shared memory. One invocation makes 4 outputs of TILE neighbouring rows. */
layout(local_size_x = LOCAL) in;

void main()
{
    uint id = linear_id(), columns = p.groups * p.group_out4;
    uint block = id / columns, column = id - block * columns;
    uint g = column / p.group_out4, o4 = column - g * p.group_out4;
    uint m0 = block * TILE;
    if (m0 >= p.m) {
        return;
    }
    vec4 sum[TILE];
    Pixel pixel[TILE];
    uint at[TILE];
    bool inside[TILE];
    for (uint t = 0; t < TILE; t++) {
        sum[t] = bias_of(g, o4);
        pixel[t] = pixel_of(min(m0 + t, p.m - 1u));
    }
    uint wi = g * p.kernel_h * p.kernel_w * p.group_in * p.group_out4 + o4;
    for (uint ky = 0; ky < p.kernel_h; ky++) {
        for (uint kx = 0; kx < p.kernel_w; kx++) {
            for (uint t = 0; t < TILE; t++) {
                if (POINT) {
                    inside[t] = true;
                    at[t] = min(m0 + t, p.m - 1u) * p.in_c + g * p.group_in;
                } else {
                    int iy = pixel[t].y + int(ky * p.dilation_h), ix = pixel[t].x + int(kx * p.dilation_w);
                    inside[t] = iy >= 0 && ix >= 0 && iy < int(p.in_h) && ix < int(p.in_w);
                    uint px = (pixel[t].image * p.in_h + uint(iy)) * p.in_w + uint(ix);
                    at[t] = inside[t] ? px * p.in_c + g * p.group_in : 0u;
                }
            }
            if (VEC4) {
                for (uint c = 0; c < p.group_in; c += 4u) {
                    vec4 w0 = w_at(wi), w1 = w_at(wi + p.group_out4), w2 = w_at(wi + 2u * p.group_out4),
                         w3 = w_at(wi + 3u * p.group_out4);
                    for (uint t = 0; t < TILE; t++) {
                        vec4 v = vec4(x4[(at[t] + c) / 4u]);
                        v = inside[t] ? v : vec4(0.0);
                        sum[t] += (weighted(v.x, w0) + weighted(v.y, w1)) + (weighted(v.z, w2) + weighted(v.w, w3)); /* in pairs: half the rounding error */
                    }
                    wi += 4u * p.group_out4;
                }
            } else {
                for (uint c = 0; c < p.group_in; c++) {
                    vec4 w0 = w_at(wi);
                    for (uint t = 0; t < TILE; t++) {
                        float v = float(x[at[t] + c]);
                        sum[t] += weighted(inside[t] ? v : 0.0, w0);
                    }
                    wi += p.group_out4;
                }
            }
        }
    }
    for (uint t = 0; t < TILE; t++) {
        if (m0 + t < p.m) {
            row_store(m0 + t, g, o4, sum[t]);
        }
    }
}
