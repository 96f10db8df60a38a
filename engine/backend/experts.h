/*
 * experts.h - mixture of experts: each row goes through the k experts whose router says the most, and their answers are added by weight. Shared by the CPU
 * backends.
 *
 * Source: ONNX Runtime's contrib operator MoE.
 * Threads: any.
 */
#ifndef EXPERTS_H
#define EXPERTS_H

#include "graph/graph.h"
#include "graph/infer.h"

enum expert_act { EXPERT_RELU, EXPERT_GELU, EXPERT_SILU, EXPERT_IDENTITY, EXPERT_SWIGLU };

typedef float (*expert_dot)(const float *a, const float *b, size_t n);

struct experts {
    size_t rows, count, k; /* rows of x; experts; how many of them each row asks */
    size_t hidden, inter,
        first; /* width of x; between the layers; rows of the first layer (2 * inter when gates stand there) */
    enum expert_act act;
    bool normalise, interleaved;              /* weights that add up to 1; gate, value, gate, value ... */
    float alpha, beta, limit;                 /* of swiglu; limit: INFINITY = none */
    const float *w1, *b1, *w2, *b2, *w3, *b3; /* [count, out, in], [count, out]; NULL where there is none */
    expert_dot dot;
};

/* x, router, w1, b1, w2, b2, w3, b3 as facts (NULL: left out). False with a phrase when they do not fit each other. */
bool experts_of(const struct node *n, const struct shape *const shapes[8], struct experts *ret,
                const char **ret_reason);
size_t experts_scratch(const struct experts *e); /* floats that a row needs */
/* x [hidden], router [count] -> y [hidden] */
void experts_row(const struct experts *e, const float *x, const float *router, float *scratch, float *y);

#endif
