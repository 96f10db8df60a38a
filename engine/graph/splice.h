/*
 * splice.h - a subgraph's values and nodes copied into the graph around it.
 *
 * Threads: one-at-a-time.
 */
#ifndef SPLICE_H
#define SPLICE_H

#include "graph/graph.h"

/* What becomes of the body's own subgraphs. MOVE: they are those of the copy; the body is of no more use. */
enum splice_nested { SPLICE_COPY, SPLICE_MOVE };

/* in: [body->input_count] values of g that stand for the body's inputs. ret_out: [body->output_count] values of g. */
enum pen_status splice_body(struct graph *g, struct graph *body, const uint32_t *in, enum splice_nested nested,
                            uint32_t *ret_out);

#endif
