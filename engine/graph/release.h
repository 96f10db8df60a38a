/*
 * release.h - gives back the memory of constants that nobody reads any more: what passes replaced, and what plans have copied.
 *
 * Memory goes back by blocks (arena.h): one goes when no constant that is needed lies in it, whatever other constants share it. A graph and all subgraphs that
 * its live nodes reach are looked at together; call it for the root.
 * Threads: one-at-a-time; no session of the model exists yet.
 */
#ifndef RELEASE_H
#define RELEASE_H

#include "graph/graph.h"

/* Between passes: constants that no live node and no output uses lose their data, and blocks that only they used are freed. */
enum pen_status graph_trim(struct graph *g);

/* Says whether whoever runs `node` of g reads the contents of its constant input `input` after planning. */
typedef bool (*release_reader)(void *context, const struct graph *g, uint32_t node, uint32_t input);

struct release_sums {
    uint64_t weights_bytes; /* of all constants that are used, each block and each place in the model's file once */
    uint64_t kept_bytes;    /* of those that are still read */
};

/* After planning: blocks whose constants nobody reads are sealed, the constants in them marked `released`. Outputs and tensor attributes are always read. */
enum pen_status graph_release(struct graph *g, release_reader reads, void *context, struct release_sums *ret_sums);

/* The released constants get their contents back from `again`, the same file read and optimised once more. PEN_ERR_CORRUPT when it is not the same. */
enum pen_status graph_restore(struct graph *g, const struct graph *again);

#endif
