#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/*
 * Rotary positions: pairs (a, b) of a head's first 2 half elements become (cos a - sin b, sin a + cos b); neighbours when interleaved, halves otherwise. With a cache
 * the rows of a head are those of the cache, then the new ones, then zeros. A position outside of the table leaves a zero and is reported in `flag`.
 */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const bool TURNED = true;
layout(constant_id = 1) const bool INTERLEAVED = false;
layout(constant_id = 2) const uint PLACE = 0; /* of a token: 0: its number, over again in each batch entry of the table; 1: read; 2: behind the cache; 3: read, a prompt's counted from the first */
layout(constant_id = 3) const bool CACHE = false;
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };
layout(std430, binding = 2) readonly buffer Cosines { REAL cosines[]; };
layout(std430, binding = 3) readonly buffer Sines { REAL sines[]; };
layout(std430, binding = 4) readonly buffer Ids { uint ids[]; }; /* i64 */
layout(std430, binding = 5) readonly buffer Past { REAL past[]; };
layout(std430, binding = 6) readonly buffer Lengths { uint lengths[]; }; /* attention_past.comp */
layout(std430, binding = 7) buffer Flag { uint flag[]; };
layout(push_constant) uniform Push
{
    uint n, node;
    uint batch, heads, rows, size, half_; /* of y; pairs that turn */
    uint tokens, past_room, table, id_count;
    uint x_at, x_step[3], y_step[3]; /* batch, head, row */
} p;

/* The row of the tables; false: there is none. */
bool place_of(uint b, uint t, uint before, out uint row, out uint said)
{
    uint token = b * p.tokens + t;
    bool prompt = PLACE == 3u && lengths[p.batch] != 0u;
    row = PLACE == 0u ? token % max(p.table, 1u) : before + t;
    said = row;
    if (PLACE == 1u || PLACE == 3u) {
        uint at = prompt ? 0u : token;
        if (at >= p.id_count) {
            return false;
        }
        said = ids[2u * at];
        row = said + (prompt ? t : 0u);
        return ids[2u * at + 1u] == 0u && row < p.table;
    }
    return row < p.table;
}

void main()
{
    uint at = linear_id();
    if (at >= p.n) {
        return;
    }
    uint place = at / p.size, i = at - place * p.size, r = place % p.rows, h = place / p.rows % p.heads;
    uint b = place / (p.rows * p.heads), before = PLACE >= 2u || CACHE ? lengths[b] : 0u;
    uint to = b * p.y_step[0] + h * p.y_step[1] + r * p.y_step[2] + i;
    if (CACHE && r < before) {
        y[to] = past[((b * p.heads + h) * p.past_room + r) * p.size + i];
        return;
    }
    uint t = CACHE ? r - before : r;
    if (t >= p.tokens) {
        y[to] = TO_REAL(0.0);
        return;
    }
    uint from = p.x_at + b * p.x_step[0] + h * p.x_step[1] + t * p.x_step[2];
    if (!TURNED || i >= 2u * p.half_) {
        y[to] = x[from + i];
        return;
    }
    uint row, said;
    if (!place_of(b, t, before, row, said)) {
        if (atomicCompSwap(flag[0], 0u, p.node) == 0u) {
            flag[1] = said;
        }
        y[to] = TO_REAL(0.0);
        return;
    }
    uint pair = INTERLEAVED ? i / 2u : i % p.half_;
    bool second = INTERLEAVED ? i % 2u == 1u : i >= p.half_;
    uint first = INTERLEAVED ? 2u * pair : pair;
    float u = float(x[from + first]), v = float(x[from + first + (INTERLEAVED ? 1u : p.half_)]);
    float c = float(cosines[row * p.half_ + pair]), s = float(sines[row * p.half_ + pair]);
    y[to] = TO_REAL(second ? s * u + c * v : c * u - s * v);
}
