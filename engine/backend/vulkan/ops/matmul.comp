#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "matmul.glsl"

/* Family `simple`: an invocation makes TILE rows of one column. */
layout(local_size_x = LOCAL) in;

void main()
{
    uint id = linear_id(), blocks = (p.m + TILE - 1u) / TILE;
    uint row = id / p.n, column = id - row * p.n;
    uint i = row / blocks, m0 = (row - i * blocks) * TILE;
    if (i >= p.batch) {
        return;
    }
    uvec2 at = matrices_of(i);
    float sum[TILE];
    for (uint t = 0; t < TILE; t++) {
        sum[t] = 0.0;
    }
    for (uint k = 0; k < p.k; k++) {
        float v = float(b[at.y + k * p.n + column]);
        for (uint t = 0; t < TILE; t++) {
            sum[t] += TIMES_ONE(float(a[at.x + min(m0 + t, p.m - 1u) * p.k + k]), v);
        }
    }
    for (uint t = 0; t < TILE && m0 + t < p.m; t++) {
        uint to = (i * p.m + m0 + t) * p.n + column;
        y[to] = TO_REAL(finished(sum[t], column, to));
    }
}
