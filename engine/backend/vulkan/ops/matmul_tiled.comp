#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "matmul.glsl"

/* Family `tiled`: a workgroup of 16 x 16 makes 16 TILE x 64 results; 16 steps of k at a time pass through shared memory. */
#define DEPTH 16u
layout(local_size_x = 16, local_size_y = 16) in;

shared float rows[DEPTH * (16u * TILE + 1u)];
shared float columns[DEPTH * 65u];

void main()
{
    uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y, i = gl_WorkGroupID.z, pitch = 16u * TILE + 1u;
    uint m0 = gl_WorkGroupID.y * 16u * TILE, n0 = gl_WorkGroupID.x * 64u;
    uvec2 at = matrices_of(i);
    float sum[TILE * 4u];
    for (uint t = 0; t < TILE * 4u; t++) {
        sum[t] = 0.0;
    }
    for (uint k0 = 0; k0 < p.k; k0 += DEPTH) {
        for (uint t = 0; t < TILE; t++) {
            uint m = m0 + ty + 16u * t;
            rows[tx * pitch + ty + 16u * t] = m < p.m && k0 + tx < p.k ? float(a[at.x + m * p.k + k0 + tx]) : 0.0;
        }
        for (uint j = 0; j < 4u; j++) {
            uint n = n0 + tx + 16u * j;
            columns[ty * 65u + tx + 16u * j] = n < p.n && k0 + ty < p.k ? float(b[at.y + (k0 + ty) * p.n + n]) : 0.0;
        }
        barrier();
        for (uint k = 0; k < DEPTH; k++) {
            vec4 v = vec4(columns[k * 65u + tx], columns[k * 65u + tx + 16u], columns[k * 65u + tx + 32u],
                          columns[k * 65u + tx + 48u]);
            for (uint t = 0; t < TILE; t++) {
                float r = rows[k * pitch + ty + 16u * t];
                sum[4u * t] += TIMES_ONE(r, v.x);
                sum[4u * t + 1u] += TIMES_ONE(r, v.y);
                sum[4u * t + 2u] += TIMES_ONE(r, v.z);
                sum[4u * t + 3u] += TIMES_ONE(r, v.w);
            }
        }
        barrier();
    }
    for (uint t = 0; t < TILE; t++) {
        uint m = m0 + ty + 16u * t;
        for (uint j = 0; j < 4u; j++) {
            uint n = n0 + tx + 16u * j;
            if (m < p.m && n < p.n) {
                uint to = (i * p.m + m) * p.n + n;
                y[to] = TO_REAL(finished(sum[4u * t + j], n, to));
            }
        }
    }
}
