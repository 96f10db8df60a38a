#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "rnn.glsl"

/*
 * One step of a GRU behind its products: gates z, r, h. RESET only makes r * state, for the product of the h gate; otherwise the new state, where `n` is that
 * product (AFTER: of the state itself, the reset applied here).
 */
layout(local_size_x = LOCAL) in;
layout(constant_id = 0) const uint F = 0;
layout(constant_id = 1) const float FA = 0.0;
layout(constant_id = 2) const float FB = 0.0;
layout(constant_id = 3) const uint G = 1;
layout(constant_id = 4) const float GA = 0.0;
layout(constant_id = 5) const float GB = 0.0;
layout(constant_id = 6) const bool RESET = false;
layout(constant_id = 7) const bool AFTER = false;
layout(constant_id = 8) const float CLIP = 0.0;
layout(constant_id = 9) const bool OUT = true;
layout(std430, binding = 0) writeonly buffer Y { REAL y[]; };
layout(std430, binding = 1) readonly buffer X { REAL x[]; };  /* [steps, batch, 3 hidden] */
layout(std430, binding = 2) readonly buffer R { REAL r[]; };  /* [batch, 2 hidden] */
layout(std430, binding = 3) readonly buffer N { REAL n[]; };  /* [batch, hidden] */
layout(std430, binding = 4) buffer S { REAL state[]; };
layout(std430, binding = 5) writeonly buffer T { REAL reset[]; };
layout(push_constant) uniform Push { uint batch, hidden, step_, y_at; } p;

float clipped(float v)
{
    return CLIP > 0.0 ? clamp(v, -CLIP, CLIP) : v;
}

void main()
{
    uint id = linear_id();
    if (id >= p.batch * p.hidden) {
        return;
    }
    uint b = id / p.hidden, j = id - b * p.hidden;
    uint xs = (p.step_ * p.batch + b) * 3u * p.hidden + j, rs = b * 2u * p.hidden + j;
    float h = float(state[id]);
    float r_gate = gate(F, clipped(float(x[xs + p.hidden]) + float(r[rs + p.hidden])), FA, FB);
    if (RESET) {
        reset[id] = TO_REAL(r_gate * h);
        return;
    }
    float z = gate(F, clipped(float(x[xs]) + float(r[rs])), FA, FB);
    float inner = float(n[id]) * (AFTER ? r_gate : 1.0);
    float fresh = gate(G, clipped(float(x[xs + 2u * p.hidden]) + inner), GA, GB);
    h = (1.0 - z) * fresh + z * h;
    state[id] = TO_REAL(h);
    if (OUT) {
        y[p.y_at + id] = TO_REAL(h);
    }
}
