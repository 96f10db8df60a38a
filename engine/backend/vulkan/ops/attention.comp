#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "attention.glsl"

/*
 * Attention in blocks: y = softmax(cap(scale q k^T), biased and masked) v, without a matrix of scores. A workgroup has 16 TILE rows of queries and 64 SLABS columns
 * of values; it walks over the keys, 64 at a time. Each row keeps its largest score so far, the sum of its exponentials and a sum of values; a block whose largest
 * score is larger scales both down first (Milakov and Gimelshein 2018; Dao et al. 2022). Sums are f32. Heads that share keys are rows of one workgroup, so that a
 * few queries fill it.
 *
 * Invocation (x, y) has rows y, y + 16, ..., keys x, x + 16, x + 32, x + 48 of a block and the same columns of each slab.
 */
#define DEPTH 16u
#define KEYS  64u
layout(local_size_x = 16, local_size_y = 16) in;

layout(constant_id = 13) const uint TILE = 4;
layout(constant_id = 14) const uint SLABS = 1;

const uint ROWS = 16u * TILE;
const uint PITCH = ROWS + 1u;
shared float room_q[DEPTH * PITCH]; /* queries [depth][row]; then [x][row]: the largest score, the sum */
shared float room_k[DEPTH * 65u];   /* keys [depth][key]; values [key][column] */
shared float shares[KEYS * PITCH];  /* exponentials [key][row] */

void main()
{
    uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y, piece = gl_WorkGroupID.z % PIECES;
    uint slab0 = gl_WorkGroupID.z / PIECES * SLABS;
    uint group = p.heads / p.kv_heads, rows = group * p.queries, row0 = gl_WorkGroupID.y * ROWS;
    uint b = gl_WorkGroupID.x / p.kv_heads, shared_head = gl_WorkGroupID.x - b * p.kv_heads;
    int length = LENGTHS != 0u ? int(lengths[b * LENGTH_WORDS]) : 0;
    int offset = p.offset + (LENGTHS == 2u ? length : 0);
    int valid = LENGTHS == 1u ? min(length, int(p.keys)) : int(p.keys);
    uint k_base = p.k_at + b * p.k_step[0] + shared_head * p.k_step[1];
    uint v_base = p.v_at + b * p.v_step[0] + shared_head * p.v_step[1];

    uint head[TILE], query[TILE], q_base[TILE];
    float largest[TILE], total[TILE], sum[TILE * 4u], result[TILE * SLABS * 4u];
    [[unroll]] for (uint t = 0; t < TILE; t++) {
        uint row = min(row0 + ty + 16u * t, rows - 1u);
        head[t] = shared_head * group + row / p.queries;
        query[t] = row % p.queries;
        q_base[t] = p.q_at + b * p.q_step[0] + head[t] * p.q_step[1] + query[t] * p.q_step[2];
        largest[t] = -INFINITY;
        total[t] = 0.0;
    }
    [[unroll]] for (uint t = 0; t < TILE * SLABS * 4u; t++) {
        result[t] = 0.0;
    }

    ivec2 seen_keys = keys_of(piece, row0, ROWS, rows, valid, offset, int(KEYS));
    for (int block = seen_keys.x; block < seen_keys.y; block += int(KEYS)) {
        uint key0 = uint(block);
        [[unroll]] for (uint t = 0; t < TILE * 4u; t++) {
            sum[t] = 0.0;
        }
        for (uint d0 = 0; d0 < p.size; d0 += DEPTH) {
            bool inside = d0 + tx < p.size; /* this invocation brings one place of the depth */
            [[unroll]] for (uint t = 0; t < TILE; t++) {
                room_q[tx * PITCH + ty + 16u * t] = inside ? float(q[q_base[t] + (d0 + tx) * p.q_step[3]]) : 0.0;
            }
            [[unroll]] for (uint j = 0; j < 4u; j++) {
                uint key = key0 + ty + 16u * j;
                bool there = inside && key < p.keys;
                uint at = k_base + min(key, p.keys - 1u) * p.k_step[2] + (d0 + tx) * p.k_step[3];
                room_k[tx * 65u + ty + 16u * j] = there ? float(k[there ? at : 0u]) : 0.0;
            }
            barrier();
            for (uint i = 0; i < DEPTH; i++) {
                vec4 c = vec4(room_k[i * 65u + tx], room_k[i * 65u + tx + 16u], room_k[i * 65u + tx + 32u],
                              room_k[i * 65u + tx + 48u]);
                [[unroll]] for (uint t = 0; t < TILE; t++) {
                    float r = room_q[i * PITCH + ty + 16u * t];
                    sum[4u * t] += r * c.x;
                    sum[4u * t + 1u] += r * c.y;
                    sum[4u * t + 2u] += r * c.z;
                    sum[4u * t + 3u] += r * c.w;
                }
            }
            barrier();
        }
        [[unroll]] for (uint t = 0; t < TILE; t++) {
            float most = -INFINITY;
            bool row_there = row0 + ty + 16u * t < rows;
            [[unroll]] for (uint j = 0; j < 4u; j++) {
                uint key = key0 + tx + 16u * j;
                float raw = sum[4u * t + j] * p.scale, capped;
                float s = score_of(raw, b, head[t], query[t], key, valid, int(query[t]) + offset, capped);
                if (SCORES != 0u && row_there && key < p.keys && slab0 == 0u) {
                    uint at = ((b * p.heads + head[t]) * p.queries + query[t]) * p.keys + key;
                    scores[at] = TO_REAL(SCORES == 1u ? raw : SCORES == 2u ? capped : s);
                }
                sum[4u * t + j] = s;
                most = larger(most, s);
            }
            room_q[tx * PITCH + ty + 16u * t] = most;
        }
        barrier();
        float now[TILE], factor[TILE];
        [[unroll]] for (uint t = 0; t < TILE; t++) {
            now[t] = largest[t];
            for (uint i = 0; i < 16u; i++) {
                now[t] = larger(now[t], room_q[i * PITCH + ty + 16u * t]);
            }
            now[t] = is_nan(largest[t]) ? largest[t] : now[t];
            factor[t] = now[t] == largest[t] ? 1.0 : largest[t] == -INFINITY ? 0.0 : exp_f(largest[t] - now[t]);
        }
        barrier();
        [[unroll]] for (uint t = 0; t < TILE; t++) {
            float part = 0.0;
            [[unroll]] for (uint j = 0; j < 4u; j++) {
                float s = sum[4u * t + j];
                float share = s == -INFINITY ? 0.0 : exp_f(s - now[t]);
                shares[(tx + 16u * j) * PITCH + ty + 16u * t] = share;
                part += share;
            }
            room_q[tx * PITCH + ty + 16u * t] = part;
        }
        barrier();
        [[unroll]] for (uint t = 0; t < TILE; t++) {
            float more = 0.0;
            for (uint i = 0; i < 16u; i++) {
                more += room_q[i * PITCH + ty + 16u * t];
            }
            total[t] = total[t] * factor[t] + more;
            largest[t] = now[t];
            [[unroll]] for (uint j = 0; j < SLABS * 4u; j++) {
                result[t * SLABS * 4u + j] *= factor[t];
            }
        }
        uint count = min(KEYS, p.keys - key0);
        for (uint c0 = 0; c0 < count; c0 += DEPTH) {
            [[unroll]] for (uint slab = 0; slab < SLABS; slab++) {
                uint column0 = (slab0 + slab) * 64u;
                [[unroll]] for (uint j = 0; j < 4u; j++) {
                    uint column = column0 + tx + 16u * j, key = key0 + c0 + ty;
                    bool there = column < p.value_size && key < p.keys;
                    uint at = v_base + key * p.v_step[2] + column * p.v_step[3];
                    room_k[ty * 65u + tx + 16u * j] = there ? float(v[there ? at : 0u]) : 0.0;
                }
                barrier();
                for (uint i = 0; i < DEPTH; i++) {
                    vec4 c = vec4(room_k[i * 65u + tx], room_k[i * 65u + tx + 16u], room_k[i * 65u + tx + 32u],
                                  room_k[i * 65u + tx + 48u]);
                    [[unroll]] for (uint t = 0; t < TILE; t++) {
                        float share = shares[(c0 + i) * PITCH + ty + 16u * t];
                        uint to = (t * SLABS + slab) * 4u;
                        result[to] += share * c.x;
                        result[to + 1u] += share * c.y;
                        result[to + 2u] += share * c.z;
                        result[to + 3u] += share * c.w;
                    }
                }
                barrier();
            }
        }
    }

    [[unroll]] for (uint t = 0; t < TILE; t++) {
        uint row = row0 + ty + 16u * t;
        if (row >= rows) {
            continue;
        }
        float by = PIECES > 1u ? 1.0 : share_of_all(largest[t], total[t], head[t], largest[t] == -INFINITY);
        uint y_base = b * p.y_step[0] + head[t] * p.y_step[1] + query[t] * p.y_step[2], at = part_at(piece, row, rows);
        [[unroll]] for (uint slab = 0; slab < SLABS; slab++) {
            [[unroll]] for (uint j = 0; j < 4u; j++) {
                uint column = (slab0 + slab) * 64u + tx + 16u * j;
                float value = result[(t * SLABS + slab) * 4u + j] * by;
                if (column < p.value_size && PIECES > 1u) {
                    parts[at + column] = value;
                } else if (column < p.value_size) {
                    y[y_base + column * p.y_step[3]] = TO_REAL(value);
                }
            }
        }
        if (PIECES > 1u && slab0 == 0u && tx == 0u) {
            parts[at + p.value_size] = largest[t];
            parts[at + p.value_size + 1u] = total[t];
        }
    }
}
