#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "qproduct.glsl"

/* One input channel per output channel, bytes: an invocation makes 4 channels of one pixel. w is [tap][channels padded to 4], a word for four channels. */
layout(local_size_x = LOCAL) in;
layout(std430, binding = 2) readonly buffer Taps { uint taps[]; };

ivec4 bytes_of(uint v)
{
    return ivec4(bitfieldExtract(int(v), 0, 8), bitfieldExtract(int(v), 8, 8), bitfieldExtract(int(v), 16, 8),
                 bitfieldExtract(int(v), 24, 8));
}

void main()
{
    uint id = linear_id(), m = id / p.group_out4, c4 = id - m * p.group_out4;
    if (m >= p.m) {
        return;
    }
    int xz = x_zero();
    ivec4 sum = ivec4(0), all = ivec4(0);
    Pixel pixel = pixel_of(m);
    for (uint ky = 0; ky < p.kernel_h; ky++) {
        int iy = pixel.y + int(ky * p.dilation_h);
        for (uint kx = 0; kx < p.kernel_w; kx++) {
            int ix = pixel.x + int(kx * p.dilation_w);
            bool inside = iy >= 0 && ix >= 0 && iy < int(p.in_h) && ix < int(p.in_w);
            uint at = ((pixel.image * p.in_h + uint(max(iy, 0))) * p.in_w + uint(max(ix, 0))) * p.in_c + 4u * c4;
            ivec4 v = inside ? bytes_of(x_word(inside ? at : 0u)) : ivec4(xz);
            sum += v * bytes_of(taps[(ky * p.kernel_w + kx) * p.group_out4 + c4]);
            all += v;
        }
    }
    if (W_ZEROS) {
        sum -= all * ivec4(params[c4 * (OUT == 2u ? 7u : 4u) + 3u]);
    }
    row_store(m, 0u, c4, sum, 0, xz);
}
