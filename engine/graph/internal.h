/*
 * internal.h - what the files of graph/ and the importers share beyond graph.h.
 *
 * Threads: one-at-a-time.
 */
#ifndef GRAPH_INTERNAL_H
#define GRAPH_INTERNAL_H

#include "graph/graph.h"

/* A subgraph in its root's list. */
struct graph_family {
    struct graph graph;
    struct graph_family *next;
};

enum pen_status graph_input_add(struct graph *g, uint32_t value);
enum pen_status graph_output_add(struct graph *g, uint32_t value);

/* Sorts nodes so that producers come first, stably; dead ones are dropped. On a cycle PEN_ERR_INVALID and a node of it in *ret_node. */
enum pen_status graph_sort(struct graph *g, uint32_t *ret_node);

/*
 * Who uses what, for a pass that rewrites many nodes: built once, kept true by uses_*. Chains of (node, input) per value.
 */
struct uses {
    struct graph *g;
    uint32_t *head;  /* [value_room] first link of a value, UINT32_MAX = none */
    uint32_t *count; /* [value_room] consumers + 1 per graph output */
    uint32_t value_room;
    struct use_link {
        uint32_t node, input, next;
    } * links;
    uint32_t link_count, link_room;
};
enum pen_status uses_init(struct uses *u, struct graph *g);
void uses_fini(struct uses *u);
enum pen_status uses_add(struct uses *u, uint32_t node); /* a node appended after uses_init */
uint32_t uses_count(const struct uses *u, uint32_t value);
/* The only consumer, NODE_NONE when there are none, several, or a graph output among them. */
uint32_t uses_single(const struct uses *u, uint32_t value);
/* Iterates consumers: start with UINT32_MAX in *link; NODE_NONE at the end. Live nodes that still use the value only. */
uint32_t uses_next(const struct uses *u, uint32_t value, uint32_t *link, uint32_t *ret_input);
enum pen_status uses_replace(struct uses *u, uint32_t from, uint32_t to); /* as graph_replace */
enum pen_status uses_set(struct uses *u, uint32_t node, uint32_t input, uint32_t to);
void uses_kill(struct uses *u, uint32_t node); /* as graph_kill; its outputs must be unused or replaced */
/* Output `index` of `node` becomes `value`, which must have no producer; the old output value is left without one. */
void graph_move_output(struct graph *g, uint32_t node, uint32_t index, uint32_t value);

#endif
