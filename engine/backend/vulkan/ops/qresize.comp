#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/* Bilinear, NHWC, bytes, in fixed point: weights of 11 bits, halves upwards. The table has (low, high, weight of high) for each output row, then for each column. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const bool SIGNED = false;
layout(std430, binding = 0) writeonly buffer Y { uint8_t y[]; };
layout(std430, binding = 1) readonly buffer XU { uint8_t x_u8[]; };
layout(std430, binding = 1) readonly buffer XI { int8_t x_i8[]; };
layout(std430, binding = 2) readonly buffer Table { uint table[]; };
layout(push_constant) uniform Push { uint n, in_h, in_w, out_h, out_w, channels; } p;

int taken(uint at)
{
    return SIGNED ? int(x_i8[at]) : int(x_u8[at]);
}

void main()
{
    uint i = linear_id();
    if (i >= p.n) {
        return;
    }
    uint m = i / p.channels, c = i - m * p.channels, line = m / p.out_w, image = line / p.out_h;
    uint v = 3u * (line - image * p.out_h), u = 3u * (p.out_h + m - line * p.out_w);
    uint top = (image * p.in_h + table[v]) * p.in_w, bottom = (image * p.in_h + table[v + 1u]) * p.in_w;
    uint left = table[u], right = table[u + 1u];
    int tl = taken((top + left) * p.channels + c), tr = taken((top + right) * p.channels + c);
    int bl = taken((bottom + left) * p.channels + c), br = taken((bottom + right) * p.channels + c);
    int across = int(table[u + 2u]), down = int(table[v + 2u]);
    int t = tl * 2048 + (tr - tl) * across, b = bl * 2048 + (br - bl) * across;
    int sum = (t * 2048 + (b - t) * down + (1 << 21)) >> 22;
    y[i] = uint8_t(uint(sum) & 255u);
}
