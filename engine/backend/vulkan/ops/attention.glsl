/*
 * attention.glsl - what all kernels of attention share: buffers, sizes, and what masks and biases make of a score.
 */
layout(constant_id = 0) const uint TERMS = 0;
layout(constant_id = 1) const uint KIND0 = 0; /* enum vk_term, and 16 times enum vk_term_of: ops/attention.h */
layout(constant_id = 2) const uint KIND1 = 0;
layout(constant_id = 3) const uint KIND2 = 0;
layout(constant_id = 4) const uint KIND3 = 0;
layout(constant_id = 5) const uint LENGTHS = 0; /* 1: how many keys of each batch entry count; 2: causal offset of each */
layout(constant_id = 6) const uint LENGTH_WORDS = 1; /* of one: i64 has two */
layout(constant_id = 7) const bool CAUSAL = false;
layout(constant_id = 8) const bool CAP = false;
layout(constant_id = 9) const uint SINKS = 0; /* one more score that no key has: 1: it is 0; 2: of each head, read */
layout(constant_id = 10) const bool ZERO = false; /* a row that sees nothing is 0, else NaN */
layout(constant_id = 11) const uint SCORES = 0; /* scores are stored: 1 as products, 2 capped, 3 biased and masked */
layout(constant_id = 12) const uint PIECES = 1; /* of the keys, each by a workgroup of its own; attention_join.comp adds them */

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
layout(std430, binding = 11) buffer Parts { float parts[]; }; /* [piece][batch, head, query][column; what exponentials are relative to; their sum] */

layout(push_constant) uniform Push
{
    uint heads, kv_heads, queries, keys, size, value_size;
    uint q_step[4], k_step[4], v_step[4], y_step[4]; /* batch, head, row, column */
    uint q_at, k_at, v_at;
    float scale, cap;
    int offset, window; /* query i sees keys j <= i + offset, with a window only the last so many of them */
} p;

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

/* The score of a query and a key from their product, which has been scaled: capped, then biased and masked. seen: the last key that a causal query sees. */
float score_of(float raw, uint b, uint h, uint i, uint key, int valid, int seen, out float capped)
{
    capped = CAP ? p.cap * tanh_f(raw / p.cap) : raw;
    bool hidden = int(key) >= valid;
    if (CAUSAL) {
        hidden = hidden || int(key) > seen || (p.window > 0 && int(key) <= seen - p.window);
    }
    return hidden ? -INFINITY : biased(capped, b, h, i, key);
}

/* What a row's sum is multiplied with in the end. top: what its exponentials are relative to; none: the row sees no key. */
float share_of_all(float top, float total, uint h, bool none)
{
    float below = total, above = 1.0;
    if (SINKS != 0u) {
        float sink = SINKS == 2u ? float(sinks[h]) : 0.0, most = larger(top, sink);
        above = none ? 0.0 : exp_f(top - most);
        below = total * above + exp_f(sink - most);
    }
    return none ? (ZERO || SINKS != 0u ? 0.0 : NOT_A_NUMBER) : above / below;
}

/* Keys of a piece that some row of a workgroup may see, from x to below y, in whole blocks from the first: rows of several heads begin anew. */
ivec2 keys_of(uint piece, uint row0, uint rows_here, uint rows, int valid, int offset, int block)
{
    ivec2 keys = ivec2(0, valid);
    if (CAUSAL && SCORES == 0u) {
        uint last_row = min(row0 + rows_here, rows) - 1u;
        bool several = row0 / p.queries != last_row / p.queries;
        int low = several ? 0 : int(row0 % p.queries), high = several ? int(p.queries) - 1 : int(last_row % p.queries);
        keys.y = min(keys.y, high + offset + 1);
        keys.x = p.window > 0 ? max(low + offset + 1 - p.window, 0) / block * block : 0;
    } else if (SCORES != 0u) {
        keys.y = int(p.keys);
    }
    if (PIECES > 1u) {
        int blocks = (max(keys.y - keys.x, 0) + block - 1) / block;
        int share = (blocks + int(PIECES) - 1) / int(PIECES) * block;
        keys.x += int(piece) * share;
        keys.y = min(keys.y, keys.x + share);
    }
    return keys;
}

/* Where the results of a piece for a row of this workgroup's head begin. */
uint part_at(uint piece, uint row, uint rows)
{
    return ((piece * gl_NumWorkGroups.x + gl_WorkGroupID.x) * rows + row) * (p.value_size + 2u);
}
