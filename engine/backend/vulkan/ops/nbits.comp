#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "nbits.glsl"

/* Family `simple`: an invocation makes one output of TILE rows. */
layout(local_size_x = LOCAL) in;

void main()
{
    uint id = linear_id(), block = id / p.n, o = id - block * p.n, m0 = block * TILE;
    if (m0 >= p.m) {
        return;
    }
    float sum[TILE];
    for (uint t = 0; t < TILE; t++) {
        sum[t] = bias_of(o);
    }
    for (uint w = 0; w < p.words; w++) {
        uint word = codes[o * p.words + w], at = o * p.blocks + w / p.block_words, k0 = w * PER_WORD;
        float s = scale_of(at), z = zero_of(at);
        for (uint j = 0; j < PER_WORD && k0 + j < p.k; j++) {
            float v = (code_of(word, j) - z) * s;
            for (uint t = 0; t < TILE; t++) {
                sum[t] += float(x[min(m0 + t, p.m - 1u) * p.k + k0 + j]) * v;
            }
        }
    }
    for (uint t = 0; t < TILE && m0 + t < p.m; t++) {
        sum_store((m0 + t) * p.n + o, sum[t]);
    }
}
