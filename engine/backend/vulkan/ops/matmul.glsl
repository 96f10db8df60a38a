/*
 * matmul.glsl - what the kernels of batched products share: y[i][m][n] = act(sum_k a[i][m][k] b[i][k][n] + bias[n]), perhaps with a residual r[i][m][n]; the batch is
 * up to four dims, either side may broadcast along each (step 0).
 */
layout(constant_id = 0) const uint ACT = 0;
layout(constant_id = 1) const float ACT_A = 0.0;
layout(constant_id = 2) const float ACT_B = 0.0;
layout(constant_id = 3) const uint TILE = 4; /* rows of an invocation */
layout(constant_id = 4) const bool BIAS = false;
layout(constant_id = 5) const uint WIDE = 0; /* as in product.glsl; bit 0 has no meaning: both sides are computed */
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer A { REAL a[]; };
layout(std430, binding = 2) readonly buffer B { REAL b[]; };
layout(std430, binding = 3) readonly buffer Bias { REAL bias[]; };
layout(std430, binding = 3) readonly buffer Bias32 { float bias32[]; };
layout(std430, binding = 4) readonly buffer Residual { REAL residual[]; }; /* as y */
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

/* What leaves at element `at` of y, which lies in this column. */
float finished(float sum, uint column, uint at)
{
    if (BIAS) {
        sum += (WIDE & 2u) != 0u ? bias32[column] : float(bias[column]);
    }
    if ((WIDE & 4u) != 0u) {
        sum += float(residual[at]);
    }
    sum = activate(sum, ACT, ACT_A, ACT_B);
    return (WIDE & 8u) != 0u ? sum + float(residual[at]) : sum;
}
