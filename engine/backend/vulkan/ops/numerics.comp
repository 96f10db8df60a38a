#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

/* Debug mode: what a node has made, looked at on the device. stats[4 slot ...] = { NaN, infinities, bits of the largest finite |x|, values }. */
layout(local_size_x = LOCAL) in;
layout(std430, binding = 0) readonly buffer X { REAL x[]; };
layout(std430, binding = 1) buffer S { uint stats[]; };
layout(push_constant) uniform Push { uint n, slot; } p;

#define EACH 16u /* values of an invocation: fewer atomics */

void main()
{
    uint nan = 0u, infinite = 0u, largest = 0u, at = linear_id() * EACH;
    for (uint i = at; i < min(at + EACH, p.n); i++) {
        uint bits = floatBitsToUint(float(x[i])) & 0x7FFFFFFFu;
        nan += bits > 0x7F800000u ? 1u : 0u;
        infinite += bits == 0x7F800000u ? 1u : 0u;
        largest = bits < 0x7F800000u ? max(largest, bits) : largest;
    }
    if (at >= p.n) {
        return;
    }
    if (nan > 0u) {
        atomicAdd(stats[4u * p.slot], nan);
    }
    if (infinite > 0u) {
        atomicAdd(stats[4u * p.slot + 1u], infinite);
    }
    atomicMax(stats[4u * p.slot + 2u], largest);
    atomicAdd(stats[4u * p.slot + 3u], min(EACH, p.n - at));
}
