/*
 * Family `tiled` of products of bytes: a workgroup of 16 x 16 makes 16 TILE rows x 64 outputs of one group (z); 16 words of k at a time pass through shared
 * memory.
 */
#define DEPTH 16u
layout(local_size_x = 16, local_size_y = 16) in;

shared uint rows[DEPTH * (16u * TILE + 1u)]; /* [k][row], one column more: no bank conflicts when written by rows */
shared uvec4 columns[DEPTH * 16u];           /* [k][fours of outputs] */
shared uint ones[DEPTH];

void main()
{
    uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y, g = gl_WorkGroupID.z, pitch = 16u * TILE + 1u;
    uint m0 = gl_WorkGroupID.x * 16u * TILE, o4 = gl_WorkGroupID.y * 16u + tx;
    int xz = x_zero(), all[TILE];
    uint zeros = (uint(xz) & 255u) * 0x01010101u, depth = p.kernel_h * p.kernel_w * p.group_in4;
    ivec4 sum[TILE];
    Pixel pixel[TILE];
    for (uint t = 0; t < TILE; t++) {
        sum[t] = ivec4(0);
        all[t] = 0;
        pixel[t] = pixel_of(min(m0 + ty + 16u * t, p.m - 1u));
    }
    for (uint k0 = 0; k0 < depth; k0 += DEPTH) {
        uint k = k0 + tx; /* this invocation brings column k of TILE rows, and a four of row ty */
        for (uint t = 0; t < TILE; t++) {
            uint m = min(m0 + ty + 16u * t, p.m - 1u);
            rows[tx * pitch + ty + 16u * t] = k < depth ? taken(pixel[t], m, g, k, zeros) : 0u;
        }
        bool filled = k0 + ty < depth && o4 < p.group_out4;
        columns[ty * 16u + tx] = filled ? w[(g * depth + k0 + ty) * p.group_out4 + o4] : uvec4(0u);
        if (ty == 0u) {
            ones[tx] = k < depth ? ones_of(k) : 0u;
        }
        barrier();
#ifdef DOT
        [[unroll]]
#endif
        for (uint i = 0; i < DEPTH; i++) {
            uvec4 four = columns[i * 16u + tx];
            for (uint t = 0; t < TILE; t++) {
                uint word = rows[i * pitch + ty + 16u * t];
                sum[t] += products(word, four);
                if (W_ZEROS) {
                    all[t] += DOT4(word, ones[i]);
                }
            }
        }
        barrier();
    }
    for (uint t = 0; t < TILE && o4 < p.group_out4; t++) {
        if (m0 + ty + 16u * t < p.m) {
            row_store(m0 + ty + 16u * t, g, o4, sum[t], all[t], xz);
        }
    }
}
