#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "quantise.glsl"

/* A batch of products of bytes, both sides computed: y[m][n] = sum_k (a[m][k] - a_zero) (b[k][n] - b_zero[n]), as i32 or requantised. An output an invocation. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const bool A_SIGNED = false;
layout(constant_id = 1) const bool B_SIGNED = false;
layout(constant_id = 2) const bool SUMS = false; /* y is i32 */
layout(constant_id = 3) const bool SIGNED = false;
layout(constant_id = 4) const uint A_ZEROS = 0; /* 0: none, 1: one for all, 2: one for each row */
layout(constant_id = 5) const uint B_ZEROS = 0; /* 0: none, 1: one for all, 2: one for each column */
layout(constant_id = 6) const bool SCALES = false; /* one for each column, else one for all */
layout(std430, binding = 0) writeonly buffer Y { uint8_t y[]; };
layout(std430, binding = 0) writeonly buffer YW { int y_i32[]; };
layout(std430, binding = 1) readonly buffer AU { uint8_t a_u8[]; };
layout(std430, binding = 1) readonly buffer AI { int8_t a_i8[]; };
layout(std430, binding = 2) readonly buffer BU { uint8_t b_u8[]; };
layout(std430, binding = 2) readonly buffer BI { int8_t b_i8[]; };
layout(std430, binding = 3) readonly buffer ZAU { uint8_t za_u8[]; };
layout(std430, binding = 3) readonly buffer ZAI { int8_t za_i8[]; };
layout(std430, binding = 4) readonly buffer ZBU { uint8_t zb_u8[]; };
layout(std430, binding = 4) readonly buffer ZBI { int8_t zb_i8[]; };
layout(std430, binding = 5) readonly buffer Scale { float scale[]; };
layout(push_constant) uniform Push
{
    uint m, n, k, batch;
    uint dim[4], a_step[4], b_step[4]; /* of the batch dims, in matrices; 0 repeats */
    int y_zero;
} p;

void main()
{
    uint id = linear_id(), row = id / p.n, column = id - row * p.n, i = row / p.m, r = row - i * p.m;
    if (i >= p.batch) {
        return;
    }
    uint a_at = 0u, b_at = 0u, rest = i;
    for (int d = 3; d >= 0; d--) {
        uint q = rest / p.dim[d], c = rest - q * p.dim[d];
        rest = q;
        a_at += c * p.a_step[d];
        b_at += c * p.b_step[d];
    }
    a_at = (a_at * p.m + r) * p.k;
    b_at = b_at * p.k * p.n + column;
    uint za_at = A_ZEROS == 2u ? r : 0u, zb_at = B_ZEROS == 2u ? column : 0u;
    int za = A_ZEROS == 0u ? 0 : A_SIGNED ? int(za_i8[za_at]) : int(za_u8[za_at]);
    int zb = B_ZEROS == 0u ? 0 : B_SIGNED ? int(zb_i8[zb_at]) : int(zb_u8[zb_at]);
    int sum = 0;
    for (uint k = 0; k < p.k; k++) {
        int u = A_SIGNED ? int(a_i8[a_at + k]) : int(a_u8[a_at + k]);
        int v = B_SIGNED ? int(b_i8[b_at + k * p.n]) : int(b_u8[b_at + k * p.n]);
        sum += (u - za) * (v - zb);
    }
    if (SUMS) {
        y_i32[id] = sum;
        return;
    }
    int q = requantised(uint(abs(sum)), sum < 0, scale[SCALES ? column : 0u], p.y_zero, SIGNED ? -128 : 0, SIGNED ? 127 : 255);
    y[id] = uint8_t(uint(q) & 255u);
}
