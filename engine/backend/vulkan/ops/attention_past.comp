#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/*
 * GroupQueryAttention: how many rows of the cache stand before each entry's new ones, then 1 when this is a prompt, which starts at 0. Lengths that do not fit the caches
 * are reported in `flag` and count as 0.
 */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint LAST_WORDS = 1; /* of a number: i64 has two */
layout(std430, binding = 0) writeonly buffer Y { uint y[]; };
layout(std430, binding = 1) readonly buffer Last { uint last[]; };   /* [batch]: the last position of each entry */
layout(std430, binding = 2) readonly buffer Total { uint total[]; }; /* tokens in all */
layout(std430, binding = 3) buffer Flag { uint flag[]; };
layout(push_constant) uniform Push
{
    uint batch, node;
    int tokens, past_room, room;
} p;

void main()
{
    uint b = linear_id();
    if (b >= p.batch) {
        return;
    }
    int all = int(total[0]), here = int(last[b * LAST_WORDS]);
    bool prompt = all == p.tokens;
    int past = prompt ? 0 : here + 1 - p.tokens;
    bool fits = all >= p.tokens && all <= p.room && here >= 0 && here < all && past >= 0 && past <= p.past_room &&
                past + p.tokens <= p.room;
    if (!fits && atomicCompSwap(flag[0], 0u, p.node) == 0u) {
        flag[1] = uint(here);
    }
    y[b] = fits ? uint(past) : 0u;
    if (b == 0u) {
        y[p.batch] = prompt ? 1u : 0u;
    }
}
