/*
 * Family `gemv` of products of bytes: few rows, or few outputs. A workgroup makes TILE rows (y) of LANES fours of outputs (x) of one group (z); its other
 * invocations share the depth.
 */
#define INVOCATIONS 128u /* every device has them */
layout(local_size_x = 128) in;
layout(constant_id = 9) const uint LANES = 8; /* a power of two, at most INVOCATIONS */

shared ivec4 slices[INVOCATIONS];
shared int alls[INVOCATIONS];

void main()
{
    uint id = gl_LocalInvocationID.x, lane = id % LANES, slice = id / LANES, count = INVOCATIONS / LANES;
    uint o4 = gl_WorkGroupID.x * LANES + lane, m0 = gl_WorkGroupID.y * TILE, g = gl_WorkGroupID.z;
    int xz = x_zero(), all[TILE];
    uint zeros = (uint(xz) & 255u) * 0x01010101u, depth = p.kernel_h * p.kernel_w * p.group_in4;
    ivec4 sum[TILE];
    Pixel pixel[TILE];
    for (uint t = 0; t < TILE; t++) {
        sum[t] = ivec4(0);
        all[t] = 0;
        pixel[t] = pixel_of(min(m0 + t, p.m - 1u));
    }
    uint wi = g * depth * p.group_out4 + min(o4, p.group_out4 - 1u);
    for (uint k = slice; k < depth; k += count) {
        uvec4 four = w[wi + k * p.group_out4];
        for (uint t = 0; t < TILE; t++) {
            uint word = taken(pixel[t], min(m0 + t, p.m - 1u), g, k, zeros);
            sum[t] += products(word, four);
            if (W_ZEROS) {
                all[t] += DOT4(word, ones_of(k));
            }
        }
    }
    for (uint t = 0; t < TILE; t++) {
        slices[id] = sum[t];
        alls[id] = all[t];
        for (uint left = count / 2u; left > 0u; left /= 2u) {
            barrier();
            if (slice < left) {
                slices[id] += slices[id + left * LANES];
                alls[id] += alls[id + left * LANES];
            }
        }
        if (slice == 0u && o4 < p.group_out4 && m0 + t < p.m) {
            row_store(m0 + t, g, o4, slices[id], alls[id], xz);
        }
        barrier(); /* before the next row overwrites them */
    }
}
