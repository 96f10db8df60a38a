#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "nbits.glsl"

/*
 * Family `tiled`: a workgroup of 16 x 16 makes 16 TILE rows x 64 outputs; 16 steps of k at a time pass through shared memory, codes as the floats that they stand
 * for: each word is decoded once for all rows of the tile.
 */
#define DEPTH 16u
layout(local_size_x = 16, local_size_y = 16) in;

shared float rows[DEPTH * (16u * TILE + 1u)]; /* [k][row] */
shared vec4 columns[DEPTH * 16u];             /* [k][fours of outputs] */

void weights_bring(uint id, uint k0)
{
    uint per = DEPTH / PER_WORD, c = id / per, o = gl_WorkGroupID.y * 64u + c, w = k0 / PER_WORD + id % per;
    if (id >= 64u * per) {
        return;
    }
    bool there = o < p.n && w < p.words;
    uint at = there ? o * p.blocks + w / p.block_words : 0u, word = there ? codes[o * p.words + w] : 0u;
    float s = there ? scale_of(at) : 0.0, z = there ? zero_of(at) : 0.0;
    for (uint j = 0; j < PER_WORD; j++) {
        columns[((id % per) * PER_WORD + j) * 16u + c / 4u][c % 4u] = (code_of(word, j) - z) * s;
    }
}

void main()
{
    uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y, pitch = 16u * TILE + 1u;
    uint m0 = gl_WorkGroupID.x * 16u * TILE, o = (gl_WorkGroupID.y * 16u + tx) * 4u;
    vec4 sum[TILE];
    for (uint t = 0; t < TILE; t++) {
        sum[t] = vec4(0.0);
    }
    for (uint k0 = 0; k0 < p.k; k0 += DEPTH) {
        for (uint t = 0; t < TILE; t++) {
            uint m = m0 + ty + 16u * t;
            bool there = m < p.m && k0 + tx < p.k;
            rows[tx * pitch + ty + 16u * t] = there ? float(x[there ? m * p.k + k0 + tx : 0u]) : 0.0;
        }
        weights_bring(ty * 16u + tx, k0);
        barrier();
        [[unroll]] for (uint i = 0; i < DEPTH; i++) {
            vec4 v = columns[i * 16u + tx];
            for (uint t = 0; t < TILE; t++) {
                sum[t] += rows[i * pitch + ty + 16u * t] * v;
            }
        }
        barrier();
    }
    for (uint t = 0; t < TILE; t++) {
        uint m = m0 + ty + 16u * t;
        for (uint j = 0; j < 4u && m < p.m && o + j < p.n; j++) {
            sum_store(m * p.n + o + j, sum[t][j] + bias_of(o + j));
        }
    }
}
