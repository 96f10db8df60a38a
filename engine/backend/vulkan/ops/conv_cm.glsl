/*
 * conv_cm.glsl - family `cm`: a workgroup of four subgroups makes 64 rows x 64 outputs of one group (z); 32 steps of k at a time pass through shared memory as f16.
 * Each subgroup has a quarter (32 x 32) as cooperative matrices of the device's size, with f32 sums. The sums leave through shared memory, where bias and activation
 * are added and what lies beyond the edges is dropped.
 *
 * SCALAR: plain loops in place of the matrices. So the tiles, edges and windows can be tested on a device without them.
 */
#define SIDE  64u
#define DEPTH 32u
#define PITCH_A (DEPTH + 8u) /* [row][k], eight more: fewer bank conflicts, still 16-byte rows */
#define PITCH_W (SIDE + 8u)  /* [k][output] */
#define PITCH_C (SIDE + 4u)

layout(constant_id = 8) const uint SUBGROUP = 32;
layout(local_size_x_id = 9) in; /* 4 SUBGROUP */
layout(constant_id = 9) const uint INVOCATIONS = 128;
layout(constant_id = 10) const uint CM = 16; /* rows, outputs and depth of a matrix: divide 32 */
layout(constant_id = 11) const uint CN = 16;
layout(constant_id = 12) const uint CK = 16;

shared float16_t a[SIDE * PITCH_A];
shared float16_t b[DEPTH * PITCH_W];
shared float c[SIDE * PITCH_C];
shared Pixel pixels[SIDE];

void rows_bring(uint m0, uint g, uint k0, uint depth)
{
    for (uint i = gl_LocalInvocationID.x; i < SIDE * DEPTH; i += INVOCATIONS) {
        uint row = i / DEPTH, k = k0 + i % DEPTH, tap = k / p.group_in, channel = k - tap * p.group_in;
        Pixel pixel = pixels[row];
        int iy = pixel.y + int(tap / p.kernel_w * p.dilation_h), ix = pixel.x + int(tap % p.kernel_w * p.dilation_w);
        bool there = k < depth && m0 + row < p.m && iy >= 0 && ix >= 0 && iy < int(p.in_h) && ix < int(p.in_w);
        uint at = ((pixel.image * p.in_h + uint(iy)) * p.in_w + uint(ix)) * p.in_c + g * p.group_in + channel;
        a[row * PITCH_A + i % DEPTH] = there ? x[at] : float16_t(0.0);
    }
}

void weights_bring(uint o40, uint g, uint k0, uint depth)
{
    for (uint i = gl_LocalInvocationID.x; i < DEPTH * SIDE / 4u; i += INVOCATIONS) {
        uint k = i / (SIDE / 4u), o4 = i % (SIDE / 4u);
        bool there = k0 + k < depth && o40 + o4 < p.group_out4;
        f16vec4 v = there ? w[(g * depth + k0 + k) * p.group_out4 + o40 + o4] : f16vec4(0.0);
        for (uint j = 0; j < 4u; j++) {
            b[k * PITCH_W + 4u * o4 + j] = v[j];
        }
    }
}

void main()
{
    uint id = gl_LocalInvocationID.x, quarter = id / SUBGROUP, g = gl_WorkGroupID.z;
    uint m0 = gl_WorkGroupID.x * SIDE, o40 = gl_WorkGroupID.y * (SIDE / 4u);
    uint row0 = quarter / 2u * 32u, out0 = quarter % 2u * 32u;
    uint depth = p.kernel_h * p.kernel_w * p.group_in;
    for (uint i = id; i < SIDE; i += INVOCATIONS) {
        pixels[i] = pixel_of(min(m0 + i, p.m - 1u));
    }
#ifdef SCALAR
    for (uint i = id; i < SIDE * SIDE; i += INVOCATIONS) {
        c[i / SIDE * PITCH_C + i % SIDE] = 0.0;
    }
#else
    fcoopmatNV<32, gl_ScopeSubgroup, CM, CN> sum[32u / CM * (32u / CN)];
    for (uint i = 0; i < 32u / CM * (32u / CN); i++) {
        sum[i] = fcoopmatNV<32, gl_ScopeSubgroup, CM, CN>(0.0);
    }
#endif
    barrier();
    for (uint k0 = 0; k0 < depth; k0 += DEPTH) {
        rows_bring(m0, g, k0, depth);
        weights_bring(o40, g, k0, depth);
        barrier();
#ifdef SCALAR
        for (uint i = id; i < SIDE * SIDE; i += INVOCATIONS) {
            float s = 0.0;
            for (uint k = 0; k < DEPTH; k++) {
                s += float(a[i / SIDE * PITCH_A + k]) * float(b[k * PITCH_W + i % SIDE]);
            }
            c[i / SIDE * PITCH_C + i % SIDE] += s;
        }
#else
        for (uint k = 0; k < DEPTH; k += CK) {
            for (uint n = 0; n < 32u / CN; n++) {
                fcoopmatNV<16, gl_ScopeSubgroup, CK, CN> right;
                coopMatLoadNV(right, b, k * PITCH_W + out0 + n * CN, PITCH_W, false);
                for (uint m = 0; m < 32u / CM; m++) {
                    fcoopmatNV<16, gl_ScopeSubgroup, CM, CK> left;
                    coopMatLoadNV(left, a, (row0 + m * CM) * PITCH_A + k, PITCH_A, false);
                    sum[m * (32u / CN) + n] = coopMatMulAddNV(left, right, sum[m * (32u / CN) + n]);
                }
            }
        }
#endif
        barrier();
    }
#ifndef SCALAR
    for (uint m = 0; m < 32u / CM; m++) {
        for (uint n = 0; n < 32u / CN; n++) {
            coopMatStoreNV(sum[m * (32u / CN) + n], c, (row0 + m * CM) * PITCH_C + out0 + n * CN, PITCH_C, false);
        }
    }
    barrier();
#endif
    for (uint i = id; i < SIDE * SIDE / 4u; i += INVOCATIONS) {
        uint row = i / (SIDE / 4u), o4 = i % (SIDE / 4u), at = row * PITCH_C + 4u * o4;
        if (m0 + row < p.m && o40 + o4 < p.group_out4) {
            row_store(m0 + row, g, o40 + o4, vec4(c[at], c[at + 1u], c[at + 2u], c[at + 3u]) + bias_of(g, o40 + o4));
        }
    }
}
