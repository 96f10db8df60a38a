/*
 * kept_types.h - which element types the kernels of this build take, where the list of -DPENSTOCK_KERNELS says so.
 *
 * The type of a node is that of its first input; a node without inputs, or of unknown type, is kept.
 * Threads: any (constants).
 */
#ifndef KEPT_TYPES_H
#define KEPT_TYPES_H

#include "graph/graph.h"

enum kept_backend { KEPT_REFERENCE, KEPT_XNNPACK, KEPT_VULKAN };

/* The list has the node's operator for its type and this backend; everything is in a build without a list. */
bool kept_takes(enum kept_backend backend, const struct graph *g, const struct node *n);
/* "Conv f32": the line that a list lacks for this node. Returns text. */
const char *kept_line(const struct graph *g, const struct node *n, char *text, size_t bytes);

#endif
