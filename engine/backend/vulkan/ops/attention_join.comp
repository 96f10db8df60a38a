#version 450
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "math.glsl"
#include "attention.glsl"

/* Adds what each piece of the keys made: an invocation has a column of a row. */
layout(local_size_x = 64) in;

void main()
{
    uint item = linear_id(), row = item / p.value_size, column = item % p.value_size;
    uint wide = p.value_size + 2u, rows = uint(p.q_at), at = row * wide;
    if (row >= rows) {
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
    uint head = row / p.queries % p.heads, b = row / (p.queries * p.heads);
    y[b * p.y_step[0] + head * p.y_step[1] + row % p.queries * p.y_step[2] + column * p.y_step[3]] =
        TO_REAL(sum * share_of_all(top, total, head, top == -INFINITY));
}
