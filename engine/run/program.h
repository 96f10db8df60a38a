/*
 * program.h - a graph with its placement and plans, and the programs of its subgraphs: what all sessions of a model share.
 *
 * Threads: one-at-a-time while built, any afterwards (immutable).
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "backend/backend.h"

struct constants;
struct program;

/* A subgraph of a control-flow node. */
struct program_child {
    uint32_t node;
    enum attr_key key; /* ATTR_then_branch, ATTR_else_branch, ATTR_body */
    struct program *program;
};

struct program {
    const struct graph *g;
    struct placement_choice
        how; /* strict: nothing falls back to reference kernels, whatever the shapes; watch: constants stay where they lie */
    struct placement *placement;
    struct program_child *children;
    uint32_t child_count;
    struct constants *constants; /* of the model, children alike; NULL: all are there */
    bool *in_step;               /* [node_count] false: dead, or expected to fold in every bucket */
    uint64_t *copied;            /* [node_count] bit i: a plan has its own copy of what constant input i holds */
};

/* how, later: as placement_new; the subgraphs of such nodes wait too. */
enum pen_status program_new(const struct open_backend *backends, uint32_t count, const struct graph *g,
                            struct placement_choice how, const bool *later, struct program **ret_program,
                            struct pen_error *reterr);
void program_free(struct program *p); /* NULL is fine */
/* Index into children, or -1. */
int program_child_find(const struct program *p, uint32_t node, enum attr_key key);
uint64_t program_plan_bytes(const struct program *p);
void program_placement_add(const struct program *p, struct placement *total); /* with its children */

#endif
