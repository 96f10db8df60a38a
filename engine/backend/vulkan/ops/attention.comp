#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"

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

layout(constant_id = 0) const uint TILE = 4;
layout(constant_id = 1) const uint SLABS = 1;
layout(constant_id = 2) const uint TERMS = 0;
layout(constant_id = 3) const uint KIND0 = 0; /* enum vk_term, and 16 times enum vk_term_of: ops/attention.h */
layout(constant_id = 4) const uint KIND1 = 0;
layout(constant_id = 5) const uint KIND2 = 0;
layout(constant_id = 6) const uint KIND3 = 0;
layout(constant_id = 7) const uint LENGTHS = 0; /* 1: how many keys of each batch entry count; 2: causal offset of each */
layout(constant_id = 8) const uint LENGTH_WORDS = 1; /* of one: i64 has two */
layout(constant_id = 9) const bool CAUSAL = false;
layout(constant_id = 10) const bool CAP = false;
layout(constant_id = 11) const uint SINKS = 0; /* one more score that no key has: 1: it is 0; 2: of each head, read */
layout(constant_id = 12) const bool ZERO = false; /* a row that sees nothing is 0, else NaN */
layout(constant_id = 13) const uint SCORES = 0; /* scores are stored: 1 as products, 2 capped, 3 biased and masked */

layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer Q { REAL q[]; };
layout(std430, binding = 2) readonly buffer K { REAL k[]; };
layout(std430, binding = 3) readonly buffer V { REAL v[]; };
layout(std430, binding = 4) readonly buffer Steps { uint steps[]; }; /* per term: of batch, head, query, key; keys; fill */
layout(std430, binding = 5) readonly buffer R0 { REAL reals0[]; };
layout(std430, binding = 5) readonly buffer W0 { uint words0[]; };
layout(std430, binding = 6) readonly buffer R1 { REAL reals1[]; };
layout(std430, binding = 6) readonly buffer W1 { uint words1[]; };
layout(std430, binding = 7) readonly buffer R2 { REAL reals2[]; };
layout(std430, binding = 7) readonly buffer W2 { uint words2[]; };
layout(std430, binding = 8) readonly buffer R3 { REAL reals3[]; };
layout(std430, binding = 8) readonly buffer W3 { uint words3[]; };
layout(std430, binding = 9) readonly buffer Lengths { uint lengths[]; };
layout(std430, binding = 10) readonly buffer Sinks { REAL sinks[]; };
layout(std430, binding = 11) writeonly buffer Scores { REAL scores[]; };

layout(push_constant) uniform Push
{
    uint heads, kv_heads, queries, keys, size, value_size;
    uint q_step[4], k_step[4], v_step[4], y_step[4]; /* batch, head, row, column */
    uint q_at, k_at, v_at;
    float scale, cap;
    int offset, window; /* query i sees keys j <= i + offset, with a window only the last so many of them */
} p;

const uint ROWS = 16u * TILE;
const uint PITCH = ROWS + 1u;
shared float room_q[DEPTH * PITCH]; /* queries [depth][row]; then [x][row]: the largest score, the sum */
shared float room_k[DEPTH * 65u];   /* keys [depth][key]; values [key][column] */
shared float shares[KEYS * PITCH];  /* exponentials [key][row] */

float larger(float a, float b)
{
    return b > a || is_nan(b) ? b : a;
}

/* What a term says of one score. */
#define TERM(name, N, reals, words)                                                                                    \
    float name(float s, uint kind, uint b, uint h, uint i, uint key)                                                   \
    {                                                                                                                  \
        uint at = b * steps[6u * N] + h * steps[6u * N + 1u] + i * steps[6u * N + 2u] + key * steps[6u * N + 3u];      \
        float fill = uintBitsToFloat(steps[6u * N + 5u]);                                                              \
        uint rule = kind & 15u, type = kind >> 4;                                                                      \
        if (key >= steps[6u * N + 4u]) {                                                                               \
            return -INFINITY;                                                                                          \
        }                                                                                                              \
        if (rule == 0u) {                                                                                              \
            return s + float(reals[at]);                                                                               \
        }                                                                                                              \
        uint word = words[type == 0u ? at >> 2 : type == 1u ? at : 2u * at];                                           \
        word = type == 0u ? word >> (8u * (at & 3u)) & 255u : word;                                                    \
        if (rule == 4u) {                                                                                              \
            return int(key) < int(word) ? s : s + fill;                                                                \
        }                                                                                                              \
        bool set = word != 0u || (type == 2u && words[2u * at + 1u] != 0u);                                            \
        return rule == 1u ? (set ? s : fill) : rule == 2u ? (set ? fill : s) : (set ? s : s + fill);                   \
    }
TERM(term0, 0u, reals0, words0)
TERM(term1, 1u, reals1, words1)
TERM(term2, 2u, reals2, words2)
TERM(term3, 3u, reals3, words3)

float biased(float s, uint b, uint h, uint i, uint key)
{
    if (TERMS > 0u) {
        s = term0(s, KIND0, b, h, i, key);
    }
    if (TERMS > 1u) {
        s = term1(s, KIND1, b, h, i, key);
    }
    if (TERMS > 2u) {
        s = term2(s, KIND2, b, h, i, key);
    }
    if (TERMS > 3u) {
        s = term3(s, KIND3, b, h, i, key);
    }
    return s;
}

void main()
{
    uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y, slab0 = gl_WorkGroupID.z * SLABS;
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

    /* Keys that some row of the workgroup may see: rows of several heads begin anew. */
    int first = 0, end = valid;
    if (CAUSAL && SCORES == 0u) {
        uint last_row = min(row0 + ROWS, rows) - 1u;
        bool several = row0 / p.queries != last_row / p.queries;
        int low = several ? 0 : int(row0 % p.queries), high = several ? int(p.queries) - 1 : int(last_row % p.queries);
        end = min(end, high + offset + 1);
        first = p.window > 0 ? max(low + offset + 1 - p.window, 0) / int(KEYS) * int(KEYS) : 0;
    } else if (SCORES != 0u) {
        end = int(p.keys);
    }

    for (int block = first; block < end; block += int(KEYS)) {
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
                float s = sum[4u * t + j] * p.scale, raw = s;
                if (CAP) {
                    s = p.cap * tanh_f(s / p.cap);
                }
                float capped = s;
                int seen = int(query[t]) + offset;
                bool hidden = int(key) >= valid;
                if (CAUSAL) {
                    hidden = hidden || int(key) > seen || (p.window > 0 && int(key) <= seen - p.window);
                }
                if (hidden) {
                    s = -INFINITY;
                } else {
                    s = biased(s, b, head[t], query[t], key);
                }
                if (SCORES != 0u && row_there && key < p.keys && gl_WorkGroupID.z == 0u) {
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
        bool none = largest[t] == -INFINITY;
        float below = total[t], above = 1.0;
        if (SINKS != 0u) {
            float sink = SINKS == 2u ? float(sinks[head[t]]) : 0.0, top = larger(largest[t], sink);
            above = none ? 0.0 : exp_f(largest[t] - top);
            below = total[t] * above + exp_f(sink - top);
        }
        float by = none ? (ZERO || SINKS != 0u ? 0.0 : NOT_A_NUMBER) : above / below;
        if (row0 + ty + 16u * t >= rows) {
            continue;
        }
        uint y_base = b * p.y_step[0] + head[t] * p.y_step[1] + query[t] * p.y_step[2];
        [[unroll]] for (uint slab = 0; slab < SLABS; slab++) {
            [[unroll]] for (uint j = 0; j < 4u; j++) {
                uint column = (slab0 + slab) * 64u + tx + 16u * j;
                if (column < p.value_size) {
                    y[y_base + column * p.y_step[3]] = TO_REAL(result[(t * SLABS + slab) * 4u + j] * by);
                }
            }
        }
    }
}
