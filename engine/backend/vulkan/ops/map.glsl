/*
 * map.glsl - y[i0, i1...] = x[t0[i0], t1[i1]...] by a table per dim; -1 in a table means outside: the pad value. ELEMENT is the type.
 */
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint RANK = 1;
layout(std430, binding = 0) writeonly buffer Y { ELEMENT y[]; };
layout(std430, binding = 1) readonly buffer X { ELEMENT x[]; };
layout(std430, binding = 2) readonly buffer Table { int table[]; };
layout(std430, binding = 3) readonly buffer Pad { ELEMENT pad[]; };
layout(push_constant) uniform Push
{
    uint n, words;                     /* words: of the pad value that is given; 0 = zeros */
    uint dim[7], x_step[7], table_at[7];
} p;

void main()
{
    uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.n) {
        return;
    }
    uint at = 0, rest = i;
    bool inside = true;
    for (int d = int(RANK) - 1; d >= 0; d--) {
        uint q = rest / p.dim[d], c = rest - q * p.dim[d];
        rest = q;
        int from = table[p.table_at[d] + c];
        inside = inside && from >= 0;
        at += uint(max(from, 0)) * p.x_step[d];
    }
    if (inside) {
        y[i] = x[at];
    } else if (p.words > 0u) {
        y[i] = pad[i % p.words];
    } else {
        y[i] = ELEMENT(0);
    }
}
