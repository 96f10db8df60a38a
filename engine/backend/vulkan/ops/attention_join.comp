#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "attention.glsl"

/* Adds what each piece of the keys made: an invocation has a column of a row; y is the head, z the entry of the batch. */
layout(local_size_x = 64) in;

void main()
{
    uint item = gl_GlobalInvocationID.x, query = item / p.value_size, column = item % p.value_size;
    uint head = gl_WorkGroupID.y, b = gl_WorkGroupID.z, rows = gl_NumWorkGroups.z * p.heads * p.queries;
    uint wide = p.value_size + 2u, at = ((b * p.heads + head) * p.queries + query) * wide;
    if (query >= p.queries) {
        return;
    }
    float top = -INFINITY, total = 0.0, sum = 0.0;
    for (uint piece = 0; piece < PIECES; piece++) {
        top = larger(top, parts[piece * rows * wide + at + p.value_size]);
    }
    for (uint piece = 0; piece < PIECES; piece++) {
        uint from = piece * rows * wide + at;
        float most = parts[from + p.value_size], by = most == -INFINITY ? 0.0 : exp_f(most - top);
        total += parts[from + p.value_size + 1u] * by;
        sum += parts[from + column] * by;
    }
    y[b * p.y_step[0] + head * p.y_step[1] + query * p.y_step[2] + column * p.y_step[3]] =
        TO_REAL(sum * share_of_all(top, total, head, top == -INFINITY));
}
