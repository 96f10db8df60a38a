/*
 * sketch.h - small graphs for the tests of joined nodes: drawn in a few calls, run by reference and by the backend under test, compared.
 *
 * Threads: a test's only one.
 */
#ifndef SKETCH_H
#define SKETCH_H

#include <math.h>
#include <string.h>

#include <criterion/criterion.h>

#include "written.h"

#define INPUTS 4
#define ROOM   200000 /* elements of an input or a constant */

/* Depth and width of the products. */
#define K 37
#define N 45

/* A graph of f32 inputs "a", "b", ... and the output "y". */
struct sketch {
    struct onnx_writer *w;
    uint32_t ranks[INPUTS];
    int64_t dims[INPUTS][4];
    size_t inputs;
    uint32_t seed;
};

typedef void (*sketch_fn)(struct sketch *s);

/* What the xnnpack engine is asked for. */
struct sketch_asked {
    enum pen_precision precision;
    enum pen_isa isa_max;
};
extern struct sketch_asked sketch_asked;
extern struct pen_explain *sketch_rows; /* what the last engine says of its nodes; the suite makes and frees it */

/* ---- drawing: each gives the name of its value ---- */

float sketch_random(uint32_t *seed); /* -1 to 1 */
const char *sketch_input(struct sketch *s, uint32_t rank, const int64_t *dims);
const char *sketch_constant(struct sketch *s, const char *name, uint32_t rank, const int64_t *dims, float scale);
const char *sketch_scalar(struct sketch *s, const char *name, float value);
const char *sketch_pair(struct sketch *s, const char *op, const char *a, const char *b);
const char *sketch_one(struct sketch *s, const char *op, const char *a);
const char *sketch_turned(struct sketch *s, const char *x, size_t rank, const int64_t *perm);
const char *sketch_softmax(struct sketch *s, const char *x, int64_t axis);
void sketch_output(struct sketch *s, const char *x, uint32_t rank);
/* x w + bias; names: of w [k, n] and bias [n]. */
const char *sketch_linear(struct sketch *s, const char *x, const char *const names[2], int64_t k, int64_t n);
extern const char *const sketch_first[2], *const sketch_second[2]; /* such names */

/* ---- running ---- */

void sketch_run(sketch_fn draw, const char *backend, uint32_t threads, struct written *w);
bool sketch_row_says(const char *text);
void sketch_expect_reason(const char *text);
/* The largest difference of two answers over the range of the second. */
double sketch_distance(const struct written *a, const struct written *b);
/* The numbers of reference, with 1 and 2 threads bit for bit, and so many nodes that others' steps do. */
void sketch_check(sketch_fn draw, size_t want);
/* The same on a GPU, if there is one; 0: whatever else its nodes join. */
void sketch_check_gpu(sketch_fn draw, size_t want);

/* A process has one limit for XNNPACK's kernels: each set of vectors is a test of its own. */
#define WITH_EACH_ISA(name, check)                                                                                     \
    Test(fusion, name)                                                                                                 \
    {                                                                                                                  \
        check(PEN_ISA_ANY);                                                                                            \
    }                                                                                                                  \
    Test(fusion, name##_in_avx512)                                                                                     \
    {                                                                                                                  \
        check(PEN_ISA_AVX512);                                                                                         \
    }                                                                                                                  \
    Test(fusion, name##_in_avx2)                                                                                       \
    {                                                                                                                  \
        check(PEN_ISA_AVX2);                                                                                           \
    }                                                                                                                  \
    Test(fusion, name##_in_plain_c)                                                                                    \
    {                                                                                                                  \
        check(PEN_ISA_PLAIN);                                                                                          \
    }

#endif
