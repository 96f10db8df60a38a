#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "rnn.glsl"

/* One step of an LSTM behind its two products: gates i, o, f, c (ONNX's order), an element of the state per invocation. */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint F = 0;
layout(constant_id = 1) const float FA = 0.0;
layout(constant_id = 2) const float FB = 0.0;
layout(constant_id = 3) const uint G = 1;
layout(constant_id = 4) const float GA = 0.0;
layout(constant_id = 5) const float GB = 0.0;
layout(constant_id = 6) const uint H = 1;
layout(constant_id = 7) const float HA = 0.0;
layout(constant_id = 8) const float HB = 0.0;
layout(constant_id = 9) const bool PEEP = false;
layout(constant_id = 10) const float CLIP = 0.0;      /* of what goes into activations; 0 = none */
layout(constant_id = 11) const float CELL_CLIP = 0.0;
layout(constant_id = 12) const bool OUT = true;       /* the sequence of states is wanted */
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };   /* [steps, batch, 4 hidden] */
layout(std430, binding = 2) readonly buffer R { REAL r[]; };   /* [batch, 4 hidden] */
layout(std430, binding = 3) writeonly buffer S { REAL state[]; };
layout(std430, binding = 4) buffer C { REAL cell[]; };
layout(std430, binding = 5) readonly buffer P { REAL peep[]; }; /* [3 hidden]: i, o, f */
layout(push_constant) uniform Push { uint batch, hidden, step_, y_at, first, peep_at; } p;

float clipped(float v)
{
    return CLIP > 0.0 ? clamp(v, -CLIP, CLIP) : v;
}

float sum_of(uint b, uint j, uint g)
{
    uint at = b * 4u * p.hidden + g * p.hidden + j;
    return float(x[p.step_ * p.batch * 4u * p.hidden + at]) + (p.first == 1u ? 0.0 : float(r[at]));
}

void main()
{
    uint id = linear_id();
    if (id >= p.batch * p.hidden) {
        return;
    }
    uint b = id / p.hidden, j = id - b * p.hidden, pj = p.peep_at + j;
    float c = p.first == 1u ? 0.0 : float(cell[id]);
    float pi = PEEP ? float(peep[pj]) : 0.0, po = PEEP ? float(peep[pj + p.hidden]) : 0.0,
          pf = PEEP ? float(peep[pj + 2u * p.hidden]) : 0.0;
    float i = gate(F, clipped(sum_of(b, j, 0u) + pi * c), FA, FB);
    float f = gate(F, clipped(sum_of(b, j, 2u) + pf * c), FA, FB);
    float n = gate(G, clipped(sum_of(b, j, 3u)), GA, GB);
    c = f * c + i * n;
    c = CELL_CLIP > 0.0 ? clamp(c, -CELL_CLIP, CELL_CLIP) : c;
    float o = gate(F, clipped(sum_of(b, j, 1u) + po * c), FA, FB);
    float h = o * gate(H, c, HA, HB);
    cell[id] = TO_REAL(c);
    state[id] = TO_REAL(h);
    if (OUT) {
        y[p.y_at + id] = TO_REAL(h);
    }
}
