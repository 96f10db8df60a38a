#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/*
 * Winograd's F(2x2, 3x3), first step: each tile of 4 x 4 pixels, two apart, becomes B^T d B. An invocation makes one channel of a tile; v is [tile][16][channel].
 */
layout(local_size_x = LOCAL) in;
layout(std430, binding = 0) writeonly buffer V { REAL v[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };

layout(push_constant) uniform Push
{
    uint tiles, first; /* of this dispatch; images before it */
    uint in_h, in_w, channels;
    uint tiles_h, tiles_w; /* of an image */
    int pad_top, pad_left;
} p;

vec4 line(vec4 d)
{
    return vec4(d.x - d.z, d.y + d.z, d.z - d.y, d.y - d.w);
}

void main()
{
    uint id = linear_id(), tile = id / p.channels, c = id - tile * p.channels;
    if (tile >= p.tiles) {
        return;
    }
    uint row = tile / p.tiles_w, image = row / p.tiles_h;
    int y0 = int(2u * (row - image * p.tiles_h)) - p.pad_top, x0 = int(2u * (tile - row * p.tiles_w)) - p.pad_left;
    mat4 d;
    for (int i = 0; i < 4; i++) {
        vec4 four = vec4(0.0);
        for (int j = 0; j < 4; j++) {
            int iy = y0 + i, ix = x0 + j;
            if (iy >= 0 && iy < int(p.in_h) && ix >= 0 && ix < int(p.in_w)) {
                four[j] = float(x[(((p.first + image) * p.in_h + uint(iy)) * p.in_w + uint(ix)) * p.channels + c]);
            }
        }
        d[i] = line(four);
    }
    d = transpose(d);
    for (int j = 0; j < 4; j++) {
        vec4 four = line(d[j]);
        for (int i = 0; i < 4; i++) {
            v[(tile * 16u + uint(4 * i + j)) * p.channels + c] = TO_REAL(four[i]);
        }
    }
}
