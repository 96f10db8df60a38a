/*
 * annotate.h - writes what inference knows into the graph's values: kind, element type, shape, also in subgraphs.
 *
 * Threads: one-at-a-time.
 */
#ifndef ANNOTATE_H
#define ANNOTATE_H

#include "graph/infer.h"

/* Importers call it last, passes after their rewrites. Contradictory shapes are an error, except inside subgraphs. */
enum pen_status graph_annotate(struct graph *g, struct pen_error *reterr);

#endif
