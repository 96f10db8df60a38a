/*
 * copy.glsl - a box of elements from one strided place to another: transpose, slice, concat, split, expand, tile, depth to space. ELEMENT is the type.
 */
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint RANK = 1;
layout(std430, binding = 0) writeonly buffer Y { ELEMENT y[]; };
layout(std430, binding = 1) readonly buffer X { ELEMENT x[]; };
layout(push_constant) uniform Push
{
    uint n, x_at, y_at;
    uint dim[8];
    int x_step[8]; /* negative: a slice backwards */
    uint y_step[8];
} p;

void main()
{
    uint i = (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.n) {
        return;
    }
    uint from = p.x_at, to = p.y_at, rest = i;
    for (int k = int(RANK) - 1; k >= 0; k--) {
        uint q = k > 0 ? rest / p.dim[k] : 0u, c = k > 0 ? rest - q * p.dim[k] : rest;
        rest = q;
        from += uint(int(c) * p.x_step[k]);
        to += c * p.y_step[k];
    }
    y[to] = x[from];
}
