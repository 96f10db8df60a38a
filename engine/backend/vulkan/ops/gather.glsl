/*
 * gather.glsl - y[o, k..., inner] = x[o, index[k...]..., inner]: Gather, GatherND, GatherElements. Indices are checked: one outside leaves a zero and is
 * reported in `flag`.
 */
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint WORDS = 2;       /* of an index: i64 or i32 */
layout(constant_id = 1) const uint COUNT = 1;       /* indices of one place (GatherND) */
layout(constant_id = 2) const bool ELEMENTS = false; /* GatherElements: an index per element of y */
layout(std430, binding = 0) writeonly buffer Y { ELEMENT y[]; };
layout(std430, binding = 1) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = 2) readonly buffer Index { uint index[]; };
layout(std430, binding = 3) buffer Flag { uint flag[]; };
layout(push_constant) uniform Push
{
    uint n, node;
    uint places, inner;      /* of y: [outer, places, inner]; indices are [places][COUNT] or, when own, [outer][places][COUNT] */
    uint x_outer;            /* elements of x per outer */
    uint own;                /* 1: each outer has indices of its own */
    uint dim[6], step_[6];   /* of the indexed dims of x; ELEMENTS: dim[0] the axis, dim[1..] the shape of y, step_ of x */
    uint rank, axis;
} p;

void main()
{
    uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.n) {
        return;
    }
    uint at = 0, where = i;
    if (ELEMENTS) {
        uint rest = i;
        for (int d = int(p.rank) - 1; d >= 0; d--) {
            uint q = rest / p.dim[d];
            at += d == int(p.axis) ? 0u : (rest - q * p.dim[d]) * p.step_[d];
            rest = q;
        }
    } else {
        uint row = i / p.inner, outer = row / p.places, place = row - outer * p.places;
        at = outer * p.x_outer + (i - row * p.inner);
        where = (p.own == 1u ? outer * p.places + place : place) * COUNT;
    }
    for (uint k = 0; k < COUNT; k++) {
        int v = int(index[(where + k) * WORDS]);
        int dim = int(ELEMENTS ? p.places : p.dim[k]);
        bool wide = WORDS == 2u && int(index[(where + k) * WORDS + 1u]) != v >> 31;
        int w = v < 0 ? v + dim : v;
        if (wide || w < 0 || w >= dim) {
            if (atomicCompSwap(flag[0], 0u, p.node) == 0u) {
                flag[1] = uint(v);
            }
            y[i] = ELEMENT(0);
            return;
        }
        at += uint(w) * p.step_[ELEMENTS ? p.axis : k];
    }
    y[i] = x[at];
}
