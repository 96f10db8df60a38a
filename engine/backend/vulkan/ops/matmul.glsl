/*
 * matmul.glsl - what the kernels of batched products share: y[i][m][n] = act(sum_k a[i][m][k] b[i][k][n]); the batch is up to four dims, either side may
 * broadcast along each (step 0).
 */
layout(constant_id = 0) const uint ACT = 0;
layout(constant_id = 1) const float ACT_A = 0.0;
layout(constant_id = 2) const float ACT_B = 0.0;
layout(constant_id = 3) const uint TILE = 4; /* rows of an invocation */
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer A { REAL a[]; };
layout(std430, binding = 2) readonly buffer B { REAL b[]; };
layout(push_constant) uniform Push
{
    uint m, n, k, batch;
    uint dim[4], a_step[4], b_step[4]; /* steps in matrices */
} p;

uvec2 matrices_of(uint i)
{
    uvec2 at = uvec2(0);
    for (int d = 3; d >= 0; d--) {
        uint q = i / p.dim[d], c = i - q * p.dim[d];
        i = q;
        at += c * uvec2(p.a_step[d], p.b_step[d]);
    }
    return at * uvec2(p.m * p.k, p.k * p.n);
}
