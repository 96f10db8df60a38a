/*
 * pass_promote.h - computes 16-bit float models in float32 between their inputs and outputs, as the field's CPU runtimes do: no CPU here is faster in f16, and
 * rounding after every operator loses digits (squeezenet11_fp16: 5e-4 of the output's range without it, bench none).
 *
 * Threads: one-at-a-time.
 */
#ifndef PASS_PROMOTE_H
#define PASS_PROMOTE_H

#include "graph/graph.h"

/*
 * Constants become float32; inputs and outputs keep their type behind a Cast. Graphs with subgraphs, sequences, quantisation or BitCast are left alone:
 * g->narrow names those nodes, and the model's placement says so. *ret_count = values promoted. The graph must be verified again afterwards.
 */
enum pen_status pass_promote(struct graph *g, uint32_t *ret_count);

#endif
