/*
 * conv_tiled.glsl - families `tiled` and `split`: a workgroup of 16 x 16 makes 16 TILE rows x 64 outputs of one group (z); 16 steps of k at a time pass through
 * shared memory, so that every value is read from memory once per workgroup. SPLIT: z is also a piece of k; its sums go as they are into a temporary [piece][row]
 * [group][fours of outputs], which split_sum.comp adds up.
 */
#define DEPTH 16u
layout(local_size_x = 16, local_size_y = 16) in;

shared float rows[DEPTH * (16u * TILE + 1u)]; /* [k][row], one column more: no bank conflicts when written by rows */
shared vec4 columns[DEPTH * 16u];             /* [k][fours of outputs] */

void main()
{
    uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y;
    uint g = gl_WorkGroupID.z / p.splits, piece = gl_WorkGroupID.z - g * p.splits;
    uint pitch = 16u * TILE + 1u;
    uint m0 = gl_WorkGroupID.x * 16u * TILE, o4 = gl_WorkGroupID.y * 16u + tx;
    uint depth = p.kernel_h * p.kernel_w * p.group_in;
    uint share = ((depth + p.splits - 1u) / p.splits + DEPTH - 1u) / DEPTH * DEPTH, first = min(piece * share, depth);
    uint last = min(first + share, depth);
    vec4 sum[TILE];
    Pixel pixel[TILE];
    for (uint t = 0; t < TILE; t++) {
        sum[t] = vec4(0.0);
        pixel[t] = pixel_of(min(m0 + ty + 16u * t, p.m - 1u));
    }
    for (uint k0 = first; k0 < last; k0 += DEPTH) {
        uint k = k0 + tx; /* this invocation brings column k of TILE rows, and a four of row ty */
        uint tap = k / p.group_in, c = k - tap * p.group_in;
        int dy = int(tap / p.kernel_w * p.dilation_h), dx = int(tap % p.kernel_w * p.dilation_w);
        for (uint t = 0; t < TILE; t++) {
            uint m = m0 + ty + 16u * t;
            int iy = pixel[t].y + dy, ix = pixel[t].x + dx;
            bool there = k < last && m < p.m && iy >= 0 && ix >= 0 && iy < int(p.in_h) && ix < int(p.in_w);
            uint at = ((pixel[t].image * p.in_h + uint(iy)) * p.in_w + uint(ix)) * p.in_c + g * p.group_in + c;
            rows[tx * pitch + ty + 16u * t] = there ? float(x[at]) : 0.0;
        }
        bool filled = k0 + ty < last && o4 < p.group_out4;
        columns[ty * 16u + tx] = filled ? w_at((g * depth + k0 + ty) * p.group_out4 + o4) : vec4(0.0);
        barrier();
        [[unroll]] for (uint i = 0; i < DEPTH; i++) {
            vec4 v = columns[i * 16u + tx];
            for (uint t = 0; t < TILE; t++) {
                sum[t] += weighted(rows[i * pitch + ty + 16u * t], v);
            }
        }
        barrier();
    }
    if (o4 < p.group_out4) {
        for (uint t = 0; t < TILE; t++) {
            uint m = m0 + ty + 16u * t;
            if (m < p.m) {
#ifdef SPLIT
                sums[((piece * p.m + m) * p.groups + g) * p.group_out4 + o4] = sum[t];
#else
                row_store(m, g, o4, sum[t] + bias_of(g, o4));
#endif
            }
        }
    }
}
