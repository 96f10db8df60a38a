/*
 * askew.h - constants that lie in the model's file where their dtype may not be read, and what of the file may leave memory.
 *
 * Files of ONNX begin tensors at any byte. A large one that only products and Gather read stays in the file: plans pack it from there, and nobody holds a copy.
 * Such a constant is *askew*: its data is good for memcpy and not for a pointer to its dtype. Whoever reads it otherwise calls graph_align() before. Plans
 * do it for all inputs but those that the backend says it can take (backend.h); release.h does it for what is left.
 * Threads: one-at-a-time, before anybody else sees the graph.
 */
#ifndef GRAPH_ASKEW_H
#define GRAPH_ASKEW_H

#include "graph/graph.h"

#define ASKEW_BYTES ((size_t)64 << 10) /* a smaller constant is copied by the reader of its file */

bool value_is_askew(const struct value *v);
/* Its dtype's alignment; of complex numbers that of a part. */
size_t value_alignment(enum pen_dtype dtype);

/* For importers, when all nodes are there: what others than MatMul, Gemm and Conv (weights) and Gather (data) read is aligned, in g and its subgraphs. */
enum pen_status graph_askew_settle(struct graph *g);
/* The value's data is a copy in the graph's arena from now on, if it was askew. VALUE_NONE is fine. PEN_ERR_NO_MEMORY also where the limit is reached. */
enum pen_status graph_align(const struct graph *g, uint32_t value);
enum pen_status graph_align_inputs(const struct graph *g, const struct node *n);
/* All of g and its subgraphs. */
enum pen_status graph_align_all(const struct graph *g);

/* Pages of the file that only this value's data fills need not stay in memory: they come back when somebody reads them. */
void graph_cool(const struct graph *g, uint32_t value);
/* g's constants may lie in this mapped file, which outlives it. */
enum pen_status graph_file_add(struct graph *g, const void *file, size_t bytes);

#endif
