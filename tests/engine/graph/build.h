/*
 * build.h - small graphs for tests, and their values: every failure ends the test.
 *
 * Threads: owner.
 */
#ifndef TEST_GRAPH_BUILD_H
#define TEST_GRAPH_BUILD_H

#include "graph/graph.h"
#include "graph/infer.h"
#include "graph/internal.h"

#define DIMS(...)                                                                                                      \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                                         \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define IDS(...)                                                                                                       \
    (uint32_t)(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)), (uint32_t[])                                     \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

struct graph *build_graph(void);
uint32_t build_input(struct graph *g, const char *name, int32_t rank, const int64_t *dims); /* f32 */
uint32_t build_typed_input(struct graph *g, const char *name, enum pen_dtype dtype, int32_t rank, const int64_t *dims);
/* f32 constant filled with a fixed pattern between -1 and 1; `seed` tells apart. */
uint32_t build_weights(struct graph *g, unsigned seed, int32_t rank, const int64_t *dims);
uint32_t build_scalar(struct graph *g, float value);
uint32_t build_list(struct graph *g, int32_t count, const int64_t *items);
/* A node with one output; gives the output's value. */
uint32_t build_node(struct graph *g, enum op op, uint32_t in_count, const uint32_t *in);
/* The node that makes a value. */
uint32_t maker(const struct graph *g, uint32_t value);
void build_output(struct graph *g, uint32_t value);

/* Evaluates the graph with the reference kernels on patterned inputs: the facts of its outputs are known then. */
struct shape_env *run_graph(const struct graph *g);
/* The largest difference between the outputs of two runs, relative to the larger magnitude; fails when shapes differ. */
double compare_outputs(const struct shape_env *a, const struct shape_env *b);
uint32_t count_op(const struct graph *g, enum op op);

#endif
