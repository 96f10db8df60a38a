#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "nbits.glsl"

/* Family `gemv`: a workgroup makes TILE rows (y) of LANES outputs (x); the others share the depth, so that neighbours read neighbouring words of a row of w. */
#define INVOCATIONS 128u
layout(local_size_x = 128) in;
layout(constant_id = 8) const uint LANES = 2; /* a power of two */

shared float slices[INVOCATIONS];

void main()
{
    uint count = INVOCATIONS / LANES, id = gl_LocalInvocationID.x, lane = id / count, slice = id % count;
    uint o = gl_WorkGroupID.x * LANES + lane, m0 = gl_WorkGroupID.y * TILE, row = min(o, p.n - 1u);
    float sum[TILE];
    for (uint t = 0; t < TILE; t++) {
        sum[t] = 0.0;
    }
    for (uint w = slice; w < p.words; w += count) {
        uint word = codes[row * p.words + w], at = row * p.blocks + w / p.block_words, k0 = w * PER_WORD;
        float s = scale_of(at), z = zero_of(at);
        for (uint t = 0; t < TILE; t++) {
            uint from = min(m0 + t, p.m - 1u) * p.k + k0;
            float part = 0.0;
            [[unroll]] for (uint j = 0; j < PER_WORD; j++) {
                part += k0 + j < p.k ? float(x[k0 + j < p.k ? from + j : 0u]) * (code_of(word, j) - z) : 0.0;
            }
            sum[t] += part * s;
        }
    }
    for (uint t = 0; t < TILE; t++) {
        slices[id] = sum[t];
        for (uint left = count / 2u; left > 0u; left /= 2u) {
            barrier();
            if (slice < left) {
                slices[id] += slices[id + left];
            }
        }
        if (slice == 0u && o < p.n && m0 + t < p.m) {
            sum_store((m0 + t) * p.n + o, slices[id] + bias_of(o));
        }
        barrier(); /* before the next row overwrites them */
    }
}
